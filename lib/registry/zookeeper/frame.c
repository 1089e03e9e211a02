#include "lib/registry/zookeeper/frame.h"

#include <string.h>

/* ---- numbers and strings ---- */

static void put_number(struct buffer *out, uint64_t value, unsigned bytes)
{
	unsigned char encoded[sizeof(value)];
	for (unsigned i = 0; i < bytes; i++) {
		encoded[i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
	}
	buffer_append(out, encoded, bytes);
}

/* Fails the buffer instead of cutting a length that does not fit its field; no frame could hold it anyway. */
static void put_length(struct buffer *out, size_t len)
{
	out->failed = out->failed || len > ZK_FRAME_MAX_BYTES;
	put_number(out, len, 4);
}

static void put_bytes(struct buffer *out, const char *data, size_t len)
{
	put_length(out, len);
	buffer_append(out, data, len);
	put_number(out, 0, 1);
}

static void put_string(struct buffer *out, const char *text)
{
	put_bytes(out, text ? text : "", text ? strlen(text) : 0);
}

static void put_list(struct buffer *out, const struct zk_list *list)
{
	put_length(out, list->count);
	put_length(out, list->len);
	buffer_append(out, list->packed, list->len);
}

/* What is left of a body. Once bad, everything read is zero and empty. */
struct reader {
	const char *at;
	size_t left;
	bool bad;
};

static const char *take(struct reader *reader, size_t len)
{
	if (reader->bad || len > reader->left) {
		reader->bad = true;
		return NULL;
	}
	const char *start = reader->at;
	reader->at += len;
	reader->left -= len;
	return start;
}

static uint64_t get_number(struct reader *reader, unsigned bytes)
{
	const unsigned char *encoded = (const unsigned char *)take(reader, bytes);
	uint64_t value = 0;
	for (unsigned i = 0; encoded && i < bytes; i++) {
		value = value << 8 | encoded[i];
	}
	return value;
}

static int32_t get_signed(struct reader *reader)
{
	return (int32_t)(uint32_t)get_number(reader, 4);
}

static uint32_t get_u32(struct reader *reader)
{
	return (uint32_t)get_number(reader, 4);
}

static bool get_bool(struct reader *reader)
{
	uint64_t value = get_number(reader, 1);
	reader->bad = reader->bad || value > 1;
	return value == 1;
}

/* A value of an enum that starts at 1. */
static unsigned get_choice(struct reader *reader, unsigned last)
{
	uint64_t value = get_number(reader, 1);
	reader->bad = reader->bad || value < 1 || value > last;
	return (unsigned)value;
}

static const char *get_bytes(struct reader *reader, size_t *ret_len)
{
	size_t len = get_u32(reader);
	const char *data = take(reader, len + 1);
	if (!data || data[len] != '\0') {
		reader->bad = true;
		*ret_len = 0;
		return "";
	}
	*ret_len = len;
	return data;
}

static const char *get_string(struct reader *reader)
{
	size_t len;
	const char *text = get_bytes(reader, &len);
	reader->bad = reader->bad || strlen(text) != len;
	return text;
}

static struct zk_list get_list(struct reader *reader)
{
	struct zk_list list = { .count = get_u32(reader) };
	size_t found = 0;
	list.len = get_u32(reader);
	list.packed = take(reader, list.len);
	for (size_t i = 0; list.packed && i < list.len; i++) {
		found += list.packed[i] == '\0';
	}
	bool open = list.packed && list.len > 0 && list.packed[list.len - 1] != '\0';
	reader->bad = reader->bad || open || found != list.count;
	return list;
}

const char *zk_list_next(struct zk_list *list)
{
	if (list->count == 0) {
		return NULL;
	}
	const char *first = list->packed;
	size_t len = strlen(first) + 1;
	list->packed += len;
	list->len -= len;
	list->count--;
	return first;
}

/* ---- frames ---- */

static size_t begin(struct buffer *out, enum zk_frame_type type)
{
	size_t start = out->len;
	put_number(out, 0, 4);
	put_number(out, type, 1);
	return start;
}

/* Fills in the length, or takes the half-written frame back. */
static int end(struct buffer *out, size_t start)
{
	size_t len = out->len - start - 4;
	if (out->failed || len > ZK_FRAME_MAX_BYTES) {
		out->len = start;
		out->failed = true;
		return -1;
	}
	for (unsigned i = 0; i < 4; i++) {
		out->data[start + i] = (char)(unsigned char)(len >> (8 * (3 - i)));
	}
	return 0;
}

long zk_frame_next(struct zk_frame *ret_frame, const char *data, size_t len)
{
	struct reader reader = { .at = data, .left = len };
	if (len < ZK_FRAME_HEAD_BYTES) {
		return 0;
	}
	size_t rest = get_u32(&reader);
	unsigned type = get_choice(&reader, ZK_FRAME_LOG);
	if (reader.bad || rest < 1 || rest > ZK_FRAME_MAX_BYTES) {
		return -1;
	}
	const char *body = take(&reader, rest - 1);
	if (!body) {
		return 0;
	}
	*ret_frame = (struct zk_frame){
		.type = (enum zk_frame_type)type, .body = body, .len = rest - 1
	};
	return (long)(rest + 4);
}

static struct reader read_body(const struct zk_frame *frame, enum zk_frame_type type)
{
	return (struct reader){ .at = frame->body, .left = frame->len, .bad = frame->type != type };
}

static int done(const struct reader *reader)
{
	return reader->bad || reader->left > 0 ? -1 : 0;
}

/* ---- from the agent ---- */

int zk_hello_encode(struct buffer *out, const struct zk_hello *hello)
{
	size_t start = begin(out, ZK_FRAME_HELLO);
	put_string(out, hello->servers);
	put_string(out, hello->addresses);
	put_number(out, hello->timeout_ms, 4);
	put_number(out, hello->session_id, 8);
	buffer_append(out, hello->session_password, ZK_PASSWORD_BYTES);
	put_string(out, hello->auth);
	put_string(out, hello->credential);
	put_string(out, hello->tls);
	return end(out, start);
}

static void get_password(struct reader *reader, unsigned char *out)
{
	const char *password = take(reader, ZK_PASSWORD_BYTES);
	if (password) {
		memcpy(out, password, ZK_PASSWORD_BYTES);
	}
}

int zk_hello_decode(struct zk_hello *ret_hello, const struct zk_frame *frame)
{
	struct reader reader = read_body(frame, ZK_FRAME_HELLO);
	ret_hello->servers = get_string(&reader);
	ret_hello->addresses = get_string(&reader);
	ret_hello->timeout_ms = get_u32(&reader);
	ret_hello->session_id = get_number(&reader, 8);
	get_password(&reader, ret_hello->session_password);
	ret_hello->auth = get_string(&reader);
	ret_hello->credential = get_string(&reader);
	ret_hello->tls = get_string(&reader);
	return done(&reader);
}

int zk_request_encode(struct buffer *out, const struct zk_request *request)
{
	size_t start = begin(out, ZK_FRAME_REQUEST);
	put_number(out, request->tag, 4);
	put_number(out, request->operation, 1);
	put_string(out, request->path);
	put_bytes(out, request->data, request->len);
	put_number(out, (uint32_t)request->version, 4);
	put_number(out, request->exact, 1);
	put_number(out, request->czxid, 8);
	put_number(out, request->watch, 1);
	put_number(out, request->ephemeral, 1);
	put_number(out, request->sets, 1);
	put_list(out, &request->acl);
	return end(out, start);
}

int zk_request_decode(struct zk_request *ret_request, const struct zk_frame *frame)
{
	struct reader reader = read_body(frame, ZK_FRAME_REQUEST);
	ret_request->tag = get_u32(&reader);
	ret_request->operation = (enum zk_operation)get_choice(&reader, ZK_UNWATCH_CHILDREN);
	ret_request->path = get_string(&reader);
	ret_request->data = get_bytes(&reader, &ret_request->len);
	ret_request->version = get_signed(&reader);
	ret_request->exact = get_bool(&reader);
	ret_request->czxid = get_number(&reader, 8);
	ret_request->watch = get_bool(&reader);
	ret_request->ephemeral = get_bool(&reader);
	ret_request->sets = (uint8_t)get_number(&reader, 1);
	ret_request->acl = get_list(&reader);
	return done(&reader);
}

int zk_close_encode(struct buffer *out)
{
	return end(out, begin(out, ZK_FRAME_CLOSE));
}

/* ---- from the worker ---- */

int zk_session_encode(struct buffer *out, const struct zk_session *session)
{
	size_t start = begin(out, ZK_FRAME_SESSION);
	put_number(out, session->state, 1);
	put_number(out, session->id, 8);
	buffer_append(out, session->password, ZK_PASSWORD_BYTES);
	put_number(out, session->timeout_ms, 4);
	put_string(out, session->server);
	put_string(out, session->addresses);
	return end(out, start);
}

int zk_session_decode(struct zk_session *ret_session, const struct zk_frame *frame)
{
	struct reader reader = read_body(frame, ZK_FRAME_SESSION);
	ret_session->state = (enum zk_session_state)get_choice(&reader, ZK_SESSION_AUTH_FAILED);
	ret_session->id = get_number(&reader, 8);
	get_password(&reader, ret_session->password);
	ret_session->timeout_ms = get_u32(&reader);
	ret_session->server = get_string(&reader);
	ret_session->addresses = get_string(&reader);
	return done(&reader);
}

int zk_result_encode(struct buffer *out, const struct zk_result *result)
{
	size_t start = begin(out, ZK_FRAME_RESULT);
	put_number(out, result->tag, 4);
	put_number(out, (uint32_t)result->rc, 4);
	put_number(out, result->stat.czxid, 8);
	put_number(out, result->stat.owner, 8);
	put_number(out, (uint64_t)result->stat.ctime_ms, 8);
	put_number(out, (uint64_t)result->stat.mtime_ms, 8);
	put_number(out, (uint32_t)result->stat.version, 4);
	put_number(out, result->stat.size, 4);
	put_number(out, result->stat.children, 4);
	put_bytes(out, result->data, result->len);
	put_list(out, &result->names);
	return end(out, start);
}

int zk_result_decode(struct zk_result *ret_result, const struct zk_frame *frame)
{
	struct reader reader = read_body(frame, ZK_FRAME_RESULT);
	ret_result->tag = get_u32(&reader);
	ret_result->rc = get_signed(&reader);
	ret_result->stat.czxid = get_number(&reader, 8);
	ret_result->stat.owner = get_number(&reader, 8);
	ret_result->stat.ctime_ms = (int64_t)get_number(&reader, 8);
	ret_result->stat.mtime_ms = (int64_t)get_number(&reader, 8);
	ret_result->stat.version = get_signed(&reader);
	ret_result->stat.size = get_u32(&reader);
	ret_result->stat.children = get_u32(&reader);
	ret_result->data = get_bytes(&reader, &ret_result->len);
	ret_result->names = get_list(&reader);
	return done(&reader);
}

int zk_event_encode(struct buffer *out, const struct zk_event *event)
{
	size_t start = begin(out, ZK_FRAME_EVENT);
	put_number(out, event->kind, 1);
	put_number(out, event->gone, 1);
	put_string(out, event->path);
	return end(out, start);
}

int zk_event_decode(struct zk_event *ret_event, const struct zk_frame *frame)
{
	struct reader reader = read_body(frame, ZK_FRAME_EVENT);
	ret_event->kind = (enum zk_event_kind)get_choice(&reader, ZK_EVENT_CHILDREN);
	ret_event->gone = get_bool(&reader);
	ret_event->path = get_string(&reader);
	return done(&reader);
}

int zk_log_encode(struct buffer *out, const struct zk_log *log)
{
	size_t start = begin(out, ZK_FRAME_LOG);
	put_number(out, log->own, 1);
	put_string(out, log->message);
	return end(out, start);
}

int zk_log_decode(struct zk_log *ret_log, const struct zk_frame *frame)
{
	struct reader reader = read_body(frame, ZK_FRAME_LOG);
	ret_log->own = get_bool(&reader);
	ret_log->message = get_string(&reader);
	return done(&reader);
}
