/* A turn of the loop: what is done at its end, in which order, and how much of it. */

#include <criterion/criterion.h>

#include <string.h>

#include "agent/cache/table.h"
#include "agent/cache/turn.h"
#include "tests/support/staged.h"

struct stage {
	struct ev_loop *loop;
	struct cache_table table;
	struct cache_turn turn;
	int ends;
	int mores;
	bool rests; /* at its end */
};

static void on_end(void *context)
{
	struct stage *stage = context;
	stage->ends++;
	if (stage->rests) {
		cache_turn_rest(&stage->turn);
	}
}

static void on_more(void *context)
{
	struct stage *stage = context;
	cr_assert_eq(stage->ends, stage->mores, "it comes before the end of its turn");
	stage->mores++;
}

static struct stage *open_stage(struct stage *stage)
{
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	stage->rests = true;
	cache_table_init(&stage->table, 0);
	cache_turn_init(&stage->turn, stage->loop, on_end, on_more, stage);
	return stage;
}

static void close_stage(struct stage *stage)
{
	cache_turn_finish(&stage->turn);
	for (struct cache_node *node; (node = cache_node_next(&stage->table, NULL)) != NULL;) {
		cache_node_free(&stage->table, node);
	}
	cache_table_finish(&stage->table);
	ev_loop_destroy(stage->loop);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_turn, name, struct stage *, stage, open_stage(&(struct stage){ 0 }),     \
		close_stage)

STAGED(nothing_is_done_in_a_turn_without_work)
{
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(stage->ends, 0);
	cr_assert_eq(stage->mores, 0);
}

STAGED(the_end_comes_once_and_each_turn_until_there_is_nothing_more)
{
	stage->rests = false;
	cache_turn_wake(&stage->turn);
	cache_turn_wake(&stage->turn);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(stage->ends, 1);
	stage->rests = true;
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(stage->ends, 2);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(stage->ends, 2);
}

STAGED(more_work_comes_in_the_next_turn_and_is_followed_by_an_end)
{
	cache_go_on(&stage->turn);
	cr_assert_eq(stage->mores, 0, "not at once");
	ev_run(stage->loop, EVRUN_ONCE);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(stage->mores, 1);
	cr_assert_eq(stage->ends, 1);
	cr_assert_not(timer_runs(&stage->turn.more));
}

STAGED(paths_are_taken_in_the_order_in_which_they_were_marked_first)
{
	struct cache_node *a = cache_node_get(&stage->table, "/a");
	struct cache_node *b = cache_node_get(&stage->table, "/b");
	cache_mark_dirty(&stage->turn, b);
	cache_mark_dirty(&stage->turn, a);
	cache_mark_dirty(&stage->turn, b);
	cr_assert(ev_is_active(&stage->turn.end), "the end of this turn looks at them");
	cr_assert_eq(cache_take_dirty(&stage->turn), b);
	cr_assert_not(b->dirty);
	cache_mark_dirty(&stage->turn, b);
	cr_assert_eq(cache_take_dirty(&stage->turn), a);
	cr_assert_eq(cache_take_dirty(&stage->turn), b);
	cr_assert_null(cache_take_dirty(&stage->turn));
	cache_mark_dirty(&stage->turn, a);
	cr_assert_eq(cache_take_dirty(&stage->turn), a);
	cr_assert_null(cache_take_dirty(&stage->turn));
}

STAGED(the_work_of_a_turn_is_bounded_and_the_next_one_has_a_bound_of_its_own)
{
	ev_run(stage->loop, EVRUN_NOWAIT);
	cache_work(&stage->turn, CACHE_TURN_STEPS - 1);
	cr_assert(cache_may_work(&stage->turn));
	cache_work(&stage->turn, 1);
	cr_assert_not(cache_may_work(&stage->turn));
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert(cache_may_work(&stage->turn));
	cache_work(&stage->turn, 5);
	cr_assert_eq(stage->turn.steps, CACHE_TURN_STEPS + 5);
}
