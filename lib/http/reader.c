#include "lib/http/reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LINE_BYTES = 1024, TRAILER_BYTES = 4096, CHUNK_DIGITS = 15, LENGTH_DIGITS = 18 };

void http_reader_init(struct http_reader *reader)
{
	*reader = (struct http_reader){ .state = HTTP_READER_HEAD };
	buffer_init(&reader->head, HTTP_READER_HEAD_BYTES);
	buffer_init(&reader->line, LINE_BYTES);
}

void http_reader_finish(struct http_reader *reader)
{
	buffer_finish(&reader->head);
	buffer_finish(&reader->line);
}

void http_reader_restart(struct http_reader *reader)
{
	reader->state = HTTP_READER_HEAD;
	reader->status = 0;
	reader->keep_alive = false;
	reader->left = 0;
	reader->trailers = 0;
	buffer_clear(&reader->head);
	buffer_clear(&reader->line);
}

static int malformed(struct http_reader *reader, struct err *err, const char *what)
{
	reader->state = HTTP_READER_FAILED;
	return err_set(err, BERTH_FAILED, "no HTTP answer: %s", what);
}

static int too_long(struct http_reader *reader, struct err *err, const char *what)
{
	reader->state = HTTP_READER_FAILED;
	return err_set(err, BERTH_LIMIT_EXCEEDED, "the HTTP answer is too long: %s", what);
}

/* ---- the head --------------------------------------------------------------------------------- */

/* One line of the head without its end, and where the next one starts; false behind the last. */
static bool next_line(const char **cursor, const char **ret_line, size_t *ret_len)
{
	const char *end = strchr(*cursor, '\n');
	if (!end) {
		return false;
	}
	size_t len = (size_t)(end - *cursor);
	if (len && (*cursor)[len - 1] == '\r') {
		len--;
	}
	*ret_line = *cursor;
	*ret_len = len;
	*cursor = end + 1;
	return len > 0;
}

static bool token_byte(char byte)
{
	return isalnum((unsigned char)byte) || (byte && strchr("!#$%&'*+-.^_`|~", byte));
}

/* The value of "name: value" when the line's name is `name`. */
static bool header_value(
	const char *line, size_t len, const char *name, const char **ret_value, size_t *ret_len)
{
	size_t name_len = strlen(name);
	if (len <= name_len || line[name_len] != ':' || strncasecmp(line, name, name_len) != 0) {
		return false;
	}
	const char *value = line + name_len + 1;
	const char *end = line + len;
	while (value < end && (*value == ' ' || *value == '\t')) {
		value++;
	}
	while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
		end--;
	}
	*ret_value = value;
	*ret_len = (size_t)(end - value);
	return true;
}

/* Finds a header; returns how many of that name there are. */
static size_t find_header(
	const struct http_reader *reader, const char *name, const char **ret_value, size_t *ret_len)
{
	size_t found = 0;
	const char *cursor = buffer_text(&reader->head);
	const char *line;
	const char *value;
	size_t len;
	size_t value_len;
	next_line(&cursor, &line, &len); /* the status line */
	while (next_line(&cursor, &line, &len)) {
		if (header_value(line, len, name, &value, &value_len) && found++ == 0) {
			*ret_value = value;
			*ret_len = value_len;
		}
	}
	return found;
}

bool http_reader_header(const struct http_reader *reader, const char *name, char *out, size_t size)
{
	const char *value = "";
	size_t len = 0;
	bool found = http_reader_has_head(reader) && find_header(reader, name, &value, &len) > 0;
	if (len >= size) {
		len = size - 1;
	}
	memcpy(out, value, len);
	out[len] = '\0';
	return found;
}

bool http_reader_has_head(const struct http_reader *reader)
{
	return reader->status != 0;
}

/* "HTTP/1.1 200 OK"; returns the status, 0 for anything else. */
static int parse_status(const char *line, size_t len)
{
	if (len < 12 || strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
		line[8] != ' ' || (len > 12 && line[12] != ' ')) {
		return 0;
	}
	int status = 0;
	for (size_t i = 9; i < 12; i++) {
		if (!isdigit((unsigned char)line[i])) {
			return 0;
		}
		status = status * 10 + (line[i] - '0');
	}
	return status >= 100 ? status : 0;
}

