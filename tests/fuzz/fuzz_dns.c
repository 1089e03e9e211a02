/*
 * Packets from any host: libc can read the reply to every packet that is a query, for any answer
 * and any size that the client accepts; and a reply never answers another question.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/dns/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct names_address addresses[40];
static struct names_target targets[40];
static char target_name[] = "c1.components.prod.web.joe.users.berth";
static char text[300];
static char why[300];
static char *texts[] = { text, "description=x", "" };
static char *pointers[] = { target_name, "localhost" };

static void fill(struct names_answer *answer, int status)
{
	for (size_t i = 0; i < 40; i++) {
		addresses[i].family = i % 3 ? AF_INET : AF_INET6;
		addresses[i].bytes[3] = (uint8_t)i;
		targets[i] = (struct names_target){ .priority = 1,
			.weight = 2,
			.port = (uint16_t)i,
			.name = target_name,
			.address = addresses[i] };
	}
	memset(text, 'a', sizeof(text) - 1);
	memset(why, 'w', status % 2 ? sizeof(why) - 1 : 20);
	*answer = (struct names_answer){ .status = (enum names_status)status,
		.addresses = addresses,
		.address_count = 40,
		.targets = targets,
		.target_count = 40,
		.texts = texts,
		.text_count = 3,
		.pointers = pointers,
		.pointer_count = 2,
		.apex = status == NAMES_FOUND };
}

/* Every record of the reply can be read, and the question is repeated. */
static void check_reply(const struct dns_query *query, const uint8_t *reply, size_t len)
{
	ns_msg message;
	assert(ns_initparse(reply, (int)len, &message) == 0);
	assert(ns_msg_id(message) == query->id);
	for (int section = ns_s_qd; section < ns_s_max; section++) {
		for (int i = 0; i < ns_msg_count(message, section); i++) {
			ns_rr record;
			assert(ns_parserr(&message, section, i, &record) == 0);
		}
	}
	if (query->has_question) {
		assert(dns_reply_matches(reply, len, query->id, query));
	}
}

/* One way of answering for each value of `choice`, so that a run stays short. */
static void answer(const struct dns_query *query, unsigned choice)
{
	static uint8_t reply[DNS_TCP_BYTES];
	int status = (int)(choice % (NAMES_OUTSIDE + 1));
	bool tcp = choice / (NAMES_OUTSIDE + 1) % 2;
	struct names_answer known;
	struct dns_reply_options options = { .domain = "berth",
		.ttl_s = 1,
		.stale = tcp,
		.rotation = choice,
		.why = tcp ? why : NULL };
	fill(&known, status);
	/* An alias, and for some what another server says of it. */
	uint8_t beyond[NS_PACKETSZ];
	struct dns_query of_alias;
	if (choice / 16 % 2) {
		known.alias = target_name;
		known.address_count = 0;
		known.apex = false;
		options.beyond_len = choice / 32 % 2
			? dns_query_write(&of_alias, beyond, target_name, query->type)
			: 0;
		options.beyond = options.beyond_len ? beyond : NULL;
	}
	/* Over TCP the answer has room; a reply that is to be cut has memory of just its size. */
	size_t limit = dns_reply_limit(query, tcp);
	uint8_t *data = tcp ? reply : malloc(limit);
	size_t len = dns_reply_write(data, limit, query, &known, &options);
	assert(len <= limit);
	check_reply(query, data, len);
	if (!tcp) {
		free(data);
	}
}

/* The packet as another server's reply: what is taken over from it can be read. */
static void take_over(const uint8_t *data, size_t len)
{
	uint8_t packet[NS_PACKETSZ];
	uint8_t reply[DNS_EDNS_BYTES];
	struct dns_query query;
	struct dns_writer writer;
	assert(dns_query_write(&query, packet, "a.example.org", ns_t_a) > 0);
	dns_writer_start(&writer, reply, sizeof(reply), &query);
	dns_write_answers_of(&writer, data, len);
	(void)dns_reply_matches(data, len, query.id, &query);
	(void)dns_reply_matches(data, len, (uint16_t)(data[0] << 8 | data[1]), &query);
	check_reply(&query, reply, dns_writer_finish(&writer, ns_r_noerror, true, true));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct dns_query query;
	int rcode = 0;
	if (len >= NS_HFIXEDSZ && len <= DNS_TCP_BYTES) {
		take_over(data, len);
	}
	switch (dns_query_read(&query, data, len, &rcode)) {
	case DNS_ANSWER:
		(void)dns_reply_may_answer(&query);
		answer(&query, data[len - 1] + data[1]);
		break;
	case DNS_REJECT: {
		uint8_t reply[DNS_UDP_BYTES];
		assert(rcode != 0);
		check_reply(&query, reply,
			dns_reply_write_code(
				reply, sizeof(reply), &query, rcode, DNS_EDE_NONE, true));
		break;
	}
	case DNS_DROP:
		break;
	}
	return 0;
}
