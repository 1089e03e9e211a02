#include "xds/source.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/json_text.h"
#include "lib/base/text.h"
#include "lib/peer/client.h"
#include "lib/peer/post.h"
#include "lib/peer/stream.h"
#include "lib/program/memory.h"

enum { AGAIN_MS = 5000, DROPS_AT_ONCE = 1000, ITEM_BYTES = 64, STREAM_ID_BYTES = 32 };

struct source {
	const char *socket_path;
	int epoll_fd;
	struct client_stream *stream;
	struct client_post post;
	char stream_id[STREAM_ID_BYTES]; /* "": there is none */
	struct err away;                 /* the agent's registry, if it is */
	struct list unasked;
	struct list asked;
	struct list later; /* the first one first */
	void *sets;        /* tsearch() tree, by id */
	uint64_t last_id;
	json_t *drops;
};

static int compare(const void *a, const void *b)
{
	const struct source_set *left = a;
	const struct source_set *right = b;
	return (left->id > right->id) - (left->id < right->id);
}

static void move(struct source_set *set, struct list *to)
{
	list_remove(&set->link);
	list_append(to, &set->link);
}

/* ---- answers ---- */

static const char *text_of(const json_t *event, const char *member)
{
	const char *text = json_string_value(json_object_get(event, member));
	return text ? text : "";
}

static void ask_all_again(struct source *source)
{
	while (!list_empty(&source->asked)) {
		move(LIST_ITEM(source->asked.next, struct source_set, link), &source->unasked);
	}
	while (!list_empty(&source->later)) {
		move(LIST_ITEM(source->later.next, struct source_set, link), &source->unasked);
	}
	json_array_clear(source->drops);
}

static void note_registry(struct source *source, const json_t *event, bool connected)
{
	err_clear(&source->away);
	if (!connected) {
		err_set(&source->away, BERTH_REGISTRY_UNAVAILABLE, "%s", text_of(event, "why"));
	}
}

static void on_subscribed(struct source *source, const json_t *event)
{
	const char *id = text_of(event, "stream_id");
	/* It is to be part of a request. */
	bool good = strspn(id, "0123456789abcdef") == strlen(id);
	text_printf(source->stream_id, sizeof(source->stream_id), "%s", good ? id : "");
	note_registry(source, event, json_is_true(json_object_get(event, "connected")));
	ask_all_again(source);
}

static void on_set(struct source *source, const json_t *event)
{
	const struct source_set key = { .id = (uint64_t)json_integer_value(
						json_object_get(event, "id")) };
	struct source_set **found = tfind(&key, &source->sets, compare);
	if (!found) {
		return; /* it was dropped meanwhile */
	}
	struct source_set *set = *found;
	if (json_object_get(event, "ended")) {
		set->again_ms = 0;
		move(set, &source->later);
	}
	set->on_answer(set->context, event);
}

static void on_event_take(void *context, json_t *event)
{
	struct source *source = context;
	const char *type = text_of(event, "type");
	bool of_all = !json_object_get(event, "id");
	if (strcmp(type, "SET") == 0) {
		on_set(source, event);
	} else if (strcmp(type, "SUBSCRIBED") == 0 || strcmp(type, "RESYNC") == 0) {
		on_subscribed(source, event);
	} else if (of_all && (strcmp(type, "STALE") == 0 || strcmp(type, "FRESH") == 0)) {
		note_registry(source, event, *type == 'F');
	} else if (!event || strcmp(type, "LOST") == 0) {
		*source->stream_id = '\0';
		client_post_close(&source->post);
	}
	json_decref(event);
}

/* ---- questions ---- */

static json_t *take_drops(struct source *source)
{
	json_t *drops = memory_must(json_array());
	for (size_t i = 0, count; i < DROPS_AT_ONCE && (count = json_array_size(source->drops));
		i++) {
		json_array_append(drops, json_array_get(source->drops, count - 1));
		json_array_remove(source->drops, count - 1);
	}
	return drops;
}

static json_t *take_sets(struct source *source)
{
	json_t *sets = memory_must(json_array());
	size_t bytes = ITEM_BYTES * DROPS_AT_ONCE / 2;
	while (!list_empty(&source->unasked)) {
		struct source_set *set = LIST_ITEM(source->unasked.next, struct source_set, link);
		bytes += ITEM_BYTES + 2 * strlen(set->target);
		if (bytes > CLIENT_POST_BYTES && json_array_size(sets) > 0) {
			break;
		}
		json_array_append_new(sets,
			json_pack("{s:I, s:s}", "id", (json_int_t)set->id, "target", set->target));
		move(set, &source->asked);
	}
	return sets;
}

