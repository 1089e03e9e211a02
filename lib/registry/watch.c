/*
 * Watches: what stands at a path, told again whenever it changes.
 *
 * All watches of one kind on one path share a `watched`, which holds what is known and has at most one read under way:
 *
 *     KNOWN --notified, refresh, reconnect--> WAITING --(64 at most)--> READING --> KNOWN, told to all
 *                                                ^---- notified meanwhile ----'
 *
 * Only a connected registry reads, and after each reconnect it syncs first, then reads everything. Each read arms the next
 * notification; one that failed may not have, so it is tried again after a while.
 */
#include "lib/registry/internal.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/base/clock.h"

enum { RETRY_MS = 30000, RETRY_SOON_MS = 1000 };

struct registry_watch {
	struct registry_watched *watched;
	struct list link;
	registry_done *on_change; /* NULL: unwatched while its watched delivers */
	void *context;
	bool told; /* some state */
};

struct registry_watched {
	struct registry *registry;
	struct list link;
	struct list reads_link; /* on one of the two lists while it waits */
	struct list late_link;
	struct list handles;
	char *path;
	enum registry_watch_kind kind;
	struct registry_call call;
	bool confirming; /* waits on the list of confirmations */
	bool reading;
	bool again;    /* something happened while reading */
	bool tell_all; /* even when the next read finds nothing new */
	bool invalid;  /* the path: never read */
	bool delivering;
	bool known; /* the following three */
	struct registry_result state;
	char *data;
	char **children;
	int64_t retry_at_ms; /* INT64_MAX: not */
};

static int compare_watched(const void *a, const void *b)
{
	const struct registry_watched *x = a;
	const struct registry_watched *y = b;
	return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->path, y->path);
}

static struct registry_watched *watched_find(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	const struct registry_watched key = { .path = (char *)(uintptr_t)path, .kind = kind };
	struct registry_watched **found = tfind(&key, &registry->watches.by_path, compare_watched);
	return found ? *found : NULL;
}

/* --- The queue of reads --- */

static void on_read(struct registry_call *call);

/* In turns: who looks up something new does not wait for a hundred thousand confirmations, nor are these put off for ever. */
static struct registry_watched *next_read(struct registry_watches *watches)
{
	bool confirm = list_empty(&watches->reads) ||
		(!watches->confirms && !list_empty(&watches->confirmations));
	struct list *list = confirm ? &watches->confirmations : &watches->reads;
	if (list_empty(list)) {
		return NULL;
	}
	watches->confirms = confirm;
	struct registry_watched *watched = LIST_ITEM(
		list->next, struct registry_watched, reads_link);
	list_remove(&watched->reads_link);
	return watched;
}

static void submit_reads(struct registry *registry)
{
	struct registry_watches *watches = &registry->watches;
	if (registry->state != REGISTRY_CONNECTED || watches->sync.state != REGISTRY_CALL_IDLE) {
		return;
	}
	struct registry_watched *watched;
	while (watches->reads_in_flight < REGISTRY_MAX_IN_FLIGHT &&
		(watched = next_read(watches)) != NULL) {
		watched->confirming = false;
		watched->reading = true;
		watches->reads_in_flight++;
		struct registry_task *task = &watched->call.task;
		task->operation = watched->kind == REGISTRY_WATCH_DATA ? REGISTRY_OP_GET
								       : REGISTRY_OP_CHILDREN;
		task->path = watched->path;
		task->watch = true;
		watched->call.owner = watched;
		watched->call.completed = on_read;
		registry_call_submit(registry, &watched->call, registry_call_deadline_ms(registry));
	}
}

static void want_read(struct registry_watched *watched)
{
	watched->retry_at_ms = INT64_MAX;
	if (watched->reading) {
		watched->again = true;
	} else if (list_empty(&watched->reads_link) || watched->confirming) {
		watched->confirming = false;
		list_remove(&watched->reads_link);
		list_append(&watched->registry->watches.reads, &watched->reads_link);
	}
}

static void want_confirmation(struct registry_watched *watched)
{
	watched->tell_all = true;
	if (watched->reading || !watched->known) {
		want_read(watched);
	} else if (list_empty(&watched->reads_link)) {
		watched->retry_at_ms = INT64_MAX;
		watched->confirming = true;
		list_append(&watched->registry->watches.confirmations, &watched->reads_link);
	}
}

/* Spread by half, so that many watches, and many agents, do not come at once. */
static void retry_later(struct registry_watched *watched, int delay_ms)
{
	struct registry_watches *watches = &watched->registry->watches;
	int spread = rand_r(&watches->jitter) % delay_ms;
	watched->retry_at_ms = clock_monotonic_ms() + delay_ms / 2 + spread;
	if (watched->retry_at_ms < watches->retry_at_ms) {
		watches->retry_at_ms = watched->retry_at_ms;
	}
}

/* --- Telling the handles --- */

