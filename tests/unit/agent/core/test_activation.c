/* Sockets that a service manager has opened, and which of the agent's each becomes. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/upgrade.h"
#include "lib/base/close_files.h"
#include "lib/base/text.h"

TestSuite(activation);

/* A socket at a free port; or, of another family, at no address. */
static int make_socket(char kind)
{
	const struct sockaddr_in v4 = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	switch (kind) {
	case 'x':
		return open("/dev/null", O_RDONLY);
	case 'l':
		return socket(AF_UNIX, SOCK_STREAM, 0);
	case 'L':
		return socket(AF_UNIX, SOCK_DGRAM, 0);
	case 's': {
		const struct sockaddr_in6 scoped = { .sin6_family = AF_INET6,
			.sin6_scope_id = if_nametoindex("lo"),
			.sin6_addr = { { { 0xfe, 0x80, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44,
				0x44, 0x55, 0x55, 0x66, 0x66, 0x77, 0x77 } } } };
		int fd = socket(AF_INET6, SOCK_DGRAM, 0);
		const int on = 1;
		setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on));
		return bind(fd, (const struct sockaddr *)&scoped, sizeof(scoped)) ? -1 : fd;
	}
	case '6': {
		int fd = socket(AF_INET6, SOCK_DGRAM, 0);
		return bind(fd, (const struct sockaddr *)&v6, sizeof(v6)) ? -1 : fd;
	}
	default: {
		int fd = socket(AF_INET, kind == 'u' ? SOCK_DGRAM : SOCK_STREAM, 0);
		return bind(fd, (const struct sockaddr *)&v4, sizeof(v4)) ? -1 : fd;
	}
	}
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in6 address = { 0 };
	socklen_t len = sizeof(address);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	return ntohs(address.sin6_port);
}

/* The number of this process; 0: its own. */
static pid_t pretended_pid;

pid_t getpid(void)
{
	return pretended_pid ? pretended_pid : (pid_t)syscall(SYS_getpid);
}

/*
 * "socket 3 listen 4 keep; dns 5 HOST udp; open 3 4 5" when a process has been given sockets of
 * these kinds, from descriptor 3 on: l a local one, t TCP, u UDP, 6 UDP of IPv6, x not a socket.
 * `count` NULL and `pid` "-": the variable is not set; `pid` NULL: the own one.
 */
static void describe(char text[512], const char *kinds, const char *count, const char *pid)
{
	struct upgrade upgrade;
	close_files(3, INT_MAX);
	for (size_t i = 0; kinds[i]; i++) {
		if (make_socket(kinds[i]) != (int)(3 + i)) {
			text_printf(text, 512, "no socket %c", kinds[i]);
			return;
		}
	}
	char own[16];
	snprintf(own, sizeof(own), "%d", (int)getpid());
	if (count) {
		setenv("LISTEN_FDS", count, 1);
	}
	if (!pid || *pid != '-') {
		setenv("LISTEN_PID", pid ? pid : own, 1);
	}
	upgrade_receive(&upgrade);
	text_printf(text, 512, "socket %d listen %d%s;", upgrade.socket_fd, upgrade.listen_fd,
		upgrade.keep_socket ? " keep" : "");
	for (size_t i = 0; i < upgrade.dns_count; i++) {
		const struct dns_socket *dns = &upgrade.dns[i];
		char port[8];
		size_t len = strlen(text);
		const char *colon = strrchr(dns->address, ':');
		snprintf(port, sizeof(port), "%u", port_of(dns->fd));
		text_printf(text + len, 512 - len, " dns %d %.*s %s%s%s;", dns->fd,
			(int)(colon - dns->address), dns->address, dns->tcp ? "tcp" : "udp",
			strcmp(colon + 1, port) == 0 ? "" : " at another port",
			fcntl(dns->fd, F_GETFL) & O_NONBLOCK ? "" : " that blocks");
	}
	strcat(text, " open");
	for (size_t i = 0; kinds[i]; i++) {
		int flags = fcntl((int)(3 + i), F_GETFD);
		size_t len = strlen(text);
		if (flags >= 0) {
			text_printf(text + len, 512 - len, " %zu%s", 3 + i,
				flags & FD_CLOEXEC ? "" : "!");
		}
	}
	if (getenv("LISTEN_FDS") || getenv("LISTEN_PID") || getenv("LISTEN_FDNAMES")) {
		strcat(text, " and the next one finds them");
	}
	upgrade_finish(&upgrade);
}

static void activate(const char *kinds, const char *count, const char *pid, const char *names,
	const char *expected)
{
	char text[512] = "";
	int out[2];
	cr_assert_eq(pipe(out), 0);
	pid_t child = fork();
	if (child == 0) {
		if (names) {
			setenv("LISTEN_FDNAMES", names, 1);
		}
		dup2(out[1], STDOUT_FILENO);
		describe(text, kinds, count, pid);
		exit(write(STDOUT_FILENO, text, strlen(text)) > 0 ? 0 : 1); /* finds leaks */
	}
	close(out[1]);
	cr_assert_gt(read(out[0], text, sizeof(text) - 1), 0);
	close(out[0]);
	int status = -1;
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_str_eq(text, expected, "%s", kinds);
}

Test(activation, each_socket_is_taken_for_what_its_kind_says)
{
	activate("lt", "2", NULL, NULL, "socket 3 listen 4 keep; open 3 4");
	activate("tl", "2", NULL, NULL, "socket 4 listen 3 keep; open 3 4");
	activate("t", "1", NULL, NULL, "socket -1 listen 3; open 3");
	activate("l", "1", NULL, NULL, "socket 3 listen -1 keep; open 3");
	activate("L", "1", NULL, NULL, "socket 3 listen -1 keep; open 3");
}

Test(activation, a_socket_for_names_is_udp_or_named_so)
{
	activate("u", "1", NULL, NULL, "socket -1 listen -1; dns 3 127.0.0.1 udp; open 3");
	activate("ut", "2", NULL, "a:dns",
		"socket -1 listen -1; dns 3 127.0.0.1 udp; dns 4 127.0.0.1 tcp; open 3 4");
	activate("tt", "2", NULL, "dns", "socket -1 listen 4; dns 3 127.0.0.1 tcp; open 3 4");
	activate("tt", "2", NULL, "web:dns", "socket -1 listen 3; dns 4 127.0.0.1 tcp; open 3 4");
	activate("l", "1", NULL, "dns", "socket 3 listen -1 keep; open 3");
	if (make_socket('s') >= 0) {
		activate("s", "1", NULL, NULL,
			"socket -1 listen -1; dns 3 "
			"[fe80:1111:2222:3333:4444:5555:6666:7777%lo] udp; open 3");
	}
	if (make_socket('6') >= 0) {
		activate("6", "1", NULL, NULL, "socket -1 listen -1; dns 3 [::1] udp; open 3");
	}
}

Test(activation, a_second_socket_of_a_kind_is_closed)
{
	activate("llt", "3", NULL, NULL, "socket 3 listen 5 keep; open 3 5");
	activate("ttl", "3", NULL, NULL, "socket 5 listen 3 keep; open 3 5");
}

Test(activation, sockets_of_another_process_are_left)
{
	activate("l", "1", "1", NULL, "socket -1 listen -1; open 3!");
	activate("l", "1", "", NULL, "socket -1 listen -1; open 3!");
	activate("l", "1", "-", NULL, "socket -1 listen -1; open 3!");
	activate("l", NULL, NULL, NULL, "socket -1 listen -1; open 3!");
}
