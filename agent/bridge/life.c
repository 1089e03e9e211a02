#include "agent/bridge/life.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/boot.h"
#include "lib/base/text.h"

enum { FILE_BYTES = 16 * 1024, SLACK_S = 60, START_FIELD = 22 };

/* "" when it cannot be read. */
static void read_file(const char *path, char out[FILE_BYTES])
{
	size_t len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;
	while (fd >= 0 && len < FILE_BYTES - 1 &&
		(n = read(fd, out + len, FILE_BYTES - 1 - len)) > 0) {
		len += (size_t)n;
	}
	if (fd >= 0) {
		close(fd);
	}
	out[len] = '\0';
}

/* 0: it is in none of our namespaces. -1: it has ended. */
static pid_t pid_of(int pidfd)
{
	char path[64];
	char text[FILE_BYTES];
	text_printf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	read_file(path, text);
	const char *line = strstr(text, "\nPid:");
	return line ? (pid_t)strtol(line + strlen("\nPid:"), NULL, 10) : 0;
}

/* The first one of a pid namespace has the number 1 there. */
static bool is_first(const char *status)
{
	const char *line = strstr(status, "\nNSpid:");
	if (!line) {
		return false;
	}
	line++;
	size_t len = strcspn(line, "\n");
	return len > 2 && line[len - 1] == '1' && line[len - 2] == '\t' &&
		memchr(line, '\t', len - 2) != NULL;
}

static time_t parse_time(const char *text)
{
	struct tm parts = { .tm_isdst = 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
	time_t seconds = end ? timegm(&parts) : 0;
	end = end ? end + strspn(end, ".0123456789") : "";
	int hours;
	int minutes;
	if ((*end == '+' || *end == '-') && sscanf(end + 1, "%2d:%2d", &hours, &minutes) == 2) {
		seconds += (*end == '+' ? -1 : 1) * (hours * 3600 + minutes * 60);
	}
	return seconds;
}

/* When the process was started, in ticks since the boot; 0: the kernel does not say. */
static unsigned long long start_ticks(pid_t pid)
{
	char path[64];
	char stat[FILE_BYTES];
	text_printf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	read_file(path, stat);
	const char *at = strrchr(stat, ')');
	for (int field = 2; at && field < START_FIELD; field++) {
		at = strchr(at + 1, ' ');
	}
	return at ? strtoull(at, NULL, 10) : 0;
}

/* The same, by the clock of now. */
static time_t start_of(pid_t pid)
{
	struct timespec boot;
	unsigned long long ticks = start_ticks(pid);
	if (ticks == 0 || clock_gettime(CLOCK_BOOTTIME, &boot) != 0) {
		return 0;
	}
	return time(NULL) - boot.tv_sec +
		(time_t)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
}

/* As a whole: no part of another id is one. */
static bool names_id(const char *groups, const char *id)
{
	static const char digits[] = "0123456789abcdef";
	size_t len = strlen(id);
	const char *at = len > 0 ? strstr(groups, id) : NULL;
	while (at &&
		((at > groups && strchr(digits, at[-1])) || (at[len] && strchr(digits, at[len])))) {
		at = strstr(at + 1, id);
	}
	return at;
}

int bridge_life_verify(
	pid_t *ret_pid, int pidfd, const char *id, const char *started, struct err *err)
{
	char path[64];
	char text[FILE_BYTES];
	pid_t pid = pid_of(pidfd);
	if (pid <= 0) {
		return err_set(err, BERTH_FAILED,
			pid < 0 ? "its first process has ended"
				: "its first process is not in the agent's pid namespace");
	}
	text_printf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	read_file(path, text);
	if (!names_id(text, id)) {
		return err_set(err, BERTH_FAILED,
			"process %d, which the runtime names, is in no control group of it: the "
			"agent needs the pid namespace of the runtime",
			(int)pid);
	}
	/*
	 * A process that somebody has started in it later. The clock may have been set since: of
	 * the first one of a namespace that does not matter.
	 */
	time_t start = start_of(pid);
	text_printf(path, sizeof(path), "/proc/%d/status", (int)pid);
	read_file(path, text);
	if (!is_first(text) && start > parse_time(started) + SLACK_S) {
		return err_set(err, BERTH_FAILED,
			"process %d, which the runtime names, is not its first one", (int)pid);
	}
	*ret_pid = pid;
	return 0;
}

/* ---- after a restart of the agent ---- */

void bridge_life_describe(pid_t pid, char out[BRIDGE_LIFE_BYTES])
{
	char boot[BOOT_BYTES];
	unsigned long long ticks = start_ticks(pid);
	boot_read(boot);
	out[0] = '\0';
	if (ticks > 0 && *boot) {
		text_printf(out, BRIDGE_LIFE_BYTES, "%d %llu %s", (int)pid, ticks, boot);
	}
}

enum bridge_life bridge_life_find(const char *description, int *ret_pidfd)
{
	char boot[BOOT_BYTES];
	char of_boot[BOOT_BYTES];
	int pid;
	unsigned long long ticks;
	*ret_pidfd = -1;
	boot_read(boot);
	if (!*boot || sscanf(description, "%d %llu %63s", &pid, &ticks, of_boot) != 3 || pid <= 0) {
		return BRIDGE_LIFE_UNKNOWN;
	}
	if (strcmp(boot, of_boot) != 0) {
		return BRIDGE_LIFE_ENDED;
	}
	int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (pidfd < 0) {
		return errno == ESRCH ? BRIDGE_LIFE_ENDED : BRIDGE_LIFE_UNKNOWN;
	}
	/* Of the process behind the pidfd, if that has not ended since. */
	unsigned long long now_ticks = start_ticks(pid);
	struct pollfd end = { .fd = pidfd, .events = POLLIN };
	bool ended = poll(&end, 1, 0) > 0;
	if (!ended && now_ticks == ticks) {
		*ret_pidfd = pidfd;
		return BRIDGE_LIFE_LIVES;
	}
	close(pidfd);
	return ended || now_ticks > 0 ? BRIDGE_LIFE_ENDED : BRIDGE_LIFE_UNKNOWN;
}
