#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent_internal.h"
#include "agent/check/orphans.h"
#include "agent/command_line.h"
#include "agent/base/log.h"
#include "agent/base/notify.h"

enum {
	SPARE_CONNECTIONS = 1024, /* beside streams and long polls */
	IDLE_TIMEOUT_MS = 60000,
	LARGE_BYTES = 64 * 1024,
};

/* A state in which something is wrong is a warning, whatever it is that changed into it. */
static enum log_level level_of(const char *to)
{
	static const char *const wrong[] = { "down", "warning", "out", "failed", "conflict", "held",
		"away", "lost", "denied", "refused" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (strcmp(to, wrong[i]) == 0) {
			return LOG_LEVEL_WARN;
		}
	}
	return LOG_LEVEL_INFO;
}

void agent_transition(
	struct agent *agent, const char *subject, const char *from, const char *to, const char *why)
{
	log_at(level_of(to), subject, "%s -> %s%s%s", from, to, *why ? ": " : "", why);
	history_add(agent->history, ev_now(agent->loop), subject, from, to, why);
}

static struct api_options api_options_of(const struct agent *agent)
{
	return (struct api_options){
		.version = BERTH_VERSION,
		.max_watchers = agent->config->agent.max_watchers,
		.heartbeat_interval_ms = agent->config->agent.heartbeat_interval_ms,
	};
}

void agent_apply_options(struct agent *agent)
{
	const struct config *config = agent->config;
	log_set(config->agent.log_level, config->agent.log_json);
	check_scheduler_set_max_parallel(agent->scheduler, config->agent.max_parallel_checks);
	struct api_options options = api_options_of(agent);
	api_set_options(agent->api, &options);
	agent_cache_apply_options(agent);
	if (agent->main_process) {
		supervise_set_policy(
			agent->main_process, config->agent.restart, config->agent.stop_timeout_ms);
	}
}

/* ---- the service manager ---------------------------------------------------------------------- */

static void on_watchdog(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)timer;
	(void)events;
	notify_watchdog();
}

static void start_watchdog(struct agent *agent)
{
	double interval_s = (double)notify_watchdog_interval_ms() / 1000.0;
	ev_timer_init(&agent->watchdog_timer, on_watchdog, interval_s, interval_s);
	if (interval_s > 0) {
		ev_timer_start(agent->loop, &agent->watchdog_timer);
	}
}

/* ---- the main process ------------------------------------------------------------------------------------ */

static void on_main_started(void *context, pid_t pid)
{
	struct agent *agent = context;
	char why[64];
	snprintf(why, sizeof(why), "pid %ld", (long)pid);
	agent->main_process_running = true;
	agent->main_process_started = true;
	agent_transition(agent, "main process", "stopped", "running", why);
	agent_components_update_gates(agent);
}

static void on_main_ended(void *context, int status, bool again)
{
	struct agent *agent = context;
	char why[64];
	snprintf(why, sizeof(why), "exit status %d", status);
	agent->main_process_running = false;
	agent_transition(agent, "main process", "running", again ? "restarting" : "stopped", why);
	if (again) {
		agent_components_update_gates(agent);
		return;
	}
	agent->exit_status = status;
	agent->skip_linger = true;
	if (agent->phase == AGENT_RUNNING) {
		agent_stop(agent, "the main process has ended");
	} else {
		agent_stop_proceed(agent);
	}
}

