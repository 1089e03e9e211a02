#include "lib/base/write_all.h"

#include <errno.h>
#include <unistd.h>

int write_all(int fd, const void *data, size_t len)
{
	const char *at = data;
	while (len > 0) {
		ssize_t written = write(fd, at, len);
		if (written < 0 && errno != EINTR) {
			return -1;
		}
		if (written > 0) {
			at += written;
			len -= (size_t)written;
		}
	}
	return 0;
}
