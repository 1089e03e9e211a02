/*
 * Asking the cache who serves something, when that takes several reads: at several paths, of which
 * later ones depend on what the earlier ones have.
 *
 *   evaluate: read what is known --all known--> the answer
 *      ^          '--something is being read--> wait
 *      '-------- all reads have come, or the patience is over (`late`)
 *
 * The user evaluates its whole question each time: every answer of one evaluation is of the same
 * moment. The rules for all who ask so:
 *
 *   - A path is confirmed when its answer is live and the server was heard lately; nothing is
 *     decided from one that is not: see failover_walk() in lib/render/failover.h.
 *   - A further path that takes too long counts as unconfirmed, and the nearer ones answer.
 *   - So many wait for a further registry that CACHE_MAX_WAITING allows; others are refused.
 */
#ifndef AGENT_SET_ASKING_H
#define AGENT_SET_ASKING_H

#include <stdbool.h>

#include "agent/base/due.h"
#include "agent/base/timer.h"
#include "agent/cache/cache.h"
#include "lib/base/list.h"

/* Those who ask: they are called in the order in which what they wait for has come. */
struct set_askings {
	struct due due;
};

/* In the caller's memory. */
struct set_asking {
	/* To be evaluated again, in a later iteration of the loop; it may end the asking. */
	void (*on_again)(void *context);
	void *context;
	bool late;               /* the patience is over */
	struct set_askings *all; /* this and the rest are the module's */
	struct cache *cache;     /* that it waits for; NULL: none */
	struct list reads;
	struct list come; /* answers: the cache may keep one no longer than it hands it out */
	struct list due;
	struct timer patience;
};

void set_askings_init(struct set_askings *askings, struct ev_loop *loop);
/* No asking may be left. */
void set_askings_finish(struct set_askings *askings);

void set_asking_init(struct set_asking *asking, struct set_askings *all, int64_t patience_ms,
	void (*on_again)(void *context), void *context);
/* Gives up what is being read. Harmless for one that has ended. */
void set_asking_end(struct set_asking *asking);

/*
 * As cache_ask(): READY gives an answer, confirmed or stale; WAITING: on_again follows, and nothing
 * else has to be waited for. Without an asking nothing is read: WAITING in place of that.
 */
enum cache_verdict set_asking_read(struct set_asking *asking, struct cache *cache,
	const struct cache_query *query, struct cache_answer **ret_answer, struct err *err)
	ERR_REQUIRED(5);
/* The evaluation ends: the asking waits. False, and err filled: too many wait for this cache. */
bool set_asking_wait(struct set_asking *asking, struct cache *cache, struct err *err)
	ERR_REQUIRED(3);
/* The cache is about to end: it does not wait for it any more. */
void set_asking_leave(struct set_asking *asking);
/* Is a read under way? */
bool set_asking_reads(const struct set_asking *asking);
/* Something else than a read has come that it waited for. */
void set_asking_wake(struct set_asking *asking);

#endif
