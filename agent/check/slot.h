/*
 * When checks run. A command needs a slot, of which there are max_parallel; turns are taken in the
 * order they were asked for. A check that only connects needs none, and gets its turn at once.
 *
 *   IDLE --ask--> WAITING --first in the queue that may have one--> HELD
 *     ^              | release                                       | release
 *     '--------------+-----------------------------------------------'
 *
 * Commands that hang must not keep the others from running: those of one component (a share) get
 * three times as many slots as are free, so three quarters of them when it is alone, and the last
 * free one goes to a share that has none. Where there is one share only, it gets all.
 */
#ifndef AGENT_CHECK_SLOT_H
#define AGENT_CHECK_SLOT_H

#include <stddef.h>

#include "agent/check/check.h"
#include "agent/check/prober.h"
#include "lib/base/list.h"

struct check_share {
	struct list link;
	char *name;
	size_t members; /* slots that were made with it */
	int held;
};

struct check_scheduler {
	struct ev_loop *loop;
	/* never started: fed by hand, so that turns begin in the loop without a delay */
	ev_prepare turn;
	int max_parallel;
	int running;       /* slots that are held */
	struct list queue; /* of slots */
	struct list free_of_charge;
	struct list shares;
	struct check_prober *prober; /* made when a check needs one */
};

enum check_slot_state { CHECK_SLOT_IDLE, CHECK_SLOT_WAITING, CHECK_SLOT_HELD };

/* Part of its owner. */
struct check_slot {
	struct check_scheduler *scheduler;
	struct check_share *share; /* NULL: it needs no slot */
	enum check_slot_state state;
	void (*on_turn)(void *context); /* the slot is held when this is called */
	void *context;
	struct list link; /* while WAITING */
};

/* `share`: the name of what the check belongs to; NULL: it runs no command. */
void check_slot_init(struct check_slot *slot, struct check_scheduler *scheduler, const char *share,
	void (*on_turn)(void *context), void *context);
void check_slot_finish(struct check_slot *slot);

/*
 * Queues up, unless it is waiting or held already. on_turn comes from the loop, never from within
 * this call.
 */
void check_slot_ask(struct check_slot *slot);

/* Gives the turn, or the place in the queue, to the next one. */
void check_slot_release(struct check_slot *slot);

/* Words for who holds the slots. */
void check_slot_holders(const struct check_slot *slot, char *out, size_t size);

struct ev_loop *check_scheduler_loop(const struct check_scheduler *scheduler);
/* Lives as long as the scheduler. */
struct check_prober *check_scheduler_prober(struct check_scheduler *scheduler);

#endif
