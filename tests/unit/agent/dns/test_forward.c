/* Questions to other servers, which answer, refuse, are silent, or cannot be reached. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/dns/dns.h"
#include "agent/dns/internal.h"
#include "lib/base/text.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
#include "tests/support/run_until.h"
#include "tests/support/staged.h"

/* ---- a server in the same loop ---- */

/* The question's name with an address. */
#define RECORD "\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1"
enum { RECORD_BYTES = sizeof(RECORD) - 1, RECORDS = 200, MOST_RECORDS = 4094 };

enum answer { GOOD, REFUSED_ONCE, WRONG_ID, HANGS_UP, LARGE, LARGEST };

struct stage {
	struct ev_loop *loop;
	struct dns_forward *forward;
	int udp;
	int tcp;
	int client; /* of the server over TCP; or -1 */
	ev_io udp_io;
	ev_io tcp_io;
	ev_io client_io;
	char address[32];
	char *addresses[1];
	enum answer answer;
	unsigned questions;

	struct dns_query query;
	uint8_t packet[NS_PACKETSZ];
	size_t len;
	struct dns_forwarding forwarding;
	unsigned ends;
	bool answered;
	size_t reply_len;
};

static size_t make_reply(struct stage *stage, uint8_t *reply, size_t len)
{
	stage->questions++;
	reply[2] |= 0x80;
	if (stage->answer == REFUSED_ONCE && stage->questions == 1) {
		reply[3] |= ns_r_refused;
	} else if (stage->answer == WRONG_ID) {
		reply[0] ^= 0xff;
	} else if (stage->answer == LARGE || stage->answer == LARGEST) {
		int records = stage->answer == LARGE ? RECORDS : MOST_RECORDS;
		ns_put16((unsigned)records, reply + 6);
		for (int i = 0; i < records; i++) {
			memcpy(reply + len, RECORD, RECORD_BYTES);
			len += RECORD_BYTES;
		}
	}
	return len;
}

static void on_udp(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	struct stage *stage = io->data;
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	uint8_t packet[4096];
	ssize_t len = recvfrom(stage->udp, packet, sizeof(packet), MSG_DONTWAIT,
		(struct sockaddr *)&from, &from_len);
	if (len > 0) {
		size_t reply_len = make_reply(stage, packet, (size_t)len);
		(void)!sendto(stage->udp, packet, reply_len, 0, (struct sockaddr *)&from, from_len);
	}
}

static void hang_up(struct stage *stage)
{
	if (stage->client >= 0) {
		ev_io_stop(stage->loop, &stage->client_io);
		close(stage->client);
		stage->client = -1;
	}
}

static void on_client(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct stage *stage = io->data;
	static uint8_t packet[2 + DNS_TCP_BYTES];
	ssize_t len = events & EV_ERROR
		? -1
		: recvfrom(stage->client, packet, sizeof(packet), MSG_DONTWAIT, NULL, NULL);
	if (len > 2 && stage->answer != HANGS_UP) {
		size_t reply_len = make_reply(stage, packet + 2, (size_t)len - 2);
		ns_put16((unsigned)reply_len, packet);
		(void)!sendto(stage->client, packet, reply_len + 2, MSG_NOSIGNAL, NULL, 0);
	} else {
		stage->questions += len > 2;
		hang_up(stage);
	}
}

static void on_connect(struct ev_loop *loop, ev_io *io, int events)
{
	(void)events;
	struct stage *stage = io->data;
	hang_up(stage);
	stage->client = accept(stage->tcp, NULL, NULL);
	if (stage->client >= 0) {
		ev_io_init(&stage->client_io, on_client, stage->client, EV_READ);
		stage->client_io.data = stage;
		ev_io_start(loop, &stage->client_io);
	}
}

static void on_reply(void *context, const uint8_t *data, size_t len)
{
	struct stage *stage = context;
	stage->ends++;
	cr_expect(data || len == 0);
	stage->answered = data != NULL && ns_get16(data) == stage->query.id;
	stage->reply_len = len;
}

/* ---- the stage ---- */

static void watch(
	struct stage *stage, ev_io *io, void (*on_io)(struct ev_loop *, ev_io *, int), int fd)
{
	ev_io_init(io, on_io, fd, EV_READ);
	io->data = stage;
	ev_io_start(stage->loop, io);
}

