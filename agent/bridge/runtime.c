#include "agent/bridge/runtime.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/random.h"
#include "agent/base/timer.h"
#include "agent/bridge/facts.h"
#include "agent/bridge/registrator.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/looker/child.h"
#include "lib/looker/wire.h"
#include "lib/runtime/protocol.h"

enum {
	FIRST_PAUSE_MS = 100,
	LAST_PAUSE_MS = 15000,
	SILENCE_MS =
		180000,    /* the program reports a list each minute, or that it needs something */
	READS_AT_ONCE = 8, /* then the loop has other work */
	WHY_BYTES = 300,
};

/* The sockets that the program needs. */
struct line {
	struct bridge_runtime *runtime;
	enum runtime_kind kind;
	struct timer pause;
	unsigned failures; /* in a row */
};

struct bridge_runtime {
	struct bridge_runtime_environment environment;
	struct bridge_guest_environment of_guests;
	char *name;
	int program;
	pid_t pid;  /* 0: none runs */
	bool quiet; /* the log says that it cannot be started */
	struct wire wire;
	ev_io io;
	struct timer pause;   /* before it is started again */
	struct timer silence; /* it hangs */
	unsigned ends;        /* in a row */
	struct line lines[RUNTIME_KINDS];
	bool settled;
	bool away;
	char why[WHY_BYTES];
	double since; /* wall clock */
	struct bridge_guest **guests;
	size_t count;
	bool crowded; /* the log says that there are more */
};

static void wait_and_start(struct bridge_runtime *runtime);

static int64_t pause_ms(unsigned failures)
{
	unsigned doublings = failures < 8 ? failures : 8;
	int64_t ms = (int64_t)FIRST_PAUSE_MS << doublings;
	ms = ms < LAST_PAUSE_MS ? ms : LAST_PAUSE_MS;
	double half_ms = (double)ms / 2;
	return (int64_t)(half_ms + random_unit() * half_ms);
}

/* ---- state ---- */

static void be_away(struct bridge_runtime *runtime, const char *why)
{
	if (!runtime->away) {
		log_warn("bridge", "runtime %s: %s; its containers stay as the kernel says",
			runtime->name, why);
		runtime->since = clock_wall_s();
	}
	runtime->away = true;
	text_printf(runtime->why, sizeof(runtime->why), "%s", why);
}

static void be_served(struct bridge_runtime *runtime, const char *why)
{
	if (runtime->away || !runtime->settled) {
		log_info("bridge", "runtime %s: served, %zu container%s", runtime->name,
			runtime->count, runtime->count == 1 ? "" : "s");
		runtime->since = clock_wall_s();
	}
	runtime->away = false;
	runtime->settled = true;
	text_printf(runtime->why, sizeof(runtime->why), "%s", why);
}

/* ---- guests ---- */

static size_t find_id(const struct bridge_runtime *runtime, const char *id)
{
	size_t at = 0;
	while (at < runtime->count && strcmp(bridge_guest_id(runtime->guests[at]), id) != 0) {
		at++;
	}
	return at;
}

static void send_look(void *context, const char *id)
{
	struct bridge_runtime *runtime = context;
	if (runtime->pid != 0) {
		wire_begin(&runtime->wire, RUNTIME_LOOK);
		wire_text(&runtime->wire, id);
		wire_end(&runtime->wire);
		wire_flush(&runtime->wire);
	}
}

static void remove_at(struct bridge_runtime *runtime, size_t at)
{
	bridge_guest_destroy(runtime->guests[at], "the container has ended");
	memmove(runtime->guests + at, runtime->guests + at + 1,
		(--runtime->count - at) * sizeof(*runtime->guests));
	runtime->environment.on_change(runtime->environment.context);
}

static void deny(struct bridge_runtime *runtime, const char *id)
{
	size_t at = find_id(runtime, id);
	if (at < runtime->count && bridge_guest_deny(runtime->guests[at])) {
		remove_at(runtime, at);
	}
}

static struct bridge_guest *add(struct bridge_runtime *runtime, const char *id)
{
	if (runtime->count >= RUNTIME_CONTAINERS_MAX) {
		if (!runtime->crowded) {
			log_warn("bridge",
				"runtime %s has more than %d containers: the others are not served",
				runtime->name, RUNTIME_CONTAINERS_MAX);
		}
		runtime->crowded = true;
		return NULL;
	}
	struct bridge_guest *guest = bridge_guest_create(&runtime->of_guests, id);
	runtime->guests = allocate_grow(runtime->guests, runtime->count, sizeof(*runtime->guests));
	runtime->guests[runtime->count++] = guest;
	return guest;
}

