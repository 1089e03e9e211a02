/* Messages: which ones are read, and which are refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "tests/unit/lib/http/reading.h"

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
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {                                            \
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
	REQUEST(CHUNKED "1;\r\nx\r\n0;\r\n\r\n", "HEAD POST /x BODY x END "),
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
	BAD("GET\r\n", 400),
	BAD("G\r\n", 400),
	BAD("GET HTTP/1.1\r\n", 400),
	BAD("GET\t/ HTTP/1.1\r\n", 400),
	BAD("GET /\tHTTP/1.1\r\n", 400),
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
		for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
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
		"Expect", "Host", "If-Match", "If-None-Match", "Last-Event-ID", "Prefer",
		"Transfer-Encoding", "X-Cache", "X-Filter" };
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
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
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
	cr_assert_eq(reader.refusal, 413);
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
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
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

Test(http_reader, says_why_a_line_is_no_field)
{
	static const char no_field[] = "a line of its head is not a field";
	static const struct {
		const char *line;
		const char *why;
	} lines[] = {
		{ "Accept", no_field },
		{ "Accept x: y", no_field },
		{ ": y", no_field },
		{ " x: y", no_field },
		{ "Accept: \x01", "a field of its head holds a control character" },
	};
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		char head[200];
		int len = snprintf(head, sizeof(head), GET "%s\r\n\r\n", lines[i].line);
		struct http_reader reader;
		const char *at = head;
		http_reader_init(&reader, HTTP_REQUEST);
		cr_expect_eq(http_reader_next(&reader, &at, head + len), HTTP_EVENT_REFUSED);
		cr_expect_str_eq(reader.why, lines[i].why, "%s", lines[i].line);
		http_reader_finish(&reader);
	}
}
