/*
 * Lookups, on both kinds of handle.
 */
#include "lib/berth.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/client/handle.h"

int berth_resolve(struct berth *berth, const char *path, struct berth_answer *ret_record,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return berth->ops->resolve(berth, path, ret_record, &err) ? handle_fail(failure, &err) : 0;
}

int berth_records(struct berth *berth, const char *path, struct berth_answer *ret_records,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return berth->ops->records(berth, path, ret_records, &err) ? handle_fail(failure, &err) : 0;
}

int berth_list(struct berth *berth, const char *path, struct berth_paths *ret_paths,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return berth->ops->list(berth, path, ret_paths, &err) ? handle_fail(failure, &err) : 0;
}

struct berth_freshness berth_last_freshness(const struct berth *berth)
{
	struct berth_freshness none = { .stale = false };
	return berth->client ? client_freshness(berth->client) : none;
}

int berth_stat(struct berth *berth, const char *path, struct berth_stat *ret_stat,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return berth->ops->stat(berth, path, ret_stat, &err) ? handle_fail(failure, &err) : 0;
}

int berth_exists(struct berth *berth, const char *path, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	struct berth_stat stat;
	int code = berth->ops->stat(berth, path, &stat, &err);
	if (code == BERTH_PATH_NOT_FOUND) {
		return 0;
	}
	return code ? handle_fail(failure, &err) : 1;
}

int berth_endpoints(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, struct berth_endpoints *ret_endpoints,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return berth->ops->endpoints(berth, path, filter, false, ret_endpoints, &err)
		? handle_fail(failure, &err)
		: 0;
}

int berth_endpoints_near(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, const char *zone,
	struct berth_endpoints *ret_endpoints, unsigned **ret_tiers, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	int code = handle_need_agent(berth, "a look-up by nearness", &err);
	if (code == 0) {
		code = handle_endpoints_near(
			berth, path, filter, zone, ret_endpoints, ret_tiers, &err);
	}
	return code ? handle_fail(failure, &err) : 0;
}

int berth_find(struct berth *berth, const struct berth_criteria *criteria,
	berth_on_progress *on_progress, void *context, struct berth_answer *ret_records,
	struct berth_failure *failure)
{
	static const struct berth_criteria any;
	struct err err = ERR_INIT;
	int code = berth->ops->find(
		berth, criteria ? criteria : &any, on_progress, context, ret_records, &err);
	return code ? handle_fail(failure, &err) : 0;
}

/* ---- resolve once, re-read on trouble ---- */

enum {
	CATCH_UP_MS = 1000, /* between two questions about a kept answer that is not in memory */
	CATCH_UP_TIMEOUT_MS = 100
};

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
	int64_t asked_ms;           /* when it was read last, or that was tried */
	struct memory_place memory; /* where the answer is in the agent's memory, if it is there */
};

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
		!copy(&lookup->protocol, filter->protocol) ||
		!copy(&lookup->scope, filter->scope)) {
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
	lookup->asked_ms = clock_monotonic_ms();
	int code = lookup->berth->ops->endpoints(
		lookup->berth, lookup->path, &filter, lookup->trouble, &fresh, err);
	lookup->memory = memory_place(&lookup->berth->memory);
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

/*
 * The kept answer is not, or no longer, what the agent's memory says: worth a question now and
 * then, which must not take long.
 */
static void catch_up(struct berth_lookup *lookup)
{
	struct berth *berth = lookup->berth;
	struct err err = ERR_INIT;
	int timeout_ms = berth->timeout_ms;
	if (!berth->client || !memory_may_help(&berth->memory) ||
		(!lookup->memory.map && clock_monotonic_ms() - lookup->asked_ms < CATCH_UP_MS)) {
		return;
	}
	berth->timeout_ms = timeout_ms < CATCH_UP_TIMEOUT_MS ? timeout_ms : CATCH_UP_TIMEOUT_MS;
	int code = read_again(lookup, &err);
	if (code == 0 && !lookup->memory.map && memory_is_open(&berth->memory)) {
		code = read_again(lookup, &err); /* the first has put it into memory */
	}
	lookup->kept.freshness.stale = lookup->kept.freshness.stale || code != 0;
	berth->timeout_ms = timeout_ms;
}

int berth_lookup_get(struct berth_lookup *lookup, const struct berth_endpoints **ret_endpoints,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	if (memory_unchanged(&lookup->berth->memory, &lookup->memory) && !lookup->trouble) {
		*ret_endpoints = &lookup->kept;
		return 0;
	}
	if (lookup->has_answer && !lookup->trouble) {
		catch_up(lookup);
	}
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
