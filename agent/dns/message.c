#include "agent/dns/message.h"

#include <netinet/in.h>
#include <resolv.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/array.h"

#define HEADER_BYTES NS_HFIXEDSZ
#define OPTION_BYTES 6 /* bytes of an extended error without text */
#define MAX_EXTRA_TEXT_BYTES 64
#define EDE_OPTION 15
#define COMPRESSED 0xc0
#define POINTER_TO_QUESTION (0xc000 | HEADER_BYTES)

#define FLAG_QR 0x8000
#define FLAG_AA 0x0400
#define FLAG_TC 0x0200
#define FLAG_RD 0x0100
#define FLAG_RA 0x0080
#define OPCODE_SHIFT 11
#define OPCODE(flags) (((flags) >> OPCODE_SHIFT) & 15)

/* ---- reading ---- */

static uint16_t get16(const uint8_t *data)
{
	return (uint16_t)(data[0] << 8 | data[1]);
}

/* The length of the question's name on the wire; 0 when it is cut off or compressed. */
static size_t wire_name_len(const uint8_t *name, const uint8_t *end)
{
	const uint8_t *at = name;
	while (at < end && *at != 0) {
		if ((*at & COMPRESSED) || at + *at + 1 - name >= NS_MAXCDNAME) {
			return 0;
		}
		at += *at + 1;
	}
	return at < end ? (size_t)(at + 1 - name) : 0;
}

static bool read_question(struct dns_query *query, ns_msg *message)
{
	ns_rr question;
	const uint8_t *name = ns_msg_base(*message) + HEADER_BYTES;
	size_t name_len = wire_name_len(name, ns_msg_end(*message));
	if (name_len == 0 || ns_parserr(message, ns_s_qd, 0, &question) != 0) {
		return false;
	}
	const char *text = ns_rr_name(question);
	strcpy(query->name, strcmp(text, ".") == 0 ? "" : text);
	query->type = (uint16_t)ns_rr_type(question);
	query->class = (uint16_t)ns_rr_class(question);
	query->question_len = name_len + NS_QFIXEDSZ;
	memcpy(query->question, name, query->question_len);
	query->has_question = true;
	return true;
}

/* NOERROR, FORMERR or BADVERS. */
static int read_edns(struct dns_query *query, ns_msg *message)
{
	for (int i = 0; i < ns_msg_count(*message, ns_s_ar); i++) {
		ns_rr record;
		if (ns_parserr(message, ns_s_ar, i, &record) != 0) {
			return ns_r_formerr;
		}
		if (ns_rr_type(record) != ns_t_opt) {
			continue;
		}
		const char *owner = ns_rr_name(record);
		if (query->edns || (owner[0] != '\0' && strcmp(owner, ".") != 0)) {
			return ns_r_formerr;
		}
		query->edns = true;
		query->payload = (uint16_t)ns_rr_class(record);
		query->dnssec_ok = ns_rr_ttl(record) & NS_OPT_DNSSEC_OK;
		if ((ns_rr_ttl(record) >> 16 & 0xff) != 0) {
			return DNS_RCODE_BADVERS;
		}
	}
	return ns_r_noerror;
}

static int read_sections(struct dns_query *query, const uint8_t *data, size_t len)
{
	ns_msg message;
	if (ns_initparse(data, (int)len, &message) != 0 || ns_msg_count(message, ns_s_qd) != 1 ||
		ns_msg_count(message, ns_s_an) != 0 || !read_question(query, &message)) {
		return ns_r_formerr;
	}
	/* A client that wants the changes of a zone says which version it has. */
	if (ns_msg_count(message, ns_s_ns) > (query->type == ns_t_ixfr ? 1 : 0)) {
		return ns_r_formerr;
	}
	return read_edns(query, &message);
}

enum dns_verdict dns_query_read(
	struct dns_query *ret_query, const uint8_t *data, size_t len, int *ret_rcode)
{
	if (len < HEADER_BYTES || len > DNS_TCP_BYTES) {
		return DNS_DROP;
	}
	uint16_t flags = get16(data + 2);
	if (flags & FLAG_QR) {
		return DNS_DROP;
	}
	*ret_query = (struct dns_query){ .id = get16(data),
		.opcode = OPCODE(flags),
		.recursion_desired = flags & FLAG_RD,
		.payload = DNS_UDP_BYTES };
	int rcode = ret_query->opcode == ns_o_query ? read_sections(ret_query, data, len)
						    : ns_r_notimpl;
	if (rcode != ns_r_noerror) {
		*ret_rcode = rcode;
		return DNS_REJECT;
	}
	return DNS_ANSWER;
}

size_t dns_reply_limit(const struct dns_query *query, bool tcp)
{
	if (tcp) {
		return DNS_TCP_BYTES;
	}
	if (!query->edns || query->payload < DNS_UDP_BYTES) {
		return DNS_UDP_BYTES;
	}
	return query->payload < DNS_EDNS_BYTES ? query->payload : DNS_EDNS_BYTES;
}

