/* The requests that are one read each. */
#include "lib/registry/internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/record/record.h"

static struct registry_request *start(struct registry *registry, const char *path,
	enum registry_operation operation, void (*completed)(struct registry_call *call),
	registry_done *done, void *context)
{
	struct registry_request *request = registry_request_create(
		registry, sizeof(*request), path, done, context);
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
	return start(registry, path, REGISTRY_OP_GET, on_read, done, context);
}

struct registry_request *registry_stat(
	struct registry *registry, const char *path, registry_done *done, void *context)
{
	return start(registry, path, REGISTRY_OP_STAT, on_read, done, context);
}

/* Whatever the server says of the root, it has been heard. */
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
	struct registry *registry, registry_done *done, void *context)
{
	return start(registry, "/", REGISTRY_OP_STAT, on_confirmed, done, context);
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
	return start(registry, path, REGISTRY_OP_GET, on_resolved, done, context);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **registry_child_paths(const char *path, char *const *names, size_t count, size_t *ret_count)
{
	size_t parent_len = strcmp(path, "/") == 0 ? 0 : strlen(path);
	size_t size = sizeof(char *);
	for (size_t i = 0; i < count; i++) {
		size += sizeof(char *) + parent_len + 1 + strlen(names[i]) + 1;
	}
	char **paths = malloc(size);
	if (!paths) {
		return NULL;
	}
	char *text = (char *)(paths + count + 1);
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(names[i]);
		if (!path_element_valid(names[i], len)) {
			continue;
		}
		paths[kept++] = text;
		text = mempcpy(text, path, parent_len);
		*text++ = '/';
		text = mempcpy(text, names[i], len + 1);
	}
	paths[kept] = NULL;
	qsort(paths, kept, sizeof(*paths), compare_paths);
	*ret_count = kept;
	return paths;
}

static void on_listed(struct registry_call *call)
{
	struct registry_request *request = call->owner;
	struct registry_result result = result_of(&call->task);
	char **paths = NULL;
	if (!result.err.code) {
		paths = registry_child_paths(request->path, call->task.ret_children,
			call->task.ret_children_count, &result.children_count);
		result.children = paths;
		result.stat.children = call->task.ret_children_count;
		if (!paths) {
			err_set(&result.err, BERTH_FAILED, "no memory to list %s", request->path);
		}
	}
	registry_request_complete(request, &result);
	free(paths);
}

struct registry_request *registry_list(
	struct registry *registry, const char *path, registry_done *done, void *context)
{
	return start(registry, path, REGISTRY_OP_CHILDREN, on_listed, done, context);
}
