#include "looker/effort.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/clock.h"

static int statistics = -1;

void effort_init(void)
{
	statistics = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
}

/* proc(5): time on a processor, time in which the process was ready and waited for one, in ns. */
static int64_t waited_ns(void)
{
	char text[80];
	long long waited = 0;
	ssize_t len = statistics < 0 ? -1 : pread(statistics, text, sizeof(text) - 1, 0);
	if (len > 0) {
		text[len] = '\0';
		(void)sscanf(text, "%*d %lld", &waited);
	}
	return waited;
}

int64_t effort_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC) - waited_ns();
}