static struct stage *stage_begin(struct stage *stage)
{
	struct err err = ERR_INIT;
	struct sockaddr_in place;
	socklen_t len = sizeof(place);
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	stage->client = -1;
	stage->tcp = dns_socket_open("127.0.0.1:0", true, &err);
	cr_assert_geq(stage->tcp, 0, "%s", err.msg);
	cr_assert_eq(getsockname(stage->tcp, (struct sockaddr *)&place, &len), 0);
	text_printf(stage->address, sizeof(stage->address), "127.0.0.1:%u", ntohs(place.sin_port));
	stage->udp = dns_socket_open(stage->address, false, &err);
	cr_assert_geq(stage->udp, 0, "%s", err.msg);
	watch(stage, &stage->udp_io, on_udp, stage->udp);
	watch(stage, &stage->tcp_io, on_connect, stage->tcp);
	stage->forward = dns_forward_create(stage->loop);
	stage->addresses[0] = stage->address;
	dns_forward_set(stage->forward, stage->addresses, 1, NULL, 0);
	stage->len = dns_query_write(&stage->query, stage->packet, "a.example", ns_t_a);
	cr_assert_gt(stage->len, 0);
	return stage;
}

static void stage_end(struct stage *stage)
{
	dns_forward_cancel(&stage->forwarding);
	dns_forward_destroy(stage->forward);
	hang_up(stage);
	ev_io_stop(stage->loop, &stage->udp_io);
	ev_io_stop(stage->loop, &stage->tcp_io);
	close(stage->udp);
	close(stage->tcp);
	ev_loop_destroy(stage->loop);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(dns_forward, name, struct stage *, stage, stage_begin(&(struct stage){ 0 }),   \
		stage_end)

static struct sockaddr_storage address_of(const char *text)
{
	struct sockaddr_storage address;
	memset(&address, 0, sizeof(address));
	struct sockaddr_in *v4 = (void *)&address;
	struct sockaddr_in6 *v6 = (void *)&address;
	bool is_v6 = strchr(text, ':');
	address.ss_family = is_v6 ? AF_INET6 : AF_INET;
	void *bytes = is_v6 ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr;
	cr_assert_eq(inet_pton(address.ss_family, text, bytes), 1);
	return address;
}

static bool begin(struct stage *stage, bool tcp)
{
	stage->ends = 0;
	stage->questions = 0;
	stage->answered = false;
	stage->forwarding = (struct dns_forwarding){ .on_reply = on_reply, .context = stage };
	const struct sockaddr_storage client = address_of("127.0.0.1");
	return dns_forward_ask(stage->forward, &stage->forwarding, &client, &stage->query,
		stage->packet, stage->len, tcp);
}

static void ask(struct stage *stage, bool tcp)
{
	cr_assert(begin(stage, tcp));
	RUN_UNTIL(stage->loop, stage->ends > 0);
	cr_assert_eq(stage->ends, 1);
}

/* ---- shares ---- */

struct question {
	struct dns_forwarding forwarding;
	bool ended;
};

static void on_end(void *context, const uint8_t *data, size_t len)
{
	struct question *question = context;
	(void)len;
	question->ended = true;
	cr_assert_null(data);
}

static bool ask_as(struct stage *stage, struct question *question, const char *address)
{
	const struct sockaddr_storage client = address_of(address);
	*question = (struct question){ .forwarding = { .on_reply = on_end, .context = question } };
	return dns_forward_ask(stage->forward, &question->forwarding, &client, &stage->query,
		stage->packet, stage->len, false);
}

enum { MANY = 300, MOST = 192 }; /* three times what is free of 256 */

static size_t count_ended(const struct question *questions, size_t count)
{
	size_t ended = 0;
	for (size_t i = 0; i < count; i++) {
		ended += questions[i].ended;
	}
	return ended;
}

static void flood(struct stage *stage, struct question *questions, const char *address)
{
	stage->answer = WRONG_ID; /* as good as silence */
	for (size_t i = 0; i < MANY; i++) {
		cr_assert(ask_as(stage, &questions[i], address), "%zu", i);
	}
}

static void cancel(struct question *questions, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		dns_forward_cancel(&questions[i].forwarding);
	}
}

