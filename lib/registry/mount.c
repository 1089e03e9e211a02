/* The list of mounts, what notifications mean for them, and the names of members. */
#include "lib/registry/mount.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/registry/watched.h"

/* ---- members ---- */

static void forget_names(struct registry_mount *mount)
{
	for (size_t i = 0; i < mount->name_count; i++) {
		free(mount->names[i]);
	}
	free(mount->names);
	free(mount->entries);
	mount->names = NULL;
	mount->name_count = 0;
	mount->entries = NULL;
	mount->entry_count = 0;
}

int registry_mount_learn_take(struct registry_mount *mount, char **names, size_t count)
{
	forget_names(mount);
	mount->names = names;
	mount->name_count = count;
	mount->entries = calloc(count + 1, sizeof(*mount->entries));
	if (!mount->entries) {
		return -1;
	}
	mount->entry_count = dialect_entries(mount->entries, mount->type, names, count);
	return 0;
}

static int compare_label(const void *label, const void *entry)
{
	return strcmp(label, ((const struct dialect_entry *)entry)->label);
}

const char *registry_mount_listed(const struct registry_mount *mount, const char *label)
{
	const struct dialect_entry *entry = mount->entry_count == 0
		? NULL
		: bsearch(label, mount->entries, mount->entry_count, sizeof(*mount->entries),
			  compare_label);
	return entry ? entry->name : NULL;
}

const char *registry_mount_name(
	const struct registry_mount *mount, const char *label, char out[DIALECT_LABEL_SIZE])
{
	if (dialect_entry_name(out, mount->type, label)) {
		return out;
	}
	return dialect_ranks(mount->type) ? NULL : registry_mount_listed(mount, label);
}

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

/* ---- the list ---- */

struct registry_mount *registry_mount_at(const struct registry *registry, const char *path)
{
	for (size_t i = 0; i < registry->mount_count; i++) {
		if (path_is_under(path, registry->mounts[i]->as)) {
			return registry->mounts[i];
		}
	}
	return NULL;
}

void registry_mount_release(struct registry_mount *mount)
{
	if (--mount->users > 0) {
		return;
	}
	forget_names(mount);
	free(mount->group);
	free(mount->as);
	free(mount);
}

static struct registry_mount *mount_create(const struct registry_import *import)
{
	struct registry_mount *mount = calloc(1, sizeof(*mount));
	if (!mount) {
		return NULL;
	}
	mount->users = 1;
	mount->type = import->type;
	mount->as = strdup(import->as);
	if (asprintf(&mount->group, "/%s", import->from) < 0) {
		mount->group = NULL;
	}
	if (!mount->as || !mount->group) {
		registry_mount_release(mount);
		return NULL;
	}
	return mount;
}

static bool is_same(const struct registry_mount *mount, const struct registry_import *import)
{
	return mount->type == import->type && strcmp(mount->as, import->as) == 0 &&
		strcmp(mount->group + 1, import->from) == 0;
}

static struct registry_mount *find_same(
	const struct registry *registry, const struct registry_import *import)
{
	for (size_t i = 0; i < registry->mount_count; i++) {
		if (is_same(registry->mounts[i], import)) {
			return registry->mounts[i];
		}
	}
	return NULL;
}

static void free_mounts(struct registry_mount **mounts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		registry_mount_release(mounts[i]);
	}
	free(mounts);
}

static void unwatch_path(struct registry *registry, struct registry_mount *mount, const char *path)
{
	if (strcmp(path, mount->as) != 0) {
		unwatch_member(registry, mount, path + strlen(mount->as) + 1);
	}
}

static void unwatch_mount(struct registry *registry, struct registry_mount *mount)
{
	for_watched(registry, mount, unwatch_path);
	unwatch_foreign(registry, mount->group, REGISTRY_WATCH_DATA);
	unwatch_foreign(registry, mount->group, REGISTRY_WATCH_CHILDREN);
}

static bool contains(
	struct registry_mount *const *mounts, size_t count, const struct registry_mount *mount)
{
	for (size_t i = 0; i < count; i++) {
		if (mounts[i] == mount) {
			return true;
		}
	}
	return false;
}

/* A mount has come or gone: the watched paths below and above it are read again. */
static void notify_changed(struct registry *registry, struct registry_mount *mount)
{
	char above[LIMIT_PATH_BYTES + 1];
	for_watched(registry, mount, notify_path);
	strcpy(above, mount->as);
	for (size_t len; (len = path_parent_len(above)) > 0;) {
		above[len] = '\0';
		notify_path(registry, mount, above);
	}
}

static int check_imports(const struct registry_import *imports, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (path_check(imports[i].as, strlen(imports[i].as), err) ||
			path_foreign_check(imports[i].from, strlen(imports[i].from), err)) {
			return err->code;
		}
		for (size_t j = 0; j < i; j++) {
			if (path_is_under(imports[i].as, imports[j].as) ||
				path_is_under(imports[j].as, imports[i].as)) {
				return err_set(err, BERTH_INVALID_PATHNAME,
					"the imports at %s and %s overlap", imports[j].as,
					imports[i].as);
			}
		}
	}
	return 0;
}

int registry_set_imports(struct registry *registry, const struct registry_import *imports,
	size_t count, struct err *err)
{
	if (check_imports(imports, count, err)) {
		return err->code;
	}
	struct registry_mount **old = registry->mounts;
	size_t old_count = registry->mount_count;
	struct registry_mount **mounts = calloc(count + 1, sizeof(*mounts));
	size_t made = 0;
	for (; mounts && made < count; made++) {
		struct registry_mount *same = find_same(registry, &imports[made]);
		mounts[made] = same ? same : mount_create(&imports[made]);
		if (!mounts[made]) {
			break;
		}
		mounts[made]->users += same != NULL;
	}
	if (!mounts || made < count) {
		free_mounts(mounts, made);
		return err_set(err, BERTH_FAILED, "no memory for imports");
	}
	for (size_t i = 0; i < old_count; i++) {
		if (!contains(mounts, count, old[i])) {
			unwatch_mount(registry, old[i]);
		}
	}
	registry->foreign_paths = registry->foreign_paths || count > 0;
	registry->mounts = mounts;
	registry->mount_count = count;
	for (size_t i = 0; i < old_count; i++) {
		if (!contains(mounts, count, old[i])) {
			notify_changed(registry, old[i]);
		}
	}
	for (size_t i = 0; i < count; i++) {
		if (!contains(old, old_count, mounts[i])) {
			notify_changed(registry, mounts[i]);
		}
	}
	free_mounts(old, old_count);
	return 0;
}

void registry_mounts_finish(struct registry *registry)
{
	free_mounts(registry->mounts, registry->mount_count);
	registry->mounts = NULL;
	registry->mount_count = 0;
}
