#include "lib/registry/dir/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/looker/child.h"
#include "lib/looker/wire.h"
#include "lib/registry/backend.h"
#include "lib/registry/dir/session.h"

enum {
	PATIENCE_MS = 4000, /* for a word of the child; twice as long after each one given up */
	PATIENCE_MAX_MS = 32000,
	LATE_MS = 500, /* then we were not there ourselves: it has so long again, once */
	PAUSE_FIRST_MS = 1000,
	PAUSE_MAX_MS = 64000,
	GOOD_MS = 10000, /* then nobody holds the directory any more */
	DETACH_MS = 500,
	ABANDONED = 4,
	READS_AT_ONCE = 64
};

struct dir_remote {
	struct registry_backend base;
	char *root;
	int program;
	int wake; /* an epoll descriptor for all sockets */
	char session_name[32];
	bool was_there;

	pid_t pid;
	struct wire wire; /* fd -1: there is no child */
	bool wants_room;
	uint64_t sent; /* frames */
	uint64_t read; /* of those, by the child, when it rested last */
	bool works;
	bool closing; /* nobody wants to hear anything any more */
	bool excused; /* we were late ourselves, and it has had more time */
	bool rested;  /* and what it gets next has not been sent */
	int64_t heard_ms;
	int64_t started_ms;
	int64_t patience_ms;
	int64_t start_at_ms;
	int64_t pause_ms;
	int close_timeout_ms;
	struct {
		int fd; /* its socket; -1: the place is free */
		pid_t pid;
	} abandoned[ABANDONED]; /* children that were given up */

	enum registry_state state;
	char why[sizeof(((struct err *)NULL)->msg)];
	struct dir_session session; /* the locks */
	struct list tasks;
	uint64_t submitted;
	bool fresh;
};

static struct dir_remote *self(struct registry_backend *backend)
{
	return (struct dir_remote *)backend;
}

static bool has_child(const struct dir_remote *remote)
{
	return remote->wire.fd >= 0;
}

static void report_state(struct dir_remote *remote, enum registry_state state, const char *why)
{
	text_printf(remote->why, sizeof(remote->why), "%s", why);
	if (remote->state != state) {
		remote->state = state;
		remote->base.core.state(remote->base.core.core, state, remote->why);
	}
}

static void log_line(const struct dir_remote *remote, const char *message)
{
	if (remote->base.core.log) {
		remote->base.core.log(remote->base.core.core, REGISTRY_LOG_WARN, message);
	}
}

/* ---- sending ---- */

static void end_frame(struct dir_remote *remote)
{
	wire_end(&remote->wire);
	remote->rested = remote->rested || (remote->sent == remote->read && !remote->works);
	remote->sent++;
}

/* Its time begins when it gets something to do. */
static void flush(struct dir_remote *remote)
{
	if (remote->rested) {
		remote->rested = false;
		remote->heard_ms = clock_monotonic_ms();
	}
	wire_flush(&remote->wire);
	bool waits = wire_waits(&remote->wire) && !wire_is_gone(&remote->wire);
	if (waits != remote->wants_room) {
		struct epoll_event events = { .events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN };
		(void)epoll_ctl(remote->wake, EPOLL_CTL_MOD, remote->wire.fd, &events);
		remote->wants_room = waits;
	}
}

static void send_hello(struct dir_remote *remote)
{
	wire_begin(&remote->wire, DIR_FRAME_HELLO);
	wire_text(&remote->wire, remote->root);
	wire_number(&remote->wire, remote->was_there);
	wire_number(&remote->wire, remote->session.count);
	for (size_t i = 0; i < remote->session.count; i++) {
		const struct dir_owned *owned = &remote->session.owned[i];
		wire_text(&remote->wire, owned->path);
		wire_number(&remote->wire, owned->device);
		wire_number(&remote->wire, owned->inode);
	}
	end_frame(remote);
}

