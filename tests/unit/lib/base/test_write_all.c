#include "lib/base/write_all.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLOW_FD = 7000, BROKEN_FD = 7001 };

static char written[64];
static size_t used;
static int calls;

/* Of one descriptor each second call is interrupted, and the others take two bytes at most. */
ssize_t write(int fd, const void *data, size_t len)
{
	if (fd != SLOW_FD && fd != BROKEN_FD) {
		return syscall(SYS_write, fd, data, len);
	}
	if (fd == BROKEN_FD || ++calls % 2 == 1) {
		errno = fd == BROKEN_FD ? EIO : EINTR;
		return -1;
	}
	len = len < 2 ? len : 2;
	memcpy(written + used, data, len);
	used += len;
	return (ssize_t)len;
}

Test(write_all, all_is_written_in_as_many_calls_as_it_takes)
{
	cr_assert_eq(write_all(SLOW_FD, "seven..", 7), 0);
	cr_assert_str_eq(written, "seven..");
	cr_assert_eq(calls, 8);
	cr_assert_eq(write_all(SLOW_FD, "", 0), 0);
	cr_assert_eq(calls, 8);
}

Test(write_all, a_failure_is_reported)
{
	cr_assert_eq(write_all(BROKEN_FD, "x", 1), -1);
	cr_assert_eq(errno, EIO);
}
