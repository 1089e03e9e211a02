/* GET /v1/names/{name}: the DNS answers for a name, with age and paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "agent/base/allocate.h"
#include "agent/config/verify.h"
#include "agent/names/write.h"

#define TYPE_BYTES 16
#define LINES_MAX_BYTES (1 << 20)

/* A question whose answer has to be read first. */
struct question {
	struct api *api;
	struct http_request *request;
	unsigned parts;
	bool text;
	char near[256]; /* a zone; only with `is_near` */
	bool is_near;
	char attributes[SELECT_BYTES]; /* "" for any */
	struct names_wait wait;
	char name[NAMES_NAME_BYTES];
};

/* For the next look-up of a reader of the shared map. */
static void share(const struct api *api, const struct http_request *request, bool text,
	const struct names_view *view, const struct err *err, const char *body, size_t len)
{
	if (view->lasts && !view->stale && api_shares(api, request)) {
		const struct shared_item item = { .cache = api->cache,
			.source = SHARED_OF_ANYTHING,
			.etag = "",
			.err = err,
			.value = body,
			.value_len = len };
		api_share(api, request, text, &item);
	}
}

static void respond(struct http_request *request, struct http_response *response,
	const struct names_view *view, const char *age, const char *attributes)
{
	http_response_header(response, "Age", age);
	http_response_header(response, "X-Cache", view->stale ? "STALE" : "HIT");
	http_response_header(response, "Cache-Control", "no-cache");
	api_say_filter(response, attributes);
	http_answer(request, 200, response);
	http_response_free(response);
}

static void answer_lines(const struct api *api, struct http_request *request,
	const struct names_view *view, unsigned parts, const char *near, const char *age,
	const char *attributes)
{
	struct buffer lines;
	buffer_init(&lines, LINES_MAX_BYTES);
	names_write_lines(view, parts, near, &lines);
	struct http_response *response = http_response_create(
		"text/plain; charset=utf-8", buffer_text(&lines), lines.len);
	share(api, request, true, view, NULL, buffer_text(&lines), lines.len);
	respond(request, response, view, age, attributes);
	buffer_finish(&lines);
}

static void answer_json(const struct api *api, struct http_request *request, const char *name,
	const struct names_view *view, unsigned parts, uint32_t ttl_s, const char *near,
	const char *age, const char *attributes)
{
	json_t *json = names_json(view, name, parts, ttl_s, near);
	char *text = api_json_text(json);
	struct http_response *response = http_response_create(
		"application/json", text, strlen(text));
	share(api, request, false, view, NULL, text, strlen(text));
	free(text);
	respond(request, response, view, age, attributes);
}

static void answer(const struct question *question, const struct names_view *view)
{
	struct api *api = question->api;
	struct http_request *request = question->request;
	const char *name = question->name;
	const char *near = question->is_near ? question->near : NULL;
	const char *attributes = *question->attributes ? question->attributes : NULL;
	struct err err = ERR_INIT;
	char age[24];
	snprintf(age, sizeof(age), "%lld", (long long)(view->age_ms + 999) / 1000);
	switch (view->answer->status) {
	case NAMES_FOUND:
		if (question->text) {
			answer_lines(api, request, view, question->parts, near, age, attributes);
		} else {
			answer_json(api, request, name, view, question->parts,
				view->stale ? api->options.names_stale_ttl_s
					    : api->options.names_ttl_s,
				near, age, attributes);
		}
		return;
	case NAMES_ABSENT:
		err_set(&err, BERTH_PATH_NOT_FOUND, "no record has the name %s", name);
		share(api, request, question->text, view, &err, "", 0);
		break;
	case NAMES_OUTSIDE:
		err_set(&err, BERTH_PATH_NOT_FOUND, "%s is not below the domain %s", name,
			names_lookups_domain(api->names));
		break;
	case NAMES_PENDING:
	case NAMES_UNKNOWN:
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE,
			"the registry is away, and %s is not known", name);
		break;
	}
	api_problem(request, 0, &err);
}

static void on_answer(void *context, const struct names_view *view)
{
	struct question *question = context;
	answer(question, view);
	free(question);
}

static void on_closed(void *context)
{
	struct question *question = context;
	names_cancel(&question->wait);
	free(question);
}

static bool read_parts(struct http_request *request, unsigned *ret_parts)
{
	char type[TYPE_BYTES] = "";
	struct err err = ERR_INIT;
	if (http_parameter(request, "type", type, sizeof(type), &err) < 0) {
		api_bad_request(request, err.msg);
		return false;
	}
	*ret_parts = type[0] ? names_part(type) : NAMES_PART_ALL;
	if (*ret_parts == 0) {
		api_bad_request(request, "type must be A, AAAA, SRV, TXT, PTR or ANY");
	}
	return *ret_parts != 0;
}

/* The zone in `out`; *ret_is_near: there is one. False: the request has been answered. */
static bool read_near(
	const struct api *api, struct http_request *request, char out[256], bool *ret_is_near)
{
	struct err err = ERR_INIT;
	*ret_is_near = http_parameter(request, "near", out, 256, &err) > 0 && out[0];
	if (*ret_is_near && strcmp(out, "self") == 0) {
		snprintf(out, 256, "%s", api->options.zone ? api->options.zone : "");
	} else if (*ret_is_near && config_verify_zone(out, &err)) {
		err_wrap(&err, "query parameter near");
	}
	if (err.code) {
		api_bad_request(request, err.msg);
	}
	return err.code == 0;
}

void api_names(struct api *api, struct http_request *request, const char *rest)
{
	struct names_view view;
	unsigned parts;
	if (!read_parts(request, &parts)) {
		return;
	}
	bool text = !http_accepts(request->accept, "application/json", true);
	if (text && !http_accepts(request->accept, "text/plain", true)) {
		api_not_acceptable(request, "this is application/json or text/plain");
		return;
	}
	if (strlen(rest) >= NAMES_NAME_BYTES) {
		api_bad_request(request, "a name has at most 253 bytes");
		return;
	}
	struct question *question = allocate_zeroed(1, sizeof(*question));
	*question =
		(struct question){ .api = api, .request = request, .parts = parts, .text = text };
	struct err err = ERR_INIT;
	if (!read_near(api, request, question->near, &question->is_near)) {
		free(question);
		return;
	}
	const struct names_question asked = { rest,
		api_attributes(request, question->attributes, &err) };
	if (err.code) {
		api_bad_request(request, err.msg);
		free(question);
		return;
	}
	question->wait.on_answer = on_answer;
	question->wait.context = question;
	strcpy(question->name, rest);
	if (names_ask(api->names, &asked, &view, &question->wait)) {
		on_answer(question, &view);
		return;
	}
	http_on_closed(request, on_closed, question);
}
