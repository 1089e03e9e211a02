/* The DNS server over TCP: connections, their questions, and clients that do not read. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/descriptors.h"
#include "tests/support/staged.h"
#include "tests/unit/agent/dns/service_stage.h"

#define STAGED(name)                                                                               \
	STAGED_TEST(dns_tcp, name, struct stage *, stage, stage_begin(&(struct stage){ 0 }),       \
		stage_end)

STAGED(questions_of_a_connection_may_come_together_and_in_pieces)
{
	uint8_t packet[3 * NS_PACKETSZ];
	size_t first = write_question(packet, "a.berth", ns_t_a, true);
	size_t len = first + write_question(packet + first, "six.berth", ns_t_aaaa, true);
	cr_assert_eq(send(stage->clients[1], packet, len, 0), (ssize_t)len);
	cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
	cr_expect_str_eq(hear(stage, true), "0 aa ra: AAAA 2001:db8::1 5");
	for (size_t i = 0; i < first; i++) {
		uint64_t before = dns_counts(stage->dns)->queries[1];
		cr_assert_eq(send(stage->clients[1], packet + i, 1, 0), 1);
		ev_run(stage->cache.loop, EVRUN_ONCE);
		cr_expect(i == first - 1 || dns_counts(stage->dns)->queries[1] == before);
	}
	cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
	/* One and a half. */
	cr_assert_eq(send(stage->clients[1], packet, first + 10, 0), (ssize_t)first + 10);
	cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
	cr_assert_eq(send(stage->clients[1], packet + first + 10, len - first - 10, 0),
		(ssize_t)(len - first - 10));
	cr_expect_str_eq(hear(stage, true), "0 aa ra: AAAA 2001:db8::1 5");
	cr_expect_eq(dns_counts(stage->dns)->queries[1], 5);
}

static bool is_closed(int fd)
{
	uint8_t byte;
	ssize_t len = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
	return len == 0 || (len < 0 && errno == ECONNRESET);
}

STAGED(a_client_that_sends_no_more_gets_its_replies)
{
	stage->upstream.questions = 0;
	send_question(stage, true, "a.berth", ns_t_a, true);
	send_question(stage, true, "six.berth", ns_t_aaaa, true);
	cr_assert_eq(shutdown(stage->clients[1], SHUT_WR), 0);
	cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
	cr_expect_str_eq(hear(stage, true), "0 aa ra: AAAA 2001:db8::1 5");
	RUN_UNTIL(stage->cache.loop, is_closed(stage->clients[1]));
	cr_expect_eq(dns_counts(stage->dns)->connections, 0);
	clock_shift_ms += 20000; /* no timer of it is left */
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
}

