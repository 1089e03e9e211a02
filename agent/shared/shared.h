/*
 * Look-ups in shared memory: which answers are in the map that clients read without a request, for
 * how long they hold, and when there is another map.
 *
 *          shared_hand_out()              it is full: one of twice the size takes its place
 *   NONE -----------------> OUT <-------------------------------------.
 *    ^                      | |                                       |
 *    |  shared_retire():    | '-- LAPSED, while no client asks: <-----'
 *    '- upgrade, end, the --'     the lease runs out, and the next request of a reader extends it
 *       registry came back
 *
 * The map holds answers that clients of the map have asked for over the socket, and those of what
 * `warm` names (warm.h). An answer is taken
 * back, by a word that sends its readers to the socket, as soon as the cache learns that a path of
 * which it is made has changed or is not known for sure any more: before any stream or waiting
 * request hears of it. The lease says that the server was heard; it is what the cache itself goes
 * by for a hit, and never extended while the registry is away.
 *
 * Answers of a further registry have a cache of their own. While there are any, the lease is no
 * longer than what that registry's server was heard for, too. A registry that would end the lease
 * before it is looked at again, or that goes away, loses its answers instead: it costs the others
 * nothing.
 *
 * While there is no map, nothing here costs a look-up anything. Loop thread only.
 */
#ifndef AGENT_SHARED_SHARED_H
#define AGENT_SHARED_SHARED_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/cache/cache.h"
#include "lib/base/err.h"
#include "lib/registry/registry.h"

struct shared;

struct shared_stats {
	size_t bytes;   /* of the map; 0 without one */
	size_t entries; /* answers in it that hold */
	uint64_t maps;  /* made so far */
};

/* The cache must outlive it. */
struct shared *shared_create(struct ev_loop *loop, struct cache *cache);
/* Retires the map. Accepts NULL. */
void shared_destroy(struct shared *shared);
struct shared_options {
	bool enabled;
	size_t max_bytes;  /* of a map; not more than half of the cache's max_size_bytes */
	char *const *warm; /* as in the cache's options; copied */
	size_t warm_count;
};

/*
 * A map that is larger, or that may not be any more, is retired. To be called after
 * cache_set_options(), too.
 */
void shared_set_options(struct shared *shared, const struct shared_options *options);
/* To be called with every change of the registry's state. */
void shared_on_registry_state(struct shared *shared, enum registry_state state);
/*
 * Takes the answers of a further registry's cache back: to be called with every change of that
 * registry's state, after every cache_set_options(), and before the cache is detached or destroyed.
 */
void shared_forget(struct shared *shared, const struct cache *cache);
void shared_get_stats(const struct shared *shared, struct shared_stats *ret_stats);

/* Is there a map, and may there be one? */
bool shared_is_out(const struct shared *shared);
bool shared_is_enabled(const struct shared *shared);
/*
 * The file of the map, borrowed, and its size; made when there is none. BERTH_FAILED: the kernel
 * has no room for it.
 */
int shared_hand_out(struct shared *shared, int *ret_fd, size_t *ret_size, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* There is no map from now on; the next shared_hand_out() makes one. */
void shared_retire(struct shared *shared);

/* Of what an answer is made: when one of it changes, the answer is taken back. */
enum shared_source {
	SHARED_OF_PATH,     /* what the cache has of the path itself */
	SHARED_OF_CHILDREN, /* that, and what it has of the direct children */
	SHARED_OF_ANYTHING  /* of more paths of the agent's own cache, which nobody names */
};

/* An answer that is a hit now. Texts are borrowed. */
struct shared_item {
	struct cache *cache; /* whose answer it is */
	const char *key;     /* the target of the request; text behind a blank: "text/plain" */
	size_t key_len;
	enum shared_source source;
	const char *path;      /* for the first two */
	const char *etag;      /* "" without one */
	const struct err *err; /* NULL: value is the answer */
	const char *value;
	size_t value_len;
};

/* The cache's answer to the query. All is borrowed. */
struct shared_item shared_item_of(struct cache *cache, const char *key,
	const struct cache_query *query, const struct cache_answer *answer);
/*
 * A reader of the map asks for this: from now on it is in the map, if there is one; an error only
 * if it says something about the path, and not about the agent. Also extends a lease that has
 * lapsed.
 */
void shared_put(struct shared *shared, const struct shared_item *item);

#endif
