#include "xds/follow.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/random_bytes.h"
#include "lib/base/share.h"
#include "lib/program/memory.h"
#include "lib/render/failover.h"
#include "xds/log.h"
#include "xds/name.h"
#include "xds/side.h"

enum {
	BUCKETS = 1024,
	ENCODED_MAX = 64 << 20,
	FULL_AGAIN_MS = 1000,
	FULL_AT_ONCE = 256,
	ODD_NAMES_MAX = 16
};

struct follow {
	struct follow *next_in_bucket;
	struct list link; /* on world->changed; or on no list */
	struct list idle; /* on world->idle while nobody follows it */
	int64_t idle_since_ms;
	struct world *world;
	struct follow_quota *quota; /* of who made it; or NULL */
	struct side *sides;         /* as many as the world has roots */
	struct failover failover;
	struct list full; /* on world->full: tried again when there is room */
	struct list hold; /* on world->holding while a decision is due */
	int64_t hold_due_ms;
	struct list users;
	bool known;
	struct assignment assignment;
	char *encoded; /* the assignment; NULL until it is needed */
	size_t encoded_len;
	uint64_t version; /* of it; 0 until it is encoded */
	char name[];
};

/* One path of `serve`. */
struct serve {
	char *path;
	bool recursive;
	struct world *world;
	struct tree_observer observer;
};

struct world {
	struct trees *trees;
	char *domain;
	char *zone;   /* NULL: no preference */
	char **roots; /* of the paths that a name means, the nearest first: "" */
	size_t root_count;
	int64_t failover_hold_ms;
	unsigned min_instances;
	uint64_t seed;
	struct follow *buckets[BUCKETS];
	size_t count;
	struct list changed; /* followed names whose trees have changed */
	struct list idle;    /* the longest one first */
	struct list full;
	int64_t retried_ms;
	struct list holding;
	struct list users; /* struct world_user */
	struct serve *serves;
	size_t serve_count;
	bool serve_changed;
	bool names_known;
	char **names;
	size_t name_count;
	uint64_t encodings;
	uint64_t refused;
	unsigned odd_names;    /* that can mean nothing */
	struct log_rate lines; /* that records and names cause */
};

/* ---- the world ---- */

static void on_serve_change(void *context, const char *path)
{
	struct serve *serve = context;
	(void)path;
	serve->world->serve_changed = true;
}

static void add_serve(struct world *world, const char *path)
{
	static const char all[] = "/**";
	size_t len = strlen(path);
	struct serve *serve = &world->serves[world->serve_count++];
	serve->recursive = len >= sizeof(all) - 1 && strcmp(path + len - sizeof(all) + 1, all) == 0;
	len -= serve->recursive ? sizeof(all) - 1 : 0;
	serve->path = len > 0 ? memory_text(path, len) : memory_text("/", 1);
	serve->world = world;
	serve->observer = (struct tree_observer){ .on_change = on_serve_change, .context = serve };
	list_init(&serve->observer.link);
}

static void add_roots(struct world *world, const struct world_options *options)
{
	const char *const *failover = options->failover;
	size_t count = 0;
	while (failover && failover[count]) {
		count++;
	}
	world->roots = memory_zeroed(count + 1, sizeof(*world->roots));
	world->roots[world->root_count++] = memory_text("", 0);
	for (size_t i = 0; i < count; i++) {
		world->roots[world->root_count++] = memory_text(failover[i], strlen(failover[i]));
	}
	world->failover_hold_ms = options->failover_hold_ms;
}

