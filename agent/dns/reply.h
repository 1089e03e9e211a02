/*
 * Which records answer a query: the policy between names and messages. Pure.
 *
 *   outside the domain                 REFUSED, so that resolvers ask the next server
 *   the name does not exist            NXDOMAIN, with the SOA record
 *   it has nothing of the type         no error and no answer (NODATA), with the SOA record
 *   it cannot be known at the moment   SERVFAIL, with an extended error
 *   the answer is stale                the answer, with stale_ttl and an extended error
 *   it is an alias                     CNAME, with the answer of another server if one was asked
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
	const char *why;   /* text of the extended error, or NULL */
	/* NULL, or what another server says of the name that the alias leads to. */
	const uint8_t *beyond;
	size_t beyond_len;
};

/* True for a query that the names module can answer: class IN or ANY. */
bool dns_reply_in_class(const struct dns_query *query);

/* Writes the reply to `query` from `answer` into `data` (`max` bytes) and returns its length. */
size_t dns_reply_write(uint8_t *data, size_t max, const struct dns_query *query,
	const struct names_answer *answer, const struct dns_reply_options *options);

/* A reply with just a code: for queries that are malformed, refused or failed. */
size_t dns_reply_write_code(uint8_t *data, size_t max, const struct dns_query *query, int rcode,
	enum dns_extended_error error, bool recursion_available);

#endif
