/*
 * The life of a connection: see the diagram in internal.h. Its one watcher runs
 * http_connection_run(), which carries out the state's work and then sets the events that the
 * watcher waits for. Functions for handlers (to answer, to wake, to end) change the state and start
 * the watcher; so no call of a handler frees the connection. http_connection_destroy() frees it:
 * called by http_connection_run() and the sweep, by accept.c for a client over its share, and
 * by http_close().
 *
 * The server reads from a client that waits, to notice when it goes away, and keeps the bytes for
 * later. When these are too many, or the client has ended its half, the socket gives no more
 * events, and the sweep asks the kernel.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/http/internal.h"
#include "lib/base/clock.h"
#include "lib/http/field.h"

enum {
	INPUT_BYTES = HTTP_SCRATCH_BYTES, /* bytes of requests that wait for the current one */
	OUTPUT_BYTES = 4 * HTTP_SCRATCH_BYTES,
	LINGER_BYTES = 4 * 1024 * 1024
};

/* Between two requests, or within an incomplete one. */
static bool is_reading(const struct connection *connection)
{
	return connection->state == HTTP_IDLE || connection->state == HTTP_READING;
}

/* ---- one request ---- */

/* A method that changes something, with a condition: no such resource has an entity tag. */
static bool condition_fails(const struct connection *connection)
{
	const char *match = http_reader_field(&connection->reader, HTTP_FIELD_IF_MATCH);
	const char *none_match = connection->request.if_none_match;
	enum http_method method = connection->request.method;
	bool changes = method == HTTP_POST || method == HTTP_PUT || method == HTTP_DELETE;
	return changes &&
		((match && strcmp(match, "*") != 0) ||
			(none_match && strcmp(none_match, "*") == 0));
}

static void dispatch(struct connection *connection)
{
	struct http *http = connection->http;
	if (connection->body_use != HTTP_BODY_NONE) {
		/* The body came behind the head in the reader's memory, which may have moved. */
		http_request_fill(connection);
	}
	http_connection_set_state(connection, HTTP_HANDLING);
	if (condition_fails(connection)) {
		http_refuse_condition(connection);
	} else {
		http->options.on_request(http->options.context, &connection->request);
	}
	if (connection->state == HTTP_HANDLING) {
		http_connection_set_state(connection, HTTP_WAITING);
	}
}

static void begin_body(struct connection *connection, const char *expect, bool all_read)
{
	struct http *http = connection->http;
	bool wanted = http->options.wants_body(http->options.context, &connection->request);
	connection->body_use = wanted ? HTTP_BODY_KEPT : HTTP_BODY_THROWN_AWAY;
	if (!expect || !all_read || connection->reader.http_1_0) {
		return;
	}
	if (wanted) {
		http_send_continue(connection);
		return;
	}
	/* Without 100-continue the client may send the body or not. */
	connection->sequel = HTTP_THEN_LINGER;
	dispatch(connection);
}

/* The head is complete; `all_read`: nothing of the body has come. */
static void begin(struct connection *connection, bool all_read)
{
	const struct http_reader *reader = &connection->reader;
	bool known = http_request_fill(connection);
	const char *coding = http_reader_field(reader, HTTP_FIELD_CONTENT_ENCODING);
	const char *expect = http_reader_field(reader, HTTP_FIELD_EXPECT);
	bool has_body = reader->left > 0 || reader->state == HTTP_READER_CHUNK_SIZE;
	connection->body_use = HTTP_BODY_NONE;
	connection->active = true;
	connection->http->requests++;
	connection->last = clock_monotonic_s();
	connection->sequel = reader->keep_alive ? HTTP_THEN_NEXT_REQUEST : HTTP_THEN_CLOSE;
	connection->lasting = false;
	connection->thrown_away = 0;
	if (!known) {
		http_refuse(connection, 501, "no such method");
	} else if (has_body && coding && strcasecmp(coding, "identity") != 0) {
		http_refuse(connection, 415, "a body must not be encoded");
	} else if (reader->left > HTTP_BODY_BYTES) {
		http_refuse(connection, 413, "the request body is too long");
	} else if (expect && strcasecmp(expect, "100-continue") != 0) {
		http_refuse(connection, 417, "100-continue alone is expected");
	} else if (has_body) {
		begin_body(connection, expect, all_read);
	}
}

