/* Requests and calls: their making, their way to the backend, and their end. */
#include "lib/registry/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/record/record.h"
#include "lib/base/clock.h"

int64_t registry_call_deadline_ms(const struct registry *registry)
{
	return clock_monotonic_ms() + registry->request_timeout_ms;
}

/* Why nothing can be sent now; 0 when it can, or may wait for the connection. */
static int unavailable(const struct registry *registry, struct err *err)
{
	switch (registry->state) {
	case REGISTRY_CONNECTING:
	case REGISTRY_CONNECTED:
		return 0;
	case REGISTRY_DENIED:
		return err_set(err, BERTH_AUTHENTICATION_FAILED,
			"the registry %s refuses our credentials", registry->url);
	case REGISTRY_AWAY:
	case REGISTRY_LOST:
		break;
	}
	return err_set(err, BERTH_REGISTRY_UNAVAILABLE, "the registry %s cannot be reached now",
		registry->url);
}

void registry_call_refuse(
	struct registry *registry, struct registry_call *call, const struct err *err)
{
	struct registry_task *task = &call->task;
	call->registry = registry;
	call->state = REGISTRY_CALL_REFUSED;
	task->owner = call;
	task->ret_err = *err;
	list_append(&registry->refused, &call->link);
}

const char *registry_backend_path(const struct registry *registry, const char *path)
{
	if (path_is_foreign(path) || !*registry->at) {
		return path;
	}
	const char *below = path + strlen(registry->at);
	return *below ? below : "/";
}

bool registry_path_of_backend(
	const struct registry *registry, const char *path, char out[LIMIT_PATH_BYTES + 1])
{
	const char *at = path_is_foreign(path) ? "" : registry->at;
	const char *below = *at && strcmp(path, "/") == 0 ? "" : path;
	return snprintf(out, LIMIT_PATH_BYTES + 1, "%s%s", at, below) <= LIMIT_PATH_BYTES;
}

static bool is_hidden(const struct registry *registry, const char *path)
{
	return *registry->hidden && path_is_under(path, registry->hidden);
}

static bool reads(const struct registry_task *task)
{
	return task->operation == REGISTRY_OP_GET || task->operation == REGISTRY_OP_CHILDREN ||
		task->operation == REGISTRY_OP_STAT;
}

/* Nobody has asked the registry itself. */
static void refuse_hidden(struct registry *registry, struct registry_call *call)
{
	struct err err = ERR_INIT;
	if (reads(&call->task)) {
		err_set(&err, BERTH_PATH_NOT_FOUND, "%s: no such path", call->task.path);
	} else {
		err_set(&err, BERTH_NO_PATH_PERMISSIONS,
			"%s: %s and all below it stands for other registries, which can be read "
			"only",
			call->task.path, registry->hidden);
	}
	registry_call_refuse(registry, call, &err);
}

/* Takes the hidden node out of the list of its siblings. */
static void hide(struct registry *registry, struct registry_task *task)
{
	const char *name = registry->hidden + 1;
	for (size_t i = 0; i < task->ret_children_count; i++) {
		if (strcmp(task->ret_children[i], name) != 0) {
			continue;
		}
		free(task->ret_children[i]);
		task->ret_children[i] = task->ret_children[--task->ret_children_count];
		if (!registry->has_hidden && registry->on_log) {
			char text[LIMIT_PATH_BYTES + 128];
			snprintf(text, sizeof(text),
				"the registry %s has a node at %s, which nobody sees here: that "
				"path stands for other registries",
				registry->url, registry->hidden);
			registry->on_log(registry->context, REGISTRY_LOG_WARN, text);
		}
		registry->has_hidden = true;
		return;
	}
}

