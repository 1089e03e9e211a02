/*
 * HTTP/2 by nghttp2: streams of the aggregated discovery service (gRPC), and requests of REST.
 *
 * Of a stream at most one message waits to be written, whose memory is bounded by what the client
 * subscribes to; what changes meanwhile is only marked (subscription.h). A client that reads
 * slowly, or not at all, costs that much.
 */
#include "lib/base/array.h"
#include "lib/program/memory.h"
#include "xds/session.h"

#include <arpa/inet.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/list.h"
#include "lib/base/text.h"
#include "xds/discovery.h"
#include "xds/rest.h"
#include "xds/subscription.h"

enum {
	STREAMS_MAX = 100, /* of a connection at a time */
	HEADER_BYTES = 16 * 1024,
	HEADER_TABLE_BYTES = 4096,
	SETTINGS_MAX = 32,
	ACKS_MAX = 100, /* answers to pings and settings that wait to be read */
	TARGET_BYTES = 128,
	MESSAGE_HEAD_BYTES = 5,
	SESSION_BYTES = 64 * 1024, /* nghttp2's, with buffers and tables of header fields */
	OUTPUT_BYTES = 256 * 1024 * 1024,
	/*
	 * Frames that carry no message but make work: so many at once, and so many a second. A
	 * client that sends more is broken or hostile.
	 */
	FRAMES_BURST = 2000,
	FRAMES_PER_SECOND = 1000
};

enum grpc_status {
	GRPC_OK = 0,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_UNAVAILABLE = 14
};

struct http2 {
	struct session_host host;
	nghttp2_session *session;
	struct list streams;
	bool leaving;
	bool failed;
	double frames; /* what is left of the allowance */
	int64_t frames_at_ms;
};

/*
 *   HEAD --headers--> DISCOVERY --the client ends, or an error--> ENDING (trailers)
 *                 \-> REST --the body is there--> ANSWERING
 *                 \-> ENDING (a status alone)
 */
enum stream_state { STREAM_HEAD, STREAM_DISCOVERY, STREAM_REST, STREAM_ANSWERING, STREAM_ENDING };

struct stream {
	struct list link;
	struct http2 *http2;
	int32_t id;
	enum stream_state state;
	char method[8];
	char target[TARGET_BYTES];
	bool grpc;
	struct buffer in;
	struct buffer out;
	size_t written; /* of out */
	struct subscription *subscription;
	struct rest *rest;
	enum grpc_status status;
	char message[TARGET_BYTES]; /* why */
};

static void wake(struct http2 *http2)
{
	http2->host.on_output(http2->host.context);
}

/* ---- streams ---- */

static struct stream *stream_create(struct http2 *http2, int32_t id)
{
	struct stream *stream = memory_zeroed(1, sizeof(*stream));
	stream->http2 = http2;
	stream->id = id;
	buffer_init(&stream->in, DISCOVERY_REQUEST_BYTES + MESSAGE_HEAD_BYTES);
	buffer_init(&stream->out, OUTPUT_BYTES);
	list_append(&http2->streams, &stream->link);
	return stream;
}

static void stream_destroy(struct stream *stream)
{
	list_remove(&stream->link);
	subscription_destroy(stream->subscription);
	rest_destroy(stream->rest);
	buffer_finish(&stream->in);
	buffer_finish(&stream->out);
	free(stream);
}

/* Makes nghttp2 ask for data again. */
static void resume(struct stream *stream)
{
	(void)nghttp2_session_resume_data(stream->http2->session, stream->id);
	wake(stream->http2);
}

static void end_stream(struct stream *stream, enum grpc_status status, const char *message)
{
	if (stream->state == STREAM_DISCOVERY) {
		stream->state = STREAM_ENDING;
		stream->status = status;
		text_printf(stream->message, sizeof(stream->message), "%s", message);
		subscription_destroy(stream->subscription);
		stream->subscription = NULL;
		resume(stream);
	}
}

/* ---- answers ---- */

static nghttp2_nv field(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
		.value = (uint8_t *)(uintptr_t)value,
		.namelen = strlen(name),
		.valuelen = strlen(value) };
}

/* grpc-message: percent-encoded; our messages hold no other character that needs it. */
static void write_message(char *out, size_t size, const char *message)
{
	size_t len = 0;
	for (const char *c = message; *c && len + 4 < size; c++) {
		bool plain = *c >= ' ' && *c < 0x7f && *c != '%';
		len += (size_t)snprintf(
			out + len, size - len, plain ? "%c" : "%%%02X", (unsigned char)*c);
	}
	out[len] = '\0';
}

