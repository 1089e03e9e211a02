/*
 * Taking connections in, as many as there may be, in batches; and going on later when there are no
 * descriptors.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/http/internal.h"

enum { BATCH = 64 }; /* the rest has its turn behind the clients that are served already */

static const ev_tstamp RETRY_S = 0.5;

void http_accept_pause(struct listener *listener, int error)
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

/*
 * It has sent a request already, most likely: closing with that unread would take the answer from
 * it.
 */
static void refuse_connection(struct connection *connection)
{
	struct http *http = connection->http;
	http_refuse(connection, 503, "this client has its share of the connections");
	(void)recv(connection->io.fd, http->scratch, sizeof(http->scratch), 0);
	http_connection_destroy(connection);
}

static void add(struct listener *listener, int fd)
{
	int on = 1;
	if (!listener->local) {
		/* Every write is a whole answer or event. */
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	listener->exhausted = false;
	struct http *http = listener->http;
	struct connection *connection = http_connection_create(
		listener, fd, ++http->next_connection);
	bool allowed = http_client_may_connect(connection->client, listener);
	if (http_client_note_refusal(connection->client, !allowed)) {
		log_warn("http",
			"a client has its share of the connections (%zu), and gets no more",
			listener->connections - 1);
	}
	if (!allowed) {
		refuse_connection(connection);
	}
}

static void on_connect(struct ev_loop *loop, ev_io *io, int events)
{
	struct listener *listener = io->data;
	if (events & EV_ERROR) { /* the kernel refuses to watch the listener itself */
		http_accept_pause(listener, ENOMEM);
		return;
	}
	for (int i = 0; i < BATCH; i++) {
		if (listener->connections >= listener->max_connections) {
			ev_io_stop(loop, io); /* until one ends */
			return;
		}
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			add(listener, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			http_accept_pause(listener, errno);
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

void http_accept_replace(struct listener *listener, int fd)
{
	on_connect(listener->http->loop, &listener->accept, EV_READ);
	http_accept_stop(listener);
	listener->fd = fd;
	http_accept_start(listener);
}

void http_accept_stop(struct listener *listener)
{
	ev_io_stop(listener->http->loop, &listener->accept);
	ev_timer_stop(listener->http->loop, &listener->retry);
	close(listener->fd);
}
