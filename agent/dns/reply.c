#include "agent/dns/reply.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* One reply being written. */
struct reply {
	struct dns_writer writer;
	const struct dns_query *query;
	const struct names_answer *answer;
	const struct dns_reply_options *options;
};

bool dns_reply_may_answer(const struct dns_query *query)
{
	bool in_class = query->class == ns_c_in || query->class == DNS_CLASS_ANY;
	return in_class && query->type != ns_t_axfr && query->type != ns_t_ixfr;
}

static size_t rotated(const struct reply *reply, size_t index, size_t count)
{
	return (index + reply->options->rotation) % count;
}

static bool write_addresses(struct reply *reply, int family)
{
	const struct names_answer *answer = reply->answer;
	bool any = false;
	for (size_t i = 0; i < answer->address_count; i++) {
		size_t at = rotated(reply, i, answer->address_count);
		const struct names_address *address = &answer->addresses[at];
		if (address->family == family) {
			any = true;
			dns_write_address(&reply->writer, NULL, reply->options->ttl_s, family,
				address->bytes);
		}
	}
	return any;
}

static bool write_alias(struct reply *reply)
{
	const struct dns_reply_options *options = reply->options;
	if (!reply->answer->alias) {
		return false;
	}
	dns_write_name(&reply->writer, NULL, ns_t_cname, options->ttl_s, reply->answer->alias);
	if (options->beyond) {
		dns_write_answers_of(&reply->writer, options->beyond, options->beyond_len);
	}
	return true;
}

static bool write_targets(struct reply *reply)
{
	const struct names_answer *answer = reply->answer;
	const char *near = reply->options->near;
	uint16_t *priorities = near ? names_priorities(answer, near) : NULL;
	for (size_t i = 0; i < answer->target_count; i++) {
		size_t at = rotated(reply, i, answer->target_count);
		const struct names_target *target = &answer->targets[at];
		dns_write_srv(&reply->writer, reply->options->ttl_s,
			priorities ? priorities[at] : target->priority, target->weight,
			target->port, target->name);
	}
	free(priorities);
	return answer->target_count > 0;
}

/* Addresses of our own targets; as many as fit, after the OPT record has its room. */
static void write_glue(struct reply *reply)
{
	const struct names_answer *answer = reply->answer;
	if (reply->writer.truncated) {
		return;
	}
	dns_writer_section(&reply->writer, ns_s_ar);
	for (size_t i = 0; i < answer->target_count && !reply->writer.full; i++) {
		const struct names_target *target =
			&answer->targets[rotated(reply, i, answer->target_count)];
		if (target->address.family) {
			dns_write_address(&reply->writer, target->name, reply->options->ttl_s,
				target->address.family, target->address.bytes);
		}
	}
}

static bool write_texts(struct reply *reply)
{
	const struct names_answer *answer = reply->answer;
	for (size_t i = 0; i < answer->text_count; i++) {
		dns_write_txt(&reply->writer, reply->options->ttl_s, answer->texts[i]);
	}
	return answer->text_count > 0;
}

static bool write_pointers(struct reply *reply)
{
	const struct names_answer *answer = reply->answer;
	for (size_t i = 0; i < answer->pointer_count; i++) {
		dns_write_name(&reply->writer, NULL, ns_t_ptr, reply->options->ttl_s,
			answer->pointers[rotated(reply, i, answer->pointer_count)]);
	}
	return answer->pointer_count > 0;
}

/* `name` NULL: the question's. There are no secondaries. */
static void write_soa(struct reply *reply, const char *name)
{
	const struct dns_soa soa = { .server = "localhost",
		.mailbox = "nobody.localhost",
		.serial = reply->options->serial,
		.refresh_s = 3600,
		.retry_s = 600,
		.expire_s = 86400,
		.negative_ttl_s = reply->options->ttl_s };
	dns_write_soa(&reply->writer, name, reply->options->ttl_s, &soa);
}

