#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/serving/api.h"
#include "agent/serving/cache.h"
#include "agent/serving/further.h"
#include "agent/registration/bridge.h"
#include "agent/registration/checks.h"
#include "agent/registration/components.h"
#include "agent/registration/drain.h"
#include "agent/registration/drain_early.h"
#include "agent/core/event.h"
#include "agent/life/addresses.h"
#include "agent/life/hooks.h"
#include "agent/core/state.h"
#include "agent/life/main_process.h"
#include "agent/life/meaning.h"
#include "agent/serving/metrics.h"
#include "agent/serving/names.h"
#include "agent/serving/outputs.h"
#include "agent/serving/xds.h"
#include "agent/registration/persistent.h"
#include "agent/registration/holder.h"
#include "agent/life/privileges.h"
#include "agent/registration/registry.h"
#include "agent/life/reload.h"
#include "agent/life/signals.h"
#include "agent/life/standby.h"
#include "agent/life/stop.h"
#include "agent/life/upgrade.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/loop_error.h"
#include "agent/base/notify.h"
#include "agent/command/command.h"
#include "agent/command/orphans.h"
#include "agent/command_line.h"
#include "agent/config/own_address.h"
#include "agent/config/trusted.h"
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/forget_code.h"
#include "lib/program/log_writer.h"
#include "lib/program/print_end.h"

enum {
	LARGE_BYTES = 64 * 1024,
	COMMANDS_END_WITHIN_MS = 2000, /* for killed commands: only a busy kernel takes longer */
	MANAGER_LOOK_MS = 200,         /* whether the service manager's socket has room again */
	SETTLED_MS = 5000,             /* from the beginning: the start is over */
	FILES_WITHIN_MS = 5000,        /* a disk that takes longer hangs, and is not waited for */
};

/* ---- the service manager ---- */

static void on_watchdog(void *context)
{
	struct agent *agent = context;
	notify_watchdog();
	timer_start(&agent->watchdog_timer, notify_watchdog_interval_ms());
}

static void send_again(void *context)
{
	struct agent *agent = context;
	if (!notify_again()) {
		timer_start(&agent->manager_timer, MANAGER_LOOK_MS);
	}
}

static void start_watchdog(struct agent *agent)
{
	int64_t interval_ms = notify_watchdog_interval_ms();
	timer_init(&agent->watchdog_timer, agent->loop, "watchdog", on_watchdog, agent);
	timer_init(&agent->manager_timer, agent->loop, "manager", send_again, agent);
	if (interval_ms > 0) {
		timer_start(&agent->watchdog_timer, interval_ms);
	}
}

static void on_settled(void *context)
{
	(void)context;
	forget_code();
}

/* ---- decisions ---- */

static void notify_status_of(struct agent *agent)
{
	struct err why = ERR_INIT;
	bool ready = agent_components_ready(agent, false, &why);
	notify_status("%s", ready ? "every component is registered" : why.msg);
	send_again(agent);
}

/*
 * Decides again for the agent as a whole. Every change wakes this function (agent_wake()), and each
 * step looks at the whole state, so that no event can be missed.
 */
static void agent_reconsider(struct agent *agent)
{
	if (agent->main_process == AGENT_MAIN_PROCESS_ENDED && agent->phase == AGENT_RUNNING) {
		agent_stop(agent, "the main process has ended");
	}
	agent_components_update_gates(agent);
	agent_components_go_on(agent);
	agent_bridge_proceed(agent);
	if (agent_components_free_withdrawn(agent)) {
		agent_metrics_forget_removed(agent);
		agent_registry_save_session(agent);
	}
	agent_drain_proceed_containers(agent);
	agent_drain_proceed(agent);
	agent_stop_proceed(agent);
	agent_drain_early_proceed(agent);
	notify_status_of(agent);
}

static void on_reconsider(struct ev_loop *loop, ev_async *watcher, int events)
{
	(void)loop;
	(void)events;
	agent_reconsider(watcher->data);
}

static void on_signal(struct agent *agent, int signal_number)
{
	char name[16];
	snprintf(name, sizeof(name), "SIG%s", command_signal_name(signal_number));
	switch (agent_meaning_of(agent, signal_number)) {
	case AGENT_MEANS_STOP:
		agent_stop(agent, name);
		break;
	case AGENT_MEANS_HAND_OVER:
		agent_quit(agent, name);
		break;
	case AGENT_MEANS_RELOAD:
		json_decref(agent_reload(agent));
		break;
	case AGENT_MEANS_UPGRADE:
		agent_upgrade_begin(agent);
		break;
	case AGENT_MEANS_PROGRAM:
		if (agent->supervise) {
			supervise_signal(agent->supervise, signal_number);
		}
	}
}

