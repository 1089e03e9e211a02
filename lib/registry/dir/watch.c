#include "lib/registry/dir/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "lib/base/late_close.h"
#include "lib/registry/dir/mark.h"
#include "lib/registry/dir/node.h"

enum {
	POLL_INTERVAL_MS = 1000, /* also between attempts to get inotify at all */
	LOOK_FIRST_MS = 1, /* the lock is released microseconds after the file is closed … */
	LOOK_LAST_MS =
		/*
		 * … but the dying process may run slowly; later than this, another process closed
		 * the file
		 */
	16384,
	EVENT_BYTES = 16 * 1024,
	EVENT_READS =
		256 /* in one dispatch, so that a flood of events cannot hold up everything else */
};

#define MARK_EVENTS                                                                                \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE_SELF |   \
		IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW)

struct dir_watches {
	char *full; /* the absolute path of the root, with room for a registry path behind it */
	size_t root_len;
	struct registry_core core;
	int epoll_fd;           /* the caller's, which is readable when `fd` is */
	int fd;                 /* -1: the user's inotify instances are used up */
	struct dir_mark *marks; /* of the root; always there */
	void *by_descriptor;    /* tsearch() tree of the marks that have one */
	struct list fired;
	struct list dying;
	size_t polled;
	int64_t poll_at_ms; /* 0: to be set by the next dispatch */
	int64_t now_ms;     /* of the current dispatch, or of the last one */
};

static int compare_descriptors(const void *a, const void *b)
{
	int left = ((const struct dir_mark *)a)->descriptor,
	    right = ((const struct dir_mark *)b)->descriptor;
	return (left > right) - (left < right);
}

static struct dir_mark *find_descriptor(struct dir_watches *watches, int descriptor)
{
	struct dir_mark key = { .descriptor = descriptor };
	struct dir_mark **found = tfind(&key, &watches->by_descriptor, compare_descriptors);
	return found ? *found : NULL;
}

static void forget_descriptor(struct dir_watches *watches, struct dir_mark *mark)
{
	if (mark->descriptor >= 0) {
		tdelete(mark, &watches->by_descriptor, compare_descriptors);
		mark->descriptor = -1;
	}
}

/*
 * The kernel has one watch per directory: a descriptor that another mark has means that its
 * directory was moved here.
 */
static int set_descriptor(struct dir_watches *watches, struct dir_mark *mark, int descriptor)
{
	if (mark->descriptor == descriptor) {
		return 0;
	}
	if (mark->descriptor >= 0) {
		inotify_rm_watch(watches->fd, mark->descriptor);
		forget_descriptor(watches, mark);
	}
	if (descriptor < 0) {
		return 0;
	}
	struct dir_mark *other = find_descriptor(watches, descriptor);
	if (other) {
		forget_descriptor(watches, other);
		other->stale = true;
	}
	mark->descriptor = descriptor;
	if (!tsearch(mark, &watches->by_descriptor, compare_descriptors)) {
		mark->descriptor = -1;
		inotify_rm_watch(watches->fd, descriptor);
		return -1;
	}
	return 0;
}

static void set_polled(
	struct dir_watches *watches, struct dir_mark *mark, bool polled, int errno_value)
{
	char path[LIMIT_PATH_BYTES + 1], message[LIMIT_PATH_BYTES + 256];
	if (mark->polled == polled) {
		return;
	}
	mark->polled = polled;
	watches->polled += polled ? 1 : (size_t)-1;
	if (polled && watches->polled == 1 && watches->core.log) {
		dir_mark_path(mark, path);
		snprintf(message, sizeof(message),
			"cannot watch %s: %s%s; looking once a second instead", path,
			strerror(errno_value),
			errno_value == ENOSPC           ? " (fs.inotify.max_user_watches)"
				: errno_value == EMFILE ? " (fs.inotify.max_user_instances)"
							: "");
		watches->core.log(watches->core.core, REGISTRY_LOG_WARN, message);
	}
}

/*
 * The kernel reports the closing before it releases the lock, so the watches look again at an owner
 * that seems alive. The same goes for a new mark: the owner's file may have been closed just
 * before, and the kernel may release the lock just after the first look.
 */
static void look_soon(struct dir_watches *watches, struct dir_mark *mark)
{
	if (mark->look_at_ms == 0) {
		list_append(&watches->dying, &mark->dying_link);
	}
	mark->look_wait_ms = LOOK_FIRST_MS;
	mark->look_at_ms = watches->now_ms + LOOK_FIRST_MS;
}

static void stop_looking(struct dir_mark *mark)
{
	list_remove(&mark->dying_link);
	mark->look_at_ms = 0;
}