static void submit_trailer(struct stream *stream)
{
	char status[12];
	char message[3 * TARGET_BYTES];
	snprintf(status, sizeof(status), "%d", (int)stream->status);
	write_message(message, sizeof(message), stream->message);
	const nghttp2_nv fields[] = { field("grpc-status", status),
		field("grpc-message", message) };
	nghttp2_submit_trailer(stream->http2->session, stream->id, fields, *message ? 2 : 1);
}

/* Puts the next message of a subscription into the output, behind its head. */
static void fill(struct stream *stream)
{
	static const char head[MESSAGE_HEAD_BYTES] = { 0 };
	buffer_clear(&stream->out);
	stream->written = 0;
	buffer_append(&stream->out, head, sizeof(head));
	if (!subscription_next(stream->subscription, &stream->out)) {
		buffer_clear(&stream->out);
		return;
	}
	uint32_t len = htonl((uint32_t)(stream->out.len - sizeof(head)));
	memcpy(stream->out.data + 1, &len, sizeof(len));
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
	uint32_t *flags, nghttp2_data_source *source, void *context)
{
	struct stream *stream = source->ptr;
	(void)session;
	(void)id;
	(void)context;
	if (stream->written == stream->out.len && stream->state == STREAM_DISCOVERY) {
		fill(stream);
	}
	size_t len = stream->out.len - stream->written;
	len = len < size ? len : size;
	if (len > 0) {
		memcpy(out, stream->out.data + stream->written, len);
		stream->written += len;
	}
	bool all = stream->written == stream->out.len;
	if (all) {
		/* A large message leaves its memory. */
		buffer_finish(&stream->out);
		stream->written = 0;
	}
	if (all && stream->state == STREAM_ENDING) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		submit_trailer(stream);
	} else if (all && stream->state == STREAM_ANSWERING) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	} else if (len == 0) {
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)len;
}

static void submit_head(struct stream *stream, const char *status, const char *type)
{
	const nghttp2_nv fields[] = { field(":status", status), field("content-type", type) };
	const nghttp2_data_provider data = { .source.ptr = stream, .read_callback = on_read };
	nghttp2_submit_response(stream->http2->session, stream->id, fields, *type ? 2 : 1, &data);
	wake(stream->http2);
}

/* An answer that is a status and a line of text. */
static void refuse(struct stream *stream, const char *status, const char *text)
{
	stream->state = STREAM_ANSWERING;
	buffer_append_text(&stream->out, text);
	submit_head(stream, status, "text/plain");
}

/* ---- gRPC ---- */

#define SERVICE "/envoy.service.discovery.v3.AggregatedDiscoveryService/"

static void on_due(void *context)
{
	resume(context);
}

static void begin_discovery(struct stream *stream)
{
	bool delta = strcmp(stream->target, SERVICE "DeltaAggregatedResources") == 0;
	stream->state = STREAM_DISCOVERY;
	submit_head(stream, "200", "application/grpc");
	if (delta || strcmp(stream->target, SERVICE "StreamAggregatedResources") == 0) {
		stream->subscription = subscription_create(stream->http2->host.world,
			stream->http2->host.quota, delta, on_due, stream);
	} else {
		end_stream(stream, GRPC_UNIMPLEMENTED, "only aggregated discovery is served here");
	}
}

static void take_message(struct stream *stream, const char *data, size_t len)
{
	struct err err = ERR_INIT;
	int code = subscription_take(stream->subscription, data, len, &err);
	if (code != 0) {
		end_stream(stream,
			code == BERTH_LIMIT_EXCEEDED ? GRPC_RESOURCE_EXHAUSTED
						     : GRPC_INVALID_ARGUMENT,
			err.msg);
	}
}

/* Takes the whole messages that have come. */
static void take_messages(struct stream *stream)
{
	size_t at = 0;
	while (stream->state == STREAM_DISCOVERY && stream->in.len - at >= MESSAGE_HEAD_BYTES) {
		uint32_t len;
		const char *head = stream->in.data + at;
		memcpy(&len, head + 1, sizeof(len));
		len = ntohl(len);
		if (head[0] != 0) {
			end_stream(stream, GRPC_UNIMPLEMENTED, "compressed messages are not taken");
		} else if (len > DISCOVERY_REQUEST_BYTES) {
			end_stream(stream, GRPC_RESOURCE_EXHAUSTED, "the message is too long");
		} else if (stream->in.len - at - MESSAGE_HEAD_BYTES < len) {
			break;
		} else {
			take_message(stream, head + MESSAGE_HEAD_BYTES, len);
			at += MESSAGE_HEAD_BYTES + len;
		}
	}
	buffer_consume(&stream->in, at);
	if (stream->in.len == 0 || stream->state == STREAM_ENDING) {
		buffer_finish(&stream->in);
	}
}

