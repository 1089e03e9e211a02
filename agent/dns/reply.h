/*
 * Which records answer a query: the policy between names and messages. Pure.
 *
 *   outside the domain                 REFUSED, so that resolvers ask the next server
 *   the name does not exist            NXDOMAIN, with the SOA record
 *   it has nothing of the type         no error and no answer (NODATA), with the SOA record
 *   it cannot be known at the moment   SERVFAIL, with an extended error
 *   the answer is stale                the answer, with stale_ttl and an extended error
 *   it is an alias                     CNAME for every type, with the answer of another server if
 *                                      one was asked
 */
#ifndef AGENT_DNS_REPLY_H
#define AGENT_DNS_REPLY_H

#include "agent/dns/message.h"
#include "agent/names/names.h"

struct dns_reply_options {
	const char *domain;
	uint32_t ttl_s; /* already stale_ttl when the answer is stale */
	uint32_t serial;
	bool stale;
	bool recursion_available;
	unsigned rotation; /* where lists of equal records begin */
	const char *near;  /* a zone: targets have priorities by nearness to it; NULL: their own */
	const char *why;   /* text of the extended error, or NULL */
	/* NULL, or what another server says of the name that the alias leads to. */
	const uint8_t *beyond;
	size_t beyond_len;
};

/* False for a class other than IN and ANY, and for a transfer of the zone, which are refused. */
bool dns_reply_may_answer(const struct dns_query *query);

/* Writes the reply to `query` from `answer` into `data` (`max` bytes) and returns its length. */
size_t dns_reply_write(uint8_t *data, size_t max, const struct dns_query *query,
	const struct names_answer *answer, const struct dns_reply_options *options);

/* A reply with just a code: for queries that are malformed, refused or failed. */
size_t dns_reply_write_code(uint8_t *data, size_t max, const struct dns_query *query, int rcode,
	enum dns_extended_error error, bool recursion_available);

/* The length of a reply that has nothing but the question. */
size_t dns_reply_bare_len(const struct dns_query *query);

/* Writes such a reply with TC, so that its client asks over TCP; `data` has DNS_UDP_BYTES. */
size_t dns_reply_write_cut(uint8_t *data, const struct dns_query *query, bool recursion_available);

#endif
