#include "agent/bridge/holders.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"

enum { PAGE_BYTES = 4096 /* that the kernel writes at most, of whole lines */ };

static int compare(const void *one, const void *other)
{
	const struct bridge_locked *a = one;
	const struct bridge_locked *b = other;
	return a->inode != b->inode ? (a->inode < b->inode ? -1 : 1)
				    : (a->device > b->device) - (a->device < b->device);
}

static void take(struct bridge_holders *holders, char *lines)
{
	struct bridge_locked at;
	unsigned major;
	unsigned minor;
	for (char *end = strchr(lines, '\n'); end; lines = end + 1, end = strchr(lines, '\n')) {
		*end = '\0';
		if (sscanf(lines, "%*d: FLOCK %*s READ %d %x:%x:%" SCNu64, &at.pid, &major, &minor,
			    &at.inode) == 4 &&
			at.pid > 0) {
			at.device = makedev(major, minor);
			holders->found = allocate_grow(holders->found, holders->count, sizeof(at));
			holders->found[holders->count++] = at;
		}
	}
}

bool bridge_holders_read(struct bridge_holders *holders, int64_t limit_ns)
{
	char page[PAGE_BYTES + 1];
	int64_t until_ns = clock_read_ns(CLOCK_MONOTONIC) + limit_ns;
	if (!holders->reading) {
		bridge_holders_forget(holders);
		holders->fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
		holders->reading = holders->fd >= 0;
	}
	for (bool late = false; holders->reading && !late;) {
		ssize_t len = read(holders->fd, page, PAGE_BYTES);
		page[len > 0 ? len : 0] = '\0';
		take(holders, page);
		late = clock_read_ns(CLOCK_MONOTONIC) >= until_ns;
		if (len <= 0) {
			close(holders->fd);
			holders->reading = false;
		}
	}
	if (holders->count > 0) {
		qsort(holders->found, holders->count, sizeof(*holders->found), compare);
	}
	return !holders->reading;
}

pid_t bridge_holders_find(const struct bridge_holders *holders, uint64_t device, uint64_t inode)
{
	const struct bridge_locked file = { .device = device, .inode = inode };
	const struct bridge_locked *found = holders->count == 0
		? NULL
		: bsearch(&file, holders->found, holders->count, sizeof(file), compare);
	return found ? found->pid : 0;
}

void bridge_holders_forget(struct bridge_holders *holders)
{
	if (holders->reading) {
		close(holders->fd);
	}
	free(holders->found);
	*holders = (struct bridge_holders){ .reading = false };
}
