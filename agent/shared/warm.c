#include "agent/shared/warm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/limits.h"
#include "lib/base/list.h"
#include "lib/base/path.h"
#include "lib/shared/layout.h"

enum {
	ASKED_IN_A_TURN = 32,    /* answers */
	VISITED_IN_A_TURN = 512, /* paths, at first */
	MOST_CHILDREN = 256,     /* of a directory whose records can be small enough for the map */
	FIRST_BUCKETS = 64
};

/* How much is watched of a path, and so can be answered without a read. */
enum watched { NAMED, ALL_BELOW, DIRECTORY };

/* In this order: the list says how many records there are. */
static const struct {
	enum cache_answer_kind kind;
	const char *target;
	enum watched least;
} kinds[] = {
	{ CACHE_RESOLVE, "/v1/resolve", NAMED },
	{ CACHE_LIST, "/v1/list", DIRECTORY },
	{ CACHE_ENDPOINTS, "/v1/endpoints", ALL_BELOW },
	{ CACHE_RECORDS, "/v1/records", DIRECTORY },
};

enum { KINDS = ARRAY_LEN(kinds) };

struct queued {
	struct list link;
	struct queued *hash_next;
	uint64_t hash;
	enum watched watched;
	char path[];
};

struct pattern {
	char *path;
	bool tree;
};

struct warm {
	struct cache *cache;
	struct pattern *patterns;
	size_t pattern_count;
	warm_put *put;
	void *context;
	struct list queue;
	struct queued **buckets; /* of what is queued: each path once */
	size_t bucket_count;
	size_t queued_count;
	size_t bytes;  /* that are counted in the cache */
	size_t cursor; /* of the first visit */
	bool visiting;
	bool full;
	struct timer work;
	struct queued *current; /* taken from the queue, with `next` for its next answer; or NULL */
	size_t next;
	char key[SHARED_KEY_BYTES + 1];
	struct cache_query query; /* that is waited for */
	struct cache_wait wait;
	bool waiting;
};

/* ---- the queue ---- */

static void count_bytes(struct warm *warm, size_t bytes)
{
	cache_reserve(warm->cache, warm->bytes, bytes);
	warm->bytes = bytes;
}

static size_t bytes_of(const char *path)
{
	return sizeof(struct queued) + strlen(path) + 1;
}

static bool is_warm(const struct warm *warm, const char *path, enum watched *ret_watched)
{
	bool named = false;
	*ret_watched = NAMED;
	for (size_t i = 0; i < warm->pattern_count && *ret_watched == NAMED; i++) {
		const struct pattern *pattern = &warm->patterns[i];
		if (pattern->tree && path_is_under(path, pattern->path)) {
			*ret_watched = ALL_BELOW;
		}
		named = named || *ret_watched == ALL_BELOW || strcmp(path, pattern->path) == 0;
	}
	return named;
}

static void grow(struct warm *warm)
{
	size_t count = 2 * warm->bucket_count;
	struct queued **buckets = allocate_zeroed(count, sizeof(struct queued *));
	for (struct list *link = warm->queue.next; link != &warm->queue; link = link->next) {
		struct queued *queued = LIST_ITEM(link, struct queued, link);
		struct queued **bucket = &buckets[queued->hash & (count - 1)];
		queued->hash_next = *bucket;
		*bucket = queued;
	}
	free(warm->buckets);
	count_bytes(warm, warm->bytes + (count - warm->bucket_count) * sizeof(struct queued *));
	warm->buckets = buckets;
	warm->bucket_count = count;
}

static void enqueue(struct warm *warm, const char *path, enum watched watched)
{
	size_t len = strlen(path);
	uint64_t hash = hash_bytes(HASH_INIT, path, len);
	struct queued **bucket = &warm->buckets[hash & (warm->bucket_count - 1)];
	for (struct queued *at = *bucket; at; at = at->hash_next) {
		if (at->hash == hash && strcmp(at->path, path) == 0) {
			at->watched = watched > at->watched ? watched : at->watched;
			return;
		}
	}
	struct queued *queued = allocate_zeroed(1, sizeof(*queued) + len + 1);
	memcpy(queued->path, path, len + 1);
	queued->hash = hash;
	queued->watched = watched;
	queued->hash_next = *bucket;
	*bucket = queued;
	list_append(&warm->queue, &queued->link);
	count_bytes(warm, warm->bytes + bytes_of(path));
	if (++warm->queued_count > warm->bucket_count) {
		grow(warm);
	}
}

