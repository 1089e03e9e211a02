/* HTTP/1.1 for requests of REST, one at a time; a request that comes meanwhile waits unread. */
#include "lib/program/memory.h"
#include "xds/session.h"

#include <stdlib.h>
#include <string.h>

#include "lib/http/reader.h"
#include "xds/discovery.h"
#include "xds/rest.h"

enum { OUTPUT_BYTES = 256 * 1024 * 1024 };

struct http1 {
	struct session_host host;
	struct http_reader reader;
	struct buffer waiting; /* bytes behind the request under way */
	struct buffer body;
	struct buffer out;
	struct buffer sent; /* what output() gave last */
	bool over;
	bool leaving;
	struct rest *rest;
	int refusal; /* the status that answers the request once all of it has come; 0: none */
	const char *why;
};

void *session_http1_create(const struct session_host *host)
{
	struct http1 *http1 = memory_zeroed(1, sizeof(*http1));
	http1->host = *host;
	http_reader_init(&http1->reader, HTTP_REQUEST);
	buffer_init(&http1->waiting, DISCOVERY_REQUEST_BYTES);
	buffer_init(&http1->body, DISCOVERY_REQUEST_BYTES);
	buffer_init(&http1->out, OUTPUT_BYTES);
	buffer_init(&http1->sent, OUTPUT_BYTES);
	return http1;
}

static const char *reason_of(int status)
{
	return status == 200    ? "OK"
		: status == 304 ? "Not Modified"
		: status == 404 ? "Not Found"
		: status == 405 ? "Method Not Allowed"
		: status == 413 ? "Content Too Large"
		: status == 503 ? "Service Unavailable"
				: "Bad Request";
}

static void answer(struct http1 *http1, int status, const char *body, size_t len)
{
	http1->over = http1->over || http1->leaving || !http1->reader.keep_alive;
	buffer_printf(&http1->out, "HTTP/1.1 %d %s\r\n", status, reason_of(status));
	if (status != 304) {
		buffer_printf(&http1->out, "Content-Type: %s\r\nContent-Length: %zu\r\n",
			status == 200 ? "application/json" : "text/plain", len);
	}
	buffer_printf(&http1->out, "%s%s\r\n", status == 405 ? "Allow: POST\r\n" : "",
		http1->over ? "Connection: close\r\n" : "");
	buffer_append(&http1->out, body, len);
	http1->host.on_output(http1->host.context);
}

/* An answer behind which nothing more is read. */
static void refuse(struct http1 *http1, const char *text)
{
	http1->over = true;
	answer(http1, 400, text, strlen(text));
}

static void take_bytes(struct http1 *http1, const char *data, size_t len);

static void next_request(struct http1 *http1)
{
	size_t len;
	http_reader_restart(&http1->reader);
	buffer_clear(&http1->body);
	char *waiting = buffer_take(&http1->waiting, &len);
	if (waiting && !http1->over) {
		take_bytes(http1, waiting, len);
	}
	free(waiting);
}

static void on_ready(void *context)
{
	struct http1 *http1 = context;
	int64_t began_us = session_now_us();
	struct buffer body;
	buffer_init(&body, OUTPUT_BYTES);
	int status = rest_write(http1->rest, &body);
	answer(http1, status, buffer_text(&body), body.len);
	buffer_finish(&body);
	rest_destroy(http1->rest);
	http1->rest = NULL;
	next_request(http1);
	http1->host.on_work(http1->host.context, session_now_us() - began_us);
}

static void on_head(struct http1 *http1)
{
	http1->refusal = 0;
	if (!rest_is_target(http_reader_target(&http1->reader))) {
		http1->refusal = 404;
		http1->why = "served here: POST /v3/discovery:endpoints and :clusters, and gRPC's "
			     "aggregated discovery\n";
	} else if (strcmp(http_reader_method(&http1->reader), "POST") != 0) {
		http1->refusal = 405;
		http1->why = "only POST is served here\n";
	}
}

static void on_body(struct http1 *http1)
{
	size_t len = http1->reader.body_len;
	if (http1->refusal) {
		return;
	}
	if (len > DISCOVERY_REQUEST_BYTES - http1->body.len) {
		http1->refusal = 413;
		http1->why = "the request is too long\n";
		buffer_finish(&http1->body);
		return;
	}
	buffer_append(&http1->body, http1->reader.body, len);
}

static void on_end(struct http1 *http1)
{
	if (http1->refusal) {
		answer(http1, http1->refusal, http1->why, strlen(http1->why));
		http_reader_restart(&http1->reader);
		return;
	}
	http1->rest = rest_create(http1->host.loop, http1->host.world, http1->host.quota,
		http_reader_target(&http1->reader), buffer_text(&http1->body), http1->body.len,
		on_ready, http1);
}

static void take_event(struct http1 *http1, enum http_event event)
{
	switch (event) {
	case HTTP_EVENT_HEAD:
		on_head(http1);
		break;
	case HTTP_EVENT_BODY:
		on_body(http1);
		break;
	case HTTP_EVENT_END:
		on_end(http1);
		break;
	case HTTP_EVENT_REFUSED:
		refuse(http1, "this is neither HTTP/2 nor a request of HTTP/1.1\n");
		break;
	case HTTP_EVENT_MORE:
		break;
	}
}

static void take_bytes(struct http1 *http1, const char *data, size_t len)
{
	const char *at = data;
	const char *end = data + len;
	enum http_event event = HTTP_EVENT_HEAD;
	while (!http1->over && !http1->rest && (event != HTTP_EVENT_MORE || at < end)) {
		event = http_reader_next(&http1->reader, &at, end);
		take_event(http1, event);
	}
	if (http1->rest && at < end &&
		buffer_append(&http1->waiting, at, (size_t)(end - at)) != 0) {
		http1->over = true;
	}
}

static bool receive(void *session, const uint8_t *data, size_t len)
{
	struct http1 *http1 = session;
	if (http1->rest) {
		return buffer_append(&http1->waiting, data, len) == 0;
	}
	take_bytes(http1, (const char *)data, len);
	return true;
}

static size_t output(void *session, const uint8_t **ret_data)
{
	struct http1 *http1 = session;
	buffer_finish(&http1->sent);
	http1->sent = http1->out;
	buffer_init(&http1->out, OUTPUT_BYTES);
	*ret_data = (const uint8_t *)http1->sent.data;
	return http1->sent.len;
}

static bool is_over(const void *session)
{
	const struct http1 *http1 = session;
	return http1->over || (http1->leaving && !http1->rest);
}

static size_t bytes(const void *session)
{
	const struct http1 *http1 = session;
	return sizeof(*http1) + http1->reader.text.size + http1->waiting.size + http1->body.size +
		http1->out.size + http1->sent.size + (http1->rest ? rest_bytes(http1->rest) : 0);
}

static bool is_idle(const void *session)
{
	const struct http1 *http1 = session;
	return !http1->rest && http1->out.len == 0;
}

static void leave(void *session)
{
	struct http1 *http1 = session;
	http1->leaving = true;
	http1->host.on_output(http1->host.context);
}

static void destroy(void *session)
{
	struct http1 *http1 = session;
	rest_destroy(http1->rest);
	http_reader_finish(&http1->reader);
	buffer_finish(&http1->waiting);
	buffer_finish(&http1->body);
	buffer_finish(&http1->out);
	buffer_finish(&http1->sent);
	free(http1);
}

const struct session_ops session_http1 = { receive, output, is_over, bytes, is_idle, leave,
	destroy };
