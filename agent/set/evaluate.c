/* From the places of a question to its set. */
#include "agent/set/internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/render/locality.h"

enum { AGAIN_MS = 1000, READ_AT_ONCE = 512 };

/* ---- places ---- */

static void on_change(void *context, int64_t was_true_at_ms)
{
	struct set_followed *followed = context;
	set_keep_age(followed, was_true_at_ms);
	due_add(&followed->sets->due, &followed->due);
}

static struct set_place *find_place(
	struct set_followed *followed, const char *path, enum cache_scope scope)
{
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		struct set_place *place = LIST_ITEM(at, struct set_place, link);
		if (strcmp(place->path, path) == 0 &&
			(scope == CACHE_SELF || place->scope == scope)) {
			return place;
		}
	}
	return NULL;
}

static struct set_place *need_place(
	struct set_followed *followed, unsigned rank, const char *path, enum cache_scope scope)
{
	struct set_place *place = find_place(followed, path, scope);
	if (!place) {
		place = set_place_create(
			cache_at(followed->sets->cache, path), path, scope, on_change, followed);
		list_append(&followed->places, &place->link);
		timer_start(&followed->sets->more, 0);
	}
	place->rank = place->round == followed->round ? place->rank : rank;
	place->round = followed->round;
	return place;
}

void set_drop_places(struct set_followed *followed, bool all)
{
	struct list *next;
	for (struct list *at = followed->places.next; at != &followed->places; at = next) {
		struct set_place *place = LIST_ITEM(at, struct set_place, link);
		next = at->next;
		if (all || place->round != followed->round) {
			set_place_free(place);
		}
	}
}

/* ---- evaluation ---- */

/* One, of all paths that are needed. */
struct evaluation {
	struct set_followed *followed;
	int64_t now_ms;
	size_t may_read;
	bool late;     /* further paths have had their time */
	bool more;     /* records are still to be read */
	bool replaces; /* the set before */
	bool silent;   /* a path is live, and its server has not confirmed it */
	bool awaits;   /* a path is live, and something of it is still to come */
	/* of the path that is being read: */
	unsigned rank;
	bool live;
	size_t instances;
	bool nearest_confirmed;
	const char *missing; /* the first further path that is not confirmed */
	bool exists;
	bool by_address;
	struct set_member *members;
	size_t count;
};

static void collect(void *context, const char *path, const void *record)
{
	struct evaluation *evaluation = context;
	const struct set_record *found = record;
	const struct set_key *key = &evaluation->followed->question->key;
	(void)path;
	evaluation->members = allocate_grow(
		evaluation->members, evaluation->count, sizeof(*evaluation->members));
	evaluation->members[evaluation->count++] = (struct set_member){
		.record = set_record_hold((struct set_record *)(uintptr_t)record),
		.rank = evaluation->rank,
		.tier = render_tier(evaluation->rank, found->zone, key->near ? key->near : "")
	};
	evaluation->instances += found->weight > 0 && found->count > 0;
}

/* THERE: the place is known, and all of its records are. */
static enum names_known know_place(struct evaluation *evaluation, struct set_place *place)
{
	struct set_followed *followed = evaluation->followed;
	if (place->state == SET_PLACE_REFUSED) {
		followed->refused = followed->refused ? followed->refused : place;
		return NAMES_NODE_UNKNOWN;
	}
	if (place->state == SET_PLACE_LOADING) {
		return NAMES_NODE_PENDING;
	}
	if (place->seen != followed->round) {
		place->seen = followed->round;
		set_place_see(place, evaluation->now_ms);
	}
	evaluation->live = evaluation->live && place->whole;
	evaluation->awaits = evaluation->awaits || (!place->whole && set_place_is_live(place));
	if (!set_place_read(place, &followed->question->reader, &evaluation->may_read)) {
		evaluation->more = true;
		return NAMES_NODE_PENDING;
	}
	return NAMES_NODE_THERE;
}

