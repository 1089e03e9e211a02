/*
 * Writes responses to clients. The server makes the status line and the date for each answer, and
 * the rest of the head once for a response; one system call writes both together with the body.
 * Bytes that the socket does not take at once wait in `out` (bytes of a head or of a stream) and as
 * a reference to the response (its body).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "agent/http/internal.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/http/field.h"

enum {
	SMALL_BYTES = 2048,
	LARGE_BYTES = 64 * 1024,
	PREFIX_BYTES = 160,           /* status line, Date, Connection */
	PUMP_TURNS = 16,              /* so that one stream does not keep the loop for itself */
	TURN_BYTES = 4 * 1024 * 1024, /* of all streams: nor do many */
	CHUNK_HEAD_BYTES = 10,        /* size, CR, LF */
};

/* ---- the head of an answer ---- */

struct status {
	int status;
	size_t line_len;
	const char *line;
	const char *title; /* of the problem that the server itself reports */
};

static const struct status *find_status(int status)
{
	static const struct status statuses[] = {
#define BYTES(text) sizeof(text) - 1, text
#define STATUS(status, reason, title)                                                              \
	{ status, BYTES("HTTP/1.1 " #status " " reason "\r\n"), title }
#define LINE(status, reason) STATUS(status, reason, reason)
		LINE(500, "Internal Server Error"),
		LINE(200, "OK"),
		LINE(204, "No Content"),
		LINE(304, "Not Modified"),
		LINE(400, "Bad Request"),
		LINE(403, "Forbidden"),
		LINE(404, "Not Found"),
		LINE(405, "Method Not Allowed"),
		LINE(406, "Not Acceptable"),
		LINE(409, "Conflict"),
		LINE(412, "Precondition Failed"),
		STATUS(413, "Content Too Large", "LimitExceeded"),
		STATUS(414, "URI Too Long", "InvalidPathname"),
		LINE(415, "Unsupported Media Type"),
		LINE(417, "Expectation Failed"),
		LINE(421, "Misdirected Request"),
		LINE(422, "Unprocessable Content"),
		STATUS(431, "Request Header Fields Too Large", "LimitExceeded"),
		LINE(501, "Not Implemented"),
		LINE(502, "Bad Gateway"),
		STATUS(503, "Service Unavailable", "LimitExceeded"),
		LINE(504, "Gateway Timeout"),
		LINE(505, "HTTP Version Not Supported"),
#undef LINE
#undef STATUS
#undef BYTES
	};
	for (size_t i = 1; i < ARRAY_LEN(statuses); i++) {
		if (statuses[i].status == status) {
			return &statuses[i];
		}
	}
	return &statuses[0];
}

static const char *date_line(struct http *http)
{
	time_t now = (time_t)ev_now(http->loop);
	struct tm tm;
	char line[HTTP_DATE_BYTES + 1];
	/* The program keeps the locale "C". */
	if (now != http->date_time && gmtime_r(&now, &tm) &&
		strftime(line, sizeof(line), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm) ==
			HTTP_DATE_BYTES) {
		memcpy(http->date, line, HTTP_DATE_BYTES);
		http->date_time = now;
	}
	return http->date;
}

static size_t write_prefix(const struct connection *connection, int status, char *out)
{
	const struct status *found = find_status(status);
	memcpy(out, found->line, found->line_len);
	memcpy(out + found->line_len, date_line(connection->http), HTTP_DATE_BYTES);
	char *at = out + found->line_len + HTTP_DATE_BYTES;
	if (connection->sequel != HTTP_THEN_NEXT_REQUEST) {
		at = stpcpy(at, "Connection: close\r\n");
	} else if (connection->reader.http_1_0) {
		at = stpcpy(at, "Connection: keep-alive\r\n");
	}
	return (size_t)(at - out);
}

/* ---- writing ---- */

/* The kernel takes the descriptor with the first byte that it takes. */
static ssize_t send_descriptor(struct connection *connection, struct iovec *parts, size_t count)
{
	union {
		struct cmsghdr aligned;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = "" };
	struct msghdr message = { .msg_iov = parts,
		.msg_iovlen = count,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &connection->handing->fd, sizeof(int));
	ssize_t sent = sendmsg(connection->io.fd, &message, MSG_NOSIGNAL);
	if (sent > 0) {
		http_hand_over_end(connection);
	}
	return sent;
}

/*
 * How much of all parts the socket took. A socket that takes nothing ever again ends the
 * connection.
 */
static size_t send_parts(struct connection *connection, struct iovec *parts, size_t count)
{
	char small[SMALL_BYTES];
	size_t copied = 0;
	size_t len = 0;
	/* The kernel takes one small piece faster than several. */
	while (copied < count && len + parts[copied].iov_len <= sizeof(small)) {
		if (parts[copied].iov_len) { /* an empty part may have no address */
			memcpy(small + len, parts[copied].iov_base, parts[copied].iov_len);
		}
		len += parts[copied++].iov_len;
	}
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = count };
	ssize_t sent = connection->handing ? send_descriptor(connection, parts, count)
		: copied == count          ? send(connection->io.fd, small, len, MSG_NOSIGNAL)
					   : sendmsg(connection->io.fd, &message, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR) {
		http_connection_set_state(connection, HTTP_GONE);
	}
	return sent > 0 ? (size_t)sent : 0;
}

/* Keeps the rest of a part that was not sent; returns how many bytes of it were. */
static size_t keep_rest(struct connection *connection, const struct iovec *part, size_t sent)
{
	size_t taken = sent < part->iov_len ? sent : part->iov_len;
	if (taken < part->iov_len &&
		buffer_append(&connection->out, (const char *)part->iov_base + taken,
			part->iov_len - taken) != 0) {
		http_connection_set_state(connection, HTTP_GONE);
	}
	return taken;
}

/* Writes the answer; its request may be in any state before WRITING. */
static void write_answer(struct connection *connection, int status, struct http_response *response)
{
	char prefix[PREFIX_BYTES];
	size_t hidden = status == 304 || status == 204 ? response->content_len : 0;
	bool bodiless = hidden > 0 || connection->request.method == HTTP_HEAD;
	struct iovec parts[] = {
		{ prefix, write_prefix(connection, status, prefix) },
		{ response->head.data + hidden, response->head.len - hidden },
		{ (void *)(uintptr_t)response->body, bodiless ? 0 : response->len },
	};
	http_connection_set_state(connection, HTTP_WRITING);
	size_t total = parts[0].iov_len + parts[1].iov_len + parts[2].iov_len;
	size_t sent = send_parts(connection, parts, parts[2].iov_len > 0 ? 3 : 2);
	if (connection->state == HTTP_GONE) {
		return;
	}
	if (sent == total) {
		http_connection_end_request(connection);
		return;
	}
	sent -= keep_rest(connection, &parts[0], sent);
	sent -= keep_rest(connection, &parts[1], sent);
	if (parts[2].iov_len > 0) {
		connection->sent = sent;
		if (!http_response_hold(connection, response)) {
			http_connection_set_state(connection, HTTP_GONE);
		}
	}
}

void http_write(struct connection *connection)
{
	const struct http_response *response = connection->response;
	struct buffer *out = &connection->out;
	const char *body = response ? response->body + connection->sent : "";
	struct iovec parts[] = {
		{ (void *)(uintptr_t)buffer_text(out), out->len },
		{ (void *)(uintptr_t)body, response ? response->len - connection->sent : 0 },
	};
	size_t sent = send_parts(connection, parts, 2);
	size_t of_out = sent < out->len ? sent : out->len;
	connection->last = sent ? clock_monotonic_s() : connection->last;
	connection->sent += sent - of_out;
	if (of_out == out->len) {
		buffer_finish(out);
	} else {
		buffer_consume(out, of_out);
	}
	if (connection->state == HTTP_WRITING && sent == parts[0].iov_len + parts[1].iov_len) {
		http_connection_end_request(connection);
	}
}

void http_send_continue(struct connection *connection)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct iovec part = { (void *)(uintptr_t)text, sizeof(text) - 1 };
	/* A socket that has no room for these bytes belongs to a client that does not read. */
	if (send_parts(connection, &part, 1) < part.iov_len) {
		http_connection_set_state(connection, HTTP_GONE);
	}
}