/* ---- REST ---- */

static void on_rest_ready(void *context)
{
	struct stream *stream = context;
	const struct session_host *host = &stream->http2->host;
	int64_t began_us = session_now_us();
	char status[4];
	int code = rest_write(stream->rest, &stream->out);
	snprintf(status, sizeof(status), "%d", code);
	stream->state = STREAM_ANSWERING;
	submit_head(stream, status,
		code == 200           ? "application/json"
			: code == 304 ? ""
				      : "text/plain");
	host->on_work(host->context, session_now_us() - began_us);
}

static void begin_rest(struct stream *stream)
{
	stream->rest = rest_create(stream->http2->host.loop, stream->http2->host.world,
		stream->http2->host.quota, stream->target, buffer_text(&stream->in), stream->in.len,
		on_rest_ready, stream);
	buffer_finish(&stream->in);
}

/* ---- frames ---- */

static void begin_request(struct stream *stream)
{
	if (strcmp(stream->method, "POST") != 0) {
		refuse(stream, "405", "only POST is served here\n");
	} else if (rest_is_target(stream->target)) {
		stream->state = STREAM_REST;
	} else if (stream->grpc) {
		begin_discovery(stream);
	} else {
		refuse(stream, "404",
			"served here: gRPC's aggregated discovery, and POST "
			"/v3/discovery:endpoints and :clusters\n");
	}
}

static void end_request(struct stream *stream)
{
	if (stream->state == STREAM_REST && !stream->rest) {
		begin_rest(stream);
	} else if (stream->state == STREAM_DISCOVERY) {
		end_stream(stream, GRPC_OK, "");
	}
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	(void)context;
	if (!stream) {
		return 0;
	}
	if (frame->hd.type == NGHTTP2_HEADERS && stream->state == STREAM_HEAD) {
		begin_request(stream);
	}
	if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
		(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
		end_request(stream);
	}
	return 0;
}

/* A frame that carries nothing; one of a message costs its sender more than us. */
static bool is_idle_frame(const nghttp2_frame_hd *head)
{
	return head->type != NGHTTP2_DATA || head->length == 0;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *context)
{
	struct http2 *http2 = context;
	int64_t now_ms = clock_monotonic_ms();
	if (!is_idle_frame(head)) {
		return 0;
	}
	http2->frames += (double)(now_ms - http2->frames_at_ms) * FRAMES_PER_SECOND / 1000;
	http2->frames = http2->frames > FRAMES_BURST ? FRAMES_BURST : http2->frames;
	http2->frames_at_ms = now_ms;
	http2->frames--;
	if (http2->frames < 0 && !http2->failed) {
		http2->failed = true;
		nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
	}
	return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
		struct stream *stream = stream_create(context, frame->hd.stream_id);
		nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
	}
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *context)
{
	struct stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	static const char grpc[] = "application/grpc";
	(void)name_len;
	(void)flags;
	(void)context;
	if (!stream || stream->state != STREAM_HEAD) {
		return 0;
	}
	/* nghttp2 ends names and values with NUL. A target that is cut is not one of ours. */
	if (strcmp((const char *)name, ":method") == 0) {
		text_printf(stream->method, sizeof(stream->method), "%s", (const char *)value);
	} else if (strcmp((const char *)name, ":path") == 0) {
		text_printf(stream->target, sizeof(stream->target), "%s", (const char *)value);
	} else if (strcmp((const char *)name, "content-type") == 0) {
		stream->grpc = len >= sizeof(grpc) - 1 &&
			memcmp(value, grpc, sizeof(grpc) - 1) == 0;
	}
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
	size_t len, void *context)
{
	struct stream *stream = nghttp2_session_get_stream_user_data(session, id);
	(void)flags;
	(void)context;
	if (!stream) {
		return 0;
	}
	if (stream->state == STREAM_DISCOVERY) {
		size_t most = DISCOVERY_REQUEST_BYTES + MESSAGE_HEAD_BYTES;
		while (len > 0 && stream->state == STREAM_DISCOVERY) {
			size_t part = most - stream->in.len < len ? most - stream->in.len : len;
			buffer_append(&stream->in, data, part);
			take_messages(stream);
			data += part;
			len -= part;
		}
	} else if (stream->state == STREAM_REST && !stream->rest) {
		if (stream->in.len + len > DISCOVERY_REQUEST_BYTES) {
			refuse(stream, "413", "the request is too long\n");
		} else {
			buffer_append(&stream->in, data, len);
		}
	}
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
	struct stream *stream = nghttp2_session_get_stream_user_data(session, id);
	(void)code;
	(void)context;
	if (stream) {
		nghttp2_session_set_stream_user_data(session, id, NULL);
		stream_destroy(stream);
	}
	return 0;
}

