/*
 * Watches, as users have them: all of one kind on one path share a watched path (watched.h).
 */
#include "lib/registry/watched.h"

#include <stdlib.h>

static void handle_free(struct registry_watch *handle)
{
	list_remove(&handle->link);
	free(handle);
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
	while (!list_empty(&watches->calls)) {
		struct registry_call *call = LIST_ITEM(
			watches->calls.next, struct registry_call, link);
		list_remove(&call->link);
		free(call);
	}
}

/* A path that nobody watches yet. NULL without memory. */
static struct registry_watched *begin(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	struct registry_task refused = { .ret_err = ERR_INIT };
	const struct registry_value *value = NULL;
	if (registry_path_check(registry, path, &refused.ret_err)) {
		value = registry_value_of_data(&refused);
		if (!value) {
			return NULL;
		}
	}
	struct registry_watched *watched = watched_create(registry, path, kind);
	if (!watched) {
		registry_value_release(value);
		return NULL;
	}
	if (value) {
		watched->phase = WATCHED_INVALID;
		watched->value = value;
	} else {
		watched_want_first(watched);
	}
	return watched;
}

struct registry_watch *registry_watch(struct registry *registry, const char *path,
	enum registry_watch_kind kind, registry_done *on_change, void *context)
{
	return registry_watch_known(registry, path, kind, NULL, on_change, context);
}

struct registry_watch *registry_watch_known(struct registry *registry, const char *path,
	enum registry_watch_kind kind, const struct registry_value *known, registry_done *on_change,
	void *context)
{
	struct registry_watch *handle = calloc(1, sizeof(*handle));
	if (!handle) {
		return NULL;
	}
	struct registry_watched *watched = watched_find(registry, path, kind);
	if (!watched) {
		watched = begin(registry, path, kind);
	}
	if (!watched) {
		free(handle);
		return NULL;
	}
	if (known && !watched->value) {
		watched->value = registry_value_hold(known);
		watched->recalled = true;
		registry->watches.recalled++;
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
	watched_submit(watch->watched->registry);
}

const struct registry_value *registry_watch_value(const struct registry_watch *watch)
{
	return watched_answer(watch->watched);
}

bool registry_watch_holds(const struct registry_watch *watch)
{
	return watch->delivered && watched_is_settled(watch->watched) &&
		list_empty(&watch->watched->doubt.link);
}

bool registry_watch_is_followed(const struct registry_watch *watch)
{
	const struct registry_watches *watches = &watch->watched->registry->watches;
	return !list_empty(&watches->deliveries) || !list_empty(&watches->due);
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
	watched_free_if_unused(watched);
}

size_t registry_watch_bytes(const struct registry_watch *watch)
{
	return sizeof(*watch) + watched_bytes(watch ? watch->watched : NULL);
}
