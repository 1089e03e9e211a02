/*
 * How watched paths learn their states: reads, and what the registry announces.
 */
#include "lib/registry/watched.h"

#include <stdlib.h>

enum { RETRY_MS = 30000, RETRY_SOON_MS = 1000 };

/* ---- reads ---- */

/*
 * The read gave no state, or there was no memory for it. The reconnect reads all watches again;
 * without one the retry does.
 */
static void stay_as_known(struct registry_watched *watched)
{
	watched->epoch = 0;
	watched_retry_later(watched, RETRY_SOON_MS);
	if (watched->registry->state == REGISTRY_CONNECTED) {
		watched_leader_failed(watched);
	}
}

static void on_read(struct registry_call *call);

/* Of the pool, or a new one; NULL without memory. */
static struct registry_call *take_call(struct registry_watches *watches)
{
	if (list_empty(&watches->calls)) {
		return calloc(1, sizeof(struct registry_call));
	}
	struct registry_call *call = LIST_ITEM(watches->calls.next, struct registry_call, link);
	list_remove(&call->link);
	return call;
}

static void start_read(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	struct registry_call *call = take_call(watches);
	if (!call) {
		stay_as_known(watched);
		return;
	}
	watched->call = call;
	watched->phase = WATCHED_READING;
	watched->asked = true;
	watched->read_serial = ++watches->serial;
	watches->reads_in_flight++;
	list_append(&watches->reading, &watched->place);
	call->task.operation = watched->kind == REGISTRY_WATCH_DATA ? REGISTRY_OP_GET
								    : REGISTRY_OP_CHILDREN;
	call->task.path = watched->path;
	call->task.watch = true;
	call->owner = watched;
	call->completed = on_read;
	registry_call_submit(watched->registry, call, registry_call_deadline_ms(watched->registry));
}

void watched_submit(struct registry *registry)
{
	struct registry_watches *watches = &registry->watches;
	if (registry->state != REGISTRY_CONNECTED) {
		return;
	}
	struct registry_watched *watched;
	while (watches->reads_in_flight < REGISTRY_MAX_IN_FLIGHT &&
		(watched = watched_next_read(watches)) != NULL) {
		if (watched->phase != WATCHED_CONFIRMING || !watched_follows_instead(watched)) {
			start_read(watched);
		}
	}
}

static bool gave_no_state(const struct registry_task *task)
{
	return task->ret_err.code == BERTH_REGISTRY_UNAVAILABLE ||
		task->ret_err.code == BERTH_AUTHENTICATION_FAILED;
}

/* NULL: it gave no state, or there is no memory for it. */
static const struct registry_value *value_of(const struct registry_watched *watched)
{
	const struct registry_task *task = &watched->call->task;
	return gave_no_state(task) ? NULL
		: watched->kind == REGISTRY_WATCH_DATA
		? registry_value_of_data(task)
		: registry_value_of_list(watched->path, task);
}

static void retry_error(struct registry_watched *watched, int code)
{
	if (code && code != BERTH_PATH_NOT_FOUND && !registry_value_exists(watched->value)) {
		bool soon = code == BERTH_TIMEOUT || code == BERTH_FAILED;
		watched_retry_later(watched, soon ? RETRY_SOON_MS : RETRY_MS);
	}
}

static void on_read(struct registry_call *call)
{
	struct registry_watched *watched = call->owner;
	struct registry *registry = watched->registry;
	bool again = watched->phase == WATCHED_READING_AGAIN;
	watched->phase = WATCHED_SETTLED;
	const struct registry_value *read = value_of(watched);
	watched_end_read(watched);
	if (!read) {
		stay_as_known(watched);
	} else if (watched_take(watched, read, again)) {
		if (!again) {
			retry_error(watched, watched->value->code);
		}
		watched_deliver_read(watched, again);
	}
	watched_submit(registry);
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
			watched_doubt_begin(watched, watched->leader);
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
		if (!watched->value && watched->phase == WATCHED_FOLLOWING) {
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
		registry_value_release(watched->next); /* of the connection before */
		watched->next = NULL;
	} else if (watched->phase == WATCHED_READING) {
		watched_want_read(watched);
	} else if (watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_FOLLOWING) {
		watched_enter(
			watched, WATCHED_CONFIRMING, &watches->waiting[REGISTRY_READ_CONFIRM]);
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
	size_t count = list_count(&watches->waiting[REGISTRY_READ_CONFIRM]);
	registry_window_open(&watches->window, count, watches->now_ms,
		registry->ops->session_timeout_ms(registry->backend));
	hurry_unknown(watches);
	watched_submit(registry);
}

/* ---- time ---- */

int64_t registry_watches_deadline_ms(const struct registry *registry)
{
	const struct registry_watches *watches = &registry->watches;
	if (!list_empty(&watches->deliveries)) {
		return 0;
	}
	int64_t read_ms = watched_next_read_ms(registry);
	return read_ms < watches->retry_at_ms ? read_ms : watches->retry_at_ms;
}

static void retry_due(struct registry_watches *watches)
{
	if (watches->now_ms < watches->retry_at_ms) {
		return;
	}
	int64_t next_ms = INT64_MAX;
	struct list *next;
	for (struct list *at = watches->retrying.next; at != &watches->retrying; at = next) {
		struct registry_watched *watched = LIST_ITEM(at, struct registry_watched, place);
		next = at->next;
		if (watched->retry_at_ms <= watches->now_ms) {
			watched_want_read(watched);
		} else if (watched->retry_at_ms < next_ms) {
			next_ms = watched->retry_at_ms;
		}
	}
	watches->retry_at_ms = next_ms;
}

void registry_watches_dispatch(struct registry *registry)
{
	watched_deliver_due(&registry->watches);
	retry_due(&registry->watches);
	watched_submit(registry);
}