/* ---- answering ---- */

/* The status that a condition of the request makes of 200 (RFC 9110, section 13.2.2). */
static int apply_conditions(
	const struct connection *connection, const struct http_response *response)
{
	const char *match = http_reader_field(&connection->reader, HTTP_FIELD_IF_MATCH);
	const char *none_match = connection->request.if_none_match;
	bool reads = connection->request.method == HTTP_GET ||
		connection->request.method == HTTP_HEAD;
	if (!reads || !response->etag || (!match && !none_match)) {
		return 200;
	}
	char etag[128];
	size_t len = response->etag_len < sizeof(etag) ? response->etag_len : sizeof(etag) - 1;
	memcpy(etag, response->head.data + response->etag, len);
	etag[len] = '\0';
	return match && !http_tag_matches(match, etag, false)            ? 412
		: none_match && http_tag_matches(none_match, etag, true) ? 304
									 : 200;
}

static void answer_problem(struct connection *connection, int status, const char *detail)
{
	struct http_response *problem = http_response_create_problem(status,
		find_status(status)->title, detail,
		connection->active ? connection->request.path : NULL, NULL);
	write_answer(connection, status, problem);
	http_response_free(problem);
}

void http_answer(struct http_request *request, int status, struct http_response *response)
{
	struct connection *connection = http_connection_of(request);
	bool later = connection->state == HTTP_WAITING;
	connection->on_closed = NULL;
	if (connection->state == HTTP_GONE) {
		return;
	}
	status = status == 200 ? apply_conditions(connection, response) : status;
	if (status == 412) {
		http_refuse_condition(connection);
	} else if (response->len > LARGE_BYTES && !response->payer && !http_has_room(request)) {
		/* The socket will not take all of it at once. */
		answer_problem(connection, 503, "too many answers of this client wait to be read");
	} else {
		if (response->fd >= 0 && status == 200) {
			connection->sequel = HTTP_THEN_LINGER;
			http_hand_over_begin(connection, response);
		}
		write_answer(connection, status, response);
	}
	if (later) {
		http_connection_wake(connection);
	}
}

