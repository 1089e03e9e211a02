#include "agent/names/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/names/index.h"
#include "agent/names/internal.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/render/failover.h"

#define SETS 256 /* of answers that are kept: the hash of a name says which one is its set */
#define WAYS 4   /* answers of a set */

/* An answer that is used again while the cache is as it was. */
struct kept {
	char *name;          /* NULL: none */
	struct cache *cache; /* that it comes from */
	uint64_t generation;
	bool searched;
	struct names_answer answer;
};

/* The answer kept longest gives its place to a new one. */
struct kept_set {
	struct kept ways[WAYS];
	unsigned next;
};

/* The paths below which names are looked up, too. */
struct further {
	char **roots;
	size_t count;
	int64_t hold_ms;
	struct failover_table table;
};

struct names_lookups {
	struct set_askings askings;
	struct cache *cache;
	const char *domain;
	struct names_index *index;
	struct list waits;
	/* the last evaluation that the cache of answers does not keep */
	struct names_answer answer;
	struct kept_set kept[SETS];
	struct further *further; /* NULL: none */
};

/* One evaluation, as the context of the source. */
struct evaluation {
	struct names_lookups *lookups;
	struct set_asking *asking; /* NULL: nothing is read */
	struct cache *cache; /* of the paths that the name may mean: all are of one registry */
	int64_t now_ms;
	bool stale;
	bool searched; /* among all records that are known */
	int64_t age_ms;
	struct record **records; /* decoded for this evaluation */
	size_t record_count;
	const struct registry_value **lists;
	size_t list_count;
};

/* Questions that wait for no read wait for the index. */
static void on_index_ready(void *context)
{
	struct names_lookups *lookups = context;
	for (struct list *link = lookups->waits.next; link != &lookups->waits; link = link->next) {
		struct names_wait *wait = LIST_ITEM(link, struct names_wait, link);
		if (!set_asking_reads(&wait->asking)) {
			set_asking_wake(&wait->asking);
		}
	}
}

/* ---- the source ---- */

/* Asks the cache; NULL and *ret_known set when there is no answer. */
static struct cache_answer *ask(struct evaluation *evaluation, const char *path,
	enum cache_answer_kind kind, enum names_known *ret_known)
{
	struct cache *cache = cache_at(evaluation->lookups->cache, path);
	struct cache_query query = {
		.path = path, .kind = kind, .max_age_ms = -1, .now_ms = evaluation->now_ms
	};
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	evaluation->cache = cache;
	enum cache_verdict verdict = set_asking_read(
		evaluation->asking, cache, &query, &answer, &err);
	*ret_known = verdict == CACHE_WAITING ? NAMES_NODE_PENDING : NAMES_NODE_UNKNOWN;
	return verdict == CACHE_READY ? answer : NULL;
}

static void note_age(struct evaluation *evaluation, const struct cache_answer *answer)
{
	const struct cache *cache = evaluation->cache;
	int64_t age_ms = cache_answer_age_ms(cache, answer, evaluation->now_ms);
	evaluation->age_ms = age_ms > evaluation->age_ms ? age_ms : evaluation->age_ms;
	evaluation->stale = evaluation->stale ||
		!cache_answer_confirmed(cache, answer, -1, evaluation->now_ms);
}

/* The meaning of an answer without content for its node. */
static enum names_known known_by_error(const struct err *err)
{
	switch (err->code) {
	case BERTH_PATH_NOT_FOUND:
		return NAMES_NODE_ABSENT;
	case BERTH_NO_RECORD:
	case BERTH_INVALID_RECORD:
		return NAMES_NODE_THERE;
	default:
		return NAMES_NODE_UNKNOWN;
	}
}

