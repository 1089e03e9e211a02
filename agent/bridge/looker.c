#include "agent/bridge/looker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/timer.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/text.h"
#include "lib/looker/child.h"
#include "lib/looker/protocol.h"

enum {
	PATIENCE_MS = 500, /* for an answer; a look takes 20 ms at most */
	FIRST_PAUSE_MS = 100,
	LAST_PAUSE_MS = 10000,
	READS_AT_ONCE = 8, /* then the loop has other work */
};

enum state { NONE, STARTING, FREE, ASKED };

struct abandoned {
	struct list link;
	struct bridge_looker *looker;
	ev_io io; /* its socket: the end of file is its end */
	pid_t pid;
	char container[HTTP_CONTAINER_BYTES];
};

struct bridge_looker {
	struct ev_loop *loop;
	struct bridge_looker_events events;
	char *directory;
	int program;
	enum state state;
	bool quiet; /* the log says that no looker can be started */
	pid_t pid;
	struct wire wire;
	ev_io io;
	ev_io room; /* for what waits to be sent */
	struct timer patience;
	struct timer pause;
	int64_t pause_ms;
	char container[HTTP_CONTAINER_BYTES]; /* of the question */
	struct list abandoned;
};

static void start(struct bridge_looker *looker);

/* ---- the ends of lookers ---- */

/* libev reaps it; this is for the case that it is not in the loop, or has been before. */
static void reap(pid_t pid)
{
	(void)waitpid(pid, NULL, WNOHANG);
}

static void free_abandoned(struct abandoned *abandoned)
{
	ev_io_stop(abandoned->looker->loop, &abandoned->io);
	close(abandoned->io.fd);
	reap(abandoned->pid);
	list_remove(&abandoned->link);
	free(abandoned);
}

static void on_abandoned(struct ev_loop *loop, ev_io *io, int events)
{
	struct abandoned *abandoned = io->data;
	struct bridge_looker *looker = abandoned->looker;
	char container[HTTP_CONTAINER_BYTES];
	char waste[4096];
	(void)loop;
	(void)events;
	/* Descriptors that it sent are closed with the socket. */
	ssize_t len = recv(io->fd, waste, sizeof(waste), 0);
	if (len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR))) {
		return;
	}
	memcpy(container, abandoned->container, sizeof(container));
	free_abandoned(abandoned);
	looker->events.on_freed(looker->events.context, container);
}

static void keep_in_mind(struct bridge_looker *looker, const char *container, pid_t pid, int fd)
{
	struct abandoned *abandoned = allocate_zeroed(1, sizeof(*abandoned));
	abandoned->looker = looker;
	abandoned->pid = pid;
	text_printf(abandoned->container, sizeof(abandoned->container), "%s", container);
	ev_io_init(&abandoned->io, on_abandoned, fd, EV_READ);
	abandoned->io.data = abandoned;
	ev_io_start(looker->loop, &abandoned->io);
	list_append(&looker->abandoned, &abandoned->link);
}

static void stop_talking(struct bridge_looker *looker)
{
	timer_stop(&looker->patience);
	ev_io_stop(looker->loop, &looker->io);
	ev_io_stop(looker->loop, &looker->room);
	looker->state = NONE;
}

/* Without a word to anybody. */
static void end(struct bridge_looker *looker)
{
	if (looker->state != NONE) {
		stop_talking(looker);
		wire_finish(&looker->wire);
		kill(looker->pid, SIGKILL);
		reap(looker->pid);
	}
}

static void wait_and_start(struct bridge_looker *looker)
{
	looker->pause_ms = looker->pause_ms == 0 ? FIRST_PAUSE_MS : 2 * looker->pause_ms;
	looker->pause_ms = looker->pause_ms < LAST_PAUSE_MS ? looker->pause_ms : LAST_PAUSE_MS;
	timer_start(&looker->pause, looker->pause_ms);
}

static void on_broken(struct bridge_looker *looker)
{
	bool asked = looker->state == ASKED;
	log_warn("bridge", "the looker, pid %d, has ended: starting another one", looker->pid);
	end(looker);
	wait_and_start(looker);
	if (asked) {
		looker->events.on_answer(looker->events.context, BRIDGE_BROKEN);
	}
}

static void on_impatient(void *context)
{
	struct bridge_looker *looker = context;
	bool asked = looker->state == ASKED;
	log_warn("bridge", "the looker, pid %d, hangs in %s%s: starting another one", looker->pid,
		*looker->container ? "container " : "the directory of containers",
		looker->container);
	stop_talking(looker);
	int fd = looker->wire.fd;
	looker->wire.fd = -1;
	wire_finish(&looker->wire);
	kill(looker->pid, SIGKILL);
	keep_in_mind(looker, looker->container, looker->pid, fd);
	if (asked) {
		start(looker);
		looker->events.on_answer(looker->events.context, BRIDGE_STALLED);
	} else {
		/* Another one would hang in the directory, too. */
		looker->pause_ms = LAST_PAUSE_MS;
		wait_and_start(looker);
		looker->events.on_ready(looker->events.context, "it cannot be opened in time");
	}
}

