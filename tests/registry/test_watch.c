/* Watches, on every backend: the first state, every last state, and nothing after unwatching. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/registry_stage.h"
#include "tests/support/watch_count.h"

#define RECORD "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"one\"}"
#define OTHER "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"two\"}"

/* Another client's write, or our own. */
static void put(struct registry *registry, const char *path, const char *data)
{
	struct answer answer = { 0 };
	client_put(registry, path, data, REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
}

static void delete (struct registry *registry, const char *path)
{
	struct answer answer = { 0 };
	client_delete(registry, path, REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
}

static bool holds_other(void *context)
{
	const struct answer *seen = context;
	return seen->data && strcmp(seen->data, OTHER) == 0;
}

static bool holds_record(void *context)
{
	const struct answer *seen = context;
	return seen->data && strcmp(seen->data, RECORD) == 0;
}

static bool is_absent(void *context)
{
	const struct answer *seen = context;
	return seen->err.code == BERTH_PATH_NOT_FOUND;
}

EVERY_BACKEND(watch, tells_the_first_state)
{
	struct answer seen = { 0 };
	put(stage->registry, "/services/web", RECORD);
	struct registry_watch *watch = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &seen);
	cr_assert_eq(seen.calls, 0, "never inside the call");
	client_wait_calls(&seen, 1);
	assert_answer(&seen, "OK");
	cr_assert_str_eq(seen.data, RECORD);
	cr_assert(seen.changed);
	registry_unwatch(watch);
	answer_clear(&seen);
}

EVERY_BACKEND(watch, tells_creation_changes_and_deletion)
{
	struct answer seen = { 0 };
	struct registry *other = stage_client(stage);
	struct registry_watch *watch = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	assert_answer(&seen, "PathNotFound");
	put(other, "/services/web", RECORD);
	client_wait(holds_record, &seen);
	uint64_t node_id = seen.stat.node_id;
	put(other, "/services/web", OTHER);
	client_wait(holds_other, &seen);
	cr_assert_eq(seen.stat.node_id, node_id);
	delete (other, "/services/web");
	client_wait(is_absent, &seen);
	put(other, "/services/web", RECORD);
	client_wait(holds_record, &seen);
	cr_assert_neq(seen.stat.node_id, node_id);
	registry_unwatch(watch);
	client_close(other);
	answer_clear(&seen);
}

EVERY_BACKEND(watch, sees_a_path_whose_parents_come_and_go)
{
	struct answer seen = { 0 };
	struct registry_watch *watch = registry_watch(
		stage->registry, "/a/b/c/d", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	for (int i = 0; i < 3; i++) {
		put(stage->registry, "/a/b/c/d", RECORD);
		client_wait(holds_record, &seen);
		delete (stage->registry, "/a");
		client_wait(is_absent, &seen);
	}
	registry_unwatch(watch);
	answer_clear(&seen);
}

EVERY_BACKEND(watch, sees_our_own_writes)
{
	struct answer seen = { 0 };
	put(stage->registry, "/services/web", RECORD);
	struct registry_watch *watch = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	put(stage->registry, "/services/web", OTHER);
	client_wait(holds_other, &seen);
	registry_unwatch(watch);
	answer_clear(&seen);
}

struct children_wait {
	struct answer seen;
	const char *children;
};

static bool has_children(void *context)
{
	struct children_wait *wait = context;
	return wait->seen.calls && strcmp(answer_children(&wait->seen), wait->children) == 0;
}

EVERY_BACKEND(watch, tells_children_as_they_come_and_go)
{
	struct children_wait wait = { .children = "" };
	struct registry *other = stage_client(stage);
	put(other, "/services/a", RECORD);
	struct registry_watch *watch = registry_watch(
		stage->registry, "/services", REGISTRY_WATCH_CHILDREN, answer_take, &wait.seen);
	wait.children = "/services/a";
	client_wait(has_children, &wait);
	cr_assert_eq(wait.seen.stat.children, 1);
	put(other, "/services/b", RECORD);
	wait.children = "/services/a /services/b";
	client_wait(has_children, &wait);
	delete (other, "/services/a");
	wait.children = "/services/b";
	client_wait(has_children, &wait);
	delete (other, "/services");
	client_wait(is_absent, &wait.seen);
	put(other, "/services/c", RECORD);
	wait.children = "/services/c";
	client_wait(has_children, &wait);
	registry_unwatch(watch);
	client_close(other);
	answer_clear(&wait.seen);
}

EVERY_BACKEND(watch, sees_an_ephemeral_node_vanish_with_its_session)
{
	struct answer seen = { 0 };
	struct answer answer = { 0 };
	struct children_wait wait = { .children = "" };
	struct registry *other = stage_client(stage);
	client_put(other, "/services/web", RECORD, REGISTRY_BIND_CREATE, true, &answer);
	assert_answer(&answer, "OK");
	struct registry_watch *data = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &seen);
	struct registry_watch *children = registry_watch(
		stage->registry, "/services", REGISTRY_WATCH_CHILDREN, answer_take, &wait.seen);
	client_wait(holds_record, &seen);
	wait.children = "/services/web";
	client_wait(has_children, &wait);
	client_close(other);
	client_wait(is_absent, &seen);
	wait.children = "";
	client_wait(has_children, &wait);
	registry_unwatch(data);
	registry_unwatch(children);
	answer_clear(&answer);
	answer_clear(&seen);
	answer_clear(&wait.seen);
}

EVERY_BACKEND(watch, sees_a_node_swapped_for_another_and_never_a_gap)
{
	struct answer seen = { 0 };
	struct answer answer = { 0 };
	struct registry *other = stage_client(stage);
	put(stage->registry, "/services/web", RECORD);
	struct registry_watch *watch = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait(holds_record, &seen);
	for (int i = 0; i < 20; i++) {
		bool ephemeral = i % 2 == 0;
		client_put(other, "/services/web", i % 2 ? RECORD : OTHER, REGISTRY_BIND_OVERWRITE,
			ephemeral, &answer);
		assert_answer(&answer, "OK");
		client_wait(i % 2 ? holds_record : holds_other, &seen);
		cr_assert_eq(seen.stat.ephemeral, ephemeral);
		cr_assert_eq(seen.stat.node_id, answer.stat.node_id);
	}
	registry_unwatch(watch);
	client_close(other);
	answer_clear(&answer);
	answer_clear(&seen);
}

EVERY_BACKEND(watch, shares_one_state_among_all_who_look)
{
	struct answer first = { 0 };
	struct answer late = { 0 };
	struct answer children = { 0 };
	put(stage->registry, "/services/web", RECORD);
	struct registry_watch *one = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &first);
	client_wait_calls(&first, 1);
	struct registry_watch *two = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &late);
	struct registry_watch *three = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_CHILDREN, answer_take, &children);
	cr_assert_eq(watch_count(stage->registry), 2);
	cr_assert_eq(late.calls, 0, "never inside the call");
	client_wait_calls(&late, 1);
	cr_assert_str_eq(late.data, RECORD);
	cr_assert(late.changed);
	client_wait_calls(&children, 1);
	cr_assert_eq(first.calls, 1, "the others knew it");
	put(stage->registry, "/services/web", OTHER);
	client_wait(holds_other, &first);
	client_wait(holds_other, &late);
	registry_unwatch(one);
	put(stage->registry, "/services/web", RECORD);
	client_wait(holds_record, &late);
	cr_assert(holds_other(&first), "unwatched, yet called");
	registry_unwatch(two);
	registry_unwatch(three);
	cr_assert_eq(watch_count(stage->registry), 0);
	answer_clear(&first);
	answer_clear(&late);
	answer_clear(&children);
}

