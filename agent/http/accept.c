/*
 * Taking connections in: libmicrohttpd could do it, but once it has met the limit of open files it accepts nobody until one of
 * its connections ends, be there descriptors again or not.
 */
#include "agent/http/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/log.h"

enum { BATCH = 64 }; /* the rest has its turn after those who are served already */

static const ev_tstamp RETRY_S = 0.5;

bool http_accept_add(struct listener *listener, int fd)
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(address);
	if (getpeername(fd, (struct sockaddr *)&address, &len) < 0) {
		close(fd);
		return false;
	}
	size_t before = listener->connections;
	return MHD_add_connection(listener->daemon, fd, (struct sockaddr *)&address, len) ==
		MHD_YES &&
		listener->connections > before;
}

static void pause_for(struct listener *listener, int error)
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

static void on_connect(struct ev_loop *loop, ev_io *io, int events)
{
	(void)events;
	struct listener *listener = io->data;
	for (int i = 0; i < BATCH; i++) {
		if (listener->connections >= listener->max_connections) {
			ev_io_stop(loop, io); /* until one ends */
			return;
		}
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			listener->exhausted = false;
			http_accept_add(listener, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			pause_for(listener, errno);
			return;
		}
	}
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)events;
	struct listener *listener = timer->data;
	ev_io_start(loop, &listener->accept);
}

void http_accept_start(struct listener *listener)
{
	ev_io_init(&listener->accept, on_connect, listener->fd, EV_READ);
	listener->accept.data = listener;
	ev_timer_init(&listener->retry, on_retry, RETRY_S, 0.);
	listener->retry.data = listener;
	ev_io_start(listener->http->loop, &listener->accept);
}

void http_accept_more(struct listener *listener)
{
	if (!ev_is_active(&listener->retry) && !listener->http->closing) {
		ev_io_start(listener->http->loop, &listener->accept);
	}
}

void http_accept_stop(struct listener *listener)
{
	ev_io_stop(listener->http->loop, &listener->accept);
	ev_timer_stop(listener->http->loop, &listener->retry);
	close(listener->fd);
}
