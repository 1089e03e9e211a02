/*
 * Writes a query and a reply to it, and reads them again: prints what differs and ends with 1.
 * Needs nothing but agent/dns/message.c and agent/dns/alias.c, so that any libc can build it.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/dns/message.h"

static int failures;

static void expect(bool holds, const char *what)
{
	if (!holds) {
		printf("%s\n", what);
		failures++;
	}
}

static size_t write_reply(uint8_t *data, const struct dns_query *query)
{
	static const uint8_t address[] = { 10, 0, 0, 1 };
	struct dns_writer writer;
	dns_writer_start(&writer, data, DNS_EDNS_BYTES, query);
	dns_write_name(&writer, NULL, ns_t_cname, 1, "target.example.org");
	dns_write_address(&writer, "target.example.org", 1, AF_INET, address);
	dns_writer_section(&writer, ns_s_ns);
	const struct dns_soa soa = { .server = "localhost", .mailbox = "nobody.localhost" };
	dns_write_soa(&writer, "berth", 1, &soa);
	return dns_writer_finish(&writer, ns_r_noerror, true, true);
}

int main(void)
{
	uint8_t packet[NS_PACKETSZ];
	uint8_t reply[DNS_EDNS_BYTES];
	uint8_t copy[DNS_EDNS_BYTES];
	struct dns_query query;
	struct dns_writer writer;
	int rcode;
	size_t len = dns_query_write(&query, packet, "Db.Services.berth", ns_t_a);
	expect(len > 0 && strcmp(query.name, "Db.Services.berth") == 0,
		"the query is not as asked");
	for (size_t cut = 12; cut < len; cut++) {
		struct dns_query none;
		expect(dns_query_read(&none, packet, cut, &rcode) == DNS_REJECT,
			"a cut query is taken");
	}
	len = write_reply(reply, &query);
	expect(dns_reply_matches(reply, len, 0, &query), "the reply does not match its query");
	ns_msg message;
	expect(ns_initparse(reply, (int)len, &message) == 0 &&
			ns_msg_count(message, ns_s_an) == 2 && ns_msg_count(message, ns_s_ns) == 1,
		"the reply cannot be read");
	dns_writer_start(&writer, copy, sizeof(copy), &query);
	dns_write_answers_of(&writer, reply, len);
	len = dns_writer_finish(&writer, ns_r_noerror, true, true);
	ns_rr record;
	expect(ns_initparse(copy, (int)len, &message) == 0 &&
			ns_parserr(&message, ns_s_an, 1, &record) == 0 &&
			ns_rr_type(record) == ns_t_a && ns_rr_rdata(record)[3] == 1,
		"the answers are not taken over");
	return failures > 0;
}
