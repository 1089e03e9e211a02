#include "xds/follow.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/limits.h"
#include "lib/base/random_bytes.h"
#include "lib/base/share.h"
#include "lib/base/text.h"
#include "lib/names/of_path.h"
#include "lib/program/memory.h"
#include "xds/log.h"
#include "xds/members.h"
#include "xds/name.h"

enum { BUCKETS = 1024, ENCODED_MAX = 64 << 20, ODD_NAMES_MAX = 16 };

struct follow {
	struct follow *next_in_bucket;
	struct list link; /* on world->changed; or on no list */
	struct list idle; /* on world->idle while nobody follows it */
	int64_t idle_since_ms;
	struct world *world;
	struct follow_quota *quota; /* of who made it; or NULL */
	struct source_set set;      /* not followed: no record can have the name */
	bool refused;               /* the agent has no room for it, for now */
	bool doubtful;
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
	struct source_set set; /* while somebody observes */
	json_t *names;         /* NULL: not known */
};

struct world {
	struct source *source;
	char *domain;
	char *parameters; /* of each set */
	uint64_t seed;
	struct follow *buckets[BUCKETS];
	size_t count;
	struct list changed; /* followed names whose sets have changed */
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
	unsigned odd_names;    /* that can mean nothing */
	struct log_rate lines; /* that records and names cause */
};

/* ---- the world ---- */

static void add_serve(struct world *world, const char *path)
{
	static const char all[] = "/**";
	size_t len = strlen(path);
	struct serve *serve = &world->serves[world->serve_count++];
	serve->recursive = len >= sizeof(all) - 1 && strcmp(path + len - sizeof(all) + 1, all) == 0;
	len -= serve->recursive ? sizeof(all) - 1 : 0;
	serve->path = len > 0 ? memory_text(path, len) : memory_text("/", 1);
	serve->world = world;
}

static char *parameters_of(const struct world_options *options)
{
	struct buffer out;
	struct buffer failover;
	char number[24];
	buffer_init(&out, SIZE_MAX);
	buffer_init(&failover, SIZE_MAX);
	for (size_t i = 0; options->failover && options->failover[i]; i++) {
		buffer_printf(&failover, "%s%s", i > 0 ? "," : "", options->failover[i]);
	}
	name_add(&out, "failover", failover.len > 0 ? buffer_text(&failover) : "none");
	buffer_finish(&failover);
	snprintf(number, sizeof(number), "%u", options->min_instances);
	name_add(&out, "min", number);
	snprintf(number, sizeof(number), "%lldms", (long long)options->failover_hold_ms);
	name_add(&out, "hold", number);
	if (options->zone && *options->zone) {
		name_add(&out, "near", options->zone);
	}
	char *text = memory_text(buffer_text(&out), out.len);
	buffer_finish(&out);
	return text;
}

struct world *world_create(const struct world_options *options)
{
	struct world *world = memory_zeroed(1, sizeof(*world));
	size_t count = 0;
	while (options->serve[count]) {
		count++;
	}
	world->source = options->source;
	world->domain = memory_text(options->domain, strlen(options->domain));
	world->parameters = parameters_of(options);
	world->serves = memory_zeroed(count + 1, sizeof(*world->serves));
	for (size_t i = 0; i < count; i++) {
		add_serve(world, options->serve[i]);
	}
	list_init(&world->changed);
	list_init(&world->idle);
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
	source_drop(world->source, &follow->set);
	list_remove(&follow->link);
	list_remove(&follow->idle);
	assignment_finish(&follow->assignment);
	free(follow->encoded);
	free(follow);
}

static struct follow *first_idle(const struct world *world)
{
	return list_empty(&world->idle) ? NULL : LIST_ITEM(world->idle.next, struct follow, idle);
}

static void end_serve(struct serve *serve)
{
	source_drop(serve->world->source, &serve->set);
	json_decref(serve->names);
	serve->names = NULL;
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
		end_serve(&world->serves[i]);
		free(world->serves[i].path);
	}
	free_names(world);
	free(world->serves);
	free(world->domain);
	free(world->parameters);
	free(world);
}

struct world_counts world_counts(const struct world *world)
{
	struct world_counts counts = {
		.names = world->count, .encodings = world->encodings, .refused = world->refused
	};
	for (size_t i = 0; i < BUCKETS; i++) {
		for (const struct follow *at = world->buckets[i]; at; at = at->next_in_bucket) {
			counts.left_out += at->assignment.left_out;
		}
	}
	return counts;
}

int world_trouble(const struct world *world, struct err *err)
{
	return source_trouble(world->source, err);
}

/* ---- names: from a set of the agent ---- */

