/*
 * Watches deliver the state of a path, and deliver it again whenever it changes. A handle is one
 * user's watch; all handles of one kind on one path share a `watched` (watched.h), which learns the
 * states that this file delivers.
 */
#include "lib/registry/mount.h"
#include "lib/registry/watched.h"

#include <stdlib.h>

struct registry_watch {
	struct registry_watched *watched;
	struct list link;
	registry_done *on_change; /* NULL: unwatched while its watched delivers */
	void *context;
	bool delivered; /* some state */
};

static void handle_free(struct registry_watch *handle)
{
	list_remove(&handle->link);
	free(handle);
}

/* Both paths of a node share the backend's watch. */
static bool twin_is_watched(const struct registry_watched *watched)
{
	char twin[LIMIT_PATH_BYTES + 1];
	return registry_path_twin(watched->registry, watched->path, twin) &&
		watched_find(watched->registry, twin, watched->kind);
}

static void free_if_unused(struct registry_watched *watched)
{
	if (!list_empty(&watched->handles)) {
		return;
	}
	struct registry *registry = watched->registry;
	watched_end_read(watched);
	if (watched->asked && !twin_is_watched(watched) &&
		!registry_mounts_unwatch(registry, watched->path, watched->kind)) {
		registry->ops->unwatch(registry->backend, watched->path, watched->kind);
	}
	watched_free(watched);
}

static void free_dead_handles(struct registry_watched *watched)
{
	struct list *next;
	for (struct list *link = watched->handles.next; link != &watched->handles; link = next) {
		struct registry_watch *handle = LIST_ITEM(link, struct registry_watch, link);
		next = link->next;
		if (!handle->on_change) {
			handle_free(handle);
		}
	}
	free_if_unused(watched);
}

/*
 * Callbacks may add and remove any handle: removed ones stay on the list until the end, added ones
 * come behind the present last one.
 */
void watched_deliver(struct registry_watched *watched, bool all)
{
	struct list *last = watched->handles.prev;
	struct list *link = &watched->handles;
	bool changed = watched->undelivered;
	const struct registry_value *value = registry_value_hold(watched->value);
	watched->undelivered = false;
	watched->delivering = true;
	while (link != last) {
		link = link->next;
		struct registry_watch *handle = LIST_ITEM(link, struct registry_watch, link);
		if (handle->on_change && (all || !handle->delivered)) {
			struct registry_result result;
			registry_value_result(value, watched->path, &result);
			result.changed = changed || !handle->delivered;
			handle->delivered = true;
			handle->on_change(handle->context, &result);
		}
	}
	watched->delivering = false;
	registry_value_release(value);
	free_dead_handles(watched);
}

void registry_watches_finish(struct registry *registry)
{
	struct registry_watches *watches = &registry->watches;
	while (!list_empty(&watches->all)) {
		struct registry_watched *watched = LIST_ITEM(
			watches->all.next, struct registry_watched, link);
		while (!list_empty(&watched->handles)) {
			handle_free(LIST_ITEM(watched->handles.next, struct registry_watch, link));
		}
		watched_free(watched);
	}
}

struct registry_watch *registry_watch(struct registry *registry, const char *path,
	enum registry_watch_kind kind, registry_done *on_change, void *context)
{
	struct registry_watch *handle = calloc(1, sizeof(*handle));
	if (!handle) {
		return NULL;
	}
	struct registry_watched *watched = watched_find(registry, path, kind);
	if (!watched) {
		watched = watched_create(registry, path, kind);
	}
	if (!watched) {
		free(handle);
		return NULL;
	}
	handle->watched = watched;
	handle->on_change = on_change;
	handle->context = context;
	list_append(&watched->handles, &handle->link);
	/*
	 * A user who asked for a refresh knows of a change: the first state to deliver is the one
	 * behind it.
	 */
	bool refreshing = watched->deliver_all && registry->state == REGISTRY_CONNECTED;
	if (!refreshing || watched->phase == WATCHED_INVALID) {
		watched_deliver_later(watched);
	} else {
		watched_hurry(watched);
	}
	watched_submit(registry);
	return handle;
}

void registry_watch_refresh(struct registry_watch *watch)
{
	watched_refresh(watch->watched);
}

void registry_watch_hurry(struct registry_watch *watch)
{
	watched_hurry(watch->watched);
}

bool registry_watch_holds(const struct registry_watch *watch)
{
	return watch->delivered && watched_is_settled(watch->watched) &&
		list_empty(&watch->watched->doubt.link);
}

void registry_unwatch(struct registry_watch *watch)
{
	if (!watch) {
		return;
	}
	struct registry_watched *watched = watch->watched;
	if (watched->delivering) {
		watch->on_change = NULL;
		return;
	}
	handle_free(watch);
	free_if_unused(watched);
}

size_t registry_watch_bytes(const struct registry_watch *watch)
{
	return sizeof(*watch) + watched_bytes(watch ? watch->watched : NULL);
}

size_t registry_watch_count(const struct registry *registry)
{
	return registry->watches.count;
}
