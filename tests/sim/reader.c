#include "tests/sim/reader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/path.h"
#include "tests/sim/process.h"
#include "tests/sim/reader_steps.h"
#include "tests/sim/sim.h"
#include "tests/sim/sockets.h"

enum {
	LOOKS = 3,
	MOST_PAUSE_MS = 4000,
	MOST_CALM_PAUSE_MS = 60000,
	MOST_STOP_MS = 8000,
	MOST_LOADS = 200, /* before a thread stops; a short reading ends earlier */
	STOP_PERCENT = 60,
	WANT_PERCENT = 60,
	STACK_BYTES = 1 << 16
};

/* One reading. `order` and `readings` are as they were when the lease was found to hold. */
struct reading {
	enum answer_kind kind;
	const char *path;
	enum shared_outcome outcome;
	struct shared_answer answer;
	char value[SHARED_VALUE_BYTES + 1];
	int64_t leased_ms;
	bool lost; /* the agent's process was gone by then */
	struct order order;
	struct order readings;
};

/* The thread that stops. */
struct thread {
	enum { IDLE, RUNNING, STOPPED } state;
	unsigned loads; /* until it stops; 0: it does not */
	int64_t until_ms;
	struct reading reading;
	ucontext_t place;
	ucontext_t caller;
	char *stack;
};

struct reader {
	struct answers *answers;
	const struct sockaddr_un *address;
	struct sim_random random;
	struct shared_map map;
	bool lost; /* the map is that of a process that is gone */
	int fd;    /* of the request for a map; -1: none is under way */
	int64_t due_ms;
	struct order readings; /* what it has read, and what the stream has told */
	struct thread thread;
};

/* Whose reading goes on, and which; NULL: none. */
static struct reader *current;
static struct reading *current_reading;

/* ---- one reading ---- */

uint64_t reader_load(shared_word *word)
{
	struct reader *reader = current;
	struct reading *reading = current_reading;
	if (!reading) {
		return *word;
	}
	struct thread *thread = &reader->thread;
	if (reading == &thread->reading && thread->loads > 0 && --thread->loads == 0) {
		thread->state = STOPPED;
		current_reading = NULL;
		swapcontext(&thread->place, &thread->caller);
		thread->state = RUNNING;
	}
	if (word == &reader->map.words[SHARED_H_LIVE_UNTIL]) {
		reading->leased_ms = sim_now_ms();
		reading->lost = reader->lost;
		reading->order = reader->answers->order;
		reading->readings = reader->readings;
	}
	return *word;
}

static void read_now(struct reader *reader, struct reading *reading)
{
	const char *key = answers_target(reading->kind, reading->path);
	current = reader;
	current_reading = reading;
	reading->outcome = reader_map_read(&reader->map, key, strlen(key), reading->value,
		sizeof(reading->value), &reading->answer);
	current_reading = NULL;
}

static void judge(struct reader *reader, struct reading *reading)
{
	if (reading->outcome != SHARED_FOUND) {
		return;
	}
	struct answers_found found = { .kind = reading->kind,
		.path = reading->path,
		.error = reading->answer.error,
		.body = reading->value,
		.leased_ms = reading->leased_ms,
		.order = reading->lost ? NULL : &reading->order,
		.readings = reading->lost ? NULL : &reading->readings };
	bool is_thread = reading == &reader->thread.reading;
	sim_trace("a reader%s finds %s", is_thread ? " that was stopped" : "",
		answers_target(reading->kind, reading->path));
	answers_check_found(reader->answers, &found);
	if (!is_thread && !reading->lost) {
		reader->readings = reading->readings;
	}
}

static void look(struct reader *reader, enum answer_kind kind, const char *path)
{
	static struct reading reading;
	if (reader->map.words) {
		reading.kind = kind;
		reading.path = path;
		read_now(reader, &reading);
		judge(reader, &reading);
	}
}

/* ---- the thread that stops ---- */

static void run_thread(void)
{
	struct reader *reader = current;
	read_now(reader, &reader->thread.reading);
	reader->thread.state = IDLE; /* the caller goes on */
}

static void choose(struct reader *reader, enum answer_kind *ret_kind, const char **ret_path)
{
	static const enum answer_kind kinds[] = { ANSWER_RECORD, ANSWER_LIST, ANSWER_RECORDS,
		ANSWER_NAME };
	*ret_kind = kinds[sim_below(&reader->random, ARRAY_LEN(kinds))];
	*ret_path = *ret_kind == ANSWER_NAME ? NULL
		: *ret_kind == ANSWER_RECORDS
		? answers_directories[sim_below(&reader->random, ANSWER_DIRECTORIES)]
		: answers_paths[sim_below(&reader->random, ORDER_PATHS)];
}

static void go_on(struct reader *reader)
{
	struct thread *thread = &reader->thread;
	current = reader;
	current_reading = &thread->reading;
	swapcontext(&thread->caller, &thread->place);
	if (thread->state == IDLE) {
		judge(reader, &thread->reading);
	}
}

static void begin(struct reader *reader)
{
	struct thread *thread = &reader->thread;
	choose(reader, &thread->reading.kind, &thread->reading.path);
	thread->loads = 1 + (unsigned)sim_below(&reader->random, MOST_LOADS);
	thread->until_ms = sim_now_ms() + 1 + (int64_t)sim_below(&reader->random, MOST_STOP_MS);
	thread->state = RUNNING;
	getcontext(&thread->place);
	thread->place.uc_stack.ss_sp = thread->stack;
	thread->place.uc_stack.ss_size = STACK_BYTES;
	thread->place.uc_link = &thread->caller;
	makecontext(&thread->place, run_thread, 0);
	go_on(reader);
}

