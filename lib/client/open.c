/*
 * Opening a handle on whatever is meant. This file needs everything that this folder and a registry
 * need; a program that follows an agent alone does not link it (open.h).
 */
#include "lib/client/open.h"

#include <string.h>

#include "lib/client/handle.h"

static bool is_registry_url(const char *where)
{
	/* A URL of another kind is refused as such, and not taken for the path of a socket. */
	return registry_is_url(where) || strstr(where, "://");
}

static int open_registry(struct berth **ret_berth, const char *url,
	const struct berth_options *options, struct berth_failure *failure)
{
	struct berth *berth = NULL;
	struct err err = ERR_INIT;
	int code = handle_create(&berth, &err);
	if (code == 0) {
		berth_set_timeout(berth, options->timeout_ms);
		code = handle_open_registry(berth, url, options, &err);
	}
	if (code != 0) {
		berth_close(berth);
		return handle_fail(failure, &err);
	}
	handle_arm(berth);
	*ret_berth = berth;
	return 0;
}

int berth_open(struct berth **ret_berth, const char *where, const struct berth_options *options,
	struct berth_failure *failure)
{
	static const struct berth_options defaults;
	options = options ? options : &defaults;
	if (where && is_registry_url(where)) {
		return open_registry(ret_berth, where, options, failure);
	}
	int code = berth_open_agent(ret_berth, where, failure);
	if (code == 0) {
		berth_set_timeout(*ret_berth, options->timeout_ms);
	}
	return code;
}
