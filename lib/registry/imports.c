/* The imports of a registry: which mounts there are. */
#include "lib/registry/mount.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"

static const struct registry_between between = { .submit = registry_mounts_submit,
	.abandon = registry_mounts_abandon,
	.unwatch = registry_mounts_unwatch };

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
		mounts[made] = same ? same : registry_mount_create(&imports[made]);
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
			registry_mount_unwatch_all(registry, old[i]);
		}
	}
	registry->foreign_paths = registry->foreign_paths || count > 0;
	registry->mounts = mounts;
	registry->mount_count = count;
	registry->between = &between;
	for (size_t i = 0; i < old_count; i++) {
		if (!contains(mounts, count, old[i])) {
			registry_mount_notify_all(registry, old[i]);
		}
	}
	for (size_t i = 0; i < count; i++) {
		if (!contains(old, old_count, mounts[i])) {
			registry_mount_notify_all(registry, mounts[i]);
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
