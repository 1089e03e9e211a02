/*
 * The bridge's looker without a process: it looks at once, in the agent's own, whose file calls are
 * those of the simulation; the answer comes in the loop's next turn. It never hangs, nor lacks
 * memory: what the agent lacks then is not its own.
 */
#include "agent/bridge/looker.h"

#include <stdlib.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "lib/looker/protocol.h"
#include "looker/looks.h"
#include "tests/sim/process.h"

struct bridge_looker {
	struct ev_loop *loop;
	struct bridge_looker_events events;
	char *directory;
	struct looks *looks; /* NULL: the directory is away */
	struct wire asked;   /* what the agent writes */
	struct wire answers;
	bool is_asked;
	ev_io io;
	struct timer turn;
};

static void move(struct buffer *from, struct buffer *to)
{
	buffer_append(to, from->data, from->len);
	buffer_clear(from);
}

/* Which of the agent's next allocations fails; returns which one would have. */
static unsigned fail_in(unsigned next)
{
	struct memory *memory = process_memory(process_current());
	unsigned before = memory->fail_in;
	memory->fail_in = next;
	return before;
}

static void start(struct bridge_looker *looker)
{
	struct err err = ERR_INIT;
	unsigned agents = fail_in(0);
	looker->is_asked = false;
	looker->looks = looks_open(&looker->answers, looker->directory, &err);
	fail_in(agents);
	if (!looker->looks) {
		timer_start(&looker->turn, 1000);
	} else if (looks_events_fd(looker->looks) >= 0) {
		ev_io_set(&looker->io, looks_events_fd(looker->looks), EV_READ);
		ev_io_start(looker->loop, &looker->io);
	}
	looker->events.on_ready(looker->events.context, err.msg);
}

static void stop(struct bridge_looker *looker)
{
	timer_stop(&looker->turn);
	ev_io_stop(looker->loop, &looker->io);
	wire_finish(&looker->asked);
	wire_finish(&looker->answers);
	looks_close(looker->looks);
	looker->looks = NULL;
}

/* All that the agent wrote is answered, and all answers are handed out. */
static void on_turn(void *context)
{
	struct bridge_looker *looker = context;
	struct wire_frame frame;
	size_t used = 0;
	if (!looker->looks) {
		start(looker);
		return;
	}
	move(&looker->asked.out, &looker->asked.in);
	while (wire_next(&looker->asked, &used, &frame) > 0) {
		unsigned agents = fail_in(0);
		(void)looks_answer(looker->looks, &frame);
		fail_in(agents);
	}
	wire_consume(&looker->asked, used);
	move(&looker->answers.out, &looker->answers.in);
	struct looks *looks = looker->looks;
	for (used = 0; looker->looks == looks && wire_next(&looker->answers, &used, &frame) > 0;) {
		if (frame.type == LOOKER_EVENT) {
			uint64_t id = wire_get_number(&frame);
			unsigned what = (unsigned)wire_get_number(&frame);
			looker->events.on_event(
				looker->events.context, id, what, wire_get_number(&frame));
			continue;
		}
		bool last = frame.type == LOOKER_LOOKED || frame.type == LOOKER_LISTED;
		looker->events.on_frame(looker->events.context, &looker->answers, &frame);
		if (last) {
			looker->is_asked = false;
			looker->events.on_answer(looker->events.context, BRIDGE_ANSWERED);
		}
	}
	if (looker->looks == looks) {
		wire_consume(&looker->answers, used);
	}
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct bridge_looker *looker = io->data;
	(void)loop;
	(void)events;
	unsigned agents = fail_in(0);
	looks_on_events(looker->looks);
	fail_in(agents);
	on_turn(looker);
}

int bridge_looker_create(struct bridge_looker **ret_looker, struct ev_loop *loop,
	const char *directory, const struct bridge_looker_events *events, struct err *err)
{
	struct bridge_looker *looker = allocate_zeroed(1, sizeof(*looker));
	(void)err;
	looker->loop = loop;
	looker->events = *events;
	looker->directory = allocate_text(directory);
	ev_io_init(&looker->io, on_readable, -1, EV_READ);
	looker->io.data = looker;
	timer_init(&looker->turn, loop, "looker", on_turn, looker);
	wire_init(&looker->asked, -1);
	wire_init(&looker->answers, -1);
	*ret_looker = looker;
	timer_start(&looker->turn, 0);
	return 0;
}

void bridge_looker_destroy(struct bridge_looker *looker)
{
	if (looker) {
		stop(looker);
		free(looker->directory);
		free(looker);
	}
}

void bridge_looker_adopt(struct bridge_looker *looker, const struct bridge_abandoned *abandoned)
{
	(void)looker;
	(void)abandoned;
}

size_t bridge_looker_pass(
	struct bridge_looker *looker, struct bridge_abandoned *ret_abandoned, size_t max)
{
	(void)ret_abandoned;
	(void)max;
	stop(looker);
	return 0;
}

bool bridge_looker_is_free(const struct bridge_looker *looker)
{
	return looker->looks && !looker->is_asked;
}

bool bridge_looker_is_there(const struct bridge_looker *looker)
{
	(void)looker;
	return true;
}

struct wire *bridge_looker_ask(struct bridge_looker *looker, const char *container)
{
	(void)container;
	looker->is_asked = true;
	return &looker->asked;
}

void bridge_looker_send(struct bridge_looker *looker)
{
	timer_start(&looker->turn, 0);
}

void bridge_looker_forget(struct bridge_looker *looker, uint64_t id)
{
	if (looker->looks) {
		wire_begin(&looker->asked, LOOKER_FORGET);
		wire_number(&looker->asked, id);
		wire_end(&looker->asked);
		timer_start(&looker->turn, 0);
	}
}

void bridge_looker_replace(struct bridge_looker *looker)
{
	stop(looker);
	timer_start(&looker->turn, 0);
}

bool bridge_looker_has_abandoned(const struct bridge_looker *looker, const char *container)
{
	(void)looker;
	(void)container;
	return false;
}

size_t bridge_looker_abandoned(const struct bridge_looker *looker)
{
	(void)looker;
	return 0;
}

void bridge_looker_wait(struct bridge_looker *looker, int64_t until_ms)
{
	(void)until_ms;
	timer_stop(&looker->turn);
	on_turn(looker);
}
