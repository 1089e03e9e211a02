/*
 * A run of a check that berth-probe makes: type grpc, and http with an https:// target. The agent
 * looks the name up and judges statuses, header fields and bodies as those of any http check.
 */
#ifndef AGENT_CHECK_PROBED_H
#define AGENT_CHECK_PROBED_H

#include <ev.h>
#include <stdbool.h>

#include "agent/check/prober.h"
#include "agent/check/result.h"
#include "agent/config/config.h"

struct check_probed;

/*
 * on_result comes once, always from the loop, after which the run is freed. `config` is borrowed
 * until then. NULL: the request is too long.
 */
struct check_probed *check_probed_start(struct ev_loop *loop, const struct config_check *config,
	struct check_prober *prober,
	void (*on_result)(void *context, const struct check_result *result), void *context);

/* Gives up; no result comes. */
void check_probed_abandon(struct check_probed *probed);

#endif