struct world *world_create(const struct world_options *options)
{
	struct world *world = memory_zeroed(1, sizeof(*world));
	size_t count = 0;
	while (options->serve[count]) {
		count++;
	}
	world->trees = trees_create(options->berth, options->max_streams);
	world->domain = memory_text(options->domain, strlen(options->domain));
	world->zone = options->zone ? memory_text(options->zone, strlen(options->zone)) : NULL;
	add_roots(world, options);
	world->min_instances = options->min_instances;
	world->serves = memory_zeroed(count + 1, sizeof(*world->serves));
	for (size_t i = 0; i < count; i++) {
		add_serve(world, options->serve[i]);
	}
	list_init(&world->changed);
	list_init(&world->idle);
	list_init(&world->full);
	list_init(&world->holding);
	list_init(&world->users);
	world->lines = (struct log_rate)LOG_RATE_OF_ALL;
	(void)random_bytes(&world->seed, sizeof(world->seed));
	return world;
}

static struct follow **bucket_of(struct world *world, const char *name, size_t len)
{
	return &world->buckets[hash_bytes(world->seed, name, len) % BUCKETS];
}

static void destroy_follow(struct follow *follow)
{
	struct world *world = follow->world;
	struct follow **at = bucket_of(world, follow->name, strlen(follow->name));
	while (*at != follow) {
		at = &(*at)->next_in_bucket;
	}
	*at = follow->next_in_bucket;
	world->count--;
	if (follow->quota) {
		follow->quota->names--;
	}
	list_remove(&follow->full);
	for (size_t i = 0; i < world->root_count; i++) {
		side_finish(&follow->sides[i]);
	}
	list_remove(&follow->link);
	list_remove(&follow->idle);
	list_remove(&follow->hold);
	free(follow->sides);
	assignment_finish(&follow->assignment);
	free(follow->encoded);
	free(follow);
}

static struct follow *first_idle(const struct world *world)
{
	return list_empty(&world->idle) ? NULL : LIST_ITEM(world->idle.next, struct follow, idle);
}

static void free_names(struct world *world)
{
	for (size_t i = 0; i < world->name_count; i++) {
		free(world->names[i]);
	}
	free(world->names);
	world->names = NULL;
	world->name_count = 0;
}

void world_destroy(struct world *world)
{
	while (first_idle(world)) {
		destroy_follow(first_idle(world));
	}
	for (size_t i = 0; i < world->serve_count; i++) {
		tree_unobserve(&world->serves[i].observer);
		free(world->serves[i].path);
	}
	free_names(world);
	free(world->serves);
	free(world->domain);
	free(world->zone);
	for (size_t i = 0; i < world->root_count; i++) {
		free(world->roots[i]);
	}
	free(world->roots);
	trees_destroy(world->trees);
	free(world);
}

struct world_counts world_counts(const struct world *world)
{
	struct world_counts counts = { .names = world->count,
		.streams = trees_count(world->trees),
		.encodings = world->encodings,
		.refused = world->refused };
	for (size_t i = 0; i < BUCKETS; i++) {
		for (const struct follow *at = world->buckets[i]; at; at = at->next_in_bucket) {
			counts.left_out += at->assignment.left_out;
		}
	}
	return counts;
}

int world_trouble(const struct world *world, struct berth_failure *ret_failure)
{
	return trees_trouble(world->trees, ret_failure);
}

/* ---- names: from the trees to a set ---- */

/* Does a name with this meaning mean the record? */
static bool means(const struct name_meaning *meaning, const struct member *member)
{
	return member_has(member, meaning->labels, true) &&
		member_has(member, meaning->selection, false);
}

struct collecting {
	struct assignment *assignment;
	const struct name_meaning *meaning;
	const char *service;
	unsigned rank;
};

static void collect(void *context, const char *path, const struct member *member)
{
	const struct collecting *collecting = context;
	(void)path;
	if (means(collecting->meaning, member)) {
		assignment_add(
			collecting->assignment, member, collecting->service, collecting->rank);
	}
}

/* The service that the name asks for; "": all. */
static const char *service_of(const struct follow *follow)
{
	const char *service = follow->sides[0].meaning.service;
	return service ? service : "";
}

struct counting {
	const struct name_meaning *meaning;
	const char *service;
	size_t instances;
};

