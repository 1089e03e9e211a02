#include "runtime/engine.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/json_read.h"
#include "lib/base/text.h"
#include "lib/http/reader.h"
#include "lib/program/memory.h"
#include "runtime/objects.h"

enum {
	INSPECT_MS = 5000,
	LIST_MS = 15000,
	HEAD_MS = 1000, /* of the events: then the list is asked for without waiting longer */
	RESYNC_MS = 60000,
	OBJECT_BYTES = 1024 * 1024,     /* of an entry of the list, an event, an inspection */
	LIST_BYTES = 128 * 1024 * 1024, /* of a whole list */
	READ_BYTES = 64 * 1024,
	READS_AT_ONCE = 16, /* then the agent has its turn */
	REQUEST_BYTES = 512,
	SIGNATURE_BYTES = 4096,
	KNOWN_MAX = 4 * RUNTIME_CONTAINERS_MAX, /* ids, of those that wait for an inspection too */
	ATTEMPTS = 3, /* at an inspection that gets no answer, or whose process changes */
};

static const char EVENTS[] =
	"GET /events?filters=%7B%22type%22%3A%5B%22container%22%5D%2C%22event%22%3A%5B"
	"%22start%22%2C%22die%22%2C%22died%22%2C%22stop%22%2C%22kill%22%2C%22pause%22%2C"
	"%22unpause%22%2C%22rename%22%2C%22restart%22%2C%22destroy%22%2C%22remove%22%2C"
	"%22health_status%22%5D%7D HTTP/1.1\r\nHost: runtime\r\n\r\n";
static const char LIST[] = "GET /containers/json HTTP/1.1\r\nHost: runtime\r\n\r\n";

enum state { AWAY, IDLE, ASKED };
enum known { SIGNATURE, PID, STARTED, HEALTH };

struct connection {
	enum state state;
	int fd;    /* -1 while it is away */
	bool used; /* it has given an answer */
	struct http_reader reader;
	int64_t deadline_ms; /* 0: none */
};

struct engine {
	struct wire *wire;
	const struct facts_filter *filter;
	struct connection connections[RUNTIME_KINDS];
	struct objects events;
	struct objects list;
	struct buffer signature;
	struct buffer inspection;

	json_t *known;  /* id -> [signature of the list, pid, time of its start, health] */
	json_t *queue;  /* id -> attempts so far; the oldest first */
	json_t *listed; /* ids, while a list comes */
	bool list_is_due;
	bool list_has_failed; /* the last one: what events name goes first */
	bool list_is_cut;     /* it has entries that were not taken */
	size_t list_bytes;
	bool settling; /* the inspections of a list are not complete */
	int64_t list_at_ms;

	bool lists; /* what was asked for; else an inspection */
	char id[RUNTIME_ID_BYTES];
	int pidfd; /* of the process that the first inspection named; -1: none */
	struct facts_process process;
	int attempts;
};

static void send_id(const struct engine *engine, enum runtime_frame type, const char *id)
{
	wire_begin(engine->wire, type);
	wire_text(engine->wire, id);
	wire_end(engine->wire);
	wire_flush(engine->wire);
}

/* ---- connections ---- */

static void drop_pidfd(struct engine *engine)
{
	if (engine->pidfd >= 0) {
		close(engine->pidfd);
	}
	engine->pidfd = -1;
}

static void disconnect(struct engine *engine, enum runtime_kind kind, const char *why)
{
	struct connection *connection = &engine->connections[kind];
	if (connection->fd >= 0) {
		close(connection->fd);
	}
	connection->fd = -1;
	connection->state = AWAY;
	connection->deadline_ms = 0;
	connection->used = false;
	wire_begin(engine->wire, RUNTIME_NEED);
	wire_number(engine->wire, kind);
	wire_text(engine->wire, why);
	wire_end(engine->wire);
	wire_flush(engine->wire);
}

static bool ask(struct engine *engine, enum runtime_kind kind, const char *request, int64_t wait_ms)
{
	struct connection *connection = &engine->connections[kind];
	size_t len = strlen(request);
	ssize_t n = send(connection->fd, request, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n != (ssize_t)len) {
		disconnect(engine, kind, n < 0 ? strerror(errno) : "it takes no request");
		return false;
	}
	http_reader_restart(&connection->reader);
	connection->state = ASKED;
	connection->deadline_ms = clock_monotonic_ms() + wait_ms;
	return true;
}

