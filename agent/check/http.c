#include "agent/check/http.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/check/match.h"
#include "lib/http/reader.h"

/* An answer as far as it has come. */
struct judge {
	const struct config_check *config;
	struct http_reader reader;
	struct buffer line; /* the first one of the answer, or of an interim answer before it */
	struct buffer head; /* the lines behind it, when a field is expected */
	struct buffer body; /* as much as a pattern sees */
	const char *why;    /* it is refused; NULL: it is good so far */
	bool ended;
};

static void append_most(struct buffer *out, const char *bytes, size_t len)
{
	size_t room = out->max - out->len;
	allocated(buffer_append(out, bytes, len < room ? len : room) == 0 ? out : NULL);
}

/* The bytes up to the next event of the reader, and a line of the head at most. */
static void read_on(struct judge *judge, const char **at, const char *end)
{
	struct http_reader *reader = &judge->reader;
	const char *newline = http_reader_has_head(reader) ? NULL
							   : memchr(*at, '\n', (size_t)(end - *at));
	const char *stop = newline ? newline + 1 : end;
	if (http_reader_is_idle(reader)) {
		buffer_clear(&judge->line);
		buffer_clear(&judge->head);
	}
	if (reader->state == HTTP_READER_START) {
		append_most(&judge->line, *at, (size_t)(stop - *at));
	} else if (reader->state == HTTP_READER_FIELDS && judge->config->expect_header_count > 0) {
		append_most(&judge->head, *at, (size_t)(stop - *at));
	}
	switch (http_reader_next(reader, at, stop)) {
	case HTTP_EVENT_REFUSED:
		judge->why = reader->why;
		break;
	case HTTP_EVENT_BODY:
		append_most(&judge->body, reader->body, reader->body_len);
		break;
	case HTTP_EVENT_END:
		judge->ended = true;
		break;
	default:
		break;
	}
}

static void read_answer(struct judge *judge, const char *bytes, size_t len)
{
	const char *at = bytes;
	const char *end = bytes + len;
	while (at < end && !judge->why && !judge->ended) {
		read_on(judge, &at, end);
	}
	/* A body of no bytes has ended with its head. */
	if (!judge->why && !judge->ended && http_reader_has_head(&judge->reader)) {
		read_on(judge, &at, end);
	}
}

static bool matches(const char *pattern, bool ignore_case, const char *text, size_t len)
{
	struct check_match *match = check_match_create(pattern, ignore_case);
	check_match_add(match, text, len);
	bool found = check_match_finish(match);
	check_match_destroy(match);
	return found;
}

/* The value in a line of this name, without the blanks around it; NULL: the line has another. */
static const char *value_in(const char *line, size_t len, const char *name, size_t *ret_len)
{
	size_t name_len = strlen(name);
	if (len <= name_len || line[name_len] != ':' || strncasecmp(line, name, name_len) != 0) {
		return NULL;
	}
	const char *at = line + name_len + 1;
	const char *end = line + len;
	while (at < end && strchr(" \t", *at)) {
		at++;
	}
	while (at < end && strchr(" \t\r", end[-1])) {
		end--;
	}
	*ret_len = (size_t)(end - at);
	return at;
}

/* False, with the reason: no field of this name has such a value. */
static bool judge_field(const struct config_name_value *expected, const char *head, size_t len,
	int status, struct check_result *result)
{
	const char *value = NULL;
	size_t value_len = 0;
	for (const char *at = head, *end = head + len; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t line_len = newline ? (size_t)(newline - at) : (size_t)(end - at);
		size_t found_len;
		const char *found = value_in(at, line_len, expected->name, &found_len);
		if (found && matches(expected->value, false, found, found_len)) {
			return true;
		}
		if (found) {
			value = found;
			value_len = found_len;
		}
		at += line_len + 1;
	}
	if (value) {
		check_result_set_detail(result, "status %d, header %s is %.*s, not %s", status,
			expected->name, (int)(value_len < 80 ? value_len : 80), value,
			expected->value);
	} else {
		check_result_set_detail(
			result, "status %d, without header %s", status, expected->name);
	}
	result->verdict = CHECK_FAILING;
	return false;
}

bool check_http_judge_status(
	const struct config_check *config, int status, struct check_result *result)
{
	if (config_status_in_ranges(config->warning_status, config->warning_status_count, status)) {
		check_result_set_detail(result, "status %d, which is a warning", status);
		result->verdict = CHECK_WARNING;
		return true;
	}
	check_result_set_detail(result, "status %d", status);
	bool good = config_status_in_ranges(
		config->expect_status, config->expect_status_count, status);
	result->verdict = good ? CHECK_PASSING : CHECK_FAILING;
	return good;
}

bool check_http_judge_head(const struct config_check *config, int status, const char *head,
	size_t len, struct check_result *result)
{
	for (size_t i = 0; i < config->expect_header_count; i++) {
		if (!judge_field(&config->expect_headers[i], head, len, status, result)) {
			return false;
		}
	}
	return true;
}

void check_http_judge_body(const struct config_check *config, int status, const char *body,
	size_t len, struct check_result *result)
{
	check_result_set_output(result, body, len, false);
	if (matches(config->match, config->match_ignore_case, body, len) == config->match_invert) {
		result->verdict = CHECK_FAILING;
		check_result_set_detail(result, "status %d, body %s: %s", status,
			config->match_invert ? "matches" : "does not match", config->match);
	}
}

