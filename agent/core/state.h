/*
 * The agent's own state, shared by the files of the wiring. This header declares data only: the
 * functions of ROOM/X.c are in ROOM/X.h, and tests/lint/layers holds that none of them calls
 * upwards. No other folder includes it.
 *
 * Each file changes its own part of the state, reads the others', and wakes agent_reconsider()
 * after a change that may matter to another file (agent_wake(), event.h).
 *
 *   agent.c         start, finish, agent_reconsider()
 *   life/           hooks (requests of the API), signals and their meaning, reload, upgrade,
 *                   standby, stop, main_process, privileges
 *   serving/        cache, further, api, names, outputs, metrics
 *   registration/   registry, checks, components, persistent, bridge, drain, drain_early
 *   core/           this state; event: log, history, agent_wake(); upgrade: the document that a
 *                   successor gets
 */
#ifndef AGENT_CORE_STATE_H
#define AGENT_CORE_STATE_H

#include <ev.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>

#include "agent/api/api.h"
#include "agent/base/address_news.h"
#include "agent/base/drain.h"
#include "agent/base/drains.h"
#include "agent/base/file_queue.h"
#include "agent/base/history.h"
#include "agent/base/holder.h"
#include "agent/base/lasting_io.h"
#include "agent/base/metrics.h"
#include "agent/base/registry_loop.h"
#include "agent/base/state_dir.h"
#include "agent/base/timer.h"
#include "agent/bridge/bridge.h"
#include "agent/cache/cache.h"
#include "agent/check/set.h"
#include "agent/component/component.h"
#include "agent/config/config.h"
#include "agent/dns/dns.h"
#include "agent/http/http.h"
#include "agent/names/lookup.h"
#include "agent/set/set.h"
#include "agent/output/output.h"
#include "agent/shared/shared.h"
#include "agent/supervise/supervise.h"
#include "agent/xds/xds.h"
#include "lib/base/list.h"
#include "lib/program/log_rate.h"
#include "lib/registry/registry.h"

/*
 * RUNNING --a stop-----> DEREGISTERING --no record of ours is left--> LINGERING --drain_delay--+
 * RUNNING --the main process ended--> DEREGISTERING --no record of ours is left--> DONE        |
 * any --QUIT (the session is left to a successor)--> STOPPING_PROCESS --> DONE                 |
 *                                                         ^------------------------------------+
 * Before DONE comes TELLING, while an on_change has not taken the last state: for hook_timeout.
 * RUNNING --USR2--> exec() (life/upgrade.h)
 * life/meaning.h says which signals these are.
 */
enum agent_phase {
	AGENT_RUNNING,
	AGENT_DEREGISTERING,
	AGENT_LINGERING,
	AGENT_STOPPING_PROCESS,
	AGENT_TELLING,
	AGENT_SAVING,
	AGENT_DONE
};

/*
 * NONE --started--> RUNNING --ended--> DOWN --started again--> RUNNING; DOWN --over--> ENDED
 */
enum agent_main_process {
	AGENT_MAIN_PROCESS_NONE, /* none is configured, or it has not started yet */
	AGENT_MAIN_PROCESS_RUNNING,
	AGENT_MAIN_PROCESS_DOWN, /* ended; it may start again, or post_stop runs */
	AGENT_MAIN_PROCESS_ENDED
};

struct agent_further;
struct agent_net;
struct agent_output;
struct agent_upgrade;

enum { AGENT_LINE_RATES = 256 };

struct agent {
	struct ev_loop *loop;
	ev_async reconsider; /* never started: agent_wake() feeds it */
	char **argv;         /* the whole command line, for an upgrade */
	const char *config_path;
	struct config *config;
	json_t *reload_problems; /* why the last reload failed; NULL when it did not */
	double reloaded;         /* wall clock seconds of the last good reload; 0: none */
	double started;          /* wall clock seconds */
	int64_t started_ms;      /* the same moment, monotonic */

