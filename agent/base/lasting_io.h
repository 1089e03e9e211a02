/*
 * A descriptor that the loop watches for good: a listener, the registry's, the one of signals.
 *
 * When the kernel refuses a descriptor (epoll_ctl() has no memory for it, or the user has reached
 * fs.epoll.max_user_watches), libev stops its watchers and passes EV_ERROR to them. A short-lived
 * user fails; a lasting one starts again until it works, with a line in the log.
 */
#ifndef AGENT_BASE_LASTING_IO_H
#define AGENT_BASE_LASTING_IO_H

#include <ev.h>

#include "agent/base/timer.h"

struct lasting_io {
	struct ev_loop *loop;
	ev_io io;
	struct timer retry;
	const char *what;
	void (*on_readable)(void *context);
	void *context;
};

/*
 * Watches `fd` until lasting_io_stop(). The struct is the caller's memory and must not move; `what`
 * names the descriptor in the log and is borrowed.
 */
void lasting_io_start(struct lasting_io *lasting, struct ev_loop *loop, int fd, const char *what,
	void (*on_readable)(void *context), void *context);
/* The descriptor is left open. */
void lasting_io_stop(struct lasting_io *lasting);

#endif