static enum names_known get_node(void *context, const char *path, const void **ret_record)
{
	struct evaluation *evaluation = context;
	enum names_known known;
	struct record *record = NULL;
	struct cache_answer *answer = ask(evaluation, path, CACHE_RESOLVE, &known);
	if (!answer) {
		return known;
	}
	note_age(evaluation, answer);
	if (answer->err) {
		return known_by_error(answer->err);
	}
	if (allocated_code(record_decode(&record, answer->body, answer->len, NULL)) == 0) {
		evaluation->records = allocate_grow(evaluation->records, evaluation->record_count,
			sizeof(*evaluation->records));
		evaluation->records[evaluation->record_count++] = record;
	}
	*ret_record = record;
	return NAMES_NODE_THERE;
}

static enum names_known get_children(
	void *context, const char *path, char *const **ret_paths, size_t *ret_count)
{
	struct evaluation *evaluation = context;
	enum names_known known;
	struct cache_answer *answer = ask(evaluation, path, CACHE_LIST, &known);
	if (!answer) {
		return known;
	}
	note_age(evaluation, answer);
	if (answer->err) {
		return known_by_error(answer->err);
	}
	const struct registry_value *list = registry_value_hold(answer->value);
	evaluation->lists = allocate_grow(
		evaluation->lists, evaluation->list_count, sizeof(*evaluation->lists));
	evaluation->lists[evaluation->list_count++] = list;
	*ret_paths = list->children;
	*ret_count = list->stat.children;
	return NAMES_NODE_THERE;
}

