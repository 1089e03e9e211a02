/* Answers that every request may get: problems, JSON, text. */
#include "agent/api/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"

/* The answers that every request shares: problem documents and small JSON. */

static struct http_response *problem(const struct http_request *request, int status,
	const char *title, const char *detail, json_t *members_take)
{
	return http_response_create_problem(status, title, detail, request->path, members_take);
}

struct http_response *api_problem_response(
	const struct http_request *request, int status, const struct err *err)
{
	return problem(request, status ? status : err_http_status(err->code),
		berth_error_name(err->code), err->msg, NULL);
}

void api_problem_with(
	struct http_request *request, int status, const struct err *err, json_t *members_take)
{
	status = status ? status : err_http_status(err->code);
	struct http_response *response = problem(
		request, status, berth_error_name(err->code), err->msg, members_take);
	http_answer(request, status, response);
	http_response_free(response);
}

void api_problem(struct http_request *request, int status, const struct err *err)
{
	api_problem_with(request, status, err, NULL);
}

void api_refuse(struct http_request *request, int status, const char *title, const char *detail,
	const char *allow)
{
	struct http_response *response = problem(request, status, title, detail, NULL);
	if (allow) {
		http_response_header(response, "Allow", allow);
	}
	http_answer(request, status, response);
	http_response_free(response);
}

void api_not_acceptable(struct http_request *request, const char *offered)
{
	api_refuse(request, 406, "Not Acceptable", offered, NULL);
}

void api_bad_request(struct http_request *request, const char *detail)
{
	api_refuse(request, 400, "Bad Request", detail, NULL);
}

char *api_json_text(json_t *json_take)
{
	char *text = allocated(json_text(json_take, JSON_COMPACT | JSON_ENCODE_ANY));
	size_t len = strlen(text);
	json_decref(json_take);
	if (json_has_hidden(text, len)) {
		struct buffer visible;
		buffer_init(&visible, SIZE_MAX);
		json_append_visible(&visible, text, len);
		free(text);
		text = allocated(buffer_take(&visible, &len));
	}
	return text;
}

void api_answer_json(struct http_request *request, int status, json_t *json_take)
{
	char *text = api_json_text(json_take);
	struct http_response *response = http_response_create_borrowed(
		"application/json", text, strlen(text), free, text);
	http_response_header(response, "Cache-Control", "no-store");
	http_answer(request, status, response);
	http_response_free(response);
}

void api_answer_text(
	struct http_request *request, int status, const char *type, const char *text, size_t len)
{
	struct http_response *response = http_response_create(type, text, len);
	http_answer(request, status, response);
	http_response_free(response);
}

void api_write_filter(struct buffer *out, const char *attributes)
{
	for (const char *at = attributes; *at;) {
		size_t len = strcspn(at, "\n");
		buffer_append_text(out, at > attributes ? "&attribute." : "attribute.");
		for (size_t i = 0; i < len; i++) {
			unsigned char c = (unsigned char)at[i];
			bool plain = isalnum(c) || strchr("=-._:/", c);
			buffer_printf(out, plain ? "%c" : "%%%02X", c);
		}
		at += len + (at[len] == '\n');
	}
}

void api_say_filter(struct http_response *response, const char *attributes)
{
	struct buffer out;
	if (!attributes) {
		return;
	}
	buffer_init(&out, SIZE_MAX);
	api_write_filter(&out, attributes);
	http_response_header(response, "X-Filter", buffer_text(&out));
	buffer_finish(&out);
}
