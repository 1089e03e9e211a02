/* The table of paths: nodes that are found, their order, and the bytes that they take. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "agent/cache/table.h"

enum { OWN_BYTES = 1000, PATHS = 1000 };

static struct cache_node *find(const struct cache_table *table, const char *path)
{
	return cache_node_find(table, path, strlen(path));
}

static const char *numbered(int number)
{
	static char path[32];
	snprintf(path, sizeof(path), "/n/%d", number);
	return path;
}

static void empty(struct cache_table *table)
{
	for (struct cache_node *node; (node = cache_node_next(table, NULL)) != NULL;) {
		cache_node_free(table, node);
	}
	cr_assert_eq(table->node_count, 0);
	cr_assert_eq(table->bytes, OWN_BYTES + table->bucket_count * sizeof(void *));
	cache_table_finish(table);
}

Test(cache_table, has_a_node_for_each_path_once)
{
	struct cache_table table;
	cache_table_init(&table, OWN_BYTES);
	cr_assert_null(find(&table, "/a"));
	struct cache_node *node = cache_node_get(&table, "/a");
	cr_assert_str_eq(node->path, "/a");
	cr_assert_eq(cache_node_get(&table, "/a"), node);
	cr_assert_eq(find(&table, "/a"), node);
	cr_assert_null(cache_node_find(&table, "/ab", 1), "the length counts");
	cr_assert_null(find(&table, "/ab"));
	cr_assert_eq(cache_node_find(&table, "/ab", 2), node);
	cr_assert_eq(table.node_count, 1);
	empty(&table);
}

Test(cache_table, knows_the_parent_of_a_path_if_it_has_it)
{
	struct cache_table table;
	cache_table_init(&table, OWN_BYTES);
	const struct cache_node *child = cache_node_get(&table, "/a/b");
	cr_assert_null(cache_node_parent(&table, child));
	const struct cache_node *parent = cache_node_get(&table, "/a");
	cr_assert_eq(cache_node_parent(&table, child), parent);
	const struct cache_node *root = cache_node_get(&table, "/");
	cr_assert_eq(cache_node_parent(&table, parent), root);
	cr_assert_null(cache_node_parent(&table, root));
	empty(&table);
}

Test(cache_table, keeps_all_paths_when_it_grows_and_gives_each_of_them_once)
{
	static int seen[PATHS];
	struct cache_table table;
	cache_table_init(&table, OWN_BYTES);
	size_t buckets = table.bucket_count;
	for (int i = 0; i < PATHS; i++) {
		cache_node_get(&table, numbered(i));
	}
	cr_assert_gt(table.bucket_count, buckets);
	cr_assert_geq(table.bucket_count, 2 * (PATHS - 1));
	for (int i = 0; i < PATHS; i++) {
		cr_assert_not_null(find(&table, numbered(i)));
	}
	for (const struct cache_node *node = cache_node_next(&table, NULL); node;
		node = cache_node_next(&table, node)) {
		int number = -1;
		sscanf(node->path, "/n/%d", &number);
		cr_assert(number >= 0 && number < PATHS);
		seen[number]++;
	}
	for (int i = 0; i < PATHS; i++) {
		cr_assert_eq(seen[i], 1, "%d", i);
	}
	empty(&table);
}

Test(cache_table, forgets_a_path_and_keeps_its_neighbours)
{
	struct cache_table table;
	cache_table_init(&table, OWN_BYTES);
	for (int i = 0; i < PATHS; i++) {
		cache_node_get(&table, numbered(i));
	}
	for (int i = 0; i < PATHS; i += 2) {
		cache_node_free(&table, find(&table, numbered(i)));
	}
	for (int i = 0; i < PATHS; i++) {
		cr_assert_eq(find(&table, numbered(i)) != NULL, i % 2, "%d", i);
	}
	empty(&table);
}

Test(cache_table, has_the_newest_path_first)
{
	struct cache_table table;
	cache_table_init(&table, OWN_BYTES);
	cache_node_get(&table, "/a");
	const struct cache_node *last = cache_node_get(&table, "/b");
	cache_node_get(&table, "/a");
	cr_assert_eq(LIST_ITEM(table.order.next, struct cache_node, order), last);
	empty(&table);
}

Test(cache_table, counts_a_path_with_its_name)
{
	struct cache_table table;
	cache_table_init(&table, OWN_BYTES);
	size_t before = table.bytes;
	cache_node_get(&table, "/a");
	size_t of_short = table.bytes - before;
	cache_node_get(&table, "/a-name-of-25-bytes-above");
	cr_assert_eq(of_short, sizeof(struct cache_node) + sizeof("/a") + CACHE_ALLOCATION_BYTES);
	cr_assert_eq(table.bytes - before, 2 * of_short + 23);
	empty(&table);
}

Test(cache_table, is_full_a_twentieth_above_its_limit)
{
	struct cache_table table;
	cache_table_init(&table, OWN_BYTES);
	table.max_bytes = 20000;
	cache_charge(&table, table.bytes, 21000);
	cr_assert_not(cache_is_full(&table));
	cache_charge(&table, 0, 1);
	cr_assert(cache_is_full(&table));
	cache_table_finish(&table);
}
