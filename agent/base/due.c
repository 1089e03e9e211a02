#include "agent/base/due.h"

static void on_wake(struct ev_loop *loop, ev_prepare *wake, int events)
{
	(void)loop;
	(void)events;
	struct due *due = wake->data;
	struct list items;
	list_init(&items);
	list_move_all(&items, &due->items);
	while (!list_empty(&items)) {
		struct list *item = items.next;
		list_remove(item);
		due->run(item);
	}
}

void due_init(struct due *due, struct ev_loop *loop, void (*run)(struct list *item))
{
	due->loop = loop;
	due->run = run;
	list_init(&due->items);
	ev_prepare_init(&due->wake, on_wake);
	due->wake.data = due;
}

void due_finish(struct due *due)
{
	ev_clear_pending(due->loop, &due->wake);
}

void due_put_off(struct due *due, struct list *item)
{
	list_remove(item);
	list_append(&due->items, item);
}

void due_wake(struct due *due)
{
	if (!list_empty(&due->items)) {
		ev_feed_event(due->loop, &due->wake, EV_CUSTOM);
	}
}

void due_add(struct due *due, struct list *item)
{
	due_put_off(due, item);
	due_wake(due);
}
