/*
 * Children of a process: forks of it that do one piece of work, report it, and end.
 *
 * In a fork every signal is blocked, so that no handler of the process runs there.
 */
#ifndef LIB_BASE_CHILD_H
#define LIB_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * As fork(). `dies_with_us`: the kernel kills it when the calling thread ends, also when that ends
 * before the child has begun.
 */
pid_t child_fork(bool dies_with_us);

/*
 * The same with a pipe for one report, whose ends do not block: in the child *ret_report is where
 * it is written, in the caller where it is read; the end of file instead: the child was killed. -1
 * with errno where no process or pipe can be made.
 */
pid_t child_fork_reporting(bool dies_with_us, int *ret_report);

/* In the child: writes its report, which is smaller than a pipe's buffer, and ends. */
_Noreturn void child_report(int fd, const void *report, size_t len);

#endif
