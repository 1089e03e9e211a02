/*
 * A tcp or http check, and a server for it: on a port of its own, in a process that treats each
 * connection in the same manner.
 */
#ifndef TESTS_UNIT_AGENT_CHECK_NET_STAGE_H
#define TESTS_UNIT_AGENT_CHECK_NET_STAGE_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/check/linger.h"
#include "agent/check/probe.h"
#include "lib/base/clock.h"
#include "tests/support/check_support.h"
#include "tests/support/descriptors.h"

/* How a server treats each connection. */
enum manner {
	ANSWERS,
	ANSWERS_WHAT_IT_IS_SENT,
	SAYS_NOTHING,
	RESETS,
	CLOSES,
	ONE_BYTE_A_TIME, /* ten bytes a second, of a long line */
	FOR_EVER         /* more than anybody should read */
};

static struct ev_loop *loop;
static struct config_check config;
static char port[8];
static pid_t server;
static struct check_result result;
static bool gone;
static struct check_linger linger;

static inline void on_result(void *context, const struct check_result *said)
{
	(void)context;
	result = *said;
}

static inline void on_gone(void *context)
{
	(void)context;
	gone = true;
}

/* Takes a port that no other process can get, and does not listen on it. */
static inline int bind_somewhere(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(address);
	int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(bound, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(getsockname(bound, (struct sockaddr *)&address, &len), 0);
	snprintf(port, sizeof(port), "%d", ntohs(address.sin_port));
	return bound;
}

static inline int listen_somewhere(void)
{
	int listener = bind_somewhere();
	cr_assert_eq(listen(listener, 8), 0);
	return listener;
}

static inline void say(int connection, const char *text, size_t len)
{
	if (send(connection, text, len, MSG_NOSIGNAL) < 0) {
		_exit(0);
	}
}

static inline void treat(int connection, enum manner manner, const char *text)
{
	static char request[65536];
	struct linger at_once = { 1, 0 };
	switch (manner) {
	case ANSWERS:
		/* Reads first: closing with unread data would be a reset. */
		(void)!read(connection, request, sizeof(request));
		say(connection, text, strlen(text));
		break;
	case ANSWERS_WHAT_IT_IS_SENT:
		say(connection, request, (size_t)read(connection, request, sizeof(request)));
		break;
	case SAYS_NOTHING:
		pause();
		break;
	case RESETS:
		setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		break;
	case CLOSES:
		(void)!read(connection, request, sizeof(request));
		break;
	case ONE_BYTE_A_TIME:
		for (;;) {
			say(connection, "H", 1);
			usleep(100000);
		}
	case FOR_EVER:
		memset(request, 'x', sizeof(request));
		for (;;) {
			say(connection, request, sizeof(request));
		}
	}
}

static inline void serve(enum manner manner, const char *text)
{
	int listener = listen_somewhere();
	server = fork();
	if (server == 0) {
		for (;;) {
			int connection = accept(listener, NULL, NULL);
			treat(connection, manner, text);
			close(connection);
		}
	}
	close(listener);
}

static inline void start(void)
{
	loop = ev_default_loop(0);
	check_linger_init(&linger, loop);
}

static inline void end_server(void)
{
	siginfo_t unused;
	/* Unless it has ended by itself: another process may have its number by now. */
	if (waitid(P_PID, (id_t)server, &unused, WEXITED | WNOHANG | WNOWAIT) == 0) {
		kill(server, SIGKILL);
	}
	cr_expect(check_support_run_until_childless());
}

static inline void finish(void)
{
	if (server > 0) {
		end_server();
	}
}

static inline void run(enum config_check_type type)
{
	char send[] = "ping", expect[] = "pong";
	if (!*config.target_port) {
		config.target_port = port;
	}
	config.type = type;
	if (type == CONFIG_CHECK_TCP && config.expect_len == 0 && config.send_len == 4) {
		config.send = send;
		config.expect = expect;
		config.expect_len = 4;
	}
	struct check_run_callbacks callbacks = { on_result, on_gone, NULL };
	double began = clock_monotonic_s();
	int descriptors = descriptors_count();
	long memory = check_support_resident_bytes();
	gone = false;
	cr_assert_not_null(
		check_probe_start(loop, &config, NULL, &linger, NULL, &callbacks, &result));
	cr_assert(check_support_run_until_true(&gone));
	check_linger_stop(&linger);
	cr_expect_eq(descriptors_count(), descriptors, "a descriptor is left");
	cr_expect_lt(check_support_resident_bytes() - memory, 8L << 20);
	cr_expect(result.duration_s >= 0 && result.duration_s <= clock_monotonic_s() - began);
}

#endif
