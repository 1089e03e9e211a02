/* Reads the records of a directory, or those of a tree that match. */
#include "lib/registry/walk.h"

#include <stdio.h>

#include "lib/base/limits.h"
#include "lib/record/record.h"

struct find {
	struct walk walk;
	struct registry_criteria criteria;
};

bool find_take(struct walk_node *node, struct registry_task *task,
	const struct registry_criteria *criteria)
{
	struct walk *walk = node->walk;
	struct record *record = NULL;
	struct err err = ERR_INIT;
	if (task->ret_err.code) {
		return false;
	}
	if (record_decode(&record, task->ret_data, task->ret_len, &err)) {
		if (err.code == BERTH_FAILED) {
			walk->err = err; /* no memory: it may match */
		}
		return false;
	}
	bool matches = registry_criteria_match(criteria, record);
	if (matches) {
		registry_matches_add_found(
			&walk->matches, node->path, task, criteria->max_bytes, &walk->err);
	}
	record_free(record);
	return matches;
}

bool find_ignores(const struct walk_node *node, int code)
{
	return node->parent && (code == BERTH_PATH_NOT_FOUND || code == BERTH_NO_PATH_PERMISSIONS);
}

void find_on_listed(struct walk_node *node, const struct registry_children *children)
{
	const struct registry *registry = node->walk->base.registry;
	size_t count = children->too_long;
	if (count > 0 && registry->on_log) {
		char message[LIMIT_PATH_BYTES + 128];
		snprintf(message, sizeof(message),
			"%s: %zu %s passed over: a path of more than %d bytes", node->path, count,
			count == 1 ? "child is" : "children are", LIMIT_PATH_BYTES);
		registry->on_log(registry->context, REGISTRY_LOG_WARN, message);
	}
}

static void on_read(struct walk_node *node, struct registry_task *task)
{
	find_take(node, task, &((const struct find *)node->walk)->criteria);
}

static bool reads_all(const struct walk_node *node)
{
	(void)node;
	return true;
}

static bool reads_children(const struct walk_node *node)
{
	return node->parent != NULL;
}

static void release(struct walk *walk)
{
	registry_criteria_finish(&((struct find *)walk)->criteria);
}

struct registry_request *registry_records(struct registry *registry, const char *path,
	registry_progress *progress, registry_done *done, void *context)
{
	static const struct walk_kind kind = { .reads = reads_children,
		.ignores = find_ignores,
		.on_read = on_read,
		.on_listed = find_on_listed };
	struct find *find = walk_create(
		registry, sizeof(*find), &kind, path, progress, done, context);
	return find ? walk_start(&find->walk) : NULL;
}

struct registry_request *registry_find(struct registry *registry,
	const struct registry_criteria *criteria, registry_progress *progress, registry_done *done,
	void *context)
{
	static const struct walk_kind kind = { .lists_reads = true,
		.reads = reads_all,
		.ignores = find_ignores,
		.on_read = on_read,
		.on_listed = find_on_listed,
		.release = release };
	const char *under = criteria->under ? criteria->under : "/";
	struct find *find = walk_create(
		registry, sizeof(*find), &kind, under, progress, done, context);
	if (find && registry_criteria_copy(&find->criteria, criteria)) {
		registry_request_free(&find->walk.base);
		return NULL;
	}
	return find ? walk_start(&find->walk) : NULL;
}
