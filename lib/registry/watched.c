/*
 * How a watched path learns its state by reads, the order of the reads, the delivery of the states.
 */
#include "lib/registry/watched.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/limits.h"

enum {
	RETRY_MS = 30000,
	RETRY_SOON_MS = 1000,
	TREE_NODE_BYTES = 32 /* of tsearch() */
};

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

/* ---- waiting ---- */

static void leave(struct registry_watched *watched)
{
	list_remove(&watched->place);
	watched->leader = NULL;
}

void watched_enter(struct registry_watched *watched, enum watched_phase phase, struct list *queue)
{
	leave(watched);
	watched->phase = phase;
	watched->retry_at_ms = INT64_MAX;
	list_append(queue, &watched->place);
}

void watched_want_read(struct registry_watched *watched)
{
	if (watched->phase == WATCHED_FOLLOWING) {
		watched_doubt_begin(watched);
	}
	watched->epoch = 0;
	if (watched->phase == WATCHED_READING || watched->phase == WATCHED_READING_AGAIN) {
		watched->phase = WATCHED_READING_AGAIN;
	} else if (watched->phase != WATCHED_WAITING) {
		watched_enter(watched, WATCHED_WAITING, &watched->registry->watches.reads);
	}
}

/* Spread by half, so that many watches, and many agents, do not come at once. */
static void retry_later(struct registry_watched *watched, int delay_ms)
{
	struct registry_watches *watches = &watched->registry->watches;
	int spread = rand_r(&watches->jitter) % delay_ms;
	watched->retry_at_ms = watches->now_ms + delay_ms / 2 + spread;
	if (watched->retry_at_ms < watches->retry_at_ms) {
		watches->retry_at_ms = watched->retry_at_ms;
	}
}

void watched_deliver_later(struct registry_watched *watched)
{
	if (watched->value && list_empty(&watched->delivery_link)) {
		list_append(&watched->registry->watches.deliveries, &watched->delivery_link);
	}
}

/* ---- learning ---- */

static bool differs(const struct registry_watched *watched, const struct registry_value *now)
{
	const struct registry_value *before = watched->value;
	if (!before || before->code != now->code) {
		return true;
	}
	if (!registry_value_exists(now)) {
		return false;
	}
	if (before->stat.node_id != now->stat.node_id || before->stat.own != now->stat.own) {
		return true;
	}
	return watched->kind == REGISTRY_WATCH_DATA ? before->stat.version != now->stat.version
						    : !registry_value_same(before, now);
}

/* Then the users need not exchange the value that they share. */
static bool is_identical(const struct registry_value *before, const struct registry_value *now)
{
	const struct registry_stat *a = &before->stat;
	const struct registry_stat *b = &now->stat;
	return a->created_ms == b->created_ms && a->modified_ms == b->modified_ms &&
		a->node_id == b->node_id && a->version == b->version && a->size == b->size &&
		a->ephemeral == b->ephemeral && a->own == b->own &&
		registry_value_same(before, now);
}

int watched_learn(struct registry_watched *watched, const struct registry_task *found)
{
	const struct registry_value *now = watched->kind == REGISTRY_WATCH_DATA
		? registry_value_of_data(found)
		: registry_value_of_list(watched->path, found);
	if (!now) {
		watched->epoch = 0;
		retry_later(watched, RETRY_SOON_MS);
		return -1;
	}
	watched->undelivered = watched->undelivered || differs(watched, now);
	bool identical = watched->value && is_identical(watched->value, now);
	registry_value_release(identical ? now : watched->value);
	watched->value = identical ? watched->value : now;
	watched->epoch = watched->registry->watches.epoch;
	return 0;
}

bool watched_is_settled(const struct registry_watched *watched)
{
	return watched->value && watched->epoch == watched->registry->watches.epoch &&
		(watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_FOLLOWING);
}