static void send_task(struct dir_remote *remote, const struct registry_task *task, int64_t now_ms)
{
	struct wire *wire = &remote->wire;
	int64_t left_ms = task->deadline_ms - now_ms;
	wire_begin(wire, DIR_FRAME_TASK);
	wire_number(wire, task->tag);
	wire_number(wire, task->operation);
	wire_number(wire,
		(task->watch ? DIR_TASK_WATCH : 0) | (task->ephemeral ? DIR_TASK_EPHEMERAL : 0) |
			(task->sequential ? DIR_TASK_SEQUENTIAL : 0) |
			(task->container ? DIR_TASK_CONTAINER : 0) |
			(task->all ? DIR_TASK_ALL : 0) |
			(task->has_expected ? DIR_TASK_EXPECTS : 0) |
			(task->home_of ? DIR_TASK_HAS_HOME : 0));
	wire_number(wire, left_ms > 0 ? (uint64_t)left_ms : 0);
	wire_number(wire, task->expected.node_id);
	wire_number(wire, (uint64_t)task->expected.version);
	wire_text(wire, task->path);
	wire_bytes(wire, task->data, task->data ? task->len : 0);
	wire_text(wire, task->home_of ? task->home_of : "");
	end_frame(remote);
}

/* ---- the ends of children ---- */

/* Its socket is closed: it ends now. A loop of the process may have seen its end before. */
static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
	}
}

static void kill_now(pid_t pid)
{
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, WNOHANG); /* it may hang */
}

static bool writes(const struct registry_task *task)
{
	return task->operation != REGISTRY_OP_GET && task->operation != REGISTRY_OP_CHILDREN &&
		task->operation != REGISTRY_OP_STAT;
}

static void clear_results(struct registry_task *task)
{
	struct registry_task nothing = { .ret_err = ERR_INIT };
	for (size_t i = 0; i < task->ret_children_count; i++) {
		free(task->ret_children[i]);
	}
	for (size_t i = 0; i < task->ret_foreign_count; i++) {
		free(task->ret_foreign[i]);
	}
	free(task->ret_children);
	free(task->ret_foreign);
	registry_task_move_results(task, &nothing);
}

static void complete(struct dir_remote *remote, struct registry_task *task)
{
	list_remove(&task->link);
	remote->base.core.completed(remote->base.core.core, task);
}

/* Those that were submitted until now: callbacks may submit others. */
static void fail_all(struct dir_remote *remote, const char *why)
{
	uint64_t limit = remote->submitted;
	while (!list_empty(&remote->tasks)) {
		struct registry_task *task = LIST_ITEM(
			remote->tasks.next, struct registry_task, link);
		if (task->tag > limit) {
			return;
		}
		clear_results(task);
		if (writes(task)) {
			err_set(&task->ret_err, BERTH_TIMEOUT,
				"nobody knows whether %s was written: %s", task->path, why);
		} else {
			err_set(&task->ret_err, BERTH_REGISTRY_UNAVAILABLE, "%s", why);
		}
		complete(remote, task);
	}
}

static void forget_child(struct dir_remote *remote)
{
	wire_finish(&remote->wire);
	remote->wants_room = false;
	remote->sent = remote->read = 0;
	remote->works = remote->rested = remote->excused = false;
}

static void plan_start(struct dir_remote *remote, int64_t now_ms)
{
	remote->pause_ms = remote->pause_ms == 0 ? PAUSE_FIRST_MS : 2 * remote->pause_ms;
	remote->pause_ms = remote->pause_ms < PAUSE_MAX_MS ? remote->pause_ms : PAUSE_MAX_MS;
	remote->start_at_ms = now_ms + remote->pause_ms;
}

static void on_ended(struct dir_remote *remote, int64_t now_ms)
{
	kill_now(remote->pid);
	forget_child(remote);
	plan_start(remote, now_ms);
	log_line(remote, "the process that works in the directory has ended: starting another one");
	report_state(remote, REGISTRY_AWAY, "the process that works in the directory has ended");
	fail_all(remote, "the process that did it has ended");
}

/* ABANDONED: there is none. */
static size_t free_place(const struct dir_remote *remote)
{
	size_t at = 0;
	while (at < ABANDONED && remote->abandoned[at].fd >= 0) {
		at++;
	}
	return at;
}

static void give_up(struct dir_remote *remote, int64_t now_ms)
{
	char why[sizeof(remote->why)];
	size_t place = free_place(remote); /* there is one, or none had been started */
	text_printf(why, sizeof(why), "%s does not answer: somebody holds it, or its disk hangs",
		remote->root);
	kill_now(remote->pid);
	if (place < ABANDONED) {
		remote->abandoned[place].fd = remote->wire.fd;
		remote->abandoned[place].pid = remote->pid;
		remote->wire.fd = -1;
	}
	forget_child(remote);
	plan_start(remote, now_ms);
	remote->patience_ms *= remote->patience_ms < PATIENCE_MAX_MS ? 2 : 1;
	log_line(remote, why);
	report_state(remote, REGISTRY_AWAY, why);
	fail_all(remote, why);
}

