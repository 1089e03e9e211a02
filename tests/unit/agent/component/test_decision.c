/* The decision: in situations one by one, and rules that hold in every situation there is. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "agent/component/decision.h"
#include "lib/base/array.h"

/* One row a situation: the wish, the node, and the decision. */
struct row {
	char text[96];
	struct announce_view view;
	enum announce_action action;
};

#define UP .wish = ANNOUNCE_UP, .want_ephemeral = true, .has_id = true
#define UP_PERSISTENT .wish = ANNOUNCE_UP, .has_id = true
#define DOWN .wish = ANNOUNCE_DOWN, .want_ephemeral = true, .has_id = true
#define DOWN_PERSISTENT .wish = ANNOUNCE_DOWN, .has_id = true
#define ABSENT .node = ANNOUNCE_NODE_ABSENT
#define EMPTY .node = ANNOUNCE_NODE_EMPTY
#define FOREIGN .node = ANNOUNCE_NODE_FOREIGN
#define RECORD .node = ANNOUNCE_NODE_RECORD
#define OUR_SESSIONS .holder = ANNOUNCE_HOLDER_US
#define ANOTHER_SESSIONS .holder = ANNOUNCE_HOLDER_OTHER
#define WRITTEN .past = ANNOUNCE_PAST_WRITTEN
#define UNTOUCHED .past = ANNOUNCE_PAST_UNTOUCHED
#define PROVEN .proof = ANNOUNCE_PROVEN
#define STRANGE .proof = ANNOUNCE_STRANGE
#define SAME_ID .likeness = ANNOUNCE_LIKE_ID
#define SAME_RECORD .likeness = ANNOUNCE_LIKE_RECORD
#define SAME_BYTES .likeness = ANNOUNCE_LIKE_BYTES