void watched_hurry(struct registry_watched *watched)
{
	if (watched->phase == WATCHED_CONFIRMING) {
		watched_want_read(watched);
		watched_submit(watched->registry);
	} else if (watched->phase == WATCHED_FOLLOWING && !watched_is_settled(watched)) {
		watched_hurry(watched->leader);
	}
}

void watched_refresh(struct registry_watched *watched)
{
	watched->deliver_all = true;
	if (watched->phase == WATCHED_INVALID) {
		watched_deliver_later(watched);
		return;
	}
	struct registry_watched *leader = watched->leader;
	if (leader && leader->kind == REGISTRY_WATCH_DATA) {
		watched->epoch = 0;
		if (!leader->deliver_all) { /* else it is being refreshed already */
			watched_want_read(leader);
		}
	} else {
		watched_want_read(watched);
	}
	watched_submit(watched->registry);
}

/* ---- the queues ---- */

static int64_t next_confirmation_ms(const struct registry *registry)
{
	const struct registry_watches *watches = &registry->watches;
	if (registry->state != REGISTRY_CONNECTED || list_empty(&watches->confirmations) ||
		watches->reads_in_flight >= REGISTRY_MAX_IN_FLIGHT) {
		return INT64_MAX;
	}
	return registry_window_next_ms(&watches->window);
}

/*
 * In turns: a lookup of something new does not wait for a hundred thousand confirmations, and these
 * are not put off for ever.
 */
static struct registry_watched *next_read(struct registry_watches *watches)
{
	bool due = !list_empty(&watches->confirmations) &&
		watches->window.begun < registry_window_due(&watches->window, watches->now_ms);
	bool confirm = due && (list_empty(&watches->reads) || !watches->confirms);
	struct list *queue = confirm ? &watches->confirmations : &watches->reads;
	if (list_empty(queue)) {
		return NULL;
	}
	watches->confirms = confirm;
	watches->window.begun += confirm;
	struct registry_watched *watched = LIST_ITEM(queue->next, struct registry_watched, place);
	leave(watched);
	return watched;
}

static void on_read(struct registry_call *call);

/*
 * The read gave no state, or there was no memory for it. The reconnect reads all watches again;
 * without one the retry does.
 */
static void stay_as_known(struct registry_watched *watched)
{
	watched->phase = WATCHED_SETTLED;
	retry_later(watched, RETRY_SOON_MS);
	if (watched->registry->state == REGISTRY_CONNECTED) {
		watched_update_followers(watched, false);
	}
}

static void start_read(struct registry_watched *watched)
{
	struct registry_call *call = calloc(1, sizeof(*call));
	if (!call) {
		stay_as_known(watched);
		return;
	}
	watched->call = call;
	watched->phase = WATCHED_READING;
	watched->asked = true;
	watched->registry->watches.reads_in_flight++;
	call->task.operation = watched->kind == REGISTRY_WATCH_DATA ? REGISTRY_OP_GET
								    : REGISTRY_OP_CHILDREN;
	call->task.path = watched->path;
	call->task.watch = true;
	call->owner = watched;
	call->completed = on_read;
	registry_call_submit(watched->registry, call, registry_call_deadline_ms(watched->registry));
}

void watched_end_read(struct registry_watched *watched)
{
	if (watched->call) {
		registry_call_finish(watched->call);
		free(watched->call);
		watched->call = NULL;
		watched->registry->watches.reads_in_flight--;
	}
}

void watched_submit(struct registry *registry)
{
	struct registry_watches *watches = &registry->watches;
	if (registry->state != REGISTRY_CONNECTED) {
		return;
	}
	struct registry_watched *watched;
	while (watches->reads_in_flight < REGISTRY_MAX_IN_FLIGHT &&
		(watched = next_read(watches)) != NULL) {
		if (watched->phase != WATCHED_CONFIRMING || !watched_follows_instead(watched)) {
			start_read(watched);
		}
	}
}

/*
 * Delivers the state; a resolved doubt ends afterwards. It moves here first, because the delivery
 * may free the watched path.
 */
