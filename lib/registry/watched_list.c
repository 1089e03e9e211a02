/*
 * The rule of the list (watched.h): which values of watched paths agree with each other, and how a
 * watched path learns its state from another one instead of by a read of its own.
 */
#include "lib/registry/watched.h"

#include <string.h>

#include "lib/base/path.h"

/* ---- leaders ---- */

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

static struct registry_watched *leader_of(const struct registry_watched *watched)
{
	struct registry_watched *data = data_of(watched);
	return data ? data : parents_list(watched);
}

/* Nobody has answered: what was known is no less true for it. */
static bool is_no_answer(const struct registry_value *value)
{
	return value->code == BERTH_TIMEOUT || value->code == BERTH_FAILED;
}

/* The registry's last answer holds now. */
static bool is_current(const struct registry_watched *watched)
{
	return watched_is_settled(watched) && !is_no_answer(watched->value);
}

enum said { SAID_NOTHING, SAID_THERE, SAID_ABSENT };

/* Whether the node is there, if this is the leader's value; NULL: none. */
static enum said said_by(const struct registry_watched *leader, const struct registry_value *value,
	const struct registry_watched *watched)
{
	if (!value) {
		return SAID_NOTHING;
	}
	if (leader->kind == REGISTRY_WATCH_DATA) {
		return value->code == BERTH_PATH_NOT_FOUND ? SAID_ABSENT
			: registry_value_exists(value)     ? SAID_THERE
							   : SAID_NOTHING;
	}
	return !registry_value_is_whole_list(value)          ? SAID_NOTHING
		: registry_value_names(value, watched->path) ? SAID_THERE
							     : SAID_ABSENT;
}

enum implied { IMPLIED_NOTHING, IMPLIED_ABSENT, IMPLIED_EMPTY };

static enum implied implied_by(
	const struct registry_watched *leader, const struct registry_watched *watched)
{
	if (said_by(leader, leader->value, watched) == SAID_ABSENT) {
		return IMPLIED_ABSENT;
	}
	bool is_leaf = leader->kind == REGISTRY_WATCH_DATA && leader->value->code == 0 &&
		leader->value->stat.ephemeral;
	return is_leaf ? IMPLIED_EMPTY : IMPLIED_NOTHING;
}

static void wait_for_leader(struct registry_watched *watched, struct registry_watched *leader)
{
	watched_enter(watched, WATCHED_FOLLOWING, &leader->followers);
	watched->epoch = 0;
	watched->leader = leader;
}

/* ---- values ---- */

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

static void set_value(
	struct registry_watched *watched, const struct registry_value *now_take, uint64_t serial)
{
	watched->undelivered = watched->undelivered || differs(watched, now_take);
	bool identical = watched->value && is_identical(watched->value, now_take);
	if (!is_no_answer(now_take)) {
		registry_value_release(watched->last);
		watched->last = NULL;
	} else if (!watched->last && watched->value && !is_no_answer(watched->value)) {
		watched->last = registry_value_hold(watched->value);
	}
	registry_value_release(identical ? now_take : watched->value);
	watched->value = identical ? watched->value : now_take;
	watched->serial = serial;
	watched->epoch = watched->registry->watches.epoch;
	watched->disputed = false;
	watched->registry->watches.recalled -= watched->recalled;
	watched->recalled = false;
}

/* ---- what a list lacks has ended ---- */

struct lost {
	const struct registry_value *old;
	const struct registry_value *now;
	size_t old_index;
	size_t now_index;
};

/* The next path of the old list that the new one lacks; NULL: there are no more. */
static const char *next_lost(struct lost *lost)
{
	while (lost->old_index < lost->old->stat.children) {
		const char *path = lost->old->children[lost->old_index];
		int order = lost->now_index == lost->now->stat.children
			? -1
			: strcmp(path, lost->now->children[lost->now_index]);
		lost->old_index += order <= 0;
		lost->now_index += order >= 0;
		if (order < 0) {
			return path;
		}
	}
	return NULL;
}

/* A node is known, by a read that began later than that with this number. */
static bool was_there_later(const struct registry_watched *watched, uint64_t serial)
{
	return watched && watched_answer(watched) &&
		registry_value_exists(watched_answer(watched)) && watched->serial > serial;
}