static void handle_free(struct registry_watch *handle)
{
	list_remove(&handle->link);
	free(handle);
}

static void watched_free(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	if (watched->reading) {
		watches->reads_in_flight--;
	}
	registry_call_finish(&watched->call);
	tdelete(watched, &watches->by_path, compare_watched);
	list_remove(&watched->link);
	list_remove(&watched->reads_link);
	list_remove(&watched->late_link);
	watches->count--;
	free(watched->data);
	free(watched->children);
	free(watched->path);
	free(watched);
}

static void free_if_unused(struct registry_watched *watched)
{
	if (!list_empty(&watched->handles)) {
		return;
	}
	struct registry *registry = watched->registry;
	registry_call_finish(&watched->call);
	if (!watched->invalid) {
		registry->ops->unwatch(registry->backend, watched->path, watched->kind);
	}
	watched_free(watched);
	submit_reads(registry);
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
 * Tells what is known to every handle, or only to those that know nothing yet. Callbacks may add and remove any handle:
 * removed ones stay on the list until the end, added ones stand behind the one that is last now.
 */
static void deliver(struct registry_watched *watched, bool all, bool changed)
{
	struct list *last = watched->handles.prev;
	struct list *link = &watched->handles;
	watched->delivering = true;
	while (link != last) {
		link = link->next;
		struct registry_watch *handle = LIST_ITEM(link, struct registry_watch, link);
		if (handle->on_change && (all || !handle->told)) {
			struct registry_result result = watched->state;
			result.changed = changed || !handle->told;
			handle->told = true;
			handle->on_change(handle->context, &result);
		}
	}
	watched->delivering = false;
	free_dead_handles(watched);
}

static bool same_paths(char *const *a, size_t a_count, char *const *b, size_t b_count)
{
	if (a_count != b_count) {
		return false;
	}
	for (size_t i = 0; i < a_count; i++) {
		if (strcmp(a[i], b[i]) != 0) {
			return false;
		}
	}
	return true;
}

static bool same_children(const struct registry_result *a, const struct registry_result *b)
{
	return same_paths(a->children, a->children_count, b->children, b->children_count) &&
		same_paths(a->foreign, a->foreign_count, b->foreign, b->foreign_count);
}

static bool differs(const struct registry_watched *watched, const struct registry_result *now)
{
	const struct registry_result *before = &watched->state;
	if (!watched->known || before->err.code != now->err.code) {
		return true;
	}
	if (now->err.code) {
		return false;
	}
	if (before->stat.node_id != now->stat.node_id || before->stat.own != now->stat.own) {
		return true;
	}
	return watched->kind == REGISTRY_WATCH_DATA ? before->stat.version != now->stat.version
						    : !same_children(before, now);
}

/* Takes what the read found out of the call. */
static void learn(struct registry_watched *watched, bool *ret_changed)
{
	struct registry_task *task = &watched->call.task;
	struct registry_result now = { .err = task->ret_err, .stat = task->ret_stat };
	struct registry_children children = { .paths = NULL };
	if (!now.err.code && watched->kind == REGISTRY_WATCH_CHILDREN) {
		if (registry_children_init(&children, watched->path, task, false)) {
			err_set(&now.err, BERTH_FAILED, "no memory to list %s", watched->path);
		} else {
			registry_children_tell(&children, &now);
		}
	}
	*ret_changed = differs(watched, &now);
	free(watched->data);
	free(watched->children);
	watched->data = task->ret_data;
	watched->children = children.paths;
	now.data = task->ret_data;
	now.data_len = task->ret_len;
	task->ret_data = NULL;
	watched->state = now;
	watched->known = true;
}

/* A refresh that came while reading wants what a later read finds: that one tells all. */
static void tell(struct registry_watched *watched, bool changed)
{
	bool all = changed || (watched->tell_all && !watched->again);
	bool later = watched->tell_all && watched->again;
	if (watched->again) {
		watched->again = false;
		want_read(watched);
	} else {
		watched->tell_all = false;
	}
	if (all || !later) {
		deliver(watched, all, changed);
	}
}

static void on_read(struct registry_call *call)
{
	struct registry_watched *watched = call->owner;
	struct registry *registry = watched->registry;
	int code = call->task.ret_err.code;
	registry->watches.reads_in_flight--;
	watched->reading = false;
	if (code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_AUTHENTICATION_FAILED) {
		/* Nothing was learnt. The reconnect reads all watches; if there is none, the retry does. */
		watched->again = false;
		registry_call_clear(call);
		retry_later(watched, RETRY_SOON_MS);
	} else {
		bool changed = false;
		learn(watched, &changed);
		registry_call_clear(call);
		if (code && code != BERTH_PATH_NOT_FOUND) {
			retry_later(watched, code == BERTH_TIMEOUT ? RETRY_SOON_MS : RETRY_MS);
		}
		tell(watched, changed);
	}
	submit_reads(registry);
}

/* --- What the registry tells --- */

void registry_watches_notified(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	struct registry_watched *watched = watched_find(registry, path, kind);
	if (watched) {
		want_read(watched);
		submit_reads(registry);
	}
}

static void on_synced(struct registry_call *call)
{
	struct registry *registry = call->registry;
	registry_call_clear(call);
	for (struct list *link = registry->watches.all.next; link != &registry->watches.all;
		link = link->next) {
		struct registry_watched *watched = LIST_ITEM(link, struct registry_watched, link);
		if (!watched->invalid) {
			want_confirmation(watched);
		}
	}
	submit_reads(registry);
}

void registry_watches_state(struct registry *registry)
{
	if (registry->state != REGISTRY_CONNECTED) {
		return;
	}
	struct registry_call *sync = &registry->watches.sync;
	registry_call_finish(sync);
	sync->completed = on_synced;
	sync->task.operation = REGISTRY_OP_SYNC;
	sync->task.path = "/";
	registry_call_submit(registry, sync, registry_call_deadline_ms(registry));
}

int64_t registry_watches_deadline_ms(const struct registry *registry)
{
	return !list_empty(&registry->watches.late) ? 0 : registry->watches.retry_at_ms;
}

static void retry_due(struct registry *registry, int64_t now_ms)
{
	struct registry_watches *watches = &registry->watches;
	if (now_ms < watches->retry_at_ms) {
		return;
	}
	int64_t next_ms = INT64_MAX;
	for (struct list *link = watches->all.next; link != &watches->all; link = link->next) {
		struct registry_watched *watched = LIST_ITEM(link, struct registry_watched, link);
		if (watched->retry_at_ms <= now_ms) {
			want_read(watched);
		} else if (watched->retry_at_ms < next_ms) {
			next_ms = watched->retry_at_ms;
		}
	}
	watches->retry_at_ms = next_ms;
	submit_reads(registry);
}

void registry_watches_dispatch(struct registry *registry, int64_t now_ms)
{
	struct list late;
	list_init(&late);
	list_move_all(&late, &registry->watches.late);
	while (!list_empty(&late)) {
		struct registry_watched *watched = LIST_ITEM(
			late.next, struct registry_watched, late_link);
		list_remove(&watched->late_link);
		bool all = watched->invalid && watched->tell_all;
		watched->tell_all = watched->tell_all && !watched->invalid;
		deliver(watched, all, false);
	}
	retry_due(registry, now_ms);
}

void registry_watches_init(struct registry_watches *watches)
{
	list_init(&watches->all);
	list_init(&watches->reads);
	list_init(&watches->confirmations);
	list_init(&watches->late);
	watches->retry_at_ms = INT64_MAX;
	watches->jitter = (unsigned)clock_monotonic_ms();
}

void registry_watches_finish(struct registry *registry)
{
	struct registry_watches *watches = &registry->watches;
	registry_call_finish(&watches->sync);
	while (!list_empty(&watches->all)) {
		struct registry_watched *watched = LIST_ITEM(
			watches->all.next, struct registry_watched, link);
		while (!list_empty(&watched->handles)) {
			handle_free(LIST_ITEM(watched->handles.next, struct registry_watch, link));
		}
		watched_free(watched);
	}
}

/* --- What the user calls --- */

static struct registry_watched *watched_create(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	struct registry_watched *watched = calloc(1, sizeof(*watched));
	if (!watched) {
		return NULL;
	}
	watched->registry = registry;
	watched->kind = kind;
	watched->retry_at_ms = INT64_MAX;
	watched->path = strdup(path);
	if (!watched->path || !tsearch(watched, &registry->watches.by_path, compare_watched)) {
		free(watched->path);
		free(watched);
		return NULL;
	}
	list_init(&watched->reads_link);
	list_init(&watched->late_link);
	list_init(&watched->handles);
	list_append(&registry->watches.all, &watched->link);
	registry->watches.count++;
	if (path_check(path, strlen(path), &watched->state.err)) {
		watched->invalid = true;
		watched->known = true;
	} else {
		want_read(watched);
	}
	return watched;
}

/* Has what is known told from the next dispatch. */
static void tell_late(struct registry_watched *watched)
{
	if (watched->known && list_empty(&watched->late_link)) {
		list_append(&watched->registry->watches.late, &watched->late_link);
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
	/* Whoever asked for a refresh knows that something has happened: its outcome is the first thing to tell then. */
	bool refreshing = watched->tell_all && registry->state == REGISTRY_CONNECTED;
	if (!refreshing || watched->invalid) {
		tell_late(watched);
	}
	submit_reads(registry);
	return handle;
}

void registry_watch_refresh(struct registry_watch *watch)
{
	struct registry_watched *watched = watch->watched;
	watched->tell_all = true;
	if (watched->invalid) {
		tell_late(watched);
		return;
	}
	want_read(watched);
	submit_reads(watched->registry);
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

size_t registry_watch_count(const struct registry *registry)
{
	return registry->watches.count;
}