static int start_main_process(struct agent *agent, char **argv, pid_t running, struct err *err)
{
	if (!argv) {
		return 0;
	}
	const struct supervise_callbacks callbacks = {
		.on_started = on_main_started,
		.on_ended = on_main_ended,
		.context = agent,
	};
	agent->main_process = supervise_create(agent->loop, argv, &agent->limits, &callbacks);
	if (!agent->main_process) {
		return err_set(err, BERTH_FAILED, "no memory");
	}
	supervise_set_policy(agent->main_process, agent->config->agent.restart,
		agent->config->agent.stop_timeout_ms);
	if (running > 0) {
		supervise_adopt(agent->main_process, running);
		agent->main_process_running = true;
		agent->main_process_started = true;
		return 0;
	}
	return supervise_start(agent->main_process, &agent->exit_status, err);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static int open_state(struct agent *agent, const struct handover *handover, struct err *err)
{
	int code = state_dir_init(
		&agent->state, agent->config->agent.state_dir, handover->lock_fd, err);
	if (code == BERTH_FAILED) {
		log_warn("agent", "nothing will survive a restart: %s", err->msg);
		err_clear(err);
		return 0;
	}
	return code;
}

static int open_http(struct agent *agent, const struct handover *handover, struct err *err)
{
	const struct config_agent *config = &agent->config->agent;
	struct api_hooks hooks = agent_hooks(agent);
	struct api_options options = api_options_of(agent);
	agent->api = api_create(agent->loop, agent->cache, agent->registry, agent->history,
		agent->metrics, &hooks, &options);
	if (!agent->api) {
		return err_set(err, BERTH_FAILED, "no memory");
	}
	const struct http_options http = {
		.socket_path = config->socket,
		.socket_mode = config->socket_mode,
		.socket_group_id = config->socket_group_id,
		.socket_fd = handover->socket_fd,
		.listen = config->listen,
		.listen_fd = handover->listen_fd,
		.keep_socket = handover->keep_socket,
		.max_connections = config->max_watchers + SPARE_CONNECTIONS,
		.idle_timeout_ms = IDLE_TIMEOUT_MS,
		.on_request = api_on_request,
		.on_pinned_closed = api_on_pinned_closed,
		.context = agent->api,
	};
	int code = http_open(&agent->http, agent->loop, &http, err);
	if (code == 0) {
		api_set_http(agent->api, agent->http);
	}
	return code;
}

static int open_services(struct agent *agent, const struct handover *handover, struct err *err)
{
	agent->history = history_create();
	agent->metrics = metrics_create();
	agent->scheduler = check_scheduler_create(
		agent->loop, agent->config->agent.max_parallel_checks);
	if (!agent->history || !agent->metrics || !agent->scheduler) {
		return err_set(err, BERTH_FAILED, "no memory");
	}
	history_load(agent->history, handover_get(handover, "history"));
	return 0;
}

/* Connections of the process before us; what one that is gone has held is withdrawn. */
static void adopt_connections(struct agent *agent, const struct handover *handover)
{
	for (size_t i = 0; i < handover->connection_count; i++) {
		const struct http_kept *kept = &handover->connections[i];
		if (!http_adopt(agent->http, kept) && kept->pinned) {
			api_on_pinned_closed(agent->api, kept->id);
		}
	}
}

static void harden(const struct agent *agent)
{
	/* Orphans of our commands, and of the main process, become our children, and libev reaps them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	/* The registry's password must not end in a core file. */
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, agent->limits.core.rlim_max });
#ifndef __SANITIZE_ADDRESS__ /* whose leak check has to look into us */
	/* That limit does not hold where cores are piped to a program. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
	signal(SIGPIPE, SIG_IGN);
}

/* The processes of a main process, and those that a script left us when it executed us, are not ours to end. */
static void claim_orphans(struct agent *agent, char **main_argv, const struct handover *handover)
{
	agent->claims_orphans = handover->document
		? json_is_true(handover_get(handover, "claims_orphans"))
		: !main_argv && check_orphans_may_claim();
	check_orphans_claim_unmarked(agent->claims_orphans);
}

static int start(struct agent *agent, char **main_argv, struct handover *handover, struct err *err)
{
	int code = agent_handover_init(agent, handover, err);
	if (code == 0) {
		harden(agent);
		claim_orphans(agent, main_argv, handover);
		code = open_state(agent, handover, err);
	}
	if (code == 0) {
		code = open_services(agent, handover, err);
	}
	if (code == 0) {
		agent_drain_load(agent, handover_get(handover, "drain"));
		code = agent_registry_open(agent, handover_get(handover, "session"), err);
	}
	if (code == 0) {
		code = agent_cache_open(agent, err);
	}
	if (code == 0) {
		code = open_http(agent, handover, err);
	}
	if (code == 0) {
		code = agent_components_create(agent, handover_get(handover, "components"), err);
	}
	if (code == 0) {
		adopt_connections(agent, handover);
		code = start_main_process(agent, main_argv, handover->main_pid, err);
	}
	return code;
}

