/* Turns: so many at once, the others in order, and by shares. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/check/slot.h"
#include "tests/support/staged.h"

enum { SLOTS = 24 };

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
static const char *const alone[SLOTS] = { NULL };
/* Slots c to h are a second component's, i to n a third one's; o needs none. */
static const char *const shared[SLOTS] = { ['c' - 'a'] = "b",
	"b",
	"b",
	"b",
	"b",
	"b",
	['i' - 'a'] = "c",
	"c",
	"c",
	"c",
	"c",
	"c",
	['o' - 'a'] = "" };

static void on_turn(void *context)
{
	const struct turn *turn = context;
	strncat(turn->stage->turns, &turn->name, 1);
}

static struct stage *stage_begin(
	struct stage *stage, int max_parallel, const char *const names[SLOTS])
{
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	stage->scheduler = check_scheduler_create(stage->loop, max_parallel);
	for (int i = 0; i < SLOTS; i++) {
		turns[i] = (struct turn){ stage, (char)('a' + i) };
		const char *share = !names[i] ? "a" : *names[i] ? names[i] : NULL;
		check_slot_init(&stage->slots[i], stage->scheduler, share, on_turn, &turns[i]);
	}
	return stage;
}

static void stage_end(struct stage *stage)
{
	for (int i = 0; i < SLOTS; i++) {
		check_slot_finish(&stage->slots[i]);
	}
	check_scheduler_destroy(stage->scheduler);
	/* A turn that was on its way meets no freed scheduler. */
	ev_run(stage->loop, EVRUN_NOWAIT);
	ev_loop_destroy(stage->loop);
}

#define STAGED(name, max_parallel, names)                                                          \
	STAGED_TEST(check_slot, name, struct stage *, stage,                                       \
		stage_begin(&(struct stage){ 0 }, max_parallel, names), stage_end)

static void check_counts(struct stage *stage, const char *had_turns, int running, int waiting)
{
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_str_eq(stage->turns, had_turns);
	cr_assert_eq(stage->scheduler->running, running);
	cr_assert_eq((int)list_count(&stage->scheduler->queue), waiting);
}

STAGED(turns_are_taken_in_order, 2, alone)
{
	for (int i = 0; i < 4; i++) {
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

STAGED(a_larger_limit_holds_at_once, 1, alone)
{
	for (int i = 0; i < 4; i++) {
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

static void ask(struct stage *stage, const char *names)
{
	for (; *names; names++) {
		check_slot_ask(&stage->slots[*names - 'a']);
	}
}

STAGED(a_component_leaves_places_to_others, 8, shared)
{
	ask(stage, "abpqrstuv");
	check_counts(stage, "abpqrs", 6, 3);
	ask(stage, "cdij");
	check_counts(stage, "abpqrsci", 8, 5);
	ask(stage, "o");
	check_counts(stage, "abpqrscio", 8, 5);
	check_slot_release(&stage->slots['i' - 'a']);
	check_counts(stage, "abpqrscioj", 8, 4);
	check_slot_release(&stage->slots[0]);
	check_counts(stage, "abpqrscioj", 7, 4);
	check_slot_release(&stage->slots[1]);
	check_counts(stage, "abpqrsciojt", 7, 3);
}
