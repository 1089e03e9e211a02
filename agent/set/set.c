#include "agent/set/set.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "agent/set/place.h"
#include "agent/set/write.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/render/failover.h"

enum { BUCKETS = 256, AGAIN_MS = 1000, READ_AT_ONCE = 512 };

struct sets {
	struct ev_loop *loop;
	struct cache *cache;
	const char *domain;
	struct set_followed *buckets[BUCKETS];
	size_t count;
	struct list idle; /* the longest one first */
	size_t idle_count;
	struct timer lingering;
	struct list due;
	ev_prepare wake; /* never started: fed */
	/*
	 * Of no length: the loop goes on. An evaluation comes behind the cache's turn, which
	 * would not have another one for new observers before it sleeps.
	 */
	struct timer more;
};

struct set_followed {
	struct sets *sets;
	struct set_followed *next_in_bucket;
	uint64_t hash;
	char *id; /* all of the key, as text */
	struct set_key key;
	struct names_name name; /* likewise, without the further paths */
	struct set_reader reader;
	struct list users;
	struct list idle;
	int64_t idle_since_ms;
	struct list due;
	struct list places;
	unsigned round;
	struct failover failover;
	struct timer timer;  /* of what is due without a change */
	int64_t patience_ms; /* until then further paths may take; 0: the nearest is not known */
	struct cache_wait confirmation;
	bool confirming;
	bool answered;   /* a confirmation has come, or not */
	struct set *set; /* NULL: not known */
	bool stale;
	unsigned used;                   /* so many paths are in use */
	const struct set_place *refused; /* the nearest path is not known because of it */
};

/* ---- sets ---- */

void set_hold(struct set *set)
{
	set->references++;
}

void set_release(struct set *set)
{
	if (!set || --set->references > 0) {
		return;
	}
	for (size_t i = 0; i < set->count; i++) {
		set_record_release(set->members[i].record);
	}
	free(set->members);
	free(set->json);
	free(set);
}

/* ---- what is due ---- */

static void mark_due(struct set_followed *followed)
{
	struct sets *sets = followed->sets;
	list_remove(&followed->due);
	list_append(&sets->due, &followed->due);
	ev_feed_event(sets->loop, &sets->wake, EV_CUSTOM);
}

static void on_due(void *context)
{
	mark_due(context);
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

/* ---- places ---- */

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
			cache_at(followed->sets->cache, path), path, scope, on_due, followed);
		list_append(&followed->places, &place->link);
		timer_start(&followed->sets->more, 0);
	}
	place->rank = place->round == followed->round ? place->rank : rank;
	place->round = followed->round;
	return place;
}

static void drop_places(struct set_followed *followed, bool all)
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
	bool late; /* further paths have had their time */
	bool more; /* records are still to be read */
	/* of the path that is being read: */
	unsigned rank;
	bool live;
	bool refused;
	size_t instances;
	bool nearest_confirmed;
	bool exists;
	struct set_member *members;
	size_t count;
};

static void collect(void *context, const char *path, const void *record)
{
	struct evaluation *evaluation = context;
	const struct set_record *found = record;
	const struct set_key *key = &evaluation->followed->key;
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
		evaluation->refused = true;
		return NAMES_NODE_UNKNOWN;
	}
	if (place->state == SET_PLACE_LOADING) {
		return NAMES_NODE_PENDING;
	}
	evaluation->live = evaluation->live && set_place_is_live(place);
	if (!set_place_read(place, &followed->reader, &evaluation->may_read)) {
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
	return names_below(&below, &followed->name, root)
		? names_find(&below, &source, collect, evaluation)
		: (struct names_found){ .found = false };
}