void http_refuse_condition(struct connection *connection)
{
	answer_problem(connection, 412, "If-Match or If-None-Match of the request do not hold");
}

void http_refuse(struct connection *connection, int status, const char *detail)
{
	connection->sequel = HTTP_THEN_LINGER;
	answer_problem(connection, status, detail);
}

/* ---- streams ---- */

void http_stream(struct http_request *request, const char *content_type, const char *fields,
	const struct http_stream_callbacks *callbacks)
{
	struct connection *connection = http_connection_of(request);
	char prefix[PREFIX_BYTES];
	connection->on_read = callbacks->on_read;
	connection->on_closed = callbacks->on_closed;
	connection->on_closed_context = callbacks->context;
	if (connection->state == HTTP_GONE) {
		return;
	}
	http_connection_set_state(connection, HTTP_STREAMING);
	if (connection->sequel == HTTP_THEN_NEXT_REQUEST && connection->reader.http_1_0) {
		connection->sequel = HTTP_THEN_CLOSE; /* which ends the stream */
	}
	buffer_append(&connection->out, prefix, write_prefix(connection, 200, prefix));
	buffer_printf(&connection->out,
		"Content-Type: %s\r\nCache-Control: no-store\r\nVary: Accept\r\n%s%s\r\n",
		content_type, fields,
		connection->reader.http_1_0 ? "" : "Transfer-Encoding: chunked\r\n");
	http_connection_free_request(connection);
	http_set_lasting(request);
	http_connection_wake(connection);
}

void http_stream_wake(struct http_request *request)
{
	struct connection *connection = http_connection_of(request);
	if (connection->state == HTTP_STREAMING) {
		http_connection_wake(connection);
	}
}

void http_stream_end(struct http_request *request)
{
	http_connection_set_state(http_connection_of(request), HTTP_GONE);
	http_connection_wake(http_connection_of(request));
}

/*
 * Makes a chunk of `len` bytes, which begin behind the room for its size; returns where it begins,
 * and its length.
 */
static char *frame_chunk(char *bytes, size_t *len)
{
	char size[CHUNK_HEAD_BYTES + 1];
	int digits = snprintf(size, sizeof(size), "%zx\r\n", *len);
	memcpy(bytes + *len, "\r\n", 2);
	memcpy(bytes - digits, size, (size_t)digits);
	*len += (size_t)digits + 2;
	return bytes - digits;
}

static void pump_once(struct connection *connection, size_t len)
{
	char *bytes = connection->http->scratch + CHUNK_HEAD_BYTES;
	if (!connection->reader.http_1_0) {
		bytes = frame_chunk(bytes, &len);
	}
	struct iovec part = { bytes, len };
	keep_rest(connection, &part, send_parts(connection, &part, 1));
}

static bool may_pump(struct http *http)
{
	unsigned turn = ev_iteration(http->loop);
	if (http->turn != turn) {
		http->turn = turn;
		http->pumped = 0;
	}
	return http->pumped < TURN_BYTES;
}

void http_pump(struct connection *connection)
{
	struct http *http = connection->http;
	for (int turn = 0; turn < PUMP_TURNS && may_pump(http); turn++) {
		if (connection->out.len > 0) {
			http_write(connection);
		}
		if (connection->state != HTTP_STREAMING || connection->out.len > 0) {
			return;
		}
		size_t len = connection->on_read(connection->on_closed_context,
			http->scratch + CHUNK_HEAD_BYTES,
			sizeof(http->scratch) - CHUNK_HEAD_BYTES - 2);
		if (len == 0 || connection->state != HTTP_STREAMING) {
			return;
		}
		http->pumped += len;
		pump_once(connection, len);
	}
	http_connection_wake(connection);
}
