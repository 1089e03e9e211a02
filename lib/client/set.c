/*
 * Sets: who serves a path or a name, and one of them at a time.
 */
#include "lib/berth.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/json_read.h"
#include "lib/base/json_text.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/quote.h"
#include "lib/base/random_bytes.h"
#include "lib/client/endpoints.h"
#include "lib/client/kept.h"

enum { TARGET_BYTES = LIMIT_PATH_BYTES + 8 * 1024 };

/* A member that can be picked: of the nearest tier that serves. */
struct turn {
	uint64_t up_to; /* the weights of those before, and its own */
	const struct berth_member *member;
};

struct content {
	char tag[BERTH_TAG_BYTES];
	struct berth_members members;
	struct berth_member *items;       /* the members */
	struct berth_endpoints endpoints; /* theirs */
	json_t *json;                     /* whose strings they borrow */
	struct turn *turns;
	size_t turn_count;
};

struct berth_set {
	struct kept kept;
	char *target; /* of the request */
	char *what;
	struct content content;
	uint64_t random; /* never 0 */
	bool is_new;     /* it has not been handed out yet */
};

/* ---- reading ---- */

static void finish(struct content *content)
{
	for (size_t i = 0; i < content->members.count; i++) {
		free((char *)(uintptr_t)content->items[i].attributes_json);
	}
	free(content->items);
	berth_endpoints_finish(&content->endpoints);
	json_decref(content->json);
	free(content->turns);
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static unsigned number_of(const json_t *object, const char *name)
{
	json_int_t number = json_integer_value(json_object_get(object, name));
	return number < 0 ? 0 : number > UINT32_MAX ? UINT32_MAX : (unsigned)number;
}

static bool read_member(struct berth_member *to, const json_t *from)
{
	*to = (struct berth_member){ .endpoint = to->endpoint,
		.host = text_of(from, "host"),
		.port = number_of(from, "port"),
		.tier = number_of(from, "tier"),
		.weight = number_of(from, "weight"),
		.health = text_of(from, "health"),
		.zone = text_of(from, "zone"),
		.attributes_json = json_text(json_object_get(from, "attributes"), JSON_COMPACT) };
	return to->attributes_json != NULL;
}

static bool can_be_picked(const struct berth_member *member)
{
	return member->weight > 0 && *member->host && member->port;
}

/* Members are in the order of their tiers. */
static void give_turns(struct content *content)
{
	uint64_t up_to = 0;
	for (size_t i = 0; i < content->members.count; i++) {
		const struct berth_member *member = &content->items[i];
		if (can_be_picked(member) &&
			(up_to == 0 || member->tier == content->turns->member->tier)) {
			up_to += member->weight;
			content->turns[content->turn_count++] = (struct turn){ up_to, member };
		}
	}
}

static int read_content(struct content *content, struct err *err)
{
	const json_t *array = json_object_get(content->json, "members");
	struct endpoint_list list = { .count = 0 };
	size_t count = json_array_size(array);
	if (!json_object_get(content->json, "filter")) {
		return err_set(err, BERTH_FAILED, "the agent's answer is not a set");
	}
	int code = endpoint_list_add_json(&list, array, err);
	content->endpoints = endpoint_list_take(&list);
	if (code != 0) {
		return code;
	}
	content->items = calloc(count + 1, sizeof(*content->items));
	content->turns = calloc(count + 1, sizeof(*content->turns));
	content->members.items = content->items;
	bool good = content->items && content->turns;
	for (size_t i = 0; good && i < count; i++) {
		struct berth_member *member = &content->items[content->members.count++];
		member->endpoint = &content->endpoints.items[i];
		good = read_member(member, json_array_get(array, i));
	}
	if (!good) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	content->members.exists = true;
	give_turns(content);
	return 0;
}

/*
 * Keeps what was read. That a path or name is absent has a tag, too, and is a set without members;
 * without a tag it is the answer of an agent that knows no sets.
 */
static int take(struct berth_set *set, int code, const struct berth_answer *answer, struct err *err)
{
	const struct client *client = set->kept.berth->client;
	const char *tag = code == 0 ? answer->tag : client_tag(client);
	struct content content = { .turn_count = 0 };
	bool same = *tag && strcmp(tag, set->content.tag) == 0;
	if (code == BERTH_PATH_NOT_FOUND && *tag) {
		code = 0;
		err_clear(err);
	} else if (code == BERTH_PATH_NOT_FOUND) {
		err_clear(err);
		code = err_set(err, BERTH_FAILED,
			"the agent is older than this program: it has no /v1/set");
	} else if (code == 0 && !same) {
		content.json = json_read(answer->json, answer->len, 0, NULL);
		code = read_content(&content, err);
	}
	if (code != 0) {
		finish(&content);
		return code;
	}
	set->kept.freshness = client_freshness(client);
	if (!same) {
		finish(&set->content);
		set->content = content;
		strcpy(set->content.tag, tag);
		set->is_new = true;
	}
	return 0;
}

/* The agent follows the set: there are no caches to pass. */
static int read_again(void *context, bool past_caches, struct err *err)
{
	struct berth_set *set = context;
	struct berth_answer answer = { .json = NULL };
	(void)past_caches;
	int code = handle_look_up(set->kept.berth, set->target, &answer, err);
	code = take(set, code, &answer, err);
	berth_answer_finish(&answer);
	return code;
}

/* ---- opening ---- */

static void add_number(struct buffer *query, const char *name, unsigned number)
{
	if (number > 0) {
		buffer_printf(query, "&%s=%u", name, number);
	}
}

static int make_target(
	char **ret, const char *what, const struct berth_set_options *options, struct err *err)
{
	static const char name_bytes[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	struct buffer out;
	struct buffer query;
	bool is_path = *what == '/';
	size_t ignored;
	if (is_path && path_check(what, strlen(what), err)) {
		return err->code;
	}
	if (!is_path && (!*what || strspn(what, name_bytes) < strlen(what))) {
		return err_set(err, BERTH_INVALID_PATHNAME, "%s is neither a path nor a name",
			quote_text(what).text);
	}
	buffer_init(&out, TARGET_BYTES);
	buffer_init(&query, TARGET_BYTES);
	handle_add_query(&query, "as", is_path ? "path" : "name");
	handle_add_query(&query, "api", options->filter.api);
	handle_add_query(&query, "protocol", options->filter.protocol);
	handle_add_query(&query, "scope", options->filter.scope);
	int code = handle_add_attributes(&query, options->attributes, err);
	handle_add_query(&query, "near", options->near);
	handle_add_query(&query, "failover", options->failover);
	add_number(&query, "min", options->least);
	buffer_printf(&out, "/v1/set%s%s%s", is_path ? "" : "/", what, buffer_text(&query));
	bool too_long = code || query.failed || out.failed;
	buffer_finish(&query);
	*ret = too_long ? NULL : buffer_take(&out, &ignored);
	buffer_finish(&out);
	return code    ? code
		: *ret ? 0
		       : err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long");
}

int berth_set_open(struct berth_set **ret_set, struct berth *berth, const char *what,
	const struct berth_set_options *options, struct berth_failure *failure)
{
	static const struct berth_set_options none;
	struct err err = ERR_INIT;
	struct berth_set *set = calloc(1, sizeof(*set));
	if (!set || !(set->what = strdup(what))) {
		err_set(&err, BERTH_FAILED, "out of memory");
	} else if (handle_need_agent(berth, "a set", &err) == 0) {
		(void)make_target(&set->target, what, options ? options : &none, &err);
	}
	if (err.code) {
		berth_set_close(set);
		return handle_fail(failure, &err);
	}
	set->kept = (struct kept){ .berth = berth, .read = read_again, .context = set };
	(void)random_bytes(&set->random, sizeof(set->random));
	set->random |= 1;
	*ret_set = set;
	return 0;
}

void berth_set_close(struct berth_set *set)
{
	if (!set) {
		return;
	}
	finish(&set->content);
	free(set->target);
	free(set->what);
	free(set);
}

/* ---- asking ---- */

static int look(struct berth_set *set, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return kept_is_current(&set->kept) || kept_renew(&set->kept, &err) == 0
		? 0
		: handle_fail(failure, &err);
}

static void hand_out(struct berth_set *set, const struct berth_members **ret_members)
{
	set->is_new = false;
	set->content.members.freshness = set->kept.freshness;
	*ret_members = &set->content.members;
}

int berth_set_members(struct berth_set *set, const struct berth_members **ret_members,
	struct berth_failure *failure)
{
	int code = look(set, failure);
	if (code == 0) {
		hand_out(set, ret_members);
	}
	return code;
}

/* BERTH_TIMEOUT when it stays as it was. */
static int wait_for_another(struct berth_set *set, unsigned wait_s, struct err *err)
{
	const struct client_request request = { .method = "GET",
		.target = set->target,
		.tag = *set->content.tag ? set->content.tag : NULL,
		.wait_s = wait_s };
	struct berth_answer answer = { .json = NULL };
	int code = handle_request(set->kept.berth, &request, &answer, err);
	code = take(set, code, &answer, err);
	berth_answer_finish(&answer);
	if (code != 0) {
		return code;
	}
	kept_took(&set->kept);
	return set->is_new ? 0 : err_set(err, BERTH_TIMEOUT, "nothing has changed");
}

int berth_set_next(struct berth_set *set, unsigned wait_s, const struct berth_members **ret_members,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	if (!set->is_new && wait_for_another(set, wait_s, &err)) {
		return handle_fail(failure, &err);
	}
	hand_out(set, ret_members);
	return 0;
}

/* xorshift64*: each pick is independent enough for shares of traffic. */
static uint64_t next_random(struct berth_set *set)
{
	set->random ^= set->random >> 12;
	set->random ^= set->random << 25;
	set->random ^= set->random >> 27;
	return set->random * UINT64_C(2685821657736338717);
}

int berth_pick(struct berth_set *set, const struct berth_member **ret_member,
	struct berth_failure *failure)
{
	int code = look(set, failure);
	if (code != 0) {
		return code;
	}
	if (set->content.turn_count == 0) {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_NO_RECORD, "nobody serves %s%s", quote_text(set->what).text,
			set->kept.freshness.stale ? ", as far as is known" : "");
		return handle_fail(failure, &err);
	}
	size_t from = 0;
	size_t to = set->content.turn_count - 1;
	uint64_t number = next_random(set) % set->content.turns[to].up_to;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (set->content.turns[middle].up_to <= number) {
			from = middle + 1;
		} else {
			to = middle;
		}
	}
	*ret_member = set->content.turns[from].member;
	return 0;
}
