/*
 * Delivers the values of watched paths to the watches of users.
 */
#include "lib/registry/watched.h"

#include <stdlib.h>

void watched_deliver_later(struct registry_watched *watched)
{
	if (watched->value && !watched->recalled && list_empty(&watched->delivery_link)) {
		list_append(&watched->registry->watches.deliveries, &watched->delivery_link);
	}
}

/* Both paths of a node share the backend's watch. */
static bool twin_is_watched(const struct registry_watched *watched)
{
	char twin[LIMIT_PATH_BYTES + 1];
	return registry_path_twin(watched->registry, watched->path, twin) &&
		watched_find(watched->registry, twin, watched->kind);
}

void watched_free_if_unused(struct registry_watched *watched)
{
	if (!list_empty(&watched->handles)) {
		return;
	}
	struct registry *registry = watched->registry;
	watched_end_read(watched);
	if (watched->asked && !twin_is_watched(watched) &&
		!(registry->between &&
			registry->between->unwatch(registry, watched->path, watched->kind))) {
		registry->ops->unwatch(registry->backend,
			registry_backend_path(registry, watched->path), watched->kind);
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
			list_remove(&handle->link);
			free(handle);
		}
	}
	watched_free_if_unused(watched);
}

/*
 * `all`: also to those that have had a state. Callbacks may add and remove any handle: removed ones
 * stay on the list until the end, added ones come behind the present last one.
 */
static void deliver_to_handles(struct registry_watched *watched, bool all)
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

/* A resolved doubt ends behind it. It moves here first: the delivery may free the watched path. */
static void deliver(struct registry_watched *watched, bool all)
{
	struct watched_doubt doubt = watched->doubt;
	list_init(&doubt.link);
	if (doubt.resolved) {
		list_append(&watched->doubt.link, &doubt.link);
		list_remove(&watched->doubt.link);
	}
	deliver_to_handles(watched, all);
	list_remove(&doubt.link);
}

/*
 * A refresh that came during a read wants the result of a later read; that one goes to all handles.
 */
void watched_deliver_read(struct registry_watched *watched, bool again)
{
	bool later = watched->deliver_all && again;
	bool all = watched->undelivered || (watched->deliver_all && !again);
	if (!again) {
		watched->deliver_all = false;
	}
	if (all || !later) {
		deliver(watched, all);
	}
}

void watched_deliver_due(struct registry_watches *watches)
{
	list_move_all(&watches->due, &watches->deliveries);
	while (!list_empty(&watches->due)) {
		struct registry_watched *watched = LIST_ITEM(
			watches->due.next, struct registry_watched, delivery_link);
		list_remove(&watched->delivery_link);
		bool is_last = watched->phase == WATCHED_INVALID || watched_is_settled(watched);
		bool all = watched->undelivered || (watched->deliver_all && is_last);
		watched->deliver_all = watched->deliver_all && !is_last;
		deliver(watched, all);
	}
}
