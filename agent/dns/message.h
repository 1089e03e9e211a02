/*
 * DNS messages: a query in, a reply out; no I/O and no state. Built on libc's ns_* functions.
 *
 * The struct of a query suffices to write every reply to it. The writer appends record by record to
 * the caller's memory. A record that does not fit is left out whole; in the answer section that
 * also sets TC, so that the client asks again over TCP and in the meantime has a usable part.
 */
#ifndef AGENT_DNS_MESSAGE_H
#define AGENT_DNS_MESSAGE_H

#include <arpa/nameser.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_UDP_BYTES 512   /* bytes of a reply to a client without EDNS */
#define DNS_EDNS_BYTES 1232 /* of any reply over UDP: fits every path without fragments */
#define DNS_TCP_BYTES 65535
#define DNS_OPT_BYTES 11 /* of an OPT record without options */

#define DNS_CLASS_ANY 255
#define DNS_RCODE_BADVERS 16

/* Extended DNS errors (RFC 8914). */
enum dns_extended_error {
	DNS_EDE_NONE = -1,
	DNS_EDE_STALE_ANSWER = 3,
	DNS_EDE_STALE_NXDOMAIN = 19,
	DNS_EDE_NOT_AUTHORITATIVE = 20,
	DNS_EDE_NO_REACHABLE_AUTHORITY = 22,
	DNS_EDE_NETWORK_ERROR = 23
};

struct dns_query {
	uint16_t id;
	uint8_t opcode;
	bool recursion_desired;
	bool has_question;
	char name[NS_MAXDNAME]; /* as text; the root is "" */
	uint16_t type;
	uint16_t class;
	uint8_t question[NS_MAXCDNAME + NS_QFIXEDSZ]; /* as asked */
	size_t question_len;
	bool edns;
	bool dnssec_ok;
	uint16_t payload; /* bytes that the client accepts over UDP */
};

/* The reader's verdict on a packet. */
enum dns_verdict {
	DNS_ANSWER, /* a query */
	DNS_REJECT, /* a query that cannot be answered: a reply with *ret_rcode */
	DNS_DROP    /* nothing that may be answered: too short, or itself a reply */
};

enum dns_verdict dns_query_read(
	struct dns_query *ret_query, const uint8_t *data, size_t len, int *ret_rcode);

/* How large a reply to this query may be. */
size_t dns_reply_limit(const struct dns_query *query, bool tcp);

/*
 * True when the packet is a reply to a query with this id and question: a forwarder checks this
 * before it believes a reply.
 */
bool dns_reply_matches(const uint8_t *data, size_t len, uint16_t id, const struct dns_query *query);

/*
 * True when two packets of that length are the same query but for the id and the case of the name;
 * dns_query_read() has accepted both, with a question of `question_len` bytes.
 */
bool dns_packets_ask_the_same(const uint8_t *a, const uint8_t *b, size_t len, size_t question_len);

/*
 * Writes a query for `name` with recursion desired, and reads it back into *ret_query. Returns its
 * length; 0 when the name cannot be asked for.
 */
size_t dns_query_write(
	struct dns_query *ret_query, uint8_t data[NS_PACKETSZ], const char *name, uint16_t type);

/* ---- writing ---- */

struct dns_writer {
	uint8_t *data;
	size_t max; /* bytes for records, without the OPT record's */
	size_t len;
	const struct dns_query *query;
	const uint8_t *names[64]; /* for compression; dn_comp() fills it */
	uint16_t counts[4];       /* records of each section */
	int section;              /* 1 answer, 2 authority, 3 additional */
	bool full;                /* the section takes no more */
	bool truncated;           /* a record of the answer section was left out */
	enum dns_extended_error extended_error;
	const char *extra_text; /* the text of the extended error; borrowed */
};

/* Starts a reply in `data`, which has room for `max` bytes: at least DNS_UDP_BYTES. */
void dns_writer_start(
	struct dns_writer *writer, uint8_t *data, size_t max, const struct dns_query *query);
/*
 * Gives the reason for an answer that the client may not expect; call it before any record. `text`
 * may be NULL.
 */
void dns_writer_explain(struct dns_writer *writer, enum dns_extended_error error, const char *text);
/* The records that follow belong to the authority or the additional section. */
void dns_writer_section(struct dns_writer *writer, ns_sect section);

/* Each adds one record, if it fits; `name` NULL is the question's. */
void dns_write_address(struct dns_writer *writer, const char *name, uint32_t ttl, int family,
	const uint8_t *bytes);
/* CNAME, PTR and NS. */
void dns_write_name(struct dns_writer *writer, const char *name, uint16_t type, uint32_t ttl,
	const char *target);
void dns_write_srv(struct dns_writer *writer, uint32_t ttl, uint16_t priority, uint16_t weight,
	uint16_t port, const char *target);
void dns_write_txt(struct dns_writer *writer, uint32_t ttl, const char *text);
/* The answer to ANY (RFC 8482). */
void dns_write_hinfo(struct dns_writer *writer, uint32_t ttl);

/* The data of an SOA record. */
struct dns_soa {
	const char *server;
	const char *mailbox;
	uint32_t serial;
	uint32_t refresh_s; /* this and the next two are for secondaries */
	uint32_t retry_s;
	uint32_t expire_s;
	uint32_t negative_ttl_s;
};
void dns_write_soa(
	struct dns_writer *writer, const char *name, uint32_t ttl, const struct dns_soa *soa);

/*
 * Adds the aliases and addresses of the answer section of another server's reply, which
 * dns_reply_matches() has accepted. A reply that breaks off gives what comes before.
 */
void dns_write_answers_of(struct dns_writer *writer, const uint8_t *data, size_t len);

/* Writes header and OPT record; returns the length of the reply. */
size_t dns_writer_finish(
	struct dns_writer *writer, int rcode, bool authoritative, bool recursion_available);

#endif
