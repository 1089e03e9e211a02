#include "looker/registry.h"

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/program/memory.h"
#include "lib/registry/backend.h"
#include "lib/registry/dir/dir.h"
#include "lib/registry/dir/remote.h"
#include "lib/registry/registry_dir.h"

enum { NAMES_AT_ONCE = 1024, FLUSH_BYTES = 64 * 1024 };

struct served {
	struct registry_task task;
	struct list link;
	uint64_t tag; /* its caller's */
	char *path;
	char *data;
	char *home_of;
};

static struct wire *wire;
static struct registry_backend *backend;
static const char *root;
static struct list tasks;
static uint64_t frames; /* read */
static size_t dropped;  /* answers to DROP that are in the buffer */

/* ---- to the caller; its end is ours ---- */

static void flush(void)
{
	wire_flush(wire);
	if (wire_is_gone(wire)) {
		_exit(0);
	}
}

static void end_frame(void)
{
	wire_end(wire);
	if (wire->out.len >= FLUSH_BYTES) {
		flush();
	}
}

static void receive(void)
{
	if (wire_receive(wire) < 0) {
		_exit(0);
	}
}

static void free_served(struct served *served)
{
	list_remove(&served->link);
	free(served->path);
	free(served->data);
	free(served->home_of);
	free(served);
}

static void send_names(uint64_t tag, bool foreign, char **names, size_t count)
{
	for (size_t from = 0; from < count; from += NAMES_AT_ONCE) {
		size_t part = count - from < NAMES_AT_ONCE ? count - from : NAMES_AT_ONCE;
		wire_begin(wire, DIR_FRAME_NAMES);
		wire_number(wire, tag);
		wire_number(wire, foreign);
		wire_number(wire, part);
		for (size_t i = from; i < from + part; i++) {
			wire_text(wire, names[i]);
		}
		end_frame();
	}
	for (size_t i = 0; i < count; i++) {
		free(names[i]);
	}
	free(names);
}

static void on_completed(void *context, struct registry_task *task)
{
	struct served *served = task->owner;
	(void)context;
	bool has_children = task->ret_children;
	send_names(served->tag, false, task->ret_children, task->ret_children_count);
	send_names(served->tag, true, task->ret_foreign, task->ret_foreign_count);
	wire_begin(wire, DIR_FRAME_DONE);
	wire_number(wire, served->tag);
	wire_number(wire,
		(task->ret_childless ? DIR_DONE_CHILDLESS : 0) |
			(task->ret_data ? DIR_DONE_HAS_DATA : 0) |
			(has_children ? DIR_DONE_HAS_CHILDREN : 0));
	wire_number(wire, (uint64_t)(int64_t)task->ret_err.code);
	wire_text(wire, task->ret_err.msg);
	wire_bytes(wire, &task->ret_stat, sizeof(task->ret_stat));
	wire_bytes(wire, task->ret_data ? task->ret_data : "", task->ret_data ? task->ret_len : 0);
	end_frame();
	free(task->ret_data);
	free_served(served);
}

static void on_notified(void *context, const char *path, enum registry_watch_kind kind, bool gone)
{
	(void)context;
	wire_begin(wire, DIR_FRAME_NOTIFIED);
	wire_text(wire, path);
	wire_number(wire, kind);
	wire_number(wire, gone);
	end_frame();
}

static void on_state(void *context, enum registry_state state, const char *why)
{
	(void)context;
	wire_begin(wire, DIR_FRAME_STATE);
	wire_number(wire, state);
	wire_text(wire, why);
	end_frame();
}

static void on_log(void *context, enum registry_log_level level, const char *message)
{
	(void)context;
	wire_begin(wire, DIR_FRAME_LOG);
	wire_number(wire, level);
	wire_text(wire, message);
	end_frame();
}

/* ---- locks ---- */

static void keep(void *context, const char *path, int owner_fd)
{
	(void)context;
	flush();
	wire_begin(wire, DIR_FRAME_OWNER);
	wire_text(wire, path);
	wire_end_with(wire, owner_fd);
	flush();
}

/* Those who look find an empty file first, then a free lock. */
static void empty(const struct dir_owned *owned)
{
	struct stat status;
	char *file;
	if (!owned->path || asprintf(&file, "%s%s/" DIR_OWNER, root, owned->path) < 0) {
		return;
	}
	int fd = open(file, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	free(file);
	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == owned->device &&
		status.st_ino == owned->inode) {
		(void)!ftruncate(fd, 0);
	}
	if (fd >= 0) {
		close(fd);
	}
}

/* Frames before the answer stay in the buffer. */
static void await_answer(void)
{
	size_t used = 0;
	size_t met = 0;
	struct wire_frame frame;
	for (dropped++; met < dropped;) {
		int got = wire_next(wire, &used, &frame);
		if (got < 0) {
			exit(EXIT_FAILURE);
		}
		if (got == 0) {
			receive();
		}
		met += got > 0 && frame.type == DIR_FRAME_DROPPED;
	}
}

static void drop(void *context, const struct dir_owned *owned)
{
	(void)context;
	empty(owned);
	wire_begin(wire, DIR_FRAME_DROP);
	wire_number(wire, owned->device);
	wire_number(wire, owned->inode);
	wire_end(wire);
	flush();
	await_answer();
}

static const struct dir_keeper keeper = { .keep = keep, .drop = drop };

/* ---- from the caller ---- */