/* The end of an abandoned child says that what it waited for goes on. */
static void look_at_abandoned(struct dir_remote *remote, int64_t now_ms)
{
	char waste[4096];
	for (size_t i = 0; i < ABANDONED; i++) {
		int *fd = &remote->abandoned[i].fd;
		ssize_t len = *fd < 0 ? 1 : recv(*fd, waste, sizeof(waste), MSG_DONTWAIT);
		if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) {
			close(*fd);
			*fd = -1;
			reap(remote->abandoned[i].pid);
			remote->start_at_ms = now_ms;
		}
	}
}

/* ---- receiving ---- */

static struct registry_task *find_task(const struct dir_remote *remote, uint64_t tag)
{
	for (struct list *at = remote->tasks.next; at != &remote->tasks; at = at->next) {
		struct registry_task *task = LIST_ITEM(at, struct registry_task, link);
		if (task->tag == tag) {
			return task;
		}
	}
	return NULL;
}

static bool add_names(char ***names, size_t *total, size_t count, struct wire_frame *frame)
{
	char **grown = reallocarray(*names, *total + count + 1, sizeof(*grown));
	*names = grown ? grown : *names;
	for (size_t i = 0; grown && i < count; i++) {
		const char *name = wire_get_text(frame);
		char *copy = frame->bad ? NULL : strdup(name);
		if (!copy) {
			return false;
		}
		grown[(*total)++] = copy;
	}
	return grown != NULL;
}

static void take_names(struct dir_remote *remote, struct wire_frame *frame)
{
	struct registry_task *task = find_task(remote, wire_get_number(frame));
	bool foreign = wire_get_number(frame) != 0;
	size_t count = (size_t)wire_get_number(frame);
	frame->bad = frame->bad || count > (size_t)(frame->end - frame->at);
	if (frame->bad || !task) {
		return;
	}
	bool added = foreign
		? add_names(&task->ret_foreign, &task->ret_foreign_count, count, frame)
		: add_names(&task->ret_children, &task->ret_children_count, count, frame);
	if (!added && !frame->bad) {
		err_set(&task->ret_err, BERTH_FAILED, "no memory for the children of %s",
			task->path);
	}
}

static void take_result(struct dir_remote *remote, struct wire_frame *frame)
{
	struct registry_task *task = find_task(remote, wire_get_number(frame));
	unsigned flags = (unsigned)wire_get_number(frame);
	int code = (int)(int64_t)wire_get_number(frame);
	const char *message = wire_get_text(frame);
	size_t stat_len;
	size_t len;
	const char *stat = wire_get_bytes(frame, &stat_len);
	const char *data = wire_get_bytes(frame, &len);
	frame->bad = frame->bad || stat_len != sizeof(task->ret_stat);
	if (frame->bad || !task) {
		return;
	}
	memcpy(&task->ret_stat, stat, sizeof(task->ret_stat));
	task->ret_childless = flags & DIR_DONE_CHILDLESS;
	if (code && !task->ret_err.code) {
		err_set(&task->ret_err, code, "%s", message);
	}
	if (flags & DIR_DONE_HAS_DATA) {
		task->ret_data = malloc(len + 1);
		if (task->ret_data) {
			memcpy(task->ret_data, data, len + 1);
			task->ret_len = len;
		} else {
			err_set(&task->ret_err, BERTH_FAILED, "no memory for %s", task->path);
		}
	}
	if ((flags & DIR_DONE_HAS_CHILDREN) && !task->ret_children) {
		task->ret_children = calloc(1, sizeof(char *));
	}
	complete(remote, task);
}

static void take_state(struct dir_remote *remote, struct wire_frame *frame)
{
	enum registry_state state = (enum registry_state)wire_get_number(frame);
	const char *why = wire_get_text(frame);
	if (frame->bad || state > REGISTRY_AWAY) {
		frame->bad = true;
		return;
	}
	remote->was_there = remote->was_there || state == REGISTRY_CONNECTED;
	report_state(remote, state, why);
}