void engine_connected(struct engine *engine, enum runtime_kind kind, int fd_take)
{
	struct connection *connection = &engine->connections[kind];
	if (connection->fd >= 0) {
		close(fd_take);
		return;
	}
	connection->fd = fd_take;
	connection->state = IDLE;
	if (kind == RUNTIME_EVENTS) {
		objects_restart(&engine->events);
		if (ask(engine, kind, EVENTS, HEAD_MS)) {
			engine->list_is_due = false;
		}
	}
}

/* ---- what is asked next ---- */

void engine_look(struct engine *engine, const char *id)
{
	if (json_object_size(engine->queue) >= KNOWN_MAX) {
		engine->list_is_due =
			true; /* nobody has that many: the list says which there are */
	} else if (!json_object_get(engine->queue, id)) {
		json_object_set_new(engine->queue, id, memory_must(json_integer(0)));
	}
}

static void ask_next(struct engine *engine)
{
	char request[REQUEST_BYTES];
	struct connection *connection = &engine->connections[RUNTIME_REQUESTS];
	if (connection->state != IDLE) {
		return;
	}
	void *first = json_object_iter(engine->queue);
	bool wait = engine->list_has_failed || json_object_size(engine->queue) > KNOWN_MAX / 2;
	if (engine->pidfd < 0 && engine->list_is_due && !(wait && first)) {
		json_object_clear(engine->listed);
		objects_restart(&engine->list);
		engine->list_is_cut = false;
		engine->list_bytes = 0;
		engine->lists = true;
		if (ask(engine, RUNTIME_REQUESTS, LIST, LIST_MS)) {
			engine->list_is_due = false;
		}
		return;
	}
	if (engine->pidfd < 0 && first) {
		text_printf(engine->id, sizeof(engine->id), "%s", json_object_iter_key(first));
		engine->attempts = (int)json_integer_value(json_object_iter_value(first));
		engine->process = (struct facts_process){ 0 };
		json_object_del(engine->queue, engine->id);
	} else if (engine->pidfd < 0) {
		if (engine->settling) {
			engine->settling = false;
			wire_begin(engine->wire, RUNTIME_LISTED);
			wire_text(engine->wire,
				engine->list_is_cut ? "the list is longer than it may be" : "");
			wire_end(engine->wire);
			wire_flush(engine->wire);
		}
		return;
	}
	engine->lists = false;
	buffer_clear(&engine->inspection);
	text_printf(request, sizeof(request),
		"GET /containers/%s/json HTTP/1.1\r\nHost: runtime\r\n\r\n", engine->id);
	(void)ask(engine, RUNTIME_REQUESTS, request, INSPECT_MS);
}

/* ---- events ---- */

/* `kill` comes before the process has ended, if it ends at all. */
static void pass_signal(const struct engine *engine, const char *id, const json_t *event)
{
	const json_t *attributes = json_object_get(json_object_get(event, "Actor"), "Attributes");
	const json_t *signal = json_object_get(attributes, "signal");
	long number = json_is_integer(signal) ? (long)json_integer_value(signal)
		: json_is_string(signal)      ? strtol(json_string_value(signal), NULL, 10)
					      : 0;
	wire_begin(engine->wire, RUNTIME_SIGNAL);
	wire_text(engine->wire, id);
	wire_number(engine->wire, number > 0 ? (uint64_t)number : 0);
	wire_end(engine->wire);
	wire_flush(engine->wire);
}

/*
 * Podman reports the health of a container at each run of its check. Nothing is asked for a word
 * that the last inspection had.
 */
static bool is_old_health(const struct engine *engine, const char *id, const json_t *event)
{
	static const char action[] = "health_status";
	const char *said = json_string_value(json_object_get(event, "Action"));
	const char *known = json_string_value(
		json_array_get(json_object_get(engine->known, id), HEALTH));
	if (strncmp(said, action, strlen(action)) != 0 || !known) {
		return false;
	}
	said += strlen(action);
	said = *said
		? said + strspn(said, ": ")
		: json_string_value(json_object_get(
			  json_object_get(json_object_get(event, "Actor"), "Attributes"), action));
	return said && *said && strcmp(said, known) == 0;
}

static void on_event(void *context, const char *text, size_t len, bool is_whole)
{
	struct engine *engine = context;
	json_t *event = is_whole ? json_read(text, len, 0, NULL) : NULL;
	const char *id = facts_id(json_object_get(json_object_get(event, "Actor"), "ID"));
	const char *action = json_string_value(json_object_get(event, "Action"));
	if (!*id) {
		id = facts_id(json_object_get(event, "id"));
	}
	if (!event || !*id || !action) {
		engine->list_is_due = true; /* who knows what it says */
	} else if (strcmp(action, "kill") == 0) {
		pass_signal(engine, id, event);
	} else if (!is_old_health(engine, id, event)) {
		engine_look(engine, id);
	}
	json_decref(event);
}

