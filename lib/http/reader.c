/*
 * The reader works line by line. It reads a line in place when the caller's bytes hold the whole of
 * it; it collects a line that comes in pieces behind the kept parts of the head, and drops it once
 * it has been read. So an unknown field costs no memory, and the reader copies only the kept parts
 * of a usual request.
 */
#include "lib/http/reader.h"

#include <string.h>
#include <strings.h>

#include "lib/base/hex.h"
#include "lib/http/field.h"
#include "lib/http/target.h"

enum {
	START_LINE_BYTES = HTTP_TARGET_BYTES + 64,
	KEPT_BYTES = HTTP_ANSWER_FIELD_BYTES + START_LINE_BYTES,
	CHUNK_LINE_BYTES = 1024,
	CHUNK_EXTENSION_BYTES = 16 * 1024, /* of all chunks of a message */
	CHUNK_DIGITS = 15,
	TRAILER_BYTES = 4096,
	EMPTY_LINES_BYTES = 8, /* before a request */
	INTERIM_ANSWERS = 64,  /* before an answer */
	MESSAGE_BYTES = 1024   /* memory for the next message; more is freed between two */
};

/* How a field that comes more than once is read. */
enum rule { LIST, ONCE, FIRST };

static const struct {
	const char *name; /* in lower case */
	size_t len;
	enum rule rule;
} known[HTTP_FIELDS] = {
#define KNOWN(field, name, rule) [field] = { name, sizeof(name) - 1, rule }
	KNOWN(HTTP_FIELD_ACCEPT, "accept", LIST),
	KNOWN(HTTP_FIELD_AGE, "age", FIRST),
	KNOWN(HTTP_FIELD_CACHE_CONTROL, "cache-control", LIST),
	KNOWN(HTTP_FIELD_CONNECTION, "connection", LIST),
	KNOWN(HTTP_FIELD_CONTENT_ENCODING, "content-encoding", LIST),
	KNOWN(HTTP_FIELD_CONTENT_LENGTH, "content-length", ONCE),
	KNOWN(HTTP_FIELD_CONTENT_TYPE, "content-type", FIRST),
	KNOWN(HTTP_FIELD_ETAG, "etag", FIRST),
	KNOWN(HTTP_FIELD_EXPECT, "expect", LIST),
	KNOWN(HTTP_FIELD_HOST, "host", ONCE),
	KNOWN(HTTP_FIELD_IF_MATCH, "if-match", LIST),
	KNOWN(HTTP_FIELD_IF_NONE_MATCH, "if-none-match", LIST),
	KNOWN(HTTP_FIELD_LAST_EVENT_ID, "last-event-id", FIRST),
	KNOWN(HTTP_FIELD_PREFER, "prefer", LIST),
	KNOWN(HTTP_FIELD_TRANSFER_ENCODING, "transfer-encoding", ONCE),
	KNOWN(HTTP_FIELD_X_CACHE, "x-cache", FIRST),
	KNOWN(HTTP_FIELD_X_FILTER, "x-filter", FIRST),
#undef KNOWN
};

_Static_assert(KEPT_BYTES < UINT16_MAX, "the place of a field has 16 bits");

void http_reader_init(struct http_reader *reader, enum http_kind kind)
{
	*reader = (struct http_reader){ .kind = kind };
	buffer_init(&reader->text, KEPT_BYTES + START_LINE_BYTES + HTTP_ANSWER_FIELD_BYTES);
}

void http_reader_finish(struct http_reader *reader)
{
	buffer_finish(&reader->text);
}

void http_reader_restart(struct http_reader *reader)
{
	if (reader->text.size > MESSAGE_BYTES) {
		buffer_finish(&reader->text);
	} else {
		buffer_clear(&reader->text);
	}
	size_t begin = offsetof(struct http_reader, state);
	memset((char *)reader + begin, 0, sizeof(*reader) - begin);
}

static enum http_event refuse(struct http_reader *reader, int status, const char *why)
{
	reader->state = HTTP_READER_FAILED;
	reader->keep_alive = false;
	reader->refusal = status;
	reader->why = why;
	return HTTP_EVENT_REFUSED;
}

bool http_reader_has_head(const struct http_reader *reader)
{
	return reader->state > HTTP_READER_FIELDS && reader->state < HTTP_READER_FAILED;
}

bool http_reader_is_idle(const struct http_reader *reader)
{
	return reader->state == HTTP_READER_START && reader->text.len == 0;
}

const char *http_reader_method(const struct http_reader *reader)
{
	return buffer_text(&reader->text);
}

const char *http_reader_target(const struct http_reader *reader)
{
	return buffer_text(&reader->text) + reader->target;
}

