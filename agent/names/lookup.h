/*
 * Names answered from the cache: the names module's source, with ages, waiting and reuse.
 *
 * A name is written from its set (agent/set/set.h), and so waits, ages and fails over as that
 * does; reverse questions, and names of containers, are for the index. A lookup that has no answer
 * after NAMES_PATIENCE_MS ends with UNKNOWN. An answer is used again until the cache, or the set,
 * changes. Loop thread only.
 */
#ifndef AGENT_NAMES_LOOKUP_H
#define AGENT_NAMES_LOOKUP_H

#include <stdbool.h>

#include "agent/base/due.h"
#include "agent/base/timer.h"
#include "agent/cache/cache.h"
#include "agent/names/names.h"
#include "agent/set/set.h"
#include "lib/base/list.h"
#include "lib/record/select.h"

#define NAMES_PATIENCE_MS 2000

struct names_lookups;

/* Borrowed for the call. */
struct names_question {
	const char *name;       /* of any length */
	const char *attributes; /* NULL, or a selection (lib/record/select.h) of the records */
};

/* The answer for a front end; borrowed until the next turn of the loop. */
struct names_view {
	const struct names_answer *answer; /* never PENDING */
	bool stale;                        /* the registry is away, or was not heard lately */
	int64_t age_ms;                    /* how long ago the answer was true for sure */
	/*
	 * it holds until something changes in the cache itself, not in an attached one; more
	 * records there are no change
	 */
	bool lasts;
};

/* A lookup under way; in the caller's memory. */
struct names_wait {
	void (*on_answer)(void *context, const struct names_view *view);
	void *context;
	struct names_lookups *lookups; /* NULL: not under way; this and the rest are the module's */
	struct list link;
	struct list due;
	struct timer patience;
	struct set_user user;
	char name[NAMES_NAME_BYTES];
	char attributes[SELECT_BYTES];
};

/* The domain is borrowed. */
struct names_lookups *names_lookups_create(
	struct ev_loop *loop, struct cache *cache, struct sets *sets, const char *domain);
/* No lookup may be under way. Accepts NULL. */
void names_lookups_destroy(struct names_lookups *lookups);
/* A cache was attached or detached: no answer is used again. */
void names_lookups_forget(struct names_lookups *lookups);
/* The further paths of all names, copied. */
void names_lookups_set_further(
	struct names_lookups *lookups, char *const *paths, size_t count, int64_t hold_ms);
const char *names_lookups_domain(const struct names_lookups *lookups);
/* True when the name is the domain or below it. */
bool names_lookups_own(const struct names_lookups *lookups, const char *name);

/*
 * True: *ret_view answers the question. False: it has to be read first; then wait->on_answer is
 * called in a later loop iteration, unless names_cancel() comes before. With `wait` NULL nothing is
 * waited for.
 */
bool names_ask(struct names_lookups *lookups, const struct names_question *question,
	struct names_view *ret_view, struct names_wait *wait);
/* Accepts a wait that is not under way. */
void names_cancel(struct names_wait *wait);

#endif
