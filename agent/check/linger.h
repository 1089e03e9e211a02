/*
 * The ends of a check's connections. A server that still writes when its client has closed gets a
 * reset, and logs an error at each check. So the rest of an answer is read and dropped behind the
 * verdict, until the server closes: a MiB at most, until the run's deadline, and of four
 * connections of a check, of which the oldest gives way.
 */
#ifndef AGENT_CHECK_LINGER_H
#define AGENT_CHECK_LINGER_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/list.h"

/* The caller's memory, which does not move. */
struct check_linger {
	struct ev_loop *loop;
	struct list open; /* the oldest first */
	size_t count;
};

void check_linger_init(struct check_linger *linger, struct ev_loop *loop);
/*
 * Takes a connected socket. `hang_up`: the server may wait for more from us, and gets our end
 * first.
 */
void check_linger_take(struct check_linger *linger, int file_taken, bool hang_up, int64_t most_ms);
/* Closes what there is. */
void check_linger_stop(struct check_linger *linger);

#endif
