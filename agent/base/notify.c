#include "agent/base/notify.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"

static struct sockaddr_un manager;
static socklen_t manager_len;
static int s6_fd = -1;
static int64_t watchdog_interval_ms;

static void init_watchdog(void)
{
	const char *usec = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");
	if (usec && (!pid || strtol(pid, NULL, 10) == (long)getpid())) {
		watchdog_interval_ms = strtoll(usec, NULL, 10) / 2000;
	}
}

void notify_init(int ready_fd)
{
	s6_fd = ready_fd;
	if (s6_fd >= 0) {
		fcntl(s6_fd, F_SETFD, FD_CLOEXEC);
	}
	const char *path = getenv("NOTIFY_SOCKET");
	if (path && (*path == '/' || *path == '@') && strlen(path) < sizeof(manager.sun_path)) {
		manager.sun_family = AF_UNIX;
		memcpy(manager.sun_path, path, strlen(path));
		manager_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
		if (*path == '@') {
			manager.sun_path[0] = '\0';
		}
		init_watchdog();
	}
}

static void send_text(const char *text)
{
	if (!manager_len) {
		return;
	}
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return;
	}
	(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&manager,
		manager_len);
	close(fd);
}

void notify_ready(void)
{
	send_text("READY=1");
	if (s6_fd >= 0) {
		(void)!write(s6_fd, "\n", 1);
		close(s6_fd);
		s6_fd = -1;
	}
}

void notify_reloading(void)
{
	char text[96];
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
		(long long)clock_read_ns(CLOCK_MONOTONIC) / 1000);
	send_text(text);
}

void notify_stopping(void)
{
	send_text("STOPPING=1");
}

void notify_status(const char *format, ...)
{
	char text[512] = "STATUS=";
	size_t used = strlen(text);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text + used, sizeof(text) - used, format, arguments);
	va_end(arguments);
	send_text(text);
}

void notify_watchdog(void)
{
	send_text("WATCHDOG=1");
}

int64_t notify_watchdog_interval_ms(void)
{
	return watchdog_interval_ms;
}