static uint8_t lower(uint8_t c)
{
	return (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool is_same_question(const uint8_t *a, const uint8_t *b, size_t len)
{
	/* Length bytes are below 64, so they are not letters. */
	for (size_t i = 0; i < len; i++) {
		if (lower(a[i]) != lower(b[i])) {
			return false;
		}
	}
	return true;
}

bool dns_reply_matches(const uint8_t *data, size_t len, uint16_t id, const struct dns_query *query)
{
	ns_msg message;
	if (len < HEADER_BYTES + query->question_len || len > DNS_TCP_BYTES || get16(data) != id ||
		!(get16(data + 2) & FLAG_QR) || get16(data + 4) != 1) {
		return false;
	}
	return is_same_question(data + HEADER_BYTES, query->question, query->question_len) &&
		ns_initparse(data, (int)len, &message) == 0;
}

bool dns_packets_ask_the_same(const uint8_t *a, const uint8_t *b, size_t len, size_t question_len)
{
	size_t rest = HEADER_BYTES + question_len;
	return memcmp(a + 2, b + 2, HEADER_BYTES - 2) == 0 &&
		is_same_question(a + HEADER_BYTES, b + HEADER_BYTES, question_len) &&
		memcmp(a + rest, b + rest, len - rest) == 0;
}

/* ---- writing ---- */

static size_t opt_bytes(const struct dns_writer *writer)
{
	if (!writer->query->edns) {
		return 0;
	}
	if (writer->extended_error == DNS_EDE_NONE) {
		return DNS_OPT_BYTES;
	}
	return DNS_OPT_BYTES + OPTION_BYTES + (writer->extra_text ? strlen(writer->extra_text) : 0);
}

void dns_writer_start(
	struct dns_writer *writer, uint8_t *data, size_t max, const struct dns_query *query)
{
	*writer = (struct dns_writer){ .data = data,
		.query = query,
		.names = { data },
		.section = ns_s_an,
		.extended_error = DNS_EDE_NONE };
	memcpy(data + HEADER_BYTES, query->question, query->question_len);
	writer->len = HEADER_BYTES + query->question_len;
	writer->max = max - opt_bytes(writer);
	if (query->has_question) {
		/*
		 * dn_comp() finds the names that follow by their places; the question's is the
		 * first.
		 */
		writer->names[1] = query->question[0] ? data + HEADER_BYTES : NULL;
		writer->counts[ns_s_qd] = 1;
	}
}

void dns_writer_explain(struct dns_writer *writer, enum dns_extended_error error, const char *text)
{
	size_t before = opt_bytes(writer);
	writer->extended_error = error;
	writer->extra_text = text && strlen(text) <= MAX_EXTRA_TEXT_BYTES ? text : NULL;
	writer->max -= opt_bytes(writer) - before;
}

void dns_writer_section(struct dns_writer *writer, ns_sect section)
{
	writer->section = section;
	writer->full = false;
}

static uint8_t *reserve(struct dns_writer *writer, size_t len)
{
	if (writer->len + len > writer->max) {
		writer->full = true;
	}
	if (writer->full) {
		return NULL;
	}
	uint8_t *at = writer->data + writer->len;
	writer->len += len;
	return at;
}

static void put16(struct dns_writer *writer, uint16_t value)
{
	uint8_t *at = reserve(writer, 2);
	if (at) {
		ns_put16(value, at);
	}
}

static void put32(struct dns_writer *writer, uint32_t value)
{
	uint8_t *at = reserve(writer, 4);
	if (at) {
		ns_put32(value, at);
	}
}

static void put_bytes(struct dns_writer *writer, const void *data, size_t len)
{
	uint8_t *at = reserve(writer, len);
	if (at) {
		memcpy(at, data, len);
	}
}

/* `compress`: not in the data of SRV records (RFC 2782). */
static void put_name(struct dns_writer *writer, const char *name, bool compress)
{
	const size_t count = ARRAY_LEN(writer->names);
	int len = dn_comp(name, writer->data + writer->len, (int)(writer->max - writer->len),
		compress ? (uint8_t **)(uintptr_t)writer->names : NULL,
		compress ? (uint8_t **)(uintptr_t)(writer->names + count) : NULL);
	if (len < 0) {
		writer->full = true;
	} else {
		writer->len += (size_t)len;
	}
}

/* Where a record began and its data begins. */
struct dns_record_start {
	size_t record;
	size_t data;
};

static struct dns_record_start start_record(
	struct dns_writer *writer, const char *name, uint16_t type, uint32_t ttl)
{
	struct dns_record_start start = { .record = writer->len };
	if (name) {
		put_name(writer, name, true);
	} else {
		put16(writer, POINTER_TO_QUESTION);
	}
	put16(writer, type);
	put16(writer, ns_c_in);
	put32(writer, ttl);
	put16(writer, 0);
	start.data = writer->len;
	return start;
}

/* Completes the record, or takes it back when it did not fit. */
static void end_record(struct dns_writer *writer, struct dns_record_start start)
{
	const size_t count = ARRAY_LEN(writer->names);
	if (!writer->full) {
		ns_put16((unsigned)(writer->len - start.data), writer->data + start.data - 2);
		writer->counts[writer->section]++;
		return;
	}
	writer->len = start.record;
	writer->truncated = writer->truncated || writer->section == ns_s_an;
	/* Names that went with it must not be pointed to. */
	for (size_t i = 1; i < count && writer->names[i]; i++) {
		if (writer->names[i] >= writer->data + start.record) {
			writer->names[i] = NULL;
			break;
		}
	}
}

void dns_write_address(
	struct dns_writer *writer, const char *name, uint32_t ttl, int family, const uint8_t *bytes)
{
	bool is_ipv4 = family == AF_INET;
	struct dns_record_start start = start_record(
		writer, name, is_ipv4 ? ns_t_a : ns_t_aaaa, ttl);
	put_bytes(writer, bytes, is_ipv4 ? NS_INADDRSZ : NS_IN6ADDRSZ);
	end_record(writer, start);
}

void dns_write_name(struct dns_writer *writer, const char *name, uint16_t type, uint32_t ttl,
	const char *target)
{
	struct dns_record_start start = start_record(writer, name, type, ttl);
	put_name(writer, target, true);
	end_record(writer, start);
}

void dns_write_srv(struct dns_writer *writer, uint32_t ttl, uint16_t priority, uint16_t weight,
	uint16_t port, const char *target)
{
	struct dns_record_start start = start_record(writer, NULL, ns_t_srv, ttl);
	put16(writer, priority);
	put16(writer, weight);
	put16(writer, port);
	put_name(writer, target, false);
	end_record(writer, start);
}

/* Character strings of at most 255 bytes each, which readers join. */
static void put_strings(struct dns_writer *writer, const char *text)
{
	size_t left = strlen(text);
	do {
		uint8_t len = (uint8_t)(left < UINT8_MAX ? left : UINT8_MAX);
		put_bytes(writer, &len, 1);
		put_bytes(writer, text, len);
		text += len;
		left -= len;
	} while (left > 0);
}

void dns_write_txt(struct dns_writer *writer, uint32_t ttl, const char *text)
{
	struct dns_record_start start = start_record(writer, NULL, ns_t_txt, ttl);
	put_strings(writer, text);
	end_record(writer, start);
}

void dns_write_hinfo(struct dns_writer *writer, uint32_t ttl)
{
	struct dns_record_start start = start_record(writer, NULL, ns_t_hinfo, ttl);
	put_strings(writer, "RFC8482");
	put_strings(writer, "");
	end_record(writer, start);
}

void dns_write_soa(
	struct dns_writer *writer, const char *name, uint32_t ttl, const struct dns_soa *soa)
{
	struct dns_record_start start = start_record(writer, name, ns_t_soa, ttl);
	put_name(writer, soa->server, true);
	put_name(writer, soa->mailbox, true);
	put32(writer, soa->serial);
	put32(writer, soa->refresh_s);
	put32(writer, soa->retry_s);
	put32(writer, soa->expire_s);
	put32(writer, soa->negative_ttl_s);
	end_record(writer, start);
}

static void write_opt(struct dns_writer *writer, int rcode)
{
	size_t needed = opt_bytes(writer);
	size_t options = needed - (needed ? DNS_OPT_BYTES : 0);
	if (needed == 0) {
		return;
	}
	writer->max += needed;
	writer->full = false;
	put_bytes(writer, "", 1); /* the root */
	put16(writer, ns_t_opt);
	put16(writer, DNS_EDNS_BYTES);
	put32(writer,
		(uint32_t)(rcode >> 4) << 24 | (writer->query->dnssec_ok ? NS_OPT_DNSSEC_OK : 0));
	put16(writer, (uint16_t)options);
	if (options > 0) {
		put16(writer, EDE_OPTION);
		put16(writer, (uint16_t)(options - 4));
		put16(writer, (uint16_t)writer->extended_error);
		put_bytes(writer, writer->extra_text ? writer->extra_text : "",
			options - OPTION_BYTES);
	}
	writer->counts[ns_s_ar]++;
}

size_t dns_writer_finish(
	struct dns_writer *writer, int rcode, bool authoritative, bool recursion_available)
{
	bool truncated = writer->truncated;
	write_opt(writer, rcode);
	uint8_t *header = writer->data;
	unsigned flags = FLAG_QR | (unsigned)writer->query->opcode << OPCODE_SHIFT |
		(unsigned)(rcode & 15) | (authoritative ? FLAG_AA : 0) | (truncated ? FLAG_TC : 0) |
		(recursion_available ? FLAG_RA : 0) |
		(writer->query->recursion_desired ? FLAG_RD : 0);
	ns_put16(writer->query->id, header);
	ns_put16(flags, header + 2);
	for (int i = 0; i < 4; i++) {
		ns_put16(writer->counts[i], header + 4 + 2 * i);
	}
	return writer->len;
}