static void finish(struct agent *agent)
{
	agent_handover_finish(agent);
	agent_components_destroy(agent);
	agent_reload_finish(agent);
	http_close(agent->http);
	api_destroy(agent->api);
	agent_cache_close(agent);
	agent_registry_close(agent);
	supervise_destroy(agent->main_process);
	check_scheduler_destroy(agent->scheduler);
	history_destroy(agent->history);
	metrics_destroy(agent->metrics);
	state_dir_finish(&agent->state);
	json_decref(agent->reload_problems);
	config_free(agent->config);
}

static void serve(struct agent *agent)
{
	log_info("agent", "berthd " BERTH_VERSION " runs, pid %ld, registry %s", (long)getpid(),
		registry_url(agent->registry));
	start_watchdog(agent);
	agent_components_update_gates(agent);
	notify_ready();
	ev_run(agent->loop, 0);
}

static int run(const struct command_line *line, char **argv, struct config *config,
	struct handover *handover)
{
	struct agent agent = {
		.loop = ev_default_loop(EVFLAG_AUTO),
		.argv = argv,
		.config_path = line->config_path,
		.config = config,
		.started = ev_time(),
		.state = { .lock_fd = -1 },
	};
	if (!agent.loop) {
		log_error("agent", "cannot make an event loop: %s", strerror(errno));
		config_free(config);
		return 1;
	}
	/* s6 was told by the first process of the line, and its descriptor is something else by now. */
	notify_init(handover->document ? -1 : line->ready_fd);
	agent_signals_watch(&agent);
	struct err err = ERR_INIT;
	if (start(&agent, line->argv, handover, &err)) {
		log_error("agent", "cannot start: %s", err.msg);
		agent.exit_status = agent.exit_status ? agent.exit_status : 1;
		/* Nothing was done in the session yet: who starts next may go on with it. */
		agent.leave_session = true;
	} else {
		serve(&agent);
	}
	finish(&agent);
	log_info("agent", "ended");
	return agent.exit_status;
}

/* Loads the configuration for whatever is to be done with it; 0 or the exit status. */
static int load(struct config **ret_config, const char *path)
{
	struct config_problems problems = { 0 };
	int code = config_load(ret_config, path, &problems);
	config_problems_print(&problems, stderr);
	config_problems_finish(&problems);
	return code ? 1 : 0;
}

/* Our signals are blocked meanwhile. */
static bool is_told_to_end(void)
{
	sigset_t pending;
	sigpending(&pending);
	return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1 ||
		sigismember(&pending, SIGQUIT) == 1;
}

/* What was good a moment ago is being written just now: there is no way back to the old program any more. */
static int load_patiently(struct config **ret_config, const char *path)
{
	enum { TRIES = 300, PAUSE_MS = 100 };
	int status = load(ret_config, path);
	for (int i = 0; status && i < TRIES && !is_told_to_end(); i++) {
		poll(NULL, 0, PAUSE_MS);
		status = load(ret_config, path);
	}
	return status;
}

/* What large answers and snapshots took goes back to the kernel with them, and does not stay in a heap full of holes. */
static void tune_memory(void)
{
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
#endif
}

static int run_with(const struct command_line *line, char **argv)
{
	tune_memory();
	agent_signals_block();
	struct handover handover;
	handover_receive(&handover);
	if (!handover.document && line->ready_fd >= 0 && fcntl(line->ready_fd, F_GETFD) < 0) {
		fprintf(stderr, "berthd: --ready-fd %d is not open\n", line->ready_fd);
		return 2;
	}
	struct config *config = NULL;
	int status = handover.document ? load_patiently(&config, line->config_path)
				       : load(&config, line->config_path);
	if (status == 0) {
		log_set(config->agent.log_level, config->agent.log_json);
		status = run(line, argv, config, &handover);
	}
	handover_finish(&handover);
	return status;
}

int agent_main(int argc, char **argv)
{
	struct command_line line = command_line_parse(argc, argv);
	if (line.action == COMMAND_LINE_EXIT) {
		return line.exit_status;
	}
	if (line.action == COMMAND_LINE_RUN) {
		return run_with(&line, argv);
	}
	struct config *config = NULL;
	int status = load(&config, line.config_path);
	if (status == 0 && line.action == COMMAND_LINE_TEST) {
		printf("%s: good\n", line.config_path);
	} else if (status == 0) {
		config_print(config, stdout);
	}
	config_free(config);
	return status;
}