/* Makes the mark's descriptor watch the directory that is now at its path. */
static void refresh(struct dir_watches *watches, struct dir_mark *mark)
{
	if (!mark->stale) {
		return;
	}
	dir_mark_path(mark, watches->full + watches->root_len);
	int descriptor = watches->fd < 0
		? -1
		: inotify_add_watch(watches->fd, watches->full, MARK_EVENTS);
	int error = watches->fd < 0 ? EMFILE : errno;
	if (descriptor >= 0 && descriptor != mark->descriptor) {
		look_soon(watches, mark);
	} else if (descriptor < 0) {
		stop_looking(mark); /* from now on every reader finds it gone */
	}
	if (set_descriptor(watches, mark, descriptor) != 0) {
		descriptor = -1;
		error = ENOMEM;
	}
	mark->stale = descriptor < 0 && error != ENOENT && error != ENOTDIR && error != ELOOP;
	set_polled(watches, mark, mark->stale, error);
}

static void fire(struct dir_watches *watches, struct dir_mark *mark, enum registry_watch_kind kind)
{
	if (!mark->armed[kind]) {
		return;
	}
	mark->armed[kind] = false;
	mark->fired[kind] = true;
	if (list_empty(&mark->fired_link)) {
		list_append(&watches->fired, &mark->fired_link);
	}
}

static void visit_changed(void *context, struct dir_mark *mark)
{
	struct dir_watches *watches = context;
	mark->stale = true;
	fire(watches, mark, REGISTRY_WATCH_DATA);
	fire(watches, mark, REGISTRY_WATCH_CHILDREN);
}

/* Another directory, or none, may be at the mark's path, and at the paths below it. */
static void changed(struct dir_watches *watches, struct dir_mark *mark)
{
	dir_mark_walk(mark, visit_changed, watches);
	if (mark->parent) {
		fire(watches, mark->parent, REGISTRY_WATCH_CHILDREN);
	}
}

static void visit_arm(void *context, struct dir_mark *mark)
{
	(void)context;
	mark->armed[REGISTRY_WATCH_DATA] = mark->wanted[REGISTRY_WATCH_DATA];
	mark->armed[REGISTRY_WATCH_CHILDREN] = mark->wanted[REGISTRY_WATCH_CHILDREN];
}

void dir_watches_all_changed(struct dir_watches *watches)
{
	dir_mark_walk(
		watches->marks, visit_arm, NULL); /* a reading that failed has not armed anew */
	changed(watches, watches->marks);
}

static void free_mark(struct dir_watches *watches, struct dir_mark *mark)
{
	list_remove(&mark->fired_link);
	stop_looking(mark);
	set_polled(watches, mark, false, 0);
	set_descriptor(watches, mark, -1);
	dir_mark_free(mark);
}

/* Frees the mark and its ancestors as far as nothing needs them. */
static void release(struct dir_watches *watches, struct dir_mark *mark)
{
	while (dir_mark_idle(mark)) {
		struct dir_mark *parent = mark->parent;
		free_mark(watches, mark);
		mark = parent;
	}
}

/* Others of the same user may have taken all instances; they are tried again. */
static void open_inotify(struct dir_watches *watches)
{
	struct epoll_event readable = { .events = EPOLLIN };
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (fd >= 0 && watches->epoll_fd >= 0 &&
		epoll_ctl(watches->epoll_fd, EPOLL_CTL_ADD, fd, &readable) != 0) {
		close(fd);
		fd = -1;
	}
	watches->fd = fd;
}

int dir_watches_create(struct dir_watches **ret_watches, const char *root, int epoll_fd,
	const struct registry_core *core, struct err *err)
{
	struct dir_watches *watches = calloc(1, sizeof(*watches));
	if (!watches) {
		return err_set(err, BERTH_FAILED, "no memory for watches");
	}
	watches->core = *core;
	list_init(&watches->fired);
	list_init(&watches->dying);
	watches->epoll_fd = epoll_fd;
	open_inotify(watches);
	watches->root_len = strlen(root);
	watches->full = malloc(watches->root_len + LIMIT_PATH_BYTES + 1);
	watches->marks = dir_mark_create(NULL, "", 0);
	if (!watches->full || !watches->marks) {
		dir_watches_destroy(watches);
		return err_set(err, BERTH_FAILED, "no memory for watches");
	}
	memcpy(watches->full, root, watches->root_len + 1);
	refresh(watches, watches->marks);
	*ret_watches = watches;
	return 0;
}

static void free_tree(struct dir_watches *watches, struct dir_mark *mark)
{
	while (mark->count > 0) {
		free_tree(watches, mark->children[mark->count - 1]);
	}
	forget_descriptor(watches, mark);
	dir_mark_free(mark);
}

static void destroy(struct dir_watches *watches, void (*close_inotify)(int fd))
{
	if (watches->marks) {
		free_tree(watches, watches->marks);
	}
	if (watches->fd >= 0) {
		close_inotify(watches->fd);
	}
	free(watches->full);
	free(watches);
}

