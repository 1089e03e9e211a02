/*
 * One table says which fields each frame has, in their order on the wire; the same row encodes and
 * decodes. A number has as many bytes on the wire as in its struct.
 */
#include "lib/registry/zookeeper/frame.h"

#include <stddef.h>
#include <string.h>

#include "lib/base/array.h"

/* ---- numbers and strings ---- */

static void put_number(struct buffer *out, uint64_t value, unsigned bytes)
{
	unsigned char encoded[sizeof(value)];
	for (unsigned i = 0; i < bytes; i++) {
		encoded[i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
	}
	buffer_append(out, encoded, bytes);
}

/*
 * Fails the buffer instead of cutting a length that does not fit its field; no frame could hold it
 * anyway.
 */
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

/* The rest of a body. A bad reader returns zero and "" for everything. */
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
	unsigned type = get_choice(&reader, ZK_FRAME_ALIVE);
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

/* ---- the fields of each frame ---- */

enum field_kind { NUMBER, FLAG, CHOICE, STRING, DATA, LIST, PASSWORD };

struct field {
	enum field_kind kind;
	unsigned last;     /* CHOICE: an enum from 1 to this, one byte on the wire */
	size_t offset;     /* in the struct */
	size_t size;       /* NUMBER */
	size_t len_offset; /* DATA: of its length, a size_t */
	bool is_late; /* FLAG: the frame of 0.1.0 ends before it, as ours does when it is false */
};

#define MEMBER(type, member) .offset = offsetof(struct type, member)
#define NUMBER_FIELD(type, member)                                                                 \
	{                                                                                          \
		.kind = NUMBER, MEMBER(type, member), .size = sizeof(((struct type *)0)->member)   \
	}
#define FIELD(of_kind, type, member)                                                               \
	{                                                                                          \
		.kind = of_kind, MEMBER(type, member)                                              \
	}
#define CHOICE_FIELD(type, member, highest)                                                        \
	{                                                                                          \
		.kind = CHOICE, MEMBER(type, member), .last = highest                              \
	}
#define DATA_FIELD(type, member, len)                                                              \
	{                                                                                          \
		.kind = DATA, MEMBER(type, member), .len_offset = offsetof(struct type, len)       \
	}

static const struct field hello_fields[] = {
	FIELD(STRING, zk_hello, servers),
	FIELD(STRING, zk_hello, addresses),
	FIELD(FLAG, zk_hello, look_up),
	NUMBER_FIELD(zk_hello, timeout_ms),
	NUMBER_FIELD(zk_hello, session_id),
	FIELD(PASSWORD, zk_hello, session_password),
	FIELD(STRING, zk_hello, auth),
	FIELD(STRING, zk_hello, credential),
	FIELD(STRING, zk_hello, tls),
	{ .kind = FLAG, MEMBER(zk_hello, ends_in_silence), .is_late = true },
};

static const struct field request_fields[] = {
	NUMBER_FIELD(zk_request, tag),
	CHOICE_FIELD(zk_request, operation, ZK_UNWATCH_CHILDREN),
	FIELD(STRING, zk_request, path),
	DATA_FIELD(zk_request, data, len),
	NUMBER_FIELD(zk_request, version),
	FIELD(FLAG, zk_request, exact),
	NUMBER_FIELD(zk_request, czxid),
	FIELD(FLAG, zk_request, watch),
	FIELD(FLAG, zk_request, ephemeral),
	FIELD(FLAG, zk_request, sequential),
	FIELD(FLAG, zk_request, container),
	NUMBER_FIELD(zk_request, sets),
	FIELD(LIST, zk_request, acl),
};

static const struct field session_fields[] = {
	CHOICE_FIELD(zk_session, state, ZK_SESSION_AUTH_FAILED),
	NUMBER_FIELD(zk_session, id),
	FIELD(PASSWORD, zk_session, password),
	NUMBER_FIELD(zk_session, timeout_ms),
	FIELD(STRING, zk_session, server),
	FIELD(STRING, zk_session, addresses),
};

static const struct field result_fields[] = {
	NUMBER_FIELD(zk_result, tag),
	NUMBER_FIELD(zk_result, rc),
	NUMBER_FIELD(zk_result, stat.czxid),
	NUMBER_FIELD(zk_result, stat.owner),
	NUMBER_FIELD(zk_result, stat.ctime_ms),
	NUMBER_FIELD(zk_result, stat.mtime_ms),
	NUMBER_FIELD(zk_result, stat.version),
	NUMBER_FIELD(zk_result, stat.size),
	NUMBER_FIELD(zk_result, stat.children),
	DATA_FIELD(zk_result, data, len),
	FIELD(LIST, zk_result, names),
};

static const struct field event_fields[] = {
	CHOICE_FIELD(zk_event, kind, ZK_EVENT_CHILDREN),
	FIELD(FLAG, zk_event, gone),
	FIELD(STRING, zk_event, path),
};

static const struct field log_fields[] = {
	CHOICE_FIELD(zk_log, kind, ZK_LOG_CLOSED),
	FIELD(STRING, zk_log, message),
};

#define FRAME(of_fields)                                                                           \
	{                                                                                          \
		of_fields, ARRAY_LEN(of_fields)                                                    \
	}

static const struct {
	const struct field *fields;
	size_t count;
} frames[] = {
	[ZK_FRAME_HELLO] = FRAME(hello_fields),
	[ZK_FRAME_REQUEST] = FRAME(request_fields),
	[ZK_FRAME_CLOSE] = { NULL, 0 },
	[ZK_FRAME_SESSION] = FRAME(session_fields),
	[ZK_FRAME_RESULT] = FRAME(result_fields),
	[ZK_FRAME_EVENT] = FRAME(event_fields),
	[ZK_FRAME_LOG] = FRAME(log_fields),
	[ZK_FRAME_ALIVE] = { NULL, 0 },
};

/* Members are copied by their bytes: a table of offsets knows no types. */
static uint64_t load_number(const char *member, size_t size)
{
	uint8_t byte;
	uint32_t word;
	uint64_t number;
	switch (size) {
	case sizeof(byte):
		memcpy(&byte, member, size);
		return byte;
	case sizeof(word):
		memcpy(&word, member, size);
		return word;
	default:
		memcpy(&number, member, sizeof(number));
		return number;
	}
}

static void store_number(char *member, size_t size, uint64_t number)
{
	uint8_t byte = (uint8_t)number;
	uint32_t word = (uint32_t)number;
	switch (size) {
	case sizeof(byte):
		memcpy(member, &byte, size);
		break;
	case sizeof(word):
		memcpy(member, &word, size);
		break;
	default:
		memcpy(member, &number, sizeof(number));
		break;
	}
}

static void put_field(struct buffer *out, const struct field *field, const char *message)
{
	const char *member = message + field->offset;
	switch (field->kind) {
	case NUMBER:
		put_number(out, load_number(member, field->size), (unsigned)field->size);
		break;
	case FLAG:
		if (*(const bool *)member || !field->is_late) {
			put_number(out, *(const bool *)member, 1);
		}
		break;
	case CHOICE:
		put_number(out, load_number(member, sizeof(unsigned)), 1);
		break;
	case STRING:
		put_string(out, *(const char *const *)(const void *)member);
		break;
	case DATA:
		put_bytes(out, *(const char *const *)(const void *)member,
			*(const size_t *)(const void *)(message + field->len_offset));
		break;
	case LIST:
		put_list(out, (const struct zk_list *)(const void *)member);
		break;
	case PASSWORD:
		buffer_append(out, member, ZK_PASSWORD_BYTES);
		break;
	}
}

static void get_field(struct reader *reader, const struct field *field, char *message)
{
	char *member = message + field->offset;
	const char *password;
	switch (field->kind) {
	case NUMBER:
		store_number(member, field->size, get_number(reader, (unsigned)field->size));
		break;
	case FLAG:
		*(bool *)member = !(field->is_late && reader->left == 0) && get_bool(reader);
		break;
	case CHOICE:
		store_number(member, sizeof(unsigned), get_choice(reader, field->last));
		break;
	case STRING:
		*(const char **)(void *)member = get_string(reader);
		break;
	case DATA:
		*(const char **)(void *)member = get_bytes(
			reader, (size_t *)(void *)(message + field->len_offset));
		break;
	case LIST:
		*(struct zk_list *)(void *)member = get_list(reader);
		break;
	case PASSWORD:
		password = take(reader, ZK_PASSWORD_BYTES);
		if (password) {
			memcpy(member, password, ZK_PASSWORD_BYTES);
		}
		break;
	}
}

static int encode(struct buffer *out, enum zk_frame_type type, const void *message)
{
	size_t start = begin(out, type);
	for (size_t i = 0; i < frames[type].count; i++) {
		put_field(out, &frames[type].fields[i], message);
	}
	return end(out, start);
}

static int decode(void *message, enum zk_frame_type type, const struct zk_frame *frame)
{
	struct reader reader = read_body(frame, type);
	for (size_t i = 0; i < frames[type].count; i++) {
		get_field(&reader, &frames[type].fields[i], message);
	}
	return reader.bad || reader.left > 0 ? -1 : 0;
}

int zk_close_encode(struct buffer *out)
{
	return encode(out, ZK_FRAME_CLOSE, NULL);
}

int zk_alive_encode(struct buffer *out)
{
	return encode(out, ZK_FRAME_ALIVE, NULL);
}

#define CODEC(name, type)                                                                          \
	int zk_##name##_encode(struct buffer *out, const struct zk_##name *name)                   \
	{                                                                                          \
		return encode(out, type, name);                                                    \
	}                                                                                          \
	int zk_##name##_decode(struct zk_##name *ret_##name, const struct zk_frame *frame)         \
	{                                                                                          \
		return decode(ret_##name, type, frame);                                            \
	}

CODEC(hello, ZK_FRAME_HELLO)
CODEC(request, ZK_FRAME_REQUEST)
CODEC(session, ZK_FRAME_SESSION)
CODEC(result, ZK_FRAME_RESULT)
CODEC(event, ZK_FRAME_EVENT)
CODEC(log, ZK_FRAME_LOG)
