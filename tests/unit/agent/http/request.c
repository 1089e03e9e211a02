/* A request as its handler sees it: its parts, its parameters, and its client. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/http/host.h"
#include "lib/base/array.h"
#include "tests/support/http_stage.h"

TestSuite(http_request, .init = http_stage_begin, .fini = http_stage_end);

/* The request as the handler has seen it. */
static char seen[1024];

static const char *or_none(const char *text)
{
	return text ? text : "-";
}

static void describe(struct http_request *request)
{
	snprintf(seen, sizeof(seen), "%d %.*s|%s?%s a=%s c=%s n=%s p=%s body=%zu:%s local=%d",
		request->method, (int)request->host_len, request->host, request->path,
		request->query, or_none(request->accept), or_none(request->cache_control),
		or_none(request->if_none_match), or_none(request->prefer), request->body_len,
		request->body, request->local);
	http_stage_hello(request);
}

static const char *see(const char *text)
{
	int fd = http_stage_connect();
	seen[0] = '\0';
	http_stage.handle = describe;
	http_stage_ask(fd, text);
	close(fd);
	return seen;
}

Test(http_request, has_the_parts_of_its_head)
{
	cr_expect_str_eq(see("GET /v1/x?depth=2 HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n"
			     "Cache-Control: no-cache\r\nIf-None-Match: \"e\"\r\n"
			     "Prefer: wait=3\r\n\r\n"),
		"0 a|/v1/x?depth=2 a=text/html c=no-cache n=\"e\" p=wait=3 body=0: local=1");
	cr_expect_str_eq(
		see("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "0 a|/? a=- c=- n=- p=- body=0: local=1");
}

Test(http_request, has_its_body_whether_it_comes_whole_or_in_pieces)
{
	cr_expect_str_eq(see("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
		"2 a|/x? a=- c=- n=- p=- body=5:hello local=1");
	cr_expect_str_eq(see("PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
			     "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
		"3 a|/x? a=- c=- n=- p=- body=5:hello local=1");
	int fd = http_stage_connect();
	http_stage_send(fd,
		"POST /pieces?a=b HTTP/1.1\r\nHost: a\r\nPrefer: wait=1\r\n"
		"Transfer-Encoding: chunked\r\n\r\n");
	/* Trailers grow the memory that the head is in. */
	for (int i = 0; i < 60; i++) {
		http_stage_send(fd, "4\r\nabcd\r\n");
	}
	http_stage_send(fd, "0\r\nX-Trailer: ");
	for (int i = 0; i < 60; i++) {
		http_stage_send(fd, "0123456789012345678901234567890123456789");
	}
	http_stage_send(fd, "\r\n\r\n");
	cr_expect(
		strstr(seen, "2 a|/pieces?a=b a=- c=- n=- p=wait=1 body=240:abcdabcd"), "%s", seen);
	close(fd);
}

Test(http_request, has_one_of_the_known_methods)
{
	static const struct {
		const char *name;
		enum http_method method;
	} methods[] = { { "GET", HTTP_GET }, { "HEAD", HTTP_HEAD }, { "POST", HTTP_POST },
		{ "PUT", HTTP_PUT }, { "DELETE", HTTP_DELETE }, { "OPTIONS", HTTP_OPTIONS },
		{ "PATCH", HTTP_OTHER }, { "TRACE", HTTP_OTHER } };
	char text[128];
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		snprintf(text, sizeof(text), "%s /m HTTP/1.1\r\nHost: a\r\n\r\n", methods[i].name);
		cr_expect_eq(see(text)[0], '0' + (char)methods[i].method, "%s", text);
	}
	int fd = http_stage_connect();
	cr_expect(strstr(http_stage_ask(fd, "BREW /m HTTP/1.1\r\nHost: a\r\n\r\n"),
		"HTTP/1.1 501 Not Implemented\r\n"));
	close(fd);
}

Test(http_request, of_a_proxy_has_path_and_host_apart)
{
	static const char *const paths[][2] = { { "/x", "field|/x" },
		{ "http://berth/live", "berth|/live" }, { "HTTP://berth:80/a/b", "berth:80|/a/b" },
		{ "http://berth", "berth|/" }, { "http://b/live/x", "b|/live/x" },
		{ "/http://berth/x", "field|/http://berth/x" } };
	char text[128];
	char line[64];
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: field\r\n\r\n", paths[i][0]);
		snprintf(line, sizeof(line), "0 %s? ", paths[i][1]);
		cr_expect_eq(strncmp(see(text), line, strlen(line)), 0, "%s", seen);
	}
	cr_expect_eq(strncmp(see("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), "5 a|*? ", 7), 0);
}

/* ---- parameters ---- */

Test(http_request, decodes_percent_signs_and_blanks)
{
	static const struct {
		const char *text;
		const char *decoded; /* NULL: refused */
	} cases[] = { { "", "" }, { "abc", "abc" }, { "a+b", "a b" }, { "%41%7a", "Az" },
		{ "%c3%a9", "\xc3\xa9" }, { "\xc3\xa9", "\xc3\xa9" }, { "%20~", " ~" },
		{ "a%4", NULL }, { "%", NULL }, { "%4", NULL }, { "%zz", NULL }, { "%00", NULL },
		{ "%1f", NULL }, { "%7f", NULL }, { "\x1f", NULL }, { "\x7f", NULL },
		{ "%80", "\x80" } };
	char out[16];
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *decoded = cases[i].decoded;
		int len = http_decode(cases[i].text, strlen(cases[i].text), out, sizeof(out));
		cr_expect_eq(len, decoded ? (int)strlen(decoded) : -1, "%s", cases[i].text);
		cr_expect(!decoded || strcmp(out, decoded) == 0, "%s", cases[i].text);
	}
	/* A sign at the end is not an escape, whatever bytes come behind it. */
	cr_expect_eq(http_decode("%41", 2, out, sizeof(out)), -1);
	cr_expect_eq(http_decode("abc", 3, out, 4), 3);
	cr_expect_eq(http_decode("abcd", 4, out, 4), -1);
}

static int read_parameter(const char *query, const char *name, char *out, size_t size)
{
	struct http_request request = { .query = query };
	struct err err = ERR_INIT;
	int ret = http_parameter(&request, name, out, size, &err);
	cr_expect(ret >= 0 || strstr(err.msg, name), "%s", err.msg);
	return ret;
}

Test(http_request, finds_a_parameter_by_its_whole_name)
{
	char out[8] = "";
	cr_expect_eq(read_parameter("", "a", out, sizeof(out)), 0);
	cr_expect_eq(read_parameter("b=2", "a", out, sizeof(out)), 0);
	cr_expect_eq(read_parameter("a", "a", out, sizeof(out)), 0);
	cr_expect_eq(read_parameter("ab=2", "a", out, sizeof(out)), 0);
	cr_expect_eq(read_parameter("ba=2&xa=3", "a", out, sizeof(out)), 0);
	cr_expect_eq(read_parameter("a=1", "a", out, sizeof(out)), 1);
	cr_expect_str_eq(out, "1");
	cr_expect_eq(read_parameter("a=", "a", out, sizeof(out)), 1);
	cr_expect_str_eq(out, "");
	cr_expect_eq(read_parameter("ab=2&&c&a=x%20y&a=z", "a", out, sizeof(out)), 1);
	cr_expect_str_eq(out, "x y");
	cr_expect_eq(read_parameter("a=1234567", "a", out, sizeof(out)), 1);
	cr_expect_eq(read_parameter("a=12345678", "a", out, sizeof(out)), BERTH_FAILED);
	cr_expect_eq(read_parameter("b=1&a=%0a", "a", out, sizeof(out)), BERTH_FAILED);
	struct err err = ERR_INIT;
	cr_expect_eq(http_parameter(&(struct http_request){ .query = "depth=123456789" }, "depth",
			     out, sizeof(out), &err),
		BERTH_FAILED);
	cr_expect_str_eq(err.msg, "query parameter depth: not text of at most 7 bytes");
}

/* ---- the client ---- */

static struct http_peer peer;

static void ask_peer(struct http_request *request)
{
	memset(&peer, 0xff, sizeof(peer));
	http_peer(request, &peer);
	http_stage_hello(request);
}

Test(http_request, of_a_local_client_names_its_user)
{
	http_stage_open_tcp();
	http_stage.handle = ask_peer;
	int local = http_stage_connect();
	http_stage_ask(local, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	cr_expect(peer.known);
	cr_expect_eq(peer.uid, geteuid());
	cr_expect_eq(peer.gid, getegid());
	cr_expect_eq(peer.pid, getpid());
	int remote = http_stage_connect_remote();
	http_stage_ask_remote(remote, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	cr_expect_not(peer.known);
	cr_expect_not(http_stage.request->local);
	close(local);
	close(remote);
}

static char *const names[] = { (char[]){ "localhost" }, (char[]){ "web-1.Example.org." },
	(char[]){ "web-1" } };

static bool is_own(const char *host)
{
	return http_host_is_own(host, strlen(host), names, 3);
}

Test(http_host, addresses_and_own_names_are_taken_with_and_without_a_port)
{
	static const char *const own[] = { "", "localhost", "LOCALHOST:8930", "localhost.",
		"127.0.0.1", "10.0.0.1:8930", "[::1]", "[2001:db8::1]:80", "web-1",
		"web-1.example.org", "web-1.example.org.:80" };
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		cr_expect(is_own(own[i]), "%s", own[i]);
	}
}

Test(http_host, other_names_are_not)
{
	static const char *const others[] = { "evil.example.org", "localhost.evil.example.org",
		"web-1.example.or", "web-1.example.orgs", "web", "127.0.0.1.evil.example.org",
		"1.2.3", "127.0.0.1000", ":80x", ".", "localhost%2e" };
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		cr_expect_not(is_own(others[i]), "%s", others[i]);
	}
}

Test(http_host, a_star_is_every_name)
{
	char *const all[] = { (char[]){ "*" } };
	cr_expect(http_host_is_own("evil.example.org", 16, all, 1));
	cr_expect_not(http_host_is_own("evil.example.org", 16, all, 0));
}
