/* Questions over UDP and TCP, and the replies; sockets that the server listens on. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/descriptors.h"
#include "tests/support/staged.h"
#include "tests/unit/agent/dns/service_stage.h"

#define STAGED(name)                                                                               \
	STAGED_TEST(dns_service, name, struct stage *, stage, stage_begin(&(struct stage){ 0 }),   \
		stage_end)

static const struct {
	const char *name;
	int type;
	bool recursion;
	const char *line;
	unsigned asked; /* questions to the other server */
} rows[] = {
	{ "a.berth", ns_t_a, true, "0 aa ra: A 10.0.0.1 5", 0 },
	{ "a.berth", ns_t_aaaa, true, "0 aa ra: / type6", 0 },
	{ "a.berth", ns_t_srv, true, "0 aa ra: SRV 80", 0 },
	{ "a.berth", ns_t_txt, true, "0 aa ra: type16 type16", 0 },
	{ "a.berth", ns_t_mx, true, "0 aa ra: / type6", 0 },
	{ "six.berth", ns_t_aaaa, true, "0 aa ra: AAAA 2001:db8::1 5", 0 },
	{ "six.berth", ns_t_a, false, "0 aa ra: / type6", 0 },
	{ "none.berth", ns_t_a, true, "0 aa ra: / type6", 0 },
	{ "nowhere.berth", ns_t_a, true, "3 aa ra: / type6", 0 },
	{ "berth", ns_t_soa, true, "0 aa ra: type6", 0 },
	{ "berth", ns_t_ns, true, "0 aa ra: =localhost 5", 0 },
	{ "1.0.0.10.in-addr.arpa", ns_t_ptr, true, "0 aa ra: =a.berth 5", 0 },
	/* With recursion, another server is asked for the addresses of an alias. */
	{ "far.berth", ns_t_a, true, "0 aa ra: =far.example 5 A 9.9.9.9 7", 1 },
	{ "far.berth", ns_t_a, false, "0 aa ra: =far.example 5", 0 },
	{ "far.berth", ns_t_txt, true, "0 aa ra: =far.example 5", 0 },
	{ "near.berth", ns_t_a, true, "0 aa ra: =a.berth 5", 0 },
	{ "www.example", ns_t_a, true, "0: A 9.9.9.9 7", 1 },
	{ "berth", ns_t_axfr, true, "5 ra:", 0 },
	{ "www.example", ns_t_axfr, true, "5 ra:", 0 },
};

STAGED(each_question_has_its_reply)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (int tcp = 0; tcp < 2; tcp++) {
			/* The question to the other server is over UDP as this client's is. */
			bool is_left_out = tcp && rows[i].asked > 0;
			stage->upstream.questions = 0;
			if (!is_left_out) {
				cr_expect_str_eq(ask(stage, tcp, rows[i].name, rows[i].type,
							 rows[i].recursion),
					rows[i].line, "%s %d %s", rows[i].name, rows[i].type,
					reply_line(reply + 2, ns_get16(reply)));
				cr_expect_eq(stage->upstream.questions, rows[i].asked, "%s",
					rows[i].name);
			}
		}
	}
	const struct dns_counts *counts = dns_counts(stage->dns);
	cr_expect_eq(counts->queries[0], ARRAY_LEN(rows));
	cr_expect_eq(counts->queries[1], ARRAY_LEN(rows) - 2);
	cr_expect_eq(counts->replies[ns_r_nxdomain], 2);
	cr_expect_eq(counts->replies[ns_r_refused], 4);
	cr_expect_eq(counts->replies[ns_r_noerror], 2 * ARRAY_LEN(rows) - 8);
	cr_expect_eq(counts->forwarded, 1);
	cr_expect_eq(counts->exchanges, 0);
	cr_expect_eq(counts->stale, 0);
	cr_expect_eq(counts->truncated, 0);
	cr_expect_eq(counts->dropped, 0);
	cr_expect_eq(counts->connections, 1);
}

