/* The names that a backend lists, as the children that users see. */
#include "lib/base/array.h"
#include "lib/registry/internal.h"
#include "tests/support/core_stage.h"

#define CONNECTED(name) CONNECTED_TO(registry_children, name)

CONNECTED(names_are_sorted_into_those_that_paths_can_hold_and_others)
{
	struct answer answer = { 0 };
	static const char *const names[] = { "/t/b", "/t/B", "/t/a", "/t/A", "/t/c" };
	memory_put(registry, "/t", "");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		memory_put(registry, names[i], "");
	}
	client_list(registry, "/t", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), "/t/a /t/b /t/c");
	cr_assert_str_eq(answer_foreign(&answer), "/t/A /t/B");
	cr_assert_eq(answer.stat.children, 3);
	cr_assert_eq(answer.stat.foreign, 2);
	answer_clear(&answer);
}

Test(registry_children, names_that_a_server_repeats_are_told_once)
{
	char *names[] = { "b", "a", "b", "B", "B", "a" };
	const struct registry_task task = { .ret_children = names, .ret_children_count = 6 };
	struct registry_children children;
	cr_assert_eq(registry_children_init(&children, "/t", &task, false), 0);
	cr_assert_eq(children.count, 2);
	cr_assert_str_eq(children.paths[0], "/t/a");
	cr_assert_str_eq(children.paths[1], "/t/b");
	cr_assert_eq(children.foreign_count, 1);
	cr_assert_str_eq(children.foreign[0], "/t/B");
	free(children.paths);
}

CONNECTED(a_list_that_is_read_again_is_unchanged)
{
	struct answer list = { 0 };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "");
	memory_put(registry, "/t/b", "");
	memory_put(registry, "/t/B", "");
	struct registry_watch *watch = registry_watch(
		registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	cr_assert(list.changed);
	registry_watch_refresh(watch);
	client_wait_calls(&list, 2);
	cr_assert_not(list.changed);
	answer_clear(&list);
}

/* One name gives way to another, unseen, so that the number of names stays. */
static void exchange(const char *old, const char *new)
{
	struct answer list = { 0 };
	struct registry *registry = open_connected();
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "");
	memory_put(registry, "/t/A", "");
	memory_put(registry, old, "");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	move_to(registry, REGISTRY_AWAY);
	memory_remove(registry, old);
	memory_put(registry, new, "");
	move_to(registry, REGISTRY_CONNECTED);
	client_wait_calls(&list, 2);
	cr_assert(list.changed, "%s for %s", new, old);
	client_close(registry);
	answer_clear(&list);
}

Test(registry_children, another_name_in_the_place_of_one_is_a_change)
{
	exchange("/t/b", "/t/c");
	exchange("/t/B", "/t/C");
}
