/* Rules that hold in every situation there is. test_announce.c has the rows one by one. */
#include <criterion/criterion.h>

#include "agent/component/decision.h"

static void check_wish(const struct announce_view *view, enum announce_action action)
{
	bool known = view->node != ANNOUNCE_NODE_UNKNOWN && view->wish != ANNOUNCE_KEEP;
	bool creates = known && view->wish == ANNOUNCE_UP && view->node == ANNOUNCE_NODE_ABSENT;
	cr_assert(known || action == ANNOUNCE_DO_NOTHING);
	cr_assert_eq(action == ANNOUNCE_DO_CREATE, creates);
	cr_assert(action != ANNOUNCE_DO_REMOVE || (view->wish == ANNOUNCE_DOWN && !view->shared));
	cr_assert(view->wish != ANNOUNCE_DOWN || action == ANNOUNCE_DO_NOTHING ||
		action == ANNOUNCE_DO_REMOVE);
	cr_assert(action != ANNOUNCE_DO_REFUSE || !view->takeover);
}

/* A node of a live session that nothing connects with us. */
static void check_others(const struct announce_view *view, enum announce_action action)
{
	bool other = view->node >= ANNOUNCE_NODE_EMPTY && view->holder == ANNOUNCE_HOLDER_OTHER &&
		view->likeness == ANNOUNCE_LIKE_NOTHING && view->past != ANNOUNCE_PAST_UNTOUCHED;
	if (other && !view->takeover) {
		cr_assert(action == ANNOUNCE_DO_NOTHING || action == ANNOUNCE_DO_REFUSE);
	}
	cr_assert(!other || view->shared || !announce_is_registered(view));
}

static void check_rest(const struct announce_view *view, enum announce_action action)
{
	bool there = view->node >= ANNOUNCE_NODE_EMPTY;
	if (there && view->wish == ANNOUNCE_UP && action == ANNOUNCE_DO_NOTHING && !view->shared) {
		cr_assert_eq(view->likeness, ANNOUNCE_LIKE_BYTES);
		cr_assert_eq(view->holder != ANNOUNCE_HOLDER_NONE, view->want_ephemeral);
	}
	/* Never in place: the kind of a node does not change. */
	if (action == ANNOUNCE_DO_REWRITE && !view->shared) {
		cr_assert_eq(view->holder != ANNOUNCE_HOLDER_NONE, view->want_ephemeral);
	}
	cr_assert(!announce_is_registered(view) || view->node == ANNOUNCE_NODE_RECORD);
}

static void check(const struct announce_view *view)
{
	enum announce_action action = announce_decide(view);
	check_wish(view, action);
	check_others(view, action);
	check_rest(view, action);
}

static unsigned take(unsigned *number, unsigned kinds)
{
	unsigned digit = *number % kinds;
	*number /= kinds;
	return digit;
}

Test(decision, breaks_no_rule_in_any_situation)
{
	enum { SITUATIONS = 3 * 2 * 2 * 2 * 2 * 2 * 5 * 3 * 3 * 4 * 2 };
	for (unsigned i = 0; i < SITUATIONS; i++) {
		unsigned number = i;
		struct announce_view view = { 0 };
		view.wish = take(&number, 3);
		view.want_ephemeral = take(&number, 2);
		view.takeover = take(&number, 2);
		view.shared = take(&number, 2);
		view.accepted = take(&number, 2);
		view.has_id = take(&number, 2);
		view.node = take(&number, 5);
		view.holder = take(&number, 3);
		view.past = take(&number, 3);
		view.likeness = take(&number, 4);
		view.childless = take(&number, 2);
		check(&view);
	}
}