static void count_instance(void *context, const char *path, const struct member *member)
{
	struct counting *counting = context;
	bool offers = false;
	(void)path;
	bool counts = member->weight > 0 && means(counting->meaning, member);
	for (size_t i = 0; !offers && counts && i < member->count; i++) {
		offers = member_offers(member, &member->endpoints[i], counting->service);
	}
	counting->instances += offers;
}

struct reading {
	struct follow *follow;
	bool confirmed; /* the nearest side */
};

/* False: the nearest side is not known. */
static bool know_side(void *context, size_t index, struct failover_path *ret_path)
{
	struct reading *reading = context;
	struct counting counting = { .meaning = &reading->follow->sides[0].meaning,
		.service = service_of(reading->follow) };
	bool confirmed;
	bool loaded = side_read(
		&reading->follow->sides[index], &confirmed, count_instance, &counting);
	*ret_path = (struct failover_path){ .confirmed = loaded && confirmed,
		.instances = counting.instances };
	reading->confirmed = index == 0 ? ret_path->confirmed : reading->confirmed;
	return loaded || index > 0;
}

/* A decision that is due without a change is made by world_update(). */
static void note_hold(struct follow *follow, int64_t now_ms)
{
	struct world *world = follow->world;
	int64_t due_ms = failover_due_ms(&follow->failover, world->failover_hold_ms, now_ms);
	list_remove(&follow->hold);
	if (due_ms >= 0) {
		follow->hold_due_ms = now_ms + due_ms;
		list_append(&world->holding, &follow->hold);
	}
}

/* False while the nearest side is not known. */
static bool read_set(struct follow *follow, struct assignment *ret_assignment, bool *ret_confirmed,
	int64_t now_ms)
{
	const struct world *world = follow->world;
	struct reading reading = { .follow = follow };
	size_t used = failover_walk(&follow->failover, world->root_count,
		world->min_instances > 0 ? world->min_instances : 1, world->failover_hold_ms,
		now_ms, know_side, &reading);
	*ret_confirmed = reading.confirmed;
	for (size_t i = 0; i < used; i++) {
		struct collecting collecting = { .assignment = ret_assignment,
			.meaning = &follow->sides[0].meaning,
			.service = service_of(follow),
			.rank = (unsigned)i };
		bool confirmed;
		(void)side_read(&follow->sides[i], &confirmed, collect, &collecting);
	}
	assignment_complete(ret_assignment, world->zone);
	note_hold(follow, now_ms);
	return used > 0;
}

/* Whether a set that was read takes the place of the one before. */
static bool may_replace(const struct follow *follow, const struct assignment *set, bool confirmed)
{
	/* A further path that is not confirmed yet may have the endpoints of an empty set. */
	if (set->count == 0 && follow->failover.blocked) {
		return false;
	}
	if (!follow->known) {
		return confirmed || set->count > 0;
	}
	return confirmed && set->instances >= follow->world->min_instances &&
		!assignment_equal(set, &follow->assignment);
}

/* True when the set has changed. */
static bool read_again(struct follow *follow, int64_t now_ms)
{
	struct assignment set;
	bool confirmed;
	assignment_init(&set);
	list_remove(&follow->full);
	bool changed = read_set(follow, &set, &confirmed, now_ms) &&
		may_replace(follow, &set, confirmed);
	if (changed && set.left_out > 0 && set.left_out != follow->assignment.left_out) {
		log_limited(&follow->world->lines, "warn",
			"%s: %zu addresses cannot be sent: not an IP address, or without a "
			"port",
			follow->name, set.left_out);
	}
	if (changed) {
		assignment_finish(&follow->assignment);
		follow->assignment = set;
		follow->known = true;
		follow->version = 0;
		free(follow->encoded);
		follow->encoded = NULL;
	} else {
		assignment_finish(&set);
	}
	if (follow_is_full(follow)) {
		list_append(&follow->world->full, &follow->full);
	}
	return changed;
}

static void mark_changed(struct follow *follow)
{
	list_remove(&follow->link);
	list_append(&follow->world->changed, &follow->link);
}

