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
 *
 * A call is known by its kind and its stack, which is a hash of the return addresses within their
 * modules: it is the same in each run of a build. While `tracing`, the page lists the calls in
 * their order. While `probing` too, a fork of the program tries what happens without memory at each
 * allocation. An end by abort() with a line on stderr and without any other system call is the same
 * as a kill at this moment. The program itself goes on as if nothing had failed. Only programs with
 * one thread can be probed.
 */
#ifndef TESTS_FAILURES_POINTS_H
#define TESTS_FAILURES_POINTS_H

#include <stdint.h>

/* Names the page's file in the environment. */
#define POINTS_VARIABLE "LD_BERTH_POINTS"

enum {
	POINTS_KINDS_MAX = 64,
	POINTS_NAME_BYTES = 16,
	POINTS_FRAMES_MAX = 16,
	POINTS_PLACE_BYTES = 96,
	POINTS_CALLS_MAX = 1 << 17,
	POINTS_NONE = 0xffff, /* a kind: no call fails */
	POINTS_SHORT = 0      /* an error: a write or read handles less than it could */
};

enum points_outcome {
	POINTS_UNTRIED,
	POINTS_ENDS,   /* the fork without memory for this call reported it, and ended by abort() */
	POINTS_GOES_ON /* it did something else: a run of its own has to show what */
};

/* An entry of the trace. */
struct points_call {
	uint32_t stack;
	uint16_t kind;
	uint16_t outcome;
};

/* tests/failures/points.py knows this layout. */
struct points_page {
	char program[32];
	uint32_t kind;
	int32_t error;
	uint64_t number; /* of the call that fails, from 1 on */
	uint64_t seen;   /* how many such calls there were */
	uint32_t stack;  /* whose calls are numbered; 0: of the whole kind */
	uint32_t tracing;
	uint32_t probing;
	uint32_t call_count;
	uint32_t fired;
	uint32_t frame_count;
	int64_t live; /* allocations that were not freed yet */
	uint64_t counts[POINTS_KINDS_MAX];
	char names[POINTS_KINDS_MAX][POINTS_NAME_BYTES]; /* of the kinds; "" behind the last */
	/* the failing call's stack, "module+0x…", innermost first */
	char frames[POINTS_FRAMES_MAX][POINTS_PLACE_BYTES];
	struct points_call calls[POINTS_CALLS_MAX];
};

/*
 * For a test program that is linked with points.c; the page is shared with its forks. The calls of
 * this thread count: a test library has threads of its own, whose calls come at any time.
 */
struct points_page *points_page_create(const char *program);

#endif
