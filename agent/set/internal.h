/*
 * Inside the sets.
 *
 *   question.c  what is asked for: a key with what follows from it
 *   record.c    what one record has for it
 *   place.c     one path, kept true by an observer of the cache
 *   evaluate.c  from the places to a set: the rules
 *   trust.c     what of it is confirmed, and how old the rest is
 *   set.c       questions and their users
 *   write.c     a set, and its texts; picture.c: its decoded records
 */
#ifndef AGENT_SET_INTERNAL_H
#define AGENT_SET_INTERNAL_H

#include "agent/base/due.h"
#include "agent/base/timer.h"
#include "agent/set/place.h"
#include "agent/set/question.h"
#include "agent/set/set.h"
#include "lib/render/failover.h"

enum { SETS_BUCKETS = 256 };

struct sets {
	struct ev_loop *loop;
	struct cache *cache;
	const char *domain;
	struct set_followed *buckets[SETS_BUCKETS];
	size_t count;
	struct list idle; /* the longest one first */
	size_t idle_bytes;
	struct timer lingering;
	struct due due; /* to be evaluated */
	/*
	 * Of no length: the loop goes on. An evaluation comes behind the cache's turn, which
	 * would not have another one for new observers before it sleeps.
	 */
	struct timer more;
};

struct set_followed {
	struct sets *sets;
	struct set_followed *next_in_bucket;
	struct set_question *question;
	struct list users;
	struct list idle;
	int64_t idle_since_ms;
	size_t idle_bytes; /* what it held then, about */
	struct list due;
	struct list places;
	unsigned round;
	struct failover failover;
	struct timer timer;  /* of what is due without a change */
	int64_t patience_ms; /* until then further paths may take; 0: the nearest is not known */
	struct cache_wait confirmation;
	bool confirming;
	bool answered;   /* a confirmation has come, or not */
	struct set *set; /* NULL: not known */
	struct set_count counted;
	unsigned revision;
	int64_t true_at_ms; /* 0: the set is what the places say; or when it was so for sure */
	bool stale;
	bool lasts; /* nothing but a change of the nearest path can make another one */
	const struct set_place *refused; /* the nearest path is not known because of it */
};

/* ---- evaluate.c ---- */

void set_evaluate(struct set_followed *followed);
/* That has no places: nothing can have this name. */
void set_evaluate_to_none(struct set_followed *followed);
/* All of them, or those that the last evaluation had no use for. */
void set_drop_places(struct set_followed *followed, bool all);

/* ---- trust.c ---- */

void set_trust_init(struct set_followed *followed);
void set_trust_finish(struct set_followed *followed);
/*
 * A live place of the ranks counts as long as its server was heard lately, and since `since_ms`; a
 * silent server is asked. The worst of all counts.
 */
enum cache_verdict set_confirm(struct set_followed *followed, unsigned from, unsigned to,
	int64_t since_ms, int64_t now_ms);
/* Is a place of the first ranks in doubt? */
bool set_is_stale(const struct set_followed *followed, unsigned ranks, bool loading_too);
int64_t set_age_ms(const struct set_followed *followed, int64_t now_ms);
/* The set does not show a change, before which its places were true then: it keeps this age. */
void set_keep_age(struct set_followed *followed, int64_t was_true_at_ms);
/* It does not show a change, for longer than a confirmed one may. */
bool set_is_outgrown(const struct set_followed *followed, int64_t now_ms);

#endif