static void take_task(struct wire_frame *frame)
{
	struct served *served = memory_zeroed(1, sizeof(*served));
	struct registry_task *task = &served->task;
	served->tag = wire_get_number(frame);
	task->operation = (enum registry_operation)wire_get_number(frame);
	unsigned flags = (unsigned)wire_get_number(frame);
	int64_t left_ms = (int64_t)wire_get_number(frame);
	task->expected.node_id = wire_get_number(frame);
	task->expected.version = (int64_t)wire_get_number(frame);
	const char *path = wire_get_text(frame);
	const char *data = wire_get_bytes(frame, &task->len);
	const char *home_of = wire_get_text(frame);
	if (frame->bad || task->operation > REGISTRY_OP_REPLACE) {
		exit(EXIT_FAILURE);
	}
	served->path = memory_text(path, strlen(path));
	served->data = memory_text(data, task->len);
	served->home_of = memory_text(home_of, strlen(home_of));
	task->path = served->path;
	task->data = served->data;
	task->home_of = flags & DIR_TASK_HAS_HOME ? served->home_of : NULL;
	task->watch = flags & DIR_TASK_WATCH;
	task->ephemeral = flags & DIR_TASK_EPHEMERAL;
	task->sequential = flags & DIR_TASK_SEQUENTIAL;
	task->container = flags & DIR_TASK_CONTAINER;
	task->all = flags & DIR_TASK_ALL;
	task->has_expected = flags & DIR_TASK_EXPECTS;
	task->deadline_ms = clock_monotonic_ms() + left_ms;
	task->owner = served;
	list_init(&served->link);
	list_append(&tasks, &served->link);
	registry_dir_ops.submit(backend, task);
}

static void abandon(uint64_t tag)
{
	struct list *next;
	for (struct list *at = tasks.next; at != &tasks; at = next) {
		struct served *served = LIST_ITEM(at, struct served, link);
		next = at->next;
		if (served->tag == tag) {
			registry_dir_ops.abandon(backend, &served->task);
			free_served(served);
		}
	}
}

static void unwatch(struct wire_frame *frame)
{
	const char *path = wire_get_text(frame);
	uint64_t kind = wire_get_number(frame);
	if (!frame->bad && kind <= REGISTRY_WATCH_CHILDREN) {
		registry_dir_ops.unwatch(backend, path, (enum registry_watch_kind)kind);
	}
}

static void answer(struct wire_frame *frame)
{
	frames++;
	switch (frame->type) {
	case DIR_FRAME_TASK:
		take_task(frame);
		break;
	case DIR_FRAME_ABANDON:
		abandon(wire_get_number(frame));
		break;
	case DIR_FRAME_UNWATCH:
		unwatch(frame);
		break;
	case DIR_FRAME_DROPPED:
		break; /* it has been waited for */
	case DIR_FRAME_CLOSE:
		registry_dir_ops.close(backend);
		exit(EXIT_SUCCESS);
	default:
		exit(EXIT_FAILURE);
	}
}

static void answer_all(void)
{
	struct wire_frame frame;
	size_t used = 0;
	int got;
	while ((got = wire_next(wire, &used, &frame)) > 0) {
		frame.bad = false;
		answer(&frame);
	}
	if (got < 0) {
		exit(EXIT_FAILURE);
	}
	wire_consume(wire, used);
	dropped = 0;
}

static void rest(void)
{
	wire_begin(wire, DIR_FRAME_RESTS);
	wire_number(wire, frames);
	wire_end(wire);
	flush();
}

/* ---- life ---- */

static json_t *get_locks(struct wire_frame *hello)
{
	json_t *locks = memory_must(json_array());
	size_t count = (size_t)wire_get_number(hello);
	for (size_t i = 0; i < count && !hello->bad; i++) {
		const char *path = wire_get_text(hello);
		json_int_t device = (json_int_t)wire_get_number(hello);
		json_int_t inode = (json_int_t)wire_get_number(hello);
		json_array_append_new(locks,
			json_pack(
				"{s:s, s:I, s:I}", "path", path, "device", device, "inode", inode));
	}
	return memory_must(json_pack("{s:o}", "locks", locks));
}

static void open_backend(struct wire_frame *hello)
{
	struct err err = ERR_INIT;
	const struct registry_core core = {
		.completed = on_completed, .notified = on_notified, .state = on_state, .log = on_log
	};
	const char *rest_of_url = wire_get_text(hello);
	root = memory_text(rest_of_url, strlen(rest_of_url));
	bool was_there = wire_get_number(hello) != 0;
	json_t *session = get_locks(hello);
	const struct registry_options options = { .forks = true, .session = session };
	if (hello->bad ||
		dir_open_kept(&backend, root, &options, &core, &keeper, was_there, &err)) {
		exit(EXIT_FAILURE);
	}
	json_decref(session);
}

void registry_serve(struct wire *wire_given, struct wire_frame *hello, size_t used)
{
	wire = wire_given;
	list_init(&tasks);
	open_backend(hello);
	frames++;
	wire_consume(wire, used);
	for (;;) {
		answer_all();
		registry_dir_ops.dispatch(backend, clock_monotonic_ms());
		rest();
		if (dropped > 0) {
			continue; /* frames have come with the answers to DROP */
		}
		int64_t left_ms = registry_dir_ops.deadline_ms(backend) - clock_monotonic_ms();
		struct pollfd fds[] = { { .fd = wire->fd, .events = POLLIN },
			{ .fd = registry_dir_ops.fd(backend), .events = POLLIN } };
		left_ms = left_ms < 0 ? 0 : left_ms;
		int timeout_ms = left_ms > INT32_MAX ? -1 : (int)left_ms;
		(void)poll(fds, 2, timeout_ms);
		if (fds[0].revents) {
			receive();
		}
		wire_begin(wire, DIR_FRAME_WORKS);
		wire_end(wire);
		flush();
	}
}
