#include "agent/names/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/names/index.h"
#include "agent/names/internal.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"

#define SETS 256 /* of answers that are kept: the hash of a name says which one is its set */
#define WAYS 4   /* answers of a set */

/* An answer that is used again while the cache is as it was. */
struct kept {
	char *name; /* NULL: none */
	uint64_t generation;
	bool searched;
	struct names_answer answer;
};

/* The answer kept longest gives its place to a new one. */
struct kept_set {
	struct kept ways[WAYS];
	unsigned next;
};

struct names_lookups {
	struct ev_loop *loop;
	struct cache *cache;
	const char *domain;
	ev_prepare wake; /* never started: fed when lookups are to be evaluated again */
	struct names_index *index;
	struct list waits;
	struct list due; /* waits that have all they waited for */
	/* the last evaluation that the cache of answers does not keep */
	struct names_answer answer;
	struct kept_set kept[SETS];
};

/* One node that a lookup waits for. */
struct read {
	struct names_wait *owner;
	struct list link;
	struct cache_wait wait;
};

/* One evaluation, as the context of the source. */
struct evaluation {
	struct names_lookups *lookups;
	struct names_wait *wait; /* NULL: nothing is read */
	int64_t now_ms;
	bool stale;
	bool searched; /* among all records that are known */
	int64_t age_ms;
	struct record **records; /* decoded for this evaluation */
	size_t record_count;
	const struct registry_value **lists;
	size_t list_count;
};

/* ---- reads ---- */

/*
 * The cache is in the middle of its own work, or the index of its: the next step evaluates the name
 * again.
 */
static void make_due(struct names_wait *wait)
{
	list_remove(&wait->link);
	list_append(&wait->lookups->due, &wait->link);
	ev_feed_event(wait->lookups->loop, &wait->lookups->wake, EV_CUSTOM);
}

static void on_read(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)answer;
	(void)err;
	struct read *read = context;
	struct names_wait *owner = read->owner;
	list_remove(&read->link);
	free(read);
	if (list_empty(&owner->reads)) {
		make_due(owner);
	}
}

/* Questions that wait for no read wait for the index. */
static void on_index_ready(void *context)
{
	struct names_lookups *lookups = context;
	for (struct list *link = lookups->waits.next, *next; link != &lookups->waits; link = next) {
		struct names_wait *wait = LIST_ITEM(link, struct names_wait, link);
		next = link->next;
		if (list_empty(&wait->reads)) {
			make_due(wait);
		}
	}
}

static void drop_reads(struct names_wait *wait)
{
	while (!list_empty(&wait->reads)) {
		struct read *read = LIST_ITEM(wait->reads.next, struct read, link);
		cache_cancel(&read->wait);
		list_remove(&read->link);
		free(read);
	}
}

/* Asks the cache; NULL and *ret_known set when there is no answer. */
static struct cache_answer *ask(struct evaluation *evaluation, const char *path,
	enum cache_answer_kind kind, enum names_known *ret_known)
{
	struct names_lookups *lookups = evaluation->lookups;
	struct cache_query query = {
		.path = path, .kind = kind, .max_age_ms = -1, .now_ms = evaluation->now_ms
	};
	struct cache_answer *answer = cache_find(lookups->cache, &query);
	struct err err = ERR_INIT;
	*ret_known = NAMES_NODE_PENDING;
	if (answer || !evaluation->wait) {
		return answer;
	}
	struct read *read = allocate_zeroed(1, sizeof(*read));
	read->owner = evaluation->wait;
	read->wait.on_answer = on_read;
	read->wait.context = read;
	switch (cache_ask(lookups->cache, &query, &read->wait, &answer, &err)) {
	case CACHE_WAITING:
		list_append(&evaluation->wait->reads, &read->link);
		return NULL;
	case CACHE_UNAVAILABLE:
		*ret_known = NAMES_NODE_UNKNOWN;
		answer = NULL;
		break;
	case CACHE_READY:
		break;
	}
	free(read);
	return answer;
}

static void note_age(struct evaluation *evaluation, const struct cache_answer *answer)
{
	struct cache *cache = evaluation->lookups->cache;
	int64_t age_ms = cache_answer_age_ms(cache, answer, evaluation->now_ms);
	evaluation->age_ms = age_ms > evaluation->age_ms ? age_ms : evaluation->age_ms;
	evaluation->stale = evaluation->stale ||
		!cache_answer_confirmed(cache, answer, -1, evaluation->now_ms);
}

/* ---- the source ---- */

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

