/*
 * A command check: the environment, user and limits of its process, and the verdict on its exit
 * status and its output.
 */
#ifndef AGENT_CHECK_COMMAND_H
#define AGENT_CHECK_COMMAND_H

#include <ev.h>

#include "agent/check/result.h"
#include "agent/command/spawn.h"
#include "agent/config/config.h"
#include "lib/base/err.h"

struct check_command;

/*
 * The part of a command check that is the same for all its runs: environment, user, limits.
 * `components` and `paths`: for BERTH_COMPONENT and BERTH_PATH. Never NULL; see
 * command_launch_destroy().
 */
struct command_launch *check_command_launch(
	const struct config_check *config, const char *components, const char *paths);

/*
 * Starts one run. Returns NULL, and makes no callback, when the command cannot be started.
 * `config` is borrowed until on_gone.
 */
struct check_command *check_command_start(struct ev_loop *loop, const struct config_check *config,
	const struct command_launch *launch, const struct check_run_callbacks *callbacks,
	struct err *err) ERR_REQUIRED(5);

/* Kills the command's processes; no more callbacks. */
void check_command_abandon(struct check_command *command);

#endif
