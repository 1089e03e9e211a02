/*
 * For a test that has a clock_gettime() of its own: the system call behind that of libc. On 32 bits
 * a struct timespec with 64-bit times, as configure asks for, has a call of its own.
 */
#ifndef TESTS_SUPPORT_CLOCK_CALL_H
#define TESTS_SUPPORT_CLOCK_CALL_H

#include <sys/syscall.h>

#ifdef SYS_clock_gettime64
#define CLOCK_CALL SYS_clock_gettime64
#else
#define CLOCK_CALL SYS_clock_gettime
#endif

#endif