static void close_now(int fd)
{
	close(fd);
}

void dir_watches_destroy(struct dir_watches *watches)
{
	if (watches) {
		destroy(watches, close_now);
	}
}

void dir_watches_leave(struct dir_watches *watches)
{
	destroy(watches, late_close);
}

/* The mark of the path with all above it, in place from the root down; NULL without memory. */
static struct dir_mark *put_marks(struct dir_watches *watches, const char *path)
{
	struct dir_mark *mark = watches->marks;
	refresh(watches, mark);
	for (const char *element = path + 1; *element != '\0';) {
		size_t len = (size_t)(strchrnul(element, '/') - element);
		struct dir_mark *child = dir_mark_child(mark, element, len);
		if (!child) {
			child = dir_mark_create(mark, element, len);
		}
		if (!child) {
			release(watches, mark);
			return NULL;
		}
		mark = child;
		refresh(watches, mark);
		element += element[len] == '/' ? len + 1 : len;
	}
	return mark;
}

int dir_watches_arm(struct dir_watches *watches, const char *path, enum registry_watch_kind kind,
	struct err *err)
{
	struct dir_mark *mark = put_marks(watches, path);
	if (!mark) {
		return err_set(err, BERTH_FAILED, "no memory to watch %s", path);
	}
	mark->wanted[kind] = true;
	mark->armed[kind] = true;
	if (kind == REGISTRY_WATCH_CHILDREN) {
		mark->reading++;
	}
	return 0;
}

int dir_watches_arm_child(
	struct dir_watches *watches, const char *path, const char *name, struct err *err)
{
	struct dir_mark *mark = dir_mark_find(watches->marks, path);
	size_t len = strlen(name);
	struct dir_mark *child = dir_mark_child(mark, name, len);
	if (!child) {
		child = dir_mark_create(mark, name, len);
	}
	if (!child) {
		return err_set(err, BERTH_FAILED, "no memory to watch %s", path);
	}
	child->held = true;
	child->generation = mark->reading;
	refresh(watches, child);
	return 0;
}

static void release_children(struct dir_watches *watches, struct dir_mark *mark, bool all)
{
	for (size_t i = mark->count; i-- > 0;) {
		struct dir_mark *child = mark->children[i];
		if (child->held && (all || child->generation != mark->reading)) {
			child->held = false;
			if (dir_mark_idle(child)) {
				free_mark(watches, child);
			}
		}
	}
}

void dir_watches_children_known(struct dir_watches *watches, const char *path)
{
	struct dir_mark *mark = dir_mark_find(watches->marks, path);
	if (mark) {
		release_children(watches, mark, false);
	}
}

void dir_watches_remove(
	struct dir_watches *watches, const char *path, enum registry_watch_kind kind)
{
	struct dir_mark *mark = dir_mark_find(watches->marks, path);
	if (!mark) {
		return;
	}
	mark->wanted[kind] = false;
	mark->armed[kind] = false;
	mark->fired[kind] = false;
	if (kind == REGISTRY_WATCH_CHILDREN) {
		release_children(watches, mark, true);
	}
	release(watches, mark);
}

static void owner_changed(struct dir_watches *watches, struct dir_mark *mark)
{
	fire(watches, mark, REGISTRY_WATCH_DATA);
	if (mark->parent) {
		fire(watches, mark->parent, REGISTRY_WATCH_CHILDREN);
	}
}

static enum dir_kind look(const struct dir_mark *mark, int root_fd)
{
	char path[LIMIT_PATH_BYTES + 1];
	struct err err = ERR_INIT;
	struct dir_node node;
	dir_mark_path(mark, path);
	enum dir_kind kind = dir_node_open(&node, root_fd, path, strlen(path), &err) == 0
		? node.kind
		: DIR_ABSENT;
	dir_node_close(&node);
	return kind;
}

static void owner_closed(struct dir_watches *watches, struct dir_mark *mark, int root_fd)
{
	if (look(mark, root_fd) == DIR_EPHEMERAL) {
		look_soon(watches, mark);
	} else {
		owner_changed(watches, mark);
	}
}

static void look_at_dying(struct dir_watches *watches, int root_fd)
{
	struct list *next;
	for (struct list *at = watches->dying.next; at != &watches->dying; at = next) {
		struct dir_mark *mark = LIST_ITEM(at, struct dir_mark, dying_link);
		next = at->next;
		if (mark->look_at_ms > watches->now_ms) {
			continue;
		}
		enum dir_kind kind = look(mark, root_fd);
		if (kind == DIR_EPHEMERAL && mark->look_wait_ms < LOOK_LAST_MS) {
			mark->look_wait_ms *= 2;
			mark->look_at_ms = watches->now_ms + mark->look_wait_ms;
			continue;
		}
		stop_looking(mark);
		if (!dir_kind_live(kind)) {
			owner_changed(watches, mark);
		}
	}
}