	struct address_news address_news; /* of this machine's addresses: life/addresses.h */
	struct timer address_timer;
	int64_t address_lost_ms; /* since when an address that we use is gone; 0: none is */
	char address_error[512]; /* why the last attempt to follow addresses failed; "" */
	/* The registry has connected to a server, whose route may decide on our address; or NULL */
	void (*on_registry_server)(struct agent *agent);

	struct file_queue *files; /* that children put in place */
	struct state_dir state;
	struct registry *registry; /* takes our records */
	struct registry_loop registry_driver;
	/* Read by look-ups: the same one, or with `url = host:` the host agent's view. */
	struct registry *lookups;
	struct registry_loop lookups_driver;
	enum registry_state registry_was; /* before the last change */
	double registry_since;
	/* the last one since the registry was connected; "" while it is */
	char registry_error[256];
	bool session_resumed;   /* a predecessor's */
	char session_saved[64]; /* the session that is saved, or on its way to the disk; "" */
	struct timer session_save_timer; /* active while records wait for it */
	struct list abandoned;           /* nodes, of registration/registry.c */
	struct holder holder;
	struct timer holder_save_timer; /* active while records wait for it */

	struct check_scheduler *scheduler;
	struct check_set *checks;
	json_t *persistent; /* path -> the persistent node that we wrote there last */
	bool persistent_is_being_saved;
	struct component **components;
	size_t component_count;
	struct component **retired; /* no longer configured, withdrawing their records */
	size_t retired_count;

	struct bridge_book *bridge_book;
	struct bridge *bridge; /* NULL: none */

	struct history *history;
	struct timer history_timer;              /* saves it; active while there is something new */
	struct log_rate lines[AGENT_LINE_RATES]; /* of the log, by subject */
	struct metrics *metrics;
	struct cache *cache;
	struct file_job *cache_save;    /* NULL: not under way */
	struct agent_net *net;          /* of serving/further.c: /net */
	struct agent_further **further; /* likewise: further registries */
	size_t further_count;
	struct agent_further **retired_further; /* during a reload */
	size_t retired_further_count;
	struct shared *shared; /* answers in memory that clients map */
	char *domain;          /* of names */
	struct names_lookups *names;
	struct sets *sets; /* who serves what */
	struct zones *zones;
	struct dns *dns;       /* NULL: nothing listens */
	struct xds *xds;       /* NULL: none is configured */
	int xds_fd;            /* its listening socket; -1 */
	char xds_address[256]; /* where that listens; "" */
	struct http_place xds_place;
	struct agent_output **outputs; /* of serving/outputs.c */
	size_t output_count;
	struct http *http;
	struct api *api;

	struct drain drain;
	struct drains container_drains;
	struct timer container_drain_timer; /* the drain_delay of one ends */
	json_t *saved_drains;               /* until the components exist */
	ev_periodic drain_end_timer;
	struct timer drain_retry_timer;
	struct timer drain_save_timer;  /* active while orders wait for the disk */
	struct timer drain_early_timer; /* active while a drain_delay may end early */
	double drained_at;              /* monotonic: when the registry confirmed it; 0 before */
	size_t drain_confirmations;     /* reads under way */
	bool drain_unconfirmed;         /* one of these reads found a node of ours */

	struct supervise *supervise; /* NULL without a main process */
	enum agent_main_process main_process;
	struct supervise_limits limits; /* those that this program was started with */

	enum agent_phase phase;
	bool leave_session;     /* to a successor: QUIT, an upgrade, a failed start */
	bool nothing_withdrawn; /* no record of ours was registered when the agent began to stop */
	struct timer phase_timer;
	struct timer watchdog_timer;
	struct timer manager_timer;
	struct timer settled_timer;
	struct lasting_io signals;
	void (*on_signal)(struct agent *agent, int signal_number);
	sigset_t warned_of; /* signals that may have been meant to stop the container */
	int exit_status;

	bool keep_socket;
	bool claims_orphans;           /* see command_orphans_claim_unmarked() */
	struct agent_upgrade *upgrade; /* of life/upgrade.c */
};

#endif