STAGED(a_reply_has_the_code_of_another_server_s_reply_about_the_alias)
{
	stage->upstream.rcode = ns_r_nxdomain;
	cr_expect_str_eq(ask(stage, false, "far.berth", ns_t_a, true), "3 aa ra: =far.example 5");
	cr_expect_str_eq(ask(stage, false, "www.example", ns_t_a, true), "3:");
}

STAGED(another_server_that_fails_or_is_silent_is_a_failure)
{
	stage->upstream.rcode = ns_r_servfail;
	cr_expect_str_eq(ask(stage, false, "far.berth", ns_t_a, true), "2 aa ra: =far.example 5");
	cr_expect_eq(stage->upstream.questions, 2, "it is asked once more");
	stage->upstream.silent = true;
	send_question(stage, false, "www.example", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 1);
	clock_shift_ms += 2001;
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	clock_shift_ms += 2001;
	cr_expect_str_eq(hear(stage, false), "2 ra:");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

/* The alias may be another one when the answer comes: what it says is of another name. */
STAGED(an_alias_that_changed_meanwhile_has_no_answer)
{
	for (int known = 0; known < 2; known++) {
		memory_put(stage->cache.registry, "/far", AT("far.example", ""));
		cache_stage_turn(&stage->cache);
		stage->upstream.silent = true;
		stage->upstream.questions = 0;
		send_question(stage, false, "far.berth", ns_t_a, true);
		RUN_UNTIL(stage->cache.loop, stage->upstream.questions == 1);
		memory_put(stage->cache.registry, "/far", AT("other.example", ""));
		cache_stage_turn(&stage->cache);
		if (known) {
			cr_expect_str_eq(ask(stage, false, "far.berth", ns_t_a, false),
				"0 aa ra: =other.example 5");
		}
		stage->upstream.silent = false;
		clock_shift_ms += 2001; /* it is asked again */
		cr_expect_str_eq(hear(stage, false), "2 ra:");
		cr_expect_str_eq(ask(stage, false, "far.berth", ns_t_a, true),
			"0 aa ra: =other.example 5 A 9.9.9.9 7");
	}
}

/* ---- too many questions ---- */

static unsigned kept; /* replies to questions of ask_as() */
static unsigned kept_ids[2];
static uint8_t kept_reply[DNS_UDP_BYTES];
static size_t kept_len;

static void keep_reply(const struct dns_origin *origin, const uint8_t *data, size_t len)
{
	(void)origin;
	kept_ids[kept++ % 2] = ns_get16(data);
	kept_len = len;
	cr_assert_leq(len, sizeof(kept_reply));
	memcpy(kept_reply, data, len);
}

/* As if it came from that address of IPv4. Returns its number. */
static unsigned ask_as(struct stage *stage, uint32_t address, const char *name)
{
	uint8_t packet[NS_PACKETSZ];
	struct dns_query query;
	struct dns_origin origin = { .send = keep_reply };
	struct sockaddr_in *from = (void *)&origin.address;
	size_t len = dns_query_write(&query, packet, name, ns_t_a);
	*from = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(address) } };
	dns_handle(stage->dns, &origin, packet, len, NULL);
	return ns_get16(packet);
}

STAGED(a_question_of_two_clients_is_asked_once_and_each_hears_its_own_reply)
{
	kept = 0;
	unsigned first = ask_as(stage, 0x0a000001, "www.example");
	unsigned second = ask_as(stage, 0x0a000002, "www.example");
	RUN_UNTIL(stage->cache.loop, kept == 2);
	cr_expect_eq(stage->upstream.questions, 1);
	cr_expect(kept_ids[0] == first && kept_ids[1] == second);
}

