#include "agent/base/loop_error.h"

#include <errno.h>
#include <ev.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"

enum { PAUSE_MS = 500 };

/* libev makes the call again when this returns. */
static void on_error(const char *call)
{
	int error = errno;
	bool lasts = error == EBADF || error == EFAULT || error == EINVAL;
	log_warn("agent", "the event loop: %s: %s; %s", call, strerror(error),
		lasts ? "the agent ends" : "tried again");
	if (lasts) {
		abort();
	}
	poll(NULL, 0, PAUSE_MS);
}

void loop_error_retry(void)
{
	ev_set_syserr_cb(on_error);
}