/* ---- lists ---- */

static bool is_known_as(const struct engine *engine, const char *id, const char *signature)
{
	const char *known = json_string_value(
		json_array_get(json_object_get(engine->known, id), SIGNATURE));
	return known && strcmp(known, signature) == 0;
}

static void on_entry(void *context, const char *text, size_t len, bool is_whole)
{
	struct engine *engine = context;
	json_t *entry = is_whole ? json_read(text, len, 0, NULL) : NULL;
	const char *id = facts_id(json_object_get(entry, "Id"));
	char cut_id[RUNTIME_ID_BYTES] = "";
	if (!entry && sscanf(text, " { \"Id\" : \"%79[0-9a-f]\"", cut_id) == 1) {
		id = cut_id; /* an inspection says that it is too long */
	}
	if (json_object_size(engine->listed) >= RUNTIME_CONTAINERS_MAX || !*id) {
		engine->list_is_cut = true;
	} else {
		facts_signature(&engine->signature, entry);
		json_object_set_new(engine->listed, id, memory_must(json_true()));
		if (!is_known_as(engine, id, buffer_text(&engine->signature))) {
			engine_look(engine, id);
			json_object_set_new(engine->known, id,
				memory_must(json_pack("[s, i, s, s]",
					buffer_text(&engine->signature), 0, "", "")));
		}
	}
	json_decref(entry);
}

static void end_list(struct engine *engine)
{
	const char *id;
	json_t *known;
	void *next;
	json_object_foreach_safe (engine->known, next, id, known) {
		if (!engine->list_is_cut && !json_object_get(engine->listed, id)) {
			engine_look(engine, id); /* it ends, or is unknown to it */
		}
	}
	json_object_clear(engine->listed);
	engine->list_has_failed = false;
	engine->settling = true;
	engine->list_at_ms = clock_monotonic_ms() + RESYNC_MS;
}

/* ---- inspections ---- */

static bool has_watched(const struct engine *engine, const struct facts_process *process)
{
	const json_t *known = json_object_get(engine->known, engine->id);
	const char *started = json_string_value(json_array_get(known, STARTED));
	return process->pid > 0 && json_integer_value(json_array_get(known, PID)) == process->pid &&
		started && strcmp(started, process->started) == 0;
}

static void note_process(
	struct engine *engine, const struct facts_process *process, const json_t *inspection)
{
	json_t *known = json_object_get(engine->known, engine->id);
	const char *signature = json_string_value(json_array_get(known, SIGNATURE));
	if (!known && json_object_size(engine->known) >= KNOWN_MAX) {
		return; /* it is asked for again with each list */
	}
	json_object_set_new(engine->known, engine->id,
		memory_must(json_pack("[s, I, s, s]", signature ? signature : "", process->pid,
			process->started, facts_health(inspection))));
}

static void send_container(struct engine *engine, const json_t *inspection)
{
	wire_flush(engine->wire);
	facts_write(engine->wire, inspection, engine->filter, engine->pidfd >= 0);
	if (wire_written(engine->wire) > RUNTIME_REPORT_BYTES) {
		wire_take_back(engine->wire);
		drop_pidfd(engine);
		facts_write_error(engine->wire, engine->id,
			"its names and ports are longer than 128 KiB together");
		wire_flush(engine->wire);
		return;
	}
	if (engine->pidfd >= 0) {
		wire_end_with(engine->wire, engine->pidfd);
	} else {
		wire_end(engine->wire);
		wire_flush(engine->wire);
	}
	drop_pidfd(engine);
}

static void again(struct engine *engine, int attempts)
{
	json_object_set_new(engine->queue, engine->id, memory_must(json_integer(attempts)));
}

/*
 * Process ids are used again: the pidfd is that of the container's process if the runtime names the
 * same one before and after it was opened.
 */