static bool write_apex(struct reply *reply)
{
	const struct dns_reply_options *options = reply->options;
	switch (reply->query->type) {
	case ns_t_soa:
		write_soa(reply, NULL);
		return true;
	case ns_t_ns:
		dns_write_name(&reply->writer, NULL, ns_t_ns, options->ttl_s, "localhost");
		return true;
	default:
		return false;
	}
}

/* False for NODATA. */
static bool write_answer(struct reply *reply)
{
	const struct names_answer *answer = reply->answer;
	if (write_alias(reply) || (answer->apex && write_apex(reply))) {
		return true;
	}
	switch (reply->query->type) {
	case ns_t_a:
		return write_addresses(reply, AF_INET);
	case ns_t_aaaa:
		return write_addresses(reply, AF_INET6);
	case ns_t_srv:
		return write_targets(reply);
	case ns_t_txt:
		return write_texts(reply);
	case ns_t_ptr:
		return write_pointers(reply);
	case ns_t_any:
		dns_write_hinfo(&reply->writer, reply->options->ttl_s);
		return true;
	default:
		return false;
	}
}

static void write_authority(struct reply *reply)
{
	dns_writer_section(&reply->writer, ns_s_ns);
	write_soa(reply, reply->options->domain);
}

static size_t finish(struct reply *reply, int rcode)
{
	return dns_writer_finish(&reply->writer, rcode, true, reply->options->recursion_available);
}

static size_t write_known(struct reply *reply)
{
	bool absent = reply->answer->status == NAMES_ABSENT;
	if (reply->options->stale) {
		dns_writer_explain(&reply->writer,
			absent ? DNS_EDE_STALE_NXDOMAIN : DNS_EDE_STALE_ANSWER,
			reply->options->why);
	}
	if (absent) {
		write_authority(reply);
		return finish(reply, ns_r_nxdomain);
	}
	if (!write_answer(reply)) {
		write_authority(reply);
	} else if (reply->query->type == ns_t_srv) {
		write_glue(reply);
	}
	/* The code is that of the last name (RFC 6604). */
	return finish(
		reply, reply->options->beyond ? reply->options->beyond[3] & 15 : ns_r_noerror);
}

size_t dns_reply_write(uint8_t *data, size_t max, const struct dns_query *query,
	const struct names_answer *answer, const struct dns_reply_options *options)
{
	struct reply reply = { .query = query, .answer = answer, .options = options };
	switch (answer->status) {
	case NAMES_FOUND:
	case NAMES_ABSENT:
		dns_writer_start(&reply.writer, data, max, query);
		return write_known(&reply);
	case NAMES_OUTSIDE:
		return dns_reply_write_code(data, max, query, ns_r_refused,
			DNS_EDE_NOT_AUTHORITATIVE, options->recursion_available);
	case NAMES_PENDING:
	case NAMES_UNKNOWN:
		break;
	}
	return dns_reply_write_code(data, max, query, ns_r_servfail, DNS_EDE_NO_REACHABLE_AUTHORITY,
		options->recursion_available);
}

size_t dns_reply_write_code(uint8_t *data, size_t max, const struct dns_query *query, int rcode,
	enum dns_extended_error error, bool recursion_available)
{
	struct dns_writer writer;
	dns_writer_start(&writer, data, max, query);
	dns_writer_explain(&writer, error, NULL);
	return dns_writer_finish(&writer, rcode, false, recursion_available);
}

size_t dns_reply_bare_len(const struct dns_query *query)
{
	return NS_HFIXEDSZ + query->question_len + (query->edns ? DNS_OPT_BYTES : 0);
}

size_t dns_reply_write_cut(uint8_t *data, const struct dns_query *query, bool recursion_available)
{
	struct dns_writer writer;
	dns_writer_start(&writer, data, DNS_UDP_BYTES, query);
	writer.truncated = true;
	return dns_writer_finish(&writer, ns_r_noerror, false, recursion_available);
}
