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

/* An answer that is used again while the cache, or the set, is as it was. */
struct kept {
	char *name;          /* NULL: none */
	struct set *set;     /* that it comes from, or NULL and */
	struct cache *cache; /* … this */
	uint64_t generation;
	bool searched;
	struct names_answer answer;
};

/* The answer kept longest gives its place to a new one. */
struct kept_set {
	struct kept ways[WAYS];
	unsigned next;
};

/* Where one path is not enough: the sets, and the further paths. */
struct further {
	struct sets *sets;
	char **roots;
	size_t count;
	int64_t hold_ms;
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
	struct further further;
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
	bool is_good = kept && !kept->set && kept->generation == cache_generation(kept->cache) &&
		cache_confirm(kept->cache, now_ms, NULL) == CACHE_READY;
	return is_good ? kept : NULL;
}

static void drop_kept(struct kept *kept)
{
	names_answer_finish(&kept->answer);
	set_release(kept->set);
	free(kept->name);
	*kept = (struct kept){ .name = NULL };
}

static void drop_all_kept(struct names_lookups *lookups)
{
	for (size_t i = 0; i < SETS * WAYS; i++) {
		drop_kept(&lookups->kept[i / WAYS].ways[i % WAYS]);
	}
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
static const struct names_answer outside = { .status = NAMES_OUTSIDE };

/* ---- by a set ---- */

/* Is the name the domain's, and of none of the records that only the index finds? */
static bool is_of_set(const struct names_lookups *lookups, const char *name)
{
	struct names_labels labels;
	uint64_t key;
	return names_split(&labels, name) && names_take_domain(&labels, lookups->domain) &&
		labels.count > 0 &&
		(labels.count > 1 || !names_container_key(&key, labels.labels[0]));
}

/* The answer that was made from the set is used again for as long as it is the set. */
static const struct names_answer *write_set(
	struct names_lookups *lookups, const struct names_question *question, struct set *set)
{
	struct kept *kept = find_in(set_of(lookups, question->name), question->name);
	if (!question->attributes && kept && kept->set == set) {
		return &kept->answer;
	}
	names_answer_finish(&lookups->answer);
	names_write_set(&lookups->answer, set, lookups->domain);
	if (question->attributes) {
		return &lookups->answer;
	}
	kept = keep(lookups, question->name);
	set_hold(set);
	kept->set = set;
	return &kept->answer;
}

static void on_nothing(void *context)
{
	(void)context;
}

/* False when something has to be read first. */
static bool evaluate_set(struct names_lookups *lookups, const struct names_question *question,
	struct names_view *ret_view, struct set_user *user)
{
	const struct further *further = &lookups->further;
	struct set_user passing = { .on_news = on_nothing };
	struct err err = ERR_INIT;
	user = user ? user : &passing;
	if (!user->followed) {
		const struct set_key key = { .kind = SET_OF_NAME,
			.what = question->name,
			.filter = { .attributes = question->attributes },
			.further = further->roots,
			.further_count = further->count,
			.hold_ms = further->hold_ms };
		set_follow(further->sets, user, &key);
	}
	const struct set_view view = set_look(user, SET_CONFIRMED);
	bool known = view.set && !view.confirming;
	*ret_view = (struct names_view){ .answer = &unknown, .stale = true };
	if (known) {
		*ret_view = (struct names_view){ write_set(lookups, question, view.set),
			view.state == SET_STALE, view.age_ms,
			view.lasts && !*view.set->question->name.base && !question->attributes };
	}
	bool refused = view.state == SET_REFUSED ||
		(!known && user != &passing && !set_wait(user, &err));
	set_leave(&passing);
	return known || refused;
}

/* ---- by the cache ---- */

static bool evaluate_here(struct names_lookups *lookups, const char *name,
	struct names_view *ret_view, struct set_asking *asking)
{
	struct err err = ERR_INIT;
	const struct kept *kept = find_kept(lookups, name, clock_monotonic_ms());
	if (kept) {
		*ret_view = (struct names_view){ &kept->answer, false, 0,
			!kept->searched && kept->cache == lookups->cache };
		return true;
	}
	struct evaluation evaluation = { .lookups = lookups,
		.asking = asking,
		.cache = lookups->cache,
		.now_ms = clock_monotonic_ms() };
	const struct names_source source = { &evaluation, get_node, get_children, each_known,
		NULL };
	names_answer_finish(&lookups->answer);
	names_evaluate(&lookups->answer, name, lookups->domain, &source);
	names_scale_weights(&lookups->answer);
	finish(&evaluation);
	enum names_status status = lookups->answer.status;
	if (status == NAMES_PENDING && asking && !set_asking_wait(asking, evaluation.cache, &err)) {
		*ret_view = (struct names_view){ .answer = &unknown, .stale = true };
		return true;
	}
	if (status == NAMES_PENDING) {
		return false;
	}
	*ret_view = (struct names_view){ &lookups->answer, evaluation.stale, evaluation.age_ms,
		false };
	if ((status == NAMES_FOUND || status == NAMES_ABSENT) && !evaluation.stale &&
		lookups->answer.pointer_count == 0) {
		struct kept *made = keep(lookups, name);
		made->cache = evaluation.cache;
		made->generation = cache_generation(made->cache);
		made->searched = evaluation.searched;
		ret_view->answer = &made->answer;
		ret_view->lasts = !evaluation.searched && evaluation.cache == lookups->cache;
	}
	return true;
}

/* False when something has to be read first. */
static bool evaluate(struct names_lookups *lookups, const struct names_question *question,
	struct names_view *ret_view, struct names_wait *wait)
{
	bool more = lookups->further.count > 0 || question->attributes;
	if (more && is_of_set(lookups, question->name)) {
		return evaluate_set(lookups, question, ret_view, wait ? &wait->user : NULL);
	}
	if (question->attributes) { /* nothing here has any */
		*ret_view = (struct names_view){ .answer = &outside };
		return true;
	}
	return evaluate_here(lookups, question->name, ret_view, wait ? &wait->asking : NULL);
}

/* ---- lookups under way ---- */

static void end_wait(struct names_wait *wait)
{
	set_asking_end(&wait->asking);
	set_leave(&wait->user);
	list_remove(&wait->link);
	wait->lookups = NULL;
}

static void on_again(void *context)
{
	struct names_wait *wait = context;
	struct names_view view;
	const struct names_question question = { wait->name,
		*wait->attributes ? wait->attributes : NULL };
	if (!evaluate(wait->lookups, &question, &view, wait)) {
		if (!wait->asking.late) {
			return;
		}
		view = (struct names_view){ .answer = &unknown };
	}
	end_wait(wait);
	wait->on_answer(wait->context, &view);
}

static void on_news(void *context)
{
	struct names_wait *wait = context;
	set_asking_wake(&wait->asking);
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
		wait->lookups = lookups;
		wait->user = (struct set_user){ .on_news = on_news, .context = wait };
		strcpy(wait->name, lower);
		strcpy(wait->attributes, asked.attributes ? asked.attributes : "");
		set_asking_init(
			&wait->asking, &lookups->askings, NAMES_PATIENCE_MS, on_again, wait);
	}
	bool ready = evaluate(lookups, &asked, ret_view, wait);
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
	struct further *further = &lookups->further;
	for (size_t i = 0; i < further->count; i++) {
		free(further->roots[i]);
	}
	free(further->roots);
}

void names_lookups_use_sets(struct names_lookups *lookups, struct sets *sets, char *const *roots,
	size_t count, int64_t hold_ms)
{
	drop_further(lookups);
	lookups->further = (struct further){ sets, allocate_zeroed(count, sizeof(*roots)), count,
		hold_ms };
	for (size_t i = 0; i < count; i++) {
		lookups->further.roots[i] = allocate_text(roots[i]);
	}
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