STAGED(one_client_does_not_keep_another_one_from_other_servers)
{
	enum { MANY_QUESTIONS = 300 };
	stage->upstream.silent = true;
	for (unsigned i = 0; i < MANY_QUESTIONS; i++) {
		ask_as(stage, 0x0a000001, "www.example");
	}
	ask_as(stage, 0x0a000002, "www.example");
	cr_expect_eq(dns_counts(stage->dns)->forwarded, MANY_QUESTIONS + 1);
}

STAGED(when_too_many_wait_for_other_servers_another_client_is_refused)
{
	enum { MOST_IN_FLIGHT = 256, FIRST = 0x0a000001 };
	stage->upstream.silent = true;
	kept = 0;
	for (uint32_t i = 0; i < MOST_IN_FLIGHT; i++) {
		ask_as(stage, FIRST + i, "www.example");
	}
	cr_expect_eq(kept, 0);
	cr_expect_eq(dns_counts(stage->dns)->forwarded, MOST_IN_FLIGHT);
	ask_as(stage, FIRST + MOST_IN_FLIGHT, "www.example");
	cr_assert_eq(kept, 1);
	cr_expect_str_eq(reply_line(kept_reply, kept_len), "5 ra:");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, MOST_IN_FLIGHT);
	cr_expect_eq(dns_counts(stage->dns)->forwarded, MOST_IN_FLIGHT);
	/* An alias is answered without what lies beyond it. */
	ask(stage, false, "far.berth", ns_t_a, false);
	ask_as(stage, FIRST + MOST_IN_FLIGHT, "far.berth");
	cr_assert_eq(kept, 2);
	cr_expect_str_eq(reply_line(kept_reply, kept_len), "0 aa ra: =far.example 5");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, MOST_IN_FLIGHT);
}

STAGED(when_too_many_questions_wait_none_is_sent_to_other_servers)
{
	enum { MOST_EXCHANGES = 1024 };
	memory_set_answering(stage->cache.registry, false);
	kept = 0;
	for (unsigned i = 0; i < MOST_EXCHANGES; i++) {
		ask_as(stage, INADDR_LOOPBACK, "a.berth");
	}
	cr_expect_eq(kept, 0);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, MOST_EXCHANGES);
	ask_as(stage, INADDR_LOOPBACK, "www.example");
	cr_assert_eq(kept, 1);
	cr_expect_str_eq(reply_line(kept_reply, kept_len), "5 ra:");
	cr_expect_eq(dns_counts(stage->dns)->forwarded, 0);
	memory_set_answering(stage->cache.registry, true);
	RUN_UNTIL(stage->cache.loop, kept == MOST_EXCHANGES + 1);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

STAGED(an_address_that_gets_too_much_is_sent_to_tcp)
{
	size_t whole = 0;
	size_t count = 0;
	bool cut = false;
	ask(stage, false, "a.berth", ns_t_a, true);
	for (; count < 100000 && !cut; count++) {
		ask_as(stage, 0xcb007101, "a.berth");
		cut = kept_reply[2] & 2;
		whole = cut ? whole : kept_len;
	}
	cr_expect(cut);
	/* Of a reply as much counts as is longer than the question. */
	cr_expect_gt(count, DNS_RATE_BURST / (whole - kept_len));
	cr_expect_eq(dns_counts(stage->dns)->limited, 1);
	ask_as(stage, INADDR_LOOPBACK, "a.berth");
	cr_expect_not(kept_reply[2] & 2);
	cr_expect_eq(kept_len, whole);
}

STAGED(without_another_server_names_outside_are_refused)
{
	const struct dns_options options = options_of(stage, NULL, false);
	dns_set_options(stage->dns, &options);
	for (int tcp = 0; tcp < 2; tcp++) {
		cr_expect_str_eq(ask(stage, tcp, "www.example", ns_t_a, true), "5:");
		cr_expect_str_eq(
			ask(stage, tcp, "far.berth", ns_t_a, true), "0 aa: =far.example 5");
	}
	cr_expect_eq(stage->upstream.questions, 0);
}

