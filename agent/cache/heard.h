/*
 * Was the server heard lately? One read confirms all live entries, because the watches had
 * delivered all that the server knew when it answered. The cache sends it only for a look-up, and
 * only when nothing else was heard for half of the bound. Times are whole milliseconds of the
 * monotonic clock, as the registry's.
 *
 *   HEARD --look-up, nothing heard for half of `confirm`--> ASKED --answer--> HEARD
 *                          '--patience over, or no answer--> SILENT --answer--> HEARD
 *
 * A question that has ended without an answer is asked again after a moment: otherwise a silence
 * would last until the next look-up, and observers would not hear of its end.
 */
#ifndef AGENT_CACHE_HEARD_H
#define AGENT_CACHE_HEARD_H

#include "agent/base/timer.h"
#include "lib/base/list.h"
#include "lib/registry/registry.h"

enum cache_confirmation { CACHE_HEARD, CACHE_ASKED, CACHE_SILENT };

enum cache_truth { CACHE_TRUE, CACHE_TRUE_SOON, CACHE_NOT_CONFIRMED };

struct cache_heard {
	struct registry *registry;
	enum registry_state state;
	int64_t confirm_ms; /* 0: a third of the session timeout */
	enum cache_confirmation confirmation;
	struct registry_request *confirming;
	int64_t hit_until_ms; /* look-ups before this time need not ask when the server was heard */
	struct list waits;    /* until the server has answered, or is silent */
	struct timer patience;
	struct timer again; /* while SILENT */
	void (*on_change)(void *context);
	void (*on_wait_end)(void *context, struct list *wait);
	void *context;
};

/*
 * `on_change`: the server is silent, or is heard again. `on_wait_end`: what waited in heard->waits,
 * and is on no list any more, goes on with the present state, confirmed or not.
 */
void cache_heard_init(struct cache_heard *heard, struct ev_loop *loop, struct registry *registry,
	void (*on_change)(void *context), void (*on_wait_end)(void *context, struct list *wait),
	void *context);
void cache_heard_finish(struct cache_heard *heard);
/* The registry has another state; or its options are others. */
void cache_heard_set_state(struct cache_heard *heard, enum registry_state state);

static inline bool cache_reachable(const struct cache_heard *heard)
{
	return heard->state == REGISTRY_CONNECTED || heard->state == REGISTRY_CONNECTING;
}

/* The time when the server was heard last; not later than now. */
int64_t cache_heard_ms(const struct cache_heard *heard, int64_t now_ms);
/* The bound of a confirmed answer's age. */
int64_t cache_heard_bound_ms(const struct cache_heard *heard);
/* The earliest time that an answer may be true at, to be given now as confirmed. */
int64_t cache_not_before_ms(const struct cache_heard *heard, int64_t max_age_ms, int64_t now_ms);
/* Was it heard since? If not, a confirmation is under way afterwards, if one can succeed. */
enum cache_truth cache_confirm_since(
	struct cache_heard *heard, int64_t not_before_ms, int64_t now_ms);

#endif
