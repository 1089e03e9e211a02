#include "agent/cache/internal.h"

#include "agent/base/allocate.h"
#include "lib/base/clock.h"

/*
 * Was the server heard lately? One read confirms all live entries, because the watches had
 * delivered all that the server knew when it answered. The cache sends it only for a look-up, and
 * only when nothing else was heard for half of the bound. Times are whole milliseconds of the
 * monotonic clock, as the registry's.
 */

enum {
	PATIENCE_MS =
		1000, /* a look-up waits no longer for the server before it is answered as stale */
	CONFIRM_MS = 10000 /* where there is no session timeout */
};

int64_t cache_confirm_ms(const struct cache *cache)
{
	int64_t timeout_ms = registry_session_timeout_ms(cache->registry);
	return cache->options.confirm_ms > 0 ? cache->options.confirm_ms
		: timeout_ms > 0             ? timeout_ms / 3
					     : CONFIRM_MS;
}

int64_t cache_heard_ms(const struct cache *cache, int64_t now_ms)
{
	int64_t heard_ms = registry_heard_ms(cache->registry, now_ms);
	return heard_ms > now_ms ? now_ms : heard_ms;
}

int64_t cache_not_before_ms(const struct cache *cache, int64_t max_age_ms, int64_t now_ms)
{
	int64_t bound = cache_confirm_ms(cache);
	return now_ms - (max_age_ms >= 0 && max_age_ms < bound ? max_age_ms : bound);
}

static void set_confirmation(struct cache *cache, enum cache_confirmation confirmation)
{
	if ((cache->confirmation == CACHE_SILENT) != (confirmation == CACHE_SILENT)) {
		ev_prepare_start(cache->loop, &cache->flush); /* observers hear of it */
		cache->generation++;
	}
	cache->confirmation = confirmation;
	timer_stop(&cache->patience_timer);
}

/* Look-ups go on with the present state, confirmed or not. */
static void end_waits(struct cache *cache)
{
	struct list waits;
	list_init(&waits);
	list_move_all(&waits, &cache->unconfirmed_waits);
	while (!list_empty(&waits)) {
		struct cache_wait *wait = LIST_ITEM(
			waits.next, struct cache_wait, unconfirmed_link);
		list_remove(&wait->unconfirmed_link);
		if (wait->answer) {
			cache_answer_retry(cache, wait->answer);
			continue;
		}
		struct err err = ERR_INIT;
		if (cache->confirmation != CACHE_HEARD) {
			err_set(&err, BERTH_REGISTRY_UNAVAILABLE, "the registry does not answer");
		}
		wait->on_answer(wait->context, NULL, &err);
	}
}

static void on_confirmed(void *context, const struct registry_result *result)
{
	struct cache *cache = context;
	cache->confirming = NULL;
	set_confirmation(cache, result->err.code ? CACHE_SILENT : CACHE_HEARD);
	end_waits(cache);
}

static void on_patience(void *context)
{
	struct cache *cache = context;
	set_confirmation(cache, CACHE_SILENT);
	end_waits(cache);
}

/* After a silence no look-up waits: the first answer of the server ends it. */
static void ask_server(struct cache *cache)
{
	if (cache->confirming) {
		return;
	}
	cache->confirming = allocated(registry_confirm(cache->registry, on_confirmed, cache));
	if (cache->confirmation == CACHE_HEARD) {
		int64_t half_ms = cache_confirm_ms(cache) / 2;
		int64_t patience_ms = half_ms < PATIENCE_MS ? half_ms : PATIENCE_MS;
		set_confirmation(cache, CACHE_ASKED);
		timer_start(&cache->patience_timer, patience_ms);
	}
}

enum cache_truth cache_confirm_since(struct cache *cache, int64_t not_before_ms, int64_t now_ms)
{
	if (cache->state != REGISTRY_CONNECTED) {
		return CACHE_NOT_CONFIRMED;
	}
	int64_t heard_ms = cache_heard_ms(cache, now_ms);
	bool confirmed = heard_ms >= not_before_ms;
	cache->hit_until_ms = heard_ms + cache_confirm_ms(cache) / 2;
	if (!confirmed || now_ms >= cache->hit_until_ms) {
		ask_server(cache);
	}
	return confirmed                             ? CACHE_TRUE
		: cache->confirmation == CACHE_ASKED ? CACHE_TRUE_SOON
						     : CACHE_NOT_CONFIRMED;
}

enum cache_verdict cache_confirm(struct cache *cache, int64_t now_ms, struct cache_wait *wait)
{
	int64_t not_before_ms = cache_not_before_ms(cache, -1, now_ms);
	enum cache_truth truth = cache_confirm_since(cache, not_before_ms, now_ms);
	if (wait) {
		list_init(&wait->link);
		list_init(&wait->unconfirmed_link);
		wait->answer = NULL;
	}
	if (wait && truth == CACHE_TRUE_SOON) {
		list_append(&cache->unconfirmed_waits, &wait->unconfirmed_link);
		return CACHE_WAITING;
	}
	return truth == CACHE_TRUE ? CACHE_READY : CACHE_UNAVAILABLE;
}

int64_t cache_hits_until_ms(const struct cache *cache, int64_t now_ms)
{
	return cache->state == REGISTRY_CONNECTED
		? cache_heard_ms(cache, now_ms) + cache_confirm_ms(cache)
		: 0;
}

void cache_confirm_reset(struct cache *cache)
{
	cache->hit_until_ms = 0;
	if (cache->state == REGISTRY_CONNECTED) {
		set_confirmation(cache, CACHE_HEARD);
	} else {
		set_confirmation(cache, CACHE_SILENT);
		end_waits(cache);
	}
}

void cache_confirm_init(struct cache *cache)
{
	list_init(&cache->unconfirmed_waits);
	timer_init(&cache->patience_timer, cache->loop, "confirmation", on_patience, cache);
}

void cache_confirm_finish(struct cache *cache)
{
	timer_stop(&cache->patience_timer);
	registry_cancel(cache->registry, cache->confirming);
}