/* False: more of the answer is needed. */
static bool judge_answer(const struct judge *judge, bool complete, struct check_result *result)
{
	const struct config_check *config = judge->config;
	int status = judge->reader.status;
	if (!check_http_judge_status(config, status, result) ||
		(!*config->match && config->expect_header_count == 0)) {
		return true;
	}
	if (judge->why) {
		result->verdict = CHECK_FAILING;
		check_result_set_detail(result, "status %d, but: %s", status, judge->why);
		return true;
	}
	if (!http_reader_has_head(&judge->reader) && !complete) {
		return false;
	}
	if (!check_http_judge_head(
		    config, status, buffer_text(&judge->head), judge->head.len, result) ||
		!*config->match) {
		return true;
	}
	if (!judge->ended && !complete && judge->body.len < CHECK_HTTP_BODY_BYTES) {
		return false;
	}
	check_http_judge_body(config, status, buffer_text(&judge->body), judge->body.len, result);
	return true;
}

/* There is no status, and none will come. */
static void judge_nothing(const struct judge *judge, bool has_line, struct check_result *result)
{
	const struct http_reader *reader = &judge->reader;
	bool is_interim = reader->is_interim || reader->interim > 0;
	if (judge->line.len > 0 && !has_line) {
		check_result_set_detail(result, "the answer has no status line");
	} else if (judge->why && !is_interim) {
		check_result_set_detail(result, "the answer is not HTTP/1");
	} else if (judge->why) {
		check_result_set_detail(result, "no status: %s", judge->why);
	} else {
		check_result_set_detail(result, "the server closed %s",
			is_interim ? "after an interim answer" : "without an answer");
	}
}

/* The status line decides, unless the body has to match. */
static bool take(
	void *context, const char *bytes, size_t len, bool complete, struct check_result *result)
{
	struct judge *judge = context;
	read_answer(judge, bytes, len);
	bool known = judge->reader.status > 0;
	if (!known && !judge->why && !complete) {
		return false;
	}
	const struct buffer *line = &judge->line;
	const char *text = buffer_text(line);
	bool has_line = line->len > 0 && text[line->len - 1] == '\n';
	size_t line_len = line->len - has_line;
	line_len -= has_line && line_len > 0 && text[line_len - 1] == '\r';
	check_result_set_output(result, text, line_len, !has_line && line->len > 0);
	if (known) {
		return judge_answer(judge, complete, result);
	}
	judge_nothing(judge, has_line, result);
	return true;
}

static void destroy(void *context)
{
	struct judge *judge = context;
	http_reader_finish(&judge->reader);
	buffer_finish(&judge->line);
	buffer_finish(&judge->head);
	buffer_finish(&judge->body);
	free(judge);
}

static struct check_judge create_judge(const struct config_check *config)
{
	struct judge *judge = allocate_zeroed(1, sizeof(*judge));
	judge->config = config;
	buffer_init(&judge->line, CHECK_HTTP_STATUS_LINE_BYTES);
	buffer_init(&judge->head, HTTP_ANSWER_FIELD_BYTES);
	buffer_init(&judge->body, CHECK_HTTP_BODY_BYTES);
	http_reader_init(&judge->reader, HTTP_FOREIGN_ANSWER);
	judge->reader.bodiless = strcmp(config->method, "HEAD") == 0;
	return (struct check_judge){ take, destroy, judge };
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
	if (strcmp(config->target_port, config->tls ? "443" : "80") != 0) {
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

/* Lines without their end: Host, ours and those of the configuration. */
static void append_fields(const struct config_check *config, struct buffer *request)
{
	buffer_append_text(request, "Host: ");
	append_host(config, request);
	append_header(config, request, "User-Agent", "berth");
	append_header(config, request, "Accept", "*/*");
	for (size_t i = 0; i < config->header_count; i++) {
		buffer_printf(
			request, "\r\n%s: %s", config->headers[i].name, config->headers[i].value);
	}
}

void check_http_append_fields(const struct config_check *config, struct buffer *fields)
{
	if (config->type == CONFIG_CHECK_HTTP) {
		append_fields(config, fields);
		return;
	}
	buffer_printf(fields,
		"Content-Type: application/grpc\r\nTE: trailers\r\nUser-Agent: berth\r\n"
		"Accept:\r\ngrpc-timeout: %lldm",
		(long long)config->timeout_ms);
}

bool check_http_exchange(const struct config_check *config, struct buffer *request,
	struct check_socket_exchange *exchange)
{
	buffer_printf(request, "%s %s HTTP/1.1\r\n", config->method, config->target_path);
	append_fields(config, request);
	if (*config->body) {
		buffer_printf(request, "\r\nContent-Length: %zu", strlen(config->body));
	}
	buffer_append_text(request, "\r\nConnection: close\r\n\r\n");
	buffer_append_text(request, config->body);
	if (request->failed) {
		return false;
	}
	*exchange = (struct check_socket_exchange){
		.send = buffer_text(request),
		.send_len = request->len,
		.server_closes = true,
		.judge = create_judge(config),
	};
	return true;
}