static void on_tree_change(void *context, const char *path)
{
	struct follow *follow = context;
	bool concerned = !path;
	for (size_t i = 0; !concerned && i < follow->world->root_count; i++) {
		concerned = side_concerns(&follow->sides[i], path);
	}
	if (concerned) {
		mark_changed(follow);
	}
}

static void tell_users(struct follow *follow)
{
	struct list *link = follow->users.next;
	while (link != &follow->users) {
		struct follow_user *user = LIST_ITEM(link, struct follow_user, link);
		link = link->next;
		user->owner->on_change(user->owner->context, user);
	}
}

/* ---- names: users ---- */

static void observe_sides(struct follow *follow)
{
	struct tree_quota *quota = follow->quota ? &follow->quota->trees : NULL;
	const struct world *world = follow->world;
	const struct tree_observer observer = { .on_change = on_tree_change, .context = follow };
	follow->sides = memory_zeroed(world->root_count, sizeof(*follow->sides));
	for (size_t i = 0; i < world->root_count; i++) {
		side_init(&follow->sides[i], world->trees, quota, follow->name, world->domain,
			world->roots[i], &observer);
	}
}

static void hint_at_odd_name(struct world *world, const struct follow *follow)
{
	if (!follow_can_mean(follow) && world->odd_names++ < ODD_NAMES_MAX) {
		log_line("warn",
			"\"%s\" has no endpoints, since no record can have that name: write "
			"INSTANCE.CLASS.USER, _SERVICE._tcp. and such a name, or a path",
			follow->name);
	}
}

static struct follow *create_follow(
	struct world *world, struct follow_quota *quota, const char *name, size_t len)
{
	struct follow **bucket = bucket_of(world, name, len);
	struct follow *follow = memory_zeroed(1, sizeof(*follow) + len + 1);
	follow->world = world;
	follow->quota = quota;
	if (quota) {
		quota->names++;
	}
	memcpy(follow->name, name, len);
	list_init(&follow->link);
	list_init(&follow->idle);
	list_init(&follow->full);
	list_init(&follow->hold);
	list_init(&follow->users);
	assignment_init(&follow->assignment);
	follow->next_in_bucket = *bucket;
	*bucket = follow;
	world->count++;
	observe_sides(follow);
	mark_changed(follow);
	hint_at_odd_name(world, follow);
	return follow;
}

static struct follow *find_follow(struct world *world, const char *name, size_t len)
{
	struct follow *at = *bucket_of(world, name, len);
	while (at && (strlen(at->name) != len || memcmp(at->name, name, len) != 0)) {
		at = at->next_in_bucket;
	}
	return at;
}

/*
 * A name that nobody asks for any more gives way: one of the same quota, since that may have its
 * share, or any when all is taken. False: there is none.
 */
static bool make_room(struct world *world, const struct follow_quota *quota)
{
	bool any = world->count >= FOLLOW_NAMES_MAX || trees_are_full(world->trees);
	for (struct list *at = world->idle.next; at != &world->idle; at = at->next) {
		struct follow *follow = LIST_ITEM(at, struct follow, idle);
		if (any || follow->quota == quota) {
			destroy_follow(follow);
			return true;
		}
	}
	return false;
}

static bool may_follow(const struct world *world, const struct follow_quota *quota)
{
	return share_allows(quota ? quota->names : 0, world->count, FOLLOW_NAMES_MAX);
}

/* NULL: there is no room. */
static struct follow *try_to_follow(
	struct world *world, struct follow_quota *quota, const char *name, size_t len)
{
	struct follow *follow = may_follow(world, quota) ? create_follow(world, quota, name, len)
							 : NULL;
	if (follow && follow_is_full(follow)) {
		destroy_follow(follow);
		return NULL;
	}
	return follow;
}