/* True when the call waits for an answer now. */
static bool call_begins(struct registry *registry, struct registry_call *call, int64_t deadline_ms)
{
	struct err err = ERR_INIT;
	if (unavailable(registry, &err)) {
		registry_call_refuse(registry, call, &err);
		return false;
	}
	call->registry = registry;
	call->state = REGISTRY_CALL_SUBMITTED;
	call->path = call->task.path;
	call->submitted_s = clock_monotonic_s();
	call->task.owner = call;
	call->task.deadline_ms = deadline_ms;
	return true;
}

static void submit(struct registry *registry, struct registry_call *call)
{
	call->task.path = registry_backend_path(registry, call->path);
	registry->ops->submit(registry->backend, &call->task);
}

void registry_call_send(struct registry *registry, struct registry_call *call, int64_t deadline_ms)
{
	if (call_begins(registry, call, deadline_ms)) {
		submit(registry, call);
	}
}

void registry_call_submit(
	struct registry *registry, struct registry_call *call, int64_t deadline_ms)
{
	if (is_hidden(registry, call->task.path)) {
		refuse_hidden(registry, call);
	} else if (call_begins(registry, call, deadline_ms) &&
		!(registry->between && registry->between->submit(registry, call))) {
		submit(registry, call);
	}
}

static void free_names(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(names[i]);
	}
	free(names);
}

void registry_task_move_results(struct registry_task *to, struct registry_task *from)
{
	to->ret_err = from->ret_err;
	to->ret_stat = from->ret_stat;
	to->ret_data = from->ret_data;
	to->ret_len = from->ret_len;
	to->ret_childless = from->ret_childless;
	to->ret_children = from->ret_children;
	to->ret_children_count = from->ret_children_count;
	to->ret_foreign = from->ret_foreign;
	to->ret_foreign_count = from->ret_foreign_count;
	from->ret_data = NULL;
	from->ret_children = NULL;
	from->ret_children_count = 0;
	from->ret_foreign = NULL;
	from->ret_foreign_count = 0;
}

void registry_call_clear(struct registry_call *call)
{
	struct registry_task *task = &call->task;
	free(task->ret_data);
	free_names(task->ret_children, task->ret_children_count);
	free_names(task->ret_foreign, task->ret_foreign_count);
	*task = (struct registry_task){ 0 };
}

void registry_call_finish(struct registry_call *call)
{
	if (call->mount_read) {
		call->registry->between->abandon(call);
	} else if (call->state == REGISTRY_CALL_SUBMITTED) {
		call->registry->ops->abandon(call->registry->backend, &call->task);
	} else if (call->state == REGISTRY_CALL_REFUSED) {
		list_remove(&call->link);
	}
	call->state = REGISTRY_CALL_IDLE;
	registry_call_clear(call);
}

/* Turns the backend's result into that of whoever asked. */
static void see_result(struct registry *registry, struct registry_call *call)
{
	struct registry_task *task = &call->task;
	if (task->path != call->path && task->ret_err.code) {
		err_wrap(&task->ret_err, "%s", registry->at);
	}
	task->path = call->path;
	if (*registry->hidden && task->operation == REGISTRY_OP_CHILDREN &&
		strcmp(task->path, "/") == 0) {
		hide(registry, task);
	}
}

void registry_call_completed(struct registry_task *task)
{
	struct registry_call *call = task->owner;
	struct registry *registry = call->registry;
	if (call->state == REGISTRY_CALL_SUBMITTED && registry->on_answer) {
		int code = task->ret_err.code;
		bool exists = call->may_exist && code == BERTH_FILE_ALREADY_EXISTS;
		registry->on_answer(registry->context, exists ? 0 : code,
			clock_monotonic_s() - call->submitted_s);
	}
	if (call->state == REGISTRY_CALL_SUBMITTED) {
		see_result(registry, call);
	}
	call->state = REGISTRY_CALL_IDLE;
	if (task->ret_data) {
		record_trim(task->ret_data, &task->ret_len);
	}
	call->completed(call);
}

