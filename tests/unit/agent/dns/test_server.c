/*
 * The DNS server: sockets that the kernel refuses to watch or to fill, and addresses that get too
 * much.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/socket_address.h"
#include "agent/dns/dns.h"
#include "agent/dns/internal.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/run_until.h"
#include "tests/support/staged.h"

static bool refusing;

/* Criterion's sockets are of another family. */
static bool is_ours(int file)
{
	int domain = 0;
	socklen_t len = sizeof(domain);
	return getsockopt(file, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET;
}

int epoll_ctl(int set, int operation, int file, struct epoll_event *event)
{
	int (*real)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl");
	if (refusing && operation == EPOLL_CTL_ADD && is_ours(file)) {
		refusing = false;
		errno = ENOMEM;
		return -1;
	}
	return real(set, operation, file, event);
}

/* The server's sends, while they are to be refused. */
static bool is_full;
static bool takes_one_byte;
static int refusals;

ssize_t send(int file, const void *data, size_t len, int flags)
{
	ssize_t (*real)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
	if (is_full && (flags & MSG_DONTWAIT) && is_ours(file)) {
		refusals++;
		cr_assert_eq(refusals, 1, "it tries again at once");
		errno = EAGAIN;
		return -1;
	}
	bool one = takes_one_byte && (flags & MSG_DONTWAIT) && is_ours(file);
	return real(file, data, one ? 1 : len, flags);
}

struct stage {
	struct ev_loop *loop;
	struct dns *dns;
	int clients[2]; /* over UDP and TCP */
};

static int connect_to(const struct dns_socket *socket_of)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	cr_assert_eq(getsockname(socket_of->fd, (struct sockaddr *)&address, &len), 0);
	int fd = socket(AF_INET, (socket_of->tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, len), 0);
	return fd;
}

static struct stage *stage_begin(struct stage *stage)
{
	char address[] = "127.0.0.1:0";
	char *listen[] = { address };
	const struct dns_options options = {
		.domain = "berth", .listen = listen, .listen_count = 1
	};
	struct err err = ERR_INIT;
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	cr_assert_eq(dns_create(&stage->dns, stage->loop, NULL, &options, &err), 0, "%s", err.msg);
	return stage;
}

static void dial(struct stage *stage)
{
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	cr_assert_eq(dns_sockets(stage->dns, sockets), 2);
	for (size_t i = 0; i < 2; i++) {
		stage->clients[sockets[i].tcp] = connect_to(&sockets[i]);
	}
}

