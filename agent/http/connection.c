/* The state of a connection, the end of a request, and what handlers set. */
#include <assert.h>
#include <poll.h>
#include <sys/socket.h>

#include "agent/http/internal.h"
#include "lib/base/clock.h"

/* ---- the state ---- */

void http_connection_set_state(struct connection *connection, enum http_connection_state state)
{
	enum {
		FROM_READING = 1 << HTTP_IDLE | 1 << HTTP_READING | 1 << HTTP_HANDLING |
			1 << HTTP_WRITING
	};
	static const unsigned steps[HTTP_GONE + 1] = {
		[HTTP_IDLE] = FROM_READING,
		[HTTP_READING] = FROM_READING,
		[HTTP_HANDLING] = 1 << HTTP_WAITING | 1 << HTTP_WRITING | 1 << HTTP_STREAMING,
		[HTTP_WAITING] = 1 << HTTP_WRITING | 1 << HTTP_STREAMING,
		[HTTP_WRITING] = 1 << HTTP_IDLE | 1 << HTTP_LINGERING,
	};
	assert(state == HTTP_GONE || steps[connection->state] & 1u << state);
	connection->state = state;
}

bool http_connection_has_left(const struct connection *connection)
{
	bool remote_lasts = connection->lasting && !connection->request.local;
	struct pollfd poller = { .fd = connection->io.fd, .events = remote_lasts ? POLLRDHUP : 0 };
	return poll(&poller, 1, 0) > 0; /* POLLHUP and POLLERR need no asking */
}

void http_connection_wake(struct connection *connection)
{
	struct http *http = connection->http;
	if (list_empty(&connection->woken)) {
		list_append(&http->woken, &connection->woken);
		ev_idle_start(http->loop, &http->kick);
	}
}

/* ---- the end of a request ---- */

void http_connection_free_request(struct connection *connection)
{
	http_reader_finish(&connection->reader);
	buffer_finish(&connection->body);
}

void http_connection_end_request(struct connection *connection)
{
	http_response_drop(connection);
	http_end_watch(connection);
	http_end_search(&connection->request);
	connection->http->requests -= connection->active;
	connection->active = false;
	connection->last = clock_monotonic_s();
	if (connection->sequel == HTTP_THEN_NEXT_REQUEST) {
		buffer_finish(&connection->body);
		http_reader_restart(&connection->reader);
		http_connection_set_state(connection, HTTP_IDLE);
		return;
	}
	http_connection_free_request(connection);
	if (connection->sequel == HTTP_THEN_LINGER && !connection->half_closed) {
		shutdown(connection->io.fd, SHUT_WR);
		connection->thrown_away = 0;
		http_connection_set_state(connection, HTTP_LINGERING);
	} else {
		http_connection_set_state(connection, HTTP_GONE);
	}
}

/* ---- for handlers ---- */

void http_on_closed(struct http_request *request, void (*on_closed)(void *context), void *context)
{
	http_connection_of(request)->on_closed = on_closed;
	http_connection_of(request)->on_closed_context = context;
}

void http_set_lasting(struct http_request *request)
{
	struct connection *connection = http_connection_of(request);
	connection->lasting = true;
	if (connection->half_closed && http_connection_has_left(connection)) {
		http_connection_set_state(connection, HTTP_GONE);
		http_connection_wake(connection);
	}
}

void http_pin(const struct http_request *request)
{
	http_connection_of(request)->pinned = true;
}