const char *http_reader_query(const struct http_reader *reader)
{
	return reader->query ? buffer_text(&reader->text) + reader->query : "";
}

/* ---- the kept parts ---- */

/*
 * Keeps a part of the line, which may be in `text` already. Returns its place; 0 with a refusal if
 * it does not fit.
 */
static size_t keep(struct http_reader *reader, const char *part, size_t len)
{
	struct buffer *text = &reader->text;
	size_t place = reader->line;
	if (place + len >= KEPT_BYTES) {
		refuse(reader, 431, "its fields are too long");
		return 0;
	}
	/* A line that was collected is longer than its part. */
	bool collected = text->len > place;
	char *room = collected ? text->data + place : buffer_reserve(text, len + 1);
	if (!room) {
		refuse(reader, 500, "no memory");
		return 0;
	}
	memmove(room, part, len);
	room[len] = '\0';
	text->len = place;
	buffer_added(text, len + 1);
	reader->line = text->len;
	return place;
}

/*
 * Makes "first, second" of a list that came in two fields; `second` is the last part that was kept.
 */
static size_t join(struct http_reader *reader, size_t first, size_t second)
{
	struct buffer *text = &reader->text;
	size_t first_len = strlen(text->data + first);
	size_t second_len = strlen(text->data + second);
	if (second + first_len + second_len + 3 > KEPT_BYTES) {
		refuse(reader, 431, "its fields are too long");
		return 0;
	}
	if (!buffer_reserve(text, first_len + 2)) {
		refuse(reader, 500, "no memory");
		return 0;
	}
	memmove(text->data + second + first_len + 2, text->data + second, second_len + 1);
	memcpy(text->data + second, text->data + first, first_len);
	memcpy(text->data + second + first_len, ", ", 2);
	buffer_added(text, first_len + 2);
	reader->line = text->len;
	return second;
}

/* ---- the start line ---- */

static bool is_digit(char byte)
{
	return byte >= '0' && byte <= '9';
}

/*
 * "HTTP/1.1": 1 or 0 for the minor version; -1: no version, -2: another major one. Any 1.x is as
 * good as 1.1.
 */
static int parse_version(const char *text)
{
	if (memcmp(text, "HTTP/", 5) != 0 || !is_digit(text[5]) || text[6] != '.' ||
		!is_digit(text[7])) {
		return -1;
	}
	return text[5] != '1' ? -2 : text[7] != '0';
}

static void split_request(struct http_reader *reader, size_t method_len)
{
	char *text = reader->text.data;
	text[method_len] = '\0';
	char *mark = strchr(text + method_len + 1, '?');
	if (mark) {
		*mark = '\0';
		reader->query = (size_t)(mark - text) + 1;
	}
}

static void take_request_line(struct http_reader *reader, const char *line, size_t len)
{
	enum { VERSION_LEN = 8 };
	size_t method_len = http_token_len(line, len);
	const char *target = line + method_len + 1;
	if (method_len == 0 || len < method_len + VERSION_LEN + 3 || line[method_len] != ' ' ||
		line[len - VERSION_LEN - 1] != ' ') {
		refuse(reader, 400, "its first line is not a request line");
		return;
	}
	size_t target_len = len - method_len - VERSION_LEN - 2;
	int version = parse_version(line + len - VERSION_LEN);
	if (target_len > HTTP_TARGET_BYTES) {
		refuse(reader, 414, "its target is too long");
	} else if (version == -1) {
		refuse(reader, 400, "its first line is not a request line");
	} else if (version == -2) {
		refuse(reader, 505, "this server speaks HTTP/1.1");
	} else if (!http_is_target(line, method_len, target, target_len)) {
		refuse(reader, 400, "its target is malformed");
	} else {
		reader->http_1_0 = version == 0;
		reader->state = HTTP_READER_FIELDS;
		reader->line_bytes = 0;
		/* Kept in one piece, because a second keep() would overwrite the first part. */
		keep(reader, line, method_len + 1 + target_len);
		reader->target = method_len + 1;
		if (reader->state != HTTP_READER_FAILED) {
			split_request(reader, method_len);
		}
	}
}

/* "HTTP/1.1 200 OK"; the blank behind the number may be absent. */
static void take_status_line(struct http_reader *reader, const char *line, size_t len)
{
	int version = len < 12 ? -1 : parse_version(line);
	if (version < 0 || line[8] != ' ' || !is_digit(line[9]) || !is_digit(line[10]) ||
		!is_digit(line[11]) || line[9] == '0' || (len > 12 && line[12] != ' ') ||
		(reader->kind == HTTP_ANSWER && !http_is_field_text(line, len))) {
		refuse(reader, 502, "its first line is not a status line");
		return;
	}
	int status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
	reader->http_1_0 = version == 0;
	reader->is_interim = status < 200;
	reader->status = reader->is_interim ? 0 : status;
	if (status == 101) {
		refuse(reader, 502, "it switches to another protocol without a request");
		return;
	}
	reader->state = HTTP_READER_FIELDS;
	reader->line_bytes = 0;
}

