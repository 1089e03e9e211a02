#include "agent/api/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/path.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"

enum {
	MAX_FINDS =
		32, /* sets of criteria: walking, waiting for their walk, or kept for when the registry is away */
	MAX_TCP_FINDS = 8, /* of which remote clients may begin no more */
	MAX_WALKS = 4,
	MAX_FOUND_BYTES = 16 * 1024 * 1024, /* of records: who wants more asks for less at a time */
	MAX_ANSWER_BYTES = 256 * 1024 * 1024,
	KEPT_BYTES = 1024 * 1024, /* the largest answer that is kept, and all of them */
	ALL_KEPT_BYTES = 4 * 1024 * 1024,
	KEY_BYTES = 2 * LIMIT_PATH_BYTES,
	PARAMETERS = 6
};

static const char *const names[PARAMETERS] = { "under", "api", "protocol", "type", "id",
	"persistence" };

struct finder {
	struct finder *next;
	struct api_find *find;
	struct http_request *request;
};

/*
 * One set of criteria: at most one walk is under way, whoever asks.
 *
 *   idle (its last answer may be kept) --> waiting --> walking --> idle
 *                                              \-- everybody left --/
 */
struct api_find {
	struct api_find *next;
	struct api *api;
	struct registry_request *walk;
	struct finder *finders;
	char *answer; /* the last one */
	size_t answer_len;
	double answered;
	double asked; /* since when somebody waits */
	char key[];   /* the values, each with its NUL */
};

static void add_headers(struct http_response *response, const char *etag, bool stale, double age)
{
	char seconds[24];
	snprintf(seconds, sizeof(seconds), "%ld", (long)age);
	http_response_etag(response, etag);
	http_response_header(response, "Age", seconds);
	http_response_header(response, "X-Cache", stale ? "STALE" : "MISS");
	http_response_header(response, "Cache-Control", "no-cache");
	http_response_header(response, "Vary", "Accept");
}

static struct http_response *make_response(
	const char *type, const char *text, const char *etag, bool stale, double age)
{
	struct http_response *response = http_response_create(type, text, strlen(text));
	add_headers(response, etag, stale, age);
	return response;
}

static struct http_request *take_finder(struct api_find *find)
{
	struct finder *finder = find->finders;
	struct http_request *request = finder->request;
	find->finders = finder->next;
	free(finder);
	return request;
}

/* With one response for all: it may be large. */
static void answer_all(struct api_find *find, const char *text, bool stale)
{
	struct api *api = find->api;
	double age = stale ? clock_monotonic_s() - find->answered : 0;
	char etag[32];
	snprintf(etag, sizeof(etag), "\"0-%016llx\"",
		(unsigned long long)hash_text(HASH_INIT, text));
	struct http_response *whole = make_response("application/json", text, etag, stale, age);
	while (find->finders) {
		struct http_request *request = take_finder(find);
		metrics_series_add(stale ? api->stale : api->misses, 1);
		metrics_series_observe(api->durations, clock_monotonic_s() - find->asked);
		http_answer(request, 200, whole);
	}
	http_response_free(whole);
}

/* Absence is an answer as good as any. */
static void tell_absence(struct api_find *find, const struct err *err)
{
	while (find->finders) {
		struct http_request *request = take_finder(find);
		struct http_response *response = api_problem_response(request, 0, err);
		add_headers(response, "\"3-0\"", false, 0);
		metrics_series_add(find->api->misses, 1);
		http_answer(request, err_http_status(err->code), response);
		http_response_free(response);
	}
}

static void fail_all(struct api_find *find, const struct err *err)
{
	while (find->finders) {
		metrics_series_add(find->api->errors, 1);
		api_problem(take_finder(find), 0, err);
	}
}

static void forget_answer(struct api_find *find)
{
	free(find->answer);
	find->answer = NULL;
	find->answer_len = 0;
}

static bool is_busy(const struct api_find *find)
{
	return find->walk || find->finders;
}

static size_t count_busy(const struct api *api)
{
	size_t count = 0;
	for (const struct api_find *find = api->finds; find; find = find->next) {
		count += is_busy(find);
	}
	return count;
}

/* Those that were not asked for longest give way, until what is left is within bounds. */
static void evict(struct api *api)
{
	for (;;) {
		size_t count = 0;
		size_t bytes = 0;
		struct api_find **idle = NULL;
		for (struct api_find **at = &api->finds; *at; at = &(*at)->next) {
			count++;
			bytes += (*at)->answer_len;
			idle = is_busy(*at) ? idle : at;
		}
		if (!idle || (count <= MAX_FINDS && bytes <= ALL_KEPT_BYTES)) {
			return;
		}
		struct api_find *oldest = *idle;
		*idle = oldest->next;
		forget_answer(oldest);
		free(oldest);
	}
}

/* ---- walking ---- */

static registry_done on_found;

static void walk(struct api_find *find)
{
	const char *values[PARAMETERS];
	const char *at = find->key;
	for (size_t i = 0; i < PARAMETERS; i++) {
		values[i] = *at ? at : NULL;
		at += strlen(at) + 1;
	}
	struct registry_criteria criteria = { values[0], values[1], values[2], values[3], values[4],
		values[5], MAX_FOUND_BYTES };
	find->walk = allocated(registry_find(find->api->registry, &criteria, NULL, on_found, find));
}

