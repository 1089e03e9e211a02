#include "agent/check/http.h"

#include <string.h>

#include "lib/http/reader.h"

/* The status of the answer so far, as soon as its first line says it; 0 when that is none. */
static int read_status(const char *answer, size_t len)
{
	struct http_reader reader;
	http_reader_init(&reader, HTTP_FOREIGN_ANSWER);
	(void)http_reader_next(&reader, &answer, answer + len);
	int status = reader.status;
	http_reader_finish(&reader);
	return status;
}

static void judge_line(const struct config_check *config, const char *line, size_t len,
	size_t line_len, struct check_result *result)
{
	int status = read_status(line, len);
	check_result_set_output(result, line, line_len, false);
	if (status == 0) {
		check_result_set_detail(result, "the answer is not HTTP/1");
		return;
	}
	bool expected = config_status_listed(
		config->expect_status, config->expect_status_count, status);
	result->verdict = expected ? CHECK_PASSING : CHECK_FAILING;
	check_result_set_detail(result, "status %d", status);
}

static bool judge(const struct config_check *config, const char *answer, size_t len, bool complete,
	struct check_result *result)
{
	const char *end = len ? memchr(answer, '\n', len) : NULL;
	if (!end && !complete) {
		return false;
	}
	result->verdict = CHECK_FAILING;
	if (len == 0) {
		check_result_set_detail(result, "the server closed without an answer");
		return true;
	}
	size_t line_len = end ? (size_t)(end - answer) : len;
	if (line_len > 0 && answer[line_len - 1] == '\r') {
		line_len--;
	}
	if (end) {
		judge_line(config, answer, (size_t)(end - answer) + 1, line_len, result);
	} else {
		check_result_set_detail(result, "the answer has no status line");
		check_result_set_output(result, answer, line_len, true);
	}
	return true;
}

static void append_host(const struct config_check *config, struct buffer *request)
{
	if (*config->host) {
		buffer_append_text(request, config->host);
		return;
	}
	bool ipv6 = strchr(config->target_host, ':') != NULL;
	buffer_printf(request, ipv6 ? "[%s]" : "%s", config->target_host);
	if (strcmp(config->target_port, "80") != 0) {
		buffer_printf(request, ":%s", config->target_port);
	}
}

bool check_http_exchange(const struct config_check *config, struct buffer *request,
	struct check_socket_exchange *exchange)
{
	buffer_printf(request, "%s %s HTTP/1.1\r\nHost: ", config->method, config->target_path);
	append_host(config, request);
	buffer_append_text(
		request, "\r\nUser-Agent: berth\r\nAccept: */*\r\nConnection: close\r\n\r\n");
	*exchange = (struct check_socket_exchange){
		.send = buffer_text(request),
		.send_len = request->len,
		.answer_max = CHECK_HTTP_STATUS_LINE_BYTES,
		.judge = judge,
	};
	return !request->failed;
}
