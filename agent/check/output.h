/*
 * The receiving end of a health command's output: keeps the first 4 KiB, drains the rest, and shows all of it to a pattern.
 */
#ifndef AGENT_CHECK_OUTPUT_H
#define AGENT_CHECK_OUTPUT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/check/match.h"
#include "agent/check/result.h"

struct check_output {
	ev_io readable;
	int pipe; /* -1: none */
	char data[CHECK_OUTPUT_BYTES];
	size_t len;
	bool cut;                  /* there was more */
	struct check_match *match; /* sees all of it; borrowed, may be NULL */
};

void check_output_init(struct check_output *output);

/* Makes the pipe and returns its writing end, which the caller closes; or -1 with errno. */
int check_output_open(struct check_output *output);

/* Reads as it comes, a bounded amount each turn of the loop, until the writers are gone. Nothing to do without a pipe, or
 * when it is watched already. Until then the pipe holds 64 KiB for a command that is done soon, and the loop is spared. */
void check_output_watch(struct check_output *output, struct ev_loop *loop);

/* Takes what lies in the pipe and closes it, whoever may still hold the other end. */
void check_output_finish(struct check_output *output, struct ev_loop *loop);

/* Appends what the other one kept. */
void check_output_append(struct check_output *output, const struct check_output *other);

#endif
