#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/http/reader.h"
#include "lib/http/target.h"
#include "tests/support/failing.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST /x HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\n"

/* The events for some bytes, as text: "HEAD POST /x + BODY abc END", or "REFUSED 400". */
static void describe(
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

struct reading {
	enum http_kind kind;
	const char *bytes;
	size_t len;
	const char *events;
};

#define READING(kind, bytes, events)                                                               \
	{                                                                                          \
		kind, bytes, sizeof(bytes) - 1, events                                             \
	}

/* However it is cut: into pieces of every length, so at every byte too. */
static void check(const struct reading *reading)
{
	for (size_t step = 1; step <= reading->len; step++) {
		struct http_reader reader;
		struct buffer events;
		http_reader_init(&reader, reading->kind);
		buffer_init(&events, 100000);
		describe(&reader, reading->bytes, reading->len, step, &events);
		cr_assert_str_eq(buffer_text(&events), reading->events, "%s in pieces of %zu",
			reading->bytes, step);
		buffer_finish(&events);
		http_reader_finish(&reader);
	}
}

#define CHECK_ALL(table)                                                                           \
	for (size_t i = 0; i < sizeof(table) / sizeof((table)[0]); i++) {                          \
		check(&(table)[i]);                                                                \
	}

static const struct reading requests[] = {
#define REQUEST(bytes, events) READING(HTTP_REQUEST, bytes, events)
	REQUEST(GET "\r\n", "HEAD GET / END "),
	REQUEST("\r\n\r\n\r\n\r\n" GET "\r\n", "HEAD GET / END "),
	REQUEST(GET "\r\n" GET "\r\n" POST "Content-Length: 2\r\n\r\nhi" GET "\r\n",
		"HEAD GET / END HEAD GET / END HEAD POST /x BODY hi END HEAD GET / END "),
	REQUEST(POST "Content-Length: 0\r\n\r\n", "HEAD POST /x END "),
	REQUEST(CHUNKED "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "HEAD POST /x BODY hello! END "),
	REQUEST(CHUNKED "0A ;x=\"y\"\r\n0123456789\r\n000\r\nX: y\r\n\r\n" GET "\r\n",
		"HEAD POST /x BODY 0123456789 END HEAD GET / END "),
	REQUEST(CHUNKED "1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n",
		"HEAD POST /x BODY abcdefghijklmnopqrstuvwxyz END "),
	REQUEST(POST "transfer-encoding: CHUNKED \r\n\r\n0\r\n\r\n", "HEAD POST /x END "),
	REQUEST("GET http://a.example:80/x?y HTTP/1.1\r\nHost:\r\n\r\n",
		"HEAD GET http://a.example:80/x?y END "),
	REQUEST("OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "HEAD OPTIONS * END "),
	REQUEST("GET / HTTP/1.1\r\nHost: a.example:9190\r\n\r\n", "HEAD GET / END "),
	REQUEST("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD CONNECT a:80 END "),
	REQUEST(GET "Connection: x, Close\r\n\r\n", "HEAD GET / END close "),
	REQUEST("G / HTTP/1.0\r\n\r\n", "HEAD G / END close "),
	REQUEST("GET / HTTP/1.0\r\n\r\n", "HEAD GET / END close "),
	REQUEST("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HEAD GET / END "),
	REQUEST("GET / HTTP/1.0\r\nConnection: x\r\n\r\n", "HEAD GET / END close "),
	REQUEST("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "HEAD GET / END close "),
	REQUEST("GET / HTTP/1.9\r\nHost: a\r\n\r\n", "HEAD GET / END "),
	REQUEST(CHUNKED "000000000000001\r\nx\r\n0\r\n\r\n", "HEAD POST /x BODY x END "),
	REQUEST("GET / HTTP/1.7\r\nHost: a\r\nX:\t\r\n\r\n", "HEAD GET / END "),
	REQUEST(POST "Content-Length: 99999999999999999999\r\n\r\n", "HEAD POST /x "),
#undef REQUEST
};

Test(http_reader, reads_requests_however_they_are_cut)
{
	CHECK_ALL(requests)
}

static const struct reading bad_requests[] = {
#define BAD(bytes, status) READING(HTTP_REQUEST, bytes, "REFUSED " #status " ")
	BAD("\r\n\r\n\r\n\r\n\r\n", 400),
	BAD("GET /\r\n", 400),
	BAD(" / HTTP/1.1\r\n", 400),
	BAD("GET / HTTP/1.1 \r\n", 400),
	BAD("GET  / HTTP/1.1\r\n", 400),
	BAD("GET /a b HTTP/1.1\r\n", 400),
	BAD("GET /\tb HTTP/1.1\r\n", 400),
	BAD("GET /\x7f HTTP/1.1\r\n", 400),
	BAD("GET /\xc3\xbc HTTP/1.1\r\n", 400),
	BAD("GET /#x HTTP/1.1\r\n", 400),
	BAD("GET * HTTP/1.1\r\n", 400),
	BAD("GET x HTTP/1.1\r\n", 400),
	BAD("GET http:///x HTTP/1.1\r\n", 400),
	BAD("GET http://u@h/ HTTP/1.1\r\n", 400),
	BAD("CONNECT / HTTP/1.1\r\n", 400),
	BAD("G(T / HTTP/1.1\r\n", 400),
	BAD("GET / http/1.1\r\n", 400),
	BAD("GET / HTTP/1.10\r\n", 400),
	BAD("GET / HTTP/1x1\r\n", 400),
	BAD("GET / HTTP/x.1\r\n", 400),
	BAD("GET / HTTP/1.x\r\n", 400),
	BAD("GET / HTTP/2.0\r\n", 505),
	BAD("GET / HTTP/1.1\n", 400),
	BAD("GET / HTTP/1.1\r\r\n", 400),
	BAD("GET /\0 HTTP/1.1\r\n", 400),
	BAD("GET / HTTP/1.1\r\n\r\n", 400),
	BAD("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n", 400),
	BAD("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
	BAD("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
	BAD("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
	BAD("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
	BAD("GET / HTTP/1.1\r\n Host: a\r\n", 400),
	BAD(GET " folded\r\n", 400),
	BAD(GET "X : y\r\n", 400),
	BAD(GET ": y\r\n", 400),
	BAD(GET "X\r\n", 400),
	BAD(GET "X: a\rb\r\n", 400),
	BAD(GET "X: a\0b\r\n", 400),
	BAD(GET "X: a\n", 400),
	BAD(GET "\n", 400),
	BAD(POST "Content-Length: 1\r\nContent-Length: 1\r\n", 400),
	BAD(POST "Content-Length: 1, 1\r\n\r\n", 400),
	BAD(POST "Content-Length: +1\r\n\r\n", 400),
	BAD(POST "Content-Length: -1\r\n\r\n", 400),
	BAD(POST "Content-Length:\r\n\r\n", 400),
	BAD(POST "Content-Length: 0x1\r\n\r\n", 400),
	BAD(POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
	BAD(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
	BAD(POST "Transfer-Encoding : chunked\r\n", 400),
	BAD(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
	BAD(POST "Transfer-Encoding: chunked, chunked\r\n\r\n", 501),
	BAD(POST "Transfer-Encoding: identity\r\n\r\n", 501),
	BAD(POST "Transfer-Encoding:\r\n\r\n", 400),
	BAD("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
#undef BAD
#define BAD(bytes) READING(HTTP_REQUEST, CHUNKED bytes, "HEAD POST /x REFUSED 400 ")
	BAD("x\r\n"),
	BAD("\r\n"),
	BAD("-1\r\n"),
	BAD("0x1\r\n"),
	BAD("1 \r\n"),
	BAD("1 x\r\n"),
	BAD("1\n"),
	BAD("1;\rx\r\n"),
	BAD("1000000000000000\r\n"),
	BAD("10000000000000000\r\n"),
	BAD("0000000000000001\r\n"),
	BAD("0\r\nX\r\n"),
	BAD("0\r\n: y\r\n"),
	BAD("0\r\nX: \x01\r\n"),
	BAD("0\r\nX : y\r\n"),
	BAD("0\r\n y\r\n"),
#undef BAD
	READING(HTTP_REQUEST, CHUNKED "1\r\nxy\r\n", "HEAD POST /x BODY x REFUSED 400 "),
	READING(HTTP_REQUEST, CHUNKED "1\r\nx\n1", "HEAD POST /x BODY x REFUSED 400 "),
	READING(HTTP_REQUEST, CHUNKED "1\r\n\r\n0\r\n\r\n", "HEAD POST /x BODY \r REFUSED 400 "),
};

Test(http_reader, refuses_what_can_be_read_in_two_ways)
{
	CHECK_ALL(bad_requests)
}

static const struct reading answers[] = {
#define ANSWER(bytes, events) READING(HTTP_ANSWER, bytes, events)
	ANSWER(OK "Content-Length: 5\r\n\r\nhello", "HEAD 200 BODY hello END "),
	ANSWER(OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" OK
		  "Content-Length: 0\r\n\r\n",
		"HEAD 200 BODY hello END HEAD 200 END "),
	ANSWER("HTTP/1.1 204 No Content\r\n\r\n", "HEAD 204 END "),
	ANSWER("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", "HEAD 304 END "),
	ANSWER("HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n", "HEAD 418 END "),
	ANSWER("HTTP/1.1 404\r\nContent-Length: 2\r\n\r\n{}", "HEAD 404 BODY {} END "),
	ANSWER(OK "Connection: close\r\nContent-Length: 1\r\n\r\nx", "HEAD 200 BODY x END close "),
	ANSWER("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "HEAD 200 BODY x END close "),
	ANSWER("HTTP/1.1 103 Early\r\nX: y\r\n\r\n" OK "Content-Length: 1\r\n\r\nx",
		"HEAD 200 BODY x END "),
	ANSWER("HTTP/1.1 199 Early\r\n\r\n" OK "Content-Length: 0\r\n\r\n", "HEAD 200 END "),
	ANSWER("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "HEAD 200 END "),
	ANSWER("HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n", "HEAD 999 END "),
	ANSWER("HTTP/1.1 20\r\n", "REFUSED 502 "),
	ANSWER("\r\n", "REFUSED 502 "),
	ANSWER("SSH-2.0-x\r\n", "REFUSED 502 "),
	ANSWER("HTTP/2 200 OK\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1 x00 OK\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1 2x0 OK\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1 20x OK\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1-200 OK\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1 2000 OK\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1 000 OK\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1 200 \0OK\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1 101 Switching\r\n\r\n", "REFUSED 502 "),
	ANSWER("HTTP/1.1 200 OK\n", "REFUSED 400 "),
	ANSWER(OK "\r\n", "REFUSED 502 "),
	ANSWER(OK "Content-Length: 1\r\nContent-Length: 1\r\n", "REFUSED 400 "),
	ANSWER(OK "X: y\r\n folded\r\n", "REFUSED 400 "),
#undef ANSWER
#define FOREIGN(bytes, events) READING(HTTP_FOREIGN_ANSWER, bytes, events)
	FOREIGN("HTTP/1.1 200 OK\nContent-Length: 1\nX: y\n z\n\nx", "HEAD 200 BODY x END "),
	FOREIGN("HTTP/1.0 200 OK\n\nto the end", "HEAD 200 BODY to the end"),
	FOREIGN("HTTP/1.1 200 \x01\nX: \x01\n\tfolded\nContent-Length: 1\n\nx",
		"HEAD 200 BODY x END "),
	FOREIGN(OK "Transfer-Encoding: chunked\n\n1\nx\n", "HEAD 200 BODY x REFUSED 400 "),
	FOREIGN(OK "Age: 1\r\nAge: 2\r\nContent-Length: 0\r\n\r\n", "HEAD 200 END "),
#undef FOREIGN
};

Test(http_reader, reads_answers_however_they_are_cut){ CHECK_ALL(answers) }

Test(http_reader, an_answer_to_head_has_no_body)
{
	static const char text[] = "HTTP/1.1 100 Go\r\n\r\n" OK "Content-Length: 9\r\n\r\n";
	struct http_reader reader;
	struct buffer events;
	http_reader_init(&reader, HTTP_ANSWER);
	buffer_init(&events, 100);
	reader.bodiless = true;
	describe(&reader, text, sizeof(text) - 1, 1, &events);
	cr_assert_str_eq(buffer_text(&events), "HEAD 200 END ");
	buffer_finish(&events);
	http_reader_finish(&reader);
}

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
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		cr_expect_eq(
			events_of_filled(lines[i].begin, lines[i].fill, lines[i].end, HTTP_REQUEST),
			lines[i].status, "%zu", i);
	}
	const char *end = "\r\nContent-Length: 0\r\n\r\n";
	cr_expect_eq(events_of_filled(OK "X: ", HTTP_ANSWER_FIELD_BYTES / 2, end, HTTP_ANSWER), 0);
	cr_expect_eq(events_of_filled(OK "X: ", HTTP_ANSWER_FIELD_BYTES, end, HTTP_ANSWER), 431);
}

static void repeat(struct buffer *text, const char *what, size_t times)
{
	for (size_t i = 0; i < times; i++) {
		buffer_append_text(text, what);
	}
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

Test(http_reader, keeps_the_fields_that_are_asked_for)
{
	static const char text[] = "GET /x HTTP/1.1\r\nX: y\r\nhost: h\r\nACCEPT:  a ,b\t\r\n"
				   "Prefer:\r\nAccept: c\r\nY: z\r\nAge: 1\r\nAge: 2\r\n\r\n";
	static const struct {
		enum http_field field;
		const char *value;
	} fields[] = {
		{ HTTP_FIELD_HOST, "h" },
		{ HTTP_FIELD_ACCEPT, "a ,b, c" },
		{ HTTP_FIELD_PREFER, "" },
		{ HTTP_FIELD_AGE, "1" },
		{ HTTP_FIELD_CONNECTION, NULL },
	};
	for (size_t step = 1; step < sizeof(text); step++) {
		struct http_reader reader;
		enum http_event event = HTTP_EVENT_MORE;
		http_reader_init(&reader, HTTP_REQUEST);
		for (const char *at = text; event == HTTP_EVENT_MORE;) {
			const char *end = at + step < text + sizeof(text) - 1
				? at + step
				: text + sizeof(text) - 1;
			event = http_reader_next(&reader, &at, end);
		}
		cr_assert_eq(event, HTTP_EVENT_HEAD);
		cr_assert(http_reader_has_head(&reader));
		cr_assert_str_eq(http_reader_method(&reader), "GET");
		cr_assert_str_eq(http_reader_target(&reader), "/x");
		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
			const char *value = http_reader_field(&reader, fields[i].field);
			cr_assert(fields[i].value ? value && strcmp(value, fields[i].value) == 0
						  : !value,
				"%zu: %s", i, value);
		}
		http_reader_finish(&reader);
	}
}

Test(http_reader, keeps_every_field_by_its_name)
{
	static const char *const names[HTTP_FIELDS] = { "Accept", "Age", "Cache-Control",
		"Connection", "Content-Encoding", "Content-Length", "Content-Type", "ETag",
		"Expect", "Host", "If-Match", "If-None-Match", "Prefer", "Transfer-Encoding",
		"X-Cache" };
	for (int field = 0; field < HTTP_FIELDS; field++) {
		char text[100];
		snprintf(text, sizeof(text), OK "%s: 7\r\n%sx: 8\r\n", names[field], names[field]);
		struct http_reader reader;
		http_reader_init(&reader, HTTP_ANSWER);
		const char *at = text;
		cr_assert_eq(http_reader_next(&reader, &at, text + strlen(text)), HTTP_EVENT_MORE);
		cr_assert_not(http_reader_has_head(&reader));
		for (int other = 0; other < HTTP_FIELDS; other++) {
			const char *value = http_reader_field(&reader, other);
			cr_assert(other == field ? value && strcmp(value, "7") == 0 : !value,
				"%s in %s", names[field], names[other]);
		}
		http_reader_finish(&reader);
	}
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

static size_t allocations_left;

static void *reallocate(void *memory, size_t size)
{
	return allocations_left > 0 && allocations_left-- ? realloc(memory, size) : NULL;
}

/*
 * Each allocation of a head fails once, in each place that may need one: a line that comes in
 * pieces, a part that is kept, its end, a list that is joined.
 */
Test(http_reader, without_memory_a_head_is_refused_with_500)
{
	struct buffer text;
	size_t refused = 0;
	buffer_init(&text, 1 << 20);
	buffer_append_text(&text, GET "ETag: ");
	repeat(&text, "e", 256 - sizeof("GET /") - sizeof("a"));
	buffer_append_text(&text, "\r\nAccept: ");
	repeat(&text, "a", 500);
	buffer_append_text(&text, "\r\nAccept: b\r\n\r\n");
	for (size_t step = 1; step < 2 * text.len; step *= 2) {
		bool complete = false;
		for (size_t count = 0; !complete; count++) {
			struct http_reader reader;
			struct buffer events;
			buffer_init(&events, 1000);
			buffer_reserve(&events, 1000);
			http_reader_init(&reader, HTTP_REQUEST);
			allocations_left = count;
			buffer_set_allocator(reallocate);
			describe(&reader, text.data, text.len, step, &events);
			buffer_set_allocator(realloc);
			complete = reader.refusal == 0;
			refused += !complete;
			cr_assert_str_eq(buffer_text(&events),
				complete ? "HEAD GET / END " : "REFUSED 500 ", "%zu %zu", step,
				count);
			buffer_finish(&events);
			http_reader_finish(&reader);
		}
	}
	cr_assert_gt(refused, 20);
	buffer_finish(&text);
}

Test(http_reader, a_length_beyond_all_numbers_is_the_largest)
{
	static const struct {
		const char *digits;
		uint64_t length;
	} lengths[] = {
		{ "1234567890", 1234567890 },
		{ "922337203685477579", 922337203685477579 },
		{ "9223372036854775799", INT64_C(9223372036854775799) },
		{ "9223372036854775810", INT64_MAX },
		{ "18446744073709551617", INT64_MAX },
	};
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		char text[100];
		snprintf(text, sizeof(text), POST "Content-Length: %s\r\n\r\n", lengths[i].digits);
		struct http_reader reader;
		http_reader_init(&reader, HTTP_REQUEST);
		const char *at = text;
		cr_assert_eq(http_reader_next(&reader, &at, text + strlen(text)), HTTP_EVENT_HEAD);
		cr_assert_eq(reader.left, lengths[i].length, "%s", lengths[i].digits);
		http_reader_finish(&reader);
	}
}

Test(http_reader, is_idle_between_messages_and_not_inside)
{
	static const char text[] = GET "\r\n";
	struct http_reader reader;
	http_reader_init(&reader, HTTP_REQUEST);
	cr_assert(http_reader_is_idle(&reader));
	for (const char *at = text; *at;) {
		const char *end = at + 1;
		enum http_event event = http_reader_next(&reader, &at, end);
		cr_assert_not(http_reader_is_idle(&reader), "after %zu bytes", (size_t)(at - text));
		while (event == HTTP_EVENT_HEAD) {
			event = http_reader_next(&reader, &at, end);
		}
	}
	http_reader_restart(&reader);
	cr_assert(http_reader_is_idle(&reader));
	http_reader_finish(&reader);
}

Test(http_reader, feeds_whole_answers)
{
	static const char text[] = OK "Content-Length: 1\r\n\r\na" OK "Content-Length: 9\r\n\r\nb";
	struct http_reader reader;
	struct buffer body;
	struct err err = ERR_INIT;
	size_t used = 0;
	http_reader_init(&reader, HTTP_ANSWER);
	buffer_init(&body, 5);
	cr_assert_eq(http_reader_feed(&reader, text, strlen(text), &body, &used, &err), 0);
	cr_assert_eq(reader.state, HTTP_READER_DONE);
	cr_assert_str_eq(buffer_text(&body), "a");
	http_reader_restart(&reader);
	const char *rest = text + used;
	cr_assert_eq(http_reader_feed(&reader, rest, strlen(rest), &body, &used, &err), 0);
	cr_assert(http_reader_has_head(&reader));
	cr_assert_str_eq(buffer_text(&body), "ab");
	cr_assert_eq(
		http_reader_feed(&reader, "12345678", 8, &body, &used, &err), BERTH_LIMIT_EXCEEDED);
	err_clear(&err);
	cr_assert_not(http_reader_has_head(&reader));
	/* It stays failed. */
	cr_assert_neq(http_reader_feed(&reader, "x", 1, &body, &used, &err), 0);
	http_reader_restart(&reader);
	err_clear(&err);
	cr_assert_eq(http_reader_feed(&reader, "SSH-2.0\r\n", 9, &body, &used, &err), BERTH_FAILED);
	buffer_finish(&body);
	http_reader_finish(&reader);
}

Test(http_reader, takes_nothing_behind_the_end_until_it_begins_anew)
{
	static const char text[] = OK "Content-Length: 1\r\n\r\na" OK "Content-Length: 0\r\n\r\n";
	const char *end = text + strlen(text);
	const char *at = text;
	struct http_reader reader;
	http_reader_init(&reader, HTTP_ANSWER);
	enum http_event event = http_reader_next(&reader, &at, end);
	while (event == HTTP_EVENT_HEAD || event == HTTP_EVENT_BODY) {
		event = http_reader_next(&reader, &at, end);
	}
	const char *behind = at;
	cr_assert_eq(event, HTTP_EVENT_END);
	cr_assert_eq(http_reader_next(&reader, &at, end), HTTP_EVENT_END);
	cr_assert_eq(at, behind, "it took bytes of the next answer");
	http_reader_restart(&reader);
	cr_assert_eq(http_reader_next(&reader, &at, end), HTTP_EVENT_HEAD);
	http_reader_finish(&reader);
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

struct pieces {
	enum http_kind kind;
	const char *text;
	size_t step;
};

static int read_pieces(void *context)
{
	const struct pieces *pieces = context;
	const char *at = pieces->text;
	const char *end = at + strlen(at);
	struct http_reader reader;
	struct buffer body;
	struct err err = ERR_INIT;
	int code = 0;
	http_reader_init(&reader, pieces->kind);
	buffer_init(&body, 1000);
	while (code == 0 && at < end) {
		size_t rest = (size_t)(end - at);
		size_t used = 0;
		code = http_reader_feed(
			&reader, at, rest < pieces->step ? rest : pieces->step, &body, &used, &err);
		at += used;
	}
	const char *accept = http_reader_field(&reader, HTTP_FIELD_ACCEPT);
	bool right = reader.state == HTTP_READER_DONE && accept && strcmp(accept, "a, b") == 0 &&
		strcmp(buffer_text(&body), "hello") == 0;
	buffer_finish(&body);
	http_reader_finish(&reader);
	return code ? code : right ? 0 : FAILING_WRONG;
}

/* Of every length, so that the memory ends at every byte. */
Test(http_reader, without_memory_it_refuses_and_loses_nothing)
{
	static const char rest[] = "Accept: a\r\nAccept: b\r\nContent-Length: 5\r\n\r\nhello";
	for (int len = 0; len < 300; len++) {
		char fill[301] = { 0 };
		char request[1000];
		char answer[1000];
		memset(fill, 'x', (size_t)len);
		snprintf(
			request, sizeof(request), "POST /%s HTTP/1.1\r\nHost: a\r\n%s", fill, rest);
		snprintf(answer, sizeof(answer), OK "ETag: %s\r\n%s", fill, rest);
		for (size_t step = 50; step <= 1000; step += 950) {
			struct pieces pieces = { HTTP_REQUEST, request, step };
			failing_check_memory("request", read_pieces, &pieces);
			pieces = (struct pieces){ HTTP_ANSWER, answer, step };
			failing_check_memory("answer", read_pieces, &pieces);
		}
	}
}

Test(http_reader, a_long_head_leaves_no_memory_behind)
{
	static char head[4096];
	struct http_reader reader;
	http_reader_init(&reader, HTTP_REQUEST);
	int len = snprintf(head, sizeof(head), GET "Accept: %0*d\r\n\r\n", 2000, 0);
	const char *at = head;
	cr_assert_eq(http_reader_next(&reader, &at, head + len), HTTP_EVENT_HEAD);
	cr_assert_gt(reader.text.size, 2000);
	http_reader_restart(&reader);
	cr_expect_eq(reader.text.size, 0);
	cr_expect(http_reader_is_idle(&reader));
	cr_expect_null(http_reader_field(&reader, HTTP_FIELD_ACCEPT));
	http_reader_finish(&reader);
}

/* Bytes are looked at in groups: each byte at each place of a group, and behind the last one. */
Test(http_target, is_visible_at_every_place)
{
	for (size_t place = 1; place < 20; place++) {
		for (int byte = 0; byte <= 0xff; byte++) {
			char target[20];
			memset(target, 'a', sizeof(target));
			target[0] = '/';
			target[place] = (char)byte;
			bool good = byte > ' ' && byte < 0x7f && byte != '#';
			cr_expect_eq(http_is_target("GET", 3, target, sizeof(target)), good,
				"%d at %zu", byte, place);
			cr_expect_eq(http_is_target("GET", 3, target, place + 1), good,
				"%d at the end, %zu", byte, place);
		}
	}
}

Test(http_target, a_host_has_the_characters_of_a_name)
{
	static const char others[] = "!$%&'()*+-.;=_~";
	for (int byte = 1; byte <= 0xff; byte++) {
		bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
			(byte >= '0' && byte <= '9');
		char host[] = { 'a', (char)byte, 'b' };
		cr_expect_eq(http_is_authority(host, sizeof(host), false),
			letter || strchr(others, byte) != NULL, "%d", byte);
	}
}

Test(http_reader, names_of_fields_differ_by_letters_alone)
{
	static const struct {
		const char *line;
		bool known;
	} lines[] = {
		{ "if-none-match: x", true },
		{ "IF-NONE-MATCH: x", true },
		{ "If-None-Match: x", true },
		{ "If_None_Match: x", false },
		{ "If-None-Matc(: x", false },
		{ "If-None-Mat~h: x", false },
		{ "If-None-Matchx: x", false },
		{ "If-None-Matc: x", false },
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char head[200];
		int len = snprintf(head, sizeof(head), GET "%s\r\n\r\n", lines[i].line);
		struct http_reader reader;
		const char *at = head;
		http_reader_init(&reader, HTTP_REQUEST);
		(void)http_reader_next(&reader, &at, head + len);
		cr_expect_eq(http_reader_field(&reader, HTTP_FIELD_IF_NONE_MATCH) != NULL,
			lines[i].known, "%s", lines[i].line);
		http_reader_finish(&reader);
	}
}
