#include "agent/names/index.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "agent/names/internal.h"
#include "lib/base/hash.h"
#include "lib/base/list.h"
#include "lib/base/random_bytes.h"

enum {
	FIRST_BUCKETS = 64,
	TURN_STEPS = 4096, /* of one iteration of the loop */
	DECODE_STEPS = 16, /* reading a record, by looking at a path */
	WALK_PATHS =
		512 /* that the walk through the cache looks at before their records are read */
};

enum state { IDLE, WALKING, FOLLOWING };

/* A key of one record. */
struct posting {
	struct list link; /* in the table of keys */
	uint64_t key;
	struct item *item;
};

/* A path whose record has keys, or has changed. */
struct item {
	struct list link;    /* in the table of paths */
	struct list pending; /* index->pending while its record is to be read again */
	uint64_t hash;
	struct posting *postings;
	size_t count;
	char path[];
};

/* Chains of items or of postings. */
struct table {
	struct list *buckets;
	size_t size; /* a power of two */
	size_t count;
};

struct names_index {
	struct ev_loop *loop;
	struct cache *cache;
	void (*on_ready)(void *context);
	void *context;
	uint64_t seed;
	enum state state;
	size_t cursor; /* of the walk through the cache */
	struct table paths;
	struct table keys;
	struct list pending; /* items, first come first */
	struct timer more;
	unsigned turn; /* of the loop */
	size_t worked; /* steps in this turn */
	bool asked;    /* on_ready is due */
};

static void charge(struct names_index *index, size_t before, size_t after)
{
	cache_reserve(index->cache, before, after);
}

/* ---- tables ---- */

static struct list *make_buckets(size_t size)
{
	struct list *buckets = allocate_zeroed(size, sizeof(*buckets));
	for (size_t i = 0; i < size; i++) {
		list_init(&buckets[i]);
	}
	return buckets;
}

/* Strangers choose paths and addresses: without the seed they could fill one bucket. */
static struct list *bucket_of(
	const struct names_index *index, const struct table *table, uint64_t key)
{
	uint64_t mixed = (key ^ index->seed) * UINT64_C(0x9e3779b97f4a7c15);
	return &table->buckets[(mixed ^ mixed >> 32) & (table->size - 1)];
}

static uint64_t key_of(
	const struct names_index *index, const struct table *table, struct list *link)
{
	return table == &index->paths ? LIST_ITEM(link, struct item, link)->hash
				      : LIST_ITEM(link, struct posting, link)->key;
}

static void grow(struct names_index *index, struct table *table)
{
	struct table bigger = { make_buckets(2 * table->size), 2 * table->size, table->count };
	for (size_t i = 0; i < table->size; i++) {
		while (!list_empty(&table->buckets[i])) {
			struct list *link = table->buckets[i].next;
			list_remove(link);
			list_append(bucket_of(index, &bigger, key_of(index, table, link)), link);
		}
	}
	charge(index, table->size * sizeof(struct list), bigger.size * sizeof(struct list));
	free(table->buckets);
	*table = bigger;
}

static void put(struct names_index *index, struct table *table, struct list *link)
{
	if (table->count >= table->size) {
		grow(index, table);
	}
	list_append(bucket_of(index, table, key_of(index, table, link)), link);
	table->count++;
}

static void take(struct table *table, struct list *link)
{
	list_remove(link);
	table->count--;
}

/* ---- items ---- */

static size_t item_bytes(const struct item *item)
{
	return sizeof(*item) + strlen(item->path) + 1 + item->count * sizeof(struct posting);
}

static struct item *find_item(const struct names_index *index, const char *path, uint64_t hash)
{
	struct list *head = bucket_of(index, &index->paths, hash);
	for (struct list *link = head->next; link != head; link = link->next) {
		struct item *item = LIST_ITEM(link, struct item, link);
		if (item->hash == hash && strcmp(item->path, path) == 0) {
			return item;
		}
	}
	return NULL;
}

static struct item *add_item(struct names_index *index, const char *path, uint64_t hash)
{
	size_t len = strlen(path);
	struct item *item = allocate_zeroed(1, sizeof(*item) + len + 1);
	memcpy(item->path, path, len);
	item->hash = hash;
	list_init(&item->link);
	list_init(&item->pending);
	put(index, &index->paths, &item->link);
	charge(index, 0, item_bytes(item));
	return item;
}

static void drop_postings(struct names_index *index, struct item *item)
{
	size_t before = item_bytes(item);
	for (size_t i = 0; i < item->count; i++) {
		take(&index->keys, &item->postings[i].link);
	}
	free(item->postings);
	item->postings = NULL;
	item->count = 0;
	charge(index, before, item_bytes(item));
}

static void drop_item(struct names_index *index, struct item *item)
{
	drop_postings(index, item);
	charge(index, item_bytes(item), 0);
	list_remove(&item->pending);
	take(&index->paths, &item->link);
	free(item);
}

/* ---- what records say ---- */

static void add_posting(void *context, uint64_t key)
{
	struct item *item = context;
	item->postings = allocate_grow(item->postings, item->count, sizeof(*item->postings));
	item->postings[item->count++] = (struct posting){ .key = key, .item = item };
}

