#include "agent/set/asking.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

/* One answer that is waited for, or has come. */
struct read {
	struct set_asking *asking;
	struct list link;
	struct cache_wait wait;
	struct cache *cache;
	char *path;
	enum cache_answer_kind kind;
	struct cache_filter *filter;
	struct cache_answer answer; /* when it has come: as the cache has handed it out */
	struct err err;
	void *body;
};

static void drop(struct read *read)
{
	list_remove(&read->link);
	cache_body_release(read->body);
	free(read->filter);
	free(read->path);
	free(read);
}

static struct read *read_create(
	struct set_asking *asking, struct cache *cache, const struct cache_query *query)
{
	struct read *read = allocate_zeroed(1, sizeof(*read));
	read->asking = asking;
	read->cache = cache;
	read->path = allocate_text(query->path);
	read->kind = query->kind;
	read->filter = cache_filter_copy(query->filter);
	list_init(&read->link);
	return read;
}

static struct cache_answer *find_come(
	struct set_asking *asking, const struct cache *cache, const struct cache_query *query)
{
	for (struct list *link = asking->come.next; link != &asking->come; link = link->next) {
		struct read *read = LIST_ITEM(link, struct read, link);
		if (read->cache == cache && read->kind == query->kind &&
			strcmp(read->path, query->path) == 0 &&
			cache_filter_same(read->filter, query->filter)) {
			return &read->answer;
		}
	}
	return NULL;
}

static void drop_reads(struct set_asking *asking)
{
	while (!list_empty(&asking->reads)) {
		struct read *read = LIST_ITEM(asking->reads.next, struct read, link);
		cache_cancel(&read->wait);
		drop(read);
	}
}

/* The cache is in the middle of its own work: the question is evaluated in the next step. */
void set_asking_wake(struct set_asking *asking)
{
	due_add(&asking->all->due, &asking->due);
}

static void run(struct list *item)
{
	struct set_asking *asking = LIST_ITEM(item, struct set_asking, due);
	asking->on_again(asking->context);
}

void set_askings_init(struct set_askings *askings, struct ev_loop *loop)
{
	due_init(&askings->due, loop, run);
}

void set_askings_finish(struct set_askings *askings)
{
	due_finish(&askings->due);
}

static void on_read(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)err;
	struct read *read = context;
	struct set_asking *asking = read->asking;
	list_remove(&read->link);
	if (answer) {
		read->answer = *answer;
		read->answer.rendering = NULL;
		list_append(&asking->come, &read->link);
	}
	if (answer && answer->err) {
		read->err = *answer->err;
		read->answer.err = &read->err;
	} else if (answer) {
		read->body = cache_body_hold(answer);
	} else {
		drop(read);
	}
	if (list_empty(&asking->reads)) {
		set_asking_wake(asking);
	}
}

static void on_patience(void *context)
{
	struct set_asking *asking = context;
	asking->late = true;
	drop_reads(asking);
	asking->on_again(asking->context);
}

void set_asking_init(struct set_asking *asking, struct set_askings *all, int64_t patience_ms,
	void (*on_again)(void *context), void *context)
{
	*asking = (struct set_asking){ .on_again = on_again, .context = context, .all = all };
	list_init(&asking->reads);
	list_init(&asking->come);
	list_init(&asking->due);
	timer_init(&asking->patience, all->due.loop, "look-up", on_patience, asking);
	timer_start(&asking->patience, patience_ms);
}

void set_asking_leave(struct set_asking *asking)
{
	if (asking->cache) {
		cache_leave(asking->cache);
		asking->cache = NULL;
	}
}

void set_asking_end(struct set_asking *asking)
{
	set_asking_leave(asking);
	drop_reads(asking);
	while (!list_empty(&asking->come)) {
		drop(LIST_ITEM(asking->come.next, struct read, link));
	}
	timer_stop(&asking->patience);
	list_remove(&asking->due);
}

enum cache_verdict set_asking_read(struct set_asking *asking, struct cache *cache,
	const struct cache_query *query, struct cache_answer **ret_answer, struct err *err)
{
	*ret_answer = cache_find(cache, query);
	if (!*ret_answer && asking && !query->refresh) {
		*ret_answer = find_come(asking, cache, query);
	}
	if (*ret_answer || !asking) {
		return *ret_answer ? CACHE_READY : CACHE_WAITING;
	}
	struct read *read = read_create(asking, cache, query);
	read->wait.on_answer = on_read;
	read->wait.context = read;
	enum cache_verdict verdict = cache_ask(cache, query, &read->wait, ret_answer, err);
	if (verdict == CACHE_WAITING) {
		list_append(&asking->reads, &read->link);
	} else {
		drop(read);
	}
	return verdict;
}

bool set_asking_wait(struct set_asking *asking, struct cache *cache, struct err *err)
{
	if (!asking->cache && cache_enter(cache, err)) {
		asking->cache = cache;
	}
	return asking->cache;
}

bool set_asking_reads(const struct set_asking *asking)
{
	return !list_empty(&asking->reads);
}