static void deliver(struct registry_watched *watched, bool all)
{
	struct watched_doubt doubt = watched->doubt;
	list_init(&doubt.link);
	if (doubt.resolved) {
		list_append(&watched->doubt.link, &doubt.link);
		list_remove(&watched->doubt.link);
	}
	watched_deliver(watched, all);
	list_remove(&doubt.link);
}

/*
 * A refresh that came during a read wants the result of a later read; that one goes to all handles.
 */
static void deliver_read(struct registry_watched *watched, bool again)
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

static bool gave_no_state(const struct registry_task *task)
{
	return task->ret_err.code == BERTH_REGISTRY_UNAVAILABLE ||
		task->ret_err.code == BERTH_AUTHENTICATION_FAILED;
}

static void on_state(struct registry_watched *watched, bool again)
{
	int code = watched->value->code;
	if (again) {
		watched_want_read(watched);
	} else if (code && code != BERTH_PATH_NOT_FOUND && !registry_value_exists(watched->value)) {
		bool soon = code == BERTH_TIMEOUT || code == BERTH_FAILED;
		retry_later(watched, soon ? RETRY_SOON_MS : RETRY_MS);
	}
	if (!again) {
		watched_update_followers(watched, true);
		watched->doubt.resolved = true;
	}
	deliver_read(watched, again);
}

static void on_read(struct registry_call *call)
{
	struct registry_watched *watched = call->owner;
	struct registry *registry = watched->registry;
	bool again = watched->phase == WATCHED_READING_AGAIN;
	watched->phase = WATCHED_SETTLED;
	bool learnt = !gave_no_state(&call->task) && watched_learn(watched, &call->task) == 0;
	watched_end_read(watched);
	if (learnt) {
		on_state(watched, again);
	} else {
		stay_as_known(watched);
	}
	watched_submit(registry);
}

/* ---- from the registry ---- */

static void notify(
	struct registry *registry, const char *path, enum registry_watch_kind kind, bool gone)
{
	if (gone) {
		/* In this order: the list of children follows the data. */
		watched_node_is_gone(watched_find(registry, path, REGISTRY_WATCH_DATA));
		watched_node_is_gone(watched_find(registry, path, REGISTRY_WATCH_CHILDREN));
	} else {
		struct registry_watched *watched = watched_find(registry, path, kind);
		if (watched) {
			watched_doubt_begin(watched);
			watched_want_read(watched);
		}
	}
}

void registry_watches_notified(
	struct registry *registry, const char *path, enum registry_watch_kind kind, bool gone)
{
	char twin[LIMIT_PATH_BYTES + 1];
	notify(registry, path, kind, gone);
	if (registry_path_twin(registry, path, twin)) {
		notify(registry, twin, kind, gone);
	}
	watched_submit(registry);
}

static void hurry_unknown(const struct registry_watches *watches)
{
	for (struct list *at = watches->all.next; at != &watches->all; at = at->next) {
		struct registry_watched *watched = LIST_ITEM(at, struct registry_watched, link);
		if (!watched->value) {
			watched_hurry(watched);
		}
	}
}

static void want_confirmation(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	watched->deliver_all = true;
	if (!watched->value) {
		if (watched->phase != WATCHED_FOLLOWING) {
			watched_want_read(watched);
		}
	} else if (watched->phase == WATCHED_READING) {
		watched_want_read(watched);
	} else if (watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_FOLLOWING) {
		watched_enter(watched, WATCHED_CONFIRMING, &watches->confirmations);
	}
}

void registry_watches_state(struct registry *registry)
{
	struct registry_watches *watches = &registry->watches;
	watches->epoch++;
	if (registry->state != REGISTRY_CONNECTED) {
		return;
	}
	for (struct list *at = watches->all.next; at != &watches->all; at = at->next) {
		want_confirmation(LIST_ITEM(at, struct registry_watched, link));
	}
	/* With those from before the last disconnection. */
	size_t count = list_count(&watches->confirmations);
	registry_window_open(
		&watches->window, count, watches->now_ms, registry_session_timeout_ms(registry));
	hurry_unknown(watches);
	watched_submit(registry);
}

