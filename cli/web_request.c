#include "cli/web_request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/array.h"

enum { HTTP_PORT = 80 };

/* "localhost:8080", "127.0.0.1:8080" or "[::1]:8080"; browsers leave port 80 out. */
static bool is_own_host(const char *host, unsigned port)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
	for (size_t i = 0; host && i < ARRAY_LEN(names); i++) {
		char own[32];
		snprintf(own, sizeof(own), "%s:%u", names[i], port);
		if (strcasecmp(host, own) == 0 ||
			(port == HTTP_PORT && strcasecmp(host, names[i]) == 0)) {
			return true;
		}
	}
	return false;
}

/* Takes the same time wherever the first difference is, so that nobody finds it digit by digit. */
static bool is_token(const char *text, const char *token)
{
	unsigned difference = 0;
	if (strnlen(text, WEB_TOKEN_BYTES) < WEB_TOKEN_BYTES - 1) {
		return false;
	}
	for (size_t i = 0; i < WEB_TOKEN_BYTES - 1; i++) {
		difference |= (unsigned char)(text[i] ^ token[i]);
	}
	return difference == 0;
}

int web_request_judge(
	const struct web_site *site, const struct http_reader *request, const char **ret_why)
{
	const char *method = http_reader_method(request);
	const char *target = http_reader_target(request);
	if (!is_own_host(http_reader_field(request, HTTP_FIELD_HOST), site->port)) {
		*ret_why = "the Host field names another place";
		return 421;
	}
	if (*target != '/' || !is_token(target + 1, site->token) ||
		target[WEB_TOKEN_BYTES] != '/') {
		*ret_why = "nothing is here; `berth web` prints the whole address";
		return 404;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		*ret_why = "only GET and HEAD; to change something, run `berth`";
		return 405;
	}
	if (request->state != HTTP_READER_LENGTH || request->left != 0) {
		*ret_why = "the request has a body";
		return 400;
	}
	return 0;
}

void web_request_write(struct buffer *out, const struct http_reader *request)
{
	static const struct {
		enum http_field field;
		const char *name;
	} passed[] = {
		{ HTTP_FIELD_ACCEPT, "Accept" },
		{ HTTP_FIELD_CACHE_CONTROL, "Cache-Control" },
		{ HTTP_FIELD_IF_NONE_MATCH, "If-None-Match" },
		{ HTTP_FIELD_LAST_EVENT_ID, "Last-Event-ID" },
		{ HTTP_FIELD_PREFER, "Prefer" },
	};
	const char *query = http_reader_query(request);
	buffer_printf(out, "%s %s%s%s HTTP/1.%c\r\nHost: berth\r\nConnection: close\r\n",
		http_reader_method(request), http_reader_target(request) + WEB_TOKEN_BYTES,
		*query ? "?" : "", query, request->http_1_0 ? '0' : '1');
	for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
		const char *value = http_reader_field(request, passed[i].field);
		if (value) {
			buffer_printf(out, "%s: %s\r\n", passed[i].name, value);
		}
	}
	buffer_append_text(out, "\r\n");
}