static void take_body(struct connection *connection)
{
	const struct http_reader *reader = &connection->reader;
	bool fits = connection->body_use == HTTP_BODY_KEPT
		? buffer_append(&connection->body, reader->body, reader->body_len) == 0
		: (connection->thrown_away += reader->body_len) <= HTTP_BODY_BYTES;
	if (!fits) {
		http_refuse(connection, 413, "the request body is too long");
	}
}

static void refuse_message(struct connection *connection)
{
	connection->request.method = HTTP_OTHER; /* the one before may have been HEAD */
	http_refuse(connection, connection->reader.refusal, connection->reader.why);
}

/*
 * Reads and handles requests, until one is not answered at once; returns how many bytes are used.
 */
static size_t take(struct connection *connection, const char *bytes, size_t len)
{
	const char *at = bytes;
	while (is_reading(connection)) {
		switch (http_reader_next(&connection->reader, &at, bytes + len)) {
		case HTTP_EVENT_MORE:
			if (http_reader_is_idle(&connection->reader)) {
				http_connection_set_state(connection, HTTP_IDLE);
			} else if (connection->state == HTTP_IDLE) {
				http_connection_set_state(connection, HTTP_READING);
				connection->last = clock_monotonic_s();
			}
			return len;
		case HTTP_EVENT_HEAD:
			begin(connection, at == bytes + len);
			break;
		case HTTP_EVENT_BODY:
			take_body(connection);
			break;
		case HTTP_EVENT_END:
			dispatch(connection);
			if (at == bytes + len) {
				return len;
			}
			break;
		case HTTP_EVENT_REFUSED:
			refuse_message(connection);
			break;
		}
	}
	return (size_t)(at - bytes);
}

/* ---- reading ---- */

/* Into the scratch buffer; 0 when nothing came. Notes the end of the client's half. */
static size_t receive(struct connection *connection)
{
	struct http *http = connection->http;
	ssize_t got = recv(connection->io.fd, http->scratch, sizeof(http->scratch), 0);
	if (got == 0) {
		connection->half_closed = true;
	} else if (got < 0 && errno != EAGAIN && errno != EINTR) {
		http_connection_set_state(connection, HTTP_GONE);
	}
	return got > 0 ? (size_t)got : 0;
}

static void receive_requests(struct connection *connection)
{
	size_t len = receive(connection);
	const char *bytes = connection->http->scratch;
	size_t used = len ? take(connection, bytes, len) : 0;
	if (used < len &&
		(connection->state == HTTP_WAITING || connection->state == HTTP_WRITING)) {
		buffer_append(&connection->input, bytes + used, len - used);
	}
}

/* Reads while the request waits: the next requests are kept; none follows a stream. */
static void receive_ahead(struct connection *connection)
{
	size_t len = receive(connection);
	if (connection->state == HTTP_WAITING) {
		buffer_append(&connection->input, connection->http->scratch, len);
	}
	if (connection->half_closed && http_connection_has_left(connection)) {
		http_connection_set_state(connection, HTTP_GONE);
	}
}

static void linger(struct connection *connection)
{
	connection->thrown_away += receive(connection);
	if (connection->half_closed || connection->thrown_away > LINGER_BYTES) {
		http_connection_set_state(connection, HTTP_GONE);
	}
}

/* ---- running ---- */

static int interest_of(const struct connection *connection)
{
	int readable = connection->half_closed ? 0 : EV_READ;
	switch (connection->state) {
	case HTTP_IDLE:
	case HTTP_READING:
	case HTTP_LINGERING:
		return readable;
	case HTTP_WAITING:
		return connection->input.len > 0 ? 0 : readable;
	case HTTP_WRITING:
		return EV_WRITE;
	case HTTP_STREAMING:
		return readable | (connection->out.len > 0 ? EV_WRITE : 0);
	default:
		return 0;
	}
}

static void watch(struct connection *connection)
{
	struct ev_loop *loop = connection->http->loop;
	ev_io *io = &connection->io;
	int interest = interest_of(connection);
	if (interest != (ev_is_active(io) ? io->events & (EV_READ | EV_WRITE) : 0)) {
		ev_io_stop(loop, io);
		ev_io_set(io, io->fd, interest);
		if (interest) {
			ev_io_start(loop, io);
		}
	}
}