static void mark_changed(struct follow *follow)
{
	list_remove(&follow->link);
	list_append(&follow->world->changed, &follow->link);
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

/* True when the set has changed. */
static bool read_set(struct follow *follow, const json_t *json)
{
	struct assignment set;
	assignment_init(&set);
	members_read(&set, json_object_get(json, "members"));
	bool confirmed = !json_is_false(json_object_get(json, "confirmed"));
	bool enough = !json_is_false(json_object_get(json, "enough"));
	follow->doubtful = json_is_true(json_object_get(json, "doubtful"));
	/* The agent may have begun anew, and know less than it has told. */
	bool changed = follow->known
		? confirmed && enough && !assignment_equal(&set, &follow->assignment)
		: set.count > 0 || (confirmed && !follow->doubtful);
	if (!changed) {
		assignment_finish(&set);
		return false;
	}
	if (set.left_out > 0 && set.left_out != follow->assignment.left_out) {
		log_limited(&follow->world->lines, "warn",
			"%s: %zu addresses cannot be sent: not an IP address, or without a "
			"port",
			follow->name, set.left_out);
	}
	assignment_finish(&follow->assignment);
	follow->assignment = set;
	follow->known = true;
	follow->version = 0;
	free(follow->encoded);
	follow->encoded = NULL;
	return true;
}

static void on_set(void *context, const json_t *answer)
{
	struct follow *follow = context;
	const json_t *set = json_object_get(answer, "set");
	const char *error = json_string_value(json_object_get(answer, "error"));
	follow->refused = error && berth_error_from_name(error) == BERTH_LIMIT_EXCEEDED;
	if (set && read_set(follow, set)) {
		mark_changed(follow);
	}
}

static void begin_set(struct follow *follow)
{
	struct world *world = follow->world;
	struct buffer target;
	buffer_init(&target, SIZE_MAX);
	if (name_target(&target, follow->name, world->domain)) {
		buffer_append_text(&target, world->parameters);
		follow->set = (struct source_set){ .on_answer = on_set, .context = follow };
		source_ask(world->source, &follow->set, buffer_text(&target));
	} else {
		follow->known = true;
		mark_changed(follow);
	}
	buffer_finish(&target);
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
	list_init(&follow->users);
	assignment_init(&follow->assignment);
	follow->next_in_bucket = *bucket;
	*bucket = follow;
	world->count++;
	begin_set(follow);
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
	bool any = world->count >= FOLLOW_NAMES_MAX;
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

bool follow_take(struct world *world, struct follow_user *user, const char *name, size_t len)
{
	struct follow *follow = find_follow(world, name, len);
	struct follow_quota *quota = user->owner->quota;
	user->follow = NULL;
	list_init(&user->link);
	do {
		bool may = !follow && may_follow(world, quota);
		follow = may ? create_follow(world, quota, name, len) : follow;
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
	return follow->set.target != NULL;
}

bool follow_known(const struct follow *follow)
{
	return follow->known;
}

bool follow_is_full(const struct follow *follow)
{
	return follow->refused;
}

bool follow_whole(const struct follow *follow)
{
	return follow->known && !follow->doubtful;
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

static void on_names(void *context, const json_t *answer)
{
	struct serve *serve = context;
	const json_t *set = json_object_get(answer, "set");
	json_t *names = json_object_get(set, "names");
	bool confirmed = !json_is_false(json_object_get(set, "confirmed"));
	if (names && (confirmed || !serve->names)) {
		json_decref(serve->names);
		serve->names = json_incref(names);
		serve->world->serve_changed = true;
	}
}

void world_observe(struct world *world, struct world_user *user)
{
	list_append(&world->users, &user->link);
	for (size_t i = 0; i < world->serve_count; i++) {
		struct serve *serve = &world->serves[i];
		char target[LIMIT_PATH_BYTES + 64];
		text_printf(target, sizeof(target), "/v1/set%s?as=names", serve->path);
		if (!serve->set.target) {
			serve->set = (struct source_set){ .on_answer = on_names, .context = serve };
			source_ask(world->source, &serve->set, target);
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
		end_serve(&world->serves[i]);
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

static void add_name(struct world *world, const char *name)
{
	if (name && world->name_count < FOLLOW_NAMES_MAX) {
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

/* Without what is below the path, its own name counts alone. */
static void read_names(struct world *world)
{
	free_names(world);
	for (size_t i = 0; i < world->serve_count; i++) {
		const struct serve *serve = &world->serves[i];
		char own[NAMES_NAME_BYTES];
		bool has_own = names_of_path(own, serve->path);
		size_t index;
		json_t *item;
		json_array_foreach (serve->names, index, item) {
			const char *name = json_string_value(item);
			if (serve->recursive || (name && has_own && strcmp(name, own) == 0)) {
				add_name(world, name);
			}
		}
	}
	settle_names(world);
	world->names_known = true;
}

static bool may_read_names(const struct world *world)
{
	bool known = true;
	for (size_t i = 0; i < world->serve_count; i++) {
		known = known && world->serves[i].names;
	}
	return known;
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
		tell_users(follow);
	}
	struct follow *idle = first_idle(world);
	while (idle && now_ms - idle->idle_since_ms >= FOLLOW_LINGER_MS) {
		destroy_follow(idle);
		idle = first_idle(world);
	}
}