STAGED(questions_that_nobody_answers_give_way_to_newer_ones_of_their_client)
{
	static struct question questions[MANY];
	int descriptors = descriptors_count();
	flood(stage, questions, "192.0.2.1");
	cr_assert_eq(count_ended(questions, MANY), 0, "not while another one begins");
	cr_assert_eq(descriptors_count(), descriptors + MOST, "those that gave way have none");
	RUN_UNTIL(stage->loop, count_ended(questions, MANY) >= MANY - MOST);
	cr_assert_eq(count_ended(questions, MANY - MOST), MANY - MOST, "the oldest");
	cr_assert_eq(count_ended(questions, MANY), MANY - MOST);
	cancel(questions, MANY);
}

STAGED(questions_that_nobody_answers_leave_room_for_other_clients)
{
	enum { OTHERS = 30 };
	static const char *const addresses[] = { "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1" };
	static struct question questions[MANY];
	static struct question others[3][OTHERS];
	flood(stage, questions, "::ffff:192.0.2.1");
	for (size_t i = 0; i < OTHERS; i++) {
		cr_assert(ask_as(stage, &others[0][i], addresses[0]));
	}
	for (size_t i = 0; i < 2; i++) {
		cr_assert(ask_as(stage, &others[1 + i][0], addresses[1 + i]));
	}
	RUN_UNTIL(stage->loop, count_ended(questions, MANY) >= MANY - MOST);
	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(count_ended(others[i], OTHERS), 0);
		cancel(others[i], OTHERS);
	}
	cancel(questions, MANY);
}

/* How many of their questions stay when two ask in turns, and no server answers. */
static size_t stay_of_two(struct stage *stage, const char *first, const char *second)
{
	static struct question questions[MANY];
	char *servers[] = { stage->address, stage->address };
	dns_forward_set(stage->forward, servers, 2, NULL, 0);
	stage->answer = WRONG_ID;
	for (size_t i = 0; i < MANY; i++) {
		cr_assert(ask_as(stage, &questions[i], i % 2 ? second : first), "%zu", i);
	}
	for (int i = 0; i < 3; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	size_t stay = MANY - count_ended(questions, MANY);
	cancel(questions, MANY);
	return stay;
}

STAGED(a_client_is_an_address_of_ipv4_or_a_network_of_ipv6)
{
	static const struct {
		const char *first, *second;
		bool same;
	} cases[] = { { "192.0.2.1", "192.0.2.1", true }, { "192.0.2.1", "192.0.2.2", false },
		{ "192.0.2.1", "193.0.2.1", false }, { "192.0.2.1", "::ffff:192.0.2.1", true },
		{ "::ffff:192.0.2.1", "::ffff:192.0.2.2", false },
		{ "2001:db8::1", "2001:db8::2", true }, { "2001:db8::1", "2001:db8:0:1::1", false },
		{ "2001:db8:0:0:8000::", "2001:db8::", true },
		{ "2001:db8::", "32.1.13.184", false } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t stay = stay_of_two(stage, cases[i].first, cases[i].second);
		cr_expect_eq(stay == MOST, cases[i].same, "%s %s: %zu", cases[i].first,
			cases[i].second, stay);
		cr_expect_geq(stay, MOST);
	}
}

/* ---- answers ---- */

STAGED(an_answer_has_the_clients_id)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		ask(stage, tcp);
		cr_assert(stage->answered);
		cr_assert_eq(stage->reply_len, stage->len);
		cr_assert_eq(stage->questions, 1);
	}
}

STAGED(a_refusal_is_not_the_last_word)
{
	stage->answer = REFUSED_ONCE;
	for (int tcp = 0; tcp < 2; tcp++) {
		ask(stage, tcp);
		cr_assert(stage->answered);
		cr_assert_eq(stage->questions, 2);
	}
}

STAGED(of_several_servers_each_is_asked_before_a_refusal_is_the_last_word)
{
	char *servers[] = { stage->address, stage->address, stage->address };
	dns_forward_set(stage->forward, servers, 3, NULL, 0);
	stage->answer = REFUSED_ONCE;
	ask(stage, false);
	cr_assert(stage->answered);
	cr_assert_eq(stage->questions, 2);
}