static void take_start(struct http_reader *reader, const char *line, size_t len)
{
	if (reader->kind != HTTP_REQUEST) {
		take_status_line(reader, line, len);
	} else if (len > 0) {
		take_request_line(reader, line, len);
	} else if ((reader->line_bytes += 2) > EMPTY_LINES_BYTES) {
		refuse(reader, 400, "empty lines in place of a request");
	}
}

/* ---- the fields ---- */

static void take_known(
	struct http_reader *reader, enum http_field field, const char *value, size_t len)
{
	uint16_t *place = &reader->fields[field];
	if (*place && known[field].rule == ONCE) {
		refuse(reader, 400, "a field that may come once came twice");
	} else if (!*place || known[field].rule == LIST) {
		size_t kept = keep(reader, value, len);
		if (*place && reader->state != HTTP_READER_FAILED) {
			kept = join(reader, *place - 1U, kept);
		}
		if (reader->state != HTTP_READER_FAILED) {
			*place = (uint16_t)(kept + 1);
		}
	}
}

/*
 * `line` consists of characters of a token: the bit of lower case makes no other one a letter or a
 * hyphen.
 */
static bool is_named(const char *line, const char *name, size_t len)
{
	size_t i = 0;
	while (i < len && (line[i] | 0x20) == name[i]) {
		i++;
	}
	return i == len;
}

static void take_field(struct http_reader *reader, const char *line, size_t len)
{
	bool foreign = reader->kind == HTTP_FOREIGN_ANSWER;
	if (foreign && (*line == ' ' || *line == '\t')) {
		return; /* a folded line: no field that the reader keeps is that long */
	}
	size_t name_len = http_token_len(line, len);
	if (name_len == 0 || name_len == len || line[name_len] != ':') {
		refuse(reader, 400, "a line of its head is not a field");
		return;
	}
	const char *value = line + name_len + 1;
	size_t value_len = len - name_len - 1;
	if (!foreign && !http_is_field_text(value, value_len)) {
		refuse(reader, 400, "a field of its head holds a control character");
		return;
	}
	http_trim(&value, &value_len);
	for (size_t i = 0; i < HTTP_FIELDS; i++) {
		if (known[i].len == name_len && is_named(line, known[i].name, name_len)) {
			take_known(reader, (enum http_field)i, value, value_len);
			return;
		}
	}
}

/* ---- the end of the head ---- */

/*
 * Digits alone. A length that no body can have counts as the largest one, which the receiver
 * refuses.
 */
static bool parse_length(const char *text, uint64_t *ret)
{
	uint64_t length = 0;
	bool good = *text != '\0';
	for (; good && *text; text++) {
		good = is_digit(*text);
		length = length > (INT64_MAX - 9) / 10 ? INT64_MAX
						       : length * 10 + (uint64_t)(*text - '0');
	}
	*ret = length;
	return good;
}

static enum http_event begin_chunks(struct http_reader *reader, const char *coding)
{
	if (reader->fields[HTTP_FIELD_CONTENT_LENGTH] || reader->http_1_0) {
		return refuse(reader, 400, "a Transfer-Encoding with a length, or in HTTP/1.0");
	}
	if (strcasecmp(coding, "chunked") != 0) {
		return *coding ? refuse(reader, 501, "its Transfer-Encoding is not chunked")
			       : refuse(reader, 400, "its Transfer-Encoding is empty");
	}
	reader->state = HTTP_READER_CHUNK_SIZE;
	reader->line_bytes = 0;
	return HTTP_EVENT_HEAD;
}

static enum http_event begin_body(struct http_reader *reader)
{
	const char *coding = http_reader_field(reader, HTTP_FIELD_TRANSFER_ENCODING);
	const char *length = http_reader_field(reader, HTTP_FIELD_CONTENT_LENGTH);
	bool bodiless = reader->bodiless || reader->status == 204 || reader->status == 304;
	reader->state = HTTP_READER_LENGTH;
	if (length && !parse_length(length, &reader->left)) {
		return refuse(reader, 400, "its Content-Length is not a number");
	}
	if (bodiless) {
		reader->left = 0;
	} else if (coding) {
		return begin_chunks(reader, coding);
	} else if (!length && reader->kind == HTTP_ANSWER) {
		return refuse(reader, 502, "it has neither Content-Length nor chunks");
	} else if (!length && reader->kind == HTTP_FOREIGN_ANSWER) {
		reader->state = HTTP_READER_UNTIL_CLOSE;
		reader->keep_alive = false;
	}
	return HTTP_EVENT_HEAD;
}

