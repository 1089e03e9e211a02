/* Queries as a resolver writes them. */
#ifndef TESTS_UNIT_AGENT_DNS_MESSAGE_STAGE_H
#define TESTS_UNIT_AGENT_DNS_MESSAGE_STAGE_H

#include <criterion/criterion.h>
#include <resolv.h>
#include <string.h>

#include "agent/dns/message.h"

#define EDNS_1232 "\0\0\51\4\320\0\0\0\0\0\0"

static uint8_t packet[1024];

/* A query as a resolver writes it; `edns` is the client's payload size, 0 for none. */
static inline size_t make_query(const char *name, int type, unsigned edns)
{
	memset(packet, 0, sizeof(packet));
	memcpy(packet, "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", 12);
	size_t len = 12;
	int name_len = dn_comp(name, packet + len, 300, NULL, NULL);
	cr_assert_gt(name_len, 0, "%s", name);
	len += (size_t)name_len;
	ns_put16((unsigned)type, packet + len);
	ns_put16(ns_c_in, packet + len + 2);
	len += 4;
	if (edns) {
		memcpy(packet + len, EDNS_1232, 11);
		ns_put16(edns, packet + len + 3);
		packet[11] = 1;
		len += 11;
	}
	return len;
}

static inline struct dns_query read_good(size_t len)
{
	struct dns_query query;
	int rcode = -1;
	cr_assert_eq(dns_query_read(&query, packet, len, &rcode), DNS_ANSWER, "rcode %d", rcode);
	return query;
}

#endif
