/* The sockets of the DNS server, when the kernel refuses to watch one. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/dns/dns.h"
#include "agent/dns/internal.h"
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
		ev_feed_event(stage->loop, &stage->dns->listeners[i].io.retry, EV_TIMER);
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
		cr_assert(ev_is_active(&stage->dns->listeners[0].io.retry) ||
			ev_is_active(&stage->dns->listeners[1].io.retry));
	}
	retry(stage);
	dial(stage);
	for (int tcp = 0; tcp < 2; tcp++) {
		ask(stage, tcp);
		RUN_UNTIL(stage->loop, receive(stage, tcp) > 0);
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