static bool may_go_on(const struct http_reader *reader)
{
	const char *connection = http_reader_field(reader, HTTP_FIELD_CONNECTION);
	if (!connection) {
		return !reader->http_1_0;
	}
	return (!reader->http_1_0 || http_has_token(connection, "keep-alive")) &&
		!http_has_token(connection, "close");
}

/* The final answer keeps little of the interim one before it. */
static enum http_event begin_next_head(struct http_reader *reader)
{
	bool bodiless = reader->bodiless;
	unsigned interim = reader->interim + 1;
	http_reader_restart(reader);
	reader->bodiless = bodiless;
	reader->interim = interim;
	return interim > INTERIM_ANSWERS ? refuse(reader, 502, "it has too many interim answers")
					 : HTTP_EVENT_MORE;
}

static enum http_event end_head(struct http_reader *reader)
{
	const char *host = http_reader_field(reader, HTTP_FIELD_HOST);
	if (reader->is_interim) {
		return begin_next_head(reader);
	}
	if (reader->kind == HTTP_REQUEST &&
		(host ? !http_is_authority(host, strlen(host), true) : !reader->http_1_0)) {
		return refuse(reader, 400, host ? "its Host is malformed" : "it has no Host");
	}
	reader->keep_alive = may_go_on(reader);
	return begin_body(reader);
}

/* ---- chunks ---- */

static void take_chunk_size(struct http_reader *reader, const char *line, size_t len)
{
	size_t digits = 0;
	uint64_t size = 0;
	while (digits < len && digits <= CHUNK_DIGITS && hex_digit(line[digits]) >= 0) {
		size = size * 16 + (uint64_t)hex_digit(line[digits++]);
	}
	const char *extension = line + digits;
	size_t extension_len = len - digits;
	reader->line_bytes += extension_len;
	bool good = digits > 0 && digits <= CHUNK_DIGITS &&
		http_is_field_text(extension, extension_len);
	http_trim(&extension, &extension_len);
	if (!good || (extension_len > 0 ? *extension != ';' : len > digits)) {
		refuse(reader, 400, "a chunk without a size");
	} else if (reader->line_bytes > CHUNK_EXTENSION_BYTES) {
		refuse(reader, 400, "its chunks carry too much besides the body");
	} else {
		reader->left = size;
		reader->state = size ? HTTP_READER_CHUNK : HTTP_READER_TRAILERS;
		reader->line_bytes = size ? reader->line_bytes : 0;
	}
}

static void take_trailer(struct http_reader *reader, const char *line, size_t len)
{
	size_t name_len = http_token_len(line, len);
	if (name_len == 0 || name_len == len || line[name_len] != ':' ||
		!http_is_field_text(line, len)) {
		refuse(reader, 400, "a line of its trailers is not a field");
	}
}

/* ---- lines ---- */

static enum http_event take_line(struct http_reader *reader, const char *line, size_t len)
{
	switch (reader->state) {
	case HTTP_READER_START:
		take_start(reader, line, len);
		break;
	case HTTP_READER_FIELDS:
		if (len == 0) {
			return end_head(reader);
		}
		take_field(reader, line, len);
		break;
	case HTTP_READER_CHUNK_SIZE:
		take_chunk_size(reader, line, len);
		break;
	case HTTP_READER_CHUNK_END:
		reader->state = HTTP_READER_CHUNK_SIZE;
		break;
	default: /* the trailers */
		if (len == 0) {
			reader->state = HTTP_READER_DONE;
			return HTTP_EVENT_END;
		}
		take_trailer(reader, line, len);
	}
	return reader->state == HTTP_READER_FAILED ? HTTP_EVENT_REFUSED : HTTP_EVENT_MORE;
}

/* How long the line may be, with its end; the status that answers a longer one, and why. */
static size_t line_limit(const struct http_reader *reader, int *ret_status, const char **ret_why)
{
	bool is_request = reader->kind == HTTP_REQUEST;
	*ret_status = 431;
	switch (reader->state) {
	case HTTP_READER_START:
		*ret_status = 414;
		*ret_why = "its first line is too long";
		return START_LINE_BYTES;
	case HTTP_READER_FIELDS:
		*ret_why = is_request ? "its header fields have more than 8 KiB"
				      : "its header fields have more than 16 KiB";
		return (is_request ? HTTP_REQUEST_FIELD_BYTES : HTTP_ANSWER_FIELD_BYTES) -
			reader->line_bytes;
	case HTTP_READER_TRAILERS:
		*ret_why = "its trailers have more than 4 KiB";
		return TRAILER_BYTES - reader->line_bytes;
	default:
		*ret_status = 400;
		*ret_why = "a line of its chunks is too long";
		return reader->state == HTTP_READER_CHUNK_END ? 2 : CHUNK_LINE_BYTES;
	}
}