static void take_notice(const struct dir_remote *remote, struct wire_frame *frame)
{
	const char *path = wire_get_text(frame);
	uint64_t kind = wire_get_number(frame);
	bool gone = wire_get_number(frame) != 0;
	frame->bad = frame->bad || kind > REGISTRY_WATCH_CHILDREN;
	if (!frame->bad) {
		remote->base.core.notified(
			remote->base.core.core, path, (enum registry_watch_kind)kind, gone);
	}
}

static void take_log(const struct dir_remote *remote, struct wire_frame *frame)
{
	uint64_t level = wire_get_number(frame);
	const char *message = wire_get_text(frame);
	if (!frame->bad && remote->base.core.log) {
		remote->base.core.log(
			remote->base.core.core, (enum registry_log_level)level, message);
	}
}

/* Without room for it the node dies, and its announcement makes it again. */
static void take_owner(struct dir_remote *remote, struct wire_frame *frame)
{
	struct err ignored = ERR_INIT;
	const char *path = wire_get_text(frame);
	int fd = wire_take_fd(&remote->wire);
	if (fd >= 0 && !frame->bad) {
		(void)!dir_session_add(&remote->session, path, fd, &ignored);
	} else if (fd >= 0) {
		close(fd);
	}
}

static void drop(struct dir_remote *remote, struct wire_frame *frame)
{
	dev_t device = wire_get_number(frame);
	ino_t inode = wire_get_number(frame);
	if (!frame->bad) {
		dir_session_unlock(&remote->session, device, inode);
		wire_begin(&remote->wire, DIR_FRAME_DROPPED);
		end_frame(remote);
		flush(remote);
	}
}

static void take_rest(struct dir_remote *remote, struct wire_frame *frame)
{
	remote->read = wire_get_number(frame);
	remote->works = false;
	if (remote->heard_ms - remote->started_ms > GOOD_MS) {
		remote->pause_ms = 0;
		remote->patience_ms = PATIENCE_MS;
	}
}

static void handle(struct dir_remote *remote, struct wire_frame *frame)
{
	bool is_news = frame->type == DIR_FRAME_STATE || frame->type == DIR_FRAME_NOTIFIED ||
		frame->type == DIR_FRAME_LOG;
	if (is_news && remote->closing) {
		return;
	}
	switch (frame->type) {
	case DIR_FRAME_STATE:
		take_state(remote, frame);
		break;
	case DIR_FRAME_NAMES:
		take_names(remote, frame);
		break;
	case DIR_FRAME_DONE:
		take_result(remote, frame);
		break;
	case DIR_FRAME_NOTIFIED:
		take_notice(remote, frame);
		break;
	case DIR_FRAME_LOG:
		take_log(remote, frame);
		break;
	case DIR_FRAME_OWNER:
		take_owner(remote, frame);
		break;
	case DIR_FRAME_DROP:
		drop(remote, frame);
		break;
	case DIR_FRAME_WORKS:
		remote->works = true;
		break;
	case DIR_FRAME_RESTS:
		take_rest(remote, frame);
		break;
	default:
		frame->bad = true;
	}
}

/* False: the child has ended, or is not to be trusted any more. */
static bool handle_all(struct dir_remote *remote)
{
	struct wire_frame frame = { .bad = false };
	size_t used = 0;
	int got = 0;
	while (!frame.bad && (got = wire_next(&remote->wire, &used, &frame)) > 0) {
		frame.bad = false;
		handle(remote, &frame);
	}
	wire_consume(&remote->wire, used);
	return got == 0 && !frame.bad;
}

static bool receive(struct dir_remote *remote, int64_t now_ms)
{
	int got = 1;
	bool good = true;
	for (int i = 0; good && got > 0 && i < READS_AT_ONCE; i++) {
		got = wire_receive(&remote->wire);
		if (got > 0) {
			remote->heard_ms = now_ms;
			remote->excused = false;
			good = handle_all(remote);
		}
	}
	return good && got >= 0;
}

/* ---- dispatch ---- */

static bool is_expected(const struct dir_remote *remote)
{
	return has_child(remote) && (remote->works || remote->read < remote->sent);
}