static struct names_found find_path(struct evaluation *evaluation, const char *root)
{
	const struct set_key *key = &evaluation->followed->key;
	char path[LIMIT_PATH_BYTES + 1];
	struct names_found result = { .found = false };
	if (strlen(root) + strlen(key->what) >= sizeof(path)) {
		return result;
	}
	strcpy(stpcpy(path, root), *root && strcmp(key->what, "/") == 0 ? "" : key->what);
	struct set_place *place = need_place(evaluation->followed, evaluation->rank, path,
		key->kind == SET_NAMES ? CACHE_TREE : CACHE_CHILDREN_TOO);
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

/* Of the paths of these ranks. */
static enum cache_verdict confirm(
	struct set_followed *followed, unsigned from, unsigned to, int64_t now_ms);

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
	const char *root = index == 0 ? "" : followed->key.further[index - 1];
	evaluation->rank = (unsigned)index;
	evaluation->live = true;
	evaluation->refused = false;
	evaluation->instances = 0;
	struct names_found found = followed->key.kind == SET_OF_NAME ? find_name(evaluation, root)
								     : find_path(evaluation, root);
	bool known = !found.pending && !found.unknown;
	bool confirmed = known && evaluation->live &&
		confirm(followed, evaluation->rank, evaluation->rank + 1, evaluation->now_ms) ==
			CACHE_READY;
	if (!known) {
		cut(evaluation, evaluation->rank);
		evaluation->instances = 0;
	}
	if (index == 0) {
		evaluation->nearest_confirmed = confirmed;
	}
	evaluation->exists = evaluation->exists || (known && found.found);
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

/* May what was read take the place of the set before? */
static bool may_replace(const struct evaluation *evaluation, size_t serving)
{
	const struct set_followed *followed = evaluation->followed;
	const struct set *before = followed->set;
	bool blocked = followed->failover.blocked;
	if (!before) {
		return serving > 0 || !blocked || evaluation->late;
	}
	bool unknown = !before->confirmed || (before->doubtful && before->count == 0);
	return evaluation->nearest_confirmed && (serving > 0 || !blocked || unknown) &&
		(serving >= followed->key.least || unknown);
}

/* Takes the members. True: the set is another one than before. */
static bool publish(struct evaluation *evaluation, size_t serving)
{
	struct set_followed *followed = evaluation->followed;
	struct set *set = allocate_zeroed(1, sizeof(*set));
	*set = (struct set){ .references = 1,
		.exists = evaluation->exists,
		.confirmed = evaluation->nearest_confirmed,
		.doubtful = followed->failover.blocked,
		.enough = serving >= followed->key.least,
		.members = evaluation->members,
		.count = evaluation->count };
	evaluation->members = NULL;
	evaluation->count = 0;
	if (set->count > 0) {
		qsort(set->members, set->count, sizeof(*set->members), by_nearness);
	}
	set_write_json(set, &followed->key);
	const struct set *before = followed->set;
	if (before && before->version == set->version) {
		set_release(set);
		return false;
	}
	set_release(followed->set);
	followed->set = set;
	return true;
}

/* When something is due although nothing changes. */
static void schedule(struct set_followed *followed, int64_t now_ms)
{
	int64_t due_ms = failover_due_ms(&followed->failover, followed->key.hold_ms, now_ms);
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

static bool is_stale(const struct set_followed *followed)
{
	bool live = true;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		const struct set_place *place = LIST_ITEM(at, struct set_place, link);
		live = live &&
			(place->rank >= followed->used || set_place_is_live(place) ||
				place->state == SET_PLACE_LOADING);
	}
	return !live;
}

static void evaluate(struct set_followed *followed)
{
	int64_t now_ms = clock_monotonic_ms();
	struct evaluation evaluation = { .followed = followed,
		.now_ms = now_ms,
		.may_read = READ_AT_ONCE,
		.late = followed->set ||
			(followed->patience_ms > 0 && now_ms >= followed->patience_ms) };
	const struct set_place *refused = followed->refused;
	const struct set_key *key = &followed->key;
	followed->refused = NULL;
	followed->round++;
	size_t used = failover_walk(&followed->failover, key->further_count + 1,
		key->least > 0 ? key->least : 1, key->hold_ms, now_ms, know, &evaluation);
	bool news = refused != followed->refused;
	if (used > 0) {
		followed->used = (unsigned)used;
		cut(&evaluation, (unsigned)used);
		if (!evaluation.more) {
			drop_places(followed, false);
		}
		size_t serving = count_serving(&evaluation);
		bool may = may_replace(&evaluation, serving);
		news = (may && publish(&evaluation, serving)) || news;
	}
	cut(&evaluation, 0);
	free(evaluation.members);
	bool stale = is_stale(followed);
	news = news || stale != followed->stale || followed->answered;
	followed->stale = stale;
	followed->answered = false;
	schedule(followed, now_ms);
	if (evaluation.more) {
		list_remove(&followed->due);
		list_append(&followed->sets->due, &followed->due);
		timer_start(&followed->sets->more, 0);
	}
	if (news) {
		tell(followed);
	}
}

/* Places that were refused are tried again after a while. */
static void on_timer(void *context)
{
	struct set_followed *followed = context;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		struct set_place *place = LIST_ITEM(at, struct set_place, link);
		if (place->state == SET_PLACE_REFUSED) {
			set_place_renew(place, cache_at(followed->sets->cache, place->path));
		}
	}
	mark_due(followed);
}

/* ---- confirmation ---- */

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	struct set_followed *followed = context;
	(void)answer;
	(void)err;
	followed->confirming = false;
	followed->answered = true;
	mark_due(followed);
}

/*
 * A live place counts as long as its server was heard lately; a silent server is asked. The worst
 * of all counts.
 */
