/*
 * The watched paths: where they are found, the queues that they wait in, how they come and go.
 */
#include "lib/registry/watched.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/limits.h"

enum { TREE_NODE_BYTES = 32 /* of tsearch() */ };

/* ---- finding ---- */

struct watched_key {
	const char *path;
	enum registry_watch_kind kind;
};

static int compare_key(const void *a, const void *b)
{
	const struct watched_key *key = a;
	const struct registry_watched *watched = b;
	return key->kind != watched->kind ? (key->kind < watched->kind ? -1 : 1)
					  : strcmp(key->path, watched->path);
}

static int compare_watched(const void *a, const void *b)
{
	const struct registry_watched *watched = a;
	const struct watched_key key = { .path = watched->path, .kind = watched->kind };
	return compare_key(&key, b);
}

struct registry_watched *watched_find(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	const struct watched_key key = { .path = path, .kind = kind };
	struct registry_watched **found = tfind(&key, &registry->watches.by_path, compare_key);
	return found ? *found : NULL;
}

size_t watched_bytes(const struct registry_watched *watched)
{
	return sizeof(*watched) + (watched ? strlen(watched->path) : 0) + 1 + TREE_NODE_BYTES;
}

/* ---- waiting ---- */

static void leave(struct registry_watched *watched)
{
	list_remove(&watched->place);
	watched->leader = NULL;
	registry_value_release(watched->next);
	watched->next = NULL;
}

void watched_enter(struct registry_watched *watched, enum watched_phase phase, struct list *queue)
{
	leave(watched);
	watched->phase = phase;
	watched->hurried = false;
	watched->retry_at_ms = INT64_MAX;
	list_append(queue, &watched->place);
}

void watched_want_read(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	if (watched->phase == WATCHED_FOLLOWING) {
		watched_doubt_begin(watched, watched->leader);
	}
	watched->epoch = 0;
	if (watched->phase == WATCHED_READING || watched->phase == WATCHED_READING_AGAIN) {
		watched->phase = WATCHED_READING_AGAIN;
	} else if (watched->phase != WATCHED_WAITING) {
		watched_enter(watched, WATCHED_WAITING, &watches->waiting[REGISTRY_READ_LAZY]);
	}
}

void watched_hurry(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	if (watched->phase == WATCHED_FOLLOWING && !watched_is_settled(watched)) {
		watched_hurry(watched->leader);
	} else if (watched->phase == WATCHED_CONFIRMING ||
		(watched->phase == WATCHED_WAITING && !watched->hurried)) {
		watched_enter(watched, WATCHED_WAITING, &watches->waiting[REGISTRY_READ_URGENT]);
		watched->hurried = true;
	}
}

/* Spread by half, so that many watches, and many agents, do not come at once. */
void watched_retry_later(struct registry_watched *watched, int delay_ms)
{
	struct registry_watches *watches = &watched->registry->watches;
	int spread = rand_r(&watches->jitter) % delay_ms;
	watched_enter(watched, WATCHED_SETTLED, &watches->retrying);
	watched->retry_at_ms = watches->now_ms + delay_ms / 2 + spread;
	if (watched->retry_at_ms < watches->retry_at_ms) {
		watches->retry_at_ms = watched->retry_at_ms;
	}
}

bool watched_is_settled(const struct registry_watched *watched)
{
	return watched->value && watched->epoch == watched->registry->watches.epoch &&
		(watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_FOLLOWING);
}

/* ---- the queues ---- */

static bool is_due(const struct registry_watches *watches, unsigned queue)
{
	return !list_empty(&watches->waiting[queue]) &&
		(queue != REGISTRY_READ_CONFIRM ||
			watches->window.begun <
				registry_window_due(&watches->window, watches->now_ms));
}

struct registry_watched *watched_next_read(struct registry_watches *watches)
{
	unsigned queue = watches->last_queue;
	do {
		queue = (queue + 1) % REGISTRY_READ_QUEUES;
		if (is_due(watches, queue)) {
			struct registry_watched *watched = LIST_ITEM(
				watches->waiting[queue].next, struct registry_watched, place);
			watches->last_queue = queue;
			watches->window.begun += queue == REGISTRY_READ_CONFIRM;
			leave(watched);
			return watched;
		}
	} while (queue != watches->last_queue);
	return NULL;
}

int64_t watched_next_read_ms(const struct registry *registry)
{
	const struct registry_watches *watches = &registry->watches;
	if (registry->state != REGISTRY_CONNECTED ||
		watches->reads_in_flight >= REGISTRY_MAX_IN_FLIGHT) {
		return INT64_MAX;
	}
	if (!list_empty(&watches->waiting[REGISTRY_READ_URGENT]) ||
		!list_empty(&watches->waiting[REGISTRY_READ_LAZY])) {
		return 0;
	}
	return list_empty(&watches->waiting[REGISTRY_READ_CONFIRM])
		? INT64_MAX
		: registry_window_next_ms(&watches->window);
}

/* ---- coming and going ---- */

void registry_watches_init(struct registry_watches *watches)
{
	list_init(&watches->all);
	for (unsigned queue = 0; queue < REGISTRY_READ_QUEUES; queue++) {
		list_init(&watches->waiting[queue]);
	}
	list_init(&watches->reading);
	list_init(&watches->retrying);
	list_init(&watches->calls);
	list_init(&watches->doubted);
	list_init(&watches->deliveries);
	list_init(&watches->due);
	watches->epoch = 1;
	watches->retry_at_ms = INT64_MAX;
	watches->now_ms = clock_monotonic_ms();
	watches->jitter = (unsigned)watches->now_ms;
}

struct registry_watched *watched_create(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	size_t path_bytes = strlen(path) + 1;
	struct registry_watched *watched = calloc(1, sizeof(*watched) + path_bytes);
	if (!watched) {
		return NULL;
	}
	watched->registry = registry;
	watched->kind = kind;
	watched->retry_at_ms = INT64_MAX;
	memcpy(watched->path, path, path_bytes);
	if (!tsearch(watched, &registry->watches.by_path, compare_watched)) {
		free(watched);
		return NULL;
	}
	list_init(&watched->place);
	list_init(&watched->delivery_link);
	list_init(&watched->doubt.link);
	list_init(&watched->handles);
	list_init(&watched->followers);
	list_append(&registry->watches.all, &watched->link);
	return watched;
}

void watched_end_read(struct registry_watched *watched)
{
	if (watched->call) {
		struct registry_watches *watches = &watched->registry->watches;
		registry_call_finish(watched->call);
		list_append(&watches->calls, &watched->call->link);
		watched->call = NULL;
		list_remove(&watched->place);
		watches->reads_in_flight--;
	}
}

void watched_free(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	while (!list_empty(&watched->followers)) {
		watched_want_read(
			LIST_ITEM(watched->followers.next, struct registry_watched, place));
	}
	list_remove(&watched->doubt.link); /* no earlier: the followers may have none yet */
	watched_end_read(watched);
	leave(watched);
	tdelete(watched, &watches->by_path, compare_watched);
	list_remove(&watched->link);
	list_remove(&watched->delivery_link);
	watches->recalled -= watched->recalled;
	registry_value_release(watched->last);
	registry_value_release(watched->value);
	free(watched);
}