EVERY_BACKEND(watch, the_last_of_many_writes_is_always_delivered)
{
	struct answer seen = { 0 };
	struct answer answer = { 0 };
	struct registry *other = stage_client(stage);
	put(other, "/services/web", OTHER);
	struct registry_watch *watch = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &seen);
	for (int i = 0; i < 100; i++) {
		char data[32];
		snprintf(data, sizeof(data), "write %d", i);
		client_put(other, "/services/web", data, REGISTRY_BIND_OVERWRITE, false, &answer);
		assert_answer(&answer, "OK");
	}
	put(other, "/services/web", RECORD);
	client_wait(holds_record, &seen);
	/* Quiet now: a further read finds nothing new. */
	size_t calls = seen.calls;
	registry_watch_refresh(watch);
	client_wait_calls(&seen, calls + 1);
	cr_assert_not(seen.changed);
	cr_assert(holds_record(&seen));
	registry_unwatch(watch);
	client_close(other);
	answer_clear(&answer);
	answer_clear(&seen);
}

EVERY_BACKEND(watch, refresh_reads_again_and_tells_in_any_case)
{
	struct answer seen = { 0 };
	put(stage->registry, "/services/web", RECORD);
	struct registry_watch *watch = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	registry_watch_refresh(watch);
	client_wait_calls(&seen, 2);
	cr_assert_not(seen.changed);
	cr_assert_str_eq(seen.data, RECORD);
	registry_unwatch(watch);
	answer_clear(&seen);
}