bool follow_take(struct world *world, struct follow_user *user, const char *name, size_t len)
{
	struct follow *follow = find_follow(world, name, len);
	struct follow_quota *quota = user->owner->quota;
	user->follow = NULL;
	list_init(&user->link);
	do {
		follow = follow ? follow : try_to_follow(world, quota, name, len);
	} while (!follow && make_room(world, quota));
	if (!follow) {
		world->refused++;
		return false;
	}
	list_remove(&follow->idle);
	list_append(&follow->users, &user->link);
	user->follow = follow;
	return true;
}

void follow_release(struct follow_user *user, int64_t now_ms)
{
	struct follow *follow = user->follow;
	if (!follow) {
		return;
	}
	user->follow = NULL;
	list_remove(&user->link);
	if (list_empty(&follow->users)) {
		follow->idle_since_ms = now_ms;
		list_append(&follow->world->idle, &follow->idle);
	}
}

const char *follow_name(const struct follow *follow)
{
	return follow->name;
}

bool follow_can_mean(const struct follow *follow)
{
	return follow->sides[0].meaning.count > 0;
}

bool follow_known(const struct follow *follow)
{
	return follow->known;
}

bool follow_is_full(const struct follow *follow)
{
	bool full = false;
	for (size_t i = 0; i < follow->world->root_count && !full; i++) {
		full = side_is_full(&follow->sides[i]);
	}
	return full;
}

bool follow_whole(const struct follow *follow)
{
	return follow->known && !follow->failover.blocked;
}

const struct assignment *follow_assignment(const struct follow *follow)
{
	return &follow->assignment;
}

static uint64_t version_of(const struct buffer *encoded)
{
	uint64_t hash = hash_bytes(HASH_INIT, buffer_text(encoded), encoded->len);
	return hash ? hash : 1;
}

static void encode_endpoints(struct follow *follow)
{
	if (follow->version == 0) {
		struct buffer encoded;
		buffer_init(&encoded, ENCODED_MAX);
		resource_encode(&encoded, RESOURCE_ENDPOINTS, follow->name, &follow->assignment);
		follow->version = version_of(&encoded);
		/* A copy without room to grow: there are many, which stay. */
		follow->encoded = memory_text(buffer_text(&encoded), encoded.len);
		follow->encoded_len = encoded.len;
		buffer_finish(&encoded);
		follow->world->encodings++;
	}
}

uint64_t follow_version(struct follow *follow, enum resource_type type)
{
	if (type == RESOURCE_ENDPOINTS) {
		encode_endpoints(follow);
		return follow->version;
	}
	struct buffer encoded;
	buffer_init(&encoded, ENCODED_MAX);
	resource_encode(&encoded, type, follow->name, &follow->assignment);
	uint64_t version = version_of(&encoded);
	buffer_finish(&encoded);
	return version;
}

void follow_encode(struct follow *follow, enum resource_type type, struct buffer *out)
{
	if (type == RESOURCE_ENDPOINTS) {
		encode_endpoints(follow);
		buffer_append(out, follow->encoded, follow->encoded_len);
	} else {
		resource_encode(out, type, follow->name, &follow->assignment);
	}
}

/* ---- all names ---- */

void world_observe(struct world *world, struct world_user *user)
{
	list_append(&world->users, &user->link);
	for (size_t i = 0; i < world->serve_count; i++) {
		struct serve *serve = &world->serves[i];
		struct berth_failure failure;
		if (!serve->observer.tree &&
			tree_observe(world->trees, &serve->observer, serve->path, serve->recursive,
				NULL, &failure) != 0) {
			log_line("error", "%s: %s", serve->path, failure.message);
		}
	}
	world->serve_changed = true;
}

void world_unobserve(struct world *world, struct world_user *user)
{
	list_remove(&user->link);
	if (!list_empty(&world->users)) {
		return;
	}
	for (size_t i = 0; i < world->serve_count; i++) {
		tree_unobserve(&world->serves[i].observer);
	}
	free_names(world);
	world->names_known = false;
}

bool world_names(const struct world *world, char *const **ret_names, size_t *ret_count)
{
	*ret_names = world->names;
	*ret_count = world->name_count;
	return world->names_known;
}

