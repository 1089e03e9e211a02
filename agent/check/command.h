/*
 * One run of a health command, from start until nothing of it is left.
 *
 *                      exit                            nothing left
 *   RUNNING ─────────────────────────────▶ SWEEPING ─────────────────▶ gone
 *      │ deadline: result, TERM               ▲ ↺ kills what escaped
 *      └──────────▶ ENDING ───────────────────┘
 *                   1 s later: KILL    exit
 *
 * The result comes when the command exits or its deadline passes, whatever a grandchild does with its output. on_gone comes
 * after it, when the process group is dead and no orphan of the run is found (see orphans.h for the
 * limits): only then may the next run start. Loop thread, default loop only (it reaps).
 */
#ifndef AGENT_CHECK_COMMAND_H
#define AGENT_CHECK_COMMAND_H

#include <ev.h>

#include "agent/check/launch.h"
#include "agent/check/result.h"
#include "agent/config/config.h"

struct check_command;

struct check_command_callbacks {
	/* Once; verdict, detail and output are filled. */
	void (*on_result)(void *context, const struct check_result *result);
	/* Once, after on_result; the run is freed when it returns. */
	void (*on_gone)(void *context);
	void *context;
};

/* NULL when the command could not be run, with the reason in `result`; no callback comes then. `config` is borrowed until on_gone, `launch` for the call. */
struct check_command *check_command_start(struct ev_loop *loop, const struct config_check *config,
	const struct check_launch *launch, const struct check_command_callbacks *callbacks,
	struct check_result *result);

/* Kills the run at once, with no more callbacks; it frees itself when nothing of it is left. */
void check_command_abandon(struct check_command *command);

#endif
