#include "agent/bridge/watches.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/late_close.h"

#define EVENTS                                                                                     \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE_SELF |   \
		IN_MOVE_SELF | IN_ONLYDIR)

enum { EVENT_BYTES = 64 * 1024, PROC_NAME_BYTES = 40 };

struct watch {
	struct list link;
	int descriptor; /* first of what the tree compares */
	unsigned generation;
	struct bridge_watch_set *set;
};

struct bridge_watches {
	struct ev_loop *loop;
	ev_io io;
	int fd;
	void *by_descriptor; /* tsearch() tree */
	bool refused;        /* a watch, and the log says so */
	void (*on_lost)(void *context);
	void *context;
};

static int compare(const void *a, const void *b)
{
	int left = ((const struct watch *)a)->descriptor;
	int right = ((const struct watch *)b)->descriptor;
	return (left > right) - (left < right);
}

static struct watch *find(struct bridge_watches *watches, int descriptor)
{
	struct watch key = { .descriptor = descriptor };
	struct watch **found = tfind(&key, &watches->by_descriptor, compare);
	return found ? *found : NULL;
}

static void free_watch(struct bridge_watches *watches, struct watch *watch)
{
	tdelete(watch, &watches->by_descriptor, compare);
	list_remove(&watch->link);
	free(watch);
}

/* ---- events ---- */

static void hand_on(struct bridge_watches *watches, const struct inotify_event *event)
{
	if (event->mask & IN_Q_OVERFLOW) {
		watches->on_lost(watches->context);
		return;
	}
	struct watch *watch = find(watches, event->wd);
	if (!watch) {
		return; /* it ended while this event was under way */
	}
	struct bridge_watch_set *set = watch->set;
	if (event->mask & IN_IGNORED) {
		free_watch(watches, watch); /* its directory is gone */
	}
	set->on_event(set->context, event->mask, event->len ? event->name : "");
}

/* One read for each call: the loop has other work, too. */
static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	_Alignas(struct inotify_event) char bytes[EVENT_BYTES];
	struct bridge_watches *watches = io->data;
	(void)loop;
	(void)events;
	ssize_t len = read(watches->fd, bytes, sizeof(bytes));
	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *event =
			(const struct inotify_event *)(const void *)(bytes + at);
		at += (ssize_t)(sizeof(*event) + event->len);
		hand_on(watches, event);
	}
}

/* ---- life ---- */

int bridge_watches_create(struct bridge_watches **ret_watches, struct ev_loop *loop,
	void (*on_lost)(void *context), void *context, struct err *err)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot use inotify%s",
			errno == EMFILE ? " (fs.inotify.max_user_instances)" : "");
	}
	struct bridge_watches *watches = allocate_zeroed(1, sizeof(*watches));
	watches->loop = loop;
	watches->fd = fd;
	watches->on_lost = on_lost;
	watches->context = context;
	ev_io_init(&watches->io, on_readable, fd, EV_READ);
	watches->io.data = watches;
	ev_io_start(loop, &watches->io);
	*ret_watches = watches;
	return 0;
}

void bridge_watches_destroy(struct bridge_watches *watches)
{
	if (!watches) {
		return;
	}
	ev_io_stop(watches->loop, &watches->io);
	close(watches->fd);
	free(watches);
}

void bridge_watches_leave(struct bridge_watches *watches)
{
	ev_io_stop(watches->loop, &watches->io);
	late_close(watches->fd);
	watches->fd = -1;
}

/* ---- sets ---- */

void bridge_watch_set_init(struct bridge_watch_set *set,
	void (*on_event)(void *context, uint32_t mask, const char *name), void *context)
{
	*set = (struct bridge_watch_set){ .on_event = on_event, .context = context };
	list_init(&set->watches);
}

void bridge_watch_set_begin(struct bridge_watch_set *set)
{
	set->generation++;
	set->incomplete = false;
}

static void refuse(struct bridge_watches *watches, struct bridge_watch_set *set, int error)
{
	set->incomplete = true;
	if (!watches->refused && error != ENOENT) {
		log_warn("bridge", "cannot watch a directory: %s%s; looking once a second instead",
			strerror(error), error == ENOSPC ? " (fs.inotify.max_user_watches)" : "");
		watches->refused = true;
	}
}

void bridge_watch_set_add(struct bridge_watches *watches, struct bridge_watch_set *set, int fd)
{
	char name[PROC_NAME_BYTES];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	int descriptor = inotify_add_watch(watches->fd, name, EVENTS);
	if (descriptor < 0) {
		refuse(watches, set, errno);
		return;
	}
	struct watch *watch = find(watches, descriptor);
	if (!watch) {
		watch = allocate_zeroed(1, sizeof(*watch));
		watch->descriptor = descriptor;
		list_init(&watch->link);
		allocated(tsearch(watch, &watches->by_descriptor, compare));
	}
	list_remove(&watch->link);
	list_append(&set->watches, &watch->link);
	watch->set = set;
	watch->generation = set->generation;
}

static void drop(struct bridge_watches *watches, struct bridge_watch_set *set, bool all)
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

void bridge_watch_set_end(struct bridge_watches *watches, struct bridge_watch_set *set)
{
	drop(watches, set, false);
}

void bridge_watch_set_finish(struct bridge_watches *watches, struct bridge_watch_set *set)
{
	drop(watches, set, true);
}
