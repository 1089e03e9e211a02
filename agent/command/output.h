/*
 * The receiving end of a command's output: keeps the first bytes, drains the rest, and shows all of
 * it to an observer.
 */
#ifndef AGENT_COMMAND_OUTPUT_H
#define AGENT_COMMAND_OUTPUT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/buffer.h"

struct command_output {
	ev_io readable;
	int pipe;           /* -1: none */
	struct buffer kept; /* the first bytes, up to its maximum */
	bool cut;           /* there was more */
	/* receives all of it; NULL: no receiver */
	void (*on_data)(void *context, const char *data, size_t len);
	void *context;
};

void command_output_init(struct command_output *output, size_t max);
void command_output_free(struct command_output *output);

/* Makes the pipe and returns its writing end, which the caller closes; or -1 with errno. */
int command_output_open(struct command_output *output);

/*
 * Reads as it comes, a bounded amount each turn of the loop, until the writers are gone. Does
 * nothing without a pipe, or when it watches already. Until this is called the pipe holds 64 KiB
 * for a command that is done soon, and the loop has nothing to watch.
 */
void command_output_watch(struct command_output *output, struct ev_loop *loop);

/* Reads what lies in the pipe and closes it, even if a process still holds the other end. */
void command_output_finish(struct command_output *output, struct ev_loop *loop);

#endif