/* ---- what the program says ---- */

static void take_container(struct bridge_runtime *runtime, struct wire_frame *frame)
{
	struct bridge_facts facts;
	bool good = bridge_facts_read(&facts, frame);
	bool watched = facts.flags & RUNTIME_WATCHED;
	int pidfd = good && watched ? wire_take_fd(&runtime->wire) : -1;
	size_t at = find_id(runtime, facts.id);
	frame->bad = !good;
	if (good && !(facts.flags & RUNTIME_RUNS) && !*facts.error) {
		deny(runtime, facts.id);
	} else if (good) {
		struct bridge_guest *guest = at < runtime->count ? runtime->guests[at]
								 : add(runtime, facts.id);
		if (guest) {
			bridge_guest_take(guest, &facts, pidfd);
			pidfd = -1;
		}
	}
	if (pidfd >= 0) {
		close(pidfd);
	}
	bridge_facts_finish(&facts);
	runtime->lines[RUNTIME_REQUESTS].failures = 0;
}

static void take_signal(const struct bridge_runtime *runtime, struct wire_frame *frame)
{
	size_t at = find_id(runtime, wire_get_text(frame));
	unsigned number = (unsigned)wire_get_number(frame);
	if (!frame->bad && at < runtime->count) {
		bridge_guest_on_signal(runtime->guests[at], number);
	}
}

static void take_list(struct bridge_runtime *runtime, struct wire_frame *frame)
{
	be_served(runtime, wire_get_text(frame));
	runtime->ends = 0;
	for (size_t i = 0; i < runtime->count; i++) {
		if (bridge_guest_is_doubted(runtime->guests[i])) {
			send_look(runtime, bridge_guest_id(runtime->guests[i]));
		}
	}
	for (int kind = 0; kind < RUNTIME_KINDS; kind++) {
		runtime->lines[kind].failures = 0;
	}
	runtime->environment.on_change(runtime->environment.context);
}

/* A connection that was good ends once without a reason to wait. */
static void take_need(struct bridge_runtime *runtime, struct wire_frame *frame)
{
	uint64_t kind = wire_get_number(frame);
	const char *why = wire_get_text(frame);
	if (frame->bad || kind >= RUNTIME_KINDS) {
		frame->bad = true;
		return;
	}
	struct line *line = &runtime->lines[kind];
	if (*why && line->failures > 0) {
		be_away(runtime, why);
	}
	timer_start(&line->pause, *why && line->failures > 0 ? pause_ms(line->failures) : 0);
	line->failures += *why != '\0';
}

static void handle(struct bridge_runtime *runtime, struct wire_frame *frame)
{
	switch (frame->type) {
	case RUNTIME_READY:
		log_debug("bridge", "runtime %s: pid %d, cage: %s", runtime->name, runtime->pid,
			wire_get_text(frame));
		break;
	case RUNTIME_NEED:
		take_need(runtime, frame);
		break;
	case RUNTIME_CONTAINER:
		take_container(runtime, frame);
		break;
	case RUNTIME_SIGNAL:
		take_signal(runtime, frame);
		break;
	case RUNTIME_ABSENT:
		deny(runtime, wire_get_text(frame));
		runtime->lines[RUNTIME_REQUESTS].failures = 0;
		break;
	case RUNTIME_LISTED:
		take_list(runtime, frame);
		break;
	default:
		frame->bad = true;
	}
}

/* ---- the program ---- */

static void end(struct bridge_runtime *runtime)
{
	if (runtime->pid == 0) {
		return;
	}
	for (int kind = 0; kind < RUNTIME_KINDS; kind++) {
		timer_stop(&runtime->lines[kind].pause);
	}
	timer_stop(&runtime->silence);
	ev_io_stop(runtime->environment.loop, &runtime->io);
	wire_finish(&runtime->wire);
	kill(runtime->pid, SIGKILL);
	(void)waitpid(runtime->pid, NULL, WNOHANG); /* else libev reaps it */
	runtime->pid = 0;
}