static void on_name_event(struct dir_watches *watches, struct dir_mark *mark,
	const struct inotify_event *event, int root_fd)
{
	struct dir_mark *child;
	if (strcmp(event->name, DIR_RECORD) == 0) {
		fire(watches, mark, REGISTRY_WATCH_DATA);
	} else if (strcmp(event->name, DIR_OWNER) == 0 && (event->mask & IN_CLOSE_WRITE) != 0) {
		owner_closed(watches, mark, root_fd);
	} else if (strcmp(event->name, DIR_OWNER) == 0) {
		owner_changed(watches, mark);
	} else if (event->name[0] != '_' && (event->mask & IN_CLOSE_WRITE) == 0) {
		fire(watches, mark, REGISTRY_WATCH_CHILDREN);
		child = dir_mark_child(mark, event->name, strlen(event->name));
		if (child) {
			changed(watches, child);
		}
	}
}

static void on_event(struct dir_watches *watches, const struct inotify_event *event, int root_fd)
{
	if ((event->mask & IN_Q_OVERFLOW) != 0) {
		dir_watches_all_changed(watches);
		return;
	}
	struct dir_mark *mark = find_descriptor(watches, event->wd);
	if (!mark) {
		return;
	}
	if ((event->mask & IN_IGNORED) != 0) {
		forget_descriptor(watches, mark);
	}
	if ((event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0) {
		changed(watches, mark);
	} else if (event->len > 0) {
		on_name_event(watches, mark, event, root_fd);
	}
}

static void read_events(struct dir_watches *watches, int root_fd)
{
	_Alignas(struct inotify_event) char events[EVENT_BYTES];
	for (int i = 0; watches->fd >= 0 && i < EVENT_READS; i++) {
		ssize_t len = read(watches->fd, events, sizeof(events));
		if (len <= 0) {
			return;
		}
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *event =
				(const struct inotify_event *)(const void *)(events + at);
			on_event(watches, event, root_fd);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
}

static void visit_polled(void *context, struct dir_mark *mark)
{
	if (mark->polled) {
		changed(context, mark);
	}
}

static void poll_marks(struct dir_watches *watches)
{
	int64_t now_ms = watches->now_ms;
	if (watches->polled == 0) {
		watches->poll_at_ms = 0;
	} else if (watches->poll_at_ms == 0) {
		watches->poll_at_ms = now_ms + POLL_INTERVAL_MS;
	} else if (now_ms >= watches->poll_at_ms) {
		watches->poll_at_ms = now_ms + POLL_INTERVAL_MS;
		if (watches->fd < 0) {
			open_inotify(watches);
		}
		refresh(watches, watches->marks);
		dir_mark_walk(watches->marks, visit_polled, watches);
	}
}

static void notify(struct dir_watches *watches)
{
	char path[LIMIT_PATH_BYTES + 1];
	while (!list_empty(&watches->fired)) {
		struct dir_mark *mark = LIST_ITEM(watches->fired.next, struct dir_mark, fired_link);
		enum registry_watch_kind kind = mark->fired[REGISTRY_WATCH_DATA]
			? REGISTRY_WATCH_DATA
			: REGISTRY_WATCH_CHILDREN;
		bool due = mark->fired[kind];
		mark->fired[kind] = false;
		if (!mark->fired[REGISTRY_WATCH_DATA] && !mark->fired[REGISTRY_WATCH_CHILDREN]) {
			list_remove(&mark->fired_link);
		}
		if (due) {
			dir_mark_path(mark, path);
			watches->core.notified(watches->core.core, path, kind, false);
		}
	}
}

void dir_watches_dispatch(struct dir_watches *watches, int root_fd, int64_t now_ms)
{
	watches->now_ms = now_ms;
	read_events(watches, root_fd);
	look_at_dying(watches, root_fd);
	poll_marks(watches);
	notify(watches);
}

int dir_watches_fd(const struct dir_watches *watches)
{
	return watches->fd;
}

int64_t dir_watches_deadline_ms(const struct dir_watches *watches)
{
	int64_t deadline_ms = INT64_MAX;
	if (!list_empty(&watches->fired)) {
		return 0;
	}
	if (watches->polled > 0) {
		deadline_ms = watches->poll_at_ms;
	}
	for (const struct list *at = watches->dying.next; at != &watches->dying; at = at->next) {
		const struct dir_mark *mark = LIST_ITEM(at, struct dir_mark, dying_link);
		deadline_ms = mark->look_at_ms < deadline_ms ? mark->look_at_ms : deadline_ms;
	}
	return deadline_ms;
}
