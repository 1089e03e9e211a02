#include "agent/names/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/names/index.h"
#include "agent/names/internal.h"
#include "agent/set/question.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"

#define SETS 256 /* of answers that are kept: the hash of a name says which one is its set */
#define WAYS 4   /* answers of a set */

/* An answer that is used again. */
struct kept {
	char *name;      /* NULL: none */
	struct set *set; /* that it comes from: for as long as it is the set; or NULL */
	/* and, if it is good as long as nothing changes in the cache: its number then, else 0 */
	uint64_t generation;
	bool lasts; /* see struct names_view */
	struct names_answer answer;
};

/* The answer kept longest gives its place to a new one. */
struct kept_set {
	struct kept ways[WAYS];
	unsigned next;
};

struct names_lookups {
	struct sets *sets;
	struct cache *cache;
	const char *domain;
	struct names_index *index;
	struct due due;
	struct list waits;
	/* the last one that is not kept */
	struct names_answer answer;
	struct kept_set kept[SETS];
	/* Where one path is not enough. */
	char **further;
	size_t further_count;
	int64_t hold_ms;
};

static void on_index_ready(void *context)
{
	struct names_lookups *lookups = context;
	for (struct list *link = lookups->waits.next; link != &lookups->waits; link = link->next) {
		due_add(&lookups->due, &LIST_ITEM(link, struct names_wait, link)->due);
	}
}

/* ---- answers used again ---- */

static struct kept_set *set_of(struct names_lookups *lookups, const char *name)
{
	return &lookups->kept[hash_text(HASH_INIT, name) % SETS];
}

static struct kept *find_in(struct kept_set *set, const char *name)
{
	for (size_t i = 0; i < WAYS; i++) {
		if (set->ways[i].name && strcmp(set->ways[i].name, name) == 0) {
			return &set->ways[i];
		}
	}
	return NULL;
}

/* A kept answer that is as good as a new one, or NULL. */
static const struct kept *find_kept(struct names_lookups *lookups, const char *name)
{
	const struct kept *kept = find_in(set_of(lookups, name), name);
	bool is_good = kept && kept->generation == cache_generation(lookups->cache) &&
		cache_confirm(lookups->cache, clock_monotonic_ms(), NULL) == CACHE_READY;
	return is_good ? kept : NULL;
}

static void drop_kept(struct kept *kept)
{
	names_answer_finish(&kept->answer);
	set_release(kept->set);
	free(kept->name);
	*kept = (struct kept){ .name = NULL };
}

/* Moves the answer of the last evaluation into the table: its place. */
static struct kept *keep(struct names_lookups *lookups, const char *name)
{
	struct kept_set *set = set_of(lookups, name);
	struct kept *kept = find_in(set, name);
	kept = kept ? kept : &set->ways[set->next++ % WAYS];
	drop_kept(kept);
	*kept = (struct kept){ .name = allocate_text(name), .answer = lookups->answer };
	lookups->answer = (struct names_answer){ .status = NAMES_PENDING };
	return kept;
}

static const struct names_answer unknown = { .status = NAMES_UNKNOWN };
static const struct names_answer outside = { .status = NAMES_OUTSIDE };

/* ---- by a set ---- */

/* The answer that was made from the set is used again for as long as it is the set. */
static const struct names_answer *write_set(struct names_lookups *lookups,
	const struct names_question *question, const struct set_view *view)
{
	struct kept *kept = find_in(set_of(lookups, question->name), question->name);
	if (question->attributes || !kept || kept->set != view->set) {
		names_answer_finish(&lookups->answer);
		names_write_set(&lookups->answer, view->set, lookups->domain);
	}
	if (question->attributes) {
		return &lookups->answer;
	}
	if (!kept || kept->set != view->set) {
		kept = keep(lookups, question->name);
		set_hold(view->set);
		kept->set = view->set;
	}
	kept->generation = view->lasts ? cache_generation(lookups->cache) : 0;
	kept->lasts = view->lasts && !*view->set->question->name.base;
	return &kept->answer;
}

