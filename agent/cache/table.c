#include "agent/cache/table.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/hash.h"
#include "lib/base/path.h"
#include "lib/base/random_bytes.h"

enum {
	FIRST_BUCKETS = 256,
	OVERDRAFT = 20 /* a twentieth of the limit may come in before nothing more is read */
};

static uint32_t hash_path(const struct cache_table *table, const char *path, size_t len)
{
	uint64_t hash = hash_bytes(table->hash_seed, path, len);
	return (uint32_t)(hash ^ hash >> 32);
}

static struct cache_node **bucket_of(const struct cache_table *table, uint32_t hash)
{
	return &table->buckets[hash & (table->bucket_count - 1)];
}

struct cache_node *cache_node_find(const struct cache_table *table, const char *path, size_t len)
{
	uint32_t hash = hash_path(table, path, len);
	struct cache_node *node = *bucket_of(table, hash);
	while (node &&
		(node->hash != hash || node->path_len != len ||
			memcmp(node->path, path, len) != 0)) {
		node = node->hash_next;
	}
	return node;
}

struct cache_node *cache_node_parent(const struct cache_table *table, const struct cache_node *node)
{
	size_t len = path_parent_len(node->path);
	return len > 0 ? cache_node_find(table, node->path, len) : NULL;
}

struct cache_node *cache_node_next(const struct cache_table *table, const struct cache_node *node)
{
	if (node && node->hash_next) {
		return node->hash_next;
	}
	size_t at = node ? (node->hash & (table->bucket_count - 1)) + 1 : 0;
	while (at < table->bucket_count && !table->buckets[at]) {
		at++;
	}
	return at < table->bucket_count ? table->buckets[at] : NULL;
}

static void grow(struct cache_table *table)
{
	size_t count = table->bucket_count * 2;
	struct cache_node **buckets = allocate_zeroed(count, sizeof(struct cache_node *));
	for (size_t i = 0; i < table->bucket_count; i++) {
		for (struct cache_node *node = table->buckets[i], *next; node; node = next) {
			next = node->hash_next;
			node->hash_next = buckets[node->hash & (count - 1)];
			buckets[node->hash & (count - 1)] = node;
		}
	}
	cache_charge(table, table->bucket_count * sizeof(void *), count * sizeof(void *));
	free(table->buckets);
	table->buckets = buckets;
	table->bucket_count = count;
}

static size_t node_bytes(const struct cache_node *node)
{
	return sizeof(*node) + node->path_len + 1 + CACHE_ALLOCATION_BYTES;
}

struct cache_node *cache_node_get(struct cache_table *table, const char *path)
{
	size_t len = strlen(path);
	struct cache_node *node = cache_node_find(table, path, len);
	if (node) {
		return node;
	}
	/* Half full: a hit seldom walks past another path. */
	if (2 * table->node_count >= table->bucket_count) {
		grow(table);
	}
	node = allocate_zeroed(1, sizeof(*node) + len + 1);
	memcpy(node->path, path, len);
	node->path_len = (uint16_t)len;
	node->hash = hash_path(table, path, len);
	list_init(&node->observers);
	struct cache_node **bucket = bucket_of(table, node->hash);
	node->hash_next = *bucket;
	*bucket = node;
	list_prepend(&table->order, &node->order);
	table->node_count++;
	cache_charge(table, 0, node_bytes(node));
	if (table->on_made) {
		table->on_made(table->context, node);
	}
	return node;
}

void cache_node_free(struct cache_table *table, struct cache_node *node)
{
	struct cache_node **at = bucket_of(table, node->hash);
	while (*at != node) {
		at = &(*at)->hash_next;
	}
	*at = node->hash_next;
	list_remove(&node->order);
	cache_charge(table, node_bytes(node), 0);
	table->node_count--;
	free(node);
}

bool cache_is_full(const struct cache_table *table)
{
	return table->bytes > table->max_bytes + table->max_bytes / OVERDRAFT;
}

void cache_table_init(struct cache_table *table, size_t bytes)
{
	*table = (struct cache_table){ .bucket_count = FIRST_BUCKETS,
		.buckets = allocate_zeroed(FIRST_BUCKETS, sizeof(struct cache_node *)),
		.bytes = bytes + FIRST_BUCKETS * sizeof(void *) };
	(void)random_bytes(&table->hash_seed, sizeof(table->hash_seed));
	list_init(&table->order);
	list_init(&table->pinned);
}

void cache_table_finish(struct cache_table *table)
{
	free(table->buckets);
}
