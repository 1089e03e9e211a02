/*
 * One run of a check, whatever its type: starts it, times it, and says warning when it was slow.
 */
#ifndef AGENT_CHECK_PROBE_H
#define AGENT_CHECK_PROBE_H

#include <ev.h>

#include "agent/check/launch.h"
#include "agent/check/result.h"
#include "agent/config/config.h"

struct check_probe;

struct check_probe_callbacks {
	/* Once; the result is complete. */
	void (*on_result)(void *context, const struct check_result *result);
	/* Once, after on_result, when nothing of the run is left; the probe is freed when it returns. */
	void (*on_gone)(void *context);
	void *context;
};

/* Not for ttl checks. `launch` is for those of type command, NULL for others. NULL when it could not be started, with the complete `result`; no callback comes then. Callbacks come
 * from the loop only. `config` is borrowed until on_gone. */
struct check_probe *check_probe_start(struct ev_loop *loop, const struct config_check *config,
	const struct check_launch *launch, const struct check_probe_callbacks *callbacks,
	struct check_result *result);

/* Ends the run at once (what it started is killed), with no more callbacks. Accepts NULL. */
void check_probe_abandon(struct check_probe *probe);

#endif
