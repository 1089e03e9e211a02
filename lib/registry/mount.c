/* One mount, and the names of its members. */
#include "lib/registry/mount.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"

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

/* ---- coming and going ---- */

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

struct registry_mount *registry_mount_create(const struct registry_import *import)
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