STAGED(while_the_registry_is_away_answers_are_stale_and_others_fail)
{
	ask(stage, false, "a.berth", ns_t_a, true);
	memory_set_state(stage->cache.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage->cache);
	cr_expect_str_eq(ask(stage, false, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 1");
	cr_expect_str_eq(ask(stage, false, "other.berth", ns_t_a, true), "2 ra:");
	cr_expect_eq(dns_counts(stage->dns)->stale, 1);
}

/* The text of the extended error in the reply to a question with EDNS. */
static const char *why(struct stage *stage, const char *name)
{
	static char text[80];
	static const uint8_t edns[] = { 0, 0, ns_t_opt, 4, 0xd0, 0, 0, 0, 0, 0, 0 };
	uint8_t packet[2 + NS_PACKETSZ];
	ns_msg message;
	ns_rr record;
	size_t len = write_question(packet, name, ns_t_a, true) - 2;
	memcpy(packet + 2 + len, edns, sizeof(edns));
	packet[2 + 11] = 1;
	len += sizeof(edns);
	cr_assert_eq(send(stage->clients[0], packet + 2, len, 0), (ssize_t)len);
	hear(stage, false);
	cr_assert_eq(ns_initparse(reply + 2, (int)ns_get16(reply), &message), 0);
	cr_assert_eq(ns_msg_count(message, ns_s_ar), 1);
	cr_assert_eq(ns_parserr(&message, ns_s_ar, 0, &record), 0);
	int text_len = (int)ns_rr_rdlen(record) - 6;
	text_printf(text, sizeof(text), "%.*s", text_len > 0 ? text_len : 0,
		(const char *)ns_rr_rdata(record) + 6);
	return text;
}

STAGED(a_stale_answer_says_when_it_was_confirmed)
{
	cr_expect_str_eq(why(stage, "a.berth"), "");
	memory_set_state(stage->cache.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage->cache);
	clock_shift_ms += 2500;
	cr_expect_str_eq(why(stage, "a.berth"), "last confirmed 2.5 s ago");
	clock_shift_ms += 3997500;
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	cr_expect_str_eq(why(stage, "a.berth"), "last confirmed 4000.0 s ago");
}

STAGED(each_question_begins_with_the_next_address)
{
	static const char *const lines[] = {
		"0 aa ra: A 10.0.0.1 5 A 10.0.0.2 5 A 10.0.0.3 5",
		"0 aa ra: A 10.0.0.2 5 A 10.0.0.3 5 A 10.0.0.1 5",
		"0 aa ra: A 10.0.0.3 5 A 10.0.0.1 5 A 10.0.0.2 5",
	};
	memory_put(stage->cache.registry, "/three",
		"{\"type\":\"JSONServiceRecord\",\"internal\":[],\"external\":[{\"api\":\"x\","
		"\"addressType\":\"host/port\",\"protocol\":\"http\",\"addresses\":["
		"{\"host\":\"10.0.0.1\",\"port\":\"80\"},{\"host\":\"10.0.0.2\",\"port\":\"80\"},"
		"{\"host\":\"10.0.0.3\",\"port\":\"80\"}]}]}");
	size_t first = 0;
	const char *line = ask(stage, false, "three.berth", ns_t_a, true);
	while (first < 3 && strcmp(line, lines[first]) != 0) {
		first++;
	}
	cr_assert_lt(first, 3, "%s", line);
	for (size_t i = 1; i <= 4; i++) {
		cr_expect_str_eq(
			ask(stage, false, "three.berth", ns_t_a, true), lines[(first + i) % 3]);
	}
}

/* ---- over UDP ---- */

enum { MANY = 150 };

STAGED(an_address_of_several_components_has_all_their_names)
{
	ask(stage, false, "one.berth", ns_t_a, true);
	ask(stage, false, "two.berth", ns_t_a, true);
	const char *line = ask(stage, false, "9.0.0.10.in-addr.arpa", ns_t_ptr, true);
	cr_expect_not_null(strstr(line, " =one.berth 5"), "%s", line);
	cr_expect_not_null(strstr(line, " =two.berth 5"), "%s", line);
}

STAGED(packets_that_are_no_questions_are_dropped_and_counted)
{
	static uint8_t junk[4000];
	static const size_t lens[] = { 0, 1, NS_HFIXEDSZ - 1, 2049, sizeof(junk) };
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		cr_assert_geq(send(stage->clients[0], junk, lens[i], 0), 0);
	}
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->dropped == ARRAY_LEN(lens));
	cr_expect_eq(dns_counts(stage->dns)->queries[0], 0);
	cr_expect_str_eq(ask(stage, false, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
}

/* Asks a server that listens on that address; `asked` is one of the machine's addresses. */
static void ask_at(struct stage *stage, char *address, const char *asked)
{
	char *listen[] = { address };
	struct dns_socket sockets[2];
	struct sockaddr_storage place;
	socklen_t len = sizeof(place);
	struct sockaddr_in *ipv4 = (void *)&place;
	struct sockaddr_in6 *ipv6 = (void *)&place;
	struct dns *dns;
	struct err err = ERR_INIT;
	const struct dns_options options = options_of(stage, listen, true);
	cr_assert_eq(dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), 0, "%s",
		err.msg);
	cr_assert_eq(dns_sockets(dns, sockets), 2);
	cr_assert_eq(getsockname(sockets[sockets[0].tcp].fd, (void *)&place, &len), 0);
	void *host = place.ss_family == AF_INET ? (void *)&ipv4->sin_addr : &ipv6->sin6_addr;
	cr_assert_eq(inet_pton(place.ss_family, asked, host), 1);
	close(stage->clients[0]);
	stage->clients[0] = socket(place.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(stage->clients[0], (const void *)&place, len), 0);
	cr_expect_str_eq(ask(stage, false, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
	dns_destroy(dns);
}

/* The client, which is connected, hears no other. */
STAGED(a_wildcard_answers_from_the_address_that_was_asked)
{
	char any[] = "0.0.0.0:0";
	char any_ipv6[] = "[::]:0";
	struct err err = ERR_INIT;
	ask_at(stage, any, "127.0.0.1");
	ask_at(stage, any, "127.0.0.2");
	int fd = dns_socket_open("[::1]:0", false, &err);
	if (fd >= 0) { /* a machine with IPv6 */
		close(fd);
		ask_at(stage, any_ipv6, "::1");
	}
}

/* ---- listening ---- */

STAGED(an_address_that_cannot_be_had_is_named_and_leaves_nothing)
{
	char taken[32];
	char free_address[] = "127.0.0.1:0";
	char *addresses[] = { free_address, taken };
	char *many[DNS_MAX_LISTENERS + 1];
	struct dns_options options = options_of(stage, addresses, false);
	struct dns *dns = NULL;
	struct err err = ERR_INIT;
	int before = descriptors_count();
	text_printf(taken, sizeof(taken), "127.0.0.1:%u", ntohs(stage->address.sin_port));
	options.listen_count = 2;
	cr_assert_eq(
		dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), BERTH_FAILED);
	cr_expect_null(dns);
	cr_expect_not_null(strstr(err.msg, taken), "%s", err.msg);
	for (size_t i = 0; i <= DNS_MAX_LISTENERS; i++) {
		many[i] = free_address;
	}
	options.listen = many;
	options.listen_count = DNS_MAX_LISTENERS + 1;
	err_clear(&err);
	cr_assert_eq(
		dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), BERTH_FAILED);
	cr_expect_not_null(strstr(err.msg, "at most 16 addresses"), "%s", err.msg);
	cr_expect_eq(descriptors_count(), before);
	options.listen_count = DNS_MAX_LISTENERS;
	cr_assert_eq(dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), 0);
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	cr_expect_eq(dns_sockets(dns, sockets), 2 * DNS_MAX_LISTENERS);
	dns_destroy(dns);
	cr_expect_eq(descriptors_count(), before);
}

