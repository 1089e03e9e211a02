/*
 * The reader gives the same events for any way to cut a message into pieces. A careless reader sees
 * the same request in the bytes of an accepted one, in each of several ways to be careless: the
 * reader must refuse bytes that two readers could see differently.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/http/reader.h"

enum { BODY_BYTES = 64 * 1024 }; /* more than any input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct reading {
	enum http_event last;
	int status;
	int refusal;
	bool keep_alive;
	size_t used;
	uint64_t fields; /* which are there */
	struct buffer body;
};

static struct reading read_in_pieces(enum http_kind kind, const char *data, size_t len, size_t step)
{
	struct reading reading = { .last = HTTP_EVENT_MORE };
	struct http_reader reader;
	http_reader_init(&reader, kind);
	buffer_init(&reading.body, BODY_BYTES);
	const char *at = data;
	while (at < data + len && reading.last == HTTP_EVENT_MORE) {
		const char *end = (size_t)(data + len - at) < step ? data + len : at + step;
		do {
			const char *before = at;
			reading.last = http_reader_next(&reader, &at, end);
			assert(at >= before && at <= end);
			if (reading.last == HTTP_EVENT_BODY) {
				assert(reader.body >= before &&
					reader.body + reader.body_len == at);
				buffer_append(&reading.body, reader.body, reader.body_len);
			}
		} while (reading.last == HTTP_EVENT_HEAD || reading.last == HTTP_EVENT_BODY);
	}
	reading.status = reader.status;
	reading.refusal = reader.refusal;
	reading.keep_alive = reader.keep_alive;
	reading.used = (size_t)(at - data);
	for (int i = 0; i < HTTP_FIELDS; i++) {
		reading.fields |= (uint64_t)(http_reader_field(&reader, i) != NULL) << i;
	}
	assert(reader.text.len <= reader.text.max);
	http_reader_finish(&reader);
	return reading;
}

static struct reading read_all_ways(enum http_kind kind, const char *data, size_t len)
{
	struct reading whole = read_in_pieces(kind, data, len, len ? len : 1);
	for (size_t step = 1; step <= 7; step += 3) {
		struct reading pieces = read_in_pieces(kind, data, len, step);
		assert(pieces.last == whole.last && pieces.refusal == whole.refusal);
		assert(pieces.status == whole.status && pieces.keep_alive == whole.keep_alive);
		assert(pieces.last == HTTP_EVENT_REFUSED || pieces.fields == whole.fields);
		assert(pieces.last == HTTP_EVENT_REFUSED || pieces.used == whole.used);
		assert(pieces.body.len == whole.body.len &&
			memcmp(buffer_text(&pieces.body), buffer_text(&whole.body),
				whole.body.len) == 0);
		buffer_finish(&pieces.body);
	}
	return whole;
}

/*
 * ---- the careless readers: lines end with LF or with CR, blanks do not matter, the first or the
 * last field counts ----
 */

struct manner {
	char line_end;
	bool last_counts;
	bool length_wins;
};

static const char *next_line(const char *at, const char *end, char line_end, size_t *ret_len)
{
	const char *stop = memchr(at, line_end, (size_t)(end - at));
	*ret_len = (size_t)((stop ? stop : end) - at);
	while (*ret_len > 0 && strchr("\r\n", at[*ret_len - 1])) {
		(*ret_len)--;
	}
	const char *next = stop ? stop + 1 : end;
	return next < end && line_end == '\r' && *next == '\n' ? next + 1 : next;
}

static bool is_named(const char *line, size_t len, const char *name, const char **ret_value)
{
	const char *colon = memchr(line, ':', len);
	size_t name_len = colon ? (size_t)(colon - line) : 0;
	while (name_len > 0 && (line[name_len - 1] == ' ' || line[name_len - 1] == '\t')) {
		name_len--;
	}
	while (name_len > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		name_len--;
	}
	*ret_value = colon ? colon + 1 : NULL;
	return name_len == strlen(name) && strncasecmp(line, name, name_len) == 0;
}

static const char *skip_chunks(const char *at, const char *end, char line_end)
{
	size_t len;
	for (;;) {
		unsigned long size = strtoul(at, NULL, 16);
		at = next_line(at, end, line_end, &len);
		if (size == 0) {
			break;
		}
		at = next_line(at + size, end, line_end, &len);
	}
	do {
		at = next_line(at, end, line_end, &len);
	} while (len > 0);
	return at;
}

/* How long the request is that the strict reader took. */
static size_t read_carelessly(const char *data, size_t len, const struct manner *manner)
{
	const char *end = data + len;
	const char *at = data;
	const char *length = NULL;
	const char *coding = NULL;
	size_t line_len;
	do { /* empty lines, and the request line */
		at = next_line(at, end, manner->line_end, &line_len);
	} while (line_len == 0);
	for (;;) {
		const char *line = at;
		const char *value;
		at = next_line(at, end, manner->line_end, &line_len);
		if (line_len == 0) {
			break;
		}
		if (is_named(line, line_len, "Content-Length", &value)) {
			length = manner->last_counts || !length ? value : length;
		} else if (is_named(line, line_len, "Transfer-Encoding", &value)) {
			coding = manner->last_counts || !coding ? value : coding;
		}
	}
	bool counts = length && (manner->length_wins || !coding);
	const char *stop = counts ? at + strtoull(length, NULL, 10)
		: coding          ? skip_chunks(at, end, manner->line_end)
				  : at;
	return (size_t)(stop - data);
}

static void check_pair(const char *data, size_t len)
{
	for (int i = 0; i < 8; i++) {
		struct manner manner = { i & 1 ? '\r' : '\n', i & 2, i & 4 };
		assert(read_carelessly(data, len, &manner) == len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const enum http_kind kinds[] = { HTTP_REQUEST, HTTP_ANSWER, HTTP_FOREIGN_ANSWER };
	char *text = malloc(len + 1);
	if (!text) {
		return 0;
	}
	memcpy(text, data, len);
	text[len] = '\0';
	for (int i = 0; i < 3; i++) {
		struct reading reading = read_all_ways(kinds[i], text, len);
		if (kinds[i] == HTTP_REQUEST && reading.last == HTTP_EVENT_END) {
			check_pair(text, reading.used);
		}
		buffer_finish(&reading.body);
	}
	free(text);
	return 0;
}
