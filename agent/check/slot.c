#include "agent/check/slot.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/text.h"

/* ---- shares ---- */

static bool is_alone(const struct check_scheduler *scheduler)
{
	return scheduler->shares.next == scheduler->shares.prev;
}

static bool may_have_one(const struct check_scheduler *scheduler, const struct check_share *share)
{
	int unused = scheduler->max_parallel - scheduler->running;
	if (unused <= 0 || is_alone(scheduler)) {
		return unused > 0;
	}
	return share->held == 0 || (unused > 1 && share->held < 3 * unused);
}

static struct check_share *join(struct check_scheduler *scheduler, const char *name)
{
	for (struct list *at = scheduler->shares.next; at != &scheduler->shares; at = at->next) {
		struct check_share *share = LIST_ITEM(at, struct check_share, link);
		if (strcmp(share->name, name) == 0) {
			share->members++;
			return share;
		}
	}
	struct check_share *share = allocate_zeroed(1, sizeof(*share));
	share->name = allocate_text(name);
	share->members = 1;
	list_append(&scheduler->shares, &share->link);
	return share;
}

static void leave(struct check_share *share)
{
	if (share && --share->members == 0) {
		list_remove(&share->link);
		free(share->name);
		free(share);
	}
}

/* ---- turns ---- */

static struct check_slot *next_in_queue(const struct check_scheduler *scheduler)
{
	for (struct list *at = scheduler->queue.next; at != &scheduler->queue; at = at->next) {
		struct check_slot *slot = LIST_ITEM(at, struct check_slot, link);
		if (may_have_one(scheduler, slot->share)) {
			return slot;
		}
	}
	return NULL;
}

static struct check_slot *next_of(const struct check_scheduler *scheduler)
{
	if (!list_empty(&scheduler->free_of_charge)) {
		return LIST_ITEM(scheduler->free_of_charge.next, struct check_slot, link);
	}
	return scheduler->running < scheduler->max_parallel ? next_in_queue(scheduler) : NULL;
}

static void on_turn(struct ev_loop *loop, ev_prepare *watcher, int events)
{
	(void)loop;
	(void)events;
	struct check_scheduler *scheduler = watcher->data;
	struct check_slot *slot;
	while ((slot = next_of(scheduler)) != NULL) {
		list_remove(&slot->link);
		slot->state = CHECK_SLOT_HELD;
		if (slot->share) {
			slot->share->held++;
			scheduler->running++;
		}
		slot->on_turn(slot->context);
	}
}

static void next_turn(struct check_scheduler *scheduler)
{
	if (next_of(scheduler)) {
		ev_feed_event(scheduler->loop, &scheduler->turn, EV_CUSTOM);
	}
}

/* ---- the scheduler ---- */

struct check_scheduler *check_scheduler_create(struct ev_loop *loop, int max_parallel)
{
	struct check_scheduler *scheduler = allocate_zeroed(1, sizeof(*scheduler));
	scheduler->loop = loop;
	scheduler->max_parallel = max_parallel;
	list_init(&scheduler->queue);
	list_init(&scheduler->free_of_charge);
	list_init(&scheduler->shares);
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
	assert(list_empty(&scheduler->shares) && list_empty(&scheduler->free_of_charge));
	ev_clear_pending(scheduler->loop, &scheduler->turn);
	check_prober_destroy(scheduler->prober);
	free(scheduler);
}

struct ev_loop *check_scheduler_loop(const struct check_scheduler *scheduler)
{
	return scheduler->loop;
}

struct check_prober *check_scheduler_prober(struct check_scheduler *scheduler)
{
	if (!scheduler->prober) {
		scheduler->prober = check_prober_create(scheduler->loop);
	}
	return scheduler->prober;
}

/* ---- slots ---- */

void check_slot_init(struct check_slot *slot, struct check_scheduler *scheduler, const char *share,
	void (*on_turn_callback)(void *context), void *context)
{
	*slot = (struct check_slot){
		.scheduler = scheduler,
		.share = share ? join(scheduler, share) : NULL,
		.on_turn = on_turn_callback,
		.context = context,
	};
}

void check_slot_finish(struct check_slot *slot)
{
	check_slot_release(slot);
	leave(slot->share);
	slot->share = NULL;
}

void check_slot_ask(struct check_slot *slot)
{
	struct check_scheduler *scheduler = slot->scheduler;
	if (slot->state != CHECK_SLOT_IDLE) {
		return;
	}
	slot->state = CHECK_SLOT_WAITING;
	list_append(slot->share ? &scheduler->queue : &scheduler->free_of_charge, &slot->link);
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
		if (slot->share) {
			slot->share->held--;
			slot->scheduler->running--;
		}
		break;
	}
	slot->state = CHECK_SLOT_IDLE;
	next_turn(slot->scheduler);
}

void check_slot_holders(const struct check_slot *slot, char *out, size_t size)
{
	const struct check_scheduler *scheduler = slot->scheduler;
	const struct check_share *most = slot->share;
	for (const struct list *at = scheduler->shares.next; at != &scheduler->shares;
		at = at->next) {
		const struct check_share *share = LIST_ITEM(at, struct check_share, link);
		if (!most || share->held > most->held) {
			most = share;
		}
	}
	text_printf(out, size, "%d of %d commands run, %d of them of %s", scheduler->running,
		scheduler->max_parallel, most ? most->held : 0, most ? most->name : "nobody");
}
