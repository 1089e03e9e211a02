/*
 * Doubly linked lists whose links live inside the items.
 *
 * A list is a ring through its head: an item leaves without knowing which list it is on, and
 * leaving twice is harmless.
 */
#ifndef LIB_BASE_LIST_H
#define LIB_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

/* The struct of `type` whose `member` is `link`. */
#define LIST_ITEM(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* For heads and for links. */
static inline void list_init(struct list *list)
{
	list->prev = list;
	list->next = list;
}

/* True for a link that is on no list. */
static inline bool list_empty(const struct list *list)
{
	return list->next == list;
}

/* The number of items; it counts them. */
static inline size_t list_count(const struct list *list)
{
	size_t count = 0;
	for (const struct list *at = list->next; at != list; at = at->next) {
		count++;
	}
	return count;
}

static inline void list_append(struct list *list, struct list *link)
{
	link->prev = list->prev;
	link->next = list;
	list->prev->next = link;
	list->prev = link;
}

static inline void list_prepend(struct list *list, struct list *link)
{
	list_append(list->next, link);
}

static inline void list_remove(struct list *link)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): an item that was freed has left the ring */
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_init(link);
}

/* Moves all items of `from` to the end of `list`. */
static inline void list_move_all(struct list *list, struct list *from)
{
	if (list_empty(from)) {
		return;
	}
	list->prev->next = from->next;
	from->next->prev = list->prev;
	from->prev->next = list;
	list->prev = from->prev;
	list_init(from);
}

#endif
