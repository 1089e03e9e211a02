/*
 * The end of a check's connection. A server that still writes when its client has closed gets a
 * reset, and logs an error at each check. So the rest of an answer is read and dropped behind the
 * verdict, until the server closes: of one connection of a check at a time, until the run's
 * deadline, and a MiB at most.
 */
#ifndef AGENT_CHECK_LINGER_H
#define AGENT_CHECK_LINGER_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/timer.h"

/* The caller's memory, which does not move. */
struct check_linger {
	struct ev_loop *loop;
	ev_io io;
	struct timer timer;
	int file; /* -1: none */
	size_t left;
};

void check_linger_init(struct check_linger *linger, struct ev_loop *loop);
/*
 * Takes a connected socket, and closes the one before. `hang_up`: the server may wait for more from
 * us, and gets our end first.
 */
void check_linger_take(struct check_linger *linger, int file_taken, bool hang_up, int64_t most_ms);
/* Closes what there is. */
void check_linger_stop(struct check_linger *linger);

#endif
