/*
 * The lookup cache: what the registry holds, kept true by watches, and the ready answers made of it.
 *
 *   registry watch --> entry (data or children of one path) --> answers of that path and of its parent
 *                                                          \--> observers of that path and of those above
 *
 * An entry is live while its watch is; when the registry is away it is stale, with the time when it was last known to be true. A
 * lookup is answered from live entries (a hit), after loading what is missing (a miss, one read however many ask), or
 * from stale ones. Absence is an entry like any other. Everything is charged to `max_size_bytes`; the least recently used paths
 * go first and give their watches back. What is observed stays; when that alone is too much the observers that came last are
 * refused, those of whole trees first.
 *
 * Changes reach waiting lookups and observers once per turn of the loop, before it sleeps, never from inside a call
 * of this interface. Loop thread only.
 */
#ifndef AGENT_CACHE_CACHE_H
#define AGENT_CACHE_CACHE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "lib/registry/registry.h"

#define CACHE_ETAG_BYTES 24

struct cache;

struct cache_options {
	size_t max_size_bytes;
	int64_t max_stale_ms; /* 0: no limit */
	int64_t resync_ms;
	char *const *warm; /* paths; recursive ones end in slash and two asterisks; borrowed for the call */
	size_t warm_count;
	/* Frees what a front end left in an answer's `front`. */
	void (*release_front)(void *front);
};

struct cache_stats {
	size_t paths;
	size_t entries;
	size_t bytes;
	double stale_seconds; /* age of the oldest confirmation while the registry is away; 0 while it is connected */
	uint64_t loads;
	uint64_t evictions;
	uint64_t refusals; /* observers that did not fit */
};

struct cache *cache_create(
	struct ev_loop *loop, struct registry *registry, const struct cache_options *options);
/* No lookup and no observer may be left. Accepts NULL. */
void cache_destroy(struct cache *cache);
/* After a reload: limits and warm paths. */
void cache_set_options(struct cache *cache, const struct cache_options *options);
/* To be called with every change of the registry's state. */
void cache_on_registry_state(struct cache *cache, enum registry_state state);
/* When the registry told of the first of the changes that this turn passes on; monotonic seconds. */
double cache_noticed(const struct cache *cache);
void cache_get_stats(const struct cache *cache, struct cache_stats *stats);

/* ---- answers ---- */

enum cache_answer_kind {
	CACHE_RESOLVE, /* the record as stored; NO_RECORD, INVALID_RECORD */
	CACHE_LIST,    /* sorted array of child paths */
	CACHE_RECORDS, /* object: child path -> record */
	CACHE_ENDPOINTS, /* array of addresses, of the record and its direct children; or lines of text */
	CACHE_STAT
};

/* Which endpoints; NULL is any. */
struct cache_filter {
	const char *api;
	const char *protocol;
	const char *scope;
	bool text;
};

/* Borrowed until the next turn of the loop. */
struct cache_answer {
	const char *body;
	size_t len;
	char etag[CACHE_ETAG_BYTES]; /* quoted; says what the answer is, not when it was made */
	double known_true;           /* monotonic seconds; for one that is not live */
	bool live;
	struct err *err; /* NULL: body holds the answer; else PATH_NOT_FOUND, NO_RECORD … */
	void *front;     /* the front end's */
};

/* A lookup under way, in the caller's memory. */
struct cache_wait {
	/* `answer` is NULL when there is none: err says why (REGISTRY_UNAVAILABLE). The wait is over. */
	void (*on_answer)(void *context, struct cache_answer *answer, const struct err *err);
	void *context;
	char unlike[CACHE_ETAG_BYTES]; /* "" or: wait for an answer with another ETag */
	struct cache_wait *next;       /* the cache's */
	struct cache_wait *prev;
	void *answer; /* NULL: not waiting */
};

enum cache_verdict { CACHE_READY, CACHE_WAITING, CACHE_UNAVAILABLE };

/* The live answer, or NULL. Allocates nothing. `path` need not be valid. */
struct cache_answer *cache_find(struct cache *cache, const char *path, enum cache_answer_kind kind,
	const struct cache_filter *filter);

/*
 * An answer by all means: READY gives it in *ret_answer (live or stale); WAITING calls wait->on_answer later; UNAVAILABLE fills err.
 * `path` must be valid. `refresh`: read again from the registry first. With wait->unlike set, an answer with that ETag is waited out.
 */
enum cache_verdict cache_ask(struct cache *cache, const char *path, enum cache_answer_kind kind,
	const struct cache_filter *filter, bool refresh, struct cache_wait *wait,
	struct cache_answer **ret_answer, struct err *err) ERR_REQUIRED(8);
void cache_cancel(struct cache_wait *wait);
/* Keeps the answer's body beyond the turn, until cache_body_release() is called with what this returns. */
void *cache_body_hold(const struct cache_answer *answer);
void cache_body_release(void *body);
/* Seconds since a stale answer was last known to be true; 0 for a live one. */
double cache_answer_age_s(const struct cache_answer *answer);

/* ---- observers ---- */

enum cache_event { CACHE_UPDATED, CACHE_DELETED, CACHE_STALE, CACHE_FRESH };

struct cache_node;

/* One who wants every change of a path, or of all below it too. In the caller's memory. */
struct cache_observer {
	bool recursive;
	/* Everything observed has been loaded: cache_write_snapshot() is complete from now on, and on_event follows. */
	void (*on_ready)(void *context);
	/* `path` and `record` (compact JSON, "null" for a node without record) are for UPDATED; DELETED has a path only. */
	void (*on_event)(
		void *context, enum cache_event event, const char *path, const char *record);
	/*
	 * Not all that is observed fits into max_size_bytes, and this observer is one too many; or it is not all known while
	 * the registry is away. It is observed no longer. May be NULL: such an observer waits.
	 */
	void (*on_refused)(void *context, const struct err *err);
	void *context;
	struct cache *cache; /* the rest is the cache's */
	struct cache_node *node;
	struct cache_observer *next;
	struct cache_observer *prev;
	struct cache_observer *next_all;
	struct cache_observer *prev_all;
	size_t missing;
	bool due; /* all may be there now */
	bool ready;
	bool stale;
};

/* `path` must be valid. on_ready comes later, and at once in the next turn when everything is there. */
void cache_observe(struct cache *cache, const char *path, struct cache_observer *observer);
void cache_unobserve(struct cache_observer *observer);
const char *cache_observed_path(const struct cache_observer *observer);
/* Appends {"path": record or null, …} of everything observed. */
void cache_write_snapshot(const struct cache_observer *observer, struct buffer *out);

/* ---- across restarts ---- */

/* Saves what is known into a state directory. Blocks for the disk. 0 or BERTH_FAILED. */
int cache_save(const struct cache *cache, const char *directory, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* Loads it as stale with its true age, to be confirmed by the registry; what is damaged or of another registry is ignored with a log line. */
void cache_load(struct cache *cache, const char *directory);

#endif
