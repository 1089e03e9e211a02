/* One run of a check of any type: starts it, measures its duration, and judges its outcome. */
#ifndef AGENT_CHECK_PROBE_H
#define AGENT_CHECK_PROBE_H

#include <ev.h>

#include "agent/check/result.h"
#include "agent/command/spawn.h"
#include "agent/config/config.h"

struct check_probe;

struct check_probe_callbacks {
	/* Once; the result is complete. */
	void (*on_result)(void *context, const struct check_result *result);
	/*
	 * Once, after on_result, when nothing of the run is left; the probe is freed when it
	 * returns.
	 */
	void (*on_gone)(void *context);
	void *context;
};

/*
 * The part of a command check that is the same for all its runs: environment, user, limits.
 * `components` and `paths`: for BERTH_COMPONENT and BERTH_PATH. Never NULL; see
 * command_launch_destroy().
 */
struct command_launch *check_probe_launch(
	const struct config_check *config, const char *components, const char *paths);

/*
 * Starts a run of a check that is not of type ttl. `launch` is for a check of type command, NULL
 * for others. Returns NULL when the run could not be started, with the complete `result`; no
 * callback comes then. Callbacks come from the loop only. `config` is borrowed until on_gone.
 */
struct check_probe *check_probe_start(struct ev_loop *loop, const struct config_check *config,
	const struct command_launch *launch, const struct check_probe_callbacks *callbacks,
	struct check_result *result);

/* Ends the run at once (kills its process), with no more callbacks. Accepts NULL. */
void check_probe_abandon(struct check_probe *probe);

#endif