static enum cache_verdict confirm(
	struct set_followed *followed, unsigned from, unsigned to, int64_t now_ms)
{
	enum cache_verdict worst = CACHE_READY;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		const struct set_place *place = LIST_ITEM(at, struct set_place, link);
		bool asks = !followed->confirming;
		if (place->rank < from || place->rank >= to || place->state != SET_PLACE_KNOWN) {
			continue;
		}
		enum cache_verdict verdict = cache_confirm(
			place->cache, now_ms, asks ? &followed->confirmation : NULL);
		if (verdict == CACHE_WAITING) {
			followed->confirming = true;
		} else if (verdict == CACHE_UNAVAILABLE && !asks) {
			verdict = CACHE_WAITING; /* or it is known soon that it is away */
		}
		worst = verdict == CACHE_READY || worst == CACHE_UNAVAILABLE ? worst : verdict;
	}
	return worst;
}

static void visit_nothing(void *context, const struct cache_record *record)
{
	(void)context;
	(void)record;
}

static int64_t age_of(const struct set_followed *followed, int64_t now_ms)
{
	int64_t age_ms = 0;
	for (struct list *at = followed->places.next; at != &followed->places; at = at->next) {
		const struct set_place *place = LIST_ITEM(at, struct set_place, link);
		if (place->state == SET_PLACE_KNOWN && place->rank < followed->used) {
			struct cache_picture picture = cache_read_picture(
				&place->observer, now_ms, visit_nothing, NULL);
			age_ms = picture.age_ms > age_ms ? picture.age_ms : age_ms;
		}
	}
	return age_ms;
}

struct set_view set_look(struct set_user *user, bool ask)
{
	struct set_followed *followed = user->followed;
	int64_t now_ms = clock_monotonic_ms();
	struct set_view view = { .set = followed->set, .cache = followed->sets->cache };
	if (!followed->set) {
		view.state = followed->refused ? SET_REFUSED : SET_LOADING;
		view.err = followed->refused ? &followed->refused->err : NULL;
		return view;
	}
	enum cache_verdict verdict = followed->stale ? CACHE_UNAVAILABLE
		: ask                                ? confirm(followed, 0, followed->used, now_ms)
						     : CACHE_READY;
	view.state = verdict == CACHE_UNAVAILABLE ? SET_STALE : SET_READY;
	view.confirming = verdict == CACHE_WAITING;
	view.age_ms = view.state == SET_STALE ? age_of(followed, now_ms) : 0;
	return view;
}

/* ---- followed sets ---- */

static char *id_of(const struct set_key *key)
{
	struct buffer out;
	size_t len;
	const char *const texts[] = { key->what, key->filter.api, key->filter.protocol,
		key->filter.scope, key->filter.attributes, key->near };
	buffer_init(&out, SIZE_MAX);
	buffer_printf(&out, "%d %u %lld", (int)key->kind, key->least, (long long)key->hold_ms);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		buffer_printf(&out, "%c%s", texts[i] ? '\1' : '\2', texts[i] ? texts[i] : "");
	}
	for (size_t i = 0; i < key->further_count; i++) {
		buffer_printf(&out, "\3%s", key->further[i]);
	}
	return allocated(buffer_take(&out, &len));
}

static char *copy(const char *text)
{
	return text ? allocate_text(text) : NULL;
}

static void copy_key(struct set_key *to, const struct set_key *from)
{
	*to = *from;
	to->what = allocate_text(from->what);
	to->filter = (struct render_filter){ copy(from->filter.api), copy(from->filter.protocol),
		copy(from->filter.scope), copy(from->filter.attributes) };
	to->near = copy(from->near);
	char **further = allocate_zeroed(from->further_count + 1, sizeof(*further));
	for (size_t i = 0; i < from->further_count; i++) {
		further[i] = allocate_text(from->further[i]);
	}
	to->further = further;
}

static void free_key(struct set_key *key)
{
	const char *const texts[] = { key->what, key->filter.api, key->filter.protocol,
		key->filter.scope, key->filter.attributes, key->near };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		free((char *)(uintptr_t)texts[i]);
	}
	for (size_t i = 0; i < key->further_count; i++) {
		free(key->further[i]);
	}
	free((char **)(uintptr_t)key->further);
}

static bool read_name(struct set_followed *followed)
{
	struct names_labels labels;
	if (!names_split(&labels, followed->key.what)) {
		return false;
	}
	(void)names_take_domain(&labels, followed->sets->domain);
	names_read(&followed->name, &labels, "");
	followed->reader.name = &followed->name;
	return names_can_be(&followed->name);
}

