#include "lib/registry/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/registry/internal.h"

/* There are many of both, and neither needs memory of its own. */
static const struct registry_value absent = { .code = BERTH_PATH_NOT_FOUND };
static const struct registry_value childless = { .stat = { .ephemeral = true } };

const struct registry_value *registry_value_absent(void)
{
	return &absent;
}

const struct registry_value *registry_value_childless(void)
{
	return &childless;
}

/* Behind the value lie its data and its reason. */
static struct registry_value *create(
	const struct err *err, const struct registry_stat *stat, const char *data, size_t len)
{
	size_t why_len = err->code ? strlen(err->msg) : 0;
	size_t bytes = sizeof(struct registry_value) + len + 1 + (why_len ? why_len + 1 : 0);
	struct registry_value *value = malloc(bytes);
	if (!value) {
		return NULL;
	}
	char *text = (char *)(value + 1);
	*value = (struct registry_value){
		.references = 1, .code = err->code, .stat = *stat, .bytes = bytes
	};
	value->stat.children = 0; /* a get may have counted children that it did not read */
	value->stat.foreign = 0;
	if (data) {
		value->data = memcpy(text, data, len);
		value->data_len = len;
	}
	text[len] = '\0';
	if (why_len) {
		value->why = memcpy(text + len + 1, err->msg, why_len + 1);
	}
	return value;
}

const struct registry_value *registry_value_of_data(const struct registry_task *task)
{
	if (task->ret_err.code == BERTH_PATH_NOT_FOUND) {
		return &absent;
	}
	return create(&task->ret_err, &task->ret_stat, task->ret_data,
		task->ret_data ? task->ret_len : 0);
}

const struct registry_value *registry_value_of_list(
	const char *path, const struct registry_task *task)
{
	if (task->ret_err.code == BERTH_PATH_NOT_FOUND) {
		return &absent;
	}
	struct registry_children children = { .paths = NULL };
	struct registry_value *value = create(&task->ret_err, &task->ret_stat, NULL, 0);
	if (!value || (!value->code && registry_children_init(&children, path, task, false))) {
		free(value);
		return NULL;
	}
	value->stat.children = children.count;
	value->stat.foreign = children.foreign_count;
	if (children.count + children.foreign_count > 0) {
		value->children = children.paths;
		value->bytes += children.bytes;
	} else {
		free(children.paths);
	}
	return value;
}

/* One block: the pointers, and behind them the texts. */
static char *const *copy_list(char *const *children, size_t count, size_t *ret_bytes)
{
	size_t bytes = count * sizeof(char *);
	for (size_t i = 0; i < count; i++) {
		bytes += strlen(children[i]) + 1;
	}
	char **copy = malloc(bytes);
	char *at = (char *)(copy + count);
	for (size_t i = 0; copy && i < count; i++) {
		copy[i] = at;
		at = stpcpy(at, children[i]) + 1;
	}
	*ret_bytes = bytes;
	return copy;
}

const struct registry_value *registry_value_copy(const struct registry_result *result)
{
	struct registry_value *value = create(
		&result->err, &result->stat, result->data, result->data_len);
	size_t count = result->children_count + result->foreign_count;
	if (!value || count == 0) {
		return value;
	}
	size_t bytes;
	value->children = copy_list(result->children, count, &bytes);
	if (!value->children) {
		free(value);
		return NULL;
	}
	value->stat.children = result->children_count;
	value->stat.foreign = result->foreign_count;
	value->bytes += bytes;
	return value;
}

const struct registry_value *registry_value_hold(const struct registry_value *value)
{
	if (value && value->references > 0) {
		((struct registry_value *)(uintptr_t)value)->references++;
	}
	return value;
}

void registry_value_release(const struct registry_value *value)
{
	struct registry_value *own = (struct registry_value *)(uintptr_t)value;
	if (own && own->references > 0 && --own->references == 0) {
		free((void *)(uintptr_t)own->children);
		free(own);
	}
}

bool registry_value_exists(const struct registry_value *value)
{
	return value->code == 0 || value->code == BERTH_NO_RECORD ||
		value->code == BERTH_INVALID_RECORD;
}

bool registry_value_is_whole_list(const struct registry_value *list)
{
	return list->code == 0 || list->code == BERTH_PATH_NOT_FOUND;
}

static int compare_path(const void *path, const void *child)
{
	return strcmp(path, *(char *const *)child);
}

bool registry_value_names(const struct registry_value *list, const char *path)
{
	return list->stat.children > 0 &&
		bsearch(path, list->children, list->stat.children, sizeof(*list->children),
			compare_path) != NULL;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_list(const struct registry_value *a, const struct registry_value *b)
{
	bool same = a->stat.children == b->stat.children && a->stat.foreign == b->stat.foreign;
	for (size_t i = 0; same && i < a->stat.children + a->stat.foreign; i++) {
		same = strcmp(a->children[i], b->children[i]) == 0;
	}
	return same;
}

bool registry_value_same(const struct registry_value *a, const struct registry_value *b)
{
	return a == b ||
		(a->code == b->code && same_text(a->why, b->why) && a->data_len == b->data_len &&
			(a->data_len == 0 || memcmp(a->data, b->data, a->data_len) == 0) &&
			same_list(a, b));
}

void registry_value_result(
	const struct registry_value *value, const char *path, struct registry_result *ret_result)
{
	*ret_result = (struct registry_result){ .stat = value->stat,
		.data = value->data,
		.data_len = value->data_len,
		.children = value->children,
		.children_count = value->stat.children,
		.foreign = value->children ? value->children + value->stat.children : NULL,
		.foreign_count = value->stat.foreign,
		.value = value };
	if (value->why) {
		err_set(&ret_result->err, value->code, "%s", value->why);
	} else if (value->code) {
		err_set(&ret_result->err, value->code, "%s: %s", path,
			value->code == BERTH_PATH_NOT_FOUND ? "no such path"
							    : berth_error_name(value->code));
	}
}
