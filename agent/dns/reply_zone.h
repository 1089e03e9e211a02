/* The reply to a question for a domain that is answered from Registrar's nodes. Pure. */
#ifndef AGENT_DNS_REPLY_ZONE_H
#define AGENT_DNS_REPLY_ZONE_H

#include "agent/dns/message.h"
#include "agent/zone/zones.h"

struct dns_reply_zone_options {
	uint32_t stale_ttl_s; /* a stale answer lives no longer */
	bool recursion_available;
};

/* Writes the reply into `data` (`max` bytes) and returns its length. */
size_t dns_reply_write_zone(uint8_t *data, size_t max, const struct dns_query *query,
	const struct zone_view *view, const struct dns_reply_zone_options *options);

#endif