static enum names_known get_node(void *context, const char *path, const void **ret_record)
{
	struct evaluation *evaluation = context;
	struct set_followed *followed = evaluation->followed;
	char parent[LIMIT_PATH_BYTES + 1];
	size_t len = path_parent_len(path);
	struct set_place *place = NULL;
	if (len > 0 && len < sizeof(parent)) {
		memcpy(parent, path, len);
		parent[len] = '\0';
		place = find_place(followed, parent, CACHE_CHILDREN_TOO);
	}
	/* A list that is used otherwise, and names the path or not. */
	if (!place || place->round != followed->round) {
		place = need_place(followed, evaluation->rank, path, CACHE_SELF);
	}
	enum names_known known = know_place(evaluation, place);
	const struct set_node *node = known == NAMES_NODE_THERE ? set_place_find(place, path)
								: NULL;
	if (!node) {
		return known == NAMES_NODE_THERE ? NAMES_NODE_ABSENT : known;
	}
	*ret_record = node->record;
	return NAMES_NODE_THERE;
}

static enum names_known get_children(
	void *context, const char *path, char *const **ret_paths, size_t *ret_count)
{
	struct evaluation *evaluation = context;
	struct set_place *place = need_place(
		evaluation->followed, evaluation->rank, path, CACHE_CHILDREN_TOO);
	enum names_known known = know_place(evaluation, place);
	if (known != NAMES_NODE_THERE) {
		return known;
	}
	*ret_paths = set_place_children(place, ret_count);
	return set_place_find(place, path) ? NAMES_NODE_THERE : NAMES_NODE_ABSENT;
}

static bool is(
	void *context, const struct names_name *name, const void *record, enum names_trait trait)
{
	(void)context;
	(void)name;
	return ((const struct set_record *)record)->is[trait];
}

static struct names_found find_name(struct evaluation *evaluation, const char *root)
{
	const struct names_source source = {
		.context = evaluation, .node = get_node, .children = get_children, .is = is
	};
	const struct set_followed *followed = evaluation->followed;
	struct names_name below;
	return names_below(&below, &followed->question->name, root)
		? names_find(&below, &source, collect, evaluation)
		: (struct names_found){ .found = false };
}

/* The path below the root, or the one that stands for itself; false: it is too long. */
static bool path_at(const struct set_key *key, unsigned rank, char out[LIMIT_PATH_BYTES + 1],
	enum cache_scope *ret_scope)
{
	static const char all[] = "/**";
	bool alone = key->kind == SET_OF_PLACES;
	const char *root = rank == 0 || alone ? "" : key->further[rank - 1];
	const char *what = rank > 0 && alone ? key->further[rank - 1] : key->what;
	size_t len = strlen(what);
	bool tree = alone && len >= strlen(all) && strcmp(what + len - strlen(all), all) == 0;
	len = tree ? len - strlen(all) : *root && strcmp(what, "/") == 0 ? 0 : len;
	*ret_scope = tree || key->kind == SET_NAMES || key->kind == SET_OF_TREE ? CACHE_TREE
		: key->kind == SET_OF_NODE                                      ? CACHE_SELF
					   : CACHE_CHILDREN_TOO;
	text_printf(out, LIMIT_PATH_BYTES + 1, "%s%.*s%s", root, (int)len, what,
		*root || len > 0 ? "" : "/");
	return strlen(root) + len <= LIMIT_PATH_BYTES;
}

static struct names_found find_path(struct evaluation *evaluation)
{
	char path[LIMIT_PATH_BYTES + 1];
	enum cache_scope scope;
	struct names_found result = { .found = false };
	const struct set_key *key = &evaluation->followed->question->key;
	if (!path_at(key, evaluation->rank, path, &scope)) {
		return result;
	}
	struct set_place *place = need_place(evaluation->followed, evaluation->rank, path, scope);
	enum names_known known = know_place(evaluation, place);
	result.pending = known == NAMES_NODE_PENDING;
	result.unknown = known == NAMES_NODE_UNKNOWN;
	result.found = known == NAMES_NODE_THERE && set_place_find(place, path);
	for (size_t i = 0; result.found && i < place->count; i++) {
		if (place->nodes[i].record) {
			collect(evaluation, place->paths[i], place->nodes[i].record);
		}
	}
	return result;
}

/* The members of ranks from this one on. */
static void cut(struct evaluation *evaluation, unsigned rank)
{
	while (evaluation->count > 0 && evaluation->members[evaluation->count - 1].rank >= rank) {
		set_record_release(evaluation->members[--evaluation->count].record);
	}
}

