/* Questions and their users. */
#include "agent/set/set.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/set/internal.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"

/* ---- views ---- */

struct set_view set_look(struct set_user *user, enum set_look how)
{
	struct set_followed *followed = user->followed;
	int64_t now_ms = clock_monotonic_ms();
	const struct set_place *refused = followed->refused;
	struct set_view view = { .state = refused ? SET_REFUSED : SET_LOADING,
		.set = followed->set,
		.counted = followed->counted,
		.revision = followed->revision,
		.err = refused && refused->rank == 0 ? &refused->err : NULL,
		.cache = followed->sets->cache };
	if (!followed->set) {
		return view;
	}
	bool nearest = how == SET_CONFIRMED_NEAREST;
	unsigned ranks = nearest ? 1 : followed->counted.used;
	bool stale = set_is_stale(followed, ranks, nearest) ||
		(how == SET_CONFIRMED && set_is_outgrown(followed, now_ms));
	enum cache_verdict verdict = stale ? CACHE_UNAVAILABLE
		: how == SET_AS_KNOWN
		? CACHE_READY
		: set_confirm(followed, 0, ranks, user->heard_since_ms, now_ms);
	view.state = verdict == CACHE_UNAVAILABLE ? SET_STALE : SET_READY;
	view.confirming = verdict == CACHE_WAITING;
	view.age_ms = view.state == SET_STALE ? set_age_ms(followed, now_ms) : 0;
	view.lasts = followed->lasts && !followed->true_at_ms && view.state == SET_READY &&
		!view.confirming && list_empty(&followed->due) && !timer_runs(&followed->timer) &&
		cache_is_settled(view.cache);
	return view;
}

bool set_wait(struct set_user *user, struct err *err)
{
	const struct set_followed *followed = user->followed;
	struct cache *cache = cache_at(followed->sets->cache, followed->question->where);
	if (!user->waits && cache_enter(cache, err)) {
		user->waits = cache;
	}
	return user->waits;
}

void set_wait_end(struct set_user *user)
{
	if (user->waits) {
		cache_leave(user->waits);
		user->waits = NULL;
	}
}

/* ---- followed sets ---- */

/* Without records, about. */
enum { SET_BYTES = 4096, PLACE_BYTES = 1024 };

/* Places that were refused are tried again after a while, or for somebody new. */
static void on_timer(void *context)
{
	struct set_followed *followed = context;
	followed->refused = NULL;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		struct set_place *place = LIST_ITEM(at, struct set_place, link);
		if (place->state == SET_PLACE_REFUSED) {
			set_place_renew(place, cache_at(followed->sets->cache, place->path));
		}
	}
	due_add(&followed->sets->due, &followed->due);
}

static struct set_followed *create(struct sets *sets, struct set_question *question_taken)
{
	struct set_followed *followed = allocate_zeroed(1, sizeof(*followed));
	followed->sets = sets;
	followed->question = question_taken;
	list_init(&followed->users);
	list_init(&followed->idle);
	list_init(&followed->due);
	list_init(&followed->places);
	timer_init(&followed->timer, sets->loop, "set", on_timer, followed);
	set_trust_init(followed);
	struct set_followed **bucket = &sets->buckets[question_taken->hash % SETS_BUCKETS];
	followed->next_in_bucket = *bucket;
	*bucket = followed;
	sets->count++;
	if (question_taken->can_be) {
		set_evaluate(followed);
	} else {
		set_evaluate_to_none(followed);
	}
	return followed;
}

static void destroy(struct set_followed *followed)
{
	struct sets *sets = followed->sets;
	struct set_followed **at = &sets->buckets[followed->question->hash % SETS_BUCKETS];
	while (*at != followed) {
		at = &(*at)->next_in_bucket;
	}
	*at = followed->next_in_bucket;
	sets->count--;
	sets->idle_bytes -= followed->idle_bytes;
	list_remove(&followed->idle);
	list_remove(&followed->due);
	timer_stop(&followed->timer);
	set_trust_finish(followed);
	set_drop_places(followed, true);
	set_release(followed->set);
	set_question_release(followed->question);
	free(followed);
}

static void become_idle(struct set_followed *followed)
{
	struct sets *sets = followed->sets;
	followed->idle_since_ms = clock_monotonic_ms();
	followed->idle_bytes = SET_BYTES;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		followed->idle_bytes += PLACE_BYTES + LIST_ITEM(at, struct set_place, link)->bytes;
	}
	sets->idle_bytes += followed->idle_bytes;
	list_append(&sets->idle, &followed->idle);
}