/* ---- life ---- */

static void on_state_change(void *context)
{
	struct agent *agent = context;
	json_t *state = state_dir_json(&agent->state);
	bool saved = json_is_true(json_object_get(state, "saved"));
	agent_event(agent,
		&(struct transition){ .subject = "state",
			.from = saved ? "unsaved" : "saved",
			.to = saved ? "saved" : "unsaved",
			.why = json_string_value(json_object_get(state, "why")),
			.trouble = !saved });
	json_decref(state);
	agent_wake(agent);
}

static int open_state(struct agent *agent, const struct upgrade *received, struct err *err)
{
	int code = state_dir_init(&agent->state, agent->config->agent.state_dir, received->lock_fd,
		agent->files, err);
	agent->state.on_change = on_state_change;
	agent->state.context = agent;
	if (code == BERTH_FAILED) {
		log_warn("agent", "nothing will survive a restart: %s", err->msg);
		err_clear(err);
		return 0;
	}
	return code;
}

static void open_services(struct agent *agent, const struct upgrade *received)
{
	agent->metrics = metrics_create();
	agent->scheduler = check_scheduler_create(
		agent->loop, agent->config->agent.max_parallel_checks);
	agent_history_load(agent, upgrade_get(received, "history"));
}

static void harden(const struct agent *agent)
{
	/*
	 * Orphans of our commands, and of the main process, become our children; libev reaps them.
	 */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) {
		log_warn("agent",
			"processes that a check leaves behind in a session of their own are not "
			"found: PR_SET_CHILD_SUBREAPER: %s",
			strerror(errno));
	}
	/*
	 * Asked through the NSS module, the agent would wait for its own answer, and so would its
	 * checks.
	 */
	setenv("BERTH_NSS", "off", 1);
	/* The registry's password must not end in a core file. */
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, agent->limits.core.rlim_max });
#ifndef __SANITIZE_ADDRESS__ /* whose leak check has to look into us */
	/* That limit does not hold where cores are piped to a program. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

/* Ends no processes of a main process, nor those of a script that executed us. */
static void claim_orphans(struct agent *agent, char **main_argv, const struct upgrade *received)
{
	agent->claims_orphans = received->document
		? json_is_true(upgrade_get(received, "claims_orphans"))
		: !main_argv && command_orphans_may_claim();
	command_orphans_claim_unmarked(agent->claims_orphans);
}

static int start(struct agent *agent, char **main_argv, struct upgrade *received, struct err *err)
{
	agent_stop_init(agent);
	agent_addresses_init(agent);
	agent_upgrade_init(agent, received);
	int code = agent_privileges_drop(agent, main_argv != NULL, received, err);
	if (code == 0) {
		harden(agent);
		claim_orphans(agent, main_argv, received);
		code = open_state(agent, received, err);
	}
	if (code == 0) {
		open_services(agent, received);
		/* Its way is the longest, so its worker starts before our other processes. */
		code = agent_registry_open(agent, upgrade_get(received, "session"), err);
	}
	log_start();
	if (code == 0) {
		agent_holder_open(agent, upgrade_text(received, "holder"));
		agent_drain_load(agent, upgrade_get(received, "drain"));
		agent_drain_early_init(agent);
		const json_t *changes = upgrade_get(received, "cached");
		agent_cache_open(agent, json_string_value(json_object_get(changes, "cache")));
		code = agent_further_open(agent, json_object_get(changes, "further"), err);
	}
	if (code == 0) {
		code = agent_names_open(agent, received, err);
	}
	if (code == 0) {
		struct api_hooks hooks = agent_hooks(agent);
		code = agent_api_open(agent, &hooks, received, err);
	}
	if (code == 0) {
		agent_persistent_load(agent);
		agent_checks_create(agent, upgrade_get(received, "checks"));
		agent_components_create(agent, upgrade_get(received, "components"));
		agent_drain_load_components(agent);
		code = agent_bridge_open(agent, received, err);
	}
	if (code == 0) {
		agent_api_adopt(agent, received);
		agent_outputs_open(agent);
		code = agent_xds_open(agent, received, err);
	}
	if (code == 0) {
		code = agent_main_process_start(agent, main_argv, received->main_pid, err);
	}
	return code;
}

