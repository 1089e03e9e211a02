#include "agent/cache/internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"

/*
 * Look-ups: the answers of a path, those who wait for one, and the states that make or end them.
 */

enum { ANSWERS_PER_PATH = 32 };

static struct answer *find(const struct cache_node *node, enum cache_answer_kind kind,
	const struct cache_filter *filter)
{
	struct answer *answer = node->answers;
	while (answer && (answer->kind != kind || !cache_filter_same(answer->filter, filter))) {
		answer = answer->next;
	}
	return answer;
}

struct cache_answer *cache_find(struct cache *cache, const struct cache_query *query)
{
	const struct cache_node *node = cache_node_find(cache, query->path, strlen(query->path));
	if (!node || query->refresh) {
		return NULL;
	}
	struct answer *answer = find(node, query->kind, query->filter);
	if (!answer || !answer->ready || !answer->public.live) {
		return NULL;
	}
	bool known_true = query->now_ms < cache->hit_until_ms && query->max_age_ms < 0;
	if (!known_true &&
		cache_confirm_since(cache,
			cache_not_before_ms(cache, query->max_age_ms, query->now_ms),
			query->now_ms) != CACHE_TRUE) {
		return NULL;
	}
	cache_node_use(answer->node);
	return &answer->public;
}

/* ---- the end of an answer ---- */

static void answer_free(struct cache *cache, struct answer *answer)
{
	cache_find_free(cache, answer);
	cache_build_free(answer);
	cache_answer_clear(cache, answer);
	free(answer->filter);
	free(answer);
}

void cache_answers_pass(struct cache *cache, struct cache_node *node)
{
	for (struct answer **at = &node->answers; *at;) {
		struct answer *answer = *at;
		if (answer->passing && list_empty(&answer->waits) && !answer->busy) {
			*at = answer->next;
			answer_free(cache, answer);
		} else {
			at = &answer->next;
		}
	}
}

void cache_answers_free(struct cache *cache, struct cache_node *node)
{
	while (node->answers) {
		struct answer *answer = node->answers;
		node->answers = answer->next;
		answer_free(cache, answer);
	}
}

/* ---- the states that answers wait for ---- */

static enum cache_verdict make(struct cache *cache, struct answer *answer, struct err *err)
{
	return answer->kind == CACHE_FIND ? cache_find_build(cache, answer, err)
					  : cache_answer_make(cache, answer, err);
}

void cache_answer_retry(struct cache *cache, struct answer *answer)
{
	struct err err = ERR_INIT;
	enum cache_verdict verdict = answer->ready && answer->public.live
		? CACHE_READY
		: make(cache, answer, &err);
	if (verdict == CACHE_WAITING) {
		return;
	}
	cache_answer_deliver(cache, answer, verdict, &err);
	if (answer->kind == CACHE_FIND) {
		cache_find_waited(cache, answer);
	}
}

void cache_answers_flush(struct cache *cache, struct cache_node *node)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		if (!list_empty(&answer->waits) && answer->kind != CACHE_FIND) {
			cache_answer_retry(cache, answer);
		}
	}
	struct cache_node *parent = cache_node_parent(cache, node);
	for (struct answer *answer = parent ? parent->answers : NULL; answer;
		answer = answer->next) {
		if (!cache_answer_is_composite(answer) || list_empty(&answer->waits)) {
			continue;
		}
		if (answer->missing > 1) {
			answer->missing--;
		} else {
			cache_answer_retry(cache, answer);
		}
	}
}

void cache_builds_run(struct cache *cache)
{
	if (list_empty(&cache->builds)) {
		return;
	}
	struct cache_build *build = LIST_ITEM(cache->builds.next, struct cache_build, link);
	list_remove(&build->link);
	if (list_empty(&build->answer->waits)) {
		cache_build_free(build->answer); /* its clients have left */
	} else {
		cache_answer_retry(cache, build->answer);
	}
	if (!list_empty(&cache->builds)) {
		cache_go_on(cache);
	}
}
static void drop(struct cache *cache, struct answer *answer)
{
	cache_answer_clear(cache, answer);
	if (answer->build) {
		answer->build->changed = true;
	}
}

