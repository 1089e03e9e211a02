#include "agent/dns/reply_zone.h"

#include <netinet/in.h>

#include "lib/base/text.h"

/* As Binder's; there are no secondaries. */
enum { REFRESH_S = 86400, RETRY_S = 7200, EXPIRE_S = 1209600, WEIGHT = 10 };

struct reply {
	struct dns_writer writer;
	const struct zone_view *view;
	uint32_t longest_ttl_s;
};

static uint32_t ttl_of(const struct reply *reply, uint32_t ttl_s)
{
	return ttl_s < reply->longest_ttl_s ? ttl_s : reply->longest_ttl_s;
}

static void write_record(struct reply *reply, const struct zone_record *record)
{
	char name[ZONE_NAME_BYTES] = "";
	uint32_t ttl_s = ttl_of(reply, record->ttl_s);
	if (record->node) {
		zone_node_name(record->node, name);
	}
	switch (record->type) {
	case ns_t_a:
		dns_write_address(&reply->writer, record->node ? name : NULL, ttl_s, AF_INET,
			record->address);
		break;
	case ns_t_srv:
		dns_write_srv(&reply->writer, ttl_s, 0, WEIGHT, record->port, name);
		break;
	default:
		dns_write_name(&reply->writer, NULL, ns_t_ptr, ttl_s, name);
		break;
	}
}

static void write_soa(struct reply *reply)
{
	const struct zone_answer *answer = &reply->view->answer;
	char mailbox[ZONE_NAME_BYTES + 16];
	uint32_t ttl_s = ttl_of(reply, answer->soa_ttl_s);
	text_printf(mailbox, sizeof(mailbox), "hostmaster.%s", reply->view->domain);
	const struct dns_soa soa = { .server = reply->view->domain,
		.mailbox = mailbox,
		.refresh_s = REFRESH_S,
		.retry_s = RETRY_S,
		.expire_s = EXPIRE_S,
		.negative_ttl_s = ttl_s };
	dns_writer_section(&reply->writer, ns_s_ns);
	dns_write_soa(&reply->writer, answer->soa_owner, ttl_s, &soa);
}

static void explain(struct reply *reply)
{
	int rcode = reply->view->answer.rcode;
	if (rcode == ns_r_servfail) {
		dns_writer_explain(&reply->writer, DNS_EDE_NO_REACHABLE_AUTHORITY, NULL);
	} else if (reply->view->stale) {
		dns_writer_explain(&reply->writer,
			rcode == ns_r_nxdomain ? DNS_EDE_STALE_NXDOMAIN : DNS_EDE_STALE_ANSWER,
			"the registry is away");
	}
}

size_t dns_reply_write_zone(uint8_t *data, size_t max, const struct dns_query *query,
	const struct zone_view *view, const struct dns_reply_zone_options *options)
{
	const struct zone_answer *answer = &view->answer;
	struct reply reply = { .view = view,
		.longest_ttl_s = view->stale ? options->stale_ttl_s : UINT32_MAX };
	dns_writer_start(&reply.writer, data, max, query);
	explain(&reply);
	for (size_t i = 0; i < answer->count && !reply.writer.truncated; i++) {
		write_record(&reply, &answer->records[i]);
	}
	if (*answer->soa_owner) {
		write_soa(&reply);
	}
	if (!reply.writer.truncated) {
		dns_writer_section(&reply.writer, ns_s_ar);
	}
	for (size_t i = 0; i < answer->glue_count && !reply.writer.full; i++) {
		write_record(&reply, &answer->glue[i]);
	}
	bool is_authoritative = answer->rcode == ns_r_noerror || answer->rcode == ns_r_nxdomain;
	return dns_writer_finish(
		&reply.writer, answer->rcode, is_authoritative, options->recursion_available);
}