/* Reads the record of the path once more. */
static void take_in(struct names_index *index, struct item *item)
{
	struct cache_record known;
	struct record *record;
	list_remove(&item->pending);
	drop_postings(index, item);
	index->worked++;
	if (!cache_known_data(index->cache, item->path, &known)) {
		drop_item(index, item);
		return;
	}
	index->worked += DECODE_STEPS;
	if (allocated_code(record_decode(&record, known.data, known.len, NULL)) == 0) {
		size_t before = item_bytes(item);
		names_each_key(item->path, record, add_posting, item);
		record_free(record);
		charge(index, before, item_bytes(item));
	}
	for (size_t i = 0; i < item->count; i++) {
		put(index, &index->keys, &item->postings[i].link);
	}
	if (item->count == 0) {
		drop_item(index, item);
	}
}

/* ---- catching up ---- */

static bool is_behind(const struct names_index *index)
{
	return index->state != FOLLOWING || !list_empty(&index->pending);
}

static void on_data(void *context, const char *path, bool known)
{
	struct names_index *index = context;
	uint64_t hash = hash_text(HASH_INIT, path);
	struct item *item = find_item(index, path, hash);
	if (!item && !known) {
		return;
	}
	item = item ? item : add_item(index, path, hash);
	if (list_empty(&item->pending)) {
		list_append(&index->pending, &item->pending);
	}
	if (!timer_runs(&index->more)) {
		timer_start(&index->more, 0);
	}
}

static void walk_on(struct names_index *index)
{
	index->worked += WALK_PATHS;
	if (!cache_visit_paths(index->cache, &index->cursor, WALK_PATHS, on_data, index)) {
		index->state = FOLLOWING;
	}
}

/* As much as this iteration of the loop may; the rest in the next ones. */
static void catch_up(struct names_index *index)
{
	unsigned turn = ev_iteration(index->loop);
	if (index->turn != turn) {
		index->turn = turn;
		index->worked = 0;
	}
	while (is_behind(index) && index->worked < TURN_STEPS) {
		if (list_empty(&index->pending)) {
			walk_on(index);
		} else {
			take_in(index, LIST_ITEM(index->pending.next, struct item, pending));
		}
	}
	if (!is_behind(index)) {
		timer_stop(&index->more);
	} else if (!timer_runs(&index->more)) {
		timer_start(&index->more, 0);
	}
}

static void on_more(void *context)
{
	struct names_index *index = context;
	catch_up(index);
	if (index->asked && !is_behind(index)) {
		index->asked = false;
		index->on_ready(index->context);
	}
}

static void begin(struct names_index *index)
{
	index->state = WALKING;
	index->paths = (struct table){ make_buckets(FIRST_BUCKETS), FIRST_BUCKETS, 0 };
	index->keys = (struct table){ make_buckets(FIRST_BUCKETS), FIRST_BUCKETS, 0 };
	charge(index, 0, 2 * FIRST_BUCKETS * sizeof(struct list));
	cache_on_data(index->cache, on_data, index);
}

bool names_index_find(struct names_index *index, uint64_t key, names_visit *visit, void *context)
{
	if (index->state == IDLE) {
		begin(index);
	}
	catch_up(index);
	if (is_behind(index)) {
		index->asked = true;
		return false;
	}
	size_t left = NAMES_INDEX_MOST;
	struct list *head = bucket_of(index, &index->keys, key);
	for (struct list *link = head->next; link != head && left > 0; link = link->next) {
		const struct posting *posting = LIST_ITEM(link, struct posting, link);
		struct cache_record known;
		struct record *record;
		if (posting->key == key &&
			cache_known_data(index->cache, posting->item->path, &known) &&
			allocated_code(record_decode(&record, known.data, known.len, NULL)) == 0) {
			visit(context, known.path, record);
			record_free(record);
			left--;
		}
	}
	return true;
}

struct names_index *names_index_create(
	struct ev_loop *loop, struct cache *cache, void (*on_ready)(void *context), void *context)
{
	struct names_index *index = allocate_zeroed(1, sizeof(*index));
	index->loop = loop;
	index->cache = cache;
	index->on_ready = on_ready;
	index->context = context;
	list_init(&index->pending);
	timer_init(&index->more, loop, "the index of addresses", on_more, index);
	(void)random_bytes(&index->seed, sizeof(index->seed));
	return index;
}

void names_index_destroy(struct names_index *index)
{
	if (!index) {
		return;
	}
	timer_stop(&index->more);
	if (index->state != IDLE) {
		cache_on_data(index->cache, NULL, NULL);
		for (size_t i = 0; i < index->paths.size; i++) {
			while (!list_empty(&index->paths.buckets[i])) {
				drop_item(index,
					LIST_ITEM(index->paths.buckets[i].next, struct item, link));
			}
		}
		charge(index, (index->paths.size + index->keys.size) * sizeof(struct list), 0);
		free(index->paths.buckets);
		free(index->keys.buckets);
	}
	free(index);
}