static enum names_known each_known(
	void *context, uint64_t key, names_visit *visit, void *visit_context)
{
	struct evaluation *evaluation = context;
	evaluation->searched = true;
	return names_index_find(evaluation->lookups->index, key, visit, visit_context)
		? NAMES_NODE_THERE
		: NAMES_NODE_PENDING;
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
static const struct kept *find_kept(struct names_lookups *lookups, const char *name, int64_t now_ms)
{
	const struct kept *kept = find_in(set_of(lookups, name), name);
	bool is_good = kept && kept->generation == cache_generation(kept->cache) &&
		cache_confirm(kept->cache, now_ms, NULL) == CACHE_READY;
	return is_good ? kept : NULL;
}

static void drop_kept(struct kept *kept)
{
	names_answer_finish(&kept->answer);
	free(kept->name);
	kept->name = NULL;
}

static void drop_all_kept(struct names_lookups *lookups)
{
	for (size_t i = 0; i < SETS * WAYS; i++) {
		drop_kept(&lookups->kept[i / WAYS].ways[i % WAYS]);
	}
}

/* Moves the answer of the last evaluation into the table. */
static const struct names_answer *keep(
	struct names_lookups *lookups, const char *name, const struct evaluation *evaluation)
{
	struct kept_set *set = set_of(lookups, name);
	struct kept *kept = find_in(set, name);
	if (!kept) {
		kept = &set->ways[set->next++ % WAYS];
		drop_kept(kept);
		kept->name = allocate_text(name);
	}
	names_answer_finish(&kept->answer);
	kept->cache = evaluation->cache;
	kept->generation = cache_generation(kept->cache);
	kept->searched = evaluation->searched;
	kept->answer = lookups->answer;
	lookups->answer = (struct names_answer){ .status = NAMES_PENDING };
	return &kept->answer;
}

/* ---- evaluation ---- */

static void finish(struct evaluation *evaluation)
{
	for (size_t i = 0; i < evaluation->record_count; i++) {
		record_free(evaluation->records[i]);
	}
	for (size_t i = 0; i < evaluation->list_count; i++) {
		registry_value_release(evaluation->lists[i]);
	}
	free(evaluation->records);
	free(evaluation->lists);
}

static const struct names_answer unknown = { .status = NAMES_UNKNOWN };

/* One of the paths, and what a name means there. */
struct place {
	struct names_answer answer;
	struct evaluation evaluation;
};

static void evaluate_at(struct names_lookups *lookups, const char *name, const char *root,
	struct set_asking *asking, struct place *ret_place)
{
	struct place *place = ret_place;
	*place = (struct place){ .evaluation = { .lookups = lookups,
					 .asking = asking,
					 .cache = lookups->cache,
					 .now_ms = clock_monotonic_ms() } };
	const struct names_source source = { &place->evaluation, get_node, get_children, each_known,
		NULL };
	names_evaluate(&place->answer, name, lookups->domain, root, &source);
	finish(&place->evaluation);
}

/* The places in use become one answer, in the first of them. */
static void join(struct place *places, size_t used)
{
	for (size_t i = 1; i < used; i++) {
		const struct evaluation *evaluation = &places[i].evaluation;
		struct evaluation *whole = &places[0].evaluation;
		names_answer_add(&places[0].answer, &places[i].answer, (unsigned)i);
		whole->stale = whole->stale || evaluation->stale;
		whole->age_ms = evaluation->age_ms > whole->age_ms ? evaluation->age_ms
								   : whole->age_ms;
	}
}

/* A name at its places, as far as they are needed; the first one has been evaluated. */
struct walk {
	struct names_lookups *lookups;
	const char *name;
	struct set_asking *asking;
	struct place *places;
};

static bool know(void *context, size_t index, struct failover_path *ret_path)
{
	const struct walk *walk = context;
	struct place *place = &walk->places[index];
	struct set_asking *reader = walk->asking && !walk->asking->late ? walk->asking : NULL;
	struct err err = ERR_INIT;
	if (index > 0) {
		evaluate_at(walk->lookups, walk->name, walk->lookups->further->roots[index - 1],
			reader, place);
	}
	enum names_status status = place->answer.status;
	if (index > 0 && reader && status == NAMES_PENDING &&
		set_asking_wait(reader, place->evaluation.cache, &err)) {
		return false;
	}
	ret_path->confirmed = (status == NAMES_FOUND || status == NAMES_ABSENT) &&
		!place->evaluation.stale;
	ret_path->instances = names_answer_serves(&place->answer);
	return true;
}

/*
 * Adds to the first place what further ones have, when they are in use. False when one of them has
 * to be read first. *ret_alone: the first one is in use alone, and answers by itself.
 */
static bool add_further(struct names_lookups *lookups, const char *name, struct place *nearest,
	struct set_asking *asking, bool *ret_alone)
{
	struct further *further = lookups->further;
	uint64_t key = hash_text(HASH_INIT, name);
	struct failover failover = failover_get(&further->table, key);
	struct place *places = allocate_zeroed(further->count + 1, sizeof(*places));
	struct walk walk = { lookups, name, asking, places };
	places[0] = *nearest;
	bool serves = names_answer_serves(&nearest->answer);
	size_t used = failover_walk(&failover, further->count + 1, 1, further->hold_ms,
		nearest->evaluation.now_ms, know, &walk);
	if (used > 0) {
		join(places, used);
		failover_put(&further->table, key, &failover);
		*ret_alone = failover.further == 0 && serves;
	}
	*nearest = places[0];
	for (size_t i = 1; i <= further->count; i++) {
		names_answer_finish(&places[i].answer);
	}
	free(places);
	return used > 0;
}

/* False when something has to be read first. */
static bool evaluate(struct names_lookups *lookups, const char *name, struct names_view *ret_view,
	struct set_asking *asking)
{
	struct place place;
	struct err err = ERR_INIT;
	bool alone = true;
	const struct kept *kept = find_kept(lookups, name, clock_monotonic_ms());
	if (kept) {
		*ret_view = (struct names_view){ &kept->answer, false, 0,
			!kept->searched && kept->cache == lookups->cache };
		return true;
	}
	evaluate_at(lookups, name, "", asking, &place);
	bool is_settled = place.answer.status == NAMES_FOUND || place.answer.status == NAMES_ABSENT;
	bool pending = place.answer.status == NAMES_PENDING;
	if (is_settled && lookups->further && !place.answer.apex &&
		place.answer.pointer_count == 0) {
		pending = !add_further(lookups, name, &place, asking, &alone);
	}
	names_scale_weights(&place.answer);
	names_answer_finish(&lookups->answer);
	lookups->answer = place.answer;
	if (pending && asking && !set_asking_wait(asking, place.evaluation.cache, &err)) {
		*ret_view = (struct names_view){ .answer = &unknown, .stale = true };
		return true;
	}
	if (pending) {
		return false;
	}
	*ret_view = (struct names_view){ &lookups->answer, place.evaluation.stale,
		place.evaluation.age_ms, false };
	if (is_settled && alone && !place.evaluation.stale && lookups->answer.pointer_count == 0) {
		ret_view->answer = keep(lookups, name, &place.evaluation);
		ret_view->lasts = !place.evaluation.searched &&
			place.evaluation.cache == lookups->cache;
	}
	return true;
}

/* ---- lookups under way ---- */

static void end_wait(struct names_wait *wait)
{
	set_asking_end(&wait->asking);
	list_remove(&wait->link);
	wait->lookups = NULL;
}

static void on_again(void *context)
{
	struct names_wait *wait = context;
	struct names_view view;
	if (!evaluate(wait->lookups, wait->name, &view, &wait->asking)) {
		if (!wait->asking.late) {
			return;
		}
		view = (struct names_view){ .answer = &unknown };
	}
	end_wait(wait);
	wait->on_answer(wait->context, &view);
}

bool names_ask(struct names_lookups *lookups, const char *name, struct names_view *ret_view,
	struct names_wait *wait)
{
	static const struct names_answer outside = { .status = NAMES_OUTSIDE };
	char lower[NAMES_NAME_BYTES];
	struct names_labels labels;
	if (!names_split(&labels, name)) {
		*ret_view = (struct names_view){ .answer = &outside };
		return true;
	}
	names_join(lower, &labels);
	if (wait) {
		list_init(&wait->link);
		wait->lookups = lookups;
		strcpy(wait->name, lower);
		set_asking_init(
			&wait->asking, &lookups->askings, NAMES_PATIENCE_MS, on_again, wait);
	}
	bool ready = evaluate(lookups, lower, ret_view, wait ? &wait->asking : NULL);
	if (wait && ready) {
		end_wait(wait);
	} else if (wait) {
		list_append(&lookups->waits, &wait->link);
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
	struct ev_loop *loop, struct cache *cache, const char *domain)
{
	struct names_lookups *lookups = allocate_zeroed(1, sizeof(*lookups));
	set_askings_init(&lookups->askings, loop);
	lookups->cache = cache;
	lookups->domain = domain;
	lookups->index = names_index_create(loop, cache, on_index_ready, lookups);
	list_init(&lookups->waits);
	return lookups;
}

static void drop_further(struct names_lookups *lookups)
{
	struct further *further = lookups->further;
	for (size_t i = 0; further && i < further->count; i++) {
		free(further->roots[i]);
	}
	if (further) {
		free(further->roots);
	}
	free(further);
	lookups->further = NULL;
}

void names_lookups_set_failover(
	struct names_lookups *lookups, char *const *roots, size_t count, int64_t hold_ms)
{
	drop_further(lookups);
	if (count == 0) {
		return;
	}
	struct further *further = allocate_zeroed(1, sizeof(*further));
	further->roots = allocate_zeroed(count, sizeof(*further->roots));
	for (size_t i = 0; i < count; i++) {
		further->roots[further->count++] = allocate_text(roots[i]);
	}
	further->hold_ms = hold_ms;
	lookups->further = further;
}

void names_lookups_forget(struct names_lookups *lookups, const struct cache *cache)
{
	for (struct list *link = lookups->waits.next; link != &lookups->waits; link = link->next) {
		struct names_wait *wait = LIST_ITEM(link, struct names_wait, link);
		if (wait->asking.cache == cache) {
			set_asking_leave(&wait->asking);
		}
	}
	drop_all_kept(lookups);
}

void names_lookups_destroy(struct names_lookups *lookups)
{
	if (!lookups) {
		return;
	}
	set_askings_finish(&lookups->askings);
	names_index_destroy(lookups->index);
	names_answer_finish(&lookups->answer);
	drop_further(lookups);
	drop_all_kept(lookups);
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