STAGED(a_successor_takes_the_sockets_over)
{
	struct dns_socket sockets[2];
	char address[64];
	char *listen[] = { address };
	struct err err = ERR_INIT;
	cr_assert_eq(dns_pass_sockets(stage->dns, sockets), 2);
	cr_assert_str_eq(sockets[0].address, sockets[1].address);
	char expected[64];
	text_printf(expected, sizeof(expected), "127.0.0.1:%u", ntohs(stage->address.sin_port));
	cr_assert_str_eq(sockets[0].address, expected);
	cr_assert_eq(sockets[0].tcp + sockets[1].tcp, 1);
	strcpy(address, sockets[0].address);
	dns_destroy(stage->dns);
	for (size_t i = 0; i < 2; i++) { /* as a predecessor leaves them */
		cr_assert_eq(fcntl(sockets[i].fd, F_SETFD, 0), 0);
	}
	struct dns_options options = options_of(stage, listen, true);
	options.inherited = sockets;
	options.inherited_count = 2;
	cr_assert_eq(dns_create(&stage->dns, stage->cache.loop, stage->lookups, &options, &err), 0,
		"%s", err.msg);
	for (int tcp = 0; tcp < 2; tcp++) {
		cr_expect_eq(fcntl(sockets[tcp].fd, F_GETFD), FD_CLOEXEC);
		cr_expect_str_eq(ask(stage, tcp, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
	}
}

/* ---- nearness ---- */

/* The priorities of both targets of the instance, that of port 1 first. */
static unsigned priorities(struct stage *stage)
{
	unsigned found[2] = { 9, 9 };
	ns_msg message;
	ask(stage, false, "prod.web.joe.berth", ns_t_srv, true);
	cr_assert_eq(ns_initparse(reply + 2, (int)ns_get16(reply), &message), 0);
	cr_assert_eq(ns_msg_count(message, ns_s_an), 2);
	for (int i = 0; i < 2; i++) {
		ns_rr record;
		cr_assert_eq(ns_parserr(&message, ns_s_an, i, &record), 0);
		found[ns_get16(ns_rr_rdata(record) + 4) - 1] = ns_get16(ns_rr_rdata(record));
	}
	return 10 * found[0] + found[1];
}

#define IN_ZONE(zone, port)                                                                        \
	"{\"type\":\"JSONServiceRecord\",\"berth:zone\":\"" zone "\",\"external\":"                \
	"[{\"api\":\"x\",\"addressType\":\"host/port\",\"protocol\":\"http\",\"addresses\":"       \
	"[{\"host\":\"10.0.0.1\",\"port\":\"" port "\"}]}],\"internal\":[]}"

STAGED(targets_of_the_own_zone_come_first_until_a_reload_says_otherwise)
{
	static const char *const above[] = { "/users", "/users/joe", "/users/joe/web",
		"/users/joe/web/prod", "/users/joe/web/prod/components" };
	struct dns_options options = options_of(stage, NULL, true);
	for (size_t i = 0; i < ARRAY_LEN(above); i++) {
		memory_put(stage->cache.registry, above[i], "");
	}
	memory_put(stage->cache.registry, "/users/joe/web/prod/components/x", IN_ZONE("eu/a", "1"));
	memory_put(stage->cache.registry, "/users/joe/web/prod/components/y", IN_ZONE("us/b", "2"));
	cr_expect_eq(priorities(stage), 0, "their own");
	options.near = "eu/a";
	dns_set_options(stage->dns, &options);
	cr_expect_eq(priorities(stage), 1);
	options.near = "us/b";
	dns_set_options(stage->dns, &options);
	cr_expect_eq(priorities(stage), 10);
	options.near = NULL;
	dns_set_options(stage->dns, &options);
	cr_expect_eq(priorities(stage), 0);
	options.near = "eu/a"; /* it goes with the server */
	dns_set_options(stage->dns, &options);
}