/* A node is known, by a read that began no later. */
static bool was_there(const struct registry_watched *watched, uint64_t serial)
{
	return watched && watched_answer(watched) &&
		registry_value_exists(watched_answer(watched)) && watched->serial <= serial;
}

/* A path that it lacks was read later than this list, and was there. */
static bool is_overtaken(
	const struct registry_watched *list, const struct registry_value *read, uint64_t serial)
{
	struct lost lost = { .old = watched_answer(list), .now = read };
	const char *path = NULL;
	bool compares = list->kind == REGISTRY_WATCH_CHILDREN && lost.old &&
		registry_value_is_whole_list(read);
	while (compares && (path = next_lost(&lost)) != NULL) {
		struct registry *registry = list->registry;
		for (int kind = REGISTRY_WATCH_DATA; kind <= REGISTRY_WATCH_CHILDREN; kind++) {
			if (was_there_later(watched_find(registry, path, kind), serial)) {
				return true;
			}
		}
	}
	return false;
}

static void end_below(struct registry_watched *list, const struct registry_value *old);

/*
 * The leader's value, as users are about to get it, ends the path. Recursive, as deep as the tree
 * is.
 */
static void end(struct registry_watched *watched, const struct registry_watched *list)
{
	const struct registry_value *old = registry_value_hold(watched_answer(watched));
	if (watched->phase != WATCHED_READING && watched->phase != WATCHED_READING_AGAIN) {
		wait_for_leader(watched, leader_of(watched));
	}
	set_value(watched, registry_value_absent(), list->serial);
	watched->epoch = 0;
	watched_doubt_begin(watched, list); /* until it is settled */
	watched_deliver_later(watched);
	if (watched->kind == REGISTRY_WATCH_CHILDREN) {
		end_below(watched, old);
	} else {
		struct registry_watched *children = watched_find(
			watched->registry, watched->path, REGISTRY_WATCH_CHILDREN);
		if (was_there(children, list->serial)) {
			end(children, list);
		}
	}
	registry_value_release(old);
}

static void end_path(const struct registry_watched *list, const char *path)
{
	struct registry_watched *data = watched_find(list->registry, path, REGISTRY_WATCH_DATA);
	struct registry_watched *first = data
		? data
		: watched_find(list->registry, path, REGISTRY_WATCH_CHILDREN);
	if (was_there(first, list->serial)) {
		end(first, list);
	}
}

static void end_if_lacked(struct registry_watched *watched, const struct registry_watched *list)
{
	bool may_follow = path_is_child(watched->path, list->path); /* cheaper than to find it */
	if (may_follow && leader_of(watched) == list &&
		said_by(list, list->value, watched) == SAID_ABSENT &&
		was_there(watched, list->serial)) {
		end(watched, list);
	}
}

/* These may leave the queue meanwhile, or others. */
static void end_lacked_in_queue(struct list *queue, const struct registry_watched *list)
{
	struct list all;
	list_init(&all);
	list_move_all(&all, queue);
	while (!list_empty(&all)) {
		struct registry_watched *watched = LIST_ITEM(
			all.next, struct registry_watched, place);
		list_remove(&watched->place);
		list_append(queue, &watched->place);
		end_if_lacked(watched, list);
	}
}

/* The first list: those that have no current value and no notification may have ended unseen. */
static void end_all_lacked(const struct registry_watched *list)
{
	struct registry_watches *watches = &list->registry->watches;
	for (struct list *at = watches->doubted.next; at != &watches->doubted; at = at->next) {
		end_if_lacked(LIST_ITEM(at, struct registry_watched, doubt.link), list);
	}
	for (struct list *at = watches->reading.next; at != &watches->reading; at = at->next) {
		end_if_lacked(LIST_ITEM(at, struct registry_watched, place), list);
	}
	end_lacked_in_queue(&watches->retrying, list);
	end_lacked_in_queue(&watches->waiting[REGISTRY_READ_CONFIRM], list);
	if (watches->recalled > 0) {
		end_lacked_in_queue(&watches->waiting[REGISTRY_READ_URGENT], list);
		end_lacked_in_queue(&watches->waiting[REGISTRY_READ_LAZY], list);
	}
}

