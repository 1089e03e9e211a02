/*
 * The last events of a stream, for a client that connects again: with their numbers, a bounded
 * number of bytes, and for all streams together no more than the budget.
 */
#ifndef AGENT_API_RECENT_H
#define AGENT_API_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/list.h"

struct recent_event {
	struct list link;
	uint64_t sequence;
	double time;      /* wall clock, seconds */
	const char *type; /* of a constant */
	char *members;    /* JSON text, or NULL */
	size_t bytes;
};

struct recent {
	struct list events;
	size_t bytes;
	uint64_t since;    /* every event with a higher number is here, or had nothing to tell */
	size_t *all_bytes; /* of all streams */
};

void recent_init(struct recent *recent, size_t *all_bytes);
/* Forgets all up to the event with this number: a snapshot. Also the end of a struct's use. */
void recent_restart(struct recent *recent, uint64_t sequence);
/* `members` is copied, or NULL. The oldest events make room for it. */
void recent_add(struct recent *recent, uint64_t sequence, double time, const char *type,
	const char *members);
/* Whether a client that has the event with this number can get what follows. */
bool recent_reaches(const struct recent *recent, uint64_t sequence);

#endif