static void finish(struct agent *agent)
{
	agent_addresses_finish(agent);
	agent_upgrade_finish(agent);
	agent_bridge_close(agent);
	agent_components_destroy(agent);
	agent_checks_destroy(agent);
	agent_outputs_close(agent);
	agent_xds_close(agent);
	agent_api_close(agent);
	agent_names_close(agent);
	agent_further_close(agent);
	agent_cache_close(agent);
	agent_history_save(agent);
	if (agent->leave_session) { /* which goes on without anybody until a successor comes */
		(void)file_queue_wait(agent->files, FILES_WITHIN_MS);
	}
	agent_registry_close(agent);
	supervise_destroy(agent->supervise);
	if (!command_wait_for_all(COMMANDS_END_WITHIN_MS)) {
		log_warn("agent", "a process that a check or an output started is left behind");
	}
	check_scheduler_destroy(agent->scheduler);
	drains_finish(&agent->container_drains);
	if (!agent->leave_session) {
		(void)file_queue_wait(agent->files, FILES_WITHIN_MS);
	}
	agent_bridge_forget(agent);
	state_dir_finish(&agent->state);
	file_queue_destroy(agent->files);
	history_destroy(agent->history); /* which hears what has become of the files */
	metrics_destroy(agent->metrics);
	json_decref(agent->reload_problems);
	json_decref(agent->saved_drains);
	agent_persistent_finish(agent);
	config_unref(agent->config);
	ev_clear_pending(agent->loop, &agent->reconsider);
}

static void serve(struct agent *agent)
{
	log_info("agent", "berthd " BERTH_VERSION " runs, pid %ld, registry %s", (long)getpid(),
		registry_url(agent->lookups));
	start_watchdog(agent);
	timer_init(&agent->settled_timer, agent->loop, "settled", on_settled, agent);
	timer_start(&agent->settled_timer, SETTLED_MS);
	agent_addresses_watch(agent);
	registry_loop_begin(&agent->registry_driver);
	agent_wake(agent);
	notify_ready();
	loop_error_retry();
	ev_run(agent->loop, 0);
}

static int run(const struct command_line *line, char **argv, struct config *config,
	struct upgrade *received)
{
	struct agent agent = {
		.loop = ev_default_loop(EVFLAG_AUTO),
		.argv = argv,
		.config_path = line->config_path,
		.config = config,
		.started = ev_time(),
		.started_ms = clock_monotonic_ms(),
		.state = { .lock_fd = -1 },
		.xds_fd = -1,
	};
	if (!agent.loop) {
		log_error("agent", "cannot make an event loop: %s", strerror(errno));
		config_unref(config);
		return 1;
	}
	/*
	 * The first of the line has notified s6; the number of its descriptor may mean another file
	 * now.
	 */
	agent.files = file_queue_create(agent.loop);
	notify_init(received->document ? -1 : line->ready_fd);
	ev_async_init(&agent.reconsider, on_reconsider);
	agent.reconsider.data = &agent;
	struct err err = ERR_INIT;
	if (!received->document && !agent_standby_wait(config, agent_is_asked_to_end)) {
		file_queue_destroy(agent.files);
		config_unref(config);
		return 0;
	}
	if (agent_signals_watch(&agent, line->argv != NULL, on_signal, &err) ||
		start(&agent, line->argv, received, &err)) {
		log_error("agent", "cannot start: %s", err.msg);
		agent.exit_status = agent.exit_status ? agent.exit_status : 1;
		/* Nothing was done in the session yet: the next agent may resume it. */
		agent.leave_session = true;
	} else {
		serve(&agent);
	}
	finish(&agent);
	log_info("agent", "ended");
	log_finish();
	return agent.exit_status;
}

/* Loads the configuration for a run; 0 or the exit status. */
static int load(struct config **ret_config, const char *path,
	void (*refuse)(const struct config_problems *))
{
	struct config_problems problems = { 0 };
	int code = config_load_trusted(ret_config, path, &problems);
	if (code) {
		refuse(&problems);
	} else {
		log_set((*ret_config)->agent.log_level, (*ret_config)->agent.log_json);
		config_problems_log_warnings(&problems);
	}
	config_problems_finish(&problems);
	return code ? 1 : 0;
}

/* As they are, but a manager waits for the end: so nobody waits for the reader of stderr. */
static void print_problems(const struct config_problems *problems)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = allocated(open_memstream(&text, &len));
	config_problems_print(problems, stream);
	fclose(stream);
	for (char *line = text, *end; line && (end = strchr(line, '\n')); line = end + 1) {
		log_writer_write(line, (size_t)(end + 1 - line));
	}
	free(text);
}

