/*
 * How a watched learns its state: by reads, in an order of their own, and from other watched
 * states.
 */
#include "lib/registry/watched.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"

enum { RETRY_MS = 30000, RETRY_SOON_MS = 1000 };

/* ---- finding ---- */

static int compare_watched(const void *a, const void *b)
{
	const struct registry_watched *x = a;
	const struct registry_watched *y = b;
	return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : strcmp(x->path, y->path);
}

struct registry_watched *watched_find(
	struct registry *registry, const char *path, enum registry_watch_kind kind)
{
	const struct registry_watched key = { .path = (char *)(uintptr_t)path, .kind = kind };
	struct registry_watched **found = tfind(&key, &registry->watches.by_path, compare_watched);
	return found ? *found : NULL;
}

static struct registry_watched *data_of(const struct registry_watched *watched)
{
	return watched->kind == REGISTRY_WATCH_CHILDREN
		? watched_find(watched->registry, watched->path, REGISTRY_WATCH_DATA)
		: NULL;
}

static struct registry_watched *parents_list(const struct registry_watched *watched)
{
	char parent[LIMIT_PATH_BYTES + 1];
	size_t len = path_parent_len(watched->path);
	if (len == 0 || len >= sizeof(parent)) {
		return NULL;
	}
	memcpy(parent, watched->path, len);
	parent[len] = '\0';
	return watched_find(watched->registry, parent, REGISTRY_WATCH_CHILDREN);
}

/* ---- waiting ---- */

static void leave(struct registry_watched *watched)
{
	list_remove(&watched->place);
	watched->leader = NULL;
}

static void enter(struct registry_watched *watched, enum watched_phase phase, struct list *queue)
{
	leave(watched);
	watched->phase = phase;
	watched->retry_at_ms = INT64_MAX;
	list_append(queue, &watched->place);
}

/*
 * The known state may have changed, and the change is not read yet: an announced one, or one of a
 * watched that loses its leader and has no notification of its own before its read. A state that
 * the leader implied is no truer than the leader. The list is in the order of the times.
 */
static void begin_doubt(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	struct watched_doubt *doubt = &watched->doubt;
	doubt->resolved = false;
	if (!watched->known || !list_empty(&doubt->link)) {
		return;
	}
	doubt->heard_ms = registry_server_heard_ms(watched->registry, watches->now_ms);
	for (struct registry_watched *leader = watched->leader; leader; leader = leader->leader) {
		if (!list_empty(&leader->doubt.link) && leader->doubt.heard_ms < doubt->heard_ms) {
			doubt->heard_ms = leader->doubt.heard_ms;
		}
	}
	struct list *later = &watches->doubted;
	while (later->prev != &watches->doubted &&
		LIST_ITEM(later->prev, struct watched_doubt, link)->heard_ms > doubt->heard_ms) {
		later = later->prev;
	}
	list_append(later, &doubt->link);
}