static void on_nothing(void *context)
{
	(void)context;
}

/* False when something has to be read first. */
static bool evaluate_set(struct names_lookups *lookups, const struct names_question *question,
	struct names_view *ret_view, struct names_wait *wait)
{
	struct set_user passing = { .on_news = on_nothing };
	struct set_user *user = wait ? &wait->user : &passing;
	struct err err = ERR_INIT;
	*ret_view = (struct names_view){ .answer = &unknown };
	if (!user->followed) {
		const struct set_key key = { .kind = SET_OF_NAME,
			.what = question->name,
			.filter = { .attributes = question->attributes },
			.further = lookups->further,
			.further_count = lookups->further_count,
			.hold_ms = lookups->hold_ms };
		if (wait) {
			set_follow(lookups->sets, user, &key);
		} else if (!set_follow_known(lookups->sets, user, &key)) {
			return false;
		}
	}
	const struct set_view view = set_look(user, SET_CONFIRMED);
	bool known = view.set && !view.confirming;
	if (known) {
		*ret_view = (struct names_view){ write_set(lookups, question, &view),
			view.state == SET_STALE, view.age_ms,
			view.lasts && !*view.set->question->name.base && !question->attributes };
	}
	bool refused = view.state == SET_REFUSED || (!known && wait && !set_wait(user, &err));
	set_leave(&passing);
	return known || refused;
}

/* ---- by the index ---- */

static enum names_known no_node(void *context, const char *path, const void **ret_record)
{
	(void)context;
	(void)path;
	(void)ret_record;
	return NAMES_NODE_ABSENT;
}

static enum names_known no_children(
	void *context, const char *path, char *const **ret_paths, size_t *ret_count)
{
	(void)context;
	(void)path;
	(void)ret_paths;
	(void)ret_count;
	return NAMES_NODE_ABSENT;
}

static enum names_known each_known(
	void *context, uint64_t key, names_visit *visit, void *visit_context)
{
	const struct names_lookups *lookups = context;
	return names_index_find(lookups->index, key, visit, visit_context) ? NAMES_NODE_THERE
									   : NAMES_NODE_PENDING;
}

/* Reverse questions, and containers: what the records that are known say, wherever they are. */
static bool evaluate_known(struct names_lookups *lookups, const char *name, struct names_view *view)
{
	const struct names_source source = { lookups, no_node, no_children, each_known, NULL };
	struct names_answer answer;
	names_evaluate(&answer, name, lookups->domain, &source);
	names_scale_weights(&answer);
	if (answer.status == NAMES_PENDING) {
		return false;
	}
	if (answer.status == NAMES_FOUND || view->answer->status != NAMES_ABSENT) {
		names_answer_finish(&lookups->answer);
		lookups->answer = answer;
		view->answer = &lookups->answer;
		view->lasts = answer.apex;
	} else {
		names_answer_finish(&answer);
	}
	return true;
}

/* False when something has to be read first. */
static bool evaluate(struct names_lookups *lookups, const struct names_question *question,
	struct names_view *ret_view, struct names_wait *wait)
{
	struct names_labels labels;
	const struct kept *kept = question->attributes ? NULL : find_kept(lookups, question->name);
	if (kept) {
		*ret_view = (struct names_view){ &kept->answer, false, 0, kept->lasts };
		return true;
	}
	*ret_view = (struct names_view){ .answer = &outside };
	bool has_set = names_split(&labels, question->name) &&
		names_take_domain(&labels, lookups->domain) && labels.count > 0;
	if (has_set && !evaluate_set(lookups, question, ret_view, wait)) {
		return false;
	}
	bool is_known = question->attributes ||
		(has_set && ret_view->answer->status != NAMES_ABSENT);
	return is_known || evaluate_known(lookups, question->name, ret_view);
}

/* ---- lookups under way ---- */

static void end_wait(struct names_wait *wait)
{
	set_leave(&wait->user);
	timer_stop(&wait->patience);
	list_remove(&wait->due);
	list_remove(&wait->link);
	wait->lookups = NULL;
}

