/*
 * Watches: a source gives events, berth_dispatch() delivers them to the callback.
 */
#include "lib/base/array.h"
#include "lib/berth.h"

#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

#include "lib/base/json_text.h"
#include "lib/client/handle.h"
#include "lib/base/clock.h"

struct berth_watch {
	struct berth *berth;
	struct list link; /* of the handle */
	bool dead;        /* unwatched from a callback: freed when that is over */
	berth_on_event *on_event;
	void *context;
	int64_t sequence;
	json_t *queue;         /* events that wait for berth_dispatch(); NULL: none */
	bool missed;           /* an event got lost for lack of memory: the watch is over */
	bool missed_delivered; /* the callback knows that */
	void *source;          /* of the handle's ops */
};

#define WATCH(item) LIST_ITEM(item, struct berth_watch, link)

static const char *const event_names[] = {
	[BERTH_EVENT_SUBSCRIBED] = "SUBSCRIBED",
	[BERTH_EVENT_UPDATED] = "UPDATED",
	[BERTH_EVENT_DELETED] = "DELETED",
	[BERTH_EVENT_STALE] = "STALE",
	[BERTH_EVENT_FRESH] = "FRESH",
	[BERTH_EVENT_RESYNC] = "RESYNC",
	[BERTH_EVENT_LOST] = "LOST",
};

enum { EVENT_COUNT = ARRAY_LEN(event_names) };

const char *berth_event_name(enum berth_event_type type)
{
	return (unsigned)type < EVENT_COUNT ? event_names[type] : "?";
}

/* ---- making and ending ---- */

static void watch_free(struct berth_watch *watch)
{
	watch->berth->ops->source_free(watch->source);
	json_decref(watch->queue);
	free(watch);
}

static void on_emit(void *context, json_t *event)
{
	struct berth_watch *watch = context;
	/* An event behind a missed one would describe a state that the caller does not have. */
	if (watch->missed) {
		json_decref(event);
		return;
	}
	if (!watch->queue) {
		watch->queue = json_array();
	}
	/* Either may be NULL: it could not be made. */
	watch->missed = json_array_append_new(watch->queue, event) != 0;
}

int berth_watch(struct berth *berth, const char *path, bool recursive, berth_on_event *on_event,
	void *context, struct berth_watch **ret_watch, struct berth_failure *failure)
{
	return berth_watch_with_attributes(
		berth, path, recursive, NULL, on_event, context, ret_watch, failure);
}

int berth_watch_with_attributes(struct berth *berth, const char *path, bool recursive,
	const char *const *attributes, berth_on_event *on_event, void *context,
	struct berth_watch **ret_watch, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	if (attributes && handle_need_agent(berth, "a filter by attributes", &err)) {
		return handle_fail(failure, &err);
	}
	struct berth_watch *watch = calloc(1, sizeof(*watch));
	if (!watch) {
		err_set(&err, BERTH_FAILED, "out of memory");
		return handle_fail(failure, &err);
	}
	watch->berth = berth;
	watch->on_event = on_event;
	watch->context = context;
	if (berth->ops->watch(
		    berth, path, recursive, attributes, on_emit, watch, &watch->source, &err)) {
		watch_free(watch);
		return handle_fail(failure, &err);
	}
	list_prepend(&berth->watches, &watch->link);
	handle_arm(berth);
	*ret_watch = watch;
	return 0;
}

