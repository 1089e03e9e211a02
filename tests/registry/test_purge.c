/*
 * Purge against others who register at the same time, on every backend; the policies are in
 * test_walk.c.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/registry_stage.h"
#include "lib/base/clock.h"

#define PATH "/users/joe/web/one/components/c1"
#define RECORD(id)                                                                                 \
	"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"" id "\",\"yarn:persistence\":\"container\"}"

enum { MOST_STEPS = 1000, PATIENCE_MS = 60000 };

static const struct registry_criteria dead = { .id = "dead", .persistence = "container" };

/*
 * Waits until the answer to the purger's request is there, or is due at once, without handling it.
 * Otherwise the server could carry out the request between two steps of the other client. A
 * deadline that passes does not count.
 */
static void await_news(struct registry *registry)
{
	struct pollfd pollfd = { .fd = registry_fd(registry), .events = POLLIN };
	if (registry_deadline_ms(registry) > 0) {
		cr_assert_eq(poll(&pollfd, 1, PATIENCE_MS), 1, "no answer");
	}
}

/* One dispatch() of this registry alone. */
static void step(struct registry *registry)
{
	await_news(registry);
	registry_dispatch(registry, clock_monotonic_ms());
}

/* The other client's changes to the path while the purge is stopped. */
typedef void interfere(struct registry *other, struct answer *answer);

static void register_again(struct registry *other, struct answer *answer)
{
	client_delete(other, PATH, REGISTRY_DELETE_NODE, NULL, answer);
	assert_answer(answer, "OK");
	client_put(other, PATH, RECORD("alive"), REGISTRY_BIND_CREATE, false, answer);
	assert_answer(answer, "OK");
}

static void register_again_ephemeral(struct registry *other, struct answer *answer)
{
	client_delete(other, PATH, REGISTRY_DELETE_NODE, NULL, answer);
	assert_answer(answer, "OK");
	client_put(other, PATH, RECORD("alive"), REGISTRY_BIND_CREATE, true, answer);
	assert_answer(answer, "OK");
}

static void take_over(struct registry *other, struct answer *answer)
{
	client_put(other, PATH, RECORD("alive"), REGISTRY_BIND_OVERWRITE, true, answer);
	assert_answer(answer, "OK");
}

static void rewrite(struct registry *other, struct answer *answer)
{
	client_put(other, PATH, RECORD("alive"), REGISTRY_BIND_OVERWRITE, false, answer);
	assert_answer(answer, "OK");
}

/* Interferes after `steps` of the purge; false when that had ended before. */
static bool purge_with(struct stage *stage, struct registry *purger, interfere *meddle, int steps)
{
	struct answer answer = { 0 };
	struct answer purged = { 0 };
	client_put(stage->registry, PATH, RECORD("dead"), REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "OK");
	client_forget(purger);
	registry_purge(purger, &dead, REGISTRY_PURGE_ALL, false, NULL, answer_take, &purged);
	for (int i = 0; i < steps && !purged.calls; i++) {
		step(purger);
	}
	bool early = !purged.calls;
	if (early) {
		await_news(purger);
		meddle(stage->registry, &answer);
	}
	client_add(purger);
	client_wait_calls(&purged, 1);
	assert_answer(&purged, "OK");
	if (early) {
		client_get(stage->registry, PATH, &answer);
		assert_answer(&answer, "OK");
		cr_assert_str_eq(
			answer.data, RECORD("alive"), "after %d steps: %s", steps, answer.data);
	} else {
		cr_assert_eq(purged.count, 1);
	}
	client_delete(stage->registry, "/users", REGISTRY_DELETE_TREE, NULL, &answer);
	answer_clear(&answer);
	answer_clear(&purged);
	return early;
}

/* Stops the purger at every point, from before its first request to after its last. */
static void purge_against(struct stage *stage, interfere *meddle)
{
	struct registry *purger = stage_client(stage);
	int steps = 0;
	while (purge_with(stage, purger, meddle, steps)) {
		cr_assert_lt(++steps, MOST_STEPS);
	}
	cr_assert_gt(steps, 1);
	client_close(purger);
}

EVERY_BACKEND(purge, spares_what_is_deleted_and_registered_anew)
{
	purge_against(stage, register_again);
}

EVERY_BACKEND(purge, spares_what_is_registered_anew_as_ephemeral)
{
	purge_against(stage, register_again_ephemeral);
}

EVERY_BACKEND(purge, spares_what_is_taken_over)
{
	purge_against(stage, take_over);
}

EVERY_BACKEND(purge, spares_what_is_rewritten)
{
	purge_against(stage, rewrite);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