static void act(struct connection *connection, int events)
{
	switch (connection->state) {
	case HTTP_IDLE:
	case HTTP_READING:
		if (events & EV_READ && connection->input.len == 0) {
			receive_requests(connection);
		}
		break;
	case HTTP_WAITING:
		if (events & EV_READ && connection->input.len == 0) {
			receive_ahead(connection);
		}
		break;
	case HTTP_WRITING:
		if (events & EV_WRITE) {
			http_write(connection);
		}
		break;
	case HTTP_STREAMING:
		if (events & EV_READ) {
			receive_ahead(connection);
		}
		if (connection->state == HTTP_STREAMING &&
			(connection->out.len == 0 || events & (EV_WRITE | EV_CUSTOM))) {
			http_pump(connection);
		}
		break;
	case HTTP_LINGERING:
		if (events & EV_READ) {
			linger(connection);
		}
		break;
	default:
		break;
	}
}

void http_connection_run(struct connection *connection, int events)
{
	act(connection, events);
	struct buffer *input = &connection->input;
	while (is_reading(connection) && input->len > 0) {
		buffer_consume(input, take(connection, input->data, input->len));
	}
	if (input->data && input->len == 0) {
		buffer_finish(input);
	}
	if (is_reading(connection) && connection->half_closed) {
		http_connection_set_state(connection, HTTP_GONE);
	}
	bool fits = http_account(connection) || connection->state == HTTP_STREAMING;
	if (!fits || connection->state == HTTP_GONE) {
		http_connection_destroy(connection);
	} else {
		watch(connection);
	}
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct connection *connection = io->data;
	if (events & EV_ERROR) { /* the kernel refuses to watch it: libev has given it up */
		http_listener_pause(connection->listener, ENOMEM);
		http_connection_destroy(connection);
	} else {
		http_connection_run(connection, events);
	}
}

void http_connection_sweep(struct connection *connection, double limit)
{
	bool waits = connection->state == HTTP_WAITING || connection->state == HTTP_STREAMING;
	bool exempt = waits || (connection->pinned && connection->state == HTTP_IDLE);
	if (exempt ? waits && !(interest_of(connection) & EV_READ) &&
				http_connection_has_left(connection)
		   : connection->last < limit) {
		http_connection_destroy(connection);
	} else if (exempt) {
		connection->last = clock_monotonic_s();
	}
}

/* ---- beginning and end ---- */

struct connection *http_connection_create(struct listener *listener, int fd, uint64_t id)
{
	struct http *http = listener->http;
	struct connection *connection = allocate_zeroed(1, sizeof(*connection));
	connection->http = http;
	connection->listener = listener;
	connection->request.connection = id;
	connection->request.local = listener->local;
	connection->request.container = listener->container ? listener->container->name : NULL;
	connection->request.listener = listener->name;
	connection->last = clock_monotonic_s();
	http_reader_init(&connection->reader, HTTP_REQUEST);
	buffer_init(&connection->input, INPUT_BYTES);
	buffer_init(&connection->body, HTTP_BODY_BYTES);
	buffer_init(&connection->out, OUTPUT_BYTES);
	list_append(&http->connections, &connection->link);
	list_init(&connection->woken);
	connection->client = http_client_get(listener, fd);
	http_client_count(connection->client, 1);
	http->connection_count++;
	listener->pool->connections++;
	ev_io_init(&connection->io, on_io, fd, EV_READ);
	connection->io.data = connection;
	ev_io_start(http->loop, &connection->io);
	return connection;
}

void http_connection_destroy(struct connection *connection)
{
	struct http *http = connection->http;
	uint64_t id = connection->request.connection;
	bool pinned = connection->pinned;
	http_connection_set_state(connection, HTTP_GONE);
	if (connection->on_closed) {
		connection->on_closed(connection->on_closed_context);
	}
	ev_io_stop(http->loop, &connection->io);
	close(connection->io.fd);
	http->requests -= connection->active;
	http->connection_count--;
	connection->listener->pool->connections--;
	http_listener_more(connection->listener);
	list_remove(&connection->link);
	list_remove(&connection->woken);
	http_response_drop(connection);
	http_connection_free_request(connection);
	buffer_finish(&connection->input);
	buffer_finish(&connection->out);
	connection->stream_bytes = 0;
	(void)http_account(connection);
	http_end_watch(connection);
	http_end_search(&connection->request);
	http_hand_over_forget(connection);
	http_client_count(connection->client, -1);
	http_client_release(connection->client);
	free(connection);
	if (pinned) {
		http->options.on_pinned_closed(http->options.context, id);
	}
}
