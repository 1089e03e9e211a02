/* The DNS server over TCP: connections, their questions, and clients that do not read. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
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

STAGED(a_connection_that_has_gone_again_is_not_accepted)
{
	struct dns_socket sockets[2];
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 1);
	int before = descriptors_count();
	cr_assert_eq(dns_sockets(stage->dns, sockets), 2);
	dns_tcp_accept(stage->dns, sockets[sockets[1].tcp].fd);
	cr_expect_eq(dns_counts(stage->dns)->connections, 1);
	cr_expect_eq(descriptors_count(), before);
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

STAGED(a_message_of_a_connection_may_be_empty)
{
	cr_assert_eq(send(stage->clients[1], "\0\0", 2, 0), 2);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->dropped == 1);
	cr_expect_str_eq(ask(stage, true, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
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

/* A question with so much behind it that there is no longer message. */
STAGED(the_longest_message_is_read)
{
	static uint8_t packet[2 + DNS_TCP_BYTES];
	size_t len = write_question(packet, "a.berth", ns_t_a, true);
	memcpy(packet + len, "\0\0\51\4\320\0\0\0\0", 9); /* with EDNS */
	packet[2 + 11] = 1;
	ns_put16((unsigned)(sizeof(packet) - len - 11), packet + len + 9);
	ns_put16(DNS_TCP_BYTES, packet);
	for (int i = 0; i < 2; i++) {
		size_t sent = 0;
		while (sent < sizeof(packet) - 1) { /* all but the last byte */
			ssize_t took = send(stage->clients[1], packet + sent,
				sizeof(packet) - 1 - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
			sent += took > 0 ? (size_t)took : 0;
			ev_run(stage->cache.loop, EVRUN_NOWAIT);
		}
		for (int turn = 0; turn < 50; turn++) {
			ev_run(stage->cache.loop, EVRUN_NOWAIT);
		}
		cr_assert_eq(dns_counts(stage->dns)->queries[1], (uint64_t)i);
		cr_assert_eq(send(stage->clients[1], packet + sent, 1, MSG_NOSIGNAL), 1);
		cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
	}
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

STAGED(a_connection_is_not_idle_from_its_last_reply_on)
{
	memory_set_answering(stage->cache.registry, false);
	send_question(stage, true, "a.berth", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 1);
	clock_shift_ms += 1500;
	memory_set_answering(stage->cache.registry, true);
	cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
	clock_shift_ms += 9000;
	for (int i = 0; i < 3; i++) {
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(dns_counts(stage->dns)->connections, 1);
	clock_shift_ms += 1001;
	RUN_UNTIL(stage->cache.loop, is_closed(stage->clients[1]));
}

/* ---- calls that fail ---- */

/* The test's own calls do not fail. */
static bool has_ended(struct stage *stage)
{
	failing_pause();
	bool ended = is_closed(stage->clients[1]) || receive(stage->clients[1], true);
	failing_resume();
	return ended;
}

/* Asks a question over TCP while a call fails; true when the connection survives it. */
static bool survives(struct stage *stage, const char *kind, int error)
{
	ask(stage, false, "a.berth", ns_t_a, true);
	close(stage->clients[1]);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 0);
	stage->clients[1] = dial(stage, true);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 1);
	send_question(stage, true, "a.berth", ns_t_a, true);
	failing_arm(kind, 1, error);
	RUN_UNTIL(stage->cache.loop, has_ended(stage));
	cr_expect(failing_disarm(), "%s", kind);
	bool lives = !is_closed(stage->clients[1]);
	cr_expect_eq(dns_counts(stage->dns)->connections, lives);
	return lives;
}

STAGED(an_interruption_leaves_a_connection_and_a_failure_ends_it)
{
	cr_expect(survives(stage, "receive", EINTR));
	cr_expect(survives(stage, "receive", EAGAIN));
	cr_expect_not(survives(stage, "receive", ETIMEDOUT));
	cr_expect(survives(stage, "send", EINTR));
	cr_expect(survives(stage, "send", EAGAIN));
	cr_expect_not(survives(stage, "send", EPIPE));
	cr_expect_not(survives(stage, "alloc", ENOMEM));
}

/* Of a client that sends no more only the writing is watched. */
STAGED(a_connection_whose_reply_cannot_be_waited_for_is_closed)
{
	memory_set_answering(stage->cache.registry, false);
	send_question(stage, true, "a.berth", ns_t_a, true);
	cr_assert_eq(shutdown(stage->clients[1], SHUT_WR), 0);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 1);
	for (int i = 0; i < 10; i++) {
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
	}
	memory_set_answering(stage->cache.registry, true);
	failing_arm("epoll", 1, ENOMEM);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 0);
	RUN_UNTIL(stage->cache.loop, is_closed(stage->clients[1]));
	cr_expect(failing_disarm());
	cr_expect_eq(dns_counts(stage->dns)->connections, 0);
}

/* The server's end of the client's connection. */
static int server_end(const struct stage *stage)
{
	struct sockaddr_in ours = place_of(stage->clients[1]);
	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_in theirs;
		socklen_t len = sizeof(theirs);
		if (getpeername(fd, (struct sockaddr *)&theirs, &len) == 0 &&
			theirs.sin_family == AF_INET && theirs.sin_port == ours.sin_port &&
			fd != stage->clients[0]) {
			return fd;
		}
	}
	return -1;
}

STAGED(a_connection_is_not_for_programs_that_the_agent_starts)
{
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 1);
	cr_expect_eq(fcntl(server_end(stage), F_GETFD), FD_CLOEXEC);
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
