/*
 * How many checks run at once: a slot is a check's turn, and turns are taken in the order they were
 * asked for.
 *
 *   IDLE --ask--> WAITING --first in the queue, and fewer than max_parallel run--> HELD
 *     ^              | release                                                       | release
 *     '--------------+---------------------------------------------------------------'
 */
#ifndef AGENT_CHECK_SLOT_H
#define AGENT_CHECK_SLOT_H

#include "agent/check/check.h"
#include "lib/base/list.h"

struct check_scheduler {
	struct ev_loop *loop;
	/* never started: fed by hand, so that turns begin in the loop without a delay */
	ev_prepare turn;
	int max_parallel;
	int running;
	struct list queue; /* of slots */
};

enum check_slot_state { CHECK_SLOT_IDLE, CHECK_SLOT_WAITING, CHECK_SLOT_HELD };

/* Part of its owner. */
struct check_slot {
	struct check_scheduler *scheduler;
	enum check_slot_state state;
	void (*on_turn)(void *context); /* the slot is held when this is called */
	void *context;
	struct list link; /* while WAITING */
};

void check_slot_init(struct check_slot *slot, struct check_scheduler *scheduler,
	void (*on_turn)(void *context), void *context);

/*
 * Queues up, unless it is waiting or held already. on_turn comes from the loop, never from within
 * this call.
 */
void check_slot_ask(struct check_slot *slot);

/* Gives the turn, or the place in the queue, to the next one. */
void check_slot_release(struct check_slot *slot);

struct ev_loop *check_scheduler_loop(const struct check_scheduler *scheduler);

#endif
