#include "tests/sim/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "tests/sim/sim.h"

enum { SLOTS = 4, MOST_PAUSE_MS = 6000 };
enum { HITS, STALE, FAILED };

static const char *const paths[] = {
	"/users/joe/web/prod/components",
	"/users/joe/web/prod/components/c0",
	"/users/joe/web/prod/components/c1",
	"/users/joe/web/prod/components/c2",
	"/services",
	"/services/leader",
	"/services/other",
	"/nowhere/at-all",
};

struct lookup {
	struct lookups *lookups;
	struct cache_wait wait;
	const char *path;
	enum cache_answer_kind kind;
	bool busy;
};

struct lookups {
	struct ev_loop *loop;
	struct cache *cache;
	int agent;
	struct sim_random random;
	ev_timer timer;
	struct lookup slots[SLOTS];
};

static const struct world *world;
static uint64_t counts[3];

void lookups_use_world(const struct world *to)
{
	world = to;
}

void lookups_counts(uint64_t ret_counts[3])
{
	memcpy(ret_counts, counts, sizeof(counts));
}

/* ---- what an answer says, as the history says it ---- */

static char *names_of(const struct cache_answer *answer)
{
	json_t *list = json_loadb(answer->body, answer->len, 0, NULL);
	char *text = calloc(1, answer->len + json_array_size(list) + 1);
	size_t index;
	json_t *item;
	json_array_foreach (list, index, item) {
		strcat(strcat(text, path_name(json_string_value(item))), "\n");
	}
	json_decref(list);
	return text;
}

static int64_t later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t last_true_ms(const struct lookup *lookup, const struct cache_answer *answer)
{
	enum world_aspect aspect = lookup->kind == CACHE_LIST ? WORLD_CHILDREN : WORLD_DATA;
	if (answer->err && answer->err->code == BERTH_PATH_NOT_FOUND) {
		return world_last_true_ms(world, lookup->path, aspect, NULL);
	}
	if (answer->err) {
		return later_of(world_last_true_ms(world, lookup->path, aspect, ""),
			world_last_true_ms(world, lookup->path, aspect, SIM_GARBAGE));
	}
	char *text = lookup->kind == CACHE_LIST ? names_of(answer)
						: strndup(answer->body, answer->len);
	int64_t at_ms = world_last_true_ms(world, lookup->path, aspect, text);
	free(text);
	return at_ms;
}

/* An answer was true at the moment that its age says, or later; a hit within the bound. */
static void check(const struct lookup *lookup, const struct cache_answer *answer)
{
	struct cache *cache = lookup->lookups->cache;
	int64_t now_ms = sim_now_ms();
	bool hit = cache_answer_confirmed(cache, answer, -1, now_ms);
	int64_t age_ms = hit ? SIM_CONFIRM_MS : cache_answer_age_ms(cache, answer, now_ms);
	int64_t true_ms = last_true_ms(lookup, answer);
	counts[hit ? HITS : STALE]++;
	if (true_ms < now_ms - age_ms) {
		sim_fail("agent %d: %s of %s was last true %lld ms ago, and "
			 "the answer says %lld%s: %.*s",
			lookup->lookups->agent,
			lookup->kind == CACHE_LIST ? "the list" : "the record", lookup->path,
			true_ms == INT64_MIN ? -1LL : (long long)(now_ms - true_ms),
			(long long)age_ms, hit ? " (a hit)" : "",
			answer->err ? 0 : (int)answer->len, answer->err ? "" : answer->body);
	}
}

/* ---- asking ---- */

static void on_answer(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)err;
	struct lookup *lookup = context;
	lookup->busy = false;
	if (answer) {
		check(lookup, answer);
	} else {
		counts[FAILED]++;
	}
}

static void ask(struct lookup *lookup)
{
	struct lookups *lookups = lookup->lookups;
	struct err err = ERR_INIT;
	struct cache_answer *answer = NULL;
	lookup->path = paths[sim_below(&lookups->random, sizeof(paths) / sizeof(paths[0]))];
	lookup->kind = sim_chance(&lookups->random, 50) ? CACHE_RESOLVE : CACHE_LIST;
	lookup->wait = (struct cache_wait){ .on_answer = on_answer, .context = lookup };
	const struct cache_query query = { .path = lookup->path,
		.kind = lookup->kind,
		.refresh = sim_chance(&lookups->random, 5),
		.max_age_ms = -1,
		.now_ms = sim_now_ms() };
	lookup->busy = true;
	switch (cache_ask(lookups->cache, &query, &lookup->wait, &answer, &err)) {
	case CACHE_READY:
		on_answer(lookup, answer, NULL);
		break;
	case CACHE_UNAVAILABLE:
		on_answer(lookup, NULL, &err);
		break;
	case CACHE_WAITING:
		break;
	}
}

static void plan(struct lookups *lookups)
{
	double pause_s = (double)(1 + sim_below(&lookups->random, MOST_PAUSE_MS)) / 1000;
	ev_timer_set(&lookups->timer, pause_s, 0.);
	ev_timer_start(lookups->loop, &lookups->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct lookups *lookups = timer->data;
	struct lookup *lookup = &lookups->slots[sim_below(&lookups->random, SLOTS)];
	if (!lookup->busy) {
		ask(lookup);
	}
	plan(lookups);
}

struct lookups *lookups_create(struct ev_loop *loop, struct cache *cache, int agent, uint64_t seed)
{
	struct lookups *lookups = calloc(1, sizeof(*lookups));
	lookups->loop = loop;
	lookups->cache = cache;
	lookups->agent = agent;
	sim_random_init(&lookups->random, seed, 3);
	for (size_t i = 0; i < SLOTS; i++) {
		lookups->slots[i].lookups = lookups;
	}
	ev_timer_init(&lookups->timer, on_timer, 0., 0.);
	lookups->timer.data = lookups;
	plan(lookups);
	return lookups;
}

void lookups_destroy(struct lookups *lookups)
{
	for (size_t i = 0; i < SLOTS; i++) {
		if (lookups->slots[i].busy) {
			cache_cancel(&lookups->slots[i].wait);
		}
	}
	ev_timer_stop(lookups->loop, &lookups->timer);
	free(lookups);
}
