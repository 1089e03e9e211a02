/* Deleting one node; trees are in walk.c. */
#include "lib/registry/internal.h"

#include <string.h>

#include "lib/registry/walk.h"

static void on_deleted(struct registry_call *call)
{
	struct registry_result result = { .err = call->task.ret_err };
	if (result.err.code == BERTH_PATH_NOT_FOUND) {
		err_clear(&result.err);
	} else if (!result.err.code) {
		result.count = 1;
	}
	registry_request_complete(call->owner, &result);
}

struct registry_request *registry_delete(struct registry *registry, const char *path,
	bool recursive, const struct registry_stat *expected, registry_progress *progress,
	registry_done *done, void *context)
{
	if (recursive) {
		return registry_delete_tree(registry, path, expected, progress, done, context);
	}
	struct registry_request *request = registry_request_create(
		registry, sizeof(*request), path, done, context);
	if (!request) {
		return NULL;
	}
	request->call.completed = on_deleted;
	if (registry_request_refuse_path(request) || registry_request_refuse_root(request)) {
		return request;
	}
	if (expected) {
		request->call.task.has_expected = true;
		request->call.task.expected = *expected;
	}
	registry_request_submit(request, REGISTRY_OP_DELETE);
	return request;
}
