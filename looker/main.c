/*
 * berth-looker: works below directories that strangers can open, for another process
 * (lib/looker/child.h): it looks into containers' directories for an agent, in a cage, or does the
 * file calls of a dir: registry. It has no descriptor but its socket and what it opens itself.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/err.h"
#include "lib/base/forget_code.h"
#include "lib/looker/child.h"
#include "lib/looker/protocol.h"
#include "lib/looker/wire.h"
#include "lib/program/memory.h"
#include "lib/registry/dir/remote.h"
#include "lib/sandbox/sandbox.h"
#include "looker/looks.h"
#include "looker/registry.h"

enum { MEMORY_MIB = 128, RETRY_MS = 1000 };

static struct wire wire;

/* The end of the agent is ours. */
static void flush(void)
{
	wire_flush(&wire);
	if (wire_is_gone(&wire)) {
		_exit(0);
	}
}

static void receive(void)
{
	if (wire_receive(&wire) < 0) {
		_exit(0);
	}
}

static struct looks *begin(struct wire_frame *frame)
{
	static const unsigned rights = SANDBOX_SERVE_TREE;
	char cage[SANDBOX_WORDS_BYTES] = "none";
	struct err err = ERR_INIT;
	struct looks *looks = looks_open(&wire, wire_get_text(frame), &err);
	if (looks) {
		const struct sandbox_profile profile = { .rights = rights,
			.tree_fd = looks_directory(looks),
			.memory_mib = MEMORY_MIB };
		sandbox_enter(&profile, cage);
		forget_code();
	}
	wire_begin(&wire, LOOKER_READY);
	wire_text(&wire, err.msg);
	wire_text(&wire, cage);
	wire_number(&wire, looks && looks_events_fd(looks) >= 0);
	wire_end(&wire);
	flush();
	return looks;
}

static struct looks *answer_all(struct looks *looks)
{
	struct wire_frame frame;
	size_t used = 0;
	int got;
	while ((got = wire_next(&wire, &used, &frame)) > 0) {
		if (!looks) {
			/* A reader of our caller's messages does not wait for our end. */
			dup2(STDIN_FILENO, STDERR_FILENO);
		}
		if (!looks && frame.type == DIR_FRAME_HELLO) {
			registry_serve(&wire, &frame, used);
		} else if (!looks && frame.type == LOOKER_HELLO) {
			looks = begin(&frame);
		} else if (!looks || !looks_answer(looks, &frame)) {
			exit(EXIT_FAILURE);
		}
		flush();
	}
	if (got < 0) {
		exit(EXIT_FAILURE);
	}
	wire_consume(&wire, used);
	return looks;
}

static _Noreturn void serve(void)
{
	struct looks *looks = NULL;
	for (;;) {
		struct pollfd fds[] = { { .fd = LOOKER_CHILD_FD, .events = POLLIN },
			{ .fd = looks ? looks_events_fd(looks) : -1, .events = POLLIN } };
		int timeout_ms = looks && fds[1].fd < 0 ? RETRY_MS : -1;
		if (poll(fds, 2, timeout_ms) < 0) {
			continue;
		}
		if (looks && timeout_ms >= 0) {
			looks_on_time(looks);
		}
		if (fds[1].revents) {
			looks_on_events(looks);
		}
		if (fds[0].revents) {
			receive();
			looks = answer_all(looks);
		}
		flush();
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	if (!looker_child_begin(LOOKER_PROGRAM)) {
		fprintf(stderr, "%s: started by berthd, not by hand\n", argv[0]);
		return 2;
	}
	memory_init();
	wire_init(&wire, LOOKER_CHILD_FD);
	serve();
}
