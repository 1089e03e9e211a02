/*
 * The bottom of this folder: errors and answers in their public form.
 */
#include "lib/client/handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_text.h"

int handle_fail(struct berth_failure *failure, const struct err *err)
{
	if (failure) {
		failure->code = err->code;
		snprintf(failure->message, sizeof(failure->message), "%s", err->msg);
	}
	return err->code;
}

int handle_need_agent(const struct berth *berth, const char *what, struct err *err)
{
	return berth->client
		? 0
		: err_set(err, BERTH_FAILED, "%s is for an agent, and this handle is on a registry",
			  what);
}

int handle_need_registry(const struct berth *berth, const char *what, struct err *err)
{
	return berth->registry
		? 0
		: err_set(err, BERTH_FAILED, "%s is for a registry, and this handle is on an agent",
			  what);
}

void berth_answer_finish(struct berth_answer *answer)
{
	free(answer->json);
	answer->json = NULL;
}

void berth_paths_finish(struct berth_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++) {
		free(paths->items[i]);
	}
	free(paths->items);
	for (size_t i = 0; i < paths->foreign_count; i++) {
		free(paths->foreign[i]);
	}
	free(paths->foreign);
	*paths = (struct berth_paths){ .items = NULL };
}

int answer_from_json(struct berth_answer *ret, const json_t *json, struct err *err)
{
	char *text = json_text(json, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!text) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	*ret = (struct berth_answer){ .json = text, .len = strlen(text) };
	return 0;
}
