/* Taking connections in, as many as there may be, in batches. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "agent/base/log.h"
#include "agent/http/internal.h"

enum { BATCH = 64 }; /* the rest has its turn behind the clients that are served already */

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
		log_limited(http_client_log_rate(connection->client), LOG_LEVEL_WARN, "http",
			"a client has its share of the connections (%zu), and gets no more",
			listener->pool->connections - 1);
	}
	if (!allowed) {
		refuse_connection(connection);
	}
}

static void on_connect(struct ev_loop *loop, ev_io *io, int events)
{
	struct listener *listener = io->data;
	if (events & EV_ERROR) { /* the kernel refuses to watch the listener itself */
		http_listener_pause(listener, ENOMEM);
		return;
	}
	for (int i = 0; i < BATCH; i++) {
		if (listener->pool->connections >= listener->pool->max_connections) {
			ev_io_stop(loop, io); /* until one ends */
			listener->pool->full = true;
			return;
		}
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			add(listener, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			http_listener_pause(listener, errno);
			return;
		}
	}
}

void http_accept_start(struct listener *listener)
{
	ev_io_init(&listener->accept, on_connect, listener->fd, EV_READ);
	listener->accept.data = listener;
	http_listener_start(listener);
}

void http_accept_replace(struct listener *listener, int fd)
{
	on_connect(listener->http->loop, &listener->accept, EV_READ);
	http_listener_stop(listener);
	listener->fd = fd;
	http_accept_start(listener);
}
