/*
 * The table of paths: a node for each, the order in which they were used, and the bytes that all of
 * the cache takes. The other files hang what they know of a path into its node.
 */
#ifndef AGENT_CACHE_TABLE_H
#define AGENT_CACHE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/list.h"

struct answer;
struct cache_entry;

enum { CACHE_ALLOCATION_BYTES = 16 }; /* malloc's overhead for each block */

enum cache_kind { CACHE_DATA, CACHE_CHILDREN };

/* A hit looks at the end of a node and at the end of an answer: both are few cache lines. */
struct cache_node {
	struct list order; /* table->order, or table->pinned */
	struct cache_node *dirty_next;
	struct cache_entry *entries[2]; /* of each kind; or NULL */
	struct list observers;          /* follow.h */
	struct answer *answers;
	struct cache_node *hash_next;
	uint32_t hash;
	uint16_t path_len;
	uint8_t arrived; /* a bit for each entry whose state came since the last flush */
	bool dirty;      /* turn.h */
	bool used;       /* since its last turn to be evicted */
	char path[];
};

struct cache_table {
	struct cache_node **buckets;
	size_t bucket_count;
	uint64_t hash_seed;
	size_t node_count;
	struct list order;  /* of nodes, most recently used first */
	struct list pinned; /* nodes that could not be evicted */
	bool unpinned;      /* something that pinned nodes has ended since */
	size_t bytes;
	size_t max_bytes;
	/* A node has been made, and nobody knows of it yet; or NULL. It may make others. */
	void (*on_made)(void *context, struct cache_node *node);
	void *context;
};

/* An empty table; `bytes` are taken already. */
void cache_table_init(struct cache_table *table, size_t bytes);
/* No node may be left. */
void cache_table_finish(struct cache_table *table);

/* NULL: there is none. */
struct cache_node *cache_node_find(const struct cache_table *table, const char *path, size_t len);
/* Makes it, if there is none. */
struct cache_node *cache_node_get(struct cache_table *table, const char *path);
/* NULL: there is none. */
struct cache_node *cache_node_parent(
	const struct cache_table *table, const struct cache_node *node);
/* The node behind this one, in no order; of NULL the first one. NULL: there are no more. */
struct cache_node *cache_node_next(const struct cache_table *table, const struct cache_node *node);
/* Nothing hangs in it any more. */
void cache_node_free(struct cache_table *table, struct cache_node *node);

/*
 * Gives it a second chance when it would be evicted next. Only a mark: moving it to the front of
 * the list would touch its neighbours, which a hit has no time for.
 */
static inline void cache_node_use(struct cache_node *node)
{
	node->used = true;
}

static inline void cache_charge(struct cache_table *table, size_t before, size_t after)
{
	table->bytes += after - before;
}

/* So much is held that something is to be evicted at once, and nothing more read before. */
bool cache_is_full(const struct cache_table *table);

#endif
