#include "lib/berth.h"

#include <stdlib.h>
#include <string.h>

#include "lib/client/endpoints.h"
#include "lib/client/handle.h"
#include "lib/base/json_wide.h"
#include "lib/base/limits.h"
#include "lib/base/clock.h"

enum { TARGET_BYTES = LIMIT_PATH_BYTES + 4 * 1024 };

/* An answer that is kept, for "resolve once, re-read on trouble". */
struct berth_lookup {
	struct berth *berth;
	char *path;
	char *api;
	char *protocol;
	char *scope;
	struct berth_endpoints kept;
	bool has_answer;
	bool trouble;
	int64_t answered_ms;
};

/* ---- asking ----------------------------------------------------------------------------------- */

static int from_agent(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, bool no_cache, struct berth_endpoints *ret,
	struct err *err)
{
	char target[TARGET_BYTES];
	struct buffer query;
	buffer_init(&query, sizeof(target));
	if (filter) {
		handle_query(&query, "api", filter->api);
		handle_query(&query, "protocol", filter->protocol);
		handle_query(&query, "scope", filter->scope);
	}
	int code = query.failed ? err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long")
				: handle_target(target, sizeof(target), "endpoints", path,
					  buffer_text(&query), err);
	buffer_finish(&query);
	if (code != 0) {
		return code;
	}
	struct client_request request = { .method = "GET", .target = target, .no_cache = no_cache };
	struct client_response response;
	code = client_call(berth->client, &request, berth->timeout_ms, &response, NULL, err);
	if (code != 0) {
		return code;
	}
	json_t *array = json_loadb(buffer_text(&response.body), response.body.len, 0, NULL);
	code = endpoints_from_json(ret, array, err);
	if (code == 0) {
		ret->freshness = (struct berth_freshness){ response.age_s, response.stale };
	}
	json_decref(array);
	client_response_finish(&response);
	return code;
}

/* The record at the path itself, if it holds one. */
static int append_own(struct berth *berth, json_t *array, const char *path,
	const struct berth_endpoint_filter *filter, struct err *err)
{
	struct outcome outcome;
	struct err resolved = ERR_INIT;
	outcome_init(&outcome, berth);
	int code = outcome_wait(&outcome,
		registry_resolve(berth->registry, path, outcome_done, &outcome), &resolved);
	if (code == 0) {
		json_t *record = json_wide_loadb(outcome.data, outcome.data_len, 0, NULL);
		code = endpoints_append(array, path, record, filter, err);
		json_decref(record);
	} else if (code == BERTH_NO_RECORD) {
		code = 0;
	} else {
		err_set(err, code, "%s", resolved.msg);
	}
	outcome_finish(&outcome);
	return code;
}

static int append_children(struct berth *berth, json_t *array, const char *path,
	const struct berth_endpoint_filter *filter, struct err *err)
{
	struct outcome outcome;
	const char *child;
	json_t *record;
	outcome_init(&outcome, berth);
	int code = outcome_wait(&outcome,
		registry_records(berth->registry, path, outcome_progress, outcome_done, &outcome),
		err);
	json_object_foreach (outcome.records, child, record) {
		if (code == 0) {
			code = endpoints_append(array, child, record, filter, err);
		}
	}
	outcome_finish(&outcome);
	return code;
}

static int from_registry(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, struct berth_endpoints *ret, struct err *err)
{
	json_t *array = json_array();
	int code = array ? append_own(berth, array, path, filter, err)
			 : err_set(err, BERTH_FAILED, "out of memory");
	if (code == 0) {
		code = append_children(berth, array, path, filter, err);
	}
	if (code == 0) {
		code = endpoints_from_json(ret, array, err);
	}
	json_decref(array);
	return code;
}

static int get(struct berth *berth, const char *path, const struct berth_endpoint_filter *filter,
	bool no_cache, struct berth_endpoints *ret, struct err *err)
{
	return berth->client ? from_agent(berth, path, filter, no_cache, ret, err)
			     : from_registry(berth, path, filter, ret, err);
}

int berth_endpoints(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, struct berth_endpoints *ret_endpoints,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return get(berth, path, filter, false, ret_endpoints, &err) ? handle_fail(failure, &err)
								    : 0;
}

/* ---- resolve once, re-read on trouble --------------------------------------------------------- */

static bool copy(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return *ret || !text;
}

int berth_lookup_create(struct berth_lookup **ret_lookup, struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, struct berth_failure *failure)
{
	static const struct berth_endpoint_filter any;
	if (!filter) {
		filter = &any;
	}
	struct berth_lookup *lookup = calloc(1, sizeof(*lookup));
	if (!lookup || !copy(&lookup->path, path) || !copy(&lookup->api, filter->api) ||
		!copy(&lookup->protocol, filter->protocol) || !copy(&lookup->scope, filter->scope)) {
		berth_lookup_free(lookup);
		struct err err = ERR_INIT;
		err_set(&err, BERTH_FAILED, "out of memory");
		return handle_fail(failure, &err);
	}
	lookup->berth = berth;
	*ret_lookup = lookup;
	return 0;
}

void berth_lookup_free(struct berth_lookup *lookup)
{
	if (!lookup) {
		return;
	}
	berth_endpoints_finish(&lookup->kept);
	free(lookup->path);
	free(lookup->api);
	free(lookup->protocol);
	free(lookup->scope);
	free(lookup);
}

static int read_again(struct berth_lookup *lookup, struct err *err)
{
	struct berth_endpoints fresh;
	struct berth_endpoint_filter filter = { lookup->api, lookup->protocol, lookup->scope };
	int code = get(lookup->berth, lookup->path, &filter, lookup->trouble, &fresh, err);
	if (code != 0) {
		return code;
	}
	berth_endpoints_finish(&lookup->kept);
	lookup->kept = fresh;
	lookup->has_answer = true;
	lookup->trouble = false;
	lookup->answered_ms = clock_monotonic_ms() - fresh.freshness.age_s * 1000;
	return 0;
}

int berth_lookup_get(struct berth_lookup *lookup, const struct berth_endpoints **ret_endpoints,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	if ((!lookup->has_answer || lookup->trouble) && read_again(lookup, &err) != 0) {
		if (!lookup->has_answer) {
			return handle_fail(failure, &err);
		}
		lookup->kept.freshness.stale = true;
	}
	lookup->kept.freshness.age_s = (long)((clock_monotonic_ms() - lookup->answered_ms) / 1000);
	*ret_endpoints = &lookup->kept;
	return 0;
}

void berth_lookup_trouble(struct berth_lookup *lookup)
{
	lookup->trouble = true;
}