static void on_broken(struct bridge_runtime *runtime, const char *why)
{
	log_warn("bridge", "runtime %s: its helper, pid %d, %s: starting another one",
		runtime->name, runtime->pid, why);
	end(runtime);
	wait_and_start(runtime);
}

static void on_silence(void *context)
{
	on_broken(context, "hangs");
}

static bool handle_all(struct bridge_runtime *runtime)
{
	struct wire_frame frame;
	size_t used = 0;
	int got = 0;
	bool good = true;
	while (good && (got = wire_next(&runtime->wire, &used, &frame)) > 0) {
		handle(runtime, &frame);
		good = !frame.bad;
	}
	wire_consume(&runtime->wire, used);
	return good && got == 0;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct bridge_runtime *runtime = io->data;
	(void)loop;
	(void)events;
	timer_start(&runtime->silence, SILENCE_MS);
	for (int i = 0; i < READS_AT_ONCE; i++) {
		int got = wire_receive(&runtime->wire);
		if (!handle_all(runtime) || got < 0) {
			on_broken(runtime, "has ended");
			return;
		}
		if (got == 0) {
			return;
		}
	}
}

static void start(void *context)
{
	struct bridge_runtime *runtime = context;
	struct err err = ERR_INIT;
	int fd;
	pid_t pid = looker_child_start(runtime->program, RUNTIME_PROGRAM, &fd, &err);
	if (pid < 0) {
		if (!runtime->quiet) {
			log_error("bridge", "%s; tried again until it works", err.msg);
		}
		runtime->quiet = true;
		wait_and_start(runtime);
		return;
	}
	const struct config_runtime *options = runtime->of_guests.runtime;
	for (size_t i = 0; i < runtime->count; i++) {
		bridge_guest_doubt(runtime->guests[i]);
	}
	runtime->quiet = false;
	runtime->pid = pid;
	wire_init(&runtime->wire, fd);
	ev_io_set(&runtime->io, fd, EV_READ);
	ev_io_start(runtime->environment.loop, &runtime->io);
	wire_begin(&runtime->wire, RUNTIME_HELLO);
	wire_number(&runtime->wire, options->label_count);
	for (size_t i = 0; i < options->label_count; i++) {
		bool registrator = strcmp(options->labels[i], BRIDGE_REGISTRATOR) == 0;
		char prefix[80];
		text_printf(prefix, sizeof(prefix), "%s.", options->labels[i]);
		wire_text(&runtime->wire, registrator ? "SERVICE_" : prefix);
	}
	wire_end(&runtime->wire);
	wire_flush(&runtime->wire);
	timer_start(&runtime->silence, SILENCE_MS);
}

static void wait_and_start(struct bridge_runtime *runtime)
{
	timer_start(&runtime->pause, pause_ms(runtime->ends));
	runtime->ends++;
}

/* ---- connections ---- */

/* The path is looked up each time: a runtime that starts again makes another socket. */
static int connect_to(const char *path, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	text_printf(address.sun_path, sizeof(address.sun_path), "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int error = errno;
		close(fd);
		if (error == EAGAIN) {
			return err_set(err, BERTH_FAILED, "%s: it takes no connection", path);
		}
		return err_set_errno(err, BERTH_FAILED, error, "%s", path);
	}
	return fd >= 0 ? fd : err_set_errno(err, BERTH_FAILED, errno, "no socket");
}

static void on_pause_end(void *context)
{
	struct line *line = context;
	struct bridge_runtime *runtime = line->runtime;
	struct err err = ERR_INIT;
	int fd = connect_to(runtime->of_guests.runtime->socket, &err);
	if (fd < 0) {
		be_away(runtime, err.msg);
		timer_start(&line->pause, pause_ms(line->failures));
		line->failures++;
		return;
	}
	wire_flush(&runtime->wire);
	if (wire_waits(&runtime->wire)) {
		close(fd);
		timer_start(&line->pause, FIRST_PAUSE_MS); /* it does not read */
		return;
	}
	wire_begin(&runtime->wire, RUNTIME_CONNECTION);
	wire_number(&runtime->wire, line->kind);
	wire_end_with(&runtime->wire, fd);
	close(fd);
}

/* ---- life ---- */

