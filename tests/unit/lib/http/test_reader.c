#include <criterion/criterion.h>
#include <string.h>

#include "lib/http/reader.h"

#define OK "HTTP/1.1 200 OK\r\n"

/* Feeds `text` in pieces of `step` bytes; returns the reader's last code. */
static int feed(struct http_reader *reader, const char *text, size_t len, size_t step,
	struct buffer *body, size_t *ret_used, struct err *err)
{
	int code = 0;
	*ret_used = 0;
	for (size_t at = 0; at < len && code == 0; at += step) {
		size_t used;
		size_t piece = len - at < step ? len - at : step;
		code = http_reader_feed(reader, text + at, piece, body, &used, err);
		*ret_used += used;
	}
	return code;
}

struct good {
	const char *text;
	int status;
	const char *body;
	bool keep_alive;
	const char *rest; /* what is left for the next response */
};

static const struct good goods[] = {
	{ OK "Content-Length: 5\r\n\r\nhello", 200, "hello", true, "" },
	{ OK "content-length:5\r\n\r\nhelloHTTP", 200, "hello", true, "HTTP" },
	{ OK "Content-Length: 0\r\n\r\n", 200, "", true, "" },
	{ OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", 200, "hello!",
		true, "" },
	{ OK "Transfer-Encoding: Chunked\r\n\r\nA;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\nz", 200,
		"0123456789", true, "z" },
	{ "HTTP/1.1 204 No Content\r\n\r\nx", 204, "", true, "x" },
	{ "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", 304, "", true, "" },
	{ "HTTP/1.1 404\r\nContent-Length: 2\r\n\r\n{}", 404, "{}", true, "" },
	{ OK "Connection: close\r\nContent-Length: 1\r\n\r\nx", 200, "x", false, "" },
	{ "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false, "" },
	{ "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, "x", true, "" },
	{ "HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 1\r\n\r\nx", 200, "x", true, "" },
};

Test(http_reader, reads_what_an_agent_sends_however_it_is_cut)
{
	for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++) {
		size_t len = strlen(goods[i].text);
		for (size_t step = 1; step <= len; step++) {
			struct http_reader reader;
			struct buffer body;
			struct err err = ERR_INIT;
			size_t used;
			http_reader_init(&reader);
			buffer_init(&body, 1000);
			cr_assert_eq(feed(&reader, goods[i].text, len, step, &body, &used, &err), 0,
				"%zu: %s", i, err.msg);
			cr_assert_eq(reader.state, HTTP_READER_DONE, "%zu", i);
			cr_assert_eq(reader.status, goods[i].status);
			cr_assert_str_eq(buffer_text(&body), goods[i].body);
			cr_assert_eq(reader.keep_alive, goods[i].keep_alive, "%zu", i);
			cr_assert_str_eq(goods[i].text + used, goods[i].rest, "%zu", i);
			http_reader_finish(&reader);
			buffer_finish(&body);
		}
	}
}

static const struct {
	const char *text;
	size_t len;
} bads[] = {
#define BAD(text)                                                                                  \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}
	BAD("\r\n"),
	BAD("SSH-2.0-x\r\n\r\n"),
	BAD("HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n"),
	BAD("HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n"),
	BAD("HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
	BAD(OK "\r\n"),
	BAD(OK "Content-Length: -1\r\n\r\n"),
	BAD(OK "Content-Length: 1x\r\n\r\nx"),
	BAD(OK "Content-Length: 99999999999999999999\r\n\r\n"),
	BAD(OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
	BAD(OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
	BAD(OK "Transfer-Encoding: gzip\r\n\r\nx"),
	BAD(OK "X: y\r\n folded\r\nContent-Length: 0\r\n\r\n"),
	BAD(OK "no colon\r\nContent-Length: 0\r\n\r\n"),
	BAD(OK "X\0: y\r\nContent-Length: 0\r\n\r\n"),
	BAD(OK "Transfer-Encoding: chunked\r\n\r\nx\r\n"),
	BAD(OK "Transfer-Encoding: chunked\r\n\r\n\r\n"),
	BAD(OK "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n"),
	BAD(OK "Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n"),
#undef BAD
};

Test(http_reader, refuses_everything_else_however_it_is_cut)
{
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		for (size_t step = 1; step <= bads[i].len; step++) {
			struct http_reader reader;
			struct buffer body;
			struct err err = ERR_INIT;
			size_t used;
			http_reader_init(&reader);
			buffer_init(&body, 1000);
			int code = feed(
				&reader, bads[i].text, bads[i].len, step, &body, &used, &err);
			cr_assert_eq(code, BERTH_FAILED, "%zu", i);
			cr_assert_eq(reader.state, HTTP_READER_FAILED);
			cr_assert_neq(err.msg[0], '\0');
			/* It stays failed. */
			cr_assert_neq(http_reader_feed(&reader, "x", 1, &body, &used, NULL), 0);
			http_reader_finish(&reader);
			buffer_finish(&body);
		}
	}
}

static int feed_filled(const char *head, size_t fill, const char *tail, size_t body_max)
{
	struct http_reader reader;
	struct buffer body;
	struct buffer text;
	size_t used;
	http_reader_init(&reader);
	buffer_init(&body, body_max);
	buffer_init(&text, 1 << 20);
	buffer_append_text(&text, head);
	for (size_t i = 0; i < fill; i++) {
		buffer_append_text(&text, "x");
	}
	buffer_append_text(&text, tail);
	int code = feed(&reader, text.data, text.len, 777, &body, &used, NULL);
	http_reader_finish(&reader);
	buffer_finish(&body);
	buffer_finish(&text);
	return code;
}

Test(http_reader, bounds_heads_bodies_and_lines)
{
	const char *end = "\r\nContent-Length: 0\r\n\r\n";
	cr_assert_eq(feed_filled(OK "X: ", HTTP_READER_HEAD_BYTES / 2, end, 10), 0);
	cr_assert_eq(feed_filled(OK "X: ", HTTP_READER_HEAD_BYTES, end, 10), BERTH_LIMIT_EXCEEDED);
	cr_assert_eq(feed_filled(OK "Content-Length: 10\r\n\r\n", 10, "", 10), 0);
	cr_assert_eq(feed_filled(OK "Content-Length: 11\r\n\r\n", 11, "", 10), BERTH_LIMIT_EXCEEDED);
	cr_assert_eq(feed_filled(OK "Transfer-Encoding: chunked\r\n\r\n1;", 5000, "\r\n", 10),
		BERTH_LIMIT_EXCEEDED);
	cr_assert_eq(
		feed_filled(OK "Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", 900, "\r\n\r\n", 10),
		0);
}

Test(http_reader, finds_headers_whatever_their_case)
{
	static const char text[] = OK "Age:  42 \r\nx-cache: STALE\r\nContent-Length: 0\r\n\r\n";
	struct http_reader reader;
	struct buffer body;
	char value[6];
	size_t used;
	http_reader_init(&reader);
	buffer_init(&body, 10);
	cr_assert_not(http_reader_header(&reader, "Age", value, sizeof(value)));
	cr_assert_eq(feed(&reader, text, strlen(text), 1000, &body, &used, NULL), 0);
	cr_assert(http_reader_header(&reader, "age", value, sizeof(value)));
	cr_assert_str_eq(value, "42");
	cr_assert(http_reader_header(&reader, "X-Cache", value, sizeof(value)));
	cr_assert_str_eq(value, "STALE");
	cr_assert_not(http_reader_header(&reader, "X-Cach", value, sizeof(value)));
	cr_assert_str_eq(value, "");
	http_reader_finish(&reader);
	buffer_finish(&body);
}

Test(http_reader, reads_one_response_after_another)
{
	static const char text[] = OK "Content-Length: 1\r\n\r\na" OK "Content-Length: 1\r\n\r\nb";
	struct http_reader reader;
	struct buffer body;
	size_t used = 0;
	http_reader_init(&reader);
	buffer_init(&body, 10);
	cr_assert_eq(http_reader_feed(&reader, text, strlen(text), &body, &used, NULL), 0);
	http_reader_restart(&reader);
	cr_assert_eq(
		http_reader_feed(&reader, text + used, strlen(text) - used, &body, &used, NULL), 0);
	cr_assert_eq(reader.state, HTTP_READER_DONE);
	cr_assert_str_eq(buffer_text(&body), "ab");
	http_reader_finish(&reader);
	buffer_finish(&body);
}