/* As many as may walk at once; who has waited longest goes first. */
static void walk_next(struct api *api)
{
	for (;;) {
		size_t walks = 0;
		struct api_find *first = NULL;
		for (struct api_find *find = api->finds; find; find = find->next) {
			walks += find->walk != NULL;
			if (find->finders && !find->walk &&
				(!first || find->asked <= first->asked)) {
				first = find;
			}
		}
		if (!first || walks >= MAX_WALKS) {
			return;
		}
		walk(first);
	}
}

/* Takes the text. */
static void keep_answer(struct api_find *find, char *text, size_t len)
{
	forget_answer(find);
	find->answer = text;
	find->answer_len = len;
	find->answered = clock_monotonic_s();
}

static char *write_found(const struct registry_result *result, size_t *ret_len)
{
	struct buffer out;
	buffer_init(&out, MAX_ANSWER_BYTES);
	for (size_t i = 0; i < result->found_count; i++) {
		const struct registry_found *found = &result->found[i];
		buffer_printf(&out, "%s\"%s\":", i ? "," : "{", found->path);
		buffer_append(&out, found->data, found->len);
	}
	buffer_append_text(&out, result->found_count ? "}\n" : "{}\n");
	char *text = buffer_take(&out, ret_len);
	buffer_finish(&out);
	return text;
}

static void on_found(void *context, const struct registry_result *result)
{
	struct api_find *find = context;
	struct api *api = find->api;
	find->walk = NULL;
	if (!result->err.code) {
		size_t len;
		char *text = allocated(write_found(result, &len));
		answer_all(find, text, false);
		if (len <= KEPT_BYTES) {
			keep_answer(find, text, len);
		} else {
			forget_answer(find);
			free(text);
		}
	} else if (find->answer &&
		(result->err.code == BERTH_REGISTRY_UNAVAILABLE ||
			result->err.code == BERTH_TIMEOUT)) {
		answer_all(find, find->answer, true);
	} else if (result->err.code == BERTH_PATH_NOT_FOUND) {
		tell_absence(find, &result->err);
	} else {
		fail_all(find, &result->err);
	}
	evict(api);
	walk_next(api);
}

/* ---- asking ---- */

/* A walk that nobody waits for any more ends with its last client. */
static void on_closed(void *context)
{
	struct finder *finder = context;
	struct api_find *find = finder->find;
	struct api *api = find->api;
	struct finder **at = &find->finders;
	while (*at != finder) {
		at = &(*at)->next;
	}
	*at = finder->next;
	free(finder);
	if (!find->finders && find->walk) {
		registry_cancel(api->registry, find->walk);
		find->walk = NULL;
		walk_next(api);
	}
}

/* Puts the criteria's find first. NULL: too many are busy to begin another one. */
static struct api_find *find_get(struct api *api, const char *key, size_t len, bool local)
{
	struct api_find **at = &api->finds;
	while (*at && memcmp((*at)->key, key, len) != 0) {
		at = &(*at)->next;
	}
	struct api_find *find = *at;
	if ((!find || !is_busy(find)) &&
		count_busy(api) >= (size_t)(local ? MAX_FINDS : MAX_TCP_FINDS)) {
		return NULL;
	}
	if (find) {
		*at = find->next;
	} else {
		find = allocate_zeroed(1, sizeof(*find) + KEY_BYTES);
		find->api = api;
		memcpy(find->key, key, len);
	}
	find->next = api->finds;
	api->finds = find;
	return find;
}

static void join(struct api_find *find, struct http_request *request)
{
	struct finder *finder = allocate_zeroed(1, sizeof(*finder));
	finder->find = find;
	finder->request = request;
	finder->next = find->finders;
	find->asked = is_busy(find) ? find->asked : clock_monotonic_s();
	find->finders = finder;
	http_on_closed(request, on_closed, finder);
}

/* The values of all parameters, one behind the other; the length, or an error. */
static int read_key(const struct http_request *request, char *key, struct err *err)
{
	size_t len = 0;
	for (size_t i = 0; i < PARAMETERS; i++) {
		key[len] = '\0';
		size_t room = KEY_BYTES - len - (PARAMETERS - i);
		if (http_parameter(request, names[i], key + len, room, err) < 0) {
			return err->code;
		}
		len += strlen(key + len) + 1;
	}
	return (int)len;
}

void api_find(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	char key[KEY_BYTES] = "";
	struct err err = ERR_INIT;
	int len = read_key(request, key, &err);
	if (len < 0) {
		api_bad_request(request, err.msg);
		return;
	}
	if (*key && path_check(key, strlen(key), &err)) {
		api_problem(request, 0, &err);
		return;
	}
	if (!http_accepts(request->accept, "application/json", true)) {
		api_not_acceptable(request, "this is application/json");
		return;
	}
	struct api_find *find = find_get(api, key, (size_t)len, request->local);
	if (!find) {
		err_set(&err, BERTH_LIMIT_EXCEEDED, "too many searches are under way");
		api_problem(request, 503, &err);
		return;
	}
	join(find, request);
	evict(api);
	walk_next(api);
}

void api_find_finish(struct api *api)
{
	while (api->finds) {
		struct api_find *find = api->finds;
		api->finds = find->next;
		if (find->walk) {
			registry_cancel(api->registry, find->walk);
		}
		forget_answer(find);
		free(find);
	}
}