static void want_read(struct registry_watched *watched)
{
	if (watched->phase == WATCHED_FOLLOWING) {
		begin_doubt(watched);
	}
	watched->epoch = 0;
	if (watched->phase == WATCHED_READING || watched->phase == WATCHED_READING_AGAIN) {
		watched->phase = WATCHED_READING_AGAIN;
	} else if (watched->phase != WATCHED_WAITING) {
		enter(watched, WATCHED_WAITING, &watched->registry->watches.reads);
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
	if (watched->known && list_empty(&watched->delivery_link)) {
		list_append(&watched->registry->watches.deliveries, &watched->delivery_link);
	}
}

/*
 * Delivers the state; a resolved doubt ends afterwards. It moves here first, because the delivery
 * may free the watched.
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

/* ---- learning ---- */

/* The node exists, but its data are no record. */
static bool is_unreadable(int code)
{
	return code == BERTH_NO_RECORD || code == BERTH_INVALID_RECORD;
}

static bool differs(const struct registry_watched *watched, const struct registry_result *now)
{
	const struct registry_result *before = &watched->state;
	if (!watched->known || before->err.code != now->err.code) {
		return true;
	}
	if (now->err.code && !is_unreadable(now->err.code)) {
		return false;
	}
	if (before->stat.node_id != now->stat.node_id || before->stat.own != now->stat.own) {
		return true;
	}
	return watched->kind == REGISTRY_WATCH_DATA ? before->stat.version != now->stat.version
						    : !registry_children_equal(before, now);
}

/* Takes `data`, and builds the children from the names that the backend or a leader found. */
static void learn(struct registry_watched *watched, const struct registry_task *found)
{
	struct registry_result now = {
		.err = found->ret_err,
		.stat = found->ret_stat,
		.data = found->ret_data,
		.data_len = found->ret_len,
	};
	struct registry_children children = { .paths = NULL };
	if (!now.err.code && watched->kind == REGISTRY_WATCH_CHILDREN) {
		if (registry_children_init(&children, watched->path, found, false)) {
			err_set(&now.err, BERTH_FAILED, "no memory to list %s", watched->path);
		} else {
			registry_children_put(&children, &now);
		}
	}
	watched->undelivered = watched->undelivered || differs(watched, &now);
	free(watched->data);
	free(watched->children);
	watched->data = found->ret_data;
	watched->children = children.paths;
	watched->state = now;
	watched->known = true;
	watched->epoch = watched->registry->watches.epoch;
}

/* ---- following ---- */

enum implied { IMPLIED_NOTHING, IMPLIED_ABSENT, IMPLIED_EMPTY };

static int compare_path(const void *path, const void *child)
{
	return strcmp(path, *(char *const *)child);
}

static bool lists(const struct registry_watched *parent, const char *path)
{
	return parent->state.children_count > 0 &&
		bsearch(path, parent->state.children, parent->state.children_count,
			sizeof(*parent->state.children), compare_path) != NULL;
}

static enum implied implied_by(
	const struct registry_watched *leader, const struct registry_watched *watched)
{
	if (leader->state.err.code == BERTH_PATH_NOT_FOUND) {
		return IMPLIED_ABSENT;
	}
	if (leader->state.err.code) {
		return IMPLIED_NOTHING;
	}
	if (leader->kind == REGISTRY_WATCH_DATA) {
		return leader->state.stat.ephemeral ? IMPLIED_EMPTY : IMPLIED_NOTHING;
	}
	return lists(leader, watched->path) ? IMPLIED_NOTHING : IMPLIED_ABSENT;
}

/* The known state is true, and the backend will report its next change. */
static bool is_settled(const struct registry_watched *watched)
{
	return watched->known && watched->epoch == watched->registry->watches.epoch &&
		(watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_FOLLOWING);
}

static void learn_implied(struct registry_watched *watched);

/*
 * The followers look again. One that has to read leaves: the leader's state implies nothing, or the
 * leader got no answer and the follower waits for one. No callback runs here.
 */
static void update_followers(struct registry_watched *leader, bool answered)
{
	struct list *next;
	for (struct list *at = leader->followers.next; at != &leader->followers; at = next) {
		struct registry_watched *follower = LIST_ITEM(at, struct registry_watched, place);
		next = at->next;
		bool reads = answered ? implied_by(leader, follower) == IMPLIED_NOTHING
				      : !is_settled(follower);
		if (reads) {
			want_read(follower);
		} else if (answered) {
			learn_implied(follower);
		}
	}
}

/* Recursive, as deep as the tree is. */
static void learn_implied(struct registry_watched *watched)
{
	struct registry_task found = { .ret_stat = watched->leader->state.stat };
	if (implied_by(watched->leader, watched) == IMPLIED_ABSENT) {
		found.ret_stat = (struct registry_stat){ 0 };
		err_set(&found.ret_err, BERTH_PATH_NOT_FOUND, "%s: no such path", watched->path);
	}
	begin_doubt(watched); /* its users have the state later than those of the leader */
	learn(watched, &found);
	update_followers(watched, true);
	watched->doubt.resolved = true;
	if (watched->undelivered || watched->deliver_all) {
		watched_deliver_later(watched);
	} else {
		list_remove(&watched->doubt.link);
	}
}

static void wait_for_leader(struct registry_watched *watched, struct registry_watched *leader)
{
	enter(watched, WATCHED_FOLLOWING, &leader->followers);
	watched->epoch = 0;
	watched->leader = leader;
}

/* False when the leader is settled and implies nothing. */
static bool follow(struct registry_watched *watched, struct registry_watched *leader)
{
	bool settled = is_settled(leader);
	if (settled && implied_by(leader, watched) == IMPLIED_NOTHING) {
		return false;
	}
	wait_for_leader(watched, leader);
	if (settled) {
		learn_implied(watched);
	}
	return true;
}

/* Queues the first read of a path that has no other watch yet. */
static void want_first_state(struct registry_watched *watched)
{
	struct registry_watched *data = data_of(watched);
	struct registry_watched *parent = parents_list(watched);
	if (data && follow(watched, data)) {
		watched_hurry(data);
	} else if (data || !parent || !is_settled(parent) || !follow(watched, parent)) {
		want_read(watched);
	}
}

/* Called when it is to be confirmed: true when the confirmation of another one suffices. */
static bool follows_instead(struct registry_watched *watched)
{
	struct registry_watched *leader = data_of(watched);
	if (!leader && watched->state.err.code == BERTH_PATH_NOT_FOUND) {
		leader = parents_list(watched);
	}
	return leader && follow(watched, leader);
}

void watched_hurry(struct registry_watched *watched)
{
	if (watched->phase == WATCHED_CONFIRMING) {
		want_read(watched);
		watched_submit(watched->registry);
	} else if (watched->phase == WATCHED_FOLLOWING && !is_settled(watched)) {
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
			want_read(leader);
		}
	} else {
		want_read(watched);
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

static void start_read(struct registry_watched *watched)
{
	struct registry_task *task = &watched->call.task;
	watched->phase = WATCHED_READING;
	watched->asked = true;
	watched->registry->watches.reads_in_flight++;
	task->operation = watched->kind == REGISTRY_WATCH_DATA ? REGISTRY_OP_GET
							       : REGISTRY_OP_CHILDREN;
	task->path = watched->path;
	task->watch = true;
	watched->call.owner = watched;
	watched->call.completed = on_read;
	registry_call_submit(
		watched->registry, &watched->call, registry_call_deadline_ms(watched->registry));
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
		if (watched->phase != WATCHED_CONFIRMING || !follows_instead(watched)) {
			start_read(watched);
		}
	}
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

static void on_read(struct registry_call *call)
{
	struct registry_watched *watched = call->owner;
	struct registry *registry = watched->registry;
	int code = call->task.ret_err.code;
	bool again = watched->phase == WATCHED_READING_AGAIN;
	registry->watches.reads_in_flight--;
	watched->phase = WATCHED_SETTLED;
	if (code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_AUTHENTICATION_FAILED) {
		/*
		 * The read gave no state. The reconnect reads all watches again; without a
		 * reconnect the retry does.
		 */
		registry_call_clear(call);
		retry_later(watched, RETRY_SOON_MS);
		if (registry->state == REGISTRY_CONNECTED) {
			update_followers(watched, false);
		}
	} else {
		learn(watched, &call->task);
		call->task.ret_data = NULL;
		registry_call_clear(call);
		if (again) {
			want_read(watched);
		} else if (code && code != BERTH_PATH_NOT_FOUND && !is_unreadable(code)) {
			retry_later(watched, code == BERTH_TIMEOUT ? RETRY_SOON_MS : RETRY_MS);
		}
		if (!again) {
			update_followers(watched, true);
			watched->doubt.resolved = true;
		}
		deliver_read(watched, again);
	}
	watched_submit(registry);
}

/* ---- from the registry ---- */

/*
 * True when it has heard of the deletion, or the notification is on its way behind this one. One
 * whose last read failed may have no notification to wait for.
 */
static bool will_learn(const struct registry_watched *leader)
{
	int code = leader->state.err.code;
	return (is_settled(leader) && (code == 0 || code == BERTH_PATH_NOT_FOUND)) ||
		leader->phase == WATCHED_WAITING || leader->phase == WATCHED_READING ||
		leader->phase == WATCHED_READING_AGAIN || leader->phase == WATCHED_FOLLOWING;
}

int64_t registry_watches_heard_ms(const struct registry *registry, int64_t heard_ms)
{
	const struct list *doubted = &registry->watches.doubted;
	if (list_empty(doubted)) {
		return heard_ms;
	}
	const struct watched_doubt *first = LIST_ITEM(doubted->next, struct watched_doubt, link);
	return first->heard_ms < heard_ms ? first->heard_ms : heard_ms;
}

static void node_is_gone(struct registry_watched *watched)
{
	if (!watched) {
		return;
	}
	begin_doubt(watched);
	if (watched->phase == WATCHED_FOLLOWING) {
		return;
	}
	struct registry_watched *leader = data_of(watched);
	leader = leader ? leader : parents_list(watched);
	bool idle = watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_CONFIRMING;
	if (!idle || !leader || !will_learn(leader)) {
		want_read(watched);
	} else if (!follow(watched, leader)) {
		wait_for_leader(watched, leader);
	}
}

static void notify(
	struct registry *registry, const char *path, enum registry_watch_kind kind, bool gone)
{
	if (gone) {
		/* In this order: the list of children follows the data. */
		node_is_gone(watched_find(registry, path, REGISTRY_WATCH_DATA));
		node_is_gone(watched_find(registry, path, REGISTRY_WATCH_CHILDREN));
	} else {
		struct registry_watched *watched = watched_find(registry, path, kind);
		if (watched) {
			begin_doubt(watched);
			want_read(watched);
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
		if (!watched->known) {
			watched_hurry(watched);
		}
	}
}

static void want_confirmation(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	watched->deliver_all = true;
	if (!watched->known) {
		if (watched->phase != WATCHED_FOLLOWING) {
			want_read(watched);
		}
	} else if (watched->phase == WATCHED_READING) {
		want_read(watched);
	} else if (watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_FOLLOWING) {
		enter(watched, WATCHED_CONFIRMING, &watches->confirmations);
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
			want_read(watched);
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
			(watched->phase == WATCHED_FOLLOWING && is_settled(watched));
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
	list_init(&watched->place);
	list_init(&watched->delivery_link);
	list_init(&watched->doubt.link);
	list_init(&watched->handles);
	list_init(&watched->followers);
	list_append(&registry->watches.all, &watched->link);
	registry->watches.count++;
	if (registry_path_check(registry, path, &watched->state.err)) {
		watched->phase = WATCHED_INVALID;
		watched->known = true;
	} else {
		want_first_state(watched);
	}
	return watched;
}

void watched_free(struct registry_watched *watched)
{
	struct registry_watches *watches = &watched->registry->watches;
	if (watched->phase == WATCHED_READING || watched->phase == WATCHED_READING_AGAIN) {
		watches->reads_in_flight--;
	}
	while (!list_empty(&watched->followers)) {
		want_read(LIST_ITEM(watched->followers.next, struct registry_watched, place));
	}
	list_remove(&watched->doubt.link); /* no earlier: the followers may have none yet */
	registry_call_finish(&watched->call);
	tdelete(watched, &watches->by_path, compare_watched);
	list_remove(&watched->link);
	list_remove(&watched->place);
	list_remove(&watched->delivery_link);
	watches->count--;
	free(watched->data);
	free(watched->children);
	free(watched->path);
	free(watched);
}