/* `old`: the value before, or NULL. */
static void end_below(struct registry_watched *list, const struct registry_value *old)
{
	if (list->kind != REGISTRY_WATCH_CHILDREN || list->value == old ||
		!registry_value_is_whole_list(list->value)) {
		return;
	}
	if (!old || !registry_value_is_whole_list(old)) {
		end_all_lacked(list);
		return;
	}
	struct lost lost = { .old = old, .now = list->value };
	const char *path;
	while ((path = next_lost(&lost)) != NULL) {
		end_path(list, path);
	}
}

/* ---- following ---- */

static void update_followers(struct registry_watched *leader);

/* Users get it at the end of this dispatch, behind what it followed from. */
static void show(struct registry_watched *watched, const struct registry_value *old)
{
	bool is_news = watched->undelivered || watched->deliver_all;
	if (is_news) {
		watched_deliver_later(watched);
	}
	end_below(watched, old);
	update_followers(watched);
	watched->doubt.resolved = true;
	if (!is_news) {
		list_remove(&watched->doubt.link);
	}
}

/* Recursive, as deep as the tree is. */
static void learn_implied(struct registry_watched *watched)
{
	const struct registry_value *implied = implied_by(watched->leader, watched) ==
			IMPLIED_ABSENT
		? registry_value_absent()
		: registry_value_childless();
	/* Its users have the state later than those of the leader. */
	watched_doubt_begin(watched, watched->leader);
	registry_value_release(watched->next);
	watched->next = NULL;
	const struct registry_value *old = registry_value_hold(watched_answer(watched));
	set_value(watched, implied, watched->leader->serial);
	show(watched, old);
	registry_value_release(old);
}

/* False when the leader is settled and implies nothing. */
static bool follow(struct registry_watched *watched, struct registry_watched *leader)
{
	bool settled = watched_is_settled(leader);
	if (settled && implied_by(leader, watched) == IMPLIED_NOTHING) {
		return false;
	}
	wait_for_leader(watched, leader);
	if (settled) {
		learn_implied(watched);
	}
	return true;
}

void watched_want_first(struct registry_watched *watched)
{
	struct registry_watched *data = data_of(watched);
	struct registry_watched *parent = parents_list(watched);
	if (data && follow(watched, data)) {
		watched_hurry(data);
	} else if (data || !parent || !watched_is_settled(parent) || !follow(watched, parent)) {
		watched_want_read(watched);
	}
}

bool watched_follows_instead(struct registry_watched *watched)
{
	struct registry_watched *leader = data_of(watched);
	if (!leader && watched->value->code == BERTH_PATH_NOT_FOUND) {
		leader = parents_list(watched);
	}
	return leader && follow(watched, leader);
}

/* ---- what was read ---- */

enum verdict { AGREED, HELD, OUTDATED };

static enum verdict judge(const struct registry_watched *watched, const struct registry_value *read)
{
	bool there = registry_value_exists(read);
	if (!there && read->code != BERTH_PATH_NOT_FOUND) {
		return AGREED; /* it says nothing of the node */
	}
	if (is_overtaken(watched, read, watched->read_serial)) {
		return OUTDATED;
	}
	const struct registry_watched *leader = leader_of(watched);
	enum said said = leader ? said_by(leader, watched_answer(leader), watched) : SAID_NOTHING;
	if (!leader || (there && said == SAID_THERE)) {
		return AGREED;
	}
	if (!is_current(leader)) {
		bool has_failed = leader->phase == WATCHED_SETTLED ||
			leader->phase == WATCHED_INVALID;
		return has_failed && (!there || said != SAID_ABSENT) ? AGREED : HELD;
	}
	if (said == SAID_NOTHING || there == (said == SAID_THERE) ||
		(!there && watched->disputed)) {
		return AGREED; /* or a list names for ever what cannot be found */
	}
	return leader->serial > watched->read_serial ? OUTDATED : HELD;
}

static void hold(struct registry_watched *watched, const struct registry_value *read_take)
{
	struct registry_watched *leader = leader_of(watched);
	watched_doubt_begin(watched, leader);
	wait_for_leader(watched, leader);
	watched->next = read_take;
	if (is_current(leader)) {
		watched->disputed = true;
		watched_want_read(leader);
	}
	watched_hurry(leader);
}