/* False: the nearest path is not known, or a further one may still come. */
static bool know(void *context, size_t index, struct failover_path *ret_path)
{
	struct evaluation *evaluation = context;
	struct set_followed *followed = evaluation->followed;
	const struct set_key *key = &followed->question->key;
	const char *root = index == 0 ? "" : key->further[index - 1];
	evaluation->rank = (unsigned)index;
	evaluation->live = true;
	evaluation->instances = 0;
	struct names_found found = key->kind == SET_OF_NAME ? find_name(evaluation, root)
							    : find_path(evaluation);
	bool known = !found.pending && !found.unknown;
	enum cache_verdict verdict = known && evaluation->live
		? set_confirm(
			  followed, evaluation->rank, evaluation->rank + 1, 0, evaluation->now_ms)
		: CACHE_WAITING;
	bool confirmed = verdict == CACHE_READY;
	evaluation->silent = evaluation->silent || verdict == CACHE_UNAVAILABLE;
	if (!known) {
		cut(evaluation, evaluation->rank);
		evaluation->instances = 0;
	}
	if (index == 0) {
		evaluation->nearest_confirmed = confirmed;
	} else if (!confirmed && !evaluation->missing) {
		evaluation->missing = root;
	}
	evaluation->exists = evaluation->exists || (known && found.found);
	evaluation->by_address = evaluation->by_address || (known && found.by_address);
	*ret_path = (struct failover_path){ .confirmed = confirmed,
		.instances = evaluation->instances };
	bool waits = index == 0 || (found.pending && !evaluation->late);
	if (index == 0 && known && followed->patience_ms == 0) {
		followed->patience_ms = evaluation->now_ms + SETS_FURTHER_MS;
	}
	return known || !waits;
}

static int by_nearness(const void *a, const void *b)
{
	const struct set_member *left = a;
	const struct set_member *right = b;
	int order = (left->tier > right->tier) - (left->tier < right->tier);
	return order != 0 ? order : strcmp(left->record->path, right->record->path);
}

/* Records with a member, and a weight. */
static size_t count_serving(const struct evaluation *evaluation)
{
	size_t serving = 0;
	for (size_t i = 0; i < evaluation->count; i++) {
		const struct set_record *record = evaluation->members[i].record;
		serving += record->weight > 0 && record->count > 0;
	}
	return serving;
}

/* Enough for `least`, or for a set that may be empty and is so for sure. */
static bool is_enough(const struct set_followed *followed, size_t serving)
{
	const struct set_key *key = &followed->question->key;
	return serving >= key->least ||
		(serving == 0 && key->empty_counts && !followed->failover.blocked);
}

/* Is it too little, or too doubtful, to take the place of the set before? */
static bool is_held(const struct evaluation *evaluation, size_t serving)
{
	const struct set_followed *followed = evaluation->followed;
	const struct set *before = followed->set;
	bool doubtful = serving == 0 && followed->failover.blocked;
	bool unknown = before && (!before->confirmed || (before->doubtful && before->count == 0));
	return !unknown &&
		((doubtful && (before || !evaluation->late)) ||
			(before && !is_enough(followed, serving)));
}

static uint64_t version_of(const struct set *set)
{
	uint64_t version = hash_bytes(set->question->hash, &set->enough, sizeof(set->enough));
	const bool facts[] = { set->exists, set->confirmed, set->doubtful };
	version = hash_bytes(version, facts, sizeof(facts));
	for (size_t i = 0; i < set->count; i++) {
		const struct set_member *member = &set->members[i];
		version = hash_bytes(version, &member->record->hash, sizeof(uint64_t));
		version = hash_bytes(version, &member->tier, sizeof(member->tier));
	}
	return version;
}

/* Takes the members. True: the set is another one than before. */
static bool publish(struct evaluation *evaluation, size_t serving)
{
	struct set_followed *followed = evaluation->followed;
	struct set *set = allocate_zeroed(1, sizeof(*set));
	*set = (struct set){ .references = 1,
		.question = set_question_hold(followed->question),
		.exists = evaluation->exists,
		.by_address = evaluation->by_address,
		.confirmed = evaluation->nearest_confirmed,
		.doubtful = followed->failover.blocked,
		.enough = is_enough(followed, serving),
		.members = evaluation->members,
		.count = evaluation->count };
	evaluation->members = NULL;
	evaluation->count = 0;
	if (set->count > 0) {
		qsort(set->members, set->count, sizeof(*set->members), by_nearness);
	}
	set->version = version_of(set);
	if (followed->set && followed->set->version == set->version) {
		set_release(set);
		return false;
	}
	set_release(followed->set);
	followed->set = set;
	return true;
}