void cache_answers_drop(struct cache *cache, struct cache_node *node)
{
	cache_touch(cache, node);
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		if (answer->kind != CACHE_FIND) {
			drop(cache, answer);
		}
	}
	struct cache_node *parent = cache_node_parent(cache, node);
	for (struct answer *answer = parent ? parent->answers : NULL; answer;
		answer = answer->next) {
		if (cache_answer_is_composite(answer)) {
			drop(cache, answer);
		}
	}
}

void cache_answers_away(struct cache *cache, struct cache_node *node)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		if (answer->public.live) {
			answer->public.live = false;
			answer->public.true_at_ms = cache_heard_ms(cache, clock_monotonic_ms());
		}
		cache_build_free(answer);
	}
	if (cache_answers_waited(node)) {
		cache_mark_dirty(cache, node);
	}
}

bool cache_answers_refuse(struct cache *cache, bool loading)
{
	for (struct list *link = cache->pinned.next; link != &cache->pinned; link = link->next) {
		struct cache_node *node = LIST_ITEM(link, struct cache_node, order);
		for (struct answer *answer = node->answers; answer; answer = answer->next) {
			if (!cache_answer_is_composite(answer) || list_empty(&answer->waits) ||
				(loading && answer->missing == 0)) {
				continue;
			}
			struct err err = ERR_INIT;
			err_set(&err, BERTH_LIMIT_EXCEEDED,
				"%s does not fit into the cache of %zu bytes; `max_size` in "
				"[cache] may be larger",
				node->path, cache->options.max_size_bytes);
			cache->refusals++;
			cache_build_free(answer);
			cache_answer_deliver(cache, answer, CACHE_UNAVAILABLE, &err);
			return true;
		}
	}
	return false;
}

/* ---- asking ---- */

/* Filters are the client's to choose: only so many answers of them are kept for a path. */
static void limit_answers(struct cache *cache, struct cache_node *node)
{
	size_t count = 0;
	struct answer **oldest = NULL;
	for (struct answer **at = &node->answers; *at; at = &(*at)->next) {
		count++;
		if (list_empty(&(*at)->waits) && !(*at)->busy) {
			oldest = at;
		}
	}
	if (count >= ANSWERS_PER_PATH && oldest) {
		struct answer *answer = *oldest;
		*oldest = answer->next;
		answer_free(cache, answer);
	}
}

static struct answer *get(struct cache *cache, struct cache_node *node, enum cache_answer_kind kind,
	const struct cache_filter *filter)
{
	struct answer *answer = find(node, kind, filter);
	if (!answer) {
		limit_answers(cache, node);
		answer = allocate_zeroed(1, sizeof(*answer));
		answer->filter = cache_filter_copy(filter);
		answer->cache = cache;
		answer->kind = kind;
		answer->node = node;
		list_init(&answer->waits);
		answer->next = node->answers;
		node->answers = answer;
	}
	return answer;
}

static void refresh(struct cache *cache, struct answer *answer)
{
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		struct cache_entry *entry = answer->node->entries[kind];
		if (entry) {
			cache_entry_refresh(cache, entry);
		}
	}
	answer->refresh_children = cache_answer_is_composite(answer) &&
		cache->state == REGISTRY_CONNECTED;
	if (cache->state == REGISTRY_CONNECTED) {
		answer->ready = false;
	}
}

static void add_wait(struct cache *cache, struct answer *answer, struct cache_wait *wait)
{
	wait->answer = answer;
	list_append(&answer->waits, &wait->link);
	if (answer->kind == CACHE_FIND) {
		cache_find_waited(cache, answer);
	}
}

