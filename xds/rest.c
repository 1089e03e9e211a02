#include "xds/rest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/hash.h"
#include "lib/base/json_read.h"
#include "lib/base/text.h"
#include "lib/program/memory.h"
#include "xds/discovery.h"

struct rest {
	struct world *world;
	struct follow_owner owner;
	enum resource_type type;
	struct err err; /* why the request cannot be answered */
	char version_text[DISCOVERY_VERSION_BYTES];
	bool all;
	struct world_user names; /* with `all` */
	struct follow_user *users;
	size_t count;
	struct ev_loop *loop;
	ev_timer timer;
	bool ready;
	rest_on_ready *on_ready;
	void *context;
};

enum { ANSWER_BYTES = 16 << 20 };

static const char prefix[] = "/v3/discovery:";

static enum resource_type type_of(const char *target)
{
	const char *word = target + sizeof(prefix) - 1;
	if (strncmp(target, prefix, sizeof(prefix) - 1) != 0) {
		return RESOURCE_TYPES;
	}
	return strcmp(word, resource_word(RESOURCE_ENDPOINTS)) == 0  ? RESOURCE_ENDPOINTS
		: strcmp(word, resource_word(RESOURCE_CLUSTER)) == 0 ? RESOURCE_CLUSTER
								     : RESOURCE_TYPES;
}

bool rest_is_target(const char *target)
{
	return type_of(target) != RESOURCE_TYPES;
}

/* ---- waiting ---- */

static bool all_known(const struct rest *rest)
{
	char *const *names;
	size_t count;
	bool known = !rest->all || world_names(rest->world, &names, &count);
	for (size_t i = 0; known && i < rest->count; i++) {
		known = follow_known(rest->users[i].follow);
	}
	return known;
}

static void on_time(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct rest *rest = timer->data;
	(void)loop;
	(void)events;
	if (!rest->ready) {
		rest->ready = true;
		rest->on_ready(rest->context);
	}
}

/* From the loop, not from inside the world. */
static void look_again(struct rest *rest)
{
	if (!rest->ready && all_known(rest)) {
		ev_timer_stop(rest->loop, &rest->timer);
		ev_timer_set(&rest->timer, 0, 0);
		ev_timer_start(rest->loop, &rest->timer);
	}
}

static void on_change(void *context, struct follow_user *user)
{
	(void)user;
	look_again(context);
}

static void on_names(void *context)
{
	look_again(context);
}

/* ---- the request ---- */

/* A member in either of the spellings of JSON. */
static const json_t *member(const json_t *json, const char *name, const char *camel)
{
	const json_t *value = json_object_get(json, name);
	return value ? value : json_object_get(json, camel);
}

static void add_name(struct rest *rest, const json_t *name)
{
	const char *text = json_string_value(name);
	if (!text || !discovery_name_valid(text, json_string_length(name))) {
		err_set(&rest->err, BERTH_FAILED,
			"resource_names: allowed are texts of 1 to %d bytes without control "
			"characters",
			DISCOVERY_NAME_BYTES);
		return;
	}
	struct follow_user *user = &rest->users[rest->count];
	user->owner = &rest->owner;
	if (follow_take(rest->world, user, text, strlen(text))) {
		rest->count++;
	} else {
		err_set(&rest->err, BERTH_LIMIT_EXCEEDED, FOLLOW_FULL);
	}
}

static void read_request(struct rest *rest, const json_t *json)
{
	const json_t *names = member(json, "resource_names", "resourceNames");
	const json_t *version = member(json, "version_info", "versionInfo");
	size_t count = json_array_size(names);
	if (!json_is_object(json) || (names && !json_is_array(names)) ||
		count > DISCOVERY_NAMES_MAX) {
		err_set(&rest->err, BERTH_FAILED,
			"the body is not a DiscoveryRequest in JSON with at most %d names",
			DISCOVERY_NAMES_MAX);
		return;
	}
	text_printf(rest->version_text, sizeof(rest->version_text), "%s",
		json_is_string(version) ? json_string_value(version) : "");
	rest->users = memory_zeroed(count + 1, sizeof(*rest->users));
	for (size_t i = 0; i < count && rest->err.code == 0; i++) {
		add_name(rest, json_array_get(names, i));
	}
	rest->all = count == 0 && rest->type == RESOURCE_CLUSTER;
	if (count == 0 && !rest->all) {
		err_set(&rest->err, BERTH_FAILED, "resource_names names no cluster");
	} else if (rest->all) {
		rest->names = (struct world_user){ .on_names = on_names, .context = rest };
		list_init(&rest->names.link);
		world_observe(rest->world, &rest->names);
	}
}

