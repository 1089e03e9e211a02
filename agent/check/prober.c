#include "agent/check/prober.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/timer.h"
#include "lib/base/list.h"
#include "lib/base/text.h"
#include "lib/looker/child.h"
#include "lib/looker/wire.h"

enum {
	PATIENCE_MS = 3000, /* without a word; then it is asked for one, and has as long again */
	START_MS = 20000,
	FIRST_PAUSE_MS = 50,
	LAST_PAUSE_MS = 5000,
	AT_A_TIME = 256, /* questions */
	ALONE_AFTER = 2, /* children that it has lost */
	TRIES = 5,
	READS_AT_ONCE = 8,
	BLOBS_MAX = 64 /* of one child; then it forgets them all */
};

enum state { NONE, STARTING, SERVES };

struct check_question {
	struct list link;
	struct check_prober *prober;
	struct check_prober_ask ask;
	char *addresses;
	uint64_t id; /* of what the child was asked; 0: it waits */
	int lost;    /* children */
	void (*on_answer)(void *context, const struct check_prober_answer *answer);
	void *context;
};

struct check_prober {
	struct ev_loop *loop;
	unsigned users;
	int program; /* -1: not found yet */
	enum state state;
	bool quiet; /* the log knows that none can be started */
	bool asked_for_word;
	pid_t pid;
	struct wire wire;
	ev_io io;
	ev_io room;
	struct timer patience;
	struct timer pause;
	struct timer turn; /* for what is not answered by a child */
	int64_t pause_ms;
	char why[256]; /* no child can be started */
	struct list waiting;
	struct list asked;
	size_t asked_count;
	uint64_t last_id;
	const char *blobs[BLOBS_MAX]; /* that the child has: the index, plus 1, is the id */
	size_t blob_count;
};

static void pump(struct check_prober *prober);

/* ---- the end of a child ---- */

static void end(struct check_prober *prober)
{
	if (prober->state == NONE) {
		return;
	}
	timer_stop(&prober->patience);
	ev_io_stop(prober->loop, &prober->io);
	ev_io_stop(prober->loop, &prober->room);
	wire_finish(&prober->wire);
	kill(prober->pid, SIGKILL);
	/* libev reaps it, too; this is for the case that it is not in the loop. */
	(void)waitpid(prober->pid, NULL, WNOHANG);
	prober->state = NONE;
	prober->blob_count = 0;
}

/* The questions that it had wait again, those that have lost the most at the end. */
static void take_back(struct check_prober *prober)
{
	while (!list_empty(&prober->asked)) {
		struct check_question *question = LIST_ITEM(
			prober->asked.next, struct check_question, link);
		list_remove(&question->link);
		list_append(&prober->waiting, &question->link);
		question->id = 0;
		question->lost++;
	}
	prober->asked_count = 0;
}

static void wait_and_start(struct check_prober *prober)
{
	int64_t pause_ms = prober->pause_ms;
	prober->pause_ms = pause_ms == 0 ? FIRST_PAUSE_MS : 2 * pause_ms;
	prober->pause_ms = prober->pause_ms < LAST_PAUSE_MS ? prober->pause_ms : LAST_PAUSE_MS;
	timer_start(&prober->pause, pause_ms);
}

static void replace(struct check_prober *prober, const char *why)
{
	log_warn("probe", "berth-probe, pid %d, %s: starting another one", prober->pid, why);
	end(prober);
	take_back(prober);
	text_printf(prober->why, sizeof(prober->why), "berth-probe %s each time", why);
	wait_and_start(prober);
}

static void on_impatient(void *context)
{
	struct check_prober *prober = context;
	if (prober->state == STARTING || prober->asked_for_word) {
		replace(prober, "does not answer");
		return;
	}
	prober->asked_for_word = true;
	wire_begin(&prober->wire, PROBE_PING);
	wire_end(&prober->wire);
	wire_flush(&prober->wire);
	timer_start(&prober->patience, PATIENCE_MS);
}

/* ---- its words ---- */

static struct check_question *find(const struct check_prober *prober, uint64_t id)
{
	for (struct list *at = prober->asked.next; at != &prober->asked; at = at->next) {
		struct check_question *question = LIST_ITEM(at, struct check_question, link);
		if (question->id == id) {
			return question;
		}
	}
	return NULL;
}

static void free_question(struct check_question *question)
{
	list_remove(&question->link);
	if (question->id) {
		question->prober->asked_count--;
	}
	free(question->addresses);
	free(question);
}

static void give(struct check_question *question, const struct check_prober_answer *answer)
{
	void (*on_answer)(void *, const struct check_prober_answer *) = question->on_answer;
	void *context = question->context;
	free_question(question);
	on_answer(context, answer);
}

