#include "agent/cache/turn.h"

#include "agent/cache/table.h"

void cache_turn_wake(struct cache_turn *turn)
{
	ev_prepare_start(turn->loop, &turn->end);
}

void cache_turn_rest(struct cache_turn *turn)
{
	ev_prepare_stop(turn->loop, &turn->end);
}

bool cache_turn_rests(const struct cache_turn *turn)
{
	return !ev_is_active(&turn->end) && !timer_runs(&turn->more);
}

void cache_go_on(struct cache_turn *turn)
{
	timer_start(&turn->more, 0);
}

void cache_work(struct cache_turn *turn, size_t steps)
{
	unsigned number = ev_iteration(turn->loop);
	if (turn->number != number) {
		turn->number = number;
		turn->worked = 0;
	}
	turn->worked += steps;
	turn->steps += steps;
}

bool cache_may_work(struct cache_turn *turn)
{
	cache_work(turn, 0);
	return turn->worked < CACHE_TURN_STEPS;
}

void cache_mark_dirty(struct cache_turn *turn, struct cache_node *node)
{
	if (node->dirty) {
		return;
	}
	node->dirty = true;
	node->dirty_next = NULL;
	*turn->dirty_end = node;
	turn->dirty_end = &node->dirty_next;
	cache_turn_wake(turn);
}

struct cache_node *cache_take_dirty(struct cache_turn *turn)
{
	struct cache_node *node = turn->dirty;
	if (node) {
		turn->dirty = node->dirty_next;
		node->dirty = false;
	}
	if (!turn->dirty) {
		turn->dirty_end = &turn->dirty;
	}
	return node;
}

static void on_end(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	(void)loop;
	(void)events;
	const struct cache_turn *turn = prepare->data;
	turn->on_end(turn->context);
}

static void on_more(void *context)
{
	struct cache_turn *turn = context;
	turn->on_more(turn->context);
	cache_turn_wake(turn); /* whose end does the rest */
}

void cache_turn_init(struct cache_turn *turn, struct ev_loop *loop, void (*on_turn_end)(void *),
	void (*on_turn_more)(void *), void *context)
{
	*turn = (struct cache_turn){
		.loop = loop, .on_end = on_turn_end, .on_more = on_turn_more, .context = context
	};
	turn->dirty_end = &turn->dirty;
	ev_prepare_init(&turn->end, on_end);
	turn->end.data = turn;
	timer_init(&turn->more, loop, "more of the cache's work", on_more, turn);
}

void cache_turn_finish(struct cache_turn *turn)
{
	ev_prepare_stop(turn->loop, &turn->end);
	timer_stop(&turn->more);
}
