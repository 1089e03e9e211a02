/* Watches without memory for a state: it is read again. */
#include "tests/support/core_stage.h"

#include <errno.h>

#include "lib/base/clock.h"
#include "tests/support/failing.h"

static bool has_state(const struct answer *answer)
{
	return answer->calls > 0 && answer->err.code == 0;
}

/* The data of an ephemeral node imply its list of children, which needs no read. */
CONNECTED_TO(registry_watch_memory, an_implied_list_without_memory_is_tried_again)
{
	struct answer made = { 0 };
	struct answer data = { 0 };
	client_put(registry, "/e", "x", REGISTRY_BIND_CREATE, true, &made);
	registry_watch(registry, "/e", REGISTRY_WATCH_DATA, answer_take, &data);
	client_wait_calls(&data, 1);
	bool failed = true;
	for (uint64_t number = 1; failed; number++) {
		struct answer list = { 0 };
		failing_arm("alloc", number, ENOMEM);
		struct registry_watch *watch = registry_watch(
			registry, "/e", REGISTRY_WATCH_CHILDREN, answer_take, &list);
		failed = failing_disarm();
		cr_assert(watch || failed);
		int64_t now_ms = clock_monotonic_ms();
		for (int i = 0; watch && i < 10 && !has_state(&list); i++) {
			int64_t due_ms = registry_deadline_ms(registry);
			now_ms = due_ms > now_ms && due_ms != INT64_MAX ? due_ms : now_ms;
			registry_dispatch(registry, now_ms);
		}
		cr_assert(!watch || has_state(&list), "without allocation %llu: %s",
			(unsigned long long)number, answer_name(&list));
		cr_assert_eq(list.children_count, 0);
		registry_unwatch(watch);
		answer_clear(&list);
	}
	answer_clear(&data);
	answer_clear(&made);
}

Test(registry_watch_memory, a_list_without_memory_is_not_news_and_is_read_again_soon)
{
	struct answer list = { 0 };
	bool next = false;
	const struct registry_options options = { .on_answer = failing_behind_answer,
		.context = &next };
	struct registry *registry = memory_open("core", &options);
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	cr_assert_eq(list.children_count, 1);
	next = true;
	memory_put(registry, "/t/b", "");
	int64_t now_ms = clock_monotonic_ms();
	registry_dispatch(registry, now_ms);
	cr_assert(failing_disarm());
	cr_assert_eq(list.calls, 1);
	cr_assert_leq(registry_deadline_ms(registry), now_ms + 2000);
	registry_dispatch(registry, now_ms + 2000);
	registry_dispatch(registry, now_ms + 2000);
	assert_answer(&list, "OK");
	cr_assert_eq(list.calls, 2);
	cr_assert_eq(list.children_count, 2);
	client_close(registry);
	answer_clear(&list);
}

Test(registry_watch_memory, a_read_that_cannot_start_is_tried_again_soon)
{
	bool failed = true;
	for (uint64_t number = 1; failed; number++) {
		struct answer seen = { 0 };
		struct registry *registry = open_connected();
		memory_put(registry, "/a", "one");
		failing_arm("alloc", number, ENOMEM);
		struct registry_watch *watch = registry_watch(
			registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
		failed = failing_disarm();
		cr_assert(watch || failed);
		int64_t now_ms = clock_monotonic_ms();
		cr_assert_leq(registry_deadline_ms(registry), watch ? now_ms + 2000 : INT64_MAX);
		for (int i = 0; watch && i < 2; i++) {
			registry_dispatch(registry, now_ms + 2000);
		}
		cr_assert(!watch || has_state(&seen), "without allocation %llu",
			(unsigned long long)number);
		client_close(registry);
		answer_clear(&seen);
	}
}

Test(registry_watch_memory, a_first_state_without_memory_is_delivered_when_there_is_some)
{
	struct answer seen = { 0 };
	bool next = true;
	const struct registry_options options = { .on_answer = failing_behind_answer,
		.context = &next };
	struct registry *registry = memory_open("core", &options);
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	memory_put(registry, "/a", "one");
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	int64_t now_ms = clock_monotonic_ms();
	registry_dispatch(registry, now_ms);
	cr_assert(failing_disarm());
	cr_assert_eq(seen.calls, 0);
	registry_dispatch(registry, now_ms + 2000);
	registry_dispatch(registry, now_ms + 2000);
	assert_answer(&seen, "OK");
	cr_assert_str_eq(seen.data, "one");
	client_close(registry);
	answer_clear(&seen);
}
