/* Questions over UDP and TCP, and the replies; sockets that the server listens on. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/descriptors.h"
#include "tests/support/staged.h"
#include "tests/unit/agent/dns/service_stage.h"

/* ---- a kernel that takes one reply at a time, or refuses the first ---- */

static bool takes_one;
static int refusals;

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	int (*real)(int, struct mmsghdr *, unsigned, int) = dlsym(RTLD_NEXT, "sendmmsg");
	if (refusals > 0) {
		refusals--;
		errno = ENOBUFS;
		return -1;
	}
	return real(fd, messages, takes_one ? 1 : count, flags);
}

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
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
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
	cr_expect_eq(counts->queries[0], sizeof(rows) / sizeof(rows[0]));
	cr_expect_eq(counts->queries[1], sizeof(rows) / sizeof(rows[0]) - 2);
	cr_expect_eq(counts->replies[ns_r_nxdomain], 2);
	cr_expect_eq(counts->replies[ns_r_refused], 4);
	cr_expect_eq(counts->replies[ns_r_noerror], 2 * sizeof(rows) / sizeof(rows[0]) - 8);
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
	stage->upstream.silent = true;
	send_question(stage, false, "www.example", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 1);
	clock_shift_ms += 2001;
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	clock_shift_ms += 2001;
	cr_expect_str_eq(hear(stage, false), "2 ra:");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

STAGED(a_question_to_another_server_goes_with_the_server)
{
	stage->upstream.silent = true;
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 1);
	int before = descriptors_count();
	send_question(stage, false, "www.example", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, stage->upstream.questions == 1);
	cr_expect_eq(descriptors_count(), before + 1);
	dns_destroy(stage->dns);
	stage->dns = NULL;
	cr_expect_eq(descriptors_count(), before - 3, "two listeners and a connection");
	clock_shift_ms += 2001;
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
}

/* The alias may be another one when the answer comes: what it says is of another name. */
STAGED(an_alias_that_changed_meanwhile_has_no_answer)
{
	stage->upstream.silent = true;
	send_question(stage, false, "far.berth", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, stage->upstream.questions == 1);
	memory_put(stage->cache.registry, "/far", AT("other.example", ""));
	cache_stage_turn(&stage->cache);
	stage->upstream.silent = false;
	clock_shift_ms += 2001; /* it is asked again */
	cr_expect_str_eq(hear(stage, false), "2 ra:");
	cr_expect_str_eq(ask(stage, false, "far.berth", ns_t_a, true),
		"0 aa ra: =other.example 5 A 9.9.9.9 7");
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

/* ---- over UDP ---- */

enum { MANY = 150 };

static void send_many(struct stage *stage)
{
	ask(stage, false, "a.berth", ns_t_a, true);
	for (int i = 0; i < MANY; i++) {
		send_question(stage, false, "a.berth", ns_t_a, true);
	}
}

STAGED(a_burst_of_questions_is_answered_whole)
{
	for (int round = 0; round < 2; round++) {
		int replies = 0;
		takes_one = round == 1;
		send_many(stage);
		RUN_UNTIL(
			stage->cache.loop, (replies += receive(stage->clients[0], false)) == MANY);
		cr_expect_eq(
			dns_counts(stage->dns)->replies[0], (uint64_t)(MANY + 1) * (round + 1));
	}
}

STAGED(a_burst_does_not_have_an_iteration_of_the_loop_to_itself)
{
	send_many(stage);
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	cr_expect_eq(dns_counts(stage->dns)->queries[0], 1 + 4 * 16);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->queries[0] == MANY + 1);
}

STAGED(a_reply_that_the_kernel_refuses_is_lost_alone)
{
	int replies = 0;
	send_many(stage);
	refusals = 1;
	RUN_UNTIL(stage->cache.loop, (replies += receive(stage->clients[0], false)) == MANY - 1);
	cr_expect_eq(dns_counts(stage->dns)->queries[0], MANY + 1);
	cr_expect_eq(refusals, 0);
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	cr_expect_not(receive(stage->clients[0], false));
}

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
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		cr_assert_geq(send(stage->clients[0], junk, lens[i], 0), 0);
	}
	RUN_UNTIL(stage->cache.loop,
		dns_counts(stage->dns)->dropped == sizeof(lens) / sizeof(lens[0]));
	cr_expect_eq(dns_counts(stage->dns)->queries[0], 0);
	cr_expect_str_eq(ask(stage, false, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
}

/* A reply comes from the address that was asked, also where the server listens on all. */
STAGED(a_wildcard_answers_from_the_address_that_was_asked)
{
	static const char *const asked[] = { "127.0.0.1", "127.0.0.2" };
	char any[] = "0.0.0.0:0";
	char *listen[] = { any };
	struct dns_socket sockets[2];
	struct dns *dns;
	struct err err = ERR_INIT;
	const struct dns_options options = options_of(stage, listen, true);
	cr_assert_eq(dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), 0, "%s",
		err.msg);
	cr_assert_eq(dns_sockets(dns, sockets), 2);
	struct sockaddr_in place = place_of(sockets[sockets[0].tcp].fd);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(inet_pton(AF_INET, asked[i], &place.sin_addr), 1);
		close(stage->clients[0]);
		stage->clients[0] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		cr_assert_eq(connect(stage->clients[0], (const void *)&place, sizeof(place)), 0);
		cr_expect_str_eq(
			ask(stage, false, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
	}
	dns_destroy(dns);
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
	struct dns_options options = options_of(stage, listen, true);
	options.inherited = sockets;
	options.inherited_count = 2;
	cr_assert_eq(dns_create(&stage->dns, stage->cache.loop, stage->lookups, &options, &err), 0,
		"%s", err.msg);
	for (int tcp = 0; tcp < 2; tcp++) {
		cr_expect_str_eq(ask(stage, tcp, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
	}
}