static enum names_known get_node(void *context, const char *path, const struct record **ret_record)
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
	bool is_good = kept && kept->generation == cache_generation(lookups->cache) &&
		cache_confirm(lookups->cache, now_ms, NULL) == CACHE_READY;
	return is_good ? kept : NULL;
}

static void drop_kept(struct kept *kept)
{
	names_answer_finish(&kept->answer);
	free(kept->name);
	kept->name = NULL;
}

/* Moves the answer of the last evaluation into the table. */
static const struct names_answer *keep(
	struct names_lookups *lookups, const char *name, bool searched)
{
	struct kept_set *set = set_of(lookups, name);
	struct kept *kept = find_in(set, name);
	if (!kept) {
		kept = &set->ways[set->next++ % WAYS];
		drop_kept(kept);
		kept->name = allocate_text(name);
	}
	names_answer_finish(&kept->answer);
	kept->generation = cache_generation(lookups->cache);
	kept->searched = searched;
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

/* False when something has to be read first. */
static bool evaluate(struct names_lookups *lookups, const char *name, struct names_view *ret_view,
	struct names_wait *wait)
{
	struct evaluation evaluation = {
		.lookups = lookups, .wait = wait, .now_ms = clock_monotonic_ms()
	};
	const struct names_source source = { &evaluation, get_node, get_children, each_known };
	const struct kept *kept = find_kept(lookups, name, evaluation.now_ms);
	if (kept) {
		*ret_view = (struct names_view){ &kept->answer, false, 0, !kept->searched };
		return true;
	}
	names_answer_finish(&lookups->answer);
	names_evaluate(&lookups->answer, name, lookups->domain, &source);
	finish(&evaluation);
	if (lookups->answer.status == NAMES_PENDING) {
		return false;
	}
	*ret_view = (struct names_view){ &lookups->answer, evaluation.stale, evaluation.age_ms,
		false };
	bool is_settled = lookups->answer.status == NAMES_FOUND ||
		lookups->answer.status == NAMES_ABSENT;
	if (is_settled && !evaluation.stale && lookups->answer.pointer_count == 0) {
		ret_view->answer = keep(lookups, name, evaluation.searched);
		ret_view->lasts = !evaluation.searched;
	}
	return true;
}

/* ---- lookups under way ---- */

static void end_wait(struct names_wait *wait)
{
	drop_reads(wait);
	timer_stop(&wait->patience);
	list_remove(&wait->link);
	wait->lookups = NULL;
}

static void on_patience(void *context)
{
	static const struct names_answer unknown = { .status = NAMES_UNKNOWN };
	struct names_wait *wait = context;
	const struct names_view view = { .answer = &unknown };
	end_wait(wait);
	wait->on_answer(wait->context, &view);
}

/* Evaluates the lookups whose reads have come. */
static void on_wake(struct ev_loop *loop, ev_prepare *wake, int events)
{
	(void)loop;
	(void)events;
	struct names_lookups *lookups = wake->data;
	struct list due;
	list_init(&due);
	list_move_all(&due, &lookups->due);
	while (!list_empty(&due)) {
		struct names_wait *wait = LIST_ITEM(due.next, struct names_wait, link);
		struct names_view view;
		list_remove(&wait->link);
		list_append(&lookups->waits, &wait->link);
		if (evaluate(lookups, wait->name, &view, wait)) {
			end_wait(wait);
			wait->on_answer(wait->context, &view);
		}
	}
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
		list_init(&wait->reads);
		list_init(&wait->link);
		wait->lookups = lookups;
		strcpy(wait->name, lower);
		timer_init(&wait->patience, lookups->loop, "name", on_patience, wait);
	}
	if (evaluate(lookups, lower, ret_view, wait)) {
		if (wait) {
			end_wait(wait);
		}
		return true;
	}
	if (wait) {
		list_append(&lookups->waits, &wait->link);
		timer_start(&wait->patience, NAMES_PATIENCE_MS);
	}
	return false;
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
	lookups->loop = loop;
	lookups->cache = cache;
	lookups->domain = domain;
	lookups->index = names_index_create(loop, cache, on_index_ready, lookups);
	list_init(&lookups->waits);
	list_init(&lookups->due);
	ev_prepare_init(&lookups->wake, on_wake);
	lookups->wake.data = lookups;
	return lookups;
}

void names_lookups_destroy(struct names_lookups *lookups)
{
	if (!lookups) {
		return;
	}
	ev_clear_pending(lookups->loop, &lookups->wake);
	names_index_destroy(lookups->index);
	names_answer_finish(&lookups->answer);
	for (size_t i = 0; i < SETS * WAYS; i++) {
		drop_kept(&lookups->kept[i / WAYS].ways[i % WAYS]);
	}
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