/* The leader's value, or that of a path below, is newer than the one that was read. */
static void look_again(struct registry_watched *watched)
{
	struct registry_watched *leader = leader_of(watched);
	if (!leader || leader->serial <= watched->read_serial || !is_current(leader) ||
		!follow(watched, leader)) {
		watched_want_read(watched);
	}
}

bool watched_take(
	struct registry_watched *watched, const struct registry_value *read_take, bool again)
{
	enum verdict verdict = judge(watched, read_take);
	if (verdict != AGREED) {
		if (verdict == HELD && !again) {
			hold(watched, read_take);
			return false;
		}
		registry_value_release(read_take);
		if (again) {
			watched_want_read(watched);
		} else {
			look_again(watched);
		}
		return false;
	}
	const struct registry_value *old = registry_value_hold(watched_answer(watched));
	set_value(watched, read_take, watched->read_serial);
	if (again) {
		watched_want_read(watched);
	}
	end_below(watched, old);
	if (!again) {
		update_followers(watched);
		watched->doubt.resolved = true;
	}
	registry_value_release(old);
	return true;
}

/* The leader of one that holds a value back has learnt something. */
static void decide(struct registry_watched *watched)
{
	const struct registry_value *next = watched->next;
	struct registry_watched *leader = watched->leader;
	switch (judge(watched, next)) {
	case AGREED: {
		const struct registry_value *old = registry_value_hold(watched_answer(watched));
		watched->next = NULL;
		list_remove(&watched->place);
		watched->leader = NULL;
		watched->phase = WATCHED_SETTLED;
		set_value(watched, next, watched->read_serial);
		show(watched, old);
		registry_value_release(old);
		break;
	}
	case HELD:
		if (leader_of(watched) != leader) {
			watched->next = NULL;
			hold(watched, next);
		} else if (is_current(leader)) {
			watched->disputed = true;
			watched_want_read(leader);
		}
		break;
	case OUTDATED:
		look_again(watched);
		break;
	}
}

static void update_followers(struct registry_watched *leader)
{
	struct list *next;
	for (struct list *at = leader->followers.next; at != &leader->followers; at = next) {
		struct registry_watched *follower = LIST_ITEM(at, struct registry_watched, place);
		next = at->next;
		if (follower->next) {
			decide(follower);
		} else if (implied_by(leader, follower) == IMPLIED_NOTHING) {
			watched_want_read(follower);
		} else {
			learn_implied(follower);
		}
	}
}

void watched_leader_failed(struct registry_watched *leader)
{
	struct list *next;
	for (struct list *at = leader->followers.next; at != &leader->followers; at = next) {
		struct registry_watched *follower = LIST_ITEM(at, struct registry_watched, place);
		next = at->next;
		if (follower->next) {
			decide(follower);
		} else if (!watched_is_settled(follower)) {
			watched_want_read(follower);
		}
	}
}

/* ---- deletions ---- */

/*
 * True when it has heard of the deletion, or the notification is on its way behind this one. One
 * whose last read failed may have no notification to wait for.
 */
static bool will_learn(const struct registry_watched *leader)
{
	int code = leader->value ? leader->value->code : 0;
	return (watched_is_settled(leader) && (code == 0 || code == BERTH_PATH_NOT_FOUND)) ||
		leader->phase == WATCHED_WAITING || leader->phase == WATCHED_READING ||
		leader->phase == WATCHED_READING_AGAIN || leader->phase == WATCHED_FOLLOWING;
}

void watched_node_is_gone(struct registry_watched *watched)
{
	if (!watched) {
		return;
	}
	watched_doubt_begin(watched, watched->leader);
	if (watched->phase == WATCHED_FOLLOWING) {
		registry_value_release(watched->next);
		watched->next = NULL;
		return;
	}
	struct registry_watched *leader = leader_of(watched);
	bool idle = watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_CONFIRMING;
	if (!idle || !leader || !will_learn(leader)) {
		watched_want_read(watched);
	} else if (!follow(watched, leader)) {
		wait_for_leader(watched, leader);
	}
}
