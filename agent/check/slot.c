#include "agent/check/slot.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/base/allocate.h"

static bool can_run(const struct check_scheduler *scheduler)
{
	return !list_empty(&scheduler->queue) && scheduler->running < scheduler->max_parallel;
}

static void on_turn(struct ev_loop *loop, ev_prepare *watcher, int events)
{
	(void)loop;
	(void)events;
	struct check_scheduler *scheduler = watcher->data;
	while (can_run(scheduler)) {
		struct check_slot *slot = LIST_ITEM(scheduler->queue.next, struct check_slot, link);
		list_remove(&slot->link);
		slot->state = CHECK_SLOT_HELD;
		scheduler->running++;
		slot->on_turn(slot->context);
	}
}

static void next_turn(struct check_scheduler *scheduler)
{
	if (can_run(scheduler)) {
		ev_feed_event(scheduler->loop, &scheduler->turn, EV_CUSTOM);
	}
}

struct check_scheduler *check_scheduler_create(struct ev_loop *loop, int max_parallel)
{
	struct check_scheduler *scheduler = allocate_zeroed(1, sizeof(*scheduler));
	scheduler->loop = loop;
	scheduler->max_parallel = max_parallel;
	list_init(&scheduler->queue);
	ev_init(&scheduler->turn, on_turn);
	scheduler->turn.data = scheduler;
	return scheduler;
}

void check_scheduler_set_max_parallel(struct check_scheduler *scheduler, int max_parallel)
{
	scheduler->max_parallel = max_parallel;
	next_turn(scheduler);
}

void check_scheduler_destroy(struct check_scheduler *scheduler)
{
	if (!scheduler) {
		return;
	}
	assert(list_empty(&scheduler->queue) && scheduler->running == 0);
	ev_clear_pending(scheduler->loop, &scheduler->turn);
	free(scheduler);
}

struct ev_loop *check_scheduler_loop(const struct check_scheduler *scheduler)
{
	return scheduler->loop;
}

void check_slot_init(struct check_slot *slot, struct check_scheduler *scheduler,
	void (*on_turn_callback)(void *context), void *context)
{
	*slot = (struct check_slot){
		.scheduler = scheduler,
		.on_turn = on_turn_callback,
		.context = context,
	};
}

void check_slot_ask(struct check_slot *slot)
{
	struct check_scheduler *scheduler = slot->scheduler;
	if (slot->state != CHECK_SLOT_IDLE) {
		return;
	}
	slot->state = CHECK_SLOT_WAITING;
	list_append(&scheduler->queue, &slot->link);
	next_turn(scheduler);
}

void check_slot_release(struct check_slot *slot)
{
	switch (slot->state) {
	case CHECK_SLOT_IDLE:
		return;
	case CHECK_SLOT_WAITING:
		list_remove(&slot->link);
		break;
	case CHECK_SLOT_HELD:
		slot->scheduler->running--;
		break;
	}
	slot->state = CHECK_SLOT_IDLE;
	next_turn(slot->scheduler);
}
