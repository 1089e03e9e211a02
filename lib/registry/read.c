/* The requests that read one node: get, resolve, stat, list. */
#include "lib/registry/internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/record/record.h"

static struct registry_request *start(struct registry *registry, size_t size, const char *path,
	enum registry_operation operation, void (*completed)(struct registry_call *call),
	registry_done *done, void *context)
{
	struct registry_request *request = registry_request_create(
		registry, size, path, done, context);
	if (!request) {
		return NULL;
	}
	request->call.completed = completed;
	if (!registry_request_refuse_path(request)) {
		registry_request_submit(request, operation);
	}
	return request;
}

static struct registry_result result_of(const struct registry_task *task)
{
	return (struct registry_result){ .err = task->ret_err,
		.stat = task->ret_stat,
		.data = task->ret_data,
		.data_len = task->ret_len };
}

static void on_read(struct registry_call *call)
{
	struct registry_result result = result_of(&call->task);
	registry_request_complete(call->owner, &result);
}

struct registry_request *registry_get(
	struct registry *registry, const char *path, registry_done *done, void *context)
{
	return start(registry, sizeof(struct registry_request), path, REGISTRY_OP_GET, on_read,
		done, context);
}

/* Any answer for the root proves that the server was heard. */
static void on_confirmed(struct registry_call *call)
{
	struct registry_result result = { .err = call->task.ret_err };
	if (result.err.code == BERTH_PATH_NOT_FOUND ||
		result.err.code == BERTH_NO_PATH_PERMISSIONS) {
		err_clear(&result.err);
	}
	registry_request_complete(call->owner, &result);
}

struct registry_request *registry_confirm(
	struct registry *registry, int64_t since_ms, registry_done *done, void *context)
{
	const char *top = *registry->at ? registry->at : "/";
	struct registry_request *request = registry_request_create(
		registry, sizeof(*request), top, done, context);
	if (request) {
		request->call.completed = on_confirmed;
		request->call.task.confirms = true;
		request->call.task.since_ms = since_ms;
		registry_request_submit(request, REGISTRY_OP_STAT);
	}
	return request;
}

static void on_resolved(struct registry_call *call)
{
	struct registry_request *request = call->owner;
	struct registry_result result = result_of(&call->task);
	if (!result.err.code) {
		struct record *record = NULL;
		if (record_decode(&record, result.data, result.data_len, &result.err)) {
			err_wrap(&result.err, "%s", request->path);
		}
		record_free(record);
	}
	registry_request_complete(request, &result);
}

struct registry_request *registry_resolve(
	struct registry *registry, const char *path, registry_done *done, void *context)
{
	return start(registry, sizeof(struct registry_request), path, REGISTRY_OP_GET, on_resolved,
		done, context);
}

/* ---- Stat and list ---- */

/*
 * Completes the request with the list of children, or with an error when memory is short. Call
 * free(children->paths) afterwards.
 */
static void complete_with_children(const struct registry_request *request,
	struct registry_children *children, struct registry_result *result)
{
	const struct registry_task *task = &request->call.task;
	if (registry_children_init(children, request->path, task, false)) {
		err_set(&result->err, BERTH_FAILED, "no memory to list %s", request->path);
	} else {
		registry_children_put(children, result);
	}
}

static void on_children(struct registry_call *call)
{
	struct registry_request *request = call->owner;
	struct registry_result result = result_of(&call->task);
	struct registry_children children = { .paths = NULL };
	if (!result.err.code) {
		complete_with_children(request, &children, &result);
	}
	registry_request_complete(request, &result);
	free(children.paths);
}

struct registry_request *registry_list(
	struct registry *registry, const char *path, registry_done *done, void *context)
{
	return start(registry, sizeof(struct registry_request), path, REGISTRY_OP_CHILDREN,
		on_children, done, context);
}

/* A stat gives the number of children, but not whether all of them have valid names. */
struct stat_request {
	struct registry_request base;
	struct registry_stat stat;
};

static void on_counted(struct registry_call *call)
{
	struct stat_request *request = call->owner;
	struct registry_result result = result_of(&call->task);
	struct registry_children children = { .paths = NULL };
	if (result.err.code == BERTH_NO_PATH_PERMISSIONS) {
		/* A node that may not be listed still has a stat. */
		registry_request_succeed(&request->base, &request->stat);
		return;
	}
	if (!result.err.code) {
		complete_with_children(&request->base, &children, &result);
		free(children.paths);
	}
	if (result.err.code) {
		registry_request_fail(&request->base, &result.err);
	} else {
		registry_request_succeed(&request->base, &result.stat);
	}
}

static void on_stat(struct registry_call *call)
{
	struct stat_request *request = call->owner;
	if (call->task.ret_err.code || call->task.ret_stat.children == 0) {
		on_read(call);
		return;
	}
	request->stat = call->task.ret_stat;
	registry_call_clear(call);
	call->completed = on_counted;
	registry_request_submit(&request->base, REGISTRY_OP_CHILDREN);
}

struct registry_request *registry_stat(
	struct registry *registry, const char *path, registry_done *done, void *context)
{
	return start(registry, sizeof(struct stat_request), path, REGISTRY_OP_STAT, on_stat, done,
		context);
}
