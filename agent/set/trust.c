/* Confirmation and age of the places of a question. */
#include "agent/set/internal.h"

#include "lib/base/clock.h"

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	struct set_followed *followed = context;
	(void)answer;
	(void)err;
	followed->confirming = false;
	followed->answered = true;
	due_add(&followed->sets->due, &followed->due);
}

void set_trust_init(struct set_followed *followed)
{
	followed->confirmation.on_answer = on_confirmed;
	followed->confirmation.context = followed;
}

void set_trust_finish(struct set_followed *followed)
{
	if (followed->confirming) {
		cache_cancel(&followed->confirmation);
	}
}

enum cache_verdict set_confirm(
	struct set_followed *followed, unsigned from, unsigned to, int64_t since_ms, int64_t now_ms)
{
	enum cache_verdict worst = CACHE_READY;
	int64_t most_ms = since_ms > 0 ? now_ms - since_ms : -1;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		const struct set_place *place = LIST_ITEM(at, struct set_place, link);
		if (place->rank < from || place->rank >= to || place->state != SET_PLACE_KNOWN) {
			continue;
		}
		bool asks = !followed->confirming;
		enum cache_verdict verdict = cache_confirm_within(
			place->cache, most_ms, now_ms, asks ? &followed->confirmation : NULL);
		if (verdict == CACHE_WAITING) {
			followed->confirming = true;
		} else if (verdict == CACHE_UNAVAILABLE && !asks) {
			verdict = CACHE_WAITING; /* or it is known soon that it is away */
		}
		worst = verdict == CACHE_READY || worst == CACHE_UNAVAILABLE ? worst : verdict;
	}
	return worst;
}

bool set_is_stale(const struct set_followed *followed, unsigned ranks, bool loading_too)
{
	bool live = true;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		const struct set_place *place = LIST_ITEM(at, struct set_place, link);
		live = live &&
			(place->rank >= ranks || set_place_is_live(place) ||
				(!loading_too && place->state == SET_PLACE_LOADING));
	}
	return !live;
}

int64_t set_age_ms(const struct set_followed *followed, int64_t now_ms)
{
	int64_t true_at_ms = followed->true_at_ms ? followed->true_at_ms : now_ms;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		struct set_place *place = LIST_ITEM(at, struct set_place, link);
		if (!followed->true_at_ms && place->state == SET_PLACE_KNOWN &&
			place->rank < followed->counted.used) {
			set_place_see(place, now_ms);
			true_at_ms = place->true_at_ms < true_at_ms ? place->true_at_ms
								    : true_at_ms;
		}
	}
	return now_ms - true_at_ms;
}

void set_keep_age(struct set_followed *followed, int64_t was_true_at_ms)
{
	int64_t now_ms = clock_monotonic_ms();
	if (was_true_at_ms == INT64_MAX || followed->true_at_ms || !followed->set) {
		return;
	}
	int64_t true_at_ms = now_ms - set_age_ms(followed, now_ms);
	true_at_ms = was_true_at_ms < true_at_ms ? was_true_at_ms : true_at_ms;
	followed->true_at_ms = true_at_ms > 0 ? true_at_ms : 1; /* 0 says something else */
}

bool set_is_outgrown(const struct set_followed *followed, int64_t now_ms)
{
	const struct cache *cache = cache_at(followed->sets->cache, followed->question->where);
	return followed->true_at_ms && now_ms - followed->true_at_ms > cache_confirm_ms(cache);
}
