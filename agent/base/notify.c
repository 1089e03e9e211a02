#include "agent/base/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "lib/base/text.h"

enum { STATE_BYTES = 96, STATES = 4, STATUS_BYTES = 512 };

static struct sockaddr_un manager;
static socklen_t manager_len;
static int s6_fd = -1;
static int64_t watchdog_interval_ms;
/* Not taken by the manager's socket yet: changes of state in their order, and the status. */
static char states[STATES][STATE_BYTES];
static size_t state_count;
static char status[STATUS_BYTES];

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

/* False while its queue is full; a manager that does not listen has all that it will ever get. */
static bool send_text(const char *text)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return false;
	}
	bool full = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&manager,
			    manager_len) < 0 &&
		(errno == EAGAIN || errno == ENOBUFS);
	close(fd);
	return !full;
}

bool notify_again(void)
{
	while (state_count > 0 && send_text(states[0])) {
		memmove(states[0], states[1], sizeof(states) - sizeof(states[0]));
		state_count--;
	}
	if (state_count == 0 && *status && send_text(status)) {
		*status = '\0';
	}
	return state_count == 0 && !*status;
}

static void send_state(const char *text)
{
	if (manager_len) {
		state_count -= state_count == STATES ? 1 : 0; /* the newest one counts */
		strcpy(states[state_count++], text);
		(void)notify_again();
	}
}

void notify_ready(void)
{
	struct pollfd s6 = { .fd = s6_fd, .events = POLLOUT };
	send_state("READY=1");
	if (s6_fd >= 0) {
		if (poll(&s6, 1, 0) > 0) { /* others may have the pipe, too */
			(void)!write(s6_fd, "\n", 1);
		}
		close(s6_fd);
		s6_fd = -1;
	}
}

void notify_reloading(void)
{
	char text[STATE_BYTES];
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
		(long long)clock_read_ns(CLOCK_MONOTONIC) / 1000);
	send_state(text);
}

void notify_stopping(void)
{
	send_state("STOPPING=1");
}

void notify_status(const char *format, ...)
{
	static const char key[] = "STATUS=";
	va_list arguments;
	if (!manager_len) {
		return;
	}
	strcpy(status, key);
	va_start(arguments, format);
	text_vprintf(status + strlen(key), sizeof(status) - strlen(key), format, arguments);
	va_end(arguments);
	(void)notify_again();
}

void notify_watchdog(void)
{
	if (manager_len && notify_again()) {
		(void)send_text("WATCHDOG=1");
	}
}

int64_t notify_watchdog_interval_ms(void)
{
	return watchdog_interval_ms;
}
