/* From the names that a backend lists to the children that users see. */
#include "lib/registry/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/path.h"

bool registry_list_fits(const char *path, size_t count, size_t bytes, struct err *err)
{
	size_t each = strlen(path) + sizeof(char *) + 1;
	if (bytes <= LIMIT_LIST_BYTES && count <= (LIMIT_LIST_BYTES - bytes) / each) {
		return true;
	}
	err_set(err, BERTH_LIMIT_EXCEEDED, "a list of %zu children is larger than %d MiB: %s",
		count, LIMIT_LIST_BYTES / (1024 * 1024), path);
	return false;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_element(const char *parent, const char *name, size_t len)
{
	return path_is_foreign(parent) ? path_foreign_element_valid(name, len)
				       : path_element_valid(name, len);
}

static bool is_plain(char c)
{
	return c > ' ' && c < 0x7f && !strchr("%\"\\", c);
}

static size_t escaped_bytes(const char *name)
{
	size_t bytes = 0;
	for (const char *c = name; *c; c++) {
		bytes += is_plain(*c) ? 1 : strlen("%XX");
	}
	return bytes;
}

/*
 * Writes the name in a form that fits into a line, a URL and JSON text. Returns the end of the
 * text.
 */
static char *escape(char *out, const char *name)
{
	for (const char *c = name; *c; c++) {
		if (is_plain(*c)) {
			*out++ = *c;
		} else {
			out += sprintf(out, "%%%02X", (unsigned char)*c);
		}
	}
	*out = '\0';
	return out;
}

/*
 * Writes the full path of a child, escaped unless `escaped` is false. Returns the place behind the
 * NUL.
 */
static char *write_path(
	char *out, const char *parent, size_t parent_len, const char *name, bool escaped)
{
	out = mempcpy(out, parent, parent_len);
	*out++ = '/';
	return (escaped ? escape(out, name) : stpcpy(out, name)) + 1;
}

static void split(struct registry_children *children, const char *path,
	const struct registry_task *task, bool raw)
{
	size_t count = task->ret_children_count + task->ret_foreign_count;
	size_t parent_len = strcmp(path, "/") == 0 ? 0 : strlen(path);
	char *text = (char *)(children->paths + count + 1);
	for (size_t i = 0; i < count; i++) {
		bool is_node = i < task->ret_children_count;
		const char *name = is_node ? task->ret_children[i]
					   : task->ret_foreign[i - task->ret_children_count];
		size_t len = strlen(name);
		bool is_name = is_node && is_element(path, name, len);
		if (is_name && parent_len + 1 + len <= LIMIT_PATH_BYTES) {
			children->paths[children->count++] = text;
			text = write_path(text, path, parent_len, name, false);
		} else {
			children->foreign_count++;
			children->paths[count - children->foreign_count] = text;
			children->too_long += is_name;
			text = write_path(text, path, parent_len, name, !raw);
		}
	}
}

static size_t names_bytes(const char *path, char *const *names, size_t count)
{
	size_t path_len = strlen(path);
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++) {
		bytes += sizeof(char *) + path_len + 1 + escaped_bytes(names[i]) + 1;
	}
	return bytes;
}

/*
 * A server that lies may name a child more than once. Returns how many are left of the sorted list.
 */
static size_t drop_doubled(char **paths, size_t count)
{
	size_t left = 0;
	for (size_t i = 0; i < count; i++) {
		if (left == 0 || strcmp(paths[left - 1], paths[i]) != 0) {
			paths[left++] = paths[i];
		}
	}
	return left;
}

int registry_children_init(struct registry_children *children, const char *path,
	const struct registry_task *task, bool raw)
{
	size_t bytes = sizeof(char *) +
		names_bytes(path, task->ret_children, task->ret_children_count) +
		names_bytes(path, task->ret_foreign, task->ret_foreign_count);
	*children = (struct registry_children){ .paths = malloc(bytes), .bytes = bytes };
	if (!children->paths) {
		return -1;
	}
	split(children, path, task, raw);
	children->foreign = children->paths + children->count;
	children->paths[children->count + children->foreign_count] = NULL;
	qsort(children->paths, children->count, sizeof(char *), compare_paths);
	qsort(children->foreign, children->foreign_count, sizeof(char *), compare_paths);
	children->count = drop_doubled(children->paths, children->count);
	children->foreign_count = drop_doubled(children->foreign, children->foreign_count);
	return 0;
}

void registry_children_put(const struct registry_children *children, struct registry_result *result)
{
	result->children = children->paths;
	result->children_count = children->count;
	result->foreign = children->foreign;
	result->foreign_count = children->foreign_count;
	result->stat.children = children->count;
	result->stat.foreign = children->foreign_count;
}
