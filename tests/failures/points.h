/*
 * Points of failure: the calls of a process, counted by kind, one of which fails.
 *
 * points.c defines malloc(), open(), fsync() and the like, counts the calls and passes them on to
 * libc, except for the one that the page names: that call does nothing and returns an error. The
 * page is a file that the test maps as well, so that the test reads the counts and arms a failure
 * while the process runs; it outlives exec(), and so do the counts. points.c is preloaded into real
 * programs (points.so), or linked into a test program, which then shares the page with its forks.
 *
 * A program counts when its name is that in the page; others pass all calls on.
 */
#ifndef TESTS_FAILURES_POINTS_H
#define TESTS_FAILURES_POINTS_H

#include <stdint.h>

/* Names the page's file in the environment. */
#define POINTS_VARIABLE "BERTH_POINTS"

enum {
	POINTS_KINDS_MAX = 64,
	POINTS_NAME_BYTES = 16,
	POINTS_FRAMES_MAX = 16,
	POINTS_PLACE_BYTES = 96,
	POINTS_NONE = 0xffff, /* a kind: no call fails */
	POINTS_SHORT = 0      /* an error: a write or read handles less than it could */
};

/* tests/failures/points.py knows this layout. */
struct points_page {
	char program[32];
	uint32_t kind;
	int32_t error;
	uint64_t number; /* of the call that fails, from 1 on */
	uint32_t fired;
	uint32_t frame_count;
	int64_t live; /* allocations that were not freed yet */
	uint64_t counts[POINTS_KINDS_MAX];
	char names[POINTS_KINDS_MAX][POINTS_NAME_BYTES]; /* of the kinds; "" behind the last */
	/* the failing call's stack, "module+0x…", innermost first */
	char frames[POINTS_FRAMES_MAX][POINTS_PLACE_BYTES];
};

/* For a test program that is linked with points.c; the page is shared with its forks. */
struct points_page *points_page_create(const char *program);

#endif