STAGED(an_answer_to_another_question_is_not_taken_over_udp)
{
	stage->answer = WRONG_ID;
	cr_assert(begin(stage, false));
	RUN_UNTIL(stage->loop, stage->questions == 1);
	for (int i = 0; i < 20; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(stage->ends, 0);
	cr_expect_eq(stage->forwarding.attempt, 1);
}

STAGED(a_question_over_tcp_that_cannot_be_sent_yet_costs_no_try)
{
	static const struct {
		int error;
		unsigned attempts;
	} rows[] = { { EAGAIN, 1 }, { EINTR, 1 }, { ENOTCONN, 1 }, { EPIPE, 2 } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		failing_arm("send", 1, rows[i].error);
		ask(stage, true);
		cr_expect(failing_disarm());
		cr_expect(stage->answered);
		cr_expect_eq(stage->forwarding.attempt, rows[i].attempts, "%d", rows[i].error);
	}
}

STAGED(a_large_answer_comes_over_tcp)
{
	stage->answer = LARGE;
	ask(stage, true);
	cr_assert(stage->answered);
	cr_assert_eq(stage->reply_len, stage->len + RECORDS * RECORD_BYTES);
	stage->answer = LARGEST;
	ask(stage, true);
	cr_assert(stage->answered);
	cr_assert_eq(stage->reply_len, stage->len + MOST_RECORDS * RECORD_BYTES);
	cr_assert_gt(stage->reply_len + RECORD_BYTES, DNS_TCP_BYTES);
}

STAGED(an_interruption_costs_no_try_and_a_failure_costs_one)
{
	static const struct {
		const char *kind;
		int error;
		unsigned questions[2]; /* that come to the server over UDP, over TCP */
	} calls[] = { { "receive", EINTR, { 1, 1 } }, { "receive", EAGAIN, { 1, 1 } },
		{ "receive", ECONNREFUSED, { 2, 2 } }, { "receive", ECONNRESET, { 2, 2 } } };
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (int tcp = 0; tcp < 2; tcp++) {
			failing_arm(calls[i].kind, 1, calls[i].error);
			ask(stage, tcp);
			cr_expect(failing_disarm());
			cr_expect(stage->answered);
			cr_expect_eq(stage->questions, calls[i].questions[tcp], "%s %d: %u",
				calls[i].kind, calls[i].error, stage->questions);
		}
	}
}

STAGED(a_socket_that_the_kernel_refuses_to_watch_is_left_at_once)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
		cr_assert(begin(stage, tcp));
		failing_arm("epoll", 1, ENOMEM);
		ev_run(stage->loop, EVRUN_NOWAIT);
		cr_assert(failing_disarm());
		ev_run(stage->loop, EVRUN_NOWAIT);
		cr_expect_eq(stage->forwarding.attempt, 2);
		RUN_UNTIL(stage->loop, stage->ends > 0);
		cr_expect(stage->answered);
	}
}

STAGED(questions_that_are_cancelled_or_answered_leave_their_room)
{
	for (int i = 0; i < 2 * 256; i++) {
		cr_assert(begin(stage, false), "%d", i);
		cr_expect_eq(fcntl(stage->forwarding.fd, F_GETFD), FD_CLOEXEC);
		cr_expect(fcntl(stage->forwarding.fd, F_GETFL) & O_NONBLOCK);
		dns_forward_cancel(&stage->forwarding);
	}
	for (int i = 0; i < 2 * 256; i++) {
		ask(stage, false);
		cr_assert(stage->answered);
	}
}

STAGED(an_answer_to_another_question_is_none_over_tcp)
{
	stage->answer = WRONG_ID;
	ask(stage, true);
	cr_assert_not(stage->answered);
	cr_assert_eq(stage->questions, 2);
	stage->answer = HANGS_UP;
	ask(stage, true);
	cr_assert_not(stage->answered);
	cr_assert_eq(stage->questions, 2);
}

