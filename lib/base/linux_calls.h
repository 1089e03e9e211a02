/*
 * Calls of Linux that not every C library has a function for: musl got statx() with 1.2.5 and
 * renameat2() later still. The structs and constants are the kernel's.
 */
#ifndef LIB_BASE_LINUX_CALLS_H
#define LIB_BASE_LINUX_CALLS_H

#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef STATX_BTIME
#include <linux/stat.h>
static inline int statx(
	int directory, const char *path, int flags, unsigned mask, struct statx *ret_statx)
{
	return (int)syscall(SYS_statx, directory, path, flags, mask, ret_statx);
}
#endif

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1U
#define RENAME_EXCHANGE 2U
static inline int renameat2(
	int from_directory, const char *from, int to_directory, const char *to, unsigned flags)
{
	return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}
#endif

/*
 * The words for an error of posix_spawn(). Filters of old runtimes answer clone3() with EPERM; then
 * glibc makes no process and no thread, which it does where they answer ENOSYS.
 */
static inline const char *linux_spawn_error(int error)
{
#ifdef SYS_clone3
	if (error == EPERM && syscall(SYS_clone3, NULL, (size_t)0) < 0 && errno == EPERM) {
		return "a filter of this container answers clone3() with EPERM instead of ENOSYS";
	}
#endif
	return strerror(error);
}

/* Opens `path` below `directory`, by the kernel's struct open_how; a C library has no function. */
static inline int linux_openat2(
	int directory, const char *path, const struct open_how *how, size_t size)
{
	return (int)syscall(SYS_openat2, directory, path, how, size);
}

#endif
