/* When a listening socket is asked for connections: not for a moment after it had none to give. */
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/http/internal.h"

enum { RETRY_MS = 500 };

static void on_retry(void *context)
{
	struct listener *listener = context;
	ev_io_start(listener->http->loop, &listener->accept);
}

void http_listener_start(struct listener *listener)
{
	timer_init(&listener->retry, listener->http->loop, "listener", on_retry, listener);
	ev_io_start(listener->http->loop, &listener->accept);
}

void http_listener_pause(struct listener *listener, int error)
{
	if (!listener->exhausted) {
		log_warn("http", "cannot accept a connection: %s; tried again until it works",
			strerror(error));
	}
	listener->exhausted = true;
	ev_io_stop(listener->http->loop, &listener->accept);
	timer_start(&listener->retry, RETRY_MS);
}

static void go_on(struct listener *listener)
{
	if (!timer_runs(&listener->retry) && !listener->http->closing && listener->fd >= 0) {
		ev_io_start(listener->http->loop, &listener->accept);
	}
}

void http_listener_more(struct listener *listener)
{
	struct listener *pool = listener->pool;
	if (!pool->full) {
		return;
	}
	pool->full = false;
	go_on(pool);
	for (struct list *at = pool->http->containers.next;
		pool->local && at != &pool->http->containers; at = at->next) {
		go_on(&LIST_ITEM(at, struct http_container, link)->listener);
	}
}

void http_listener_stop(struct listener *listener)
{
	ev_io_stop(listener->http->loop, &listener->accept);
	timer_stop(&listener->retry);
	close(listener->fd);
}
