/* Messages as text, and the events of a reader as text. */
#ifndef TESTS_UNIT_LIB_HTTP_READING_H
#define TESTS_UNIT_LIB_HTTP_READING_H

#include <criterion/criterion.h>

#include "lib/http/reader.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST /x HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\n"

/* The events for some bytes, as text: "HEAD POST /x + BODY abc END", or "REFUSED 400". */
static inline void describe(
	struct http_reader *reader, const char *bytes, size_t len, size_t step, struct buffer *out)
{
	enum http_event event = HTTP_EVENT_MORE;
	bool in_body = false;
	for (size_t begin = 0; begin < len && event != HTTP_EVENT_REFUSED; begin += step) {
		const char *at = bytes + begin;
		const char *end = len - begin < step ? bytes + len : at + step;
		do {
			event = http_reader_next(reader, &at, end);
			if (event == HTTP_EVENT_HEAD && reader->kind == HTTP_REQUEST) {
				buffer_printf(out, "HEAD %s %s", http_reader_method(reader),
					http_reader_target(reader));
				buffer_printf(out, *http_reader_query(reader) ? "?%s " : " ",
					http_reader_query(reader));
			} else if (event == HTTP_EVENT_HEAD) {
				buffer_printf(out, "HEAD %d ", reader->status);
			} else if (event == HTTP_EVENT_BODY) {
				buffer_append_text(out, in_body ? "" : "BODY ");
				buffer_append(out, reader->body, reader->body_len);
			} else if (event == HTTP_EVENT_END) {
				buffer_printf(out, "%sEND%s ", in_body ? " " : "",
					reader->keep_alive ? "" : " close");
				http_reader_restart(reader);
			} else if (event == HTTP_EVENT_REFUSED) {
				buffer_printf(
					out, "%sREFUSED %d ", in_body ? " " : "", reader->refusal);
				cr_assert_not_null(reader->why);
			}
			in_body = event == HTTP_EVENT_BODY || (in_body && event == HTTP_EVENT_MORE);
		} while (event != HTTP_EVENT_MORE && event != HTTP_EVENT_REFUSED);
	}
}

static inline void repeat(struct buffer *text, const char *what, size_t times)
{
	for (size_t i = 0; i < times; i++) {
		buffer_append_text(text, what);
	}
}

#endif
