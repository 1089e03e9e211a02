/*
 * A turn of the loop: the work at its end, before the loop sleeps, and the bound of that work. The
 * rest goes on in the next turn, which then comes at once.
 */
#ifndef AGENT_CACHE_TURN_H
#define AGENT_CACHE_TURN_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/timer.h"

struct cache_node;

/*
 * The bound of a turn's work, where that would grow with clients and nodes: looking at a node is a
 * step, so is visiting an observer; an event costs CACHE_EVENT_STEPS.
 */
enum { CACHE_TURN_STEPS = 16384, CACHE_EVENT_STEPS = 16 };

struct cache_turn {
	struct ev_loop *loop;
	ev_prepare end;
	struct timer more;        /* of no length: there is work for the next turn */
	struct cache_node *dirty; /* first come, first flushed */
	struct cache_node **dirty_end;
	unsigned number; /* of the loop */
	size_t worked;   /* steps in this turn */
	uint64_t steps;
	void (*on_end)(void *context);
	void (*on_more)(void *context);
	void *context;
};

/* `on_end` is called at the end of a turn that was woken; `on_more` in a turn that goes on. */
void cache_turn_init(struct cache_turn *turn, struct ev_loop *loop, void (*on_end)(void *context),
	void (*on_more)(void *context), void *context);
void cache_turn_finish(struct cache_turn *turn);

/* There is work at the end of this turn, and of the next ones until cache_turn_rest(). */
void cache_turn_wake(struct cache_turn *turn);
void cache_turn_rest(struct cache_turn *turn);
/* Is there no work, neither for this turn nor for the next one? */
bool cache_turn_rests(const struct cache_turn *turn);
/* There is more to do than this turn should: the next one comes at once. */
void cache_go_on(struct cache_turn *turn);

void cache_work(struct cache_turn *turn, size_t steps);
bool cache_may_work(struct cache_turn *turn);

/* The node is to be looked at at the end of the turn. */
void cache_mark_dirty(struct cache_turn *turn, struct cache_node *node);
/* The node that was marked first, without its mark; NULL: there is none. */
struct cache_node *cache_take_dirty(struct cache_turn *turn);

#endif
