/*
 * One run of a command, from its start until nothing of it is left. All commands that the agent
 * runs and waits for go through here: health commands, and the commands before and after the main
 * process.
 *
 *                      exit                            nothing left
 *   RUNNING ─────────────────────────────▶ SWEEPING ─────────────────▶ gone
 *      │ deadline: outcome, TERM              ▲ ↺ kills escaped processes
 *      └──────────▶ ENDING ───────────────────┘
 *                   1 s later: KILL    exit
 *
 * The outcome comes when the command exits or its deadline passes, even if a grandchild keeps its
 * output open. on_gone comes after it, when the process group is dead and no orphan of the run is
 * found (see orphans.h for the limits). Loop thread, default loop only (it reaps).
 */
#ifndef AGENT_COMMAND_COMMAND_H
#define AGENT_COMMAND_COMMAND_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/command/spawn.h"
#include "lib/base/err.h"

struct command;

struct command_options {
	char *const *argv; /* borrowed for the call, as is the rest */
	const struct command_launch *launch;
	const void *input; /* the command's stdin; NULL: /dev/null */
	size_t input_len;
	size_t output_max;    /* so many bytes of stdout and of stderr are kept */
	bool separate_errors; /* else stderr is part of the output, in order */
	int64_t timeout_ms;
};

enum command_end { COMMAND_EXITED, COMMAND_KILLED, COMMAND_TIMED_OUT };

struct command_outcome {
	enum command_end end;
	int status; /* the exit status, or the number of the signal that killed it */
	const char *output;
	size_t output_len;
	bool output_cut;    /* there was more */
	const char *errors; /* of separate_errors */
	size_t errors_len;
	bool errors_cut;
};

struct command_callbacks {
	/* All of stdout, as it comes; may be NULL. */
	void (*on_output)(void *context, const char *data, size_t len);
	/* Once; the outcome is borrowed for the call. */
	void (*on_end)(void *context, const struct command_outcome *outcome);
	/* Once, after on_end; the run is freed when it returns. May be NULL. */
	void (*on_gone)(void *context);
	void *context;
};

/* NULL with `err` filled, and no callback, when the command could not be run. */
struct command *command_start(struct ev_loop *loop, const struct command_options *options,
	const struct command_callbacks *callbacks, struct err *err) ERR_REQUIRED(4);

/* Kills the run at once, with no more callbacks; it frees itself when nothing of it is left. */
void command_abandon(struct command *command);

/*
 * Blocks until nothing of any run is left, for so long at most: when the agent ends, its loop runs
 * no more and every run was abandoned. Reaps every child that has died. False when something is
 * still there.
 */
bool command_wait_for_all(int64_t timeout_ms);

/*
 * "TERM" to SIGTERM and back, "RTMIN+3" too; -1 and NULL for a signal without a name here. The name
 * of a real-time signal is there until the next call.
 */
int command_signal_number(const char *name);
const char *command_signal_name(int number);

/* The status in words: "exit status 2", "killed by SIGSEGV". `out` has COMMAND_STATUS_BYTES. */
enum { COMMAND_STATUS_BYTES = 48 };
void command_status_text(char out[COMMAND_STATUS_BYTES], enum command_end end, int status);

#endif
