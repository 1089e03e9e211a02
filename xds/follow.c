#include "xds/follow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lib/base/hash.h"
#include "lib/program/memory.h"
#include "xds/log.h"
#include "xds/name.h"

enum { BUCKETS = 1024, ENCODED_MAX = 64 << 20 };

/* The observers of a place that a name may mean. */
struct place {
	struct tree_observer guard;
	/* With a guard: observed only while the guard exists, or did. */
	struct tree_observer self;
};

struct follow {
	struct follow *next_in_bucket;
	struct list link; /* on world->changed; or on no list */
	struct list idle; /* on world->idle while nobody follows it */
	int64_t idle_since_ms;
	struct world *world;
	struct follow_quota *quota; /* of who made it; or NULL */
	char *name;
	struct name_meaning meaning;
	struct place *places; /* as many as in the meaning */
	struct list users;
	bool known;
	struct assignment assignment;
	char *encoded; /* the assignment; NULL until it is needed */
	size_t encoded_len;
	uint64_t version; /* of it; 0 until it is encoded */
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
	char *zone;
	unsigned min_instances;
	uint64_t seed;
	struct follow *buckets[BUCKETS];
	size_t count;
	struct list changed; /* followed names whose trees have changed */
	struct list idle;    /* the longest one first */
	struct list users;   /* struct world_user */
	struct serve *serves;
	size_t serve_count;
	bool serve_changed;
	bool names_known;
	char **names;
	size_t name_count;
	uint64_t encodings;
	uint64_t refused;
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

struct world *world_create(const struct world_options *options)
{
	struct world *world = memory_zeroed(1, sizeof(*world));
	size_t count = 0;
	while (options->serve[count]) {
		count++;
	}
	world->trees = trees_create(options->berth);
	world->domain = memory_text(options->domain, strlen(options->domain));
	world->zone = memory_text(options->zone, strlen(options->zone));
	world->min_instances = options->min_instances;
	world->serves = memory_zeroed(count + 1, sizeof(*world->serves));
	for (size_t i = 0; i < count; i++) {
		add_serve(world, options->serve[i]);
	}
	list_init(&world->changed);
	list_init(&world->idle);
	list_init(&world->users);
	world->seed = HASH_INIT;
	(void)!getrandom(&world->seed, sizeof(world->seed), GRND_NONBLOCK);
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
	for (size_t i = 0; i < follow->meaning.count; i++) {
		tree_unobserve(&follow->places[i].guard);
		tree_unobserve(&follow->places[i].self);
	}
	list_remove(&follow->link);
	list_remove(&follow->idle);
	free(follow->places);
	assignment_finish(&follow->assignment);
	free(follow->encoded);
	name_meaning_finish(&follow->meaning);
	free(follow->name);
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

struct collecting {
	struct assignment *assignment;
	const char *service;
};

static void collect(void *context, const char *path, const struct member *member)
{
	const struct collecting *collecting = context;
	(void)path;
	assignment_add(collecting->assignment, member, collecting->service);
}

static void collect_place(const struct name_place *place, const struct tree *tree, void *to)
{
	char components[NAME_TEXT_BYTES];
	const struct member *own;
	if (tree_find(tree, place->path, &own) && own) {
		collect(to, place->path, own);
	}
	if (place->shape == NAME_CHILDREN) {
		tree_each(tree, place->path, true, collect, to);
	} else if (place->shape == NAME_INSTANCE &&
		path_join(components, sizeof(components), place->path, "components", NULL) == 0) {
		tree_each(tree, components, true, collect, to);
	}
}

static void observe(struct follow *follow, struct tree_observer *observer, const char *path,
	enum name_shape shape)
{
	struct berth_failure failure;
	if (tree_observe(follow->world->trees, observer, path, shape != NAME_NODE, &failure) != 0) {
		log_line("error", "%s: %s", path, failure.message);
	}
}

static void observe_guard(struct follow *follow, size_t index)
{
	const struct name_place *place = &follow->meaning.places[index];
	char *guard = memory_text(place->path, place->guard_len);
	observe(follow, &follow->places[index].guard, guard, NAME_NODE);
	free(guard);
}

static bool guard_stands(const struct follow *follow, size_t index)
{
	const struct name_place *place = &follow->meaning.places[index];
	char *guard = memory_text(place->path, place->guard_len);
	bool stands = tree_find(follow->places[index].guard.tree, guard, NULL);
	free(guard);
	return stands;
}

/* Whether an observer's tree is loaded, for a decision that needs all of them. */
static bool is_loaded(const struct tree_observer *observer, bool *confirmed)
{
	if (!observer->tree || tree_state(observer->tree) == TREE_LOADING) {
		return false;
	}
	*confirmed = *confirmed && tree_state(observer->tree) == TREE_CONFIRMED;
	return true;
}

/* Whether a place is known; *ret_tree is NULL when its guard does not exist. */
static bool place_loaded(
	struct follow *follow, size_t index, const struct tree **ret_tree, bool *confirmed)
{
	const struct name_place *place = &follow->meaning.places[index];
	*ret_tree = NULL;
	if (place->guard_len > 0) {
		if (!is_loaded(&follow->places[index].guard, confirmed)) {
			return false;
		}
		if (!guard_stands(follow, index)) {
			return true;
		}
		if (!follow->places[index].self.tree) {
			observe(follow, &follow->places[index].self, place->path, place->shape);
		}
	}
	*ret_tree = follow->places[index].self.tree;
	return is_loaded(&follow->places[index].self, confirmed);
}

/* False while not all of the places are known. */
static bool read_set(struct follow *follow, struct assignment *ret_assignment, bool *ret_confirmed)
{
	const struct name_meaning *meaning = &follow->meaning;
	struct collecting collecting = { ret_assignment, meaning->service };
	const struct tree *trees[NAME_PLACES];
	bool loaded = true;
	bool found = false;
	*ret_confirmed = true;
	for (size_t i = 0; i < meaning->count; i++) {
		loaded = place_loaded(follow, i, &trees[i], ret_confirmed) && loaded;
	}
	for (size_t i = 0; loaded && !found && i < meaning->count; i++) {
		found = trees[i] && tree_find(trees[i], meaning->places[i].path, NULL);
		if (found) {
			collect_place(&meaning->places[i], trees[i], &collecting);
		}
	}
	assignment_complete(ret_assignment, follow->world->zone);
	return loaded;
}

/* Whether a set that was read takes the place of the one before. */
static bool may_replace(const struct follow *follow, const struct assignment *set, bool confirmed)
{
	if (!follow->known) {
		return confirmed || set->count > 0;
	}
	return confirmed && set->instances >= follow->world->min_instances &&
		!assignment_equal(set, &follow->assignment);
}

/* True when the set has changed. */
static bool read_again(struct follow *follow)
{
	struct assignment set;
	bool confirmed;
	assignment_init(&set);
	bool changed = read_set(follow, &set, &confirmed) && may_replace(follow, &set, confirmed);
	if (changed && set.left_out > 0 && set.left_out != follow->assignment.left_out) {
		log_line("warn",
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
	for (size_t i = 0; !concerned && i < follow->meaning.count; i++) {
		const char *place = follow->meaning.places[i].path;
		concerned = path_is_under(path, place) || path_is_under(place, path);
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
		user->on_change(user->context, user);
	}
}

/* ---- names: users ---- */

static void observe_places(struct follow *follow)
{
	const struct tree_observer observer = { .on_change = on_tree_change, .context = follow };
	follow->places = memory_zeroed(follow->meaning.count, sizeof(*follow->places));
	for (size_t i = 0; i < follow->meaning.count; i++) {
		const struct name_place *place = &follow->meaning.places[i];
		follow->places[i].guard = observer;
		follow->places[i].self = observer;
		list_init(&follow->places[i].guard.link);
		list_init(&follow->places[i].self.link);
		if (place->guard_len > 0) {
			observe_guard(follow, i);
		} else {
			observe(follow, &follow->places[i].self, place->path, place->shape);
		}
	}
}

static struct follow *create_follow(struct world *world, const char *name, size_t len)
{
	struct follow **bucket = bucket_of(world, name, len);
	struct follow *follow = memory_zeroed(1, sizeof(*follow));
	follow->world = world;
	follow->name = memory_text(name, len);
	name_read(&follow->meaning, follow->name, world->domain);
	list_init(&follow->link);
	list_init(&follow->idle);
	list_init(&follow->users);
	assignment_init(&follow->assignment);
	follow->next_in_bucket = *bucket;
	*bucket = follow;
	world->count++;
	observe_places(follow);
	mark_changed(follow);
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

bool follow_take(struct world *world, struct follow_user *user, const char *name, size_t len)
{
	struct follow *follow = find_follow(world, name, len);
	user->follow = NULL;
	list_init(&user->link);
	if (!follow) {
		if (world->count >= FOLLOW_NAMES_MAX && first_idle(world)) {
			destroy_follow(first_idle(world));
		}
		if (world->count >= FOLLOW_NAMES_MAX ||
			(user->quota && user->quota->names >= user->quota->most)) {
			world->refused++;
			return false;
		}
		follow = create_follow(world, name, len);
		follow->quota = user->quota;
		if (follow->quota) {
			follow->quota->names++;
		}
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

bool follow_known(const struct follow *follow)
{
	return follow->known;
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
				&failure) != 0) {
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

void world_update(struct world *world, int64_t now_ms)
{
	if (world->serve_changed) {
		update_names(world);
	}
	while (!list_empty(&world->changed)) {
		struct follow *follow = LIST_ITEM(world->changed.next, struct follow, link);
		list_remove(&follow->link);
		if (read_again(follow)) {
			tell_users(follow);
		}
	}
	struct follow *idle = first_idle(world);
	while (idle && now_ms - idle->idle_since_ms >= FOLLOW_LINGER_MS) {
		destroy_follow(idle);
		idle = first_idle(world);
	}
}