void registry_calls_complete_refused(struct registry *registry)
{
	/* Those that callbacks refuse now wait for the next dispatch. */
	struct list now;
	list_init(&now);
	list_move_all(&now, &registry->refused);
	while (!list_empty(&now)) {
		struct registry_call *call = LIST_ITEM(now.next, struct registry_call, link);
		list_remove(&call->link);
		registry_call_completed(&call->task);
	}
}

void *registry_request_create(struct registry *registry, size_t size, const char *path,
	registry_done *done, void *context)
{
	struct registry_request *request = calloc(1, size);
	if (!request) {
		return NULL;
	}
	request->path = strdup(path);
	if (!request->path) {
		free(request);
		return NULL;
	}
	request->registry = registry;
	request->done = done;
	request->context = context;
	request->call.owner = request;
	request->deadline_ms = registry_call_deadline_ms(registry);
	list_append(&registry->requests, &request->link);
	return request;
}

static void free_unlisted(struct registry_request *request)
{
	if (request->release) {
		request->release(request);
	}
	registry_call_finish(&request->call);
	free(request->path);
	free(request);
}

void registry_request_free(struct registry_request *request)
{
	list_remove(&request->link);
	free_unlisted(request);
}

int registry_path_check(const struct registry *registry, const char *path, struct err *err)
{
	if (registry->foreign_paths && path_is_foreign(path)) {
		return path_foreign_check(path + 1, strlen(path + 1), err);
	}
	if (path_check(path, strlen(path), err)) {
		return err->code;
	}
	return path_is_under(path, *registry->at ? registry->at : "/")
		? 0
		: err_set(err, BERTH_PATH_NOT_FOUND, "%s is not below %s", path, registry->at);
}

bool registry_path_twin(
	const struct registry *registry, const char *path, char out[LIMIT_PATH_BYTES + 1])
{
	if (!registry->foreign_paths) {
		return false;
	}
	const char *root = registry->ops->root ? registry->ops->root(registry->backend) : "";
	size_t root_len = strlen(root);
	const char *below = path + 1 + root_len;
	if (!path_is_foreign(path)) {
		return snprintf(out, LIMIT_PATH_BYTES + 1, "/%s%s", root,
			       registry_backend_path(registry, path)) <= LIMIT_PATH_BYTES;
	}
	if (strncmp(path + 1, root, root_len) != 0 || (*below != '/' && *below != '\0')) {
		return false;
	}
	return registry_path_of_backend(registry, *below ? below : "/", out);
}

bool registry_request_refuse_path(struct registry_request *request)
{
	struct err err = ERR_INIT;
	if (registry_path_check(request->registry, request->path, &err) == 0) {
		return false;
	}
	registry_call_refuse(request->registry, &request->call, &err);
	return true;
}

bool registry_request_refuse_root(struct registry_request *request)
{
	if (strcmp(request->path, "/") != 0) {
		return false;
	}
	struct err err = ERR_INIT;
	err_set(&err, BERTH_INVALID_PATHNAME, "the root / cannot be deleted");
	registry_call_refuse(request->registry, &request->call, &err);
	return true;
}

void registry_request_submit(struct registry_request *request, enum registry_operation operation)
{
	request->call.task.operation = operation;
	if (!request->call.task.path) {
		request->call.task.path = request->path;
	}
	registry_call_submit(request->registry, &request->call, request->deadline_ms);
}

void registry_request_complete(
	struct registry_request *request, const struct registry_result *result)
{
	request->completing = true;
	list_remove(&request->link);
	request->done(request->context, result);
	free_unlisted(request);
}

void registry_request_fail(struct registry_request *request, const struct err *err)
{
	struct registry_result result = { .err = *err };
	registry_request_complete(request, &result);
}

void registry_request_succeed(struct registry_request *request, const struct registry_stat *stat)
{
	struct registry_result result = { .stat = *stat };
	registry_request_complete(request, &result);
}

void registry_cancel(struct registry *registry, struct registry_request *request)
{
	(void)registry;
	if (request && !request->completing) {
		registry_request_free(request);
	}
}
