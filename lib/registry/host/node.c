#include "lib/registry/host/node.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/hex.h"

static void take_stat(struct registry_stat *stat, const json_t *node)
{
	json_int_t size = json_integer_value(json_object_get(node, "size"));
	*stat = (struct registry_stat){
		.created_ms = json_integer_value(json_object_get(node, "created_ms")),
		.modified_ms = json_integer_value(json_object_get(node, "modified_ms")),
		.node_id = (uint64_t)json_integer_value(json_object_get(node, "node_id")),
		.version = json_integer_value(json_object_get(node, "version")),
		.size = size > 0 ? (size_t)size : 0,
		.ephemeral = json_is_true(json_object_get(node, "ephemeral")),
	};
}

static void take_data(struct registry_task *task, const json_t *node)
{
	const json_t *data = json_object_get(node, "data");
	size_t len = json_string_length(data);
	task->ret_data = malloc(len + 1);
	if (!task->ret_data) {
		err_set(&task->ret_err, BERTH_FAILED, "no memory for %s", task->path);
		return;
	}
	memcpy(task->ret_data, len ? json_string_value(data) : "", len);
	task->ret_data[len] = '\0';
	task->ret_len = len;
}

/* In place: the core escapes foreign names itself. */
static void unescape(char *name)
{
	char *out = name;
	for (const char *at = name; *at; at++) {
		int byte = *at == '%' ? hex_byte(at + 1) : -1;
		if (byte > 0) {
			*out++ = (char)byte;
			at += 2;
		} else {
			*out++ = *at;
		}
	}
	*out = '\0';
}

/* False without memory. */
static bool take_names(const json_t *names, char ***ret_names, size_t *ret_count)
{
	size_t count = json_array_size(names);
	char **taken = calloc(count + 1, sizeof(*taken));
	bool whole = taken != NULL;
	*ret_names = taken;
	for (size_t i = 0; whole && i < count; i++) {
		const char *name = json_string_value(json_array_get(names, i));
		if (name && *name) {
			taken[*ret_count] = strdup(name);
			whole = taken[*ret_count] != NULL;
			*ret_count += whole;
		}
	}
	return whole;
}

static size_t bytes_of(const json_t *names)
{
	size_t bytes = 0;
	size_t index;
	json_t *name;
	json_array_foreach (names, index, name) {
		bytes += json_string_length(name) + 1;
	}
	return bytes;
}

static void take_children(struct registry_task *task, const json_t *node)
{
	const json_t *names = json_object_get(node, "names");
	const json_t *foreign = json_object_get(node, "foreign");
	size_t count = json_array_size(names) + json_array_size(foreign);
	if (!registry_list_fits(
		    task->path, count, bytes_of(names) + bytes_of(foreign), &task->ret_err)) {
		return;
	}
	if (!take_names(names, &task->ret_children, &task->ret_children_count) ||
		!take_names(foreign, &task->ret_foreign, &task->ret_foreign_count)) {
		err_set(&task->ret_err, BERTH_FAILED, "no memory to list %s", task->path);
		return;
	}
	for (size_t i = 0; i < task->ret_foreign_count; i++) {
		unescape(task->ret_foreign[i]);
	}
}

static void take_error(struct registry_task *task, const char *name, const char *why)
{
	int code = berth_error_from_name(name);
	if (code == BERTH_OK) {
		code = BERTH_FAILED;
	}
	err_set(&task->ret_err, code, "%s", why && *why ? why : name);
}

void host_node_take(struct registry_task *task, const json_t *event)
{
	const char *error = json_string_value(json_object_get(event, "error"));
	const json_t *node = json_object_get(event, "node");
	if (error) {
		take_error(task, error, json_string_value(json_object_get(event, "why")));
	} else if (json_is_null(node)) {
		err_set(&task->ret_err, BERTH_PATH_NOT_FOUND, "%s does not exist", task->path);
	} else if (!json_is_object(node)) {
		err_set(&task->ret_err, BERTH_FAILED,
			"the host's agent says nothing of %s that this agent understands",
			task->path);
	} else {
		take_stat(&task->ret_stat, node);
		if (task->operation == REGISTRY_OP_GET) {
			take_data(task, node);
		} else if (task->operation == REGISTRY_OP_CHILDREN) {
			take_children(task, node);
		} else {
			/* How many there are is in the list of an inner node. */
			task->ret_stat.children = task->ret_stat.ephemeral ? 0 : 1;
		}
	}
}