void cache_cancel(struct cache_wait *wait)
{
	if (!wait->link.next) {
		return; /* it never waited */
	}
	struct answer *answer = wait->answer;
	cache_answer_end_wait(wait);
	if (answer && answer->kind == CACHE_FIND && !answer->busy) {
		cache_find_waited(answer->cache, answer);
	}
}

enum cache_verdict cache_ask(struct cache *cache, const struct cache_query *query,
	struct cache_wait *wait, struct cache_answer **ret_answer, struct err *err)
{
	struct cache_node *node = cache_node_get(cache, query->path);
	cache_node_use(node);
	ev_prepare_start(cache->loop, &cache->flush); /* the new path may be one too many */
	struct answer *answer = get(cache, node, query->kind, query->filter);
	wait->not_before_ms = cache_not_before_ms(cache, query->max_age_ms, query->now_ms);
	list_init(&wait->link);
	list_init(&wait->unconfirmed_link);
	answer->own = answer->own || query->refresh || wait->unlike[0];
	if (query->refresh) {
		refresh(cache, answer);
	}
	enum cache_verdict verdict = CACHE_READY;
	bool live = !query->refresh && answer->ready && answer->public.live;
	bool searches = query->kind == CACHE_FIND && !live;
	if (searches && wait->unlike[0] && cache_reachable(cache)) {
		cache_find_again(cache, answer);
		verdict = CACHE_WAITING;
	} else if (searches && query->joins && !cache_find_joins(cache, answer)) {
		err_set(err, BERTH_LIMIT_EXCEEDED, "this client has its share of the searches");
		return CACHE_UNAVAILABLE;
	} else if (cache_answer_is_composite(answer) && !answer->ready && !cache_may_work(cache)) {
		cache_build_put_off(cache, answer);
		verdict = CACHE_WAITING;
	} else if (!live) {
		verdict = make(cache, answer, err);
	}
	if (verdict == CACHE_READY && !cache_answer_satisfies(cache, answer, wait)) {
		verdict = CACHE_WAITING;
	}
	if (verdict == CACHE_READY && cache_answer_is_outdated(cache, answer, query->now_ms)) {
		struct cache_need need = { .outdated = true };
		verdict = cache_answer_unavailable(cache, answer, &need, err);
	}
	if (answer->passing) {
		cache_mark_dirty(cache, node);
	}
	if (verdict == CACHE_READY) {
		*ret_answer = &answer->public;
	} else if (verdict == CACHE_WAITING) {
		add_wait(cache, answer, wait);
	}
	return verdict;
}

bool cache_is_confirming(const struct cache_wait *wait)
{
	return wait->unconfirmed_link.next && !list_empty(&wait->unconfirmed_link);
}

static void stop_awaiting(struct cache_entry *entry)
{
	if (entry) {
		entry->awaited = false;
	}
}

/* The reads that the answer waits for go on, and what is known counts without them. */
static void stop_waiting(struct cache *cache, struct answer *answer)
{
	const struct cache_entry *children = answer->node->entries[CACHE_CHILDREN];
	size_t count = children && cache_answer_is_composite(answer) ? cache_child_count(children)
								     : 0;
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		stop_awaiting(answer->node->entries[kind]);
	}
	for (size_t i = 0; i < count; i++) {
		stop_awaiting(cache_data_of(cache, children->value->children[i]));
	}
	answer->refresh_children = false;
}

struct cache_answer *cache_known(
	struct cache *cache, const struct cache_query *query, int64_t now_ms)
{
	const struct cache_node *node = cache_node_find(cache, query->path, strlen(query->path));
	struct answer *answer = node ? find(node, query->kind, query->filter) : NULL;
	struct err err = ERR_INIT;
	if (answer) {
		stop_waiting(cache, answer);
	}
	bool known = answer &&
		((answer->ready && (answer->public.live || query->kind == CACHE_FIND)) ||
			(query->kind != CACHE_FIND && make(cache, answer, &err) == CACHE_READY));
	return known && !cache_answer_is_outdated(cache, answer, now_ms) ? &answer->public : NULL;
}