STAGED(where_nobody_listens_there_is_no_answer)
{
	ev_io_stop(stage->loop, &stage->udp_io);
	ev_io_stop(stage->loop, &stage->tcp_io);
	close(stage->udp);
	close(stage->tcp);
	for (int tcp = 0; tcp < 2; tcp++) {
		ask(stage, tcp);
		cr_assert_not(stage->answered);
	}
	stage->udp = stage->tcp = -1;
}

/* ---- servers ---- */

STAGED(our_own_addresses_and_malformed_ones_are_not_asked)
{
	static char *servers[] = { "nonsense", "127.0.0.1", "127.0.0.1:x", "[::1:53", ":53" };
	dns_forward_set(stage->forward, stage->addresses, 1, stage->addresses, 1);
	cr_assert_not(dns_forward_enabled(stage->forward));
	cr_assert_not(begin(stage, false));
	dns_forward_set(stage->forward, stage->addresses, 1, NULL, 0);
	cr_assert(dns_forward_enabled(stage->forward), "they are ours no longer");
	dns_forward_set(stage->forward, servers, 5, servers, 1);
	cr_assert_not(dns_forward_enabled(stage->forward));
	dns_forward_set(stage->forward, NULL, 0, NULL, 0);
	cr_assert_not(dns_forward_enabled(stage->forward));
	dns_forward_set(stage->forward, stage->addresses, 1, servers, 1);
	cr_assert(dns_forward_enabled(stage->forward));
	static char *others[] = { "127.0.0.1:1", "127.0.0.2:53", "[::1]:53" };
	dns_forward_set(stage->forward, stage->addresses, 1, others, 3);
	cr_assert(dns_forward_enabled(stage->forward), "an address is its host and its port");
	dns_forward_set(stage->forward, others, 3, others, 3);
	cr_assert_not(dns_forward_enabled(stage->forward));
	enum { MORE = DNS_MAX_LISTENERS + 4 };
	char own[MORE][32];
	char *many[MORE];
	for (int i = 0; i < MORE; i++) {
		text_printf(own[i], sizeof(own[i]), "127.0.0.1:%d", 1 + i);
		many[i] = own[i];
	}
	dns_forward_set(stage->forward, many, DNS_MAX_LISTENERS, many, MORE);
	cr_assert_not(dns_forward_enabled(stage->forward));
	static char *system[] = { "system" };
	dns_forward_set(stage->forward, system, 1, NULL, 0);
	cr_assert(dns_forward_enabled(stage->forward));
}

/* ---- calls that fail ---- */

struct attempt {
	struct stage *stage;
	bool tcp;
};

/* One try of each server is left. */
static int ask_once(void *context)
{
	const struct attempt *attempt = context;
	struct stage *stage = attempt->stage;
	bool begun = begin(stage, attempt->tcp);
	for (int turn = 0; begun && turn < 100000 && stage->ends == 0; turn++) {
		ev_run(stage->loop, EVRUN_ONCE);
	}
	dns_forward_cancel(&stage->forwarding);
	hang_up(stage);
	return stage->answered ? 0 : FAILING_WRONG;
}

STAGED(a_call_that_fails_costs_one_try)
{
	static const struct {
		const char *kind;
		int error;
	} calls[] = { { "socket", EMFILE }, { "connect", ENETUNREACH }, { "random", EINTR },
		{ "send", ECONNREFUSED }, { "send", EAGAIN }, { "receive", ECONNREFUSED },
		{ "receive", EINTR }, { "epoll", ENOMEM } };
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (int tcp = 0; tcp < 2; tcp++) {
			struct attempt attempt = { stage, tcp };
			failing_check(tcp ? "tcp" : "udp", calls[i].kind, calls[i].error, ask_once,
				&attempt);
		}
	}
}

/* ---- addresses ---- */