STAGED(a_client_that_goes_takes_its_questions_with_it)
{
	int before = descriptors_count();
	memory_set_answering(stage->cache.registry, false);
	send_question(stage, true, "a.berth", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 1);
	const struct linger at_once = { .l_onoff = 1 };
	setsockopt(stage->clients[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(stage->clients[1]);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 0);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
	memory_set_answering(stage->cache.registry, true);
	cache_stage_turn(&stage->cache);
	stage->clients[1] = dial(stage, true);
	cr_expect_str_eq(ask(stage, true, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
	cr_expect_eq(descriptors_count(), before + 1, "the server's end of it");
}

static void ask_more_than_may_be_under_way(struct stage *stage, unsigned count)
{
	enum { UNDER_WAY = 64 };
	uint64_t before = dns_counts(stage->dns)->queries[1];
	memory_set_answering(stage->cache.registry, false);
	for (unsigned i = 0; i < count; i++) {
		send_question(stage, true, "six.berth", ns_t_aaaa, true);
	}
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == UNDER_WAY);
	for (int i = 0; i < 10; i++) {
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(dns_counts(stage->dns)->exchanges, UNDER_WAY);
	cr_expect_eq(dns_counts(stage->dns)->queries[1], before + UNDER_WAY);
	memory_set_answering(stage->cache.registry, true);
	for (unsigned i = 0; i < count; i++) {
		cr_expect_str_eq(hear(stage, true), "0 aa ra: AAAA 2001:db8::1 5");
	}
	cr_expect_eq(dns_counts(stage->dns)->queries[1], before + count);
}

/* Those that wait are in the server's memory. */
STAGED(a_connection_has_so_many_questions_under_way_and_others_wait)
{
	ask_more_than_may_be_under_way(stage, 70);
}

/* Some of those that wait are still in the kernel. */
STAGED(a_connection_is_not_read_while_too_many_of_its_questions_are_under_way)
{
	ask_more_than_may_be_under_way(stage, 200);
}

/* A record with so many addresses that 64 answers are more than a connection keeps. */
static void put_large(struct stage *stage)
{
	struct buffer record;
	buffer_init(&record, 1024 * 1024);
	buffer_append_text(&record,
		"{\"type\":\"JSONServiceRecord\",\"internal\":[],\"external\":"
		"[{\"api\":\"x\",\"addressType\":\"host/port\","
		"\"protocol\":\"http\",\"addresses\":[");
	for (int i = 0; i < 500; i++) {
		buffer_printf(&record, "%s{\"host\":\"10.1.%d.%d\",\"port\":\"80\"}", i ? "," : "",
			i / 250, i % 250);
	}
	buffer_append_text(&record, "]}]}");
	memory_put(stage->cache.registry, "/large", buffer_text(&record));
	buffer_finish(&record);
}

STAGED(a_client_that_leaves_too_much_unread_is_closed)
{
	static const int counts[] = { 20, 64 };
	put_large(stage);
	for (size_t i = 0; i < 2; i++) {
		memory_set_answering(stage->cache.registry, false);
		for (int j = 0; j < counts[i]; j++) {
			send_question(stage, true, i ? "large.berth" : "a.berth", ns_t_a, true);
		}
		RUN_UNTIL(
			stage->cache.loop, dns_counts(stage->dns)->exchanges == (size_t)counts[i]);
		memory_set_answering(stage->cache.registry, true);
		RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 0);
		for (int j = 0; i == 0 && j < counts[0]; j++) {
			hear(stage, true);
		}
	}
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 0);
	/* Nothing of it is left for the next one, which has its descriptor. */
	close(stage->clients[1]);
	stage->clients[1] = dial(stage, true);
	cr_expect_str_eq(ask(stage, true, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
}

STAGED(a_connection_ends_when_it_is_idle)
{
	for (int i = 0; i < 3; i++) { /* a question makes it anything but idle */
		ask(stage, true, "a.berth", ns_t_a, true);
		clock_shift_ms += 9000;
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
		cr_assert_eq(dns_counts(stage->dns)->connections, 1);
	}
	/* Nor is one whose question comes byte by byte. */
	const int on = 1;
	setsockopt(stage->clients[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(send(stage->clients[1], i < 2 ? "\0" : "\1", 1, 0), 1);
		for (int turn = 0; turn < 5; turn++) {
			ev_run(stage->cache.loop, EVRUN_NOWAIT);
		}
		clock_shift_ms += 9000;
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
		cr_assert_eq(dns_counts(stage->dns)->connections, 1, "%d", i);
	}
	clock_shift_ms += 2000;
	RUN_UNTIL(stage->cache.loop, is_closed(stage->clients[1]));
	cr_expect_eq(dns_counts(stage->dns)->connections, 0);
}

STAGED(the_connection_that_was_used_longest_ago_makes_room)
{
	enum { MOST = 128 };
	static int others[MOST];
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 1);
	for (size_t i = 0; i < MOST - 1; i++) {
		others[i] = dial(stage, true);
		RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == i + 2);
	}
	ask(stage, true, "a.berth", ns_t_a, true);
	cr_assert_not(is_closed(others[0]));
	others[MOST - 1] = dial(stage, true);
	RUN_UNTIL(stage->cache.loop, is_closed(others[0]));
	cr_expect_eq(dns_counts(stage->dns)->connections, MOST);
	cr_expect_not(is_closed(stage->clients[1]));
	cr_expect_not(is_closed(others[1]));
	for (size_t i = 0; i < MOST; i++) {
		close(others[i]);
	}
}