static struct set_followed *create(struct sets *sets, const struct set_key *key, char *id_taken)
{
	struct set_followed *followed = allocate_zeroed(1, sizeof(*followed));
	followed->sets = sets;
	followed->id = id_taken;
	followed->hash = hash_text(HASH_INIT, id_taken);
	copy_key(&followed->key, key);
	followed->reader.filter = key->kind == SET_NAMES ? NULL : &followed->key.filter;
	bool can_be = key->kind != SET_OF_NAME || read_name(followed);
	list_init(&followed->users);
	list_init(&followed->idle);
	list_init(&followed->due);
	list_init(&followed->places);
	timer_init(&followed->timer, sets->loop, "set", on_timer, followed);
	followed->confirmation.on_answer = on_confirmed;
	followed->confirmation.context = followed;
	struct set_followed **bucket = &sets->buckets[followed->hash % BUCKETS];
	followed->next_in_bucket = *bucket;
	*bucket = followed;
	sets->count++;
	if (can_be) {
		evaluate(followed);
	} else {
		struct evaluation none = { .followed = followed, .nearest_confirmed = true };
		(void)publish(&none, 0);
	}
	return followed;
}

static void destroy(struct set_followed *followed)
{
	struct sets *sets = followed->sets;
	struct set_followed **at = &sets->buckets[followed->hash % BUCKETS];
	while (*at != followed) {
		at = &(*at)->next_in_bucket;
	}
	*at = followed->next_in_bucket;
	sets->count--;
	sets->idle_count--;
	list_remove(&followed->idle);
	list_remove(&followed->due);
	timer_stop(&followed->timer);
	if (followed->confirming) {
		cache_cancel(&followed->confirmation);
	}
	drop_places(followed, true);
	set_release(followed->set);
	free_key(&followed->key);
	free(followed->id);
	free(followed);
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
		(sets->idle_count > SETS_IDLE_MOST ||
			now_ms - first->idle_since_ms >= SETS_LINGER_MS)) {
		destroy(first);
	}
	if (first) {
		timer_start(&sets->lingering, first->idle_since_ms + SETS_LINGER_MS - now_ms);
	}
}

void set_follow(struct sets *sets, struct set_user *user, const struct set_key *key)
{
	char *id = id_of(key);
	struct set_followed *followed = sets->buckets[hash_text(HASH_INIT, id) % BUCKETS];
	while (followed && strcmp(followed->id, id) != 0) {
		followed = followed->next_in_bucket;
	}
	if (followed) {
		free(id);
	} else {
		followed = create(sets, key, id);
		sets->idle_count++;
		list_append(&sets->idle, &followed->idle);
	}
	if (list_empty(&followed->users)) {
		sets->idle_count--;
		list_remove(&followed->idle);
	}
	list_append(&followed->users, &user->link);
	user->followed = followed;
}

void set_leave(struct set_user *user)
{
	struct set_followed *followed = user->followed;
	if (!followed) {
		return;
	}
	struct sets *sets = followed->sets;
	user->followed = NULL;
	list_remove(&user->link);
	if (list_empty(&followed->users)) {
		followed->idle_since_ms = clock_monotonic_ms();
		list_append(&sets->idle, &followed->idle);
		/* Never from here, which may be inside of its own work. */
		if (++sets->idle_count > SETS_IDLE_MOST || !timer_runs(&sets->lingering)) {
			timer_start(&sets->lingering,
				sets->idle_count > SETS_IDLE_MOST ? 0 : SETS_LINGER_MS);
		}
	}
}

static void on_wake(struct ev_loop *loop, ev_prepare *wake, int events)
{
	(void)loop;
	(void)events;
	struct sets *sets = wake->data;
	struct list due;
	list_init(&due);
	list_move_all(&due, &sets->due);
	while (!list_empty(&due)) {
		struct set_followed *followed = LIST_ITEM(due.next, struct set_followed, due);
		list_remove(&followed->due);
		evaluate(followed);
	}
}

static void on_more(void *context)
{
	struct sets *sets = context;
	if (!list_empty(&sets->due)) {
		ev_feed_event(sets->loop, &sets->wake, EV_CUSTOM);
	}
}

void sets_rewire(struct sets *sets)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct set_followed *followed = sets->buckets[i]; followed;
			followed = followed->next_in_bucket) {
			for (struct list *at = followed->places.next; at != &followed->places;
				at = at->next) {
				struct set_place *place = LIST_ITEM(at, struct set_place, link);
				struct cache *cache = cache_at(sets->cache, place->path);
				if (place->cache != cache) {
					set_place_renew(place, cache);
				}
			}
			mark_due(followed);
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
	list_init(&sets->due);
	timer_init(&sets->lingering, loop, "sets that nobody asks for", on_lingering, sets);
	timer_init(&sets->more, loop, "more of sets", on_more, sets);
	ev_prepare_init(&sets->wake, on_wake);
	sets->wake.data = sets;
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
	ev_clear_pending(sets->loop, &sets->wake);
	free(sets);
}
