/* The bounds of what a reader keeps of a message, and what it does without memory. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "tests/unit/lib/http/reading.h"

static int events_of_filled(const char *begin, size_t fill, const char *end, enum http_kind kind)
{
	struct http_reader reader;
	struct buffer text;
	struct buffer events;
	http_reader_init(&reader, kind);
	buffer_init(&text, 1 << 20);
	buffer_init(&events, 1 << 20);
	buffer_append_text(&text, begin);
	for (size_t i = 0; i < fill; i++) {
		buffer_append_text(&text, "x");
	}
	buffer_append_text(&text, end);
	describe(&reader, text.data, text.len, 777, &events);
	int status = reader.refusal;
	buffer_finish(&events);
	buffer_finish(&text);
	http_reader_finish(&reader);
	return status;
}

Test(http_reader, bounds_every_line)
{
	static const struct {
		const char *begin;
		size_t fill;
		const char *end;
		int status;
	} lines[] = {
		{ "GET /", HTTP_TARGET_BYTES - 1, " HTTP/1.1\r\nHost: a\r\n\r\n", 0 },
		{ "GET /", HTTP_TARGET_BYTES, " HTTP/1.1\r\nHost: a\r\n\r\n", 414 },
		{ "GET /", 100000, "", 414 },
		{ "", 100000, "", 414 },
		{ GET "X: ", HTTP_REQUEST_FIELD_BYTES - 9 - 7, "\r\n\r\n", 0 },
		{ GET "X: ", HTTP_REQUEST_FIELD_BYTES - 9 - 6, "\r\n\r\n", 431 },
		{ GET "Accept: ", 4000, "\r\nAccept: b\r\n\r\n", 0 },
		{ GET, 100000, "", 431 },
		{ CHUNKED "1;", 1024 - 4, "\r\n", 0 },
		{ CHUNKED "1;", 1024 - 3, "\r\n", 400 },
		{ CHUNKED "0\r\nX: ", 4096 - 5 - 2, "\r\n\r\n", 0 },
		{ CHUNKED "0\r\nX: ", 4096 - 5 - 1, "\r\n\r\n", 431 },
		{ CHUNKED "0\r\nX: ", 4096 - 5 + 1, "\r\n\r\n", 431 },
	};
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		cr_expect_eq(
			events_of_filled(lines[i].begin, lines[i].fill, lines[i].end, HTTP_REQUEST),
			lines[i].status, "%zu", i);
	}
	const char *end = "\r\nContent-Length: 0\r\n\r\n";
	cr_expect_eq(events_of_filled(OK "X: ", HTTP_ANSWER_FIELD_BYTES / 2, end, HTTP_ANSWER), 0);
	cr_expect_eq(events_of_filled(OK "X: ", HTTP_ANSWER_FIELD_BYTES, end, HTTP_ANSWER), 431);
}

Test(http_reader, many_small_pieces_do_not_add_up)
{
	struct http_reader reader;
	struct buffer text;
	struct buffer events;
	http_reader_init(&reader, HTTP_REQUEST);
	buffer_init(&text, 1 << 20);
	buffer_init(&events, 1 << 20);
	/* A list that is joined again and again. */
	buffer_append_text(&text, GET);
	repeat(&text, "Accept: aaaaaaaaaa\r\n", 400);
	buffer_append_text(&text, "\r\n");
	describe(&reader, text.data, text.len, text.len, &events);
	cr_assert_str_eq(buffer_text(&events), "REFUSED 431 ");
	cr_assert_leq(reader.text.size, 64 * 1024);
	http_reader_restart(&reader);
	/* Chunks that are mostly extension. */
	buffer_clear(&text);
	buffer_clear(&events);
	buffer_append_text(&text, CHUNKED);
	repeat(&text, "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n", 400);
	describe(&reader, text.data, text.len, text.len, &events);
	cr_assert_eq(reader.refusal, 400);
	buffer_finish(&events);
	buffer_finish(&text);
	http_reader_finish(&reader);
}

/* The refusal of a message whose chunks have extensions of so many bytes together. */
static int refusal_of_extensions(size_t bytes)
{
	enum { LONGEST = 1000 };
	struct http_reader reader;
	struct buffer text;
	struct buffer events;
	http_reader_init(&reader, HTTP_REQUEST);
	buffer_init(&text, 1 << 20);
	buffer_init(&events, 1000);
	buffer_append_text(&text, CHUNKED);
	while (bytes > 0) {
		size_t part = bytes < LONGEST ? bytes : LONGEST;
		buffer_append_text(&text, "1;");
		repeat(&text, "x", part - 1);
		buffer_append_text(&text, "\r\nb\r\n");
		bytes -= part;
	}
	describe(&reader, text.data, text.len, text.len, &events);
	int refusal = reader.refusal;
	buffer_finish(&events);
	buffer_finish(&text);
	http_reader_finish(&reader);
	return refusal;
}

Test(http_reader, bounds_the_extensions_of_all_chunks_together)
{
	cr_expect_eq(refusal_of_extensions(16 * 1024), 0);
	cr_expect_eq(refusal_of_extensions(16 * 1024 + 1), 400);
}

