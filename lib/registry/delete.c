/*
 * Requests that take one node away: delete and withdraw. walk.c deletes trees.
 *
 *     withdraw:  REMOVE --(the node has children)--> EMPTY --> done
 *                  '--(gone, or it was absent)------------------^
 */
#include "lib/registry/internal.h"

#include <string.h>

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

static void submit_delete(struct registry_request *request, const struct registry_stat *expected,
	void (*completed)(struct registry_call *call))
{
	request->call.completed = completed;
	if (registry_request_refuse_path(request) || registry_request_refuse_root(request)) {
		return;
	}
	if (expected) {
		request->call.task.has_expected = true;
		request->call.task.expected = *expected;
	}
	registry_request_submit(request, REGISTRY_OP_DELETE);
}

struct registry_request *registry_delete(struct registry *registry, const char *path,
	enum registry_delete_mode mode, const struct registry_stat *expected,
	registry_progress *progress, registry_done *done, void *context)
{
	if (mode != REGISTRY_DELETE_NODE) {
		return registry_delete_tree(
			registry, path, mode, expected, progress, done, context);
	}
	struct registry_request *request = registry_request_create(
		registry, sizeof(*request), path, done, context);
	if (!request) {
		return NULL;
	}
	submit_delete(request, expected, on_deleted);
	return request;
}

/* ---- Withdraw ---- */

struct withdraw_request {
	struct registry_request base;
	struct registry_stat expected;
};

static void on_emptied(struct registry_call *call)
{
	struct registry_result result = { .err = call->task.ret_err, .stat = call->task.ret_stat };
	if (result.err.code == BERTH_PATH_NOT_FOUND) {
		err_clear(&result.err);
		result.stat = (struct registry_stat){ 0 };
	} else {
		result.emptied = !result.err.code;
	}
	registry_request_complete(call->owner, &result);
}

/* The node stays for its children. A second withdrawal of an emptied node writes nothing. */
static void empty(struct withdraw_request *request)
{
	struct registry_call *call = &request->base.call;
	registry_call_clear(call);
	if (request->expected.size == 0) {
		call->task.ret_stat = request->expected;
		on_emptied(call);
		return;
	}
	call->completed = on_emptied;
	call->task.data = "";
	call->task.has_expected = true;
	call->task.expected = request->expected;
	registry_request_submit(&request->base, REGISTRY_OP_SET);
}

static void on_withdrawn(struct registry_call *call)
{
	if (call->task.ret_err.code == BERTH_PATH_IS_NOT_EMPTY_DIRECTORY) {
		empty(call->owner);
	} else {
		on_deleted(call);
	}
}

struct registry_request *registry_withdraw(struct registry *registry, const char *path,
	const struct registry_stat *expected, registry_done *done, void *context)
{
	struct withdraw_request *request = registry_request_create(
		registry, sizeof(*request), path, done, context);
	if (!request) {
		return NULL;
	}
	request->expected = *expected;
	submit_delete(&request->base, expected, on_withdrawn);
	return &request->base;
}
