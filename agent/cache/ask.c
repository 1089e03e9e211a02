#include "agent/cache/ask.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/cache/body.h"
#include "agent/cache/make.h"
#include "agent/cache/search.h"
#include "lib/base/clock.h"
#include "lib/base/fetch_ahead.h"

enum { ANSWERS_PER_PATH = 32, RENDERING_BYTES = 512 /* about: of a response and its head */ };

static struct answer *find(const struct cache_node *node, enum cache_answer_kind kind,
	const struct cache_filter *filter)
{
	struct answer *answer = node->answers;
	while (answer && (answer->kind != kind || !cache_filter_same(answer->filter, filter))) {
		answer = answer->next;
	}
	return answer;
}

struct cache_answer *cache_answers_find(
	struct cache_answers *answers, const struct cache_query *query)
{
	struct cache_node *node = cache_node_find(answers->table, query->path, strlen(query->path));
	if (!node || query->refresh) {
		return NULL;
	}
	struct answer *answer = find(node, query->kind, query->filter);
	if (!answer || !answer->ready || !answer->public.live) {
		return NULL;
	}
	/* The one who asked needs these next; a large cache has none of it near the processor. */
	fetch_ahead(answer->public.rendering, RENDERING_BYTES);
	fetch_ahead(answer->public.body, answer->public.len);
	bool known_true = query->now_ms < answers->heard->hit_until_ms && query->max_age_ms < 0;
	if (!known_true &&
		cache_confirm_since(answers->heard,
			cache_not_before_ms(answers->heard, query->max_age_ms, query->now_ms),
			query->now_ms) != CACHE_TRUE) {
		return NULL;
	}
	cache_node_use(node);
	return &answer->public;
}

/* ---- the end of an answer ---- */

static void answer_free(struct answer *answer)
{
	cache_find_free(answer);
	cache_build_free(answer);
	cache_answer_clear(answer);
	free(answer->filter);
	free(answer);
}

void cache_answers_pass(struct cache_node *node)
{
	for (struct answer **at = &node->answers; *at;) {
		struct answer *answer = *at;
		if (answer->passing && list_empty(&answer->waits) && !answer->busy) {
			*at = answer->next;
			answer_free(answer);
		} else {
			at = &answer->next;
		}
	}
}

void cache_answers_free(struct cache_node *node)
{
	while (node->answers) {
		struct answer *answer = node->answers;
		node->answers = answer->next;
		answer_free(answer);
	}
}

void cache_answers_end_waits(struct cache_node *node, const struct err *err)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		answer->busy = true;
		while (!list_empty(&answer->waits)) {
			struct cache_wait *wait = LIST_ITEM(
				answer->waits.next, struct cache_wait, link);
			cache_answer_end_wait(wait);
			wait->on_answer(wait->context, NULL, err);
		}
		answer->busy = false;
		if (answer->kind == CACHE_FIND) {
			cache_find_waited(answer);
		}
	}
}

/* ---- the states that answers wait for ---- */

static enum cache_verdict make(struct answer *answer, struct err *err)
{
	return answer->kind == CACHE_FIND ? cache_find_build(answer, err)
					  : cache_answer_make(answer, err);
}

void cache_answer_retry(struct answer *answer)
{
	struct err err = ERR_INIT;
	enum cache_verdict verdict = answer->ready && answer->public.live ? CACHE_READY
									  : make(answer, &err);
	if (verdict == CACHE_WAITING) {
		return;
	}
	cache_answer_deliver(answer, verdict, &err);
	if (answer->kind == CACHE_FIND) {
		cache_find_waited(answer);
	}
}

void cache_answers_flush(struct cache_answers *answers, struct cache_node *node)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		if (!list_empty(&answer->waits) && answer->kind != CACHE_FIND) {
			cache_answer_retry(answer);
		}
	}
	struct cache_node *parent = cache_node_parent(answers->table, node);
	for (struct answer *answer = parent ? parent->answers : NULL; answer;
		answer = answer->next) {
		if (!cache_answer_is_composite(answer) || list_empty(&answer->waits)) {
			continue;
		}
		if (answer->missing > 1) {
			answer->missing--;
		} else {
			cache_answer_retry(answer);
		}
	}
}

void cache_builds_run(struct cache_answers *answers)
{
	if (list_empty(&answers->builds)) {
		return;
	}
	struct cache_build *build = LIST_ITEM(answers->builds.next, struct cache_build, link);
	list_remove(&build->link);
	if (list_empty(&build->answer->waits)) {
		cache_build_free(build->answer); /* its clients have left */
	} else {
		cache_answer_retry(build->answer);
	}
	if (!list_empty(&answers->builds)) {
		cache_go_on(answers->turn);
	}
}

static void drop(struct answer *answer)
{
	cache_answer_clear(answer);
	if (answer->build) {
		answer->build->changed = true;
	}
}

void cache_answers_drop(
	struct cache_answers *answers, struct cache_node *node, enum cache_kind kind)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		if (answer->kind != CACHE_FIND) {
			drop(answer);
		}
	}
	/* Those over the children of the parent have the data alone. */
	struct cache_node *parent = kind == CACHE_DATA ? cache_node_parent(answers->table, node)
						       : NULL;
	for (struct answer *answer = parent ? parent->answers : NULL; answer;
		answer = answer->next) {
		if (cache_answer_is_composite(answer)) {
			drop(answer);
		}
	}
}

void cache_answers_away(struct cache_answers *answers, struct cache_node *node)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		if (answer->public.live) {
			answer->public.live = false;
			answer->public.true_at_ms = cache_heard_ms(
				answers->heard, clock_monotonic_ms());
		}
		cache_build_free(answer);
	}
	if (cache_answers_waited(node)) {
		cache_mark_dirty(answers->turn, node);
	}
}

