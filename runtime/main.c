/*
 * berth-runtime: asks a container runtime about its containers, for an agent
 * (lib/runtime/protocol.h). Its socket is as good as root: this program has no right to connect,
 * and sends GET requests alone, over sockets that the agent has connected.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/forget_code.h"
#include "lib/looker/child.h"
#include "lib/looker/wire.h"
#include "lib/program/memory.h"
#include "lib/runtime/protocol.h"
#include "lib/sandbox/sandbox.h"
#include "runtime/engine.h"

enum { MEMORY_MIB = 192, PREFIXES_MAX = 64 };

static struct wire wire;
static struct facts_filter filter;

static struct engine *begin(struct wire_frame *frame)
{
	static const unsigned rights = SANDBOX_WATCH_PROCESSES;
	const struct sandbox_profile profile = { .rights = rights, .memory_mib = MEMORY_MIB };
	char cage[SANDBOX_WORDS_BYTES];
	size_t count = (size_t)wire_get_number(frame);
	for (size_t i = 0; i < count && i < PREFIXES_MAX; i++) {
		size_t len;
		const char *prefix = wire_get_bytes(frame, &len);
		filter.prefixes = memory_grow(filter.prefixes, filter.count, sizeof(char *));
		filter.prefixes[filter.count++] = memory_text(prefix, len);
	}
	if (frame->bad) {
		exit(EXIT_FAILURE);
	}
	sandbox_enter(&profile, cage);
	forget_code();
	wire_begin(&wire, RUNTIME_READY);
	wire_text(&wire, cage);
	wire_end(&wire);
	wire_flush(&wire);
	return engine_create(&wire, &filter);
}

static void take_connection(struct engine *engine, struct wire_frame *frame)
{
	uint64_t kind = wire_get_number(frame);
	int fd = wire_take_fd(&wire);
	if (fd < 0 || kind >= RUNTIME_KINDS) {
		exit(EXIT_FAILURE);
	}
	engine_connected(engine, (enum runtime_kind)kind, fd);
}

static struct engine *answer(struct engine *engine, struct wire_frame *frame)
{
	if (!engine && frame->type == RUNTIME_HELLO) {
		engine = begin(frame);
	} else if (engine && frame->type == RUNTIME_CONNECTION) {
		take_connection(engine, frame);
	} else if (engine && frame->type == RUNTIME_LOOK) {
		engine_look(engine, wire_get_text(frame));
	} else {
		exit(EXIT_FAILURE);
	}
	return engine;
}

static struct engine *answer_all(struct engine *engine)
{
	struct wire_frame frame;
	size_t used = 0;
	int got;
	while ((got = wire_next(&wire, &used, &frame)) > 0) {
		engine = answer(engine, &frame);
	}
	if (got < 0) {
		exit(EXIT_FAILURE);
	}
	wire_consume(&wire, used);
	return engine;
}

static _Noreturn void serve(void)
{
	struct engine *engine = NULL;
	for (;;) {
		struct pollfd fds[1 + RUNTIME_KINDS] = { { .fd = LOOKER_CHILD_FD,
			.events = POLLIN } };
		size_t count = 1;
		int timeout_ms = -1;
		if (engine) {
			engine_waits(engine, fds + 1);
			timeout_ms = engine_due_ms(engine, clock_monotonic_ms());
			count += RUNTIME_KINDS;
		}
		if (poll(fds, count, timeout_ms) < 0) {
			continue;
		}
		if (engine) {
			engine_proceed(engine, fds + 1, clock_monotonic_ms());
		}
		if (fds[0].revents) {
			if (wire_receive(&wire) < 0) {
				_exit(0); /* the end of the agent is ours */
			}
			engine = answer_all(engine);
			if (engine) {
				const struct pollfd none[RUNTIME_KINDS] = { { .fd = -1 },
					{ .fd = -1 } };
				engine_proceed(engine, none, clock_monotonic_ms());
			}
		}
		if (wire_is_gone(&wire)) {
			_exit(0);
		}
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	if (!looker_child_begin(RUNTIME_PROGRAM)) {
		fprintf(stderr, "%s: started by berthd, not by hand\n", argv[0]);
		return 2;
	}
	memory_init();
	wire_init(&wire, LOOKER_CHILD_FD);
	serve();
}