Test(dns_address, is_numeric_and_has_a_port)
{
	static const char *const good[] = { "127.0.0.1:53", "[::1]:53", "0.0.0.0:0", "[::]:65535" };
	static const char *const bad[] = { "", "53", ":53", "127.0.0.1", "127.0.0.1:", "::1:53",
		"[::1:53", "[]:53", "[1]:53", "localhost:53", "127.0.0.1:port",
		"::ffff:127.0.0.1:53",
		"127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1:53" };
	struct sockaddr_storage address;
	socklen_t len;
	char padded[80];
	for (int digits = 60; digits < 70; digits++) {
		snprintf(padded, sizeof(padded), "%0*d:53", digits, 1);
		cr_expect_eq(dns_address_read(&address, &len, padded), digits < 64, "%d", digits);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_expect(dns_address_read(&address, &len, good[i]), "%s", good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = ERR_INIT;
		cr_expect_not(dns_address_read(&address, &len, bad[i]), "%s", bad[i]);
		cr_expect_lt(dns_socket_open(bad[i], false, &err), 0);
		cr_expect(strstr(err.msg, "must be ADDRESS:PORT"), "%s", err.msg);
	}
}

static int open_socket(const char *address, bool tcp)
{
	struct err err = ERR_INIT;
	int fd = dns_socket_open(address, tcp, &err);
	if (fd >= 0) {
		dns_socket_adopt(fd, address, tcp);
		close(fd);
	}
	return fd < 0 ? err.code : 0;
}

static int open_udp(void *context)
{
	return open_socket(context, false);
}

static int open_tcp(void *context)
{
	return open_socket(context, true);
}

Test(dns_address, a_socket_that_cannot_be_had_is_named)
{
	static char any[] = "0.0.0.0:0";
	static char local[] = "127.0.0.1:0";
	struct err err = ERR_INIT;
	failing_arm("socket", 1, EMFILE);
	int refused = dns_socket_open(any, false, &err);
	cr_expect(failing_disarm());
	cr_expect_eq(refused, BERTH_FAILED);
	cr_expect(strstr(err.msg, strerror(EMFILE)), "%s", err.msg);
	failing_check("udp", "socket", EMFILE, open_udp, any);
	failing_check("udp", "bind", EADDRINUSE, open_udp, any);
	failing_check("udp", "sockopt", ENOPROTOOPT, open_udp, any);
	failing_check("tcp", "socket", EMFILE, open_tcp, local);
	failing_check("tcp", "bind", EADDRINUSE, open_tcp, local);
	failing_check("tcp", "listen", EADDRINUSE, open_tcp, local);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	if (fd >= 0) {
		close(fd);
		cr_expect_eq(open_socket("[::]:0", false), 0);
		cr_expect_eq(open_socket("[::]:0", true), 0);
	}
}

static int option_of(int fd, int level, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);
	cr_assert_eq(getsockopt(fd, level, option, &value, &len), 0);
	return value;
}

Test(dns_address, a_socket_for_all_addresses_hears_which_one_was_asked)
{
	static const struct {
		const char *address;
		int wanted[2]; /* over UDP, over TCP */
	} cases[] = { { "0.0.0.0:0", { 1, 0 } }, { "127.0.0.1:0", { 0, 0 } },
		{ "[::]:0", { 1, 0 } }, { "[::1]:0", { 0, 0 } } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int family = *cases[i].address == '[' ? AF_INET6 : AF_INET;
		int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
		int option = family == AF_INET ? IP_PKTINFO : IPV6_RECVPKTINFO;
		for (int tcp = 0; tcp < 2; tcp++) {
			struct err err = ERR_INIT;
			int given = socket(family, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
			int opened = dns_socket_open(cases[i].address, tcp, &err);
			if (given < 0 || opened < 0) {
				cr_assert_eq(family, AF_INET6, "%s", err.msg);
				continue; /* a machine without IPv6 */
			}
			cr_expect_eq(option_of(given, level, option), 0);
			dns_socket_adopt(given, cases[i].address, tcp);
			cr_expect_eq(fcntl(given, F_GETFD), FD_CLOEXEC);
			cr_expect_eq(option_of(given, level, option), cases[i].wanted[tcp]);
			cr_expect_eq(fcntl(opened, F_GETFD), FD_CLOEXEC);
			cr_expect(fcntl(opened, F_GETFL) & O_NONBLOCK);
			cr_expect_eq(option_of(opened, level, option), cases[i].wanted[tcp]);
			cr_expect_eq(option_of(opened, SOL_SOCKET, SO_REUSEADDR), tcp);
			cr_expect(family == AF_INET ||
				option_of(opened, IPPROTO_IPV6, IPV6_V6ONLY) == 1);
			close(given);
			close(opened);
		}
	}
}