static bool holds_too_much(const struct sets *sets)
{
	struct cache_stats stats;
	cache_get_stats(sets->cache, &stats);
	return sets->idle_bytes > stats.max_bytes / 8;
}

static struct set_followed *first_idle(const struct sets *sets)
{
	return list_empty(&sets->idle) ? NULL
				       : LIST_ITEM(sets->idle.next, struct set_followed, idle);
}

static void on_lingering(void *context)
{
	struct sets *sets = context;
	int64_t now_ms = clock_monotonic_ms();
	struct set_followed *first;
	while ((first = first_idle(sets)) &&
		(now_ms - first->idle_since_ms >= SETS_LINGER_MS || holds_too_much(sets))) {
		destroy(first);
	}
	if (first) {
		timer_start(&sets->lingering, first->idle_since_ms + SETS_LINGER_MS - now_ms);
	}
}

static bool follow(
	struct sets *sets, struct set_user *user, const struct set_key *key, bool only_known)
{
	char *id = set_question_id(key);
	struct set_followed *followed = sets->buckets[hash_text(HASH_INIT, id) % SETS_BUCKETS];
	while (followed && strcmp(followed->question->id, id) != 0) {
		followed = followed->next_in_bucket;
	}
	if (followed || only_known) {
		free(id);
	} else {
		followed = create(sets, set_question_create(key, sets->domain, id));
	}
	if (!followed) {
		return false;
	}
	if (list_empty(&followed->users)) {
		sets->idle_bytes -= followed->idle_bytes;
		followed->idle_bytes = 0;
		list_remove(&followed->idle);
		if (followed->refused) {
			on_timer(followed);
		}
	}
	list_append(&followed->users, &user->link);
	user->followed = followed;
	return true;
}

void set_follow(struct sets *sets, struct set_user *user, const struct set_key *key)
{
	(void)follow(sets, user, key, false);
}

bool set_follow_known(struct sets *sets, struct set_user *user, const struct set_key *key)
{
	return follow(sets, user, key, true);
}

void set_leave(struct set_user *user)
{
	struct set_followed *followed = user->followed;
	if (!followed) {
		return;
	}
	struct sets *sets = followed->sets;
	set_wait_end(user);
	user->followed = NULL;
	list_remove(&user->link);
	if (list_empty(&followed->users)) {
		become_idle(followed);
		/* Never from here, which may be inside of its own work. */
		bool many = holds_too_much(sets);
		if (many || !timer_runs(&sets->lingering)) {
			timer_start(&sets->lingering, many ? 0 : SETS_LINGER_MS);
		}
	}
}

static void run(struct list *item)
{
	set_evaluate(LIST_ITEM(item, struct set_followed, due));
}

static void on_more(void *context)
{
	struct sets *sets = context;
	due_wake(&sets->due);
}

/* The cache that a user waits for may have ended. */
static void rewire(struct set_followed *followed)
{
	struct cache *whole = followed->sets->cache;
	const struct cache *nearest = cache_at(whole, followed->question->where);
	for (struct list *at = followed->users.next; at != &followed->users; at = at->next) {
		struct set_user *user = LIST_ITEM(at, struct set_user, link);
		user->waits = user->waits == nearest ? user->waits : NULL;
	}
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		struct set_place *place = LIST_ITEM(at, struct set_place, link);
		struct cache *cache = cache_at(whole, place->path);
		if (place->cache != cache) {
			set_place_renew(place, cache);
		}
	}
	due_add(&followed->sets->due, &followed->due);
}

void sets_rewire(struct sets *sets)
{
	for (size_t i = 0; i < SETS_BUCKETS; i++) {
		for (struct set_followed *followed = sets->buckets[i]; followed;
			followed = followed->next_in_bucket) {
			rewire(followed);
		}
	}
}

size_t sets_count(const struct sets *sets)
{
	return sets->count;
}

struct sets *sets_create(struct ev_loop *loop, struct cache *cache, const char *domain)
{
	struct sets *sets = allocate_zeroed(1, sizeof(*sets));
	sets->loop = loop;
	sets->cache = cache;
	sets->domain = domain;
	list_init(&sets->idle);
	due_init(&sets->due, loop, run);
	timer_init(&sets->lingering, loop, "sets that nobody asks for", on_lingering, sets);
	timer_init(&sets->more, loop, "more of sets", on_more, sets);
	return sets;
}

void sets_destroy(struct sets *sets)
{
	if (!sets) {
		return;
	}
	while (first_idle(sets)) {
		destroy(first_idle(sets));
	}
	timer_stop(&sets->lingering);
	timer_stop(&sets->more);
	due_finish(&sets->due);
	free(sets);
}
