#include "looker/watches.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "lib/base/list.h"
#include "lib/looker/protocol.h"
#include "lib/program/memory.h"
#include "lib/registry/registry_dir.h"

#define EVENTS                                                                                     \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE_SELF |   \
		IN_MOVE_SELF | IN_ONLYDIR)

enum { EVENT_BYTES = 32 * 1024, PROC_NAME_BYTES = 40, RETRY_MS = 1000 };

struct set {
	uint64_t number; /* first of what the tree compares */
	struct list watches;
	const char *only;
	unsigned generation;
	bool complete;
	unsigned what; /* of the events that are being read */
	size_t count;
	struct list link; /* of those with events */
};

struct watch {
	int descriptor; /* first of what the tree compares */
	struct list link;
	unsigned generation;
	struct set *set;
};

struct watches {
	int fd;
	int64_t retry_at_ms;
	void *by_descriptor; /* tsearch() trees */
	void *by_number;
	struct set *named; /* whose directories are being named */
};

static int compare_descriptors(const void *a, const void *b)
{
	int left = ((const struct watch *)a)->descriptor;
	int right = ((const struct watch *)b)->descriptor;
	return (left > right) - (left < right);
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = ((const struct set *)a)->number;
	uint64_t right = ((const struct set *)b)->number;
	return (left > right) - (left < right);
}

static struct watch *find(struct watches *watches, int descriptor)
{
	struct watch key = { .descriptor = descriptor };
	struct watch **found = tfind(&key, &watches->by_descriptor, compare_descriptors);
	return found ? *found : NULL;
}

static struct set *find_set(struct watches *watches, uint64_t number)
{
	struct set key = { .number = number };
	struct set **found = tfind(&key, &watches->by_number, compare_numbers);
	return found ? *found : NULL;
}

struct watches *watches_create(void)
{
	struct watches *watches = memory_zeroed(1, sizeof(*watches));
	watches->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	return watches;
}

int watches_fd(const struct watches *watches)
{
	return watches->fd;
}

unsigned watches_retry(struct watches *watches, int64_t now_ms)
{
	if (watches->fd >= 0 || now_ms < watches->retry_at_ms) {
		return 0;
	}
	watches->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	watches->retry_at_ms = now_ms + RETRY_MS;
	return watches->fd >= 0 ? LOOKER_LOST : LOOKER_CHANGED;
}

/* ---- sets ---- */

void watches_begin(struct watches *watches, uint64_t number, const char *only)
{
	struct set *set = find_set(watches, number);
	if (!set) {
		set = memory_zeroed(1, sizeof(*set));
		set->number = number;
		set->only = only;
		list_init(&set->watches);
		list_init(&set->link);
		memory_must(tsearch(set, &watches->by_number, compare_numbers));
	}
	set->generation++;
	set->complete = true;
	watches->named = set;
}

void watches_go_on(struct watches *watches, uint64_t number)
{
	watches->named = find_set(watches, number);
	if (!watches->named) {
		watches_begin(watches, number, NULL);
		watches->named->complete = false;
	}
}

static void free_watch(struct watches *watches, struct watch *watch)
{
	tdelete(watch, &watches->by_descriptor, compare_descriptors);
	list_remove(&watch->link);
	free(watch);
}

void watches_add(struct watches *watches, int fd)
{
	char name[PROC_NAME_BYTES];
	struct set *set = watches->named;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	int descriptor = watches->fd >= 0 ? inotify_add_watch(watches->fd, name, EVENTS) : -1;
	if (descriptor < 0) {
		set->complete = set->complete && watches->fd >= 0 && errno == ENOENT;
		return;
	}
	struct watch *watch = find(watches, descriptor);
	if (!watch) {
		watch = memory_zeroed(1, sizeof(*watch));
		watch->descriptor = descriptor;
		list_init(&watch->link);
		memory_must(tsearch(watch, &watches->by_descriptor, compare_descriptors));
	}
	list_remove(&watch->link);
	list_append(&set->watches, &watch->link);
	watch->set = set;
	watch->generation = set->generation;
}

static void drop(struct watches *watches, struct set *set, bool all)
{
	struct list *next;
	for (struct list *at = set->watches.next; at != &set->watches; at = next) {
		struct watch *watch = LIST_ITEM(at, struct watch, link);
		next = at->next;
		if (all || watch->generation != set->generation) {
			inotify_rm_watch(watches->fd, watch->descriptor);
			free_watch(watches, watch);
		}
	}
}

bool watches_end(struct watches *watches)
{
	drop(watches, watches->named, false);
	return watches->named->complete;
}

void watches_forget(struct watches *watches, uint64_t number)
{
	struct set *set = find_set(watches, number);
	if (set) {
		drop(watches, set, true);
		tdelete(set, &watches->by_number, compare_numbers);
		list_remove(&set->link);
		free(set);
	}
}

void watches_destroy(struct watches *watches)
{
	while (watches->by_number) {
		watches_forget(watches, (*(struct set **)watches->by_number)->number);
	}
	if (watches->fd >= 0) {
		close(watches->fd);
	}
	free(watches);
}

/* ---- events ---- */

static unsigned meaning(const struct inotify_event *event)
{
	const char *name = event->len ? event->name : "";
	if ((event->mask & IN_CLOSE_WRITE) && strcmp(name, DIR_OWNER) == 0) {
		return LOOKER_OWNER_CLOSED;
	}
	return event->mask & IN_IGNORED ? 0 : LOOKER_CHANGED;
}

static void note(struct watches *watches, const struct inotify_event *event, struct list *touched)
{
	struct watch *watch = find(watches, event->wd);
	if (!watch) {
		return; /* it ended while this event was under way */
	}
	struct set *set = watch->set;
	const char *name = event->len ? event->name : "";
	if (event->mask & IN_IGNORED) {
		free_watch(watches, watch); /* its directory is gone */
	}
	if (set->only && strcmp(set->only, name) != 0) {
		return;
	}
	set->what |= meaning(event);
	set->count++;
	list_remove(&set->link);
	list_append(touched, &set->link);
}

void watches_read(struct watches *watches,
	void (*on_events)(void *context, uint64_t set, unsigned what, size_t count), void *context)
{
	static _Alignas(struct inotify_event) char bytes[EVENT_BYTES];
	struct list touched;
	bool lost = false;
	list_init(&touched);
	ssize_t len = read(watches->fd, bytes, sizeof(bytes));
	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *event =
			(const struct inotify_event *)(const void *)(bytes + at);
		at += (ssize_t)(sizeof(*event) + event->len);
		lost = lost || (event->mask & IN_Q_OVERFLOW);
		note(watches, event, &touched);
	}
	while (!list_empty(&touched)) {
		struct set *set = LIST_ITEM(touched.next, struct set, link);
		list_remove(&set->link);
		on_events(context, set->number, set->what, set->count);
		set->what = 0;
		set->count = 0;
	}
	if (lost) {
		on_events(context, 0, LOOKER_LOST, 1);
	}
}