static struct row rows[] = {
	{ "the registry has not told yet", { UP }, ANNOUNCE_DO_NOTHING },
	{ "no node: create", { UP, ABSENT }, ANNOUNCE_DO_CREATE },
	{ "ours as it should be", { UP, RECORD, OUR_SESSIONS, SAME_BYTES }, ANNOUNCE_DO_NOTHING },
	{ "ours, changed by another client", { UP, RECORD, OUR_SESSIONS, SAME_ID },
		ANNOUNCE_DO_REWRITE },
	{ "ours, its content replaced by data that is not a record", { UP, FOREIGN, OUR_SESSIONS },
		ANNOUNCE_DO_REWRITE },
	{ "ours, emptied by another client", { UP, EMPTY, OUR_SESSIONS }, ANNOUNCE_DO_REWRITE },
	{ "a predecessor's", { UP, RECORD, ANOTHER_SESSIONS, PROVEN, SAME_BYTES },
		ANNOUNCE_DO_TAKE_OVER },
	{ "a predecessor's, with another id", { UP, RECORD, ANOTHER_SESSIONS, PROVEN },
		ANNOUNCE_DO_TAKE_OVER },
	{ "a predecessor's node of another scheme", { UP, FOREIGN, ANOTHER_SESSIONS, PROVEN },
		ANNOUNCE_DO_TAKE_OVER },
	{ "with our id, and nobody knows whose", { UP, RECORD, ANOTHER_SESSIONS, SAME_BYTES },
		ANNOUNCE_DO_REFUSE },
	{ "with our id, of another agent", { UP, RECORD, ANOTHER_SESSIONS, STRANGE, SAME_RECORD },
		ANNOUNCE_DO_REFUSE },
	{ "ours, of our session before this one",
		{ UP, RECORD, ANOTHER_SESSIONS, UNTOUCHED, SAME_BYTES }, ANNOUNCE_DO_TAKE_OVER },
	{ "a live twin took ours", { UP, RECORD, ANOTHER_SESSIONS, WRITTEN, PROVEN, SAME_ID },
		ANNOUNCE_DO_REFUSE },
	{ "another's", { UP, RECORD, ANOTHER_SESSIONS }, ANNOUNCE_DO_REFUSE },
	{ "another's, takeover", { UP, RECORD, ANOTHER_SESSIONS, .takeover = true },
		ANNOUNCE_DO_TAKE_OVER },
	{ "another's persistent one", { UP, RECORD }, ANNOUNCE_DO_REFUSE },
	{ "our id on a persistent node", { UP, RECORD, SAME_ID }, ANNOUNCE_DO_TAKE_OVER },
	{ "ours was persistent, and is to be ephemeral now", { UP, RECORD, WRITTEN, SAME_ID },
		ANNOUNCE_DO_TAKE_OVER },
	{ "ours was ephemeral, and is to be persistent now",
		{ UP_PERSISTENT, RECORD, OUR_SESSIONS, SAME_ID }, ANNOUNCE_DO_TAKE_OVER },
	{ "an empty node is free", { UP, EMPTY }, ANNOUNCE_DO_TAKE_OVER },
	{ "an empty node of a live session is not", { UP, EMPTY, ANOTHER_SESSIONS },
		ANNOUNCE_DO_REFUSE },
	{ "another program's node", { UP, FOREIGN }, ANNOUNCE_DO_REFUSE },
	{ "another program's live node", { UP, FOREIGN, ANOTHER_SESSIONS }, ANNOUNCE_DO_REFUSE },
	{ "another program's live node, takeover",
		{ UP, FOREIGN, ANOTHER_SESSIONS, .takeover = true }, ANNOUNCE_DO_TAKE_OVER },
	{ "without id, an equal record of a live session is another's",
		{ .wish = ANNOUNCE_UP,
			.want_ephemeral = true,
			RECORD,
			ANOTHER_SESSIONS,
			SAME_BYTES },
		ANNOUNCE_DO_REFUSE },
	{ "without id, an equal persistent record is a predecessor's",
		{ .wish = ANNOUNCE_UP, .want_ephemeral = true, RECORD, SAME_RECORD },
		ANNOUNCE_DO_TAKE_OVER },
	{ "without id, another record is another's",
		{ .wish = ANNOUNCE_UP, .want_ephemeral = true, RECORD, ANOTHER_SESSIONS, SAME_ID },
		ANNOUNCE_DO_REFUSE },
	{ "persistent: no node", { UP_PERSISTENT, ABSENT }, ANNOUNCE_DO_CREATE },
	{ "persistent: ours by id", { UP_PERSISTENT, RECORD, SAME_BYTES }, ANNOUNCE_DO_NOTHING },
	{ "persistent: ours by id, changed", { UP_PERSISTENT, RECORD, SAME_ID },
		ANNOUNCE_DO_REWRITE },
	{ "persistent: another's", { UP_PERSISTENT, RECORD }, ANNOUNCE_DO_REFUSE },
	{ "persistent: another program's", { UP_PERSISTENT, FOREIGN, WRITTEN },
		ANNOUNCE_DO_REFUSE },
	{ "persistent: what we wrote, under an earlier id", { UP_PERSISTENT, RECORD, UNTOUCHED },
		ANNOUNCE_DO_REWRITE },
	{ "persistent: what we emptied", { UP_PERSISTENT, EMPTY, UNTOUCHED }, ANNOUNCE_DO_REWRITE },
	{ "persistent: by our mark, under an earlier id", { UP_PERSISTENT, RECORD, PROVEN },
		ANNOUNCE_DO_REWRITE },
	{ "persistent: our id, and another agent's mark",
		{ UP_PERSISTENT, RECORD, STRANGE, SAME_ID }, ANNOUNCE_DO_REWRITE },
	{ "persistent: ours until another agent with our id came",
		{ UP_PERSISTENT, RECORD, WRITTEN, STRANGE, SAME_ID }, ANNOUNCE_DO_REFUSE },
	{ "persistent: another's, where ours was", { UP_PERSISTENT, RECORD, WRITTEN },
		ANNOUNCE_DO_REFUSE },
	{ "what we wrote was persistent, under an earlier id", { UP, RECORD, UNTOUCHED },
		ANNOUNCE_DO_TAKE_OVER },
	{ "persistent, without id: just what we would write",
		{ .wish = ANNOUNCE_UP, RECORD, SAME_BYTES }, ANNOUNCE_DO_NOTHING },
	{ "persistent, without id: ours, changed by another client",
		{ .wish = ANNOUNCE_UP, RECORD, WRITTEN, SAME_ID }, ANNOUNCE_DO_REWRITE },
	{ "persistent, without id: another's without id", { .wish = ANNOUNCE_UP, RECORD, SAME_ID },
		ANNOUNCE_DO_REFUSE },
	{ "persistent, without id: another's with one", { .wish = ANNOUNCE_UP, RECORD, WRITTEN },
		ANNOUNCE_DO_REFUSE },
	{ "down, persistent, without id: ours", { .wish = ANNOUNCE_DOWN, RECORD, WRITTEN, SAME_ID },
		ANNOUNCE_DO_REMOVE },
	{ "down, persistent, without id: another's", { .wish = ANNOUNCE_DOWN, RECORD, SAME_ID },
		ANNOUNCE_DO_NOTHING },
	{ "down, persistent: what we wrote, under an earlier id",
		{ DOWN_PERSISTENT, RECORD, UNTOUCHED }, ANNOUNCE_DO_REMOVE },
	{ "down: no node", { DOWN, ABSENT }, ANNOUNCE_DO_NOTHING },
	{ "down: ours", { DOWN, RECORD, OUR_SESSIONS, SAME_ID }, ANNOUNCE_DO_REMOVE },
	{ "down: a predecessor's", { DOWN, RECORD, ANOTHER_SESSIONS, PROVEN }, ANNOUNCE_DO_REMOVE },
	{ "down: with our id", { DOWN, RECORD, ANOTHER_SESSIONS, SAME_ID }, ANNOUNCE_DO_NOTHING },
	{ "down: another's", { DOWN, RECORD, ANOTHER_SESSIONS }, ANNOUNCE_DO_NOTHING },
	{ "down: a twin's", { DOWN, RECORD, ANOTHER_SESSIONS, WRITTEN, SAME_ID },
		ANNOUNCE_DO_NOTHING },
	{ "down: an empty node", { DOWN, EMPTY }, ANNOUNCE_DO_NOTHING },
	{ "down: an empty node without children that is not ours",
		{ DOWN_PERSISTENT, EMPTY, WRITTEN, .childless = true }, ANNOUNCE_DO_NOTHING },
	{ "down: what we emptied has children", { DOWN_PERSISTENT, EMPTY, UNTOUCHED },
		ANNOUNCE_DO_NOTHING },
	{ "down: what we emptied has no children any more",
		{ DOWN_PERSISTENT, EMPTY, UNTOUCHED, .childless = true }, ANNOUNCE_DO_REMOVE },
	{ "no verdict: no node", { .wish = ANNOUNCE_KEEP, .want_ephemeral = true, ABSENT },
		ANNOUNCE_DO_NOTHING },
	{ "no verdict: ours",
		{ .wish = ANNOUNCE_KEEP, .want_ephemeral = true, RECORD, OUR_SESSIONS },
		ANNOUNCE_DO_NOTHING },
};