/* All bytes of a head that may be kept, and one more. */
Test(http_reader, bounds_what_it_keeps)
{
	static const char *const list[] = { "Accept", "Prefer", "Expect", "If-Match" };
	for (size_t extra = 0; extra < 2; extra++) {
		struct http_reader reader;
		struct buffer text;
		http_reader_init(&reader, HTTP_ANSWER);
		buffer_init(&text, 1 << 20);
		buffer_append_text(&text, OK);
		for (size_t i = 0; i < 4; i++) {
			/* With its name, ": " and the line's end a quarter of the answer's room. */
			size_t len = HTTP_ANSWER_FIELD_BYTES / 4 - strlen(list[i]) - 4;
			len -= i == 3 ? strlen("Content-Length: 0\r\n\r\n") : 0;
			buffer_printf(&text, "%s: ", list[i]);
			repeat(&text, "x", len + (i == 3 ? extra : 0));
			buffer_append_text(&text, "\r\n");
		}
		buffer_append_text(&text, "Content-Length: 0\r\n\r\n");
		const char *at = text.data;
		cr_assert_eq(http_reader_next(&reader, &at, text.data + text.len),
			extra ? HTTP_EVENT_REFUSED : HTTP_EVENT_HEAD);
		buffer_finish(&text);
		http_reader_finish(&reader);
	}
}

/*
 * The refusal of an answer that has a list in two fields, and behind it an ETag unless it is empty.
 * Of the bytes that may be kept, the list leaves `room`.
 */
static int refusal_of_kept(int room, size_t etag_len)
{
	const int kept = HTTP_ANSWER_FIELD_BYTES + HTTP_TARGET_BYTES + 64;
	/* The length, the first part and both joined are kept, each with its end. */
	int parts = kept - room - 2 - 1 - (int)strlen(", w") - 1;
	struct http_reader reader;
	struct buffer text;
	struct buffer events;
	http_reader_init(&reader, HTTP_ANSWER);
	buffer_init(&text, 1 << 20);
	buffer_init(&events, 100);
	buffer_append_text(&text, OK "Content-Length: 0\r\nAccept: ");
	repeat(&text, "v", (size_t)parts / 2);
	buffer_append_text(&text, parts % 2 ? "\r\nAccept: ww\r\n" : "\r\nAccept: w\r\n");
	buffer_append_text(&text, etag_len ? "ETag: " : "");
	repeat(&text, "e", etag_len);
	buffer_append_text(&text, etag_len ? "\r\n\r\n" : "\r\n");
	describe(&reader, text.data, text.len, text.len, &events);
	int refusal = reader.refusal;
	buffer_finish(&events);
	buffer_finish(&text);
	http_reader_finish(&reader);
	return refusal;
}

Test(http_reader, bounds_what_it_keeps_of_lists_that_it_joins)
{
	cr_expect_eq(refusal_of_kept(0, 0), 0);
	cr_expect_eq(refusal_of_kept(-1, 0), 431);
	cr_expect_eq(refusal_of_kept(100, 99), 0);
	cr_expect_eq(refusal_of_kept(100, 100), 431);
}

static void check_too_long(const char *begin)
{
	static char text[128 * 1024];
	int start = snprintf(text, sizeof(text), "%s", begin);
	memset(text + start, 'x', sizeof(text) - (size_t)start);
	struct http_reader reader;
	struct buffer body;
	struct err err = ERR_INIT;
	size_t used;
	http_reader_init(&reader, HTTP_ANSWER);
	buffer_init(&body, 5);
	cr_assert_eq(http_reader_feed(&reader, text, sizeof(text), &body, &used, &err),
		BERTH_LIMIT_EXCEEDED);
	cr_assert(strstr(err.msg, "no HTTP answer: "), "%s", err.msg);
	buffer_finish(&body);
	http_reader_finish(&reader);
}

Test(http_reader, says_of_an_answer_that_a_field_or_its_first_line_is_too_long)
{
	check_too_long(OK "ETag: ");
	check_too_long("HTTP/1.1 200 ");
}

/* A list that is joined again and again, and a field behind it that does not fit any more. */
Test(http_reader, keeps_no_more_than_its_bound_of_lists_and_fields_together)
{
	bool refused = false;
	for (size_t times = 0; times < 100; times++) {
		struct http_reader reader;
		struct buffer text;
		http_reader_init(&reader, HTTP_ANSWER);
		buffer_init(&text, 1 << 20);
		buffer_append_text(&text, OK);
		repeat(&text, "Accept: aaaaaaaaaa\r\n", times);
		buffer_append_text(&text, "ETag: ");
		repeat(&text, "e", 8000);
		buffer_append_text(&text, "\r\nContent-Length: 0\r\n\r\n");
		const char *at = text.data;
		enum http_event event = http_reader_next(&reader, &at, text.data + text.len);
		cr_assert_eq(event, refused ? HTTP_EVENT_REFUSED : event, "%zu", times);
		cr_assert(event == HTTP_EVENT_HEAD || reader.refusal == 431, "%zu", times);
		refused = event == HTTP_EVENT_REFUSED;
		buffer_finish(&text);
		http_reader_finish(&reader);
	}
	cr_assert(refused);
}