static void stage_end(struct stage *stage)
{
	close(stage->clients[0]);
	close(stage->clients[1]);
	dns_destroy(stage->dns);
	ev_loop_destroy(stage->loop);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(dns_server, name, struct stage *, stage, stage_begin(&(struct stage){ 0 }),    \
		stage_end)

/* Asks a question that the server answers without a look-up. */
static void ask(const struct stage *stage, bool tcp)
{
	uint8_t packet[2 + NS_PACKETSZ];
	struct dns_query query;
	size_t len = dns_query_write(&query, packet + 2, "a.example", ns_t_a);
	ns_put16((unsigned)len, packet);
	packet[4] |= ns_o_status << 3;
	const uint8_t *begin = tcp ? packet : packet + 2;
	len += tcp ? 2 : 0;
	cr_assert_eq(send(stage->clients[tcp], begin, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* The number of bytes; 0: the server has closed; -1: nothing yet. */
static ssize_t receive(const struct stage *stage, bool tcp)
{
	uint8_t reply[NS_PACKETSZ];
	return recv(stage->clients[tcp], reply, sizeof(reply), MSG_DONTWAIT);
}

static void retry(struct stage *stage)
{
	for (size_t i = 0; i < stage->dns->listener_count; i++) {
		ev_feed_event(stage->loop, &stage->dns->listeners[i].io.retry.timer, EV_TIMER);
	}
	ev_run(stage->loop, EVRUN_NOWAIT);
	ev_run(stage->loop, EVRUN_NOWAIT);
}

STAGED(a_listener_is_watched_again)
{
	for (int i = 0; i < 3; i++) {
		refusing = true;
		retry(stage);
		cr_assert_not(refusing);
		cr_assert(timer_runs(&stage->dns->listeners[0].io.retry) ||
			timer_runs(&stage->dns->listeners[1].io.retry));
	}
	retry(stage);
	dial(stage);
	for (int tcp = 0; tcp < 2; tcp++) {
		ask(stage, tcp);
		RUN_UNTIL(stage->loop, receive(stage, tcp) > 0);
		cr_expect_eq(dns_counts(stage->dns)->queries[tcp], 1);
		cr_expect_eq(dns_counts(stage->dns)->replies[ns_r_notimpl], 1 + (unsigned)tcp);
	}
}

STAGED(a_connection_is_closed_at_once)
{
	ev_run(stage->loop, EVRUN_NOWAIT);
	dial(stage);
	ask(stage, true);
	refusing = true;
	for (int i = 0; i < 60000 && refusing; i++) {
		poll(NULL, 0, 1);
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	ev_run(stage->loop, EVRUN_NOWAIT); /* libev itself does not wake for a refusal */
	cr_assert_not(refusing);
	cr_assert(receive(stage, true) == 0 || errno == ECONNRESET);
	cr_assert_eq(dns_counts(stage->dns)->connections, 0);
}

STAGED(a_reply_that_finds_no_room_waits_for_the_next_iteration_of_the_loop)
{
	dial(stage);
	ask(stage, true);
	is_full = true;
	for (int i = 0; i < 3; i++) {
		refusals = 0;
		RUN_UNTIL(stage->loop, refusals > 0);
		cr_assert_lt(receive(stage, true), 0);
	}
	is_full = false;
	RUN_UNTIL(stage->loop, receive(stage, true) > 0);
	cr_assert_eq(dns_counts(stage->dns)->connections, 1);
}

STAGED(a_reply_that_the_kernel_takes_byte_by_byte_arrives_whole)
{
	uint8_t whole[NS_PACKETSZ];
	ssize_t len = 0;
	dial(stage);
	takes_one_byte = true;
	ask(stage, true);
	RUN_UNTIL(stage->loop,
		(len = recv(stage->clients[1], whole, sizeof(whole), MSG_DONTWAIT | MSG_PEEK)) >
				2 &&
			len == (ssize_t)ns_get16(whole) + 2);
	takes_one_byte = false;
	cr_expect_eq(whole[2 + 3] & 15, ns_r_notimpl);
}

/* ---- another server ---- */

static unsigned forwarded;
static size_t forwarded_len;

static void on_forwarded(void *context, const uint8_t *data, size_t len)
{
	(void)context;
	cr_expect_not_null(data);
	forwarded++;
	forwarded_len = len;
}

/* The loop does not sleep: it does not know of the other server. */
static void on_idle(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)loop;
	(void)idle;
	(void)events;
}

/* The next message on the connection, its length first. */
static size_t hear(struct stage *stage, int fd, uint8_t message[2 + NS_PACKETSZ])
{
	ssize_t len = 0;
	RUN_UNTIL(stage->loop,
		(len = recv(fd, message, 2 + NS_PACKETSZ, MSG_DONTWAIT | MSG_PEEK)) >= 2 &&
			len == (ssize_t)ns_get16(message) + 2);
	return (size_t)len;
}

STAGED(another_server_is_asked_and_answers_byte_by_byte)
{
	char address[32];
	char *servers[] = { address };
	struct err err = ERR_INIT;
	struct sockaddr_in place;
	socklen_t place_len = sizeof(place);
	const struct sockaddr_storage client = { .ss_family = AF_INET };
	struct dns_forwarding forwarding = { .on_reply = on_forwarded };
	struct dns_query query;
	uint8_t packet[NS_PACKETSZ];
	uint8_t message[2 + NS_PACKETSZ];
	ev_idle awake;
	ev_idle_init(&awake, on_idle);
	ev_idle_start(stage->loop, &awake);
	dial(stage);
	int listener = dns_socket_open("127.0.0.1:0", true, &err);
	cr_assert_geq(listener, 0, "%s", err.msg);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&place, &place_len), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(place.sin_port));
	struct dns_forward *forward = dns_forward_create(stage->loop);
	dns_forward_set(forward, servers, 1, NULL, 0);
	size_t len = dns_query_write(&query, packet, "a.example", ns_t_a);
	takes_one_byte = true;
	cr_assert(dns_forward_ask(forward, &forwarding, &client, &query, packet, len, true));
	int fd = -1;
	RUN_UNTIL(stage->loop, (fd = accept(listener, NULL, NULL)) >= 0);
	cr_assert_eq(hear(stage, fd, message), len + 2);
	takes_one_byte = false;
	cr_expect_eq(memcmp(message + 4, packet + 2, len - 2), 0);
	message[2 + 2] |= 0x80;
	for (size_t i = 0; i < len + 2; i++) {
		cr_assert_eq(forwarded, 0);
		cr_assert_eq(write(fd, message + i, 1), 1);
		for (int turn = 0; turn < 3; turn++) {
			ev_run(stage->loop, EVRUN_NOWAIT);
		}
	}
	RUN_UNTIL(stage->loop, forwarded == 1);
	cr_expect_eq(forwarded_len, len);
	ev_idle_stop(stage->loop, &awake);
	dns_forward_destroy(forward);
	close(fd);
	close(listener);
}

/* ---- an address that gets too much ---- */

static uint8_t reply[DNS_EDNS_BYTES];
static size_t reply_len;

static void keep_reply(const struct dns_origin *origin, const uint8_t *data, size_t len)
{
	(void)origin;
	cr_assert_leq(len, sizeof(reply));
	memcpy(reply, data, len);
	reply_len = len;
}

/* The reply to a question for the zone's SOA record, as if it came from `from`. */
static ns_msg ask_from(struct dns *dns, const char *from)
{
	uint8_t packet[NS_PACKETSZ];
	struct dns_query query;
	struct dns_origin origin = { .send = keep_reply };
	ns_msg message;
	socklen_t ignored;
	cr_assert(socket_address_read(&origin.address, &ignored, from), "%s", from);
	size_t len = dns_query_write(&query, packet, "berth", ns_t_soa);
	dns_handle(dns, &origin, packet, len, NULL);
	cr_assert_eq(ns_initparse(reply, (int)reply_len, &message), 0);
	cr_assert_eq(ns_msg_count(message, ns_s_qd), 1);
	cr_assert_eq(ns_msg_count(message, ns_s_an) == 0, ns_msg_getflag(message, ns_f_tc));
	cr_assert(ns_msg_count(message, ns_s_an) == 1 || reply_len == len);
	return message;
}

Test(dns_server, an_address_that_gets_too_much_is_sent_to_tcp)
{
	struct cache_stage stage;
	struct dns *dns;
	struct err err = ERR_INIT;
	const struct dns_options options = { .domain = "berth" };
	bool cut = false;
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	struct names_lookups *lookups = names_lookups_create(stage.loop, stage.cache, "berth");
	cr_assert_eq(dns_create(&dns, stage.loop, lookups, &options, &err), 0);
	size_t whole = 0;
	size_t count = 0;
	for (; count < 100000 && !cut; count++) {
		cut = ns_msg_getflag(ask_from(dns, "203.0.113.1:53"), ns_f_tc);
		whole = cut ? whole : reply_len;
	}
	cr_expect(cut);
	/* Of a reply as much counts as is longer than the question. */
	cr_expect_gt(count, DNS_RATE_BURST / (whole - reply_len));
	cr_expect_eq(dns_counts(dns)->limited, 1);
	cr_expect_not(ns_msg_getflag(ask_from(dns, "127.0.0.1:53"), ns_f_tc));
	/* A reply that is no longer than its question costs nothing, and is whole. */
	uint8_t packet[NS_PACKETSZ];
	struct dns_query query;
	struct dns_origin origin = { .send = keep_reply };
	socklen_t ignored;
	cr_assert(socket_address_read(&origin.address, &ignored, "203.0.113.2:53"));
	cr_assert(dns_rate_take(
		dns->rate, &origin.address, DNS_RATE_BURST, clock_monotonic_ms() + 3600000));
	size_t len = dns_query_write(&query, packet, "a.example", ns_t_axfr);
	dns_handle(dns, &origin, packet, len, NULL);
	cr_expect_eq(reply_len, len);
	cr_expect_eq(reply[3] & 15, ns_r_refused);
	cr_expect_eq(dns_counts(dns)->limited, 1);
	dns_destroy(dns);
	names_lookups_destroy(lookups);
	cache_stage_close(&stage);
}
