/*
 * The agent's own state, shared by the files agent_*.c that are its parts. Nobody else includes this.
 */
#ifndef AGENT_AGENT_INTERNAL_H
#define AGENT_AGENT_INTERNAL_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>

#include "agent/api/api.h"
#include "agent/cache/cache.h"
#include "agent/check/check.h"
#include "agent/component/component.h"
#include "agent/config/config.h"
#include "agent/base/drain.h"
#include "agent/handover.h"
#include "agent/base/history.h"
#include "agent/http/http.h"
#include "lib/base/list.h"
#include "agent/base/metrics.h"
#include "lib/registry/registry.h"
#include "agent/base/registry_loop.h"
#include "agent/base/state_dir.h"
#include "agent/supervise/supervise.h"

/*
 *   RUNNING --TERM, INT--> DEREGISTERING --nothing of ours is left--> LINGERING --drain_delay--> STOPPING_PROCESS --> DONE
 *   RUNNING --the main process ended--> DEREGISTERING ------------------------------------------------------------> DONE
 *   any --QUIT--> STOPPING_PROCESS --> DONE (the session is left to a successor)
 *   RUNNING --USR2--> exec() (agent_handover.c)
 */
enum agent_phase {
	AGENT_RUNNING,
	AGENT_DEREGISTERING,
	AGENT_LINGERING,
	AGENT_STOPPING_PROCESS,
	AGENT_DONE
};

#define AGENT_SIGNAL_COUNT 7

struct agent_left_node;
struct agent_upgrade;
struct run_waiter;

struct agent {
	struct ev_loop *loop;
	char **argv; /* the whole command line, for re-execution */
	const char *config_path;
	struct config *config;
	json_t *reload_problems; /* of the last reload, when it failed; else NULL */
	double started;          /* wall clock seconds */

	struct state_dir state;
	struct registry *registry;
	struct registry_loop registry_driver;
	enum registry_state registry_was; /* before the last change */
	double registry_since;
	struct list left_nodes; /* of agent_registry.c */

	struct check_scheduler *scheduler;
	struct component **components;
	size_t component_count;
	struct component **retired; /* no longer configured, withdrawing their records */
	size_t retired_count;
	struct config **old_configs; /* which the retired ones still use */
	size_t old_config_count;
	ev_timer sweep_timer;

	struct history *history;
	struct metrics *metrics;
	struct cache *cache;
	struct http *http;
	struct api *api;
	struct run_waiter *run_waiters; /* of agent_hooks.c */

	struct drain drain;
	ev_periodic drain_end_timer;
	ev_timer drain_retry_timer;
	ev_tstamp drained_at;       /* when the registry confirmed it; 0 before */
	size_t drain_confirmations; /* reads under way */
	bool drain_unconfirmed;     /* one of them found something of ours */

	struct supervise *main_process; /* NULL without one */
	bool main_process_started;      /* once, at least */
	bool main_process_running;

	enum agent_phase phase;
	bool leave_session; /* QUIT */
	bool nothing_stood; /* of ours, when we were told to stop */
	bool skip_linger;   /* the main process is gone already: nobody is left to serve */
	ev_timer phase_timer;
	ev_timer watchdog_timer;
	ev_signal signals[AGENT_SIGNAL_COUNT];
	int exit_status;
	struct supervise_limits limits; /* that this program was started with */

	bool keep_socket;
	bool claims_orphans;           /* see check_orphans_claim_unmarked() */
	struct agent_upgrade *upgrade; /* of agent_handover.c */
};

/* ---- agent_signals.c ----------------------------------------------------------------------------- */

/* From the first moment on: what comes before there is a loop to take it waits. */
void agent_signals_block(void);
void agent_signals_unblock(void);
void agent_signals_watch(struct agent *agent);

/* ---- agent_registry.c: the registry's connection and session ------------------------------------ */

/* `left`: what agent_registry_leave() gave in the process before us, or NULL for what the state directory says. */
int agent_registry_open(struct agent *agent, const json_t *left, struct err *err) ERR_REQUIRED(3);
/* Closes it, or leaves the session; on DONE. Accepts a registry that was never opened. */
void agent_registry_close(struct agent *agent);
/* Every path at which something of ours may stand. New reference. */
json_t *agent_registry_paths(const struct agent *agent);
/* Detaches from the session; what a successor needs to go on with it, and look after those paths. New reference, or NULL. */
json_t *agent_registry_leave(struct agent *agent, json_t *paths_take);
/* Writes session and paths down for a successor. */
void agent_registry_save_session(struct agent *agent);

