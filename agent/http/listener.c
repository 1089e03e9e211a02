/* When a listening socket is asked for connections: not for a moment after it had none to give. */
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/http/internal.h"

static const ev_tstamp RETRY_S = 0.5;

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)events;
	struct listener *listener = timer->data;
	ev_io_start(loop, &listener->accept);
}

void http_listener_start(struct listener *listener)
{
	ev_timer_init(&listener->retry, on_retry, RETRY_S, 0.);
	listener->retry.data = listener;
	ev_io_start(listener->http->loop, &listener->accept);
}

void http_listener_pause(struct listener *listener, int error)
{
	struct ev_loop *loop = listener->http->loop;
	if (!listener->exhausted) {
		log_warn("http", "cannot accept a connection: %s; tried again until it works",
			strerror(error));
	}
	listener->exhausted = true;
	ev_io_stop(loop, &listener->accept);
	ev_timer_set(&listener->retry, RETRY_S, 0.);
	ev_timer_start(loop, &listener->retry);
}

void http_listener_more(struct listener *listener)
{
	if (!ev_is_active(&listener->retry) && !listener->http->closing) {
		ev_io_start(listener->http->loop, &listener->accept);
	}
}

void http_listener_stop(struct listener *listener)
{
	ev_io_stop(listener->http->loop, &listener->accept);
	ev_timer_stop(listener->http->loop, &listener->retry);
	close(listener->fd);
}