/* Its parent is a directory, of whose answers it is a part. */
static void enqueue_if_warm(struct warm *warm, const char *path)
{
	char parent[LIMIT_PATH_BYTES];
	size_t parent_len = path_parent_len(path);
	enum watched watched;
	if (is_warm(warm, path, &watched)) {
		enqueue(warm, path, watched);
	}
	if (parent_len > 0 && parent_len < sizeof(parent)) {
		memcpy(parent, path, parent_len);
		parent[parent_len] = '\0';
		if (is_warm(warm, parent, &watched) && watched == ALL_BELOW) {
			enqueue(warm, parent, DIRECTORY);
		}
	}
}

static struct queued *take(struct warm *warm)
{
	if (list_empty(&warm->queue)) {
		return NULL;
	}
	struct queued *queued = LIST_ITEM(warm->queue.next, struct queued, link);
	struct queued **at = &warm->buckets[queued->hash & (warm->bucket_count - 1)];
	while (*at != queued) {
		at = &(*at)->hash_next;
	}
	*at = queued->hash_next;
	list_remove(&queued->link);
	warm->queued_count--;
	count_bytes(warm, warm->bytes - bytes_of(queued->path));
	return queued;
}

void warm_touched(struct warm *warm, const char *path)
{
	if (warm && !warm->full) {
		enqueue_if_warm(warm, path);
	}
}

/* ---- work ---- */

static void visit(void *context, const char *path, bool known)
{
	(void)known;
	enqueue_if_warm(context, path);
}

/* Only an answer that the next look-up gets as it is, as a hit. */
static void put_if_hit(
	struct warm *warm, const struct cache_query *query, const struct cache_answer *answer)
{
	struct cache_query now = *query;
	now.now_ms = clock_monotonic_ms();
	if (answer && cache_find(warm->cache, &now) == answer) {
		warm->full = !warm->put(warm->context, &now, warm->key, answer);
	}
}

/* By the list that was asked for before; SIZE_MAX: nobody knows. */
static size_t count_children(struct warm *warm, const char *path)
{
	const struct cache_query query = {
		.path = path, .kind = CACHE_LIST, .max_age_ms = -1, .now_ms = clock_monotonic_ms()
	};
	const struct cache_answer *answer = cache_find(warm->cache, &query);
	return answer && !answer->err && answer->value ? answer->value->stat.children : SIZE_MAX;
}

/* Paths that have come and gone would pile up in the cache if they were asked for. */
static bool is_wanted(struct warm *warm, const struct queued *queued, size_t which)
{
	struct cache_record record;
	if (queued->watched < kinds[which].least ||
		(queued->watched != NAMED &&
			!cache_known_data(warm->cache, queued->path, &record))) {
		return false;
	}
	bool of_children = kinds[which].kind == CACHE_ENDPOINTS ||
		kinds[which].kind == CACHE_RECORDS;
	return !of_children || queued->watched != DIRECTORY ||
		count_children(warm, queued->path) <= MOST_CHILDREN;
}

static void on_answer(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)err;
	struct warm *warm = context;
	warm->waiting = false;
	put_if_hit(warm, &warm->query, answer);
	timer_start(&warm->work, 0);
}

