#include "agent/base/lasting_io.h"

#include "agent/base/log.h"

enum { RETRY_MS = 500 };

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct lasting_io *lasting = io->data;
	if (events & EV_ERROR) {
		log_warn("agent",
			"the kernel refuses to watch %s; tried again until it works: out of "
			"memory, or fs.epoll.max_user_watches is reached",
			lasting->what);
		timer_start(&lasting->retry, RETRY_MS);
		return;
	}
	lasting->on_readable(lasting->context);
}

static void on_retry(void *context)
{
	struct lasting_io *lasting = context;
	ev_io_start(lasting->loop, &lasting->io);
}

void lasting_io_start(struct lasting_io *lasting, struct ev_loop *loop, int fd, const char *what,
	void (*on_readable)(void *context), void *context)
{
	lasting->loop = loop;
	lasting->what = what;
	lasting->on_readable = on_readable;
	lasting->context = context;
	ev_io_init(&lasting->io, on_io, fd, EV_READ);
	timer_init(&lasting->retry, loop, what, on_retry, lasting);
	lasting->io.data = lasting;
	ev_io_start(loop, &lasting->io);
}

void lasting_io_stop(struct lasting_io *lasting)
{
	ev_io_stop(lasting->loop, &lasting->io);
	timer_stop(&lasting->retry);
}