static void answer(struct names_wait *wait, const struct names_view *view)
{
	end_wait(wait);
	wait->on_answer(wait->context, view);
}

static void run(struct list *item)
{
	struct names_wait *wait = LIST_ITEM(item, struct names_wait, due);
	struct names_view view;
	const struct names_question question = { wait->name,
		*wait->attributes ? wait->attributes : NULL };
	if (evaluate(wait->lookups, &question, &view, wait)) {
		answer(wait, &view);
	}
}

static void on_patience(void *context)
{
	answer(context, &(struct names_view){ .answer = &unknown });
}

/* It is evaluated later: whoever notices is in the middle of his own work. */
static void on_news(void *context)
{
	struct names_wait *wait = context;
	due_add(&wait->lookups->due, &wait->due);
}

bool names_ask(struct names_lookups *lookups, const struct names_question *question,
	struct names_view *ret_view, struct names_wait *wait)
{
	char lower[NAMES_NAME_BYTES];
	struct names_labels labels;
	if (!names_split(&labels, question->name)) {
		*ret_view = (struct names_view){ .answer = &outside };
		return true;
	}
	names_join(lower, &labels);
	const struct names_question asked = { lower, question->attributes };
	if (wait) {
		list_init(&wait->link);
		list_init(&wait->due);
		wait->lookups = lookups;
		wait->user = (struct set_user){ .on_news = on_news, .context = wait };
		strcpy(wait->name, lower);
		strcpy(wait->attributes, asked.attributes ? asked.attributes : "");
		timer_init(&wait->patience, lookups->due.loop, "look-up", on_patience, wait);
	}
	bool ready = evaluate(lookups, &asked, ret_view, wait);
	if (wait && ready) {
		end_wait(wait);
	} else if (wait) {
		list_append(&lookups->waits, &wait->link);
		timer_start(&wait->patience, NAMES_PATIENCE_MS);
	}
	return ready;
}

void names_cancel(struct names_wait *wait)
{
	if (wait->lookups) {
		end_wait(wait);
	}
}

struct names_lookups *names_lookups_create(
	struct ev_loop *loop, struct cache *cache, struct sets *sets, const char *domain)
{
	struct names_lookups *lookups = allocate_zeroed(1, sizeof(*lookups));
	due_init(&lookups->due, loop, run);
	lookups->sets = sets;
	lookups->cache = cache;
	lookups->domain = domain;
	lookups->index = names_index_create(loop, cache, on_index_ready, lookups);
	list_init(&lookups->waits);
	return lookups;
}

static void drop_further(struct names_lookups *lookups)
{
	for (size_t i = 0; i < lookups->further_count; i++) {
		free(lookups->further[i]);
	}
	free(lookups->further);
}

void names_lookups_set_further(
	struct names_lookups *lookups, char *const *paths, size_t count, int64_t hold_ms)
{
	drop_further(lookups);
	lookups->further = allocate_zeroed(count, sizeof(*paths));
	lookups->further_count = count;
	lookups->hold_ms = hold_ms;
	for (size_t i = 0; i < count; i++) {
		lookups->further[i] = allocate_text(paths[i]);
	}
}

void names_lookups_forget(struct names_lookups *lookups)
{
	for (size_t i = 0; i < SETS * WAYS; i++) {
		drop_kept(&lookups->kept[i / WAYS].ways[i % WAYS]);
	}
}

void names_lookups_destroy(struct names_lookups *lookups)
{
	if (!lookups) {
		return;
	}
	due_finish(&lookups->due);
	names_index_destroy(lookups->index);
	names_answer_finish(&lookups->answer);
	drop_further(lookups);
	names_lookups_forget(lookups);
	free(lookups);
}

const char *names_lookups_domain(const struct names_lookups *lookups)
{
	return lookups->domain;
}

bool names_lookups_own(const struct names_lookups *lookups, const char *name)
{
	struct names_labels labels;
	return names_split(&labels, name) && names_take_domain(&labels, lookups->domain);
}
