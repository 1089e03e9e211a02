/*
 * Lookups, on both kinds of handle.
 */
#include "lib/berth.h"

#include <stdlib.h>
#include <string.h>

#include "lib/client/handle.h"
#include "lib/client/kept.h"

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

int berth_find_with_attributes(struct berth *berth, const struct berth_criteria *criteria,
	const char *const *attributes, struct berth_answer *ret_records,
	struct berth_failure *failure)
{
	static const struct berth_criteria any;
	struct err err = ERR_INIT;
	int code = handle_need_agent(berth, "a filter by attributes", &err);
	if (code == 0) {
		code = handle_find(
			berth, criteria ? criteria : &any, attributes, ret_records, &err);
	}
	return code ? handle_fail(failure, &err) : 0;
}

/* ---- resolve once, re-read on trouble ---- */

struct berth_lookup {
	struct kept kept;
	char *path;
	char *api;
	char *protocol;
	char *scope;
	struct berth_endpoints found;
};

static bool copy(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return *ret || !text;
}

static int read_again(void *context, bool past_caches, struct err *err)
{
	struct berth_lookup *lookup = context;
	struct berth *berth = lookup->kept.berth;
	struct berth_endpoints fresh;
	struct berth_endpoint_filter filter = { lookup->api, lookup->protocol, lookup->scope };
	int code = berth->ops->endpoints(berth, lookup->path, &filter, past_caches, &fresh, err);
	if (code != 0) {
		return code;
	}
	berth_endpoints_finish(&lookup->found);
	lookup->found = fresh;
	lookup->kept.freshness = fresh.freshness;
	return 0;
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
	lookup->kept = (struct kept){ .berth = berth, .read = read_again, .context = lookup };
	*ret_lookup = lookup;
	return 0;
}

void berth_lookup_free(struct berth_lookup *lookup)
{
	if (!lookup) {
		return;
	}
	berth_endpoints_finish(&lookup->found);
	free(lookup->path);
	free(lookup->api);
	free(lookup->protocol);
	free(lookup->scope);
	free(lookup);
}

int berth_lookup_get(struct berth_lookup *lookup, const struct berth_endpoints **ret_endpoints,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	if (!kept_is_current(&lookup->kept) && kept_renew(&lookup->kept, &err)) {
		return handle_fail(failure, &err);
	}
	lookup->found.freshness = lookup->kept.freshness;
	*ret_endpoints = &lookup->found;
	return 0;
}

void berth_lookup_trouble(struct berth_lookup *lookup)
{
	lookup->kept.trouble = true;
}