bool cache_answers_refuse(struct cache_answers *answers, bool loading)
{
	for (struct list *link = answers->table->pinned.next; link != &answers->table->pinned;
		link = link->next) {
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
				node->path, answers->table->max_bytes);
			answers->refusals++;
			cache_build_free(answer);
			cache_answer_deliver(answer, CACHE_UNAVAILABLE, &err);
			return true;
		}
	}
	return false;
}

/* ---- asking ---- */

/* Filters are the client's to choose: only so many answers of them are kept for a path. */
static void limit_answers(struct cache_node *node)
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
		answer_free(answer);
	}
}

static struct answer *get(struct cache_answers *answers, struct cache_node *node,
	enum cache_answer_kind kind, const struct cache_filter *filter)
{
	struct answer *answer = find(node, kind, filter);
	if (!answer) {
		limit_answers(node);
		answer = allocate_zeroed(1, sizeof(*answer));
		answer->filter = cache_filter_copy(filter);
		answer->all = answers;
		answer->kind = kind;
		answer->node = node;
		list_init(&answer->waits);
		answer->next = node->answers;
		node->answers = answer;
	}
	return answer;
}

static void refresh(struct answer *answer)
{
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		struct cache_entry *entry = answer->node->entries[kind];
		if (entry) {
			cache_entry_refresh(entry);
		}
	}
	answer->refresh_children = cache_answer_is_composite(answer) &&
		answer->all->heard->state == REGISTRY_CONNECTED;
	if (answer->all->heard->state == REGISTRY_CONNECTED) {
		answer->ready = false;
	}
}

static void add_wait(struct answer *answer, struct cache_wait *wait)
{
	wait->answer = answer;
	list_append(&answer->waits, &wait->link);
	if (answer->kind == CACHE_FIND) {
		cache_find_waited(answer);
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
		cache_find_waited(answer);
	}
}

enum cache_verdict cache_answers_ask(struct cache_answers *answers, const struct cache_query *query,
	struct cache_wait *wait, struct cache_answer **ret_answer, struct err *err)
{
	struct cache_node *node = cache_node_get(answers->table, query->path);
	cache_node_use(node);
	cache_turn_wake(answers->turn); /* the new path may be one too many */
	struct answer *answer = get(answers, node, query->kind, query->filter);
	wait->not_before_ms = cache_not_before_ms(answers->heard, query->max_age_ms, query->now_ms);
	list_init(&wait->link);
	list_init(&wait->unconfirmed_link);
	answer->own = answer->own || query->refresh || wait->unlike[0];
	if (query->refresh) {
		refresh(answer);
	}
	enum cache_verdict verdict = CACHE_READY;
	bool live = !query->refresh && answer->ready && answer->public.live;
	bool searches = query->kind == CACHE_FIND && !live;
	if (searches && wait->unlike[0] && cache_reachable(answers->heard)) {
		cache_find_again(answer);
		verdict = CACHE_WAITING;
	} else if (searches && query->joins && !cache_find_joins(answer)) {
		err_set(err, BERTH_LIMIT_EXCEEDED, "this client has its share of the searches");
		return CACHE_UNAVAILABLE;
	} else if (cache_answer_is_composite(answer) && !answer->ready &&
		!cache_may_work(answers->turn)) {
		cache_build_put_off(answer);
		verdict = CACHE_WAITING;
	} else if (!live) {
		verdict = make(answer, err);
	}
	if (verdict == CACHE_READY && !cache_answer_satisfies(answer, wait)) {
		verdict = CACHE_WAITING;
	}
	if (verdict == CACHE_READY && cache_answer_is_outdated(answer, query->now_ms)) {
		struct cache_need need = { .outdated = true };
		verdict = cache_answer_unavailable(answer, &need, err);
	}
	if (answer->passing) {
		cache_mark_dirty(answers->turn, node);
	}
	if (verdict == CACHE_READY) {
		*ret_answer = &answer->public;
	} else if (verdict == CACHE_WAITING) {
		add_wait(answer, wait);
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
static void stop_waiting(struct answer *answer)
{
	const struct cache_entry *children = answer->node->entries[CACHE_CHILDREN];
	size_t count = children && cache_answer_is_composite(answer) ? cache_child_count(children)
								     : 0;
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		stop_awaiting(answer->node->entries[kind]);
	}
	for (size_t i = 0; i < count; i++) {
		stop_awaiting(cache_data_of(answer->all->store, children->value->children[i]));
	}
	answer->refresh_children = false;
}

struct cache_answer *cache_answers_known(
	struct cache_answers *answers, const struct cache_query *query, int64_t now_ms)
{
	const struct cache_node *node = cache_node_find(
		answers->table, query->path, strlen(query->path));
	struct answer *answer = node ? find(node, query->kind, query->filter) : NULL;
	struct err err = ERR_INIT;
	if (answer) {
		stop_waiting(answer);
	}
	bool known = answer &&
		((answer->ready && (answer->public.live || query->kind == CACHE_FIND)) ||
			(query->kind != CACHE_FIND && make(answer, &err) == CACHE_READY));
	return known && !cache_answer_is_outdated(answer, now_ms) ? &answer->public : NULL;
}

void cache_answers_init(
	struct cache_answers *answers, struct cache_store *store, struct cache_searches *searches)
{
	*answers = (struct cache_answers){ .table = store->table,
		.turn = store->turn,
		.heard = store->heard,
		.store = store,
		.searches = searches };
	list_init(&answers->builds);
}
