/* One run of a check of any type: starts it, measures its duration, and judges its outcome. */
#ifndef AGENT_CHECK_PROBE_H
#define AGENT_CHECK_PROBE_H

#include <ev.h>

#include "agent/check/result.h"
#include "agent/command/spawn.h"
#include "agent/config/config.h"

struct check_linger;
struct check_probe;
struct check_prober;

/*
 * Starts a run of a check that is not of type ttl. `launch` is for a check of type command, NULL
 * for others; a connection ends in `linger`, which is borrowed, as `config` is, until on_gone; so
 * is `prober`, which config_check_is_probed() asks for.
 * Returns NULL when the run could not be started, with the complete `result` and without a
 * callback. Callbacks come from the loop only.
 */
struct check_probe *check_probe_start(struct ev_loop *loop, const struct config_check *config,
	const struct command_launch *launch, struct check_linger *linger,
	struct check_prober *prober, const struct check_run_callbacks *callbacks,
	struct check_result *result);

/* Ends the run at once (kills its process), with no more callbacks. Accepts NULL. */
void check_probe_abandon(struct check_probe *probe);

#endif