static void take_inspection(struct engine *engine, const json_t *inspection)
{
	struct facts_process process;
	const char *id = facts_id(json_object_get(inspection, "Id"));
	if (strcmp(id, engine->id) != 0) {
		drop_pidfd(engine);
		facts_write_error(engine->wire, engine->id, "the runtime says another id of it");
		wire_flush(engine->wire);
		return;
	}
	facts_process(&process, inspection);
	bool confirmed = engine->pidfd >= 0 && facts_same_process(&process, &engine->process);
	if (process.pid == 0 || confirmed || has_watched(engine, &process)) {
		if (!confirmed) {
			drop_pidfd(engine);
		}
		send_container(engine, inspection);
		if (process.pid == 0) {
			json_object_del(engine->known, engine->id);
		} else {
			note_process(engine, &process, inspection);
		}
		return;
	}
	drop_pidfd(engine);
	engine->process = process;
	engine->pidfd = engine->attempts++ < ATTEMPTS
		? (int)syscall(SYS_pidfd_open, (pid_t)process.pid, 0)
		: -1;
	if (engine->pidfd < 0) {
		/* No such process: it has ended meanwhile, or is in no namespace of ours. */
		send_container(engine, inspection);
	}
}

static void end_inspection(struct engine *engine, int status)
{
	const char *error = NULL;
	json_t *inspection = status == 200
		? json_read(buffer_text(&engine->inspection), engine->inspection.len, 0, NULL)
		: NULL;
	char text[80];
	if (inspection) {
		take_inspection(engine, inspection);
	} else if (status == 404) {
		drop_pidfd(engine);
		json_object_del(engine->known, engine->id);
		send_id(engine, RUNTIME_ABSENT, engine->id);
	} else {
		drop_pidfd(engine);
		text_printf(text, sizeof(text), "the runtime answers %d", status);
		error = status == 200 ? "the runtime's answer is not JSON" : text;
		facts_write_error(engine->wire, engine->id, error);
		wire_flush(engine->wire);
	}
	json_decref(inspection);
	buffer_clear(&engine->inspection);
}

/* ---- answers ---- */

static void fail_request(struct engine *engine, const char *why, bool own_fault)
{
	bool lists = engine->lists;
	bool asked = engine->connections[RUNTIME_REQUESTS].state == ASKED;
	drop_pidfd(engine);
	if (asked && lists) {
		engine->list_is_due = true;
		engine->list_has_failed = true;
	} else if (asked && own_fault) {
		facts_write_error(engine->wire, engine->id, why);
		wire_flush(engine->wire);
	} else if (asked) {
		again(engine, engine->attempts);
	}
	disconnect(engine, RUNTIME_REQUESTS, why);
}

static void fail(struct engine *engine, enum runtime_kind kind, const char *why)
{
	if (kind == RUNTIME_REQUESTS) {
		fail_request(engine, why, false);
	} else {
		disconnect(engine, kind, why);
	}
}

/* False: the connection is over. */
static bool take_body(struct engine *engine, enum runtime_kind kind)
{
	const struct http_reader *reader = &engine->connections[kind].reader;
	if (kind == RUNTIME_EVENTS) {
		objects_feed(&engine->events, reader->body, reader->body_len);
		return true;
	}
	if (engine->lists) {
		engine->list_bytes += reader->body_len;
		if (engine->list_bytes > LIST_BYTES) {
			/* Its beginning counts; no container ends because it is not there. */
			engine->list_is_cut = true;
			end_list(engine);
			engine->lists = false;
			engine->connections[kind].state = IDLE;
			disconnect(engine, kind, "its list of containers has no end");
			return false;
		}
		objects_feed(&engine->list, reader->body, reader->body_len);
		return true;
	}
	if (engine->inspection.len + reader->body_len > OBJECT_BYTES) {
		fail_request(engine, "what the runtime says of it is longer than 1 MiB", true);
		return false;
	}
	buffer_append(&engine->inspection, reader->body, reader->body_len);
	return true;
}

static bool end_answer(struct engine *engine, enum runtime_kind kind)
{
	struct connection *connection = &engine->connections[kind];
	int status = connection->reader.status;
	if (kind == RUNTIME_EVENTS) {
		disconnect(engine, kind, "it has ended the stream of events");
		return false;
	}
	bool lists = engine->lists;
	bool keep = connection->reader.keep_alive;
	connection->state = IDLE;
	connection->deadline_ms = 0;
	connection->used = true;
	if (lists && status != 200) {
		char why[80];
		text_printf(why, sizeof(why), "it answers %d to a request for the list", status);
		engine->list_is_due = true;
		disconnect(engine, kind, why);
		return false;
	}
	if (lists) {
		end_list(engine);
	} else {
		end_inspection(engine, status);
	}
	if (!keep) {
		disconnect(engine, kind, "");
	}
	return keep;
}

