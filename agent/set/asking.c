#include "agent/set/asking.h"

#include <stdlib.h>

#include "agent/base/allocate.h"

/* One answer that is waited for. */
struct read {
	struct set_asking *asking;
	struct list link;
	struct cache_wait wait;
};

static void drop(struct read *read)
{
	list_remove(&read->link);
	free(read);
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
	list_remove(&asking->due);
	list_append(&asking->all->due, &asking->due);
	ev_feed_event(asking->all->loop, &asking->all->wake, EV_CUSTOM);
}

static void on_wake(struct ev_loop *loop, ev_prepare *wake, int events)
{
	(void)loop;
	(void)events;
	struct set_askings *askings = wake->data;
	struct list due;
	list_init(&due);
	list_move_all(&due, &askings->due);
	while (!list_empty(&due)) {
		struct set_asking *asking = LIST_ITEM(due.next, struct set_asking, due);
		list_remove(&asking->due);
		asking->on_again(asking->context);
	}
}

void set_askings_init(struct set_askings *askings, struct ev_loop *loop)
{
	askings->loop = loop;
	list_init(&askings->due);
	ev_prepare_init(&askings->wake, on_wake);
	askings->wake.data = askings;
}

void set_askings_finish(struct set_askings *askings)
{
	ev_clear_pending(askings->loop, &askings->wake);
}

static void on_read(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)answer;
	(void)err;
	struct read *read = context;
	struct set_asking *asking = read->asking;
	drop(read);
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
	list_init(&asking->due);
	timer_init(&asking->patience, all->loop, "look-up", on_patience, asking);
	timer_start(&asking->patience, patience_ms);
}

void set_asking_be_patient(struct set_asking *asking, int64_t patience_ms)
{
	asking->late = false;
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
	timer_stop(&asking->patience);
	list_remove(&asking->due);
}

enum cache_verdict set_asking_read(struct set_asking *asking, struct cache *cache,
	const struct cache_query *query, struct cache_answer **ret_answer, struct err *err)
{
	*ret_answer = cache_find(cache, query);
	if (*ret_answer || !asking) {
		return *ret_answer ? CACHE_READY : CACHE_WAITING;
	}
	struct read *read = allocate_zeroed(1, sizeof(*read));
	read->asking = asking;
	read->wait.on_answer = on_read;
	read->wait.context = read;
	enum cache_verdict verdict = cache_ask(cache, query, &read->wait, ret_answer, err);
	if (verdict == CACHE_WAITING) {
		list_append(&asking->reads, &read->link);
	} else {
		free(read);
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