static void take_answer(struct check_prober *prober, struct wire_frame *frame)
{
	struct check_question *question = find(prober, wire_get_number(frame));
	struct check_prober_answer answer = { .outcome = (enum probe_outcome)wire_get_number(frame),
		.status = (int)wire_get_number(frame) };
	(void)wire_get_number(frame);
	answer.reason = wire_get_text(frame);
	answer.fields = wire_get_bytes(frame, &answer.fields_len);
	answer.body = wire_get_bytes(frame, &answer.body_len);
	if (question && !frame->bad) {
		prober->pause_ms = 0;
		give(question, &answer);
	}
}

/* False: it is not to be trusted any more. */
static bool handle(struct check_prober *prober, struct wire_frame *frame)
{
	prober->asked_for_word = false;
	timer_start(&prober->patience, PATIENCE_MS);
	if (prober->state == STARTING && frame->type == PROBE_READY) {
		const char *cage = wire_get_text(frame);
		log_debug("probe", "berth-probe, pid %d, cage: %s; %s", prober->pid, cage,
			wire_get_text(frame));
		prober->state = SERVES;
	} else if (prober->state == SERVES && frame->type == PROBE_ANSWER) {
		take_answer(prober, frame);
	} else if (frame->type != PROBE_PONG) {
		return false;
	}
	return !frame->bad;
}

/* The end of a check, in there, may be that of the child. */
static bool handle_all(struct check_prober *prober, pid_t pid)
{
	struct wire_frame frame;
	size_t used = 0;
	int got = 0;
	bool good = true;
	while (good && (got = wire_next(&prober->wire, &used, &frame)) > 0) {
		good = handle(prober, &frame);
		if (prober->state == NONE || prober->pid != pid) {
			return true;
		}
	}
	wire_consume(&prober->wire, used);
	return good && got == 0;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct check_prober *prober = io->data;
	pid_t pid = prober->pid;
	(void)loop;
	(void)events;
	for (int i = 0; i < READS_AT_ONCE; i++) {
		int got = wire_receive(&prober->wire);
		bool good = handle_all(prober, pid);
		if (prober->state == NONE || prober->pid != pid) {
			return;
		}
		if (got < 0 || !good) {
			replace(prober, got < 0 ? "has ended" : "talks nonsense");
			return;
		}
		if (got == 0) {
			break;
		}
	}
	if (prober->asked_count == 0) {
		timer_stop(&prober->patience);
	}
	pump(prober);
}

/* ---- questions ---- */

static void flush(struct check_prober *prober)
{
	/* An end is noticed by its socket's end of file. */
	wire_flush(&prober->wire);
	if (wire_waits(&prober->wire)) {
		ev_io_start(prober->loop, &prober->room);
	} else {
		ev_io_stop(prober->loop, &prober->room);
	}
}

static void on_room(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	flush(io->data);
}

/* The number under which the child has the text; 0 for NULL. */
static uint64_t blob(struct check_prober *prober, const char *text)
{
	if (!text) {
		return 0;
	}
	for (size_t i = 0; i < prober->blob_count; i++) {
		if (prober->blobs[i] == text || strcmp(prober->blobs[i], text) == 0) {
			return i + 1;
		}
	}
	prober->blobs[prober->blob_count++] = text;
	wire_begin(&prober->wire, PROBE_BLOB);
	wire_number(&prober->wire, prober->blob_count);
	wire_bytes(&prober->wire, text, strlen(text));
	wire_end(&prober->wire);
	return prober->blob_count;
}

static void forget_blobs(struct check_prober *prober)
{
	prober->blob_count = 0;
	wire_begin(&prober->wire, PROBE_FORGET);
	wire_end(&prober->wire);
}

static void send(struct check_prober *prober, struct check_question *question)
{
	const struct check_prober_ask *ask = &question->ask;
	struct wire *wire = &prober->wire;
	if (prober->blob_count + 3 > BLOBS_MAX) {
		forget_blobs(prober);
	}
	uint64_t authorities = blob(prober, ask->authorities);
	uint64_t certificate = blob(prober, ask->certificate);
	uint64_t key = blob(prober, ask->key);
	question->id = ++prober->last_id;
	wire_begin(wire, PROBE_ASK);
	wire_number(wire, question->id);
	wire_number(wire, ask->flags);
	wire_number(wire, (uint64_t)ask->timeout_ms);
	wire_number(wire, authorities);
	wire_number(wire, certificate);
	wire_number(wire, key);
	wire_text(wire, ask->port);
	wire_text(wire, question->addresses);
	wire_text(wire, ask->name);
	wire_text(wire, ask->method);
	wire_text(wire, ask->path);
	wire_text(wire, ask->fields);
	wire_text(wire, ask->body);
	wire_end(wire);
	list_remove(&question->link);
	list_append(&prober->asked, &question->link);
	if (prober->asked_count++ == 0) {
		prober->asked_for_word = false;
		timer_start(&prober->patience, PATIENCE_MS);
	}
}