static void print_verdict(
	const struct command_line *line, const struct config *config, size_t warnings)
{
	printf("%s: %s: ", line->config_path, warnings && line->strict ? "bad" : "good");
	config_print_summary(config, stdout);
	if (warnings > 0) {
		printf("; %zu warning%s", warnings, warnings == 1 ? "" : "s");
	}
	putchar('\n');
}

/* -t and -T; the exit status. */
static int inspect(const struct command_line *line)
{
	struct config *config = NULL;
	struct config_problems problems = { 0 };
	bool good = config_load_trusted(&config, line->config_path, &problems) == 0;
	size_t warnings = problems.count - problems.error_count;
	config_problems_print(&problems, stderr);
	config_problems_finish(&problems);
	if (good && line->action == COMMAND_LINE_PRINT) {
		config_print(config, stdout);
	} else if (good) {
		print_verdict(line, config, warnings);
		good = warnings == 0 || !line->strict;
	}
	config_unref(config);
	return good ? 0 : 1;
}

/* The berth next to this program comes first, so that a build never runs an installed one. */
static int convert(const struct command_line *line)
{
	const char *arguments[] = { "berth", "convert", line->convert_from, line->convert_path,
		NULL };
	char program[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - sizeof("berth"));
	while (len > 0 && program[len - 1] != '/') {
		len--;
	}
	if (len > 0) {
		strcpy(program + len, "berth");
		execv(program, (char *const *)arguments);
	}
	execv(BERTH_BINDIR "/berth", (char *const *)arguments);
	fprintf(stderr, "berthd: cannot run " BERTH_BINDIR "/berth: %s\n", strerror(errno));
	return 1;
}

/*
 * The predecessor found the configuration good a moment ago: probably an editor is writing it at
 * this moment. There is no way back to the old program.
 */
static int load_patiently(struct config **ret_config, const char *path)
{
	enum { TRIES = 300, PAUSE_MS = 100 };
	int status = load(ret_config, path, config_problems_log);
	for (int i = 0; status && i < TRIES && !agent_is_asked_to_end(NULL); i++) {
		poll(NULL, 0, PAUSE_MS);
		status = load(ret_config, path, config_problems_log);
	}
	return status;
}

static void *allocate_for_json(size_t size)
{
	return allocated(malloc(size));
}

static void *allocate_for_buffer(void *memory, size_t size)
{
	return allocated(realloc(memory, size));
}

static void *allocate_for_loop(void *memory, long size)
{
	if (size == 0) {
		free(memory);
		return NULL;
	}
	return allocated(realloc(memory, (size_t)size));
}

/* Without memory the libraries end the agent as its own code does: an answer is whole or none. */
static void tune_memory(void)
{
	json_set_alloc_funcs(allocate_for_json, free);
	buffer_set_allocator(allocate_for_buffer);
	ev_set_allocator(allocate_for_loop);
	/* Large answers and snapshots get mappings of their own, which go back to the kernel. */
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
#endif
}

static int run_with(const struct command_line *line, char **argv)
{
	tune_memory();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error like a full disk */
	agent_signals_block(line->argv != NULL);
	struct upgrade received;
	upgrade_receive(&received);
	/* The way to the registry decides on our address, before there is a connection. */
	config_address_set_server(upgrade_text(&received, "server"));
	if (!received.document && line->ready_fd >= 0 && fcntl(line->ready_fd, F_GETFD) < 0) {
		fprintf(stderr, "berthd: --ready-fd %d is not open\n", line->ready_fd);
		return 2;
	}
	struct config *config = NULL;
	int status = received.document ? load_patiently(&config, line->config_path)
				       : load(&config, line->config_path, print_problems);
	if (status == 0) {
		status = run(line, argv, config, &received);
	}
	upgrade_finish(&received);
	return status;
}

/*
 * A caller may have closed them: a file of the agent's would get such a number, and log lines would
 * go into it.
 */
static void open_standard_files(void)
{
	int file = open("/dev/null", O_RDWR);
	while (file >= 0 && file <= STDERR_FILENO) {
		file = open("/dev/null", O_RDWR);
	}
	close(file);
}

int agent_main(int argc, char **argv)
{
	open_standard_files();
	struct command_line line = command_line_parse(argc, argv);
	if (line.action == COMMAND_LINE_EXIT) {
		return print_end(line.exit_status);
	}
	if (line.action == COMMAND_LINE_RUN) {
		return run_with(&line, argv);
	}
	return line.action == COMMAND_LINE_CONVERT ? convert(&line) : print_end(inspect(&line));
}
