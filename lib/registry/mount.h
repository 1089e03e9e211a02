/*
 * Mounts: groups of nodes that other programs wrote, as records in this registry's tree.
 *
 * A mount works between the registry's core and its backend. A call whose path is the mount's
 * `as`, or lies below or above it, is not given to the backend as it is:
 *
 *     above `as`     the backend's answer, with the way down to the mount added to it
 *     `as` itself    a node without data, which always exists; its children are the group's members
 *     as/LABEL       the member's node, read and turned into a record by its dialect
 *     deeper         absent
 *     writes at and below `as` are refused
 *
 * So watches, caches, searches and streams see ordinary nodes and know of no dialect. A call may
 * need more than the member's node; that is read before it, one after another:
 *
 *     NAMES --(the label means a name)--> GROUP --(Registrar's service record)--> NODE --> done
 *
 * NAMES is for labels that lead to a name through the list of members alone; GROUP for dialects
 * that look at the group's own data. A notification for a foreign node is one for every path that
 * depends on it.
 */
#ifndef LIB_REGISTRY_MOUNT_H
#define LIB_REGISTRY_MOUNT_H

#include "lib/dialect/read.h"
#include "lib/registry/internal.h"

struct registry_mount {
	enum dialect_type type;
	char *as;
	char *group;    /* `from`, as a foreign path of the registry */
	unsigned users; /* the registry while it is mounted, and the calls that use it */
	/* The group's members when they were listed last: what a hash in a label means. */
	char **names;
	size_t name_count;
	struct dialect_entry *entries;
	size_t entry_count;
};

/* ---- mount.c ---- */

/* The mount whose `as` is the path or above it; NULL: none. */
struct registry_mount *registry_mount_at(const struct registry *registry, const char *path);
/* With one user. NULL without memory. */
struct registry_mount *registry_mount_create(const struct registry_import *import);
/* One user less. */
void registry_mount_release(struct registry_mount *mount);
/* Takes a list of the group's children. 0, or -1 without memory. */
int registry_mount_learn_take(struct registry_mount *mount, char **names, size_t count)
	__attribute__((warn_unused_result));
/* The name that a label means as far as is known; NULL: the list has to be read. */
const char *registry_mount_name(
	const struct registry_mount *mount, const char *label, char out[DIALECT_LABEL_SIZE]);
/* The name with this label in the list that was read last. */
const char *registry_mount_listed(const struct registry_mount *mount, const char *label);

/* ---- mount_read.c ---- */

/* Takes the call over when it concerns a mount; false: it is the backend's. */
bool registry_mounts_submit(struct registry *registry, struct registry_call *call);
/* Takes back a call that registry_mounts_submit() took over. */
void registry_mounts_abandon(struct registry_call *call);

/* ---- mount_watch.c ---- */

/* The backend's notification of `path`, passed on to the paths below mounts that depend on it. */
void registry_mounts_notified(
	struct registry *registry, const char *path, enum registry_watch_kind kind, bool gone);
/* No watch on path of that kind is left. False: the path is the backend's. */
bool registry_mounts_unwatch(
	struct registry *registry, const char *path, enum registry_watch_kind kind);
/* The mount goes: the backend's watches of its foreign nodes end. */
void registry_mount_unwatch_all(struct registry *registry, struct registry_mount *mount);
/* A mount has come or gone: the watched paths below and above it are read again. */
void registry_mount_notify_all(struct registry *registry, struct registry_mount *mount);

/* ---- imports.c ---- */

/* All calls have been taken back. */
void registry_mounts_finish(struct registry *registry);

#endif
