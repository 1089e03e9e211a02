/* Turns: so many at once, the others in order. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/check/slot.h"
#include "tests/support/staged.h"

enum { SLOTS = 4 };

struct stage {
	struct ev_loop *loop;
	struct check_scheduler *scheduler;
	struct check_slot slots[SLOTS];
	char turns[32]; /* the slots that had a turn, in order */
};

struct turn {
	struct stage *stage;
	char name;
};

static struct turn turns[SLOTS];

static void on_turn(void *context)
{
	const struct turn *turn = context;
	strncat(turn->stage->turns, &turn->name, 1);
}

static struct stage *stage_begin(struct stage *stage, int max_parallel)
{
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	stage->scheduler = check_scheduler_create(stage->loop, max_parallel);
	for (int i = 0; i < SLOTS; i++) {
		turns[i] = (struct turn){ stage, (char)('a' + i) };
		check_slot_init(&stage->slots[i], stage->scheduler, on_turn, &turns[i]);
	}
	return stage;
}

static void stage_end(struct stage *stage)
{
	for (int i = 0; i < SLOTS; i++) {
		check_slot_release(&stage->slots[i]);
	}
	check_scheduler_destroy(stage->scheduler);
	/* A turn that was on its way meets no freed scheduler. */
	ev_run(stage->loop, EVRUN_NOWAIT);
	ev_loop_destroy(stage->loop);
}

#define STAGED(name, max_parallel)                                                                 \
	STAGED_TEST(check_slot, name, struct stage *, stage,                                       \
		stage_begin(&(struct stage){ 0 }, max_parallel), stage_end)

static void check_counts(struct stage *stage, const char *had_turns, int running, int waiting)
{
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_str_eq(stage->turns, had_turns);
	cr_assert_eq(stage->scheduler->running, running);
	cr_assert_eq((int)list_count(&stage->scheduler->queue), waiting);
}

STAGED(turns_are_taken_in_order, 2)
{
	for (int i = 0; i < SLOTS; i++) {
		check_slot_ask(&stage->slots[i]);
		check_slot_ask(&stage->slots[i]);
	}
	cr_assert_str_eq(stage->turns, "", "never from within the call");
	check_counts(stage, "ab", 2, 2);
	check_slot_ask(&stage->slots[0]);
	check_counts(stage, "ab", 2, 2);
	check_slot_release(&stage->slots[1]);
	check_counts(stage, "abc", 2, 1);
	check_slot_release(&stage->slots[0]);
	check_slot_release(&stage->slots[2]);
	check_counts(stage, "abcd", 1, 0);
	check_slot_ask(&stage->slots[0]);
	check_counts(stage, "abcda", 2, 0);
}

STAGED(a_place_in_the_queue_is_given_back, 1)
{
	check_slot_ask(&stage->slots[0]);
	check_slot_ask(&stage->slots[1]);
	check_slot_release(&stage->slots[0]);
	check_counts(stage, "b", 1, 0);
	check_slot_ask(&stage->slots[2]);
	check_slot_release(&stage->slots[2]);
	check_slot_release(&stage->slots[2]);
	check_slot_release(&stage->slots[1]);
	check_counts(stage, "b", 0, 0);
}

STAGED(a_larger_limit_holds_at_once, 1)
{
	for (int i = 0; i < SLOTS; i++) {
		check_slot_ask(&stage->slots[i]);
	}
	check_counts(stage, "a", 1, 3);
	check_scheduler_set_max_parallel(stage->scheduler, 3);
	check_counts(stage, "abc", 3, 1);
	check_scheduler_set_max_parallel(stage->scheduler, 1);
	check_slot_release(&stage->slots[0]);
	check_slot_release(&stage->slots[1]);
	check_counts(stage, "abc", 1, 1);
}

STAGED(a_scheduler_may_end_with_a_turn_on_its_way, 2)
{
	check_scheduler_destroy(NULL);
	check_slot_ask(&stage->slots[0]);
}
