/*
 * Shared by the files of an output.
 *
 *   output.c        follows a set, and takes it up
 *   deliver.c       one attempt at a file: content, check, file, on_change
 *   state.c         the state; settles; the end of an attempt
 *   file.c          the file itself
 *   picture.c       the input of a render command
 *   hosts.c         the addresses of host names in it
 *   haproxy.c       the runtime socket of HAProxy; haproxy_plan.c: which commands are due
 */
#ifndef AGENT_OUTPUT_INTERNAL_H
#define AGENT_OUTPUT_INTERNAL_H

#include "agent/base/file_queue.h"
#include "agent/base/timer.h"
#include "agent/command/command.h"
#include "agent/output/haproxy.h"
#include "agent/output/hosts.h"
#include "agent/output/output.h"
#include "agent/output/picture.h"
#include "agent/set/picture.h"
#include "lib/base/buffer.h"

#define OUTPUT_DIGEST_BYTES 17

struct output {
	struct ev_loop *loop;
	struct file_queue *files;
	const struct config_output *config;
	char *domain;
	char *zone;
	char *state_dir; /* NULL: it cannot be used */
	struct output_callbacks callbacks;
	struct output_counts counts;

	enum output_state state;
	char *why;
	char *printed; /* the last line of the command that failed; "" */
	double since;  /* wall clock seconds */

	char *from;               /* the path that servers are named below */
	struct set_user user;     /* of the set, which has the rules */
	unsigned revision;        /* of the set that was heard of */
	struct set_count counted; /* by the last attempt */
	int64_t first_change_ms;  /* of those that no attempt has taken up; 0: none */
	struct timer timer; /* SETTLING: the end of quiet; WAITING, FAILED: the next attempt */
	int64_t backoff_ms;
	char *left_out; /* which endpoints of the last picture have no place, and why; "" */

	/* An attempt at a file. */
	struct buffer content;
	struct file_job *file;       /* the file on its way to the disk; NULL: none */
	char *temporary;             /* a prepared file; NULL: none */
	char *place;                 /* where it goes: what the path leads to */
	struct file_version version; /* of the file in the place, when the new one was prepared */
	struct command *command;
	char digest[OUTPUT_DIGEST_BYTES];    /* of the content */
	char delivered[OUTPUT_DIGEST_BYTES]; /* the content for which on_change succeeded */
	struct command_launch *launch;

	struct output_hosts *hosts; /* NULL: the format takes names, or only addresses */
	struct haproxy *haproxy;    /* NULL: the output is a file */
};

/* ---- state.c ---- */

/* Enters a state; the text of the reason is taken. */
void output_enter_take(struct output *output, enum output_state state, char *why_taken);
/* A change that comes now is taken up behind the step. */
bool output_is_busy(const struct output *output);
/* Quiet for `quiet`, but no later than max_wait after the first change. */
void output_settle(struct output *output);
/* Forgets the attempt, its command and its temporary file. */
void output_drop_attempt(struct output *output);
/*
 * The attempt failed: another one follows after a growing pause. `printed` is of a command, or
 * NULL.
 */
void output_fail_take(struct output *output, char *why_taken, char *printed_taken);
/* The text of what is left out, from the result of a picture's rendering. */
void output_note_left_out(struct output *output, const struct render_result *result);
/* The attempt succeeded. */
void output_succeed(struct output *output);

/* Which endpoints the configuration asks for. */
struct render_filter output_filter(const struct config_output *config);

/* ---- deliver.c: ends in output_fail_take() or output_succeed() ---- */

struct command_launch *output_make_launch(const struct config_output *config);
void output_deliver(struct output *output, const struct render_picture *picture);

#endif
