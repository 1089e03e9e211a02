#include "agent/component/decision.h"

enum owner { OURS, PREDECESSORS, FREE, OTHERS };

/* A persistent node has no holder: its id says who it is for. */
static enum owner owner_of_persistent(const struct announce_view *view)
{
	bool same_id = view->likeness >= ANNOUNCE_LIKE_ID;
	if (view->past == ANNOUNCE_PAST_WRITTEN) {
		return same_id && view->proof != ANNOUNCE_STRANGE ? OURS : OTHERS;
	}
	bool left_by_us = view->proof == ANNOUNCE_PROVEN ||
		(view->has_id ? same_id : view->likeness >= ANNOUNCE_LIKE_RECORD);
	if (!left_by_us) {
		return OTHERS;
	}
	return view->want_ephemeral ? PREDECESSORS : OURS;
}

static enum owner owner_of(const struct announce_view *view)
{
	bool persistent = view->holder == ANNOUNCE_HOLDER_NONE;
	if (view->holder == ANNOUNCE_HOLDER_US) {
		return OURS;
	}
	if (view->past == ANNOUNCE_PAST_UNTOUCHED) {
		return persistent ? OURS : PREDECESSORS; /* of our own session before this one */
	}
	if (!persistent) {
		/* If a live twin has replaced the node that we have written, the twin wins. */
		return view->proof == ANNOUNCE_PROVEN && view->past == ANNOUNCE_PAST_NONE
			? PREDECESSORS
			: OTHERS;
	}
	switch (view->node) {
	case ANNOUNCE_NODE_EMPTY:
		return FREE;
	case ANNOUNCE_NODE_RECORD:
		return owner_of_persistent(view);
	case ANNOUNCE_NODE_FOREIGN:
	case ANNOUNCE_NODE_ABSENT:
	case ANNOUNCE_NODE_UNKNOWN:
		break;
	}
	return OTHERS;
}

static enum announce_action decide_up(const struct announce_view *view)
{
	bool ephemeral = view->holder != ANNOUNCE_HOLDER_NONE;
	switch (owner_of(view)) {
	case OURS:
		if (ephemeral != view->want_ephemeral) {
			return ANNOUNCE_DO_TAKE_OVER;
		}
		return view->likeness == ANNOUNCE_LIKE_BYTES ? ANNOUNCE_DO_NOTHING
							     : ANNOUNCE_DO_REWRITE;
	case PREDECESSORS:
	case FREE:
		return ANNOUNCE_DO_TAKE_OVER;
	case OTHERS:
		break;
	}
	return view->takeover ? ANNOUNCE_DO_TAKE_OVER : ANNOUNCE_DO_REFUSE;
}

static enum announce_action decide_down(const struct announce_view *view)
{
	enum owner owner = owner_of(view);
	bool left_by_us = owner == PREDECESSORS && (view->has_id || view->proof == ANNOUNCE_PROVEN);
	if (owner != OURS && !left_by_us) {
		return ANNOUNCE_DO_NOTHING;
	}
	bool emptied = view->node == ANNOUNCE_NODE_EMPTY && view->holder == ANNOUNCE_HOLDER_NONE;
	return emptied && !view->childless ? ANNOUNCE_DO_NOTHING : ANNOUNCE_DO_REMOVE;
}

/* One node of the same form is as good as another, but for news that we bring. */
static enum announce_action decide_shared(const struct announce_view *view)
{
	bool same_form = view->likeness >= ANNOUNCE_LIKE_ID;
	if (view->wish == ANNOUNCE_DOWN || view->likeness == ANNOUNCE_LIKE_BYTES) {
		return ANNOUNCE_DO_NOTHING;
	}
	if (view->node == ANNOUNCE_NODE_EMPTY && view->holder == ANNOUNCE_HOLDER_NONE) {
		return ANNOUNCE_DO_TAKE_OVER;
	}
	if (same_form) {
		return view->accepted ? ANNOUNCE_DO_NOTHING : ANNOUNCE_DO_REWRITE;
	}
	return view->takeover ? ANNOUNCE_DO_TAKE_OVER : ANNOUNCE_DO_REFUSE;
}

enum announce_action announce_decide(const struct announce_view *view)
{
	if (view->node == ANNOUNCE_NODE_UNKNOWN || view->wish == ANNOUNCE_KEEP) {
		return ANNOUNCE_DO_NOTHING;
	}
	if (view->node == ANNOUNCE_NODE_ABSENT) {
		return view->wish == ANNOUNCE_UP ? ANNOUNCE_DO_CREATE : ANNOUNCE_DO_NOTHING;
	}
	if (view->shared) {
		return decide_shared(view);
	}
	return view->wish == ANNOUNCE_UP ? decide_up(view) : decide_down(view);
}

bool announce_is_registered(const struct announce_view *view)
{
	if (view->shared) {
		return view->node == ANNOUNCE_NODE_RECORD && view->likeness >= ANNOUNCE_LIKE_ID;
	}
	return view->node == ANNOUNCE_NODE_RECORD && owner_of(view) == OURS;
}