/* Those that a predecessor has left in the book. */
static void expect_all(struct bridge_runtime *runtime)
{
	const char *key;
	json_t *process;
	json_object_foreach ((json_t *)(uintptr_t)runtime->environment.processes, key, process) {
		struct bridge_guest *guest = json_is_string(process) &&
				bridge_runtime_owns(runtime, key)
			? add(runtime, key + strlen(runtime->name) + 1)
			: NULL;
		if (guest) {
			bridge_guest_expect(guest, json_string_value(process));
		}
	}
}

int bridge_runtime_create(struct bridge_runtime **ret_runtime,
	const struct bridge_runtime_environment *environment, const struct config *config,
	const struct config_runtime *options, struct err *err)
{
	int program = looker_program_open(RUNTIME_PROGRAM, err);
	if (program < 0) {
		return err->code;
	}
	struct bridge_runtime *runtime = allocate_zeroed(1, sizeof(*runtime));
	runtime->environment = *environment;
	runtime->name = allocate_text(options->name);
	runtime->of_guests = (struct bridge_guest_environment){
		.loop = environment->loop,
		.publish = environment->publish,
		.book = environment->book,
		.scheduler = environment->scheduler,
		.source = runtime->name,
		.config = config,
		.runtime = options,
		.on_doubt = send_look,
		.doubt_context = runtime,
		.on_change = environment->on_change,
		.context = environment->context,
	};
	runtime->program = program;
	runtime->since = clock_wall_s();
	wire_init(&runtime->wire, -1);
	ev_io_init(&runtime->io, on_readable, -1, EV_READ);
	runtime->io.data = runtime;
	timer_init(&runtime->pause, environment->loop, "start of berth-runtime", start, runtime);
	timer_init(&runtime->silence, environment->loop, "berth-runtime", on_silence, runtime);
	for (int kind = 0; kind < RUNTIME_KINDS; kind++) {
		struct line *line = &runtime->lines[kind];
		line->runtime = runtime;
		line->kind = (enum runtime_kind)kind;
		timer_init(&line->pause, environment->loop, "connection to a runtime", on_pause_end,
			line);
	}
	expect_all(runtime);
	runtime->environment.processes = NULL;
	start(runtime);
	*ret_runtime = runtime;
	return 0;
}

void bridge_runtime_destroy(struct bridge_runtime *runtime, bool gone)
{
	if (!runtime) {
		return;
	}
	end(runtime);
	timer_stop(&runtime->pause);
	for (size_t i = 0; i < runtime->count; i++) {
		bridge_guest_destroy(runtime->guests[i],
			gone ? "its [runtime] is not configured any more" : NULL);
	}
	close(runtime->program);
	free(runtime->guests);
	free(runtime->name);
	free(runtime);
}

void bridge_runtime_set_config(struct bridge_runtime *runtime, const struct config *config,
	const struct config_runtime *options)
{
	runtime->of_guests.config = config;
	runtime->of_guests.runtime = options;
	for (size_t i = 0; i < runtime->count; i++) {
		bridge_guest_reconfigure(runtime->guests[i]);
	}
}

/* ---- questions ---- */

const char *bridge_runtime_name(const struct bridge_runtime *runtime)
{
	return runtime->name;
}

bool bridge_runtime_is_settled(const struct bridge_runtime *runtime)
{
	return runtime->settled;
}

bool bridge_runtime_owns(const struct bridge_runtime *runtime, const char *key)
{
	size_t len = strlen(runtime->name);
	return strncmp(key, runtime->name, len) == 0 && key[len] == '/';
}

size_t bridge_runtime_guests(const struct bridge_runtime *runtime)
{
	return runtime->count;
}

struct bridge_guest *bridge_runtime_guest(const struct bridge_runtime *runtime, size_t index)
{
	return runtime->guests[index];
}

struct bridge_guest *bridge_runtime_find(const struct bridge_runtime *runtime, const char *name)
{
	for (size_t i = 0; i < runtime->count; i++) {
		if (strcmp(bridge_guest_name(runtime->guests[i]), name) == 0 ||
			strcmp(bridge_guest_key(runtime->guests[i]), name) == 0) {
			return runtime->guests[i];
		}
	}
	return NULL;
}

json_t *bridge_runtime_json(const struct bridge_runtime *runtime)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:f, s:I}", "name", runtime->name, "socket",
		runtime->of_guests.runtime->socket, "state",
		runtime->away              ? "away"
			: runtime->settled ? "served"
					   : "starting",
		"why", runtime->why, "since", runtime->since, "containers",
		(json_int_t)runtime->count);
}