static bool parse_number(const char *text, size_t len, int base, size_t max_digits, uint64_t *ret)
{
	char digits[LENGTH_DIGITS + 1];
	if (len == 0 || len > max_digits) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)text[i];
		if (!(base == 16 ? isxdigit(byte) : isdigit(byte))) {
			return false;
		}
		digits[i] = text[i];
	}
	digits[len] = '\0';
	*ret = strtoull(digits, NULL, base);
	return true;
}

static bool header_lines_good(const char *cursor)
{
	const char *line;
	size_t len;
	while (next_line(&cursor, &line, &len)) {
		size_t name = 0;
		while (name < len && token_byte(line[name])) {
			name++;
		}
		if (name == 0 || name == len || line[name] != ':') {
			return false;
		}
	}
	return true;
}

static bool wants_close(const struct http_reader *reader, const char *status_line)
{
	char connection[64];
	http_reader_header(reader, "Connection", connection, sizeof(connection));
	return strcasecmp(connection, "close") == 0 ||
		(status_line[7] == '0' && strcasecmp(connection, "keep-alive") != 0);
}

/* The head is complete: what comes next? */
static int begin_body(struct http_reader *reader, struct err *err)
{
	const char *value = NULL;
	size_t len = 0;
	size_t encodings = find_header(reader, "Transfer-Encoding", &value, &len);
	bool chunked = encodings == 1 && len == 7 && strncasecmp(value, "chunked", 7) == 0;
	if (encodings && !chunked) {
		return malformed(reader, err, "its Transfer-Encoding is not chunked");
	}
	size_t lengths = find_header(reader, "Content-Length", &value, &len);
	if (lengths > 1 || (lengths && chunked)) {
		return malformed(reader, err, "it says its length more than once");
	}
	if (lengths && !parse_number(value, len, 10, LENGTH_DIGITS, &reader->left)) {
		return malformed(reader, err, "its Content-Length is no number");
	}
	if (reader->status == 204 || reader->status == 304) {
		reader->state = HTTP_READER_DONE;
	} else if (chunked) {
		reader->state = HTTP_READER_CHUNK_SIZE;
	} else if (lengths) {
		reader->state = reader->left ? HTTP_READER_LENGTH : HTTP_READER_DONE;
	} else {
		return malformed(reader, err, "it has neither Content-Length nor chunks");
	}
	return 0;
}

static int end_head(struct http_reader *reader, struct err *err)
{
	const char *text = buffer_text(&reader->head);
	if (strlen(text) != reader->head.len) {
		return malformed(reader, err, "a NUL byte in its head");
	}
	const char *cursor = text;
	const char *line;
	size_t len;
	int status = next_line(&cursor, &line, &len) ? parse_status(line, len) : 0;
	if (!status) {
		return malformed(reader, err, "its first line is no status line");
	}
	if (!header_lines_good(cursor)) {
		return malformed(reader, err, "a line of its head is no header");
	}
	if (status < 200) {
		/* An interim answer: the real one follows. */
		buffer_clear(&reader->head);
		return 0;
	}
	reader->status = status;
	reader->keep_alive = !wants_close(reader, text);
	return begin_body(reader, err);
}

/* True when `buffer` ends with an empty line. */
static bool ends_empty(const struct buffer *buffer)
{
	const char *end = buffer_text(buffer) + buffer->len;
	size_t len = buffer->len;
	return (len >= 2 && memcmp(end - 2, "\n\n", 2) == 0) ||
		(len >= 3 && memcmp(end - 3, "\n\r\n", 3) == 0);
}

/* Appends up to and including the end of a line; returns the bytes taken. */
static size_t take_line(struct buffer *line, const char *data, size_t len, bool *ret_complete)
{
	const char *end = memchr(data, '\n', len);
	size_t take = end ? (size_t)(end - data) + 1 : len;
	buffer_append(line, data, take);
	*ret_complete = end != NULL;
	return take;
}

