/* Sets that come by one stream. A user of each knows the last one that its client was sent. */
#include "agent/api/follow.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/question.h"
#include "agent/base/allocate.h"
#include "lib/base/share.h"

struct follow_set {
	struct follow *follow;
	struct list due; /* follow->due_sets */
	uint64_t id;
	struct set_user user;
	uint64_t version; /* that was sent */
	bool sent;
	bool stale;
	bool refused; /* and the client knows it */
};

static int compare(const void *a, const void *b)
{
	const struct follow_set *left = a;
	const struct follow_set *right = b;
	return (left->id > right->id) - (left->id < right->id);
}

/* It is off the tree. */
static void free_set(void *node)
{
	struct follow_set *set = node;
	set_leave(&set->user);
	list_remove(&set->due);
	set->follow->set_count--;
	set->follow->api->follow_sets--;
	free(set);
}

/* ---- what its client does not know yet ---- */

static void send_error(struct follow *follow, uint64_t id, const struct err *err, bool ended)
{
	struct buffer json = follow_begin(follow, "SET");
	follow_append_error(&json, id, err);
	buffer_append_text(&json, ended ? ",\"ended\":true" : "");
	follow_end(follow, &json);
}

static void send_set(struct follow_set *set, struct set *of)
{
	const struct set_text *text = set_text(of, SET_JSON);
	struct buffer json = follow_begin(set->follow, "SET");
	buffer_printf(&json, ",\"id\":%" PRIu64 "%s,\"set\":", set->id,
		set->stale ? ",\"stale\":true" : "");
	buffer_append(&json, text->text, text->len - 1);
	follow_end(set->follow, &json);
	set->version = of->version;
	set->sent = true;
}

static void tell(struct follow_set *set)
{
	const struct set_view view = set_look(&set->user, SET_AS_KNOWN);
	bool refused = !view.set && view.state == SET_REFUSED && view.err;
	bool was_stale = set->stale;
	if (refused && !set->refused) {
		send_error(set->follow, set->id, view.err, false);
	}
	set->refused = refused;
	set->stale = view.state == SET_STALE;
	if (view.set && (!set->sent || view.set->version != set->version)) {
		send_set(set, view.set);
	} else if (view.set && set->stale != was_stale) {
		struct buffer json = follow_begin(set->follow, set->stale ? "STALE" : "FRESH");
		buffer_printf(&json, ",\"id\":%" PRIu64, set->id);
		follow_end(set->follow, &json);
	}
}

void follow_sets_go_on(struct follow *follow)
{
	while (!list_empty(&follow->due_sets) && follow_has_room(follow)) {
		struct follow_set *set = LIST_ITEM(follow->due_sets.next, struct follow_set, due);
		list_remove(&set->due);
		tell(set);
	}
}

static void on_news(void *context)
{
	struct follow_set *set = context;
	if (list_empty(&set->due)) {
		list_append(&set->follow->due_sets, &set->due);
	}
	follow_sets_go_on(set->follow);
}

/* ---- questions ---- */

static uint64_t id_of(const json_t *item)
{
	return (uint64_t)json_integer_value(json_object_get(item, "id"));
}

void follow_drop_set(struct follow *follow, const json_t *item)
{
	const struct follow_set key = { .id = id_of(item) };
	struct follow_set **found = tfind(&key, &follow->sets, compare);
	if (found) {
		struct follow_set *set = *found;
		tdelete(set, &follow->sets, compare);
		free_set(set);
	}
}

static bool read_target(const struct follow *follow, char *target,
	struct api_set_question *ret_question, struct err *err)
{
	static const char prefix[] = "/v1/set/";
	char *query = strchr(target, '?');
	struct http_request request = { .query = query ? query + 1 : "", .local = true };
	if (strncmp(target, prefix, strlen(prefix)) != 0) {
		err_set(err, BERTH_FAILED, "target: must be that of GET %s…", prefix);
		return false;
	}
	*(query ? query : target + strlen(target)) = '\0';
	return api_read_set_question(
		follow->api, &request, target + strlen(prefix), ret_question, err);
}

void follow_take_set(struct follow *follow, const json_t *item)
{
	struct api *api = follow->api;
	const char *target = json_string_value(json_object_get(item, "target"));
	char *text = allocate_text(target ? target : "");
	struct api_set_question question;
	struct err err = ERR_INIT;
	follow_drop_set(follow, item);
	if (!share_allows(follow->set_count, api->follow_sets, API_FOLLOW_SETS)) {
		err_set(&err, BERTH_LIMIT_EXCEEDED,
			"this stream has its share of the %d sets that streams may follow",
			API_FOLLOW_SETS);
	}
	if (err.code || !read_target(follow, text, &question, &err)) {
		send_error(follow, id_of(item), &err, true);
		free(text);
		return;
	}
	struct follow_set *set = allocate_zeroed(1, sizeof(*set));
	set->follow = follow;
	set->id = id_of(item);
	set->user.on_news = on_news;
	set->user.context = set;
	list_init(&set->due);
	(void)allocated(tsearch(set, &follow->sets, compare));
	follow->set_count++;
	api->follow_sets++;
	set_follow(api->sets, &set->user, &question.key);
	free(text);
	on_news(set);
}

void follow_sets_finish(struct follow *follow)
{
	tdestroy(follow->sets, free_set);
}
