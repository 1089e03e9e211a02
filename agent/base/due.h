/*
 * Work that is put off to a later step of the same loop, since whoever notices it is in the middle
 * of his own. Loop thread only.
 */
#ifndef AGENT_BASE_DUE_H
#define AGENT_BASE_DUE_H

#include <ev.h>

#include "lib/base/list.h"

struct due {
	struct ev_loop *loop;
	struct list items;
	ev_prepare wake; /* never started: fed */
	void (*run)(struct list *item);
};

/* `run` gets one item after the other, each out of the list, in the order in which they came. */
void due_init(struct due *due, struct ev_loop *loop, void (*run)(struct list *item));
/* Forgets the items. */
void due_finish(struct due *due);
/* Once, behind the others. list_remove() takes it back. */
void due_add(struct due *due, struct list *item);
/* The same, but it waits until due_wake(), or for the next item. */
void due_put_off(struct due *due, struct list *item);
void due_wake(struct due *due);

#endif
