#include "agent/cache/search.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/json_visible.h"

enum {
	MAX_WALKS = 4,
	FOUND_BYTES = 16 * 1024 *
		1024, /* of records: a client that wants more asks for less at a time */
	/* the largest answer that is kept for when the registry is away */
	KEPT_BYTES = 1024 * 1024,
	PAUSE_MS = 1000 /* between two walks that changes begin */
};

/*
 *   IDLE --look-up, change--> QUEUED --> WALKING --> IDLE
 *                                '-- no client is left --'
 */
enum find_state { FIND_IDLE, FIND_QUEUED, FIND_WALKING };

struct cache_find {
	struct list link;          /* all->queue while QUEUED */
	struct list observed_link; /* all->observed while an observer follows it */
	struct cache_searches *all;
	enum find_state state;
	struct answer *answer;
	struct registry_request *walk;
	int64_t walked_at_ms;
	bool changed; /* since the walk began */
	bool asked;   /* a look-up began it, no change */
	struct cache_observer observer;
};

static struct cache_find *find_of(struct answer *answer)
{
	if (!answer->find) {
		answer->find = allocate_zeroed(1, sizeof(*answer->find));
		answer->find->answer = answer;
		answer->find->all = answer->all->searches;
		list_init(&answer->find->link);
		list_init(&answer->find->observed_link);
	}
	return answer->find;
}

/* ---- walking ---- */

/* A search that a look-up began counts until its walk has ended. */
static void count(struct cache_find *find, bool asked)
{
	find->all->asked += asked;
	find->all->asked -= find->asked;
	find->asked = asked;
}

static struct cache_body *write_found(const struct registry_result *result)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	for (size_t i = 0; i < result->found_count; i++) {
		const struct registry_found *found = &result->found[i];
		buffer_append_text(&out, i ? ",\"" : "{\"");
		buffer_append_text(&out, found->path);
		buffer_append_text(&out, "\":");
		json_append_visible(&out, found->data, found->len);
	}
	buffer_append_text(&out, result->found_count ? "}\n" : "{}\n");
	struct cache_body *body = cache_body_of_text(buffer_text(&out), out.len, NULL);
	buffer_finish(&out);
	return body;
}

static bool is_observed(const struct cache_find *find)
{
	return !list_empty(&find->observed_link);
}

static bool is_live(const struct cache_find *find)
{
	return is_observed(find) && find->observer.state == CACHE_OBSERVER_LIVE && !find->changed;
}

static void deliver(struct answer *answer, enum cache_verdict verdict, const struct err *err)
{
	cache_answer_deliver(answer, verdict, err);
	cache_find_waited(answer);
}

static void on_found(void *context, const struct registry_result *result)
{
	struct cache_find *find = context;
	struct answer *answer = find->answer;
	int code = result->err.code;
	find->walk = NULL;
	find->state = FIND_IDLE;
	count(find, false);
	find->all->walks--;
	cache_turn_wake(find->all->turn); /* which begins the next walk */
	if (code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_TIMEOUT) {
		struct err err = result->err;
		deliver(answer, answer->ready ? CACHE_READY : CACHE_UNAVAILABLE, &err);
		return;
	}
	struct cache_need need = { .true_at_ms = find->walked_at_ms };
	struct cache_body *body = code ? NULL : write_found(result);
	cache_answer_publish(answer, body, &need, &result->err);
	deliver(answer, CACHE_READY, &result->err);
	answer->public.live = is_live(find);
	if (answer->public.len > KEPT_BYTES && list_empty(&answer->waits)) {
		cache_answer_clear(answer);
	}
}

static void walk(struct cache_find *find)
{
	static const struct cache_filter any = { .text = false };
	const struct cache_filter *filter = find->answer->filter ? find->answer->filter : &any;
	struct registry_criteria criteria = { .under = find->answer->node->path,
		.api = filter->api,
		.protocol = filter->protocol,
		.type = filter->type,
		.id = filter->id,
		.persistence = filter->persistence,
		.attributes = filter->attributes,
		.max_bytes = FOUND_BYTES };
	list_remove(&find->link);
	find->state = FIND_WALKING;
	find->changed = false;
	find->walked_at_ms = clock_monotonic_ms();
	find->walk = allocated(registry_find(find->all->registry, &criteria, NULL, on_found, find));
	find->all->walks++;
}

void cache_finds_run(struct cache_searches *searches)
{
	while (!list_empty(&searches->queue) && searches->walks < MAX_WALKS) {
		walk(LIST_ITEM(searches->queue.next, struct cache_find, link));
	}
}

