#include "lib/berth.h"

#include <stdlib.h>
#include <string.h>

#include "lib/client/handle.h"
#include "lib/client/stream.h"
#include "lib/client/tree.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/clock.h"

struct berth_watch {
	struct berth *berth;
	struct berth_watch *next;
	bool dead; /* unwatched from a callback: freed when that is over */
	berth_on_event *on_event;
	void *context;
	int64_t sequence;
	json_t *queue;                /* events that wait for berth_dispatch() */
	struct client_stream *stream; /* on an agent */
	struct client_tree *tree;     /* on a registry */
};

static const char *const event_names[] = {
	[BERTH_EVENT_SUBSCRIBED] = "SUBSCRIBED",
	[BERTH_EVENT_UPDATED] = "UPDATED",
	[BERTH_EVENT_DELETED] = "DELETED",
	[BERTH_EVENT_STALE] = "STALE",
	[BERTH_EVENT_FRESH] = "FRESH",
	[BERTH_EVENT_RESYNC] = "RESYNC",
	[BERTH_EVENT_LOST] = "LOST",
};

enum { EVENT_COUNT = sizeof(event_names) / sizeof(event_names[0]) };

const char *berth_event_name(enum berth_event_type type)
{
	return (unsigned)type < EVENT_COUNT ? event_names[type] : "?";
}

/* ---- making and ending ------------------------------------------------------------------------ */

static void watch_free(struct berth_watch *watch)
{
	client_stream_free(watch->stream);
	client_tree_free(watch->tree);
	json_decref(watch->queue);
	free(watch);
}

static void on_emit(void *context, json_t *event)
{
	struct berth_watch *watch = context;
	json_array_append_new(watch->queue, event);
}

static int start(struct berth_watch *watch, const char *path, bool recursive, struct err *err)
{
	struct berth *berth = watch->berth;
	char target[LIMIT_PATH_BYTES + 64];
	int code = handle_target(target, sizeof(target), "watch", path,
		recursive ? "?recursive=yes" : "?recursive=no", err);
	if (code != 0) {
		return code;
	}
	if (berth->client) {
		return client_stream_create(&watch->stream, client_socket_path(berth->client),
			target, berth->epoll_fd, on_emit, watch, err);
	}
	return client_tree_create(
		&watch->tree, berth->registry, path, recursive, on_emit, watch, err);
}

int berth_watch(struct berth *berth, const char *path, bool recursive, berth_on_event *on_event,
	void *context, struct berth_watch **ret_watch, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	struct berth_watch *watch = calloc(1, sizeof(*watch));
	if (!watch || !(watch->queue = json_array())) {
		free(watch);
		err_set(&err, BERTH_FAILED, "out of memory");
		return handle_fail(failure, &err);
	}
	watch->berth = berth;
	watch->on_event = on_event;
	watch->context = context;
	if (start(watch, path, recursive, &err) != 0) {
		watch_free(watch);
		return handle_fail(failure, &err);
	}
	watch->next = berth->watches;
	berth->watches = watch;
	handle_arm(berth);
	*ret_watch = watch;
	return 0;
}

static void free_dead(struct berth *berth)
{
	struct berth_watch **place = &berth->watches;
	while (*place) {
		struct berth_watch *watch = *place;
		if (watch->dead) {
			*place = watch->next;
			watch_free(watch);
		} else {
			place = &watch->next;
		}
	}
}

void berth_unwatch(struct berth_watch *watch)
{
	if (!watch) {
		return;
	}
	watch->dead = true;
	if (!watch->berth->delivering) {
		free_dead(watch->berth);
	}
}

int berth_watch_trouble(const struct berth_watch *watch, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	if (watch->stream) {
		err = *client_stream_trouble(watch->stream);
	} else if (registry_state(watch->berth->registry) != REGISTRY_CONNECTED) {
		bool denied = registry_state(watch->berth->registry) == REGISTRY_DENIED;
		err_set(&err, denied ? BERTH_AUTHENTICATION_FAILED : BERTH_REGISTRY_UNAVAILABLE,
			denied ? "%s refused the credentials" : "%s cannot be reached",
			registry_url(watch->berth->registry));
	}
	return err.code ? handle_fail(failure, &err) : 0;
}

/* ---- what the handle does with them ----------------------------------------------------------- */

int64_t handle_watches_deadline_ms(const struct berth *berth)
{
	int64_t due_ms = INT64_MAX;
	for (const struct berth_watch *watch = berth->watches; watch; watch = watch->next) {
		if (json_array_size(watch->queue)) {
			return 0;
		}
		int64_t stream_ms = watch->stream ? client_stream_due_ms(watch->stream) : INT64_MAX;
		due_ms = stream_ms < due_ms ? stream_ms : due_ms;
	}
	return due_ms;
}

void handle_watches_dispatch(struct berth *berth, int64_t now_ms)
{
	for (struct berth_watch *watch = berth->watches; watch; watch = watch->next) {
		if (watch->stream) {
			client_stream_dispatch(watch->stream, now_ms);
		}
	}
}

void handle_watches_registry_state(struct berth *berth, enum registry_state state)
{
	for (struct berth_watch *watch = berth->watches; watch; watch = watch->next) {
		client_tree_state(watch->tree, state);
	}
}

void handle_watches_free(struct berth *berth)
{
	for (struct berth_watch *watch = berth->watches; watch; watch = watch->next) {
		watch->dead = true;
	}
	free_dead(berth);
}

/* ---- delivery --------------------------------------------------------------------------------- */

static int type_of(const json_t *event)
{
	const char *name = json_string_value(json_object_get(event, "type"));
	for (int i = 0; name && i < EVENT_COUNT; i++) {
		if (strcmp(name, event_names[i]) == 0) {
			return i;
		}
	}
	return -1;
}

static double time_of(const json_t *event)
{
	const json_t *time = json_object_get(event, "time");
	if (json_is_number(time)) {
		return json_number_value(time);
	}
	return clock_wall_s();
}

static void deliver(struct berth_watch *watch, const json_t *event)
{
	const json_t *record = json_object_get(event, "record");
	const json_t *snapshot = json_object_get(event, "snapshot");
	char *record_text = json_is_object(record) ? json_dumps(record, JSON_COMPACT) : NULL;
	char *snapshot_text = json_is_object(snapshot) ? json_dumps(snapshot, JSON_COMPACT) : NULL;
	struct berth_event public = {
		.type = (enum berth_event_type)type_of(event),
		.sequence = ++watch->sequence,
		.time = time_of(event),
		.path = json_string_value(json_object_get(event, "path")),
		.record = record_text,
		.snapshot = snapshot_text,
	};
	watch->on_event(watch->context, &public);
	free(record_text);
	free(snapshot_text);
}

static void deliver_queue(struct berth_watch *watch)
{
	/* The callback may add to the queue by asking a registry; that is for the next time. */
	json_t *queue = watch->queue;
	json_t *empty = json_array();
	if (!empty) {
		return;
	}
	watch->queue = empty;
	for (size_t i = 0; i < json_array_size(queue) && !watch->dead; i++) {
		const json_t *event = json_array_get(queue, i);
		/* An agent newer than this library may send events that it does not know. */
		if (type_of(event) >= 0) {
			deliver(watch, event);
		}
	}
	json_decref(queue);
}

void handle_watches_deliver(struct berth *berth)
{
	berth->delivering = true;
	for (struct berth_watch *watch = berth->watches; watch; watch = watch->next) {
		if (!watch->dead && json_array_size(watch->queue)) {
			deliver_queue(watch);
		}
	}
	berth->delivering = false;
	free_dead(berth);
}
