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
