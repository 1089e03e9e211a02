#include "agent/check/http.h"

#include <string.h>

#include "agent/check/match.h"
#include "lib/http/reader.h"

/* An answer as far as it has come. */
struct answer {
	int status;      /* 0: not known yet, or this is not HTTP */
	const char *why; /* it is refused; NULL: it is good so far */
	bool whole;      /* to the end of its body */
	struct buffer body;
};

/*
 * Reads the answer from its beginning: it is short, and to keep a reader between two reads would
 * save little.
 */
static void read_answer(
	struct answer *answer, const struct config_check *config, const char *data, size_t len)
{
	struct http_reader reader;
	enum http_event event;
	const char *end = data + len;
	*answer = (struct answer){ 0 };
	buffer_init(&answer->body, CHECK_HTTP_BODY_BYTES);
	http_reader_init(&reader, HTTP_FOREIGN_ANSWER);
	reader.bodiless = strcmp(config->method, "HEAD") == 0;
	do {
		event = http_reader_next(&reader, &data, end);
		size_t room = answer->body.max - answer->body.len;
		if (event == HTTP_EVENT_BODY) {
			buffer_append(&answer->body, reader.body,
				reader.body_len < room ? reader.body_len : room);
		}
	} while (event == HTTP_EVENT_HEAD || event == HTTP_EVENT_BODY);
	answer->status = reader.status;
	answer->why = event == HTTP_EVENT_REFUSED ? reader.why : NULL;
	answer->whole = event == HTTP_EVENT_END;
	http_reader_finish(&reader);
}

static bool body_matches(const struct config_check *config, const struct buffer *body)
{
	struct check_match *match = check_match_create(config->match, config->match_ignore_case);
	check_match_add(match, buffer_text(body), body->len);
	bool found = check_match_finish(match);
	check_match_destroy(match);
	return found;
}

static void judge_body(
	const struct config_check *config, const struct answer *answer, struct check_result *result)
{
	check_result_set_output(result, buffer_text(&answer->body), answer->body.len, false);
	if (body_matches(config, &answer->body) == config->match_invert) {
		result->verdict = CHECK_FAILING;
		check_result_set_detail(result, "status %d, body %s: %s", answer->status,
			config->match_invert ? "matches" : "does not match", config->match);
	}
}

/* False: more of the answer is needed. */
static bool judge_answer(const struct config_check *config, const struct answer *answer,
	bool complete, struct check_result *result)
{
	if (answer->status == 0) {
		check_result_set_detail(result, "the answer is not HTTP/1");
		return true;
	}
	check_result_set_detail(result, "status %d", answer->status);
	if (!config_status_in_ranges(
		    config->expect_status, config->expect_status_count, answer->status)) {
		return true;
	}
	result->verdict = CHECK_PASSING;
	if (!*config->match) {
		return true;
	}
	if (answer->why) {
		result->verdict = CHECK_FAILING;
		check_result_set_detail(result, "status %d, but: %s", answer->status, answer->why);
		return true;
	}
	if (!answer->whole && !complete) {
		return false;
	}
	judge_body(config, answer, result);
	return true;
}

/* The status line decides, unless the body has to match. */
static bool judge(const struct config_check *config, const char *data, size_t len, bool complete,
	struct check_result *result)
{
	const char *newline = len ? memchr(data, '\n', len) : NULL;
	if (!newline && !complete) {
		return false;
	}
	if (len == 0) {
		check_result_set_detail(result, "the server closed without an answer");
		return true;
	}
	size_t line_len = newline ? (size_t)(newline - data) : len;
	check_result_set_output(result, data,
		line_len > 0 && data[line_len - 1] == '\r' ? line_len - 1 : line_len, !newline);
	if (!newline) {
		check_result_set_detail(result, "the answer has no status line");
		return true;
	}
	struct answer answer;
	read_answer(&answer, config, data, len);
	bool enough = judge_answer(config, &answer, complete, result);
	buffer_finish(&answer.body);
	return enough;
}

static void append_host(const struct config_check *config, struct buffer *request)
{
	if (*config->host) {
		buffer_append_text(request, config->host);
		return;
	}
	if (*config->target_host == '/') { /* a Unix socket */
		buffer_append_text(request, "localhost");
		return;
	}
	bool ipv6 = strchr(config->target_host, ':') != NULL;
	buffer_printf(request, ipv6 ? "[%s]" : "%s", config->target_host);
	if (strcmp(config->target_port, "80") != 0) {
		buffer_printf(request, ":%s", config->target_port);
	}
}

/* Unless the configuration has one of that name. */
static void append_header(const struct config_check *config, struct buffer *request,
	const char *name, const char *value)
{
	for (size_t i = 0; i < config->header_count; i++) {
		if (strcasecmp(config->headers[i].name, name) == 0) {
			return;
		}
	}
	buffer_printf(request, "\r\n%s: %s", name, value);
}

bool check_http_exchange(const struct config_check *config, struct buffer *request,
	struct check_socket_exchange *exchange)
{
	buffer_printf(request, "%s %s HTTP/1.1\r\nHost: ", config->method, config->target_path);
	append_host(config, request);
	append_header(config, request, "User-Agent", "berth");
	append_header(config, request, "Accept", "*/*");
	for (size_t i = 0; i < config->header_count; i++) {
		buffer_printf(
			request, "\r\n%s: %s", config->headers[i].name, config->headers[i].value);
	}
	buffer_append_text(request, "\r\nConnection: close\r\n\r\n");
	*exchange = (struct check_socket_exchange){
		.send = buffer_text(request),
		.send_len = request->len,
		.answer_max = *config->match ? CHECK_HTTP_BODY_BYTES + HTTP_ANSWER_FIELD_BYTES
					     : CHECK_HTTP_STATUS_LINE_BYTES,
		.judge = judge,
	};
	return !request->failed;
}