/* ---- what it says ---- */

static void on_ready(struct bridge_looker *looker, struct wire_frame *frame)
{
	const char *error = wire_get_text(frame);
	const char *cage = wire_get_text(frame);
	bool watches = wire_get_number(frame) != 0;
	timer_stop(&looker->patience);
	if (*error) {
		char copy[sizeof(((struct err *)NULL)->msg)];
		text_printf(copy, sizeof(copy), "%s", error);
		end(looker);
		timer_start(&looker->pause, FIRST_PAUSE_MS * 10);
		looker->events.on_ready(looker->events.context, copy);
		return;
	}
	looker->state = FREE;
	looker->pause_ms = 0;
	log_debug("bridge", "looker, pid %d, cage: %s", looker->pid, cage);
	if (!watches) {
		log_warn("bridge",
			"cannot use inotify (fs.inotify.max_user_instances); looking "
			"once a second instead");
	}
	looker->events.on_ready(looker->events.context, "");
}

static bool ends_answer(const struct wire_frame *frame)
{
	return frame->type == LOOKER_LOOKED || frame->type == LOOKER_LISTED;
}

/* False: the looker is not to be trusted any more. It may be another one afterwards. */
static bool handle(struct bridge_looker *looker, struct wire_frame *frame)
{
	if (frame->type == LOOKER_EVENT) {
		uint64_t id = wire_get_number(frame);
		unsigned what = (unsigned)wire_get_number(frame);
		size_t count = (size_t)wire_get_number(frame);
		if (!frame->bad) {
			looker->events.on_event(looker->events.context, id, what, count);
		}
		return !frame->bad;
	}
	if (looker->state == STARTING && frame->type == LOOKER_READY) {
		on_ready(looker, frame);
		return true;
	}
	if (looker->state != ASKED) {
		return false;
	}
	bool last = ends_answer(frame);
	looker->events.on_frame(looker->events.context, &looker->wire, frame);
	if (last && !frame->bad) {
		timer_stop(&looker->patience);
		looker->state = FREE;
		looker->events.on_answer(looker->events.context, BRIDGE_ANSWERED);
	}
	return !frame->bad;
}

/* False: it has ended, or has to. */
static bool handle_all(struct bridge_looker *looker)
{
	struct wire_frame frame;
	size_t used = 0;
	int got = 0;
	pid_t pid = looker->pid;
	bool good = true;
	while (good && (got = wire_next(&looker->wire, &used, &frame)) > 0) {
		good = handle(looker, &frame);
		if (looker->state == NONE || looker->pid != pid) {
			return true; /* it has been replaced */
		}
	}
	wire_consume(&looker->wire, used);
	return good && got == 0;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct bridge_looker *looker = io->data;
	pid_t pid = looker->pid;
	(void)loop;
	(void)events;
	for (int i = 0; i < READS_AT_ONCE; i++) {
		int got = wire_receive(&looker->wire);
		bool good = handle_all(looker);
		if (looker->state == NONE || looker->pid != pid) {
			return;
		}
		if (got < 0 || !good) {
			on_broken(looker);
			return;
		}
		if (got == 0) {
			return;
		}
	}
}

static void flush(struct bridge_looker *looker)
{
	/* An end is noticed by its socket's end of file. */
	wire_flush(&looker->wire);
	if (wire_waits(&looker->wire)) {
		ev_io_start(looker->loop, &looker->room);
	} else {
		ev_io_stop(looker->loop, &looker->room);
	}
}

static void on_room(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	flush(io->data);
}

/* ---- life ---- */

static void start(struct bridge_looker *looker)
{
	struct err err = ERR_INIT;
	int fd;
	pid_t pid = looker_child_start(looker->program, LOOKER_PROGRAM, &fd, &err);
	if (pid < 0) {
		if (!looker->quiet) {
			log_error("bridge", "%s; tried again until it works", err.msg);
		}
		looker->quiet = true;
		wait_and_start(looker);
		return;
	}
	looker->quiet = false;
	looker->pid = pid;
	looker->state = STARTING;
	looker->container[0] = '\0';
	wire_init(&looker->wire, fd);
	ev_io_set(&looker->io, fd, EV_READ);
	ev_io_set(&looker->room, fd, EV_WRITE);
	ev_io_start(looker->loop, &looker->io);
	wire_begin(&looker->wire, LOOKER_HELLO);
	wire_text(&looker->wire, looker->directory);
	wire_end(&looker->wire);
	flush(looker);
	/* A machine without time to spare starts a program late, and nobody waits for it. */
	timer_start(&looker->patience, 10 * PATIENCE_MS);
}

