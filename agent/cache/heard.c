#include "agent/cache/heard.h"

#include "agent/base/allocate.h"
#include "lib/base/clock.h"

enum {
	PATIENCE_MS =
		1000, /* a look-up waits no longer for the server before it is answered as stale */
	AGAIN_MS = 1000,
	CONFIRM_MS = 10000 /* where there is no session timeout */
};

int64_t cache_heard_bound_ms(const struct cache_heard *heard)
{
	int64_t timeout_ms = registry_session_timeout_ms(heard->registry);
	return heard->confirm_ms > 0 ? heard->confirm_ms
		: timeout_ms > 0     ? timeout_ms / 3
				     : CONFIRM_MS;
}

int64_t cache_heard_ms(const struct cache_heard *heard, int64_t now_ms)
{
	int64_t heard_ms = registry_heard_ms(heard->registry, now_ms);
	return heard_ms > now_ms ? now_ms : heard_ms;
}

int64_t cache_not_before_ms(const struct cache_heard *heard, int64_t max_age_ms, int64_t now_ms)
{
	int64_t bound = cache_heard_bound_ms(heard);
	return now_ms - (max_age_ms >= 0 && max_age_ms < bound ? max_age_ms : bound);
}

static void set_confirmation(struct cache_heard *heard, enum cache_confirmation confirmation)
{
	bool changed = (heard->confirmation == CACHE_SILENT) != (confirmation == CACHE_SILENT);
	heard->confirmation = confirmation;
	timer_stop(&heard->patience);
	if (changed) {
		heard->on_change(heard->context);
	}
}

static void end_waits(struct cache_heard *heard)
{
	struct list waits;
	list_init(&waits);
	list_move_all(&waits, &heard->waits);
	while (!list_empty(&waits)) {
		struct list *wait = waits.next;
		list_remove(wait);
		heard->on_wait_end(heard->context, wait);
	}
}

static void on_confirmed(void *context, const struct registry_result *result)
{
	struct cache_heard *heard = context;
	heard->confirming = NULL;
	set_confirmation(heard, result->err.code ? CACHE_SILENT : CACHE_HEARD);
	if (result->err.code && heard->state == REGISTRY_CONNECTED) {
		timer_start(&heard->again, AGAIN_MS);
	}
	end_waits(heard);
}

static void on_patience(void *context)
{
	struct cache_heard *heard = context;
	set_confirmation(heard, CACHE_SILENT);
	end_waits(heard);
}

/* After a silence no look-up waits: the first answer of the server ends it. */
static void ask_server(struct cache_heard *heard, int64_t not_before_ms, int64_t now_ms)
{
	if (heard->confirming) {
		return;
	}
	int64_t half_bound_ms = now_ms - cache_heard_bound_ms(heard) / 2;
	int64_t since_ms = not_before_ms > half_bound_ms ? not_before_ms : half_bound_ms;
	heard->confirming = allocated(
		registry_confirm(heard->registry, since_ms, on_confirmed, heard));
	if (heard->confirmation == CACHE_HEARD) {
		int64_t half_ms = cache_heard_bound_ms(heard) / 2;
		int64_t patience_ms = half_ms < PATIENCE_MS ? half_ms : PATIENCE_MS;
		set_confirmation(heard, CACHE_ASKED);
		timer_start(&heard->patience, patience_ms);
	}
}

static void on_again(void *context)
{
	struct cache_heard *heard = context;
	ask_server(heard, INT64_MIN, clock_monotonic_ms());
}

enum cache_truth cache_confirm_since(
	struct cache_heard *heard, int64_t not_before_ms, int64_t now_ms)
{
	if (heard->state != REGISTRY_CONNECTED) {
		return CACHE_NOT_CONFIRMED;
	}
	int64_t heard_ms = cache_heard_ms(heard, now_ms);
	bool confirmed = heard_ms >= not_before_ms;
	heard->hit_until_ms = heard_ms + cache_heard_bound_ms(heard) / 2;
	if (!confirmed || now_ms >= heard->hit_until_ms) {
		ask_server(heard, not_before_ms, now_ms);
	}
	return confirmed                             ? CACHE_TRUE
		: heard->confirmation == CACHE_ASKED ? CACHE_TRUE_SOON
						     : CACHE_NOT_CONFIRMED;
}

void cache_heard_set_state(struct cache_heard *heard, enum registry_state state)
{
	heard->state = state;
	heard->hit_until_ms = 0;
	timer_stop(&heard->again);
	if (state == REGISTRY_CONNECTED) {
		set_confirmation(heard, CACHE_HEARD);
	} else {
		set_confirmation(heard, CACHE_SILENT);
		end_waits(heard);
	}
}

void cache_heard_init(struct cache_heard *heard, struct ev_loop *loop, struct registry *registry,
	void (*on_change)(void *context), void (*on_wait_end)(void *context, struct list *wait),
	void *context)
{
	*heard = (struct cache_heard){ .registry = registry,
		.state = registry_state(registry),
		.on_change = on_change,
		.on_wait_end = on_wait_end,
		.context = context };
	list_init(&heard->waits);
	timer_init(&heard->patience, loop, "confirmation", on_patience, heard);
	timer_init(&heard->again, loop, "confirmation again", on_again, heard);
}

void cache_heard_finish(struct cache_heard *heard)
{
	timer_stop(&heard->patience);
	timer_stop(&heard->again);
	registry_cancel(heard->registry, heard->confirming);
}
