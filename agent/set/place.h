/*
 * A path that a set comes from, alone or with its children, kept true by an observer of the cache.
 *
 *   LOADING --all is there--> KNOWN        REFUSED --later--> LOADING
 *      '--- the cache refuses it ------------^
 *
 * Records are read when the set is, so many at a time: see set_place_read().
 */
#ifndef AGENT_SET_PLACE_H
#define AGENT_SET_PLACE_H

#include "agent/cache/cache.h"
#include "agent/set/record.h"

enum set_place_state { SET_PLACE_LOADING, SET_PLACE_KNOWN, SET_PLACE_REFUSED };

struct set_place {
	struct list link; /* its user's */
	unsigned round;   /* likewise */
	unsigned rank;    /* likewise */
	unsigned seen;    /* the round of set_place_see() */
	bool whole;       /* as it was seen then: nothing was in doubt, and nothing still to come */
	int64_t true_at_ms; /* … and all of it was true for sure at that time */
	enum cache_scope scope;
	char *path;
	struct cache *cache; /* of the path */
	enum set_place_state state;
	struct err err; /* REFUSED: why */
	struct cache_observer observer;
	char **paths; /* sorted: of the nodes that exist, the path itself first */
	struct set_node *nodes;
	size_t count;
	size_t unread;
	size_t bytes; /* that the cache counts for it */
	void (*on_change)(void *context, int64_t was_true_at_ms);
	void *context;
};

struct set_node {
	struct set_record *record; /* NULL: it holds none that counts */
	bool unread;
};

/*
 * on_change: its state or nodes have changed, and what it had before was true at the given time;
 * INT64_MAX: it still is what it was, as far as is known. It comes as those of observers do.
 */
struct set_place *set_place_create(struct cache *cache, const char *path, enum cache_scope scope,
	void (*on_change)(void *context, int64_t was_true_at_ms), void *context);
void set_place_free(struct set_place *place);
/* Observes it again, in this cache: LOADING. */
void set_place_renew(struct set_place *place, struct cache *cache);

/* Reads records, `most` at most, which it lowers. True: all are read. */
bool set_place_read(struct set_place *place, const struct set_reader *reader, size_t *most);
/* Of a KNOWN one: NULL, or the node. */
const struct set_node *set_place_find(const struct set_place *place, const char *path);
/* The children, of one that has them: places in `paths`. */
char *const *set_place_children(const struct set_place *place, size_t *ret_count);
/* Nothing of it is in doubt. */
bool set_place_is_live(const struct set_place *place);
/* Looks how true a KNOWN one is: `whole`, `true_at_ms`. */
void set_place_see(struct set_place *place, int64_t now_ms);

#endif