struct rest *rest_create(struct ev_loop *loop, struct world *world, struct follow_quota *quota,
	const char *target, const char *body, size_t len, rest_on_ready *on_ready, void *context)
{
	struct rest *rest = memory_zeroed(1, sizeof(*rest));
	json_t *json = json_read(body, len, 0, NULL);
	rest->loop = loop;
	rest->world = world;
	rest->owner = (struct follow_owner){ on_change, rest, quota };
	rest->type = type_of(target);
	rest->on_ready = on_ready;
	rest->context = context;
	read_request(rest, json);
	json_decref(json);
	bool at_once = rest->err.code != 0 || all_known(rest);
	ev_timer_init(&rest->timer, on_time, at_once ? 0 : REST_WAIT_MS / 1000.0, 0);
	rest->timer.data = rest;
	ev_timer_start(loop, &rest->timer);
	return rest;
}

size_t rest_bytes(const struct rest *rest)
{
	return sizeof(*rest) + rest->count * sizeof(*rest->users);
}

void rest_destroy(struct rest *rest)
{
	if (!rest) {
		return;
	}
	ev_timer_stop(rest->loop, &rest->timer);
	for (size_t i = 0; i < rest->count; i++) {
		follow_release(&rest->users[i], clock_monotonic_ms());
	}
	if (rest->all) {
		world_unobserve(rest->world, &rest->names);
	}
	free(rest->users);
	free(rest);
}

/* ---- the answer ---- */

struct writing {
	struct buffer *out;
	enum resource_type type;
	size_t count;
	uint64_t hash;
};

static void write_resource(
	struct writing *writing, const char *name, const struct assignment *assignment)
{
	size_t begin = writing->out->len + 1;
	buffer_append_text(writing->out, writing->count++ > 0 ? "," : "[");
	resource_json(writing->out, writing->type, name, assignment);
	writing->hash = hash_bytes(
		writing->hash, writing->out->data + begin, writing->out->len - begin);
}

static void write_resources(struct rest *rest, struct writing *writing)
{
	const struct assignment none = { .count = 0 };
	char *const *names;
	size_t count;
	for (size_t i = 0; i < rest->count; i++) {
		const struct follow *follow = rest->users[i].follow;
		if (follow_known(follow) && writing->out->len <= ANSWER_BYTES) {
			write_resource(writing, follow_name(follow), follow_assignment(follow));
		}
	}
	if (rest->all && world_names(rest->world, &names, &count)) {
		for (size_t i = 0; i < count && writing->out->len <= ANSWER_BYTES; i++) {
			write_resource(writing, names[i], &none);
		}
	}
}

static bool is_full(const struct rest *rest)
{
	bool full = false;
	for (size_t i = 0; i < rest->count && !full; i++) {
		full = follow_is_full(rest->users[i].follow);
	}
	return full;
}

int rest_write(struct rest *rest, struct buffer *out)
{
	enum { BAD_REQUEST = 400, AWAY = 503, UNCHANGED = 304, GOOD = 200 };
	char version[DISCOVERY_VERSION_BYTES];
	struct writing writing = { out, rest->type, 0, HASH_INIT };
	if (rest->err.code != 0) {
		buffer_printf(out, "%s\n", rest->err.msg);
		return rest->err.code == BERTH_LIMIT_EXCEEDED ? AWAY : BAD_REQUEST;
	}
	buffer_append_text(out, "{\"resources\":");
	write_resources(rest, &writing);
	if (out->len > ANSWER_BYTES) {
		buffer_finish(out);
		buffer_append_text(
			out, "the answer would be too long: ask for fewer names at a time\n");
		return BAD_REQUEST;
	}
	if (writing.count == 0 && !(rest->all && all_known(rest))) {
		struct err err = ERR_INIT;
		buffer_clear(out);
		if (is_full(rest)) {
			buffer_append_text(out, FOLLOW_FULL "\n");
		} else {
			buffer_printf(out, "nothing is known of this yet: %s\n",
				world_trouble(rest->world, &err) ? err.msg : "it is read");
		}
		return AWAY;
	}
	discovery_write_version(version, writing.hash);
	if (strcmp(version, rest->version_text) == 0) {
		buffer_clear(out);
		return UNCHANGED;
	}
	buffer_printf(out, "%s],\"type_url\":\"%s\",\"version_info\":\"%s\"}\n",
		writing.count == 0 ? "[" : "", resource_url(rest->type), version);
	return GOOD;
}