static void ask(struct warm *warm, const struct queued *queued, size_t which)
{
	struct err err = ERR_INIT;
	struct cache_answer *answer = NULL;
	int len = snprintf(warm->key, sizeof(warm->key), "%s%s", kinds[which].target, queued->path);
	if (!is_wanted(warm, queued, which) || (size_t)len >= sizeof(warm->key)) {
		return;
	}
	warm->query = (struct cache_query){ .path = queued->path,
		.kind = kinds[which].kind,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
	warm->wait = (struct cache_wait){ .on_answer = on_answer, .context = warm };
	enum cache_verdict verdict = cache_ask(
		warm->cache, &warm->query, &warm->wait, &answer, &err);
	warm->waiting = verdict == CACHE_WAITING;
	put_if_hit(warm, &warm->query, verdict == CACHE_READY ? answer : NULL);
}

static void forget_queue(struct warm *warm)
{
	for (struct queued *queued; (queued = take(warm));) {
		free(queued);
	}
	free(warm->current);
	warm->current = NULL;
	warm->visiting = false;
}

static bool next_path(struct warm *warm)
{
	if (warm->next == KINDS || !warm->current) {
		free(warm->current);
		warm->current = take(warm);
		warm->next = 0;
	}
	return warm->current != NULL;
}

static void on_work(void *context)
{
	struct warm *warm = context;
	if (warm->visiting) {
		warm->visiting = cache_visit_paths(
			warm->cache, &warm->cursor, VISITED_IN_A_TURN, visit, warm);
	}
	int asked = 0;
	while (asked < ASKED_IN_A_TURN && !warm->waiting && !warm->full && next_path(warm)) {
		ask(warm, warm->current, warm->next++);
		asked++;
	}
	if (warm->full) {
		forget_queue(warm);
		return;
	}
	if (!warm->waiting && (warm->visiting || asked == ASKED_IN_A_TURN)) {
		timer_start(&warm->work, 0);
	}
}

void warm_go_on(struct warm *warm)
{
	if (warm && !warm->waiting && !timer_runs(&warm->work) &&
		(warm->visiting || warm->current || !list_empty(&warm->queue))) {
		timer_start(&warm->work, 0);
	}
}

/* ---- making and ending ---- */

static void add_pattern(struct warm *warm, const char *text)
{
	struct pattern *pattern = &warm->patterns[warm->pattern_count++];
	size_t len = strlen(text);
	pattern->tree = len >= 3 && strcmp(text + len - 3, "/**") == 0;
	pattern->path = allocate_text(text);
	if (pattern->tree) {
		pattern->path[len - 3] = '\0'; /* of all paths: "" */
	}
}

/* A path that is named may be absent, which is an answer, too. */
void warm_begin(struct warm *warm)
{
	if (!warm) {
		return;
	}
	warm->full = false;
	warm->visiting = true;
	warm->cursor = 0;
	for (size_t i = 0; i < warm->pattern_count; i++) {
		if (!warm->patterns[i].tree) {
			enqueue(warm, warm->patterns[i].path, NAMED);
		}
	}
}

struct warm *warm_create(struct ev_loop *loop, struct cache *cache, char *const *patterns,
	size_t count, warm_put *put, void *context)
{
	struct warm *warm = allocate_zeroed(1, sizeof(*warm));
	warm->cache = cache;
	warm->put = put;
	warm->context = context;
	list_init(&warm->queue);
	warm->patterns = allocate_zeroed(count, sizeof(*warm->patterns));
	warm->bucket_count = FIRST_BUCKETS;
	warm->buckets = allocate_zeroed(FIRST_BUCKETS, sizeof(struct queued *));
	count_bytes(warm, sizeof(*warm) + FIRST_BUCKETS * sizeof(struct queued *));
	timer_init(&warm->work, loop, "warm answers for the shared map", on_work, warm);
	for (size_t i = 0; i < count; i++) {
		add_pattern(warm, patterns[i]);
	}
	warm_begin(warm);
	return warm;
}

void warm_destroy(struct warm *warm)
{
	if (!warm) {
		return;
	}
	timer_stop(&warm->work);
	cache_cancel(&warm->wait);
	forget_queue(warm);
	count_bytes(warm, 0);
	for (size_t i = 0; i < warm->pattern_count; i++) {
		free(warm->patterns[i].path);
	}
	free(warm->patterns);
	free(warm->buckets);
	free(warm);
}