static bool may_ask(const struct source *source)
{
	return *source->stream_id && !source->post.busy &&
		(!list_empty(&source->unasked) || json_array_size(source->drops) > 0);
}

static void ask(struct source *source, int64_t now_ms)
{
	char target[ITEM_BYTES];
	struct err err = ERR_INIT;
	json_t *drops = take_drops(source);
	json_t *body = json_pack("{s:o, s:o}", "drops", drops, "sets", take_sets(source));
	char *text = memory_must(json_text(memory_must(body), JSON_COMPACT));
	text_printf(target, sizeof(target), "/v1/follow/%s", source->stream_id);
	if (client_post_send(&source->post, target, text, now_ms, &err)) {
		client_stream_break(source->stream, &err, now_ms);
	}
	free(text);
	json_decref(body);
}

void source_ask(struct source *source, struct source_set *set, const char *target)
{
	set->target = memory_text(target, strlen(target));
	set->id = ++source->last_id;
	list_init(&set->link);
	list_append(&source->unasked, &set->link);
	(void)memory_must(tsearch(set, &source->sets, compare));
}

void source_drop(struct source *source, struct source_set *set)
{
	if (set->target) {
		json_array_append_new(source->drops, json_pack("{s:I}", "id", (json_int_t)set->id));
		tdelete(set, &source->sets, compare);
		list_remove(&set->link);
		free(set->target);
		set->target = NULL;
	}
}

/* ---- the whole ---- */

int source_fd(const struct source *source)
{
	return source->epoll_fd;
}

int64_t source_due_ms(const struct source *source)
{
	int64_t due_ms = may_ask(source) ? 0 : client_stream_due_ms(source->stream);
	if (source->post.busy && source->post.deadline_ms < due_ms) {
		due_ms = source->post.deadline_ms;
	}
	if (!list_empty(&source->later)) {
		int64_t again_ms = LIST_ITEM(source->later.next, struct source_set, link)->again_ms;
		due_ms = again_ms < due_ms ? again_ms : due_ms;
	}
	return due_ms;
}

static void ask_later_ones(struct source *source, int64_t now_ms)
{
	struct list *next;
	for (struct list *at = source->later.next; at != &source->later; at = next) {
		struct source_set *set = LIST_ITEM(at, struct source_set, link);
		next = at->next;
		if (set->again_ms == 0) {
			set->again_ms = now_ms + AGAIN_MS;
		} else if (now_ms >= set->again_ms) {
			move(set, &source->unasked);
		}
	}
}

void source_dispatch(struct source *source, int64_t now_ms)
{
	struct err err = ERR_INIT;
	client_stream_dispatch(source->stream, now_ms);
	if (*source->stream_id && client_post_dispatch(&source->post, now_ms, &err)) {
		client_stream_break(source->stream, &err, now_ms);
	}
	ask_later_ones(source, now_ms);
	if (may_ask(source)) {
		ask(source, now_ms);
	}
}

int source_trouble(const struct source *source, struct err *err)
{
	const struct err *trouble = client_stream_trouble(source->stream);
	if (trouble->code == BERTH_PATH_NOT_FOUND) {
		return err_set(err, trouble->code,
			"the agent is older than berth-xds: it has no streams of sets");
	}
	*err = trouble->code ? *trouble : source->away;
	return err->code;
}

struct source *source_create(const char *where, struct err *err)
{
	struct source *source = memory_zeroed(1, sizeof(*source));
	list_init(&source->unasked);
	list_init(&source->asked);
	list_init(&source->later);
	source->socket_path = client_socket(where);
	source->drops = memory_must(json_array());
	source->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	client_post_init(&source->post, source->socket_path, source->epoll_fd);
	if (source->epoll_fd < 0) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot follow the agent");
	} else if (client_stream_create(&source->stream, source->socket_path, "/v1/follow",
			   source->epoll_fd, on_event_take, source, err) == 0) {
		return source;
	}
	source_destroy(source);
	return NULL;
}

static void forget(void *node)
{
	struct source_set *set = node;
	free(set->target);
	set->target = NULL;
}

void source_destroy(struct source *source)
{
	tdestroy(source->sets, forget);
	client_stream_free(source->stream);
	client_post_finish(&source->post);
	if (source->epoll_fd >= 0) {
		close(source->epoll_fd);
	}
	json_decref(source->drops);
	free(source);
}
