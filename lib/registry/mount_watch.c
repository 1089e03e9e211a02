/* Notifications and watches of foreign nodes, as those of the paths of mounts. */
#include "lib/registry/mount.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/registry/watched.h"

/* ---- notifications ---- */

/* Nobody who watches the foreign path itself loses the backend's watch. */
static void unwatch_foreign(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	char twin[LIMIT_PATH_BYTES + 1];
	if (!watched_find(registry, path, kind) &&
		!(registry_path_twin(registry, path, twin) && watched_find(registry, twin, kind))) {
		registry->ops->unwatch(registry->backend, path, kind);
	}
}

typedef void visit_path(struct registry *registry, struct registry_mount *mount, const char *path);

/* Visits the watched paths at the mount's `as` and below. */
static void for_watched(struct registry *registry, struct registry_mount *mount, visit_path *visit)
{
	const struct list *all = &registry->watches.all;
	for (const struct list *at = all->next; at != all; at = at->next) {
		const char *path = LIST_ITEM(at, struct registry_watched, link)->path;
		if (path_is_under(path, mount->as)) {
			visit(registry, mount, path);
		}
	}
}

static void notify_path(struct registry *registry, struct registry_mount *mount, const char *path)
{
	(void)mount;
	registry_watches_notified(registry, path, REGISTRY_WATCH_DATA, false);
	registry_watches_notified(registry, path, REGISTRY_WATCH_CHILDREN, false);
}

/* A new list may give a name to a label that had none. */
static void notify_unnamed(
	struct registry *registry, struct registry_mount *mount, const char *path)
{
	char name[DIALECT_LABEL_SIZE];
	const char *label = path + strlen(mount->as);
	if (*label && !registry_mount_name(mount, label + 1, name)) {
		notify_path(registry, mount, path);
	}
}

static void on_group(struct registry *registry, struct registry_mount *mount,
	enum registry_watch_kind kind, bool gone)
{
	if (gone) {
		notify_path(registry, mount, mount->as);
	} else {
		registry_watches_notified(registry, mount->as, kind, false);
	}
	if (kind == REGISTRY_WATCH_CHILDREN || gone) {
		for_watched(registry, mount, notify_unnamed);
	}
	if (dialect_reads_group(mount->type) && (kind == REGISTRY_WATCH_DATA || gone)) {
		for_watched(registry, mount, notify_path);
	}
}

static void on_member(
	struct registry *registry, struct registry_mount *mount, const char *node, bool gone)
{
	char label[DIALECT_LABEL_SIZE];
	char path[LIMIT_PATH_BYTES + 1];
	if (dialect_ranks(mount->type)) {
		if (gone) {
			unwatch_foreign(registry, node, REGISTRY_WATCH_DATA);
		}
		for_watched(registry, mount, notify_path);
		return;
	}
	dialect_label(label, path_name(node));
	if (path_join(path, sizeof(path), mount->as, label, NULL)) {
		return;
	}
	registry_watches_notified(registry, path, REGISTRY_WATCH_DATA, gone);
	if (!gone) {
		registry_watches_notified(registry, path, REGISTRY_WATCH_CHILDREN, false);
	}
}

static void notified(struct registry *registry, struct registry_mount *mount, const char *path,
	enum registry_watch_kind kind, bool gone)
{
	size_t len = strlen(mount->group);
	if (strncmp(path, mount->group, len) != 0) {
		return;
	}
	if (path[len] == '\0') {
		on_group(registry, mount, kind, gone);
	} else if (path[len] == '/' && !strchr(path + len + 1, '/')) {
		on_member(registry, mount, path, gone);
	}
}

void registry_mounts_notified(
	struct registry *registry, const char *path, enum registry_watch_kind kind, bool gone)
{
	char twin[LIMIT_PATH_BYTES + 1];
	if (registry->mount_count == 0) {
		return;
	}
	if (!path_is_foreign(path)) {
		if (!registry_path_twin(registry, path, twin)) {
			return;
		}
		path = twin;
	}
	for (size_t i = 0; i < registry->mount_count; i++) {
		notified(registry, registry->mounts[i], path, kind, gone);
	}
}

/* ---- unwatching ---- */

static void unwatch_member(
	struct registry *registry, const struct registry_mount *mount, const char *label)
{
	char known[DIALECT_LABEL_SIZE];
	char *path = NULL;
	const char *name = dialect_ranks(mount->type) ? registry_mount_listed(mount, label)
						      : registry_mount_name(mount, label, known);
	if (name && asprintf(&path, "%s/%s", mount->group, name) >= 0) {
		unwatch_foreign(registry, path, REGISTRY_WATCH_DATA);
		free(path);
	}
}

bool registry_mounts_unwatch(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	const struct registry_mount *mount = registry_mount_at(registry, path);
	if (!mount) {
		return false;
	}
	enum registry_watch_kind other = kind == REGISTRY_WATCH_DATA ? REGISTRY_WATCH_CHILDREN
								     : REGISTRY_WATCH_DATA;
	/* The group's own watches serve all of the mount, and stay as long as it. */
	if (strcmp(path, mount->as) != 0 && !watched_find(registry, path, other)) {
		unwatch_member(registry, mount, path + strlen(mount->as) + 1);
	}
	return true;
}

static void unwatch_path(struct registry *registry, struct registry_mount *mount, const char *path)
{
	if (strcmp(path, mount->as) != 0) {
		unwatch_member(registry, mount, path + strlen(mount->as) + 1);
	}
}

void registry_mount_unwatch_all(struct registry *registry, struct registry_mount *mount)
{
	for_watched(registry, mount, unwatch_path);
	unwatch_foreign(registry, mount->group, REGISTRY_WATCH_DATA);
	unwatch_foreign(registry, mount->group, REGISTRY_WATCH_CHILDREN);
}

/* ---- mounts that come and go ---- */

void registry_mount_notify_all(struct registry *registry, struct registry_mount *mount)
{
	char above[LIMIT_PATH_BYTES + 1];
	for_watched(registry, mount, notify_path);
	strcpy(above, mount->as);
	for (size_t len; (len = path_parent_len(above)) > 0;) {
		above[len] = '\0';
		notify_path(registry, mount, above);
	}
}
