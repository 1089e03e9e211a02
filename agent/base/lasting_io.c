#include "agent/base/lasting_io.h"

#include "agent/base/log.h"

static const ev_tstamp RETRY_S = 0.5;

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	struct lasting_io *lasting = io->data;
	if (events & EV_ERROR) {
		log_warn("agent",
			"the kernel refuses to watch %s; tried again until it works: out of "
			"memory, or fs.epoll.max_user_watches is reached",
			lasting->what);
		ev_timer_set(&lasting->retry, RETRY_S, 0.);
		ev_timer_start(loop, &lasting->retry);
		return;
	}
	lasting->on_readable(lasting->context);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)events;
	struct lasting_io *lasting = timer->data;
	ev_io_start(loop, &lasting->io);
}

void lasting_io_start(struct lasting_io *lasting, struct ev_loop *loop, int fd, const char *what,
	void (*on_readable)(void *context), void *context)
{
	lasting->loop = loop;
	lasting->what = what;
	lasting->on_readable = on_readable;
	lasting->context = context;
	ev_io_init(&lasting->io, on_io, fd, EV_READ);
	ev_timer_init(&lasting->retry, on_retry, RETRY_S, 0.);
	lasting->io.data = lasting;
	lasting->retry.data = lasting;
	ev_io_start(loop, &lasting->io);
}

void lasting_io_stop(struct lasting_io *lasting)
{
	ev_io_stop(lasting->loop, &lasting->io);
	ev_timer_stop(lasting->loop, &lasting->retry);
}