static size_t feed_head(struct http_reader *reader, const char *data, size_t len, struct err *err)
{
	bool complete;
	size_t take = take_line(&reader->head, data, len, &complete);
	if (reader->head.failed) {
		too_long(reader, err, "its head");
	} else if (complete && (ends_empty(&reader->head) || reader->head.len <= 2)) {
		end_head(reader, err);
	}
	return take;
}

/* ---- the body --------------------------------------------------------------------------------- */

static size_t feed_body(struct http_reader *reader, const char *data, size_t len,
	struct buffer *body, struct err *err)
{
	size_t take = len < reader->left ? len : (size_t)reader->left;
	if (buffer_append(body, data, take) != 0) {
		too_long(reader, err, "its body");
		return take;
	}
	reader->left -= take;
	if (reader->left == 0) {
		reader->state = reader->state == HTTP_READER_LENGTH ? HTTP_READER_DONE
								    : HTTP_READER_CHUNK_END;
	}
	return take;
}

/* The length of the line that was collected, without its end. */
static size_t line_len(const struct buffer *line)
{
	size_t len = line->len - 1;
	return len && line->data[len - 1] == '\r' ? len - 1 : len;
}

static void end_chunk_size(struct http_reader *reader, struct err *err)
{
	const char *text = buffer_text(&reader->line);
	size_t len = line_len(&reader->line);
	size_t digits = 0;
	while (digits < len && isxdigit((unsigned char)text[digits])) {
		digits++;
	}
	bool extension = digits < len && (text[digits] == ';' || text[digits] == ' ');
	if ((digits < len && !extension) ||
		!parse_number(text, digits, 16, CHUNK_DIGITS, &reader->left)) {
		malformed(reader, err, "a chunk without a size");
		return;
	}
	reader->state = reader->left ? HTTP_READER_CHUNK : HTTP_READER_TRAILER;
}

static void end_line(struct http_reader *reader, struct err *err)
{
	size_t len = line_len(&reader->line);
	switch (reader->state) {
	case HTTP_READER_CHUNK_SIZE:
		end_chunk_size(reader, err);
		break;
	case HTTP_READER_CHUNK_END:
		if (len) {
			malformed(reader, err, "a chunk longer than its size");
		} else {
			reader->state = HTTP_READER_CHUNK_SIZE;
		}
		break;
	default: /* a trailer */
		reader->trailers += len;
		if (len == 0) {
			reader->state = HTTP_READER_DONE;
		} else if (reader->trailers > TRAILER_BYTES) {
			too_long(reader, err, "its trailers");
		}
	}
	buffer_clear(&reader->line);
}

static size_t feed_line(struct http_reader *reader, const char *data, size_t len, struct err *err)
{
	bool complete;
	size_t take = take_line(&reader->line, data, len, &complete);
	if (reader->line.failed) {
		too_long(reader, err, "a line between its chunks");
	} else if (complete) {
		end_line(reader, err);
	}
	return take;
}

int http_reader_feed(struct http_reader *reader, const char *data, size_t len, struct buffer *body,
	size_t *ret_used, struct err *err)
{
	struct err local = ERR_INIT;
	struct err *told = err ? err : &local;
	size_t used = 0;
	while (used < len && reader->state != HTTP_READER_DONE &&
		reader->state != HTTP_READER_FAILED) {
		const char *rest = data + used;
		size_t rest_len = len - used;
		switch (reader->state) {
		case HTTP_READER_HEAD:
			used += feed_head(reader, rest, rest_len, told);
			break;
		case HTTP_READER_LENGTH:
		case HTTP_READER_CHUNK:
			used += feed_body(reader, rest, rest_len, body, told);
			break;
		default:
			used += feed_line(reader, rest, rest_len, told);
		}
	}
	*ret_used = used;
	if (reader->state == HTTP_READER_FAILED) {
		return err_set(told, BERTH_FAILED, "no HTTP answer");
	}
	return 0;
}