static int64_t patience_end_ms(const struct dir_remote *remote)
{
	return is_expected(remote) ? remote->heard_ms + remote->patience_ms : INT64_MAX;
}

static void start(struct dir_remote *remote, int64_t now_ms)
{
	struct err err = ERR_INIT;
	struct epoll_event readable = { .events = EPOLLIN };
	int fd;
	pid_t pid = looker_child_start(remote->program, LOOKER_PROGRAM, &fd, &err);
	if (pid < 0 || epoll_ctl(remote->wake, EPOLL_CTL_ADD, fd, &readable) != 0) {
		if (pid >= 0) {
			err_set_errno(&err, BERTH_FAILED, errno, "cannot watch its socket");
			close(fd);
			kill_now(pid);
		}
		plan_start(remote, now_ms);
		report_state(remote, REGISTRY_AWAY, err.msg);
		return;
	}
	remote->pid = pid;
	wire_init(&remote->wire, fd);
	remote->heard_ms = now_ms;
	remote->started_ms = now_ms;
	send_hello(remote);
	for (struct list *at = remote->tasks.next; at != &remote->tasks; at = at->next) {
		send_task(remote, LIST_ITEM(at, struct registry_task, link), now_ms);
	}
}

static void submit_fresh(struct dir_remote *remote)
{
	remote->fresh = false;
	if (has_child(remote)) {
		flush(remote);
	} else {
		fail_all(remote, *remote->why ? remote->why : "the directory is not open yet");
	}
}

static void remote_dispatch(struct registry_backend *backend, int64_t now_ms)
{
	struct dir_remote *remote = self(backend);
	look_at_abandoned(remote, now_ms);
	if (!has_child(remote) && now_ms >= remote->start_at_ms && free_place(remote) < ABANDONED) {
		start(remote, now_ms);
	}
	if (has_child(remote) && !receive(remote, now_ms)) {
		on_ended(remote, now_ms);
	}
	submit_fresh(remote);
	int64_t end_ms = patience_end_ms(remote);
	if (end_ms != INT64_MAX && now_ms >= end_ms + LATE_MS && !remote->excused) {
		remote->heard_ms = now_ms + LATE_MS - remote->patience_ms;
		remote->excused = true;
	} else if (now_ms >= end_ms) {
		give_up(remote, now_ms);
	}
}

static int64_t remote_deadline_ms(const struct registry_backend *backend)
{
	const struct dir_remote *remote = (const struct dir_remote *)backend;
	if (remote->fresh) {
		return 0;
	}
	if (has_child(remote)) {
		return patience_end_ms(remote);
	}
	return free_place(remote) < ABANDONED ? remote->start_at_ms : INT64_MAX;
}

static int remote_fd(const struct registry_backend *backend)
{
	return ((const struct dir_remote *)backend)->wake;
}

static void remote_submit(struct registry_backend *backend, struct registry_task *task)
{
	struct dir_remote *remote = self(backend);
	task->tag = ++remote->submitted;
	list_append(&remote->tasks, &task->link);
	remote->fresh = true;
	if (has_child(remote)) {
		send_task(remote, task, clock_monotonic_ms());
	}
}

static void remote_abandon(struct registry_backend *backend, struct registry_task *task)
{
	struct dir_remote *remote = self(backend);
	list_remove(&task->link);
	clear_results(task);
	if (has_child(remote)) {
		wire_begin(&remote->wire, DIR_FRAME_ABANDON);
		wire_number(&remote->wire, task->tag);
		end_frame(remote);
		remote->fresh = true;
	}
}

static void remote_unwatch(
	struct registry_backend *backend, const char *path, enum registry_watch_kind kind)
{
	struct dir_remote *remote = self(backend);
	if (has_child(remote)) {
		wire_begin(&remote->wire, DIR_FRAME_UNWATCH);
		wire_text(&remote->wire, path);
		wire_number(&remote->wire, kind);
		end_frame(remote);
		remote->fresh = true;
	}
}

/* ---- life ---- */

static const char *remote_session_name(const struct registry_backend *backend)
{
	return ((const struct dir_remote *)backend)->session_name;
}

static int remote_session_timeout_ms(const struct registry_backend *backend)
{
	(void)backend;
	return 0;
}

static json_t *remote_session(const struct registry_backend *backend)
{
	(void)backend;
	return NULL;
}