ParameterizedTestParameters(decision, decides_from_what_is_wanted_and_what_stands)
{
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct row *row, decision, decides_from_what_is_wanted_and_what_stands)
{
	cr_assert_eq(announce_decide(&row->view), row->action, "%s", row->text);
}

Test(decision, a_shared_node_of_the_same_form_counts_as_registered)
{
	struct announce_view view = { .shared = true, RECORD, SAME_ID };
	cr_assert(announce_is_registered(&view));
	view.likeness = ANNOUNCE_LIKE_NOTHING;
	cr_assert_not(announce_is_registered(&view));
	view = (struct announce_view){ .shared = true, FOREIGN, SAME_ID };
	cr_assert_not(announce_is_registered(&view));
}

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

/* A node of a live session that nothing proves to be ours. */
static void check_others(const struct announce_view *view, enum announce_action action)
{
	bool other = view->node >= ANNOUNCE_NODE_EMPTY && view->holder == ANNOUNCE_HOLDER_OTHER &&
		view->proof != ANNOUNCE_PROVEN && view->past != ANNOUNCE_PAST_UNTOUCHED &&
		!view->shared;
	if (other && !view->takeover) {
		cr_assert(action == ANNOUNCE_DO_NOTHING || action == ANNOUNCE_DO_REFUSE);
	}
	cr_assert(!other || !announce_is_registered(view));
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
	enum { SITUATIONS = 3 * 2 * 2 * 2 * 2 * 2 * 5 * 3 * 3 * 3 * 4 * 2 };
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
		view.proof = take(&number, 3);
		view.likeness = take(&number, 4);
		view.childless = take(&number, 2);
		check(&view);
	}
}