/* A question that has lost several children is asked alone. */
static bool may_ask(const struct check_prober *prober, const struct check_question *question)
{
	const struct check_question *last = LIST_ITEM(
		prober->asked.prev, struct check_question, link);
	return prober->asked_count == 0 ||
		(prober->asked_count < AT_A_TIME && question->lost < ALONE_AFTER &&
			last->lost < ALONE_AFTER);
}

static void start(struct check_prober *prober)
{
	struct err err = ERR_INIT;
	int fd;
	if (prober->program < 0) {
		prober->program = looker_program_open(PROBE_PROGRAM, &err);
	}
	pid_t pid = prober->program < 0
		? -1
		: looker_child_start(prober->program, PROBE_PROGRAM, &fd, &err);
	if (pid < 0) {
		text_printf(prober->why, sizeof(prober->why), "%s%s", err.msg,
			prober->program < 0 ? ": install the package berth-probe" : "");
		if (!prober->quiet) {
			log_error("probe", "%s", prober->why);
		}
		prober->quiet = true;
		timer_start(&prober->turn, 0);
		return;
	}
	prober->quiet = false;
	prober->pid = pid;
	prober->state = STARTING;
	prober->asked_for_word = false;
	wire_init(&prober->wire, fd);
	ev_io_set(&prober->io, fd, EV_READ);
	ev_io_set(&prober->room, fd, EV_WRITE);
	ev_io_start(prober->loop, &prober->io);
	/* A machine without time to spare starts a program late. */
	timer_start(&prober->patience, START_MS);
}

static void pump(struct check_prober *prober)
{
	if (list_empty(&prober->waiting)) {
		return;
	}
	if (prober->state == NONE && !timer_runs(&prober->pause) && !timer_runs(&prober->turn)) {
		start(prober);
	}
	while (prober->state == SERVES && !list_empty(&prober->waiting)) {
		struct check_question *question = LIST_ITEM(
			prober->waiting.next, struct check_question, link);
		if (!may_ask(prober, question)) {
			break;
		}
		send(prober, question);
	}
	if (prober->state == SERVES) {
		flush(prober);
	}
}

/* Those that cannot be asked have their answer; all, when no child could be started. */
static void give_up(struct check_prober *prober, bool all)
{
	struct check_prober_answer answer = {
		.outcome = PROBE_COULD_NOT, .reason = prober->why, .fields = "", .body = ""
	};
	struct list *at = prober->waiting.next;
	while (at != &prober->waiting) {
		struct check_question *question = LIST_ITEM(at, struct check_question, link);
		at = at->next;
		if (all || question->lost >= TRIES) {
			give(question, &answer);
			at = prober->waiting.next; /* others may have gone with it */
		}
	}
}

static void on_turn(void *context)
{
	give_up(context, true);
}

static void on_pause_end(void *context)
{
	give_up(context, false);
	pump(context);
}

struct check_question *check_prober_start(struct check_prober *prober,
	const struct check_prober_ask *ask,
	void (*on_answer)(void *context, const struct check_prober_answer *answer), void *context)
{
	struct check_question *question = allocate_zeroed(1, sizeof(*question));
	question->prober = prober;
	question->ask = *ask;
	question->addresses = allocate_text(ask->addresses);
	question->on_answer = on_answer;
	question->context = context;
	list_append(&prober->waiting, &question->link);
	pump(prober);
	return question;
}

void check_prober_abandon(struct check_question *question)
{
	if (question) {
		/* Its answer finds nobody. */
		free_question(question);
	}
}

/* ---- life ---- */

void check_prober_use(struct check_prober *prober)
{
	prober->users++;
}

void check_prober_unuse(struct check_prober *prober)
{
	if (--prober->users == 0) {
		end(prober);
		timer_stop(&prober->pause);
		prober->pause_ms = 0;
	} else if (prober->state == SERVES) {
		/* The texts that it had may be freed with the check's configuration. */
		forget_blobs(prober);
		flush(prober);
	}
}

struct check_prober *check_prober_create(struct ev_loop *loop)
{
	struct check_prober *prober = allocate_zeroed(1, sizeof(*prober));
	prober->loop = loop;
	prober->program = -1;
	ev_io_init(&prober->io, on_readable, -1, EV_READ);
	ev_io_init(&prober->room, on_room, -1, EV_WRITE);
	prober->io.data = prober;
	prober->room.data = prober;
	timer_init(&prober->patience, loop, "probe", on_impatient, prober);
	timer_init(&prober->pause, loop, "start of a probe", on_pause_end, prober);
	timer_init(&prober->turn, loop, "no probe", on_turn, prober);
	/* Words that came in time count, even if the agent was not running. */
	ev_set_priority(&prober->patience.timer, EV_MINPRI);
	list_init(&prober->waiting);
	list_init(&prober->asked);
	return prober;
}

void check_prober_destroy(struct check_prober *prober)
{
	if (!prober) {
		return;
	}
	end(prober);
	timer_stop(&prober->pause);
	timer_stop(&prober->turn);
	if (prober->program >= 0) {
		close(prober->program);
	}
	free(prober);
}