/* Collects the next piece of a line. MORE: it is not complete, or it was taken without an event. */
static enum http_event next_line(struct http_reader *reader, const char **at, const char *end)
{
	struct buffer *text = &reader->text;
	const char *newline = memchr(*at, '\n', (size_t)(end - *at));
	size_t piece = newline ? (size_t)(newline - *at) + 1 : (size_t)(end - *at);
	const char *line = *at;
	size_t len = piece;
	int status;
	const char *why;
	size_t limit = line_limit(reader, &status, &why);
	size_t collected = text->len - reader->line;
	*at += piece;
	if (collected + piece + !newline > limit) {
		return refuse(reader, status, why);
	}
	if (collected || !newline) {
		if (buffer_append(text, line, piece) != 0) {
			return refuse(reader, 500, "no memory");
		}
		line = text->data + reader->line;
		len = text->len - reader->line;
	}
	if (!newline) {
		return HTTP_EVENT_MORE;
	}
	bool crlf = len > 1 && line[len - 2] == '\r';
	if (!crlf &&
		(reader->kind != HTTP_FOREIGN_ANSWER || reader->state == HTTP_READER_CHUNK_END)) {
		return refuse(reader, 400, "a line of it does not end with CR and LF");
	}
	if (reader->state == HTTP_READER_FIELDS || reader->state == HTTP_READER_TRAILERS) {
		reader->line_bytes += len;
	}
	enum http_event event = take_line(reader, line, len - 1 - crlf);
	/* The rest of the line is dropped. */
	if (text->len > reader->line) {
		text->len = reader->line;
	}
	return event;
}

/* ---- the body ---- */

static enum http_event next_piece(struct http_reader *reader, const char **at, const char *end)
{
	size_t len = (size_t)(end - *at);
	if (reader->state != HTTP_READER_UNTIL_CLOSE) {
		len = len < reader->left ? len : (size_t)reader->left;
		reader->left -= len;
	}
	reader->body = *at;
	reader->body_len = len;
	*at += len;
	if (reader->state == HTTP_READER_CHUNK && reader->left == 0) {
		reader->state = HTTP_READER_CHUNK_END;
	}
	return HTTP_EVENT_BODY;
}

enum http_event http_reader_next(struct http_reader *reader, const char **at, const char *end)
{
	for (;;) {
		switch (reader->state) {
		case HTTP_READER_FAILED:
			return HTTP_EVENT_REFUSED;
		case HTTP_READER_DONE:
			return HTTP_EVENT_END;
		case HTTP_READER_LENGTH:
			if (reader->left == 0) {
				reader->state = HTTP_READER_DONE;
				return HTTP_EVENT_END;
			}
			/* fall through */
		case HTTP_READER_CHUNK:
		case HTTP_READER_UNTIL_CLOSE:
			return *at < end ? next_piece(reader, at, end) : HTTP_EVENT_MORE;
		default:
			break;
		}
		enum http_event event = *at < end ? next_line(reader, at, end) : HTTP_EVENT_MORE;
		if (event != HTTP_EVENT_MORE || *at == end) {
			return event;
		}
	}
}

/* ---- whole answers ---- */

int http_reader_feed(struct http_reader *reader, const char *data, size_t len, struct buffer *body,
	size_t *ret_used, struct err *err)
{
	const char *at = data;
	enum http_event event = HTTP_EVENT_HEAD;
	while (event == HTTP_EVENT_HEAD || event == HTTP_EVENT_BODY) {
		event = http_reader_next(reader, &at, data + len);
		if (event == HTTP_EVENT_BODY &&
			buffer_append(body, reader->body, reader->body_len) != 0) {
			event = refuse(reader, 413, "its body is too long");
		}
	}
	*ret_used = (size_t)(at - data);
	if (event != HTTP_EVENT_REFUSED) {
		return 0;
	}
	bool too_long = reader->refusal == 413 || reader->refusal == 414 || reader->refusal == 431;
	return err_set(err, too_long ? BERTH_LIMIT_EXCEEDED : BERTH_FAILED, "no HTTP answer: %s",
		reader->why);
}
