/*
 * How a watched path learns its state from another one instead of by a read of its own.
 */
#include "lib/registry/watched.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"

enum implied { IMPLIED_NOTHING, IMPLIED_ABSENT, IMPLIED_EMPTY };

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

static int compare_path(const void *path, const void *child)
{
	return strcmp(path, *(char *const *)child);
}

static bool lists(const struct registry_watched *parent, const char *path)
{
	const struct registry_value *list = parent->value;
	return list->stat.children > 0 &&
		bsearch(path, list->children, list->stat.children, sizeof(*list->children),
			compare_path) != NULL;
}

static enum implied implied_by(
	const struct registry_watched *leader, const struct registry_watched *watched)
{
	if (leader->value->code == BERTH_PATH_NOT_FOUND) {
		return IMPLIED_ABSENT;
	}
	if (leader->value->code) {
		return IMPLIED_NOTHING;
	}
	if (leader->kind == REGISTRY_WATCH_DATA) {
		return leader->value->stat.ephemeral ? IMPLIED_EMPTY : IMPLIED_NOTHING;
	}
	return lists(leader, watched->path) ? IMPLIED_NOTHING : IMPLIED_ABSENT;
}

static void learn_implied(struct registry_watched *watched);

void watched_update_followers(struct registry_watched *leader, bool answered)
{
	struct list *next;
	for (struct list *at = leader->followers.next; at != &leader->followers; at = next) {
		struct registry_watched *follower = LIST_ITEM(at, struct registry_watched, place);
		next = at->next;
		bool reads = answered ? implied_by(leader, follower) == IMPLIED_NOTHING
				      : !watched_is_settled(follower);
		if (reads) {
			watched_want_read(follower);
		} else if (answered) {
			learn_implied(follower);
		}
	}
}

/* Recursive, as deep as the tree is. */
static void learn_implied(struct registry_watched *watched)
{
	struct registry_task found = { .ret_stat = watched->leader->value->stat };
	if (implied_by(watched->leader, watched) == IMPLIED_ABSENT) {
		found.ret_stat = (struct registry_stat){ 0 };
		err_set(&found.ret_err, BERTH_PATH_NOT_FOUND, "%s: no such path", watched->path);
	}
	watched_doubt_begin(watched); /* its users have the state later than those of the leader */
	if (watched_learn(watched, &found)) {
		return;
	}
	watched_update_followers(watched, true);
	watched->doubt.resolved = true;
	if (watched->undelivered || watched->deliver_all) {
		watched_deliver_later(watched);
	} else {
		list_remove(&watched->doubt.link);
	}
}

static void wait_for_leader(struct registry_watched *watched, struct registry_watched *leader)
{
	watched_enter(watched, WATCHED_FOLLOWING, &leader->followers);
	watched->epoch = 0;
	watched->leader = leader;
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
	watched_doubt_begin(watched);
	if (watched->phase == WATCHED_FOLLOWING) {
		return;
	}
	struct registry_watched *leader = data_of(watched);
	leader = leader ? leader : parents_list(watched);
	bool idle = watched->phase == WATCHED_SETTLED || watched->phase == WATCHED_CONFIRMING;
	if (!idle || !leader || !will_learn(leader)) {
		watched_want_read(watched);
	} else if (!follow(watched, leader)) {
		wait_for_leader(watched, leader);
	}
}