/* ---- agent_components.c: components, their gates, reload ------------------------------------------- */

/* `saved`: object of label -> component_save(), or NULL. */
int agent_components_create(struct agent *agent, const json_t *saved, struct err *err)
	ERR_REQUIRED(3);
void agent_components_destroy(struct agent *agent);
/* Tells every component what the agent as a whole says: open, drained, stopping, waiting for the main process. */
void agent_components_update_gates(struct agent *agent);
/* All registered (ready), all settled (deregistered). */
bool agent_components_ready(const struct agent *agent, struct err *ret_why);
bool agent_components_settled(const struct agent *agent);
struct check *agent_find_check(const struct agent *agent, const char *name);
struct component *agent_find_endpoint(const struct agent *agent, const char *name);
json_t *agent_components_save(const struct agent *agent);
struct component_environment agent_component_environment(struct agent *agent);

/* ---- agent_reload.c ------------------------------------------------------------------------------------ */

/* Reads the configuration again; NULL when it is in force now, else the problems (new reference). */
json_t *agent_reload(struct agent *agent);
/* A component has changed: perhaps one that was retired has withdrawn, and can be freed when its callback has returned. */
void agent_reload_proceed(struct agent *agent);
/* Frees all that is left of configurations before. */
void agent_reload_finish(struct agent *agent);

/* ---- agent_drain.c ------------------------------------------------------------------------------- */

/* `handed_over`: what a predecessor said of it, or NULL for what the state directory says. */
void agent_drain_load(struct agent *agent, const json_t *handed_over);
/* A component settled, or the registry came back: perhaps the drain is done. */
void agent_drain_proceed(struct agent *agent);
/* What is left of drain_delay in a drain: all of it until the registry has confirmed; 0 or less when the drain is done. */
double agent_drain_left_s(const struct agent *agent);
/* With "done": the registry confirmed that nothing of ours stands, and drain_delay has passed since. New reference. */
json_t *agent_drain_json(const struct agent *agent);
void agent_drain_begin(struct agent *agent, const char *reason, int64_t for_ms);
void agent_drain_end(struct agent *agent);

/* ---- agent_cache.c: the cache with its snapshot ------------------------------------------------------ */

int agent_cache_open(struct agent *agent, struct err *err) ERR_REQUIRED(2);
/* Saves the snapshot and closes it. */
void agent_cache_close(struct agent *agent);
void agent_cache_apply_options(struct agent *agent);

/* ---- agent_metrics.c: what is counted of checks and components ------------------------------------- */

/* Sets what is known only when it is asked for; an api hook. */
void agent_metrics_update(void *agent);
/* Drops the series of checks and components that are configured no more. */
void agent_metrics_forget_gone(struct agent *agent);

/* ---- agent_stop.c: the way out --------------------------------------------------------------------- */

void agent_stop(struct agent *agent, const char *why);
/* Ends at once, but for the main process, and leaves everything registered to a successor. */
void agent_quit(struct agent *agent, const char *why);
/* A component settled, or the main process ended: perhaps the next phase can begin. */
void agent_stop_proceed(struct agent *agent);

/* ---- agent_hooks.c: what the API asks of the agent ------------------------------------------------- */

struct api_hooks agent_hooks(struct agent *agent);

/* ---- agent_handover.c: re-execution in place --------------------------------------------------------- */

/* `handover`: how this process came to be; what the configuration has no use for is closed. 0, or BERTH_FAILED. */
int agent_handover_init(struct agent *agent, struct handover *handover, struct err *err)
	ERR_REQUIRED(3);
void agent_handover_finish(struct agent *agent);
/* Makes sure that the program at our path starts, then executes it. What fails leaves this one as it is. */
void agent_reexecute(struct agent *agent);

/* ---- agent.c ------------------------------------------------------------------------------------------ */

/* Puts the options into force that may change at run time: log, limits, policies. */
void agent_apply_options(struct agent *agent);
/* Writes to the log and the history. */
void agent_transition(struct agent *agent, const char *subject, const char *from, const char *to,
	const char *why);

#endif
