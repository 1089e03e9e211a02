#include "lib/base/close_files.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of getdents64(2); libc's readdir() takes memory. */
struct entry {
	uint64_t inode;
	int64_t offset;
	unsigned short len;
	unsigned char type;
	char name[];
};

static int number(const char *name)
{
	int fd = 0;
	for (; *name >= '0' && *name <= '9'; name++) {
		fd = fd * 10 + (*name - '0');
	}
	return *name ? -1 : fd; /* "." or ".." */
}

/* The kernel's list goes on behind the last number that it gave, whatever is closed meanwhile. */
static void close_listed(int list, int first, int last)
{
	_Alignas(struct entry) char entries[1024];
	long len;
	while ((len = syscall(SYS_getdents64, list, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < len;) {
			const struct entry *entry = (const struct entry *)(const void *)(entries +
				at);
			int fd = number(entry->name);
			if (fd >= first && fd <= last && fd != list) {
				close(fd);
			}
			at += entry->len;
		}
	}
}

/* Without /proc. One poll() finds which descriptors of a block are open. */
static void close_found(int first, int last)
{
	enum { BLOCK = 256 };
	struct pollfd files[BLOCK];
	struct rlimit limit = { .rlim_cur = BLOCK };
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur <= (rlim_t)last) {
		last = (int)limit.rlim_cur - 1;
	}
	for (; first <= last; first += BLOCK) {
		int count = last - first < BLOCK ? last - first + 1 : BLOCK;
		for (int i = 0; i < count; i++) {
			files[i] = (struct pollfd){ .fd = first + i };
		}
		bool known = poll(files, (nfds_t)count, 0) >= 0;
		for (int i = 0; i < count; i++) {
			if (!known || !(files[i].revents & POLLNVAL)) {
				close(first + i);
			}
		}
	}
}

void close_files(int first, int last)
{
	if (first > last || syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0U) == 0) {
		return;
	}
	close(first); /* which leaves room for one more when all are in use */
	int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (list >= 0) {
		close_listed(list, first, last);
		close(list);
	} else {
		close_found(first, last);
	}
}

void close_files_but(const int *kept, size_t count)
{
	int from = 0;
	for (;;) {
		int next = INT_MAX;
		for (size_t i = 0; i < count; i++) {
			next = kept[i] >= from && kept[i] < next ? kept[i] : next;
		}
		if (next == INT_MAX) {
			close_files(from, INT_MAX);
			return;
		}
		close_files(from, next - 1);
		from = next + 1;
	}
}
