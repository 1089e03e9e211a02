/*
 * How many lines of the log one container or one client can cause: some at once, then one a second.
 * A line says how many before it were left out. Lines without end fill no disk and hide no line of
 * others: all together may cause eight times as many.
 */
#ifndef LIB_PROGRAM_LOG_RATE_H
#define LIB_PROGRAM_LOG_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed, it has caused none. */
struct log_rate {
	struct log_rate *all; /* of all that are like it, which holds for it, too; or NULL */
	unsigned times;       /* as many lines as one may cause; 0 means 1 */
	double lines;         /* that time has not made up for yet, */
	int64_t at_ms;        /* at this time */
	unsigned left_out;    /* since the last line */
};

/* For all clients, or all containers. */
#define LOG_RATE_OF_ALL                                                                            \
	{                                                                                          \
		.times = 8                                                                         \
	}

/* One more line, or not. *ret_left_out: those since the one before. */
bool log_rate_allows(struct log_rate *rate, unsigned *ret_left_out);
/* It is as if it had caused none: it may be forgotten. */
bool log_rate_is_new(const struct log_rate *rate);

#endif