int64_t registry_watches_deadline_ms(const struct registry *registry)
{
	const struct registry_watches *watches = &registry->watches;
	bool can_read = registry->state == REGISTRY_CONNECTED && !list_empty(&watches->reads) &&
		watches->reads_in_flight < REGISTRY_MAX_IN_FLIGHT;
	if (!list_empty(&watches->deliveries) || can_read) {
		return 0;
	}
	int64_t confirm_ms = next_confirmation_ms(registry);
	return confirm_ms < watches->retry_at_ms ? confirm_ms : watches->retry_at_ms;
}

static void retry_due(struct registry_watches *watches)
{
	if (watches->now_ms < watches->retry_at_ms) {
		return;
	}
	int64_t next_ms = INT64_MAX;
	for (struct list *at = watches->all.next; at != &watches->all; at = at->next) {
		struct registry_watched *watched = LIST_ITEM(at, struct registry_watched, link);
		if (watched->retry_at_ms <= watches->now_ms) {
			watched_want_read(watched);
		} else if (watched->retry_at_ms < next_ms) {
			next_ms = watched->retry_at_ms;
		}
	}
	watches->retry_at_ms = next_ms;
}

static void deliver_due(struct registry_watches *watches)
{
	struct list due;
	list_init(&due);
	list_move_all(&due, &watches->deliveries);
	while (!list_empty(&due)) {
		struct registry_watched *watched = LIST_ITEM(
			due.next, struct registry_watched, delivery_link);
		list_remove(&watched->delivery_link);
		bool without_read = watched->phase == WATCHED_INVALID ||
			(watched->phase == WATCHED_FOLLOWING && watched_is_settled(watched));
		bool all = watched->undelivered || (watched->deliver_all && without_read);
		watched->deliver_all = watched->deliver_all && !without_read;
		deliver(watched, all);
	}
}

void registry_watches_dispatch(struct registry *registry)
{
	deliver_due(&registry->watches);
	retry_due(&registry->watches);
	watched_submit(registry);
}

/* ---- coming and going ---- */

void registry_watches_init(struct registry_watches *watches)
{
	list_init(&watches->all);
	list_init(&watches->reads);
	list_init(&watches->confirmations);
	list_init(&watches->doubted);
	list_init(&watches->deliveries);
	watches->epoch = 1;
	watches->retry_at_ms = INT64_MAX;
	watches->now_ms = clock_monotonic_ms();
	watches->jitter = (unsigned)watches->now_ms;
}

struct registry_watched *watched_create(
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
	size_t path_bytes = strlen(path) + 1;
	struct registry_watched *watched = calloc(1, sizeof(*watched) + path_bytes);
	if (!watched) {
		registry_value_release(value);
		return NULL;
	}
	watched->registry = registry;
	watched->kind = kind;
	watched->retry_at_ms = INT64_MAX;
	memcpy(watched->path, path, path_bytes);
	if (!tsearch(watched, &registry->watches.by_path, compare_watched)) {
		registry_value_release(value);
		free(watched);
		return NULL;
	}
	list_init(&watched->place);
	list_init(&watched->delivery_link);
	list_init(&watched->doubt.link);
	list_init(&watched->handles);
	list_init(&watched->followers);
	list_append(&registry->watches.all, &watched->link);
	registry->watches.count++;
	if (value) {
		watched->phase = WATCHED_INVALID;
		watched->value = value;
	} else {
		watched_want_first(watched);
	}
	return watched;
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
	tdelete(watched, &watches->by_path, compare_watched);
	list_remove(&watched->link);
	list_remove(&watched->place);
	list_remove(&watched->delivery_link);
	watches->count--;
	registry_value_release(watched->value);
	free(watched);
}

size_t watched_bytes(const struct registry_watched *watched)
{
	return sizeof(*watched) + (watched ? strlen(watched->path) : 0) + 1 + TREE_NODE_BYTES;
}