static void free_dead(struct berth *berth)
{
	struct list *link = berth->watches.next;
	while (link != &berth->watches) {
		struct berth_watch *watch = WATCH(link);
		link = link->next;
		if (watch->dead) {
			list_remove(&watch->link);
			watch_free(watch);
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
	if (watch->missed) {
		err_set(&err, BERTH_FAILED, "out of memory: an event was missed; watch again");
		return handle_fail(failure, &err);
	}
	return watch->berth->ops->source_trouble(watch->berth, watch->source, &err)
		? handle_fail(failure, &err)
		: 0;
}

/* ---- driving them ---- */

static bool is_pending(const struct berth_watch *watch)
{
	return json_array_size(watch->queue) > 0 || (watch->missed && !watch->missed_delivered);
}

/* When a watch needs berth_dispatch(); INT64_MAX: never. */
static int64_t watches_due_ms(const struct berth *berth)
{
	int64_t due_ms = INT64_MAX;
	for (struct list *link = berth->watches.next; link != &berth->watches; link = link->next) {
		const struct berth_watch *watch = WATCH(link);
		if (is_pending(watch)) {
			return 0;
		}
		int64_t source_ms = berth->ops->source_due_ms(watch->source);
		due_ms = source_ms < due_ms ? source_ms : due_ms;
	}
	return due_ms;
}

void handle_arm(struct berth *berth)
{
	int64_t due_ms = watches_due_ms(berth);
	int64_t handle_ms = berth->ops->due_ms(berth);
	due_ms = handle_ms < due_ms ? handle_ms : due_ms;
	struct itimerspec timer = { .it_value.tv_sec = 0 };
	if (due_ms != INT64_MAX) {
		/* Zero would disarm it. */
		due_ms = due_ms > 0 ? due_ms : 1;
		timer.it_value.tv_sec = due_ms / 1000;
		timer.it_value.tv_nsec = (long)(due_ms % 1000) * 1000000;
	}
	timerfd_settime(berth->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
}

void handle_watches_each_source(
	struct berth *berth, void (*visit)(void *source, void *context), void *context)
{
	for (struct list *link = berth->watches.next; link != &berth->watches; link = link->next) {
		visit(WATCH(link)->source, context);
	}
}

void handle_watches_free(struct berth *berth)
{
	for (struct list *link = berth->watches.next; link != &berth->watches; link = link->next) {
		struct berth_watch *watch = WATCH(link);
		watch->dead = true;
	}
	free_dead(berth);
}

/* ---- delivery ---- */

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

/* The text of a member that is an object, otherwise NULL. False without memory. */
static bool object_text(const json_t *event, const char *member, char **ret_text)
{
	const json_t *value = json_object_get(event, member);
	*ret_text = json_is_object(value) ? json_text(value, JSON_COMPACT) : NULL;
	return *ret_text || !json_is_object(value);
}

/* False without memory. */
static bool deliver(struct berth_watch *watch, const json_t *event)
{
	char *record = NULL;
	char *snapshot = NULL;
	bool whole = object_text(event, "record", &record) &&
		object_text(event, "snapshot", &snapshot);
	if (whole) {
		const struct berth_event public = {
			.type = (enum berth_event_type)type_of(event),
			.sequence = ++watch->sequence,
			.time = time_of(event),
			.path = json_string_value(json_object_get(event, "path")),
			.record = record,
			.snapshot = snapshot,
		};
		watch->on_event(watch->context, &public);
	}
	free(record);
	free(snapshot);
	return whole;
}

/* The last event of a watch that missed one; it needs no memory. */
static void deliver_end(struct berth_watch *watch)
{
	struct berth_event public = {
		.type = BERTH_EVENT_LOST,
		.sequence = ++watch->sequence,
		.time = clock_wall_s(),
	};
	watch->missed_delivered = true;
	watch->on_event(watch->context, &public);
}

static void deliver_queue(struct berth_watch *watch)
{
	/* The callback may add to the queue by asking a registry; that is for the next time. */
	json_t *queue = watch->queue;
	watch->queue = NULL;
	for (size_t i = 0; i < json_array_size(queue) && !watch->dead; i++) {
		const json_t *event = json_array_get(queue, i);
		/* An agent newer than this library may send events that it does not know. */
		if (type_of(event) >= 0 && !deliver(watch, event)) {
			watch->missed = true;
			break;
		}
	}
	json_decref(queue);
}

void handle_watches_dispatch(struct berth *berth, int64_t now_ms)
{
	berth->delivering = true;
	for (struct list *link = berth->watches.next; link != &berth->watches; link = link->next) {
		struct berth_watch *watch = WATCH(link);
		/* One after the other: all their snapshots at once would take much memory. */
		if (!watch->dead) {
			berth->ops->source_dispatch(watch->source, now_ms);
		}
		if (!watch->dead && json_array_size(watch->queue)) {
			deliver_queue(watch);
		}
		if (!watch->dead && watch->missed && !watch->missed_delivered) {
			deliver_end(watch);
		}
	}
	berth->delivering = false;
	free_dead(berth);
}
