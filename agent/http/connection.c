#include "agent/http/internal.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/http/socket.h"

/* For HTTP/1.0 alone: chunks are made in the connection's memory. */
enum { STREAM_BLOCK_BYTES = 256 };

static struct connection *connection_of(const struct http_request *request)
{
	return (struct connection *)(uintptr_t)request;
}

/* ---- waiting: libmicrohttpd does not look at suspended connections, but we watch for their hang-up ---- */

void http_connection_resume(struct connection *connection)
{
	if (connection->suspended) {
		connection->suspended = false;
		MHD_resume_connection(connection->mhd);
		ev_idle_start(connection->http->loop, &connection->http->kick);
	}
}

/*
 * A peer that has ended its half may still read what it asked for. Over TCP that cannot be told from its end: what lasts would
 * last for nobody.
 */
bool http_connection_has_left(const struct connection *connection)
{
	return connection->half_closed && !connection->request.local &&
		(connection->streaming || connection->lasting || connection->pinned);
}

static void watch_hangup(struct connection *connection)
{
	if (!connection->watched) {
		struct epoll_event event = { .events = EPOLLRDHUP | EPOLLET,
			.data.ptr = connection };
		connection->watched = epoll_ctl(connection->http->hangup_epoll, EPOLL_CTL_ADD,
					      connection->fd, &event) == 0;
	}
}

void http_connection_pin(struct connection *connection)
{
	connection->pinned = true;
	watch_hangup(connection);
}

bool http_connection_suspend(struct connection *connection)
{
	watch_hangup(connection);
	if (connection->gone || connection->http->closing || http_connection_has_left(connection)) {
		return false;
	}
	connection->suspended = true;
	MHD_suspend_connection(connection->mhd);
	return true;
}

/* ---- about a request ---- */

void http_closed(struct http_request *request, void (*on_closed)(void *context), void *context)
{
	struct connection *connection = connection_of(request);
	connection->on_closed = on_closed;
	connection->on_closed_context = context;
}

void http_lasts(struct http_request *request)
{
	struct connection *connection = connection_of(request);
	connection->lasting = true;
	if (http_connection_has_left(connection)) {
		connection->gone = true;
		http_connection_resume(connection);
	}
}

void http_pin(const struct http_request *request)
{
	http_connection_pin(connection_of(request));
}

void http_peer(const struct http_request *request, struct http_peer *peer)
{
	*peer = (struct http_peer){ .known = false };
	if (request->local) {
		http_socket_peer(connection_of(request)->fd, peer);
	}
}

/* ---- answering ---- */

enum MHD_Result http_connection_queue(
	struct connection *connection, int status, const struct http_response *response)
{
	if (!response) {
		return MHD_NO;
	}
	return MHD_queue_response(connection->mhd, (unsigned)status, response->mhd);
}

void http_answer(struct http_request *request, int status, struct http_response *response)
{
	struct connection *connection = connection_of(request);
	connection->answered = true;
	if (connection->in_handler) {
		connection->queued = http_connection_queue(connection, status, response);
		return;
	}
	connection->status = status;
	connection->answer = response;
	if (response) {
		response->references++;
	}
	connection->gone = connection->gone || !response;
	http_connection_resume(connection);
}

/* ---- streams ---- */

static ssize_t on_stream_read(void *context, uint64_t position, char *buffer, size_t size)
{
	(void)position;
	struct connection *connection = context;
	if (connection->gone || connection->http->closing || http_connection_has_left(connection)) {
		return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	size_t len = connection->stream.on_read(connection->stream.context, buffer, size);
	if (len == 0 && !http_connection_suspend(connection)) {
		return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	return (ssize_t)len;
}

void http_stream(struct http_request *request, const char *content_type,
	const struct http_stream_callbacks *callbacks)
{
	struct connection *connection = connection_of(request);
	connection->streaming = true;
	connection->stream = *callbacks;
	struct http_response *response = malloc(sizeof(*response));
	if (response) {
		response->references = 1;
		response->mhd = MHD_create_response_from_callback(
			MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, on_stream_read, connection, NULL);
		if (!response->mhd) {
			free(response);
			response = NULL;
		}
	}
	if (response) {
		http_response_header(response, "Content-Type", content_type);
		http_response_header(response, "Cache-Control", "no-store");
	}
	http_answer(request, 200, response);
	http_response_free(response);
}

void http_stream_wake(struct http_request *request)
{
	http_connection_resume(connection_of(request));
}

void http_stream_end(struct http_request *request)
{
	struct connection *connection = connection_of(request);
	connection->gone = true;
	/* libmicrohttpd asks for no more as long as the peer does not read: it has to see an end. */
	shutdown(connection->fd, SHUT_RDWR);
	http_connection_resume(connection);
}
