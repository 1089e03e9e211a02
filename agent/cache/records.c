/* The data of all paths, for an index of the records. */
#include "agent/cache/parts.h"

#include <string.h>

static const struct registry_value *known_value(const struct cache_node *node)
{
	const struct cache_entry *data = node ? node->entries[CACHE_DATA] : NULL;
	return data && data->value && !cache_code(data) ? data->value : NULL;
}

void cache_on_data(struct cache *cache, cache_data_visitor *visit, void *context)
{
	cache->store.on_data = visit;
	cache->store.on_data_context = context;
}

/* A table that grows splits its buckets: those before the cursor leave nothing before it. */
bool cache_visit_paths(const struct cache *cache, size_t *cursor, size_t most,
	cache_data_visitor *visit, void *context)
{
	for (size_t seen = 0; *cursor < cache->table.bucket_count && seen < most; ++*cursor) {
		const struct cache_node *node = cache->table.buckets[*cursor];
		for (seen++; node; node = node->hash_next) {
			seen++;
			if (known_value(node)) {
				visit(context, node->path, true);
			}
		}
	}
	return *cursor < cache->table.bucket_count || cache_is_loading(cache);
}

bool cache_known_data(const struct cache *cache, const char *path, struct cache_record *ret_record)
{
	const struct cache_node *node = cache_node_find(&cache->table, path, strlen(path));
	const struct registry_value *value = known_value(node);
	if (!value) {
		return false;
	}
	*ret_record = (struct cache_record){ node->path, value->data, value->data_len, value };
	return true;
}