static bool take_bytes(
	struct engine *engine, enum runtime_kind kind, const char *at, const char *end)
{
	struct connection *connection = &engine->connections[kind];
	if (connection->state != ASKED) {
		fail(engine, kind, "it says something that nobody asked for");
		return false;
	}
	for (;;) {
		switch (http_reader_next(&connection->reader, &at, end)) {
		case HTTP_EVENT_MORE:
			return true;
		case HTTP_EVENT_HEAD:
			if (kind == RUNTIME_EVENTS && connection->reader.status != 200) {
				fail(engine, kind, "it refuses the stream of events");
				return false;
			}
			if (kind == RUNTIME_EVENTS) {
				connection->deadline_ms = 0;
				engine->list_is_due = true;
			}
			break;
		case HTTP_EVENT_BODY:
			if (!take_body(engine, kind)) {
				return false;
			}
			break;
		case HTTP_EVENT_END:
			return end_answer(engine, kind);
		case HTTP_EVENT_REFUSED:
			fail(engine, kind, "its answer is not HTTP");
			return false;
		}
	}
}

static void receive(struct engine *engine, enum runtime_kind kind)
{
	static char bytes[READ_BYTES];
	for (int i = 0; i < READS_AT_ONCE; i++) {
		ssize_t n = recv(engine->connections[kind].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			return;
		}
		if (n <= 0) {
			/* An idle connection may end; the request that lost it is repeated. */
			fail(engine, kind, "it has closed the connection");
			return;
		}
		if (!take_bytes(engine, kind, bytes, bytes + n)) {
			return;
		}
	}
}

/* ---- time ---- */

void engine_waits(const struct engine *engine, struct pollfd fds[RUNTIME_KINDS])
{
	for (int kind = 0; kind < RUNTIME_KINDS; kind++) {
		fds[kind] = (struct pollfd){ .fd = engine->connections[kind].fd, .events = POLLIN };
	}
}

int engine_due_ms(const struct engine *engine, int64_t now_ms)
{
	int64_t due_ms = engine->connections[RUNTIME_REQUESTS].state == IDLE ? engine->list_at_ms
									     : INT64_MAX;
	for (int kind = 0; kind < RUNTIME_KINDS; kind++) {
		int64_t deadline_ms = engine->connections[kind].deadline_ms;
		due_ms = deadline_ms != 0 && deadline_ms < due_ms ? deadline_ms : due_ms;
	}
	return due_ms == INT64_MAX ? -1 : due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

static void on_late(struct engine *engine, enum runtime_kind kind)
{
	if (kind == RUNTIME_EVENTS) {
		/* A runtime may send the head with the first event. */
		engine->connections[kind].deadline_ms = 0;
		engine->list_is_due = true;
		return;
	}
	bool hopeless = !engine->lists && ++engine->attempts >= ATTEMPTS;
	fail_request(engine, "it does not answer in time", hopeless);
}

void engine_proceed(struct engine *engine, const struct pollfd fds[RUNTIME_KINDS], int64_t now_ms)
{
	for (int kind = 0; kind < RUNTIME_KINDS; kind++) {
		if (fds[kind].fd >= 0 && fds[kind].fd == engine->connections[kind].fd &&
			fds[kind].revents) {
			receive(engine, (enum runtime_kind)kind);
		}
		int64_t deadline_ms = engine->connections[kind].deadline_ms;
		if (deadline_ms != 0 && now_ms >= deadline_ms) {
			on_late(engine, (enum runtime_kind)kind);
		}
	}
	if (now_ms >= engine->list_at_ms) {
		engine->list_is_due = true;
		engine->list_at_ms = now_ms + RESYNC_MS;
	}
	ask_next(engine);
}

struct engine *engine_create(struct wire *wire, const struct facts_filter *filter)
{
	struct engine *engine = memory_zeroed(1, sizeof(*engine));
	engine->wire = wire;
	engine->filter = filter;
	engine->pidfd = -1;
	engine->known = memory_must(json_object());
	engine->queue = memory_must(json_object());
	engine->listed = memory_must(json_object());
	engine->list_at_ms = INT64_MAX;
	objects_init(&engine->events, OBJECT_BYTES, on_event, engine);
	objects_init(&engine->list, OBJECT_BYTES, on_entry, engine);
	buffer_init(&engine->inspection, OBJECT_BYTES);
	buffer_init(&engine->signature, SIGNATURE_BYTES);
	for (int kind = 0; kind < RUNTIME_KINDS; kind++) {
		engine->connections[kind].fd = -1;
		http_reader_init(&engine->connections[kind].reader, HTTP_FOREIGN_ANSWER);
		disconnect(engine, (enum runtime_kind)kind, "");
	}
	return engine;
}