static void add_name(void *context, const char *path, const struct member *member)
{
	struct world *world = context;
	char name[PATH_DNS_NAME_BYTES];
	(void)member;
	if (world->name_count < FOLLOW_NAMES_MAX && name_of_path(name, path)) {
		world->names = memory_grow(world->names, world->name_count, sizeof(*world->names));
		world->names[world->name_count++] = memory_text(name, strlen(name));
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the names, and keeps one of each. */
static void settle_names(struct world *world)
{
	size_t kept = 0;
	if (world->name_count > 0) {
		qsort(world->names, world->name_count, sizeof(*world->names), by_text);
	}
	for (size_t i = 0; i < world->name_count; i++) {
		if (kept > 0 && strcmp(world->names[kept - 1], world->names[i]) == 0) {
			free(world->names[i]);
		} else {
			world->names[kept++] = world->names[i];
		}
	}
	world->name_count = kept;
}

/* A doubtful picture takes no name away: nothing changes until it is confirmed again. */
static bool may_read_names(const struct world *world)
{
	bool confirmed = true;
	bool loaded = true;
	for (size_t i = 0; i < world->serve_count; i++) {
		const struct tree *tree = world->serves[i].observer.tree;
		loaded = loaded && tree && tree_state(tree) != TREE_LOADING;
		confirmed = confirmed && tree && tree_state(tree) == TREE_CONFIRMED;
	}
	return confirmed || (loaded && !world->names_known);
}

static void read_names(struct world *world)
{
	free_names(world);
	for (size_t i = 0; i < world->serve_count; i++) {
		const struct serve *serve = &world->serves[i];
		const struct member *own;
		if (tree_find(serve->observer.tree, serve->path, &own) && own) {
			add_name(world, serve->path, own);
		}
		if (serve->recursive) {
			tree_each(serve->observer.tree, serve->path, false, add_name, world);
		}
	}
	settle_names(world);
	world->names_known = true;
}

static void update_names(struct world *world)
{
	world->serve_changed = false;
	if (list_empty(&world->users) || !may_read_names(world)) {
		return;
	}
	read_names(world);
	for (struct list *link = world->users.next; link != &world->users; link = link->next) {
		struct world_user *user = LIST_ITEM(link, struct world_user, link);
		user->on_names(user->context);
	}
}

/* ---- what is due ---- */

bool world_has_changes(const struct world *world)
{
	return world->serve_changed || !list_empty(&world->changed);
}

static void mark_due(struct world *world, int64_t now_ms)
{
	struct list *next;
	for (struct list *at = world->holding.next; at != &world->holding; at = next) {
		struct follow *follow = LIST_ITEM(at, struct follow, hold);
		next = at->next;
		if (now_ms >= follow->hold_due_ms) {
			mark_changed(follow);
		}
	}
}

/* Once a second, and a few at a time: each may need a stream. */
static void retry_full(struct world *world, int64_t now_ms)
{
	if (now_ms - world->retried_ms < FULL_AGAIN_MS) {
		return;
	}
	world->retried_ms = now_ms;
	for (int i = 0; i < FULL_AT_ONCE && !list_empty(&world->full); i++) {
		struct follow *follow = LIST_ITEM(world->full.next, struct follow, full);
		list_remove(&follow->full);
		mark_changed(follow);
	}
}

void world_update(struct world *world, int64_t now_ms)
{
	if (world->serve_changed) {
		update_names(world);
	}
	mark_due(world, now_ms);
	retry_full(world, now_ms);
	while (!list_empty(&world->changed)) {
		struct follow *follow = LIST_ITEM(world->changed.next, struct follow, link);
		list_remove(&follow->link);
		if (read_again(follow, now_ms)) {
			tell_users(follow);
		}
	}
	struct follow *idle = first_idle(world);
	while (idle && now_ms - idle->idle_since_ms >= FOLLOW_LINGER_MS) {
		destroy_follow(idle);
		idle = first_idle(world);
	}
}
