/* Requests without memory for them: they are not made, and leave nothing behind. */
#include "lib/base/array.h"
#include "tests/support/core_stage.h"

#include <errno.h>

#include "lib/base/clock.h"
#include "tests/support/failing.h"

#define CONNECTED(name) CONNECTED_TO(registry_request_memory, name)

typedef struct registry_request *make_request(struct registry *registry, struct answer *answer);

static struct registry_request *get(struct registry *registry, struct answer *answer)
{
	return registry_get(registry, "/a", answer_take, answer);
}

static struct registry_request *stat_one(struct registry *registry, struct answer *answer)
{
	return registry_stat(registry, "/a", answer_take, answer);
}

static struct registry_request *delete_node(struct registry *registry, struct answer *answer)
{
	return registry_delete(
		registry, "/a", REGISTRY_DELETE_NODE, NULL, NULL, answer_take, answer);
}

static struct registry_request *delete_tree(struct registry *registry, struct answer *answer)
{
	return registry_delete(
		registry, "/a", REGISTRY_DELETE_TREE, NULL, NULL, answer_take, answer);
}

static struct registry_request *withdraw(struct registry *registry, struct answer *answer)
{
	const struct registry_stat expected = { .version = 1 };
	return registry_withdraw(registry, "/a", &expected, answer_take, answer);
}

static struct registry_request *read_records(struct registry *registry, struct answer *answer)
{
	return registry_records(registry, "/a", NULL, answer_take, answer);
}

static const struct registry_criteria all_criteria = { .under = "/a",
	.api = "api",
	.protocol = "rest",
	.type = "JSONServiceRecord",
	.id = "one",
	.persistence = "container" };

static struct registry_request *find(struct registry *registry, struct answer *answer)
{
	return registry_find(registry, &all_criteria, NULL, answer_take, answer);
}

static struct registry_request *purge(struct registry *registry, struct answer *answer)
{
	return registry_purge(
		registry, &all_criteria, REGISTRY_PURGE_ALL, false, NULL, answer_take, answer);
}

/* Lets each allocation of the call fail once; the last time, none does. */
static void check(struct registry *registry, make_request *make)
{
	bool failed = true;
	for (uint64_t number = 1; failed; number++) {
		struct answer answer = { 0 };
		failing_arm("alloc", number, ENOMEM);
		struct registry_request *request = make(registry, &answer);
		failed = failing_disarm();
		cr_assert_eq(request == NULL, failed, "allocation %d", (int)number);
		cr_assert_eq(memory_tasks(registry), !failed);
		registry_dispatch(registry, clock_monotonic_ms());
		cr_assert(!failed || answer.calls == 0);
		registry_cancel(registry, answer.calls == 0 ? request : NULL);
		answer_clear(&answer);
	}
}

static make_request *const requests[] = { get, stat_one, delete_node, delete_tree, withdraw,
	read_records, find, purge };

enum { REQUESTS = ARRAY_LEN(requests) };

CONNECTED(none_is_made_by_half)
{
	for (size_t i = 0; i < REQUESTS; i++) {
		check(registry, requests[i]);
	}
}

struct cancelled {
	struct registry *registry;
	make_request *make;
};

static int make_and_cancel(void *context)
{
	const struct cancelled *cancelled = context;
	struct answer answer = { 0 };
	struct registry_request *request = cancelled->make(cancelled->registry, &answer);
	registry_cancel(cancelled->registry, request);
	return request ? 0 : -1;
}

CONNECTED(none_leaves_memory_behind)
{
	for (size_t i = 0; i < REQUESTS; i++) {
		struct cancelled cancelled = { registry, requests[i] };
		failing_check_memory("a request", make_and_cancel, &cancelled);
	}
}