EVERY_BACKEND(watch, an_invalid_path_is_told_so)
{
	struct answer seen = { 0 };
	struct registry_watch *watch = registry_watch(
		stage->registry, "/Upper/", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	assert_answer(&seen, "InvalidPathname");
	registry_watch_refresh(watch);
	client_wait_calls(&seen, 2);
	assert_answer(&seen, "InvalidPathname");
	registry_unwatch(watch);
	answer_clear(&seen);
}

/* Unwatches itself and another, and watches anew, all from within on_change. */
struct juggler {
	struct registry *registry;
	struct registry_watch *watch;
	struct juggler *victim;
	size_t calls;
};

static void juggle(void *context, const struct registry_result *result)
{
	struct juggler *juggler = context;
	cr_assert_eq(result->err.code, 0);
	juggler->calls++;
	if (juggler->victim) {
		registry_unwatch(juggler->victim->watch);
		juggler->victim->watch = NULL;
	}
	if (juggler->calls < 5) {
		registry_unwatch(juggler->watch);
		juggler->watch = registry_watch(
			juggler->registry, "/services/web", REGISTRY_WATCH_DATA, juggle, juggler);
	}
}

static bool juggled(void *context)
{
	const struct juggler *juggler = context;
	return juggler->calls >= 5;
}

EVERY_BACKEND(watch, can_be_added_and_removed_from_within_on_change)
{
	struct juggler victim = { .registry = stage->registry, .calls = 100 };
	struct juggler juggler = { .registry = stage->registry, .victim = &victim };
	put(stage->registry, "/services/web", RECORD);
	juggler.watch = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, juggle, &juggler);
	victim.watch = registry_watch(
		stage->registry, "/services/web", REGISTRY_WATCH_DATA, juggle, &victim);
	client_wait(juggled, &juggler);
	cr_assert_eq(victim.calls, 100, "unwatched by the other before its turn");
	cr_assert_eq(watch_count(stage->registry), 1);
	registry_unwatch(juggler.watch);
	cr_assert_eq(watch_count(stage->registry), 0);
}

enum { MANY = 300 };

static bool all_called(void *context)
{
	const struct answer *seen = context;
	for (size_t i = 0; i < MANY; i++) {
		if (!holds_record((void *)(uintptr_t)&seen[i])) {
			return false;
		}
	}
	return true;
}

EVERY_BACKEND(watch, hundreds_of_paths_are_all_delivered)
{
	static struct answer seen[MANY];
	static struct registry_watch *watches[MANY];
	char path[64];
	for (size_t i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "/services/s%zu", i);
		watches[i] = registry_watch(
			stage->registry, path, REGISTRY_WATCH_DATA, answer_take, &seen[i]);
	}
	for (size_t i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "/services/s%zu", i);
		put(stage->registry, path, RECORD);
	}
	client_wait(all_called, seen);
	for (size_t i = 0; i < MANY; i++) {
		registry_unwatch(watches[i]);
		answer_clear(&seen[i]);
	}
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