static void stop_walk(struct cache_find *find)
{
	if (find->state == FIND_WALKING) {
		registry_cancel(find->all->registry, find->walk);
		find->walk = NULL;
		find->all->walks--;
		cache_turn_wake(find->all->turn);
	}
	list_remove(&find->link);
	find->state = FIND_IDLE;
	count(find, false);
}

/* Those of look-ups come before those that changes begin, which clients wait for anyway. */
static void queue(struct cache_find *find, bool asked)
{
	struct list *waiting = &find->all->queue;
	struct list *behind = waiting;
	if (find->state == FIND_WALKING ||
		(find->state == FIND_QUEUED && (find->asked || !asked))) {
		return;
	}
	for (struct list *at = waiting->next; asked && at != waiting; at = at->next) {
		if (!LIST_ITEM(at, struct cache_find, link)->asked) {
			behind = at;
			break;
		}
	}
	list_remove(&find->link);
	find->state = FIND_QUEUED;
	count(find, asked);
	list_append(behind, &find->link);
	cache_finds_run(find->all);
}

void cache_find_again(struct answer *answer)
{
	queue(find_of(answer), false);
}

bool cache_find_joins(const struct answer *answer)
{
	return (answer->find && answer->find->state != FIND_IDLE) ||
		(!cache_reachable(answer->all->heard) && answer->ready);
}

enum cache_verdict cache_find_build(struct answer *answer, struct err *err)
{
	struct cache_find *find = find_of(answer);
	if (!cache_reachable(answer->all->heard) && answer->ready) {
		return CACHE_READY;
	}
	if (!cache_reachable(answer->all->heard)) {
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "the registry is %s",
			registry_state_name(answer->all->heard->state));
		return CACHE_UNAVAILABLE;
	}
	if (find->state == FIND_IDLE && find->all->asked >= CACHE_MAX_SEARCHES) {
		err_set(err, BERTH_LIMIT_EXCEEDED, "too many searches are under way");
		return CACHE_UNAVAILABLE;
	}
	queue(find, true);
	return CACHE_WAITING;
}

/* ---- waiting for changes ---- */

/* A burst of changes begins one walk now and one later. */
static void changed(struct cache_find *find)
{
	find->changed = true;
	find->all->changed = true;
	find->answer->public.live = false;
	find->answer->public.true_at_ms = find->walked_at_ms;
	if (clock_monotonic_ms() - find->walked_at_ms >= PAUSE_MS) {
		queue(find, false);
	}
}

/* Changes between the last walk and the first picture are not known. */
static void on_ready(void *context)
{
	changed(context);
}

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)event;
	(void)path;
	(void)record;
	changed(context);
}

static void on_refused(void *context, const struct err *err)
{
	struct cache_find *find = context;
	list_remove(&find->observed_link);
	find->answer->public.live = false;
	deliver(find->answer, CACHE_UNAVAILABLE, err);
}

static void observe(struct cache_find *find)
{
	list_append(&find->all->observed, &find->observed_link);
	find->observer = (struct cache_observer){ .scope = CACHE_TREE,
		.on_ready = on_ready,
		.on_event = on_event,
		.on_refused = on_refused,
		.context = find };
	cache_follow_path(find->all->follow, find->answer->node->path, &find->observer);
}

void cache_find_waited(struct answer *answer)
{
	struct cache_find *find = find_of(answer);
	bool polled = false;
	for (struct list *link = answer->waits.next; link != &answer->waits; link = link->next) {
		polled = polled || LIST_ITEM(link, struct cache_wait, link)->unlike[0];
	}
	if (polled && !is_observed(find)) {
		observe(find);
	} else if (!polled && is_observed(find)) {
		cache_unobserve(&find->observer);
		list_remove(&find->observed_link);
		answer->public.live = false;
	}
	if (list_empty(&answer->waits) && !answer->busy) {
		stop_walk(find); /* no client waits for it */
	}
}

void cache_finds_tick(struct cache_searches *searches)
{
	struct list *head = &searches->observed;
	searches->changed = false;
	for (struct list *link = head->next; link != head; link = link->next) {
		struct cache_find *find = LIST_ITEM(link, struct cache_find, observed_link);
		if (find->changed) {
			changed(find);
		}
	}
}

void cache_searches_init(struct cache_searches *searches, struct registry *registry,
	struct cache_turn *turn, struct cache_follow *follow)
{
	*searches = (struct cache_searches){ .registry = registry, .turn = turn, .follow = follow };
	list_init(&searches->queue);
	list_init(&searches->observed);
}

void cache_find_free(struct answer *answer)
{
	struct cache_find *find = answer->find;
	if (find) {
		stop_walk(find);
		cache_unobserve(&find->observer);
		list_remove(&find->observed_link);
		free(find);
		answer->find = NULL;
	}
}
