/*
 * An answer that is kept, for "resolve once, re-read on trouble" and for sets. With the agent's
 * shared memory it follows the registry; berth_lookup_get() in berth.h says how.
 */
#ifndef LIB_CLIENT_KEPT_H
#define LIB_CLIENT_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/client/handle.h"

struct kept {
	struct berth *berth;
	/* Asks, and keeps the answer and its freshness. A negative code: it keeps the one before */
	int (*read)(void *context, bool past_caches, struct err *err);
	void *context;
	struct berth_freshness freshness;
	bool trouble; /* the next one is to come past every cache */
	/* The rest is the module's. */
	bool has_answer;
	int64_t answered_ms;
	int64_t asked_ms;           /* when it was read last, or that was tried */
	struct memory_place memory; /* where the answer is in the agent's memory, if it is there */
};

/* Is it as true as one that is read now? Makes no system call. */
static inline bool kept_is_current(struct kept *kept)
{
	if (kept->trouble || !memory_unchanged(&kept->berth->memory, &kept->memory)) {
		return false;
	}
	kept->freshness = (struct berth_freshness){ .stale = false };
	return true;
}

/* 0: there is an answer, and kept->freshness is its. */
int kept_renew(struct kept *kept, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

/* It was read by another request; kept->freshness is set. */
void kept_took(struct kept *kept);

#endif