/* ---- the map ---- */

static bool is_retired(const struct reader *reader)
{
	return reader->map.words[SHARED_H_STATE] == SHARED_RETIRED;
}

/* The agent that could extend its lease is gone. */
static bool is_abandoned(const struct reader *reader)
{
	return reader->lost &&
		(uint64_t)sim_now_ms() * 1000000 >= reader->map.words[SHARED_H_LIVE_UNTIL];
}

/* Only when no thread reads it. */
static void give_up_map(struct reader *reader)
{
	if (reader->thread.state == IDLE) {
		reader_map_close(&reader->map);
	}
}

static void hang_up(struct reader *reader)
{
	if (reader->fd >= 0) {
		close(reader->fd);
		reader->fd = -1;
	}
}

static void ask_for_map(struct reader *reader, struct process *agent)
{
	static const char request[] = "GET /v1/shared HTTP/1.1\r\nHost: a\r\n\r\n";
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	reader->fd = fd;
	if (connect(fd, (const struct sockaddr *)reader->address, sizeof(*reader->address)) ||
		send(fd, request, strlen(request), MSG_NOSIGNAL) < 0) {
		hang_up(reader);
	} else {
		process_wake(agent);
	}
}

void reader_receive(struct reader *reader)
{
	char piece[1024];
	int passed = reader && reader->fd >= 0 ? sockets_take_passed(reader->fd) : -1;
	if (passed >= 0) {
		if (reader_map_open(&reader->map, passed)) {
			reader->lost = false;
			sim_trace("a reader has a map of %zu bytes", reader->map.size);
		} else {
			sim_fail("a reader cannot map what it was handed");
		}
		close(passed);
		hang_up(reader);
	} else if (reader && reader->fd >= 0 && recv(reader->fd, piece, sizeof(piece), 0) >= 0) {
		hang_up(reader); /* it is refused, or closed: there is another time */
	}
}

/* ---- when it reads ---- */

void reader_look(struct reader *reader)
{
	if (reader && reader->map.words) {
		enum answer_kind kind;
		const char *path;
		choose(reader, &kind, &path);
		look(reader, kind, path);
	}
}

void reader_step(struct reader *reader, struct process *agent, bool calm)
{
	if (!reader) {
		return;
	}
	if (reader->thread.state == STOPPED && sim_now_ms() >= reader->thread.until_ms) {
		go_on(reader);
	}
	if (sim_now_ms() < reader->due_ms) {
		return;
	}
	reader->due_ms = sim_now_ms() + 1 +
		(int64_t)sim_below(&reader->random, calm ? MOST_CALM_PAUSE_MS : MOST_PAUSE_MS);
	for (int i = 0; i < LOOKS; i++) {
		reader_look(reader);
	}
	if (reader->map.words && reader->thread.state == IDLE) {
		if (is_retired(reader) || is_abandoned(reader)) {
			give_up_map(reader);
		} else if (sim_chance(&reader->random, STOP_PERCENT)) {
			begin(reader);
		}
	}
	if (!reader->map.words && reader->fd < 0 && agent) {
		ask_for_map(reader, agent);
	}
}

static int64_t earlier_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t reader_due_ms(const struct reader *reader)
{
	return !reader ? INT64_MAX
		: reader->thread.state == STOPPED
		? earlier_of(reader->due_ms, reader->thread.until_ms)
		: reader->due_ms;
}

bool reader_wants(struct reader *reader)
{
	return reader && sim_chance(&reader->random, WANT_PERCENT);
}

void reader_hear(struct reader *reader, const char *path, const json_t *record)
{
	const char *known = reader ? answers_path(path) : NULL;
	if (!known || (record && json_is_null(record))) {
		return;
	}
	order_hear(&reader->readings, reader->answers->world, known, record);
	look(reader, ANSWER_RECORD, known);
	for (size_t i = 0; i < ANSWER_DIRECTORIES; i++) {
		const char *directory = answers_directories[i];
		if (path_parent_len(known) == strlen(directory) &&
			path_is_under(known, directory)) {
			look(reader, ANSWER_RECORDS, directory);
		}
	}
}

/*
 * The successor of a killed process may know newer values than the map of that one, which holds
 * until its lease is over.
 */
void reader_lose(struct reader *reader, bool retires)
{
	if (!reader) {
		return;
	}
	hang_up(reader);
	order_forget(&reader->readings);
	if (reader->map.words && !reader->lost) {
		reader->lost = true;
		if (retires && !is_retired(reader)) {
			sim_fail("agent %d has ended, and its map is not retired",
				reader->answers->agent);
		}
	}
}

/* ---- creation ---- */

struct reader *reader_create(
	struct answers *answers, uint64_t seed, const struct sockaddr_un *address)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	reader->answers = answers;
	reader->address = address;
	reader->fd = -1;
	reader->thread.stack = malloc(STACK_BYTES);
	order_init(&reader->readings, answers_paths, ORDER_PATHS);
	sim_random_init(&reader->random, seed, 400 + (uint64_t)answers->agent);
	return reader;
}

void reader_destroy(struct reader *reader)
{
	if (reader) {
		hang_up(reader);
		reader_map_close(&reader->map);
		free(reader->thread.stack);
		free(reader);
	}
}
