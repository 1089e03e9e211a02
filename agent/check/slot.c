#include "agent/check/slot.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/base/allocate.h"

struct check_scheduler {
	struct ev_loop *loop;
	/* never started: fed by hand, so that turns begin in the loop without a delay */
	ev_prepare turn;
	int max_parallel;
	int running;
	int waiting;
	struct check_slot *first;
	struct check_slot **end;
};

static struct check_slot *take_first(struct check_scheduler *scheduler)
{
	struct check_slot *slot = scheduler->first;
	scheduler->first = slot->next;
	if (!scheduler->first) {
		scheduler->end = &scheduler->first;
	}
	scheduler->waiting--;
	return slot;
}

static void on_turn(struct ev_loop *loop, ev_prepare *watcher, int events)
{
	(void)loop;
	(void)events;
	struct check_scheduler *scheduler = watcher->data;
	while (scheduler->first && scheduler->running < scheduler->max_parallel) {
		struct check_slot *slot = take_first(scheduler);
		slot->state = CHECK_SLOT_HELD;
		scheduler->running++;
		slot->on_turn(slot->context);
	}
}

static void next_turn(struct check_scheduler *scheduler)
{
	if (scheduler->first && scheduler->running < scheduler->max_parallel) {
		ev_feed_event(scheduler->loop, &scheduler->turn, EV_CUSTOM);
	}
}

struct check_scheduler *check_scheduler_create(struct ev_loop *loop, int max_parallel)
{
	struct check_scheduler *scheduler = allocate_zeroed(1, sizeof(*scheduler));
	scheduler->loop = loop;
	scheduler->max_parallel = max_parallel;
	scheduler->end = &scheduler->first;
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
	assert(!scheduler->first && scheduler->running == 0);
	ev_clear_pending(scheduler->loop, &scheduler->turn);
	free(scheduler);
}

int check_scheduler_running(const struct check_scheduler *scheduler)
{
	return scheduler->running;
}

int check_scheduler_waiting(const struct check_scheduler *scheduler)
{
	return scheduler->waiting;
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
	slot->next = NULL;
	*scheduler->end = slot;
	scheduler->end = &slot->next;
	scheduler->waiting++;
	next_turn(scheduler);
}

static void leave_queue(struct check_slot *slot)
{
	struct check_scheduler *scheduler = slot->scheduler;
	struct check_slot **at = &scheduler->first;
	while (*at != slot) {
		at = &(*at)->next;
	}
	*at = slot->next;
	if (!slot->next) {
		scheduler->end = at;
	}
	scheduler->waiting--;
}

void check_slot_release(struct check_slot *slot)
{
	switch (slot->state) {
	case CHECK_SLOT_IDLE:
		return;
	case CHECK_SLOT_WAITING:
		leave_queue(slot);
		break;
	case CHECK_SLOT_HELD:
		slot->scheduler->running--;
		break;
	}
	slot->state = CHECK_SLOT_IDLE;
	next_turn(slot->scheduler);
}