void set_evaluate_to_none(struct set_followed *followed)
{
	struct evaluation none = { .followed = followed, .nearest_confirmed = true };
	followed->counted.used = 1;
	(void)publish(&none, 0);
}

static bool is_of_own_cache(const struct set_followed *followed)
{
	bool own = true;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		own = own && LIST_ITEM(at, struct set_place, link)->cache == followed->sets->cache;
	}
	return own;
}

/* Every path that is needed is known. True: there is something to tell. */
static bool take(struct evaluation *evaluation, size_t used)
{
	struct set_followed *followed = evaluation->followed;
	const struct set_count before = followed->counted;
	cut(evaluation, (unsigned)used);
	if (used < before.used) { /* the set rests on places that go */
		set_keep_age(followed, INT64_MAX - 1);
	}
	if (!evaluation->more) {
		set_drop_places(followed, false);
	}
	size_t serving = count_serving(evaluation);
	bool held = is_held(evaluation, serving);
	bool replaces = !held && (!followed->set || evaluation->nearest_confirmed);
	evaluation->replaces = replaces;
	struct set_count *now = &followed->counted;
	*now = (struct set_count){ .used = (unsigned)used,
		.serving = serving,
		.held = held,
		.missing = followed->failover.blocked ? evaluation->missing : NULL };
	followed->lasts = replaces && used == 1 && evaluation->nearest_confirmed &&
		!evaluation->more && is_of_own_cache(followed);
	bool news = replaces && publish(evaluation, serving);
	news = news || before.used != now->used || before.serving != now->serving ||
		before.held != now->held || before.missing != now->missing;
	followed->revision += news;
	return news;
}

/* When something is due although nothing changes. */
static void schedule(struct set_followed *followed, bool again, int64_t now_ms)
{
	int64_t due_ms = failover_due_ms(
		&followed->failover, followed->question->key.hold_ms, now_ms);
	/* The silence may end before the cache's next turn, which then has nothing to tell. */
	if (again && (due_ms < 0 || due_ms > AGAIN_MS)) {
		due_ms = AGAIN_MS;
	}
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		const struct set_place *place = LIST_ITEM(at, struct set_place, link);
		bool waits = place->state == SET_PLACE_REFUSED && (due_ms < 0 || due_ms > AGAIN_MS);
		due_ms = waits ? AGAIN_MS : due_ms;
	}
	int64_t left_ms = followed->patience_ms - now_ms;
	if (!followed->set && left_ms > 0 && (due_ms < 0 || left_ms < due_ms)) {
		due_ms = left_ms;
	}
	timer_stop(&followed->timer);
	if (due_ms >= 0) {
		timer_start(&followed->timer, due_ms);
	}
}

static void tell(struct set_followed *followed)
{
	struct list *next;
	for (struct list *at = followed->users.next; at != &followed->users; at = next) {
		struct set_user *user = LIST_ITEM(at, struct set_user, link);
		next = at->next;
		user->on_news(user->context);
	}
}

void set_evaluate(struct set_followed *followed)
{
	int64_t now_ms = clock_monotonic_ms();
	struct evaluation evaluation = { .followed = followed,
		.now_ms = now_ms,
		.may_read = READ_AT_ONCE,
		.late = followed->set ||
			(followed->patience_ms > 0 && now_ms >= followed->patience_ms) };
	const struct set_place *refused = followed->refused;
	const struct set_key *key = &followed->question->key;
	followed->refused = NULL;
	followed->lasts = false;
	followed->round++;
	size_t used = failover_walk(&followed->failover, key->further_count + 1,
		key->least > 0 ? key->least : 1, key->hold_ms, now_ms, know, &evaluation);
	bool news = (used > 0 && take(&evaluation, used)) || refused != followed->refused;
	if (evaluation.replaces) {
		followed->true_at_ms = 0;
	}
	if (evaluation.awaits) {
		set_keep_age(followed, INT64_MAX - 1);
	}
	cut(&evaluation, 0);
	free(evaluation.members);
	bool stale = set_is_stale(followed, followed->counted.used, false);
	news = news || stale != followed->stale || followed->answered;
	followed->stale = stale;
	followed->answered = false;
	schedule(followed, evaluation.silent || evaluation.awaits, now_ms);
	if (evaluation.more) {
		due_put_off(&followed->sets->due, &followed->due);
		timer_start(&followed->sets->more, 0);
	}
	if (news) {
		tell(followed);
	}
}