static void destroy(struct dir_remote *remote)
{
	if (has_child(remote)) {
		kill_now(remote->pid);
	}
	wire_finish(&remote->wire);
	for (size_t i = 0; i < ABANDONED; i++) {
		if (remote->abandoned[i].fd >= 0) {
			close(remote->abandoned[i].fd);
		}
	}
	dir_session_unlock_all(&remote->session);
	if (remote->wake >= 0) {
		close(remote->wake);
	}
	if (remote->program >= 0) {
		close(remote->program);
	}
	free(remote->root);
	free(remote);
}

/* Hears the child until it has read all, or has ended, or the time is over; true: it has ended. */
static bool drain(struct dir_remote *remote, bool until_end, int timeout_ms)
{
	int64_t now_ms = clock_monotonic_ms();
	int64_t end_ms = now_ms + timeout_ms;
	bool good = true;
	flush(remote);
	while ((good = receive(remote, now_ms)) && now_ms < end_ms &&
		(until_end || is_expected(remote))) {
		struct pollfd pollfd = { .fd = remote->wire.fd,
			.events = (short)(remote->wants_room ? POLLIN | POLLOUT : POLLIN) };
		(void)poll(&pollfd, 1, (int)(end_ms - now_ms));
		flush(remote);
		now_ms = clock_monotonic_ms();
	}
	return !good;
}

/* It takes our nodes away, if it can do that now; without their locks they are dead in any case. */
static void remote_close(struct registry_backend *backend)
{
	struct dir_remote *remote = self(backend);
	remote->closing = true;
	if (has_child(remote)) {
		wire_begin(&remote->wire, DIR_FRAME_CLOSE);
		end_frame(remote);
		if (drain(remote, true, remote->close_timeout_ms)) {
			kill(remote->pid, SIGKILL);
			reap(remote->pid);
			forget_child(remote);
		}
	}
	destroy(remote);
}

/* A lock that is on its way goes to the successor, too. */
static json_t *remote_detach(struct registry_backend *backend)
{
	struct dir_remote *remote = self(backend);
	remote->closing = true;
	if (has_child(remote)) {
		(void)drain(remote, false, DETACH_MS);
	}
	json_t *result = dir_session_detach(&remote->session);
	destroy(remote);
	return result;
}

static int remote_open(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core, struct err *err)
{
	struct dir_remote *remote = calloc(1, sizeof(*remote));
	if (!remote) {
		return err_set(err, BERTH_FAILED, "no memory for a registry");
	}
	remote->base = (struct registry_backend){ .ops = &registry_dir_remote_ops, .core = *core };
	list_init(&remote->tasks);
	wire_init(&remote->wire, -1);
	for (size_t i = 0; i < ABANDONED; i++) {
		remote->abandoned[i].fd = -1;
	}
	remote->state = REGISTRY_CONNECTING;
	remote->patience_ms = PATIENCE_MS;
	remote->close_timeout_ms = options->close_timeout_ms;
	snprintf(remote->session_name, sizeof(remote->session_name), "pid %ld", (long)getpid());
	remote->root = strdup(rest);
	remote->wake = epoll_create1(EPOLL_CLOEXEC);
	remote->program = looker_program_open(LOOKER_PROGRAM, err);
	if (!remote->root || remote->wake < 0 || remote->program < 0) {
		if (!err->code) {
			err_set_errno(err, BERTH_FAILED, errno, "cannot open a registry");
		}
		destroy(remote);
		return err->code;
	}
	dir_session_receive(&remote->session, options->session);
	*ret_backend = &remote->base;
	return 0;
}

static int remote_check(
	const struct registry_options *options, const char **ret_option, struct err *err)
{
	return registry_dir_ops.check(options, ret_option, err);
}

const struct registry_backend_ops registry_dir_remote_ops = {
	.scheme = "dir",
	.deletes_all = true,
	.owns = true,
	.check = remote_check,
	.open = remote_open,
	.close = remote_close,
	.detach = remote_detach,
	.session = remote_session,
	.fd = remote_fd,
	.deadline_ms = remote_deadline_ms,
	.dispatch = remote_dispatch,
	.submit = remote_submit,
	.abandon = remote_abandon,
	.unwatch = remote_unwatch,
	.session_name = remote_session_name,
	.session_timeout_ms = remote_session_timeout_ms,
};