static void on_pause_end(void *context)
{
	start(context);
}

int bridge_looker_create(struct bridge_looker **ret_looker, struct ev_loop *loop,
	const char *directory, const struct bridge_looker_events *events, struct err *err)
{
	int program = looker_program_open(LOOKER_PROGRAM, err);
	if (program < 0) {
		return program;
	}
	struct bridge_looker *looker = allocate_zeroed(1, sizeof(*looker));
	looker->loop = loop;
	looker->events = *events;
	looker->directory = allocate_text(directory);
	looker->program = program;
	wire_init(&looker->wire, -1);
	ev_io_init(&looker->io, on_readable, -1, EV_READ);
	ev_io_init(&looker->room, on_room, -1, EV_WRITE);
	looker->io.data = looker;
	looker->room.data = looker;
	timer_init(&looker->patience, loop, "looker", on_impatient, looker);
	timer_init(&looker->pause, loop, "start of a looker", on_pause_end, looker);
	list_init(&looker->abandoned);
	start(looker);
	*ret_looker = looker;
	return 0;
}

void bridge_looker_destroy(struct bridge_looker *looker)
{
	if (!looker) {
		return;
	}
	end(looker);
	timer_stop(&looker->pause);
	while (!list_empty(&looker->abandoned)) {
		free_abandoned(LIST_ITEM(looker->abandoned.next, struct abandoned, link));
	}
	wire_finish(&looker->wire);
	close(looker->program);
	free(looker->directory);
	free(looker);
}

void bridge_looker_adopt(struct bridge_looker *looker, const struct bridge_abandoned *abandoned)
{
	keep_in_mind(looker, abandoned->container, abandoned->pid, abandoned->fd);
}

size_t bridge_looker_pass(
	struct bridge_looker *looker, struct bridge_abandoned *ret_abandoned, size_t max)
{
	size_t count = 0;
	end(looker);
	timer_stop(&looker->pause);
	for (struct list *at = looker->abandoned.next; at != &looker->abandoned && count < max;
		at = at->next) {
		struct abandoned *abandoned = LIST_ITEM(at, struct abandoned, link);
		struct bridge_abandoned *passed = &ret_abandoned[count++];
		ev_io_stop(looker->loop, &abandoned->io);
		*passed = (struct bridge_abandoned){ .pid = abandoned->pid,
			.fd = abandoned->io.fd };
		memcpy(passed->container, abandoned->container, sizeof(passed->container));
	}
	return count;
}

bool bridge_looker_is_free(const struct bridge_looker *looker)
{
	return looker->state == FREE;
}

bool bridge_looker_is_there(const struct bridge_looker *looker)
{
	return looker->state != NONE;
}

struct wire *bridge_looker_ask(struct bridge_looker *looker, const char *container)
{
	looker->state = ASKED;
	text_printf(looker->container, sizeof(looker->container), "%s", container);
	return &looker->wire;
}

void bridge_looker_send(struct bridge_looker *looker)
{
	flush(looker);
	timer_start(&looker->patience, PATIENCE_MS);
}

void bridge_looker_forget(struct bridge_looker *looker, uint64_t id)
{
	if (looker->state == FREE || looker->state == ASKED) {
		wire_begin(&looker->wire, LOOKER_FORGET);
		wire_number(&looker->wire, id);
		wire_end(&looker->wire);
		flush(looker);
	}
}

void bridge_looker_replace(struct bridge_looker *looker)
{
	end(looker);
	start(looker);
}

bool bridge_looker_has_abandoned(const struct bridge_looker *looker, const char *container)
{
	for (const struct list *at = looker->abandoned.next; at != &looker->abandoned;
		at = at->next) {
		if (strcmp(LIST_ITEM(at, struct abandoned, link)->container, container) == 0) {
			return true;
		}
	}
	return false;
}

size_t bridge_looker_abandoned(const struct bridge_looker *looker)
{
	return list_count(&looker->abandoned);
}

void bridge_looker_wait(struct bridge_looker *looker, int64_t until_ms)
{
	int64_t left_ms = until_ms - clock_monotonic_ms();
	int64_t patience_ms = timer_runs(&looker->patience) ? timer_left_ms(&looker->patience)
							    : left_ms;
	struct pollfd pollfd = { .fd = looker->wire.fd, .events = POLLIN };
	left_ms = patience_ms < left_ms ? patience_ms : left_ms;
	if (poll(&pollfd, 1, left_ms > 0 ? (int)left_ms : 0) > 0) {
		on_readable(looker->loop, &looker->io, EV_READ);
	} else if (timer_runs(&looker->patience) && timer_left_ms(&looker->patience) == 0) {
		timer_stop(&looker->patience);
		on_impatient(looker);
	}
}