/* ---- the session ---- */

static nghttp2_session_callbacks *make_callbacks(void)
{
	nghttp2_session_callbacks *callbacks = NULL;
	(void)nghttp2_session_callbacks_new(&callbacks);
	memory_must(callbacks);
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	return callbacks;
}

static nghttp2_option *make_options(void)
{
	nghttp2_option *option = NULL;
	(void)nghttp2_option_new(&option);
	memory_must(option);
	nghttp2_option_set_max_settings(option, SETTINGS_MAX);
	nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_max_deflate_dynamic_table_size(option, HEADER_TABLE_BYTES);
	return option;
}

void *session_http2_create(const struct session_host *host)
{
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_BYTES },
	};
	struct http2 *http2 = memory_zeroed(1, sizeof(*http2));
	nghttp2_session_callbacks *callbacks = make_callbacks();
	nghttp2_option *option = make_options();
	http2->host = *host;
	http2->frames = FRAMES_BURST;
	http2->frames_at_ms = clock_monotonic_ms();
	list_init(&http2->streams);
	(void)nghttp2_session_server_new2(&http2->session, callbacks, http2, option);
	memory_must(http2->session);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(http2->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings));
	return http2;
}

static bool receive(void *session, const uint8_t *data, size_t len)
{
	struct http2 *http2 = session;
	ssize_t taken = nghttp2_session_mem_recv(http2->session, data, len);
	wake(http2);
	return taken == (ssize_t)len && !http2->failed;
}

static size_t output(void *session, const uint8_t **ret_data)
{
	struct http2 *http2 = session;
	ssize_t len = nghttp2_session_mem_send(http2->session, ret_data);
	http2->failed = http2->failed || len < 0;
	return len > 0 ? (size_t)len : 0;
}

static bool is_over(const void *session)
{
	const struct http2 *http2 = session;
	bool wants = nghttp2_session_want_read(http2->session) ||
		nghttp2_session_want_write(http2->session);
	return http2->failed || !wants || (http2->leaving && list_empty(&http2->streams));
}

static size_t bytes_of(const struct stream *stream)
{
	return sizeof(*stream) + stream->in.size + stream->out.size +
		(stream->subscription ? subscription_bytes(stream->subscription) : 0) +
		(stream->rest ? rest_bytes(stream->rest) : 0);
}

static size_t bytes(const void *session)
{
	const struct http2 *http2 = session;
	size_t sum = SESSION_BYTES;
	for (const struct list *link = http2->streams.next; link != &http2->streams;
		link = link->next) {
		sum += bytes_of(LIST_ITEM(link, const struct stream, link));
	}
	return sum;
}

static bool is_idle(const void *session)
{
	const struct http2 *http2 = session;
	return list_empty(&http2->streams);
}

static void leave(void *session)
{
	struct http2 *http2 = session;
	http2->leaving = true;
	nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE,
		nghttp2_session_get_last_proc_stream_id(http2->session), NGHTTP2_NO_ERROR, NULL, 0);
	for (struct list *link = http2->streams.next; link != &http2->streams; link = link->next) {
		end_stream(LIST_ITEM(link, struct stream, link), GRPC_UNAVAILABLE,
			"the server ends; it will be back");
	}
	wake(http2);
}

static void destroy(void *session)
{
	struct http2 *http2 = session;
	struct list *link = http2->streams.next;
	while (link != &http2->streams) {
		struct stream *stream = LIST_ITEM(link, struct stream, link);
		link = link->next;
		nghttp2_session_set_stream_user_data(http2->session, stream->id, NULL);
		stream_destroy(stream);
	}
	nghttp2_session_del(http2->session);
	free(http2);
}

const struct session_ops session_http2 = { receive, output, is_over, bytes, is_idle, leave,
	destroy };
