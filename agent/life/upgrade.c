#include "agent/life/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/serving/api.h"
#include "agent/serving/cache.h"
#include "agent/serving/further.h"
#include "agent/registration/bridge.h"
#include "agent/registration/checks.h"
#include "agent/registration/components.h"
#include "agent/registration/drain.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/serving/names.h"
#include "agent/serving/outputs.h"
#include "agent/serving/xds.h"
#include "agent/life/privileges.h"
#include "agent/registration/registry.h"
#include "agent/life/signals.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/notify.h"
#include "agent/config/trusted.h"
#include "agent/http/socket.h"
#include "lib/base/clock.h"
#include "lib/base/linux_calls.h"
#include "lib/base/text.h"

/* How long the new program may take to read the configuration and say that it is good. */
enum { TEST_PATIENCE_MS = 10000 };
/* How long the caches may take to be saved, which is so often worth it while they change. */
enum { SAVE_PATIENCE_MS = 20000, SAVES_MAX = 3 };
/* How long requests under way may take; streams and long polls are not waited for. */
enum { REQUESTS_PATIENCE_MS = 2000 };
/* How long the disk may take for files behind that; it hangs if it takes longer. */
enum { FILES_PATIENCE_MS = 8000 };
enum { PATH_BYTES = 4096 };
/* So much of what the new program says about the configuration gets into the log. */
enum { TEST_ERRORS_BYTES = 16384 };

extern char **environ;

struct agent_upgrade {
	enum { IDLE, TESTING, SAVING, SETTLING, BLOCKED } step;
	char binary[PATH_BYTES]; /* this program's path when it was started */
	ev_child test;           /* the new program, reading the configuration */
	int errors;              /* what it writes to stderr; -1: none */
	struct timer patience;
	ev_prepare settle;
	ev_idle turn;       /* keeps the loop from sleeping while signals are blocked */
	bool impatient;     /* requests have taken too long, and are cut off */
	bool same_registry; /* after it */
	int saves;          /* of the caches that it has begun */
};

static void become_idle(struct agent *agent)
{
	struct agent_upgrade *upgrade = agent->upgrade;
	ev_child_stop(agent->loop, &upgrade->test);
	timer_stop(&upgrade->patience);
	ev_prepare_stop(agent->loop, &upgrade->settle);
	ev_idle_stop(agent->loop, &upgrade->turn);
	agent_signals_unblock();
	if (upgrade->errors >= 0) {
		close(upgrade->errors);
		upgrade->errors = -1;
	}
	upgrade->step = IDLE;
}

static void give_up(struct agent *agent, const char *why)
{
	become_idle(agent);
	agent_event(agent,
		&(struct transition){ .subject = "agent",
			.from = "upgrading",
			.to = "running",
			.why = why,
			.trouble = true });
	notify_ready();
}

/* ---- the document for the successor ---- */

/* Two configurations with the same text have the same socket. */
static void describe_socket(const struct config_agent *config, char *text, size_t size)
{
	snprintf(text, size, "%s %04o %u", config->socket, config->socket_mode,
		config->socket_group_id);
}

/* Loads the configuration as the successor will; false when it has become bad since the test. */
static bool look_ahead(const struct agent *agent, bool *ret_same_registry)
{
	struct config *next = NULL;
	struct config_problems problems = { 0 };
	bool good = config_load_trusted(&next, agent->config_path, &problems) == 0;
	if (good) {
		*ret_same_registry = strcmp(next->registry.url, agent->config->registry.url) == 0;
	}
	config_problems_finish(&problems);
	config_unref(next);
	return good;
}

/* The document for the successor. The registry is closed afterwards: only exec() is left. */
static json_t *make_document(struct agent *agent)
{
	char socket[PATH_BYTES];
	describe_socket(&agent->config->agent, socket, sizeof(socket));
	json_t *checks = agent_checks_save(agent);
	json_t *components = agent_components_save(agent);
	json_t *paths = agent_registry_paths(agent);
	json_t *drains = agent_drain_save(agent);
	char *changes = cache_changes(agent->cache);
	json_t *cached = json_pack(
		"{s:s, s:o}", "cache", changes, "further", agent_further_changes(agent));
	free(changes);
	agent->leave_session = agent->upgrade->same_registry;
	/*
	 * Ends checks under way; the records stay. The bridge is left as it is: the connections of
	 * its containers go along.
	 */
	agent_components_destroy(agent);
	agent_checks_destroy(agent);
	agent_outputs_close(agent);
	agent_names_close(agent);
	agent_further_leave(agent);
	shared_destroy(agent->shared);
	char server[80];
	text_printf(server, sizeof(server), "%s", registry_server(agent->registry));
	json_t *session = NULL;
	if (agent->leave_session) {
		session = agent_registry_leave(agent, paths, registry_leave);
	} else {
		json_decref(paths);
		agent_registry_close(agent);
	}
	return json_pack(
		"{s:o, s:o, s:o, s:o*, s:o, s:o, s:s, s:f, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
		"s:I, s:I, s:b}",
		"cached", cached, "checks", checks, "components", components, "session", session,
		"history", history_json(agent->history, true), "drain", drains, "holder",
		agent->holder.secret, "started", agent->started, "started_ms",
		(json_int_t)agent->started_ms, "binary", agent->upgrade->binary, "state_dir",
		agent->config->agent.state_dir, "socket", socket, "socket_path",
		agent->config->agent.socket, "listen", agent->config->agent.listen, "xds",
		agent->config->xds.listen, "server", server, "core_limit",
		(json_int_t)agent->limits.core.rlim_cur, "files_limit",
		(json_int_t)agent->limits.files.rlim_cur, "claims_orphans", agent->claims_orphans);
}

static _Noreturn void execute(struct agent *agent)
{
	log_info("agent", "executing %s", agent->upgrade->binary);
	size_t max = http_connections(agent->http);
	struct http_kept *kept = allocate_zeroed(max, sizeof(*kept));
	struct upgrade passed = {
		.socket_fd = http_socket_fd(agent->http),
		.socket_place = http_socket_place(agent->http),
		.listen_fd = http_listen_fd(agent->http),
		.lock_fd = agent->state.lock_fd,
		.keep_socket = agent->keep_socket,
		.main_pid = agent->supervise ? supervise_pid(agent->supervise) : 0,
		.connections = kept,
		.connection_count = http_keep(agent->http, kept, max),
	};
	agent_api_pass(agent, &passed);
	agent_names_pass(agent, &passed);
	agent_xds_pass(agent, &passed);
	agent_bridge_pass(agent, &passed);
	passed.document = make_document(agent);
	struct err err = ERR_INIT;
	/* The successor reads what is in place, and no child of ours may replace it any more. */
	(void)file_queue_wait(agent->files, REQUESTS_PATIENCE_MS);
	file_queue_destroy(agent->files);
	agent_privileges_pass();
	if (passed.document) {
		upgrade_exec(&passed, agent->upgrade->binary, agent->argv, &err);
		log_error("upgrade", "%s: executing the old program again", err.msg);
		err_clear(&err);
		/* The kernel still has it, even if its file is gone. */
		upgrade_exec(&passed, "/proc/self/exe", agent->argv, &err);
	}
	log_error("upgrade", "cannot go on: %s", err.msg);
	_exit(1);
}

/* ---- settling: requests under way are answered, files are in place ---- */

static bool any_cache(const struct agent *agent, bool (*is)(const struct cache *cache))
{
	return is(agent->cache) || agent_further_any(agent, is);
}

/* Saves the caches, and again while much changes meanwhile; true at the end. */
static bool caches_saved(struct agent *agent)
{
	struct agent_upgrade *upgrade = agent->upgrade;
	if (any_cache(agent, cache_is_loading) || agent->cache_save ||
		agent_further_is_saving(agent)) {
		return false;
	}
	if (upgrade->saves == SAVES_MAX ||
		(upgrade->saves > 0 && !any_cache(agent, cache_is_outgrown))) {
		return true;
	}
	upgrade->saves++;
	agent_cache_save(agent);
	agent_further_save(agent);
	return false;
}

static bool settled(const struct agent *agent)
{
	return file_queue_is_idle(agent->files) &&
		(agent->upgrade->impatient ||
			http_requests(agent->http) <= api_watchers(agent->api));
}

static void on_turn(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)loop;
	(void)idle;
	(void)events;
}

static void block(struct agent *agent)
{
	agent_signals_block(agent->supervise != NULL);
	ev_idle_start(agent->loop, &agent->upgrade->turn);
	agent->upgrade->step = BLOCKED;
}

static void unblock(struct agent *agent)
{
	agent_signals_unblock();
	ev_idle_stop(agent->loop, &agent->upgrade->turn);
	agent->upgrade->step = SETTLING;
}

static void finish_requests(struct agent *agent)
{
	if (!look_ahead(agent, &agent->upgrade->same_registry)) {
		give_up(agent, "the configuration has become bad: the old program stays");
		return;
	}
	api_end_polls(agent->api);
	http_flush(agent->http);
	/* Flushing reads too: a new request may wait for the registry, or stop the agent. */
	if (settled(agent) && agent->phase == AGENT_RUNNING) {
		execute(agent);
	}
}

static void settle(struct agent *agent)
{
	agent->upgrade->step = SETTLING;
	agent->upgrade->impatient = false;
	timer_start(&agent->upgrade->patience, REQUESTS_PATIENCE_MS);
	agent_wake(agent); /* so that the loop comes back here */
}

static void on_settle(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	(void)loop;
	(void)events;
	struct agent *agent = prepare->data;
	if (agent->phase != AGENT_RUNNING) {
		become_idle(agent);
	} else if (agent->upgrade->step == SAVING && caches_saved(agent)) {
		settle(agent);
	} else if (agent->upgrade->step == SETTLING && settled(agent)) {
		block(agent);
	} else if (agent->upgrade->step == BLOCKED && settled(agent)) {
		finish_requests(agent);
	} else if (agent->upgrade->step == BLOCKED) {
		unblock(agent);
	}
}

static void save(struct agent *agent)
{
	struct agent_upgrade *upgrade = agent->upgrade;
	upgrade->step = SAVING;
	upgrade->saves = 0;
	timer_start(&upgrade->patience, SAVE_PATIENCE_MS);
	ev_prepare_start(agent->loop, &upgrade->settle);
}

/* ---- the test of the new program ---- */

/* It must not wait for the reader of our stderr: its lines go into our log. */
static void log_errors(struct agent_upgrade *upgrade)
{
	char text[TEST_ERRORS_BYTES];
	ssize_t len = upgrade->errors < 0 ? 0 : read(upgrade->errors, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
		if (*line) {
			log_warn("upgrade", "%s", line);
		}
	}
}

static void on_test_ended(struct ev_loop *loop, ev_child *child, int events)
{
	(void)events;
	struct agent *agent = child->data;
	ev_child_stop(loop, child);
	if (agent->phase != AGENT_RUNNING) {
		become_idle(agent);
	} else if (WIFEXITED(child->rstatus) && WEXITSTATUS(child->rstatus) == 0) {
		save(agent);
	} else {
		log_errors(agent->upgrade);
		give_up(agent,
			"the new program does not start, or refuses the "
			"configuration: the old one stays");
	}
}

static void on_patience(void *context)
{
	struct agent *agent = context;
	if (agent->upgrade->step == TESTING) {
		kill(agent->upgrade->test.pid, SIGKILL);
	} else if (agent->upgrade->step == SAVING || agent->upgrade->impatient) {
		give_up(agent, "the disk does not take our files: the old program stays");
	} else {
		if (http_requests(agent->http) > api_watchers(agent->api)) {
			log_warn("upgrade", "requests under way take too long, and are cut off");
		}
		agent->upgrade->impatient = true;
		timer_start(&agent->upgrade->patience, FILES_PATIENCE_MS);
	}
}

/* Lets the new program read the configuration, which also proves that it can be loaded and run. */
static int start_test(struct agent *agent, pid_t *ret_pid)
{
	int errors[2] = { -1, -1 };
	(void)!pipe2(errors, O_CLOEXEC | O_NONBLOCK); /* what does not fit is not written */
	posix_spawnattr_t attributes;
	posix_spawn_file_actions_t actions;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(
		&actions, errors[1] < 0 ? STDOUT_FILENO : errors[1], STDERR_FILENO);
	char *argv[] = { agent->argv[0], "-t", "-c", (char *)agent->config_path, NULL };
	int error = posix_spawn(
		ret_pid, agent->upgrade->binary, &actions, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	agent->upgrade->errors = errors[0];
	if (errors[1] >= 0) {
		close(errors[1]);
	}
	return error;
}

void agent_upgrade_begin(struct agent *agent)
{
	struct agent_upgrade *upgrade = agent->upgrade;
	if (agent->phase != AGENT_RUNNING || upgrade->step != IDLE) {
		return;
	}
	notify_reloading();
	pid_t pid;
	int error = start_test(agent, &pid);
	if (error) {
		log_error("upgrade", "%s: %s", upgrade->binary, linux_spawn_error(error));
		give_up(agent, "the new program cannot be run: the old one stays");
		return;
	}
	upgrade->step = TESTING;
	ev_child_set(&upgrade->test, pid, 0);
	ev_child_start(agent->loop, &upgrade->test);
	timer_start(&agent->upgrade->patience, TEST_PATIENCE_MS);
}

/* ---- life ---- */

/* Keeps a descriptor only if its use has not changed since the predecessor opened it. */
static void keep_if_same(int *fd, const char *before, const char *now)
{
	if (*fd >= 0 && strcmp(before, now) != 0) {
		close(*fd);
		*fd = -1;
	}
}

/* A listener whose section has gone or moved is closed. */
static void keep_same_listeners(struct upgrade *received, const struct config *config)
{
	for (size_t i = 0; i < received->listen_count; i++) {
		struct http_listen *listen = &received->listens[i];
		bool same = false;
		for (size_t j = 0; j < config->listen_count && !same; j++) {
			same = strcmp(config->listens[j].name, listen->name) == 0 &&
				strcmp(config->listens[j].address, listen->address) == 0;
		}
		if (!same) {
			close(listen->fd);
			listen->fd = -1;
		}
	}
}

static void compare_configurations(struct upgrade *received, const struct config *whole)
{
	const struct config_agent *config = &whole->agent;
	char socket[PATH_BYTES];
	describe_socket(config, socket, sizeof(socket));
	const char *path = upgrade_text(received, "socket_path");
	keep_if_same(&received->lock_fd, upgrade_text(received, "state_dir"), config->state_dir);
	keep_if_same(&received->listen_fd, upgrade_text(received, "listen"), config->listen);
	keep_same_listeners(received, whole);
	keep_if_same(&received->xds_fd, upgrade_text(received, "xds"), whole->xds.listen);
	if (!received->keep_socket) {
		keep_if_same(&received->socket_fd, upgrade_text(received, "socket"), socket);
		if (received->socket_fd < 0 && *path) {
			http_socket_unlink(path, &received->socket_place);
		}
	}
}

static void take_limits(struct agent *agent, const struct upgrade *received)
{
	getrlimit(RLIMIT_CORE, &agent->limits.core);
	getrlimit(RLIMIT_NOFILE, &agent->limits.files);
	if (received->document) {
		agent->limits.core.rlim_cur = (rlim_t)json_integer_value(
			upgrade_get(received, "core_limit"));
		agent->limits.files.rlim_cur = (rlim_t)json_integer_value(
			upgrade_get(received, "files_limit"));
	}
}

/*
 * The path at the first start: later the kernel may call this file deleted. "" when nobody knows
 * it.
 */
static void find_binary(struct agent_upgrade *upgrade, const struct upgrade *received)
{
	const char *before = upgrade_text(received, "binary");
	if (*before && strlen(before) < sizeof(upgrade->binary)) {
		strcpy(upgrade->binary, before);
		return;
	}
	ssize_t len = readlink("/proc/self/exe", upgrade->binary, sizeof(upgrade->binary) - 1);
	if (len >= 0) {
		upgrade->binary[len] = '\0';
		return;
	}
	/* Without /proc the kernel still knows by which name it was executed. */
	const char *name = (const char *)getauxval(AT_EXECFN);
	if (!name || !realpath(name, upgrade->binary)) {
		upgrade->binary[0] = '\0';
	}
}

/* Programs before this one handed on the wall clock's time alone. */
static int64_t started_ms(const struct agent *agent, const struct upgrade *received)
{
	const json_t *passed = upgrade_get(received, "started_ms");
	double ago_s = clock_wall_s() - agent->started;
	return passed ? (int64_t)json_integer_value(passed)
		      : clock_monotonic_ms() - (int64_t)(ago_s > 0 ? ago_s * 1000.0 : 0);
}

void agent_upgrade_init(struct agent *agent, struct upgrade *received)
{
	struct agent_upgrade *upgrade = allocate_zeroed(1, sizeof(*upgrade));
	agent->upgrade = upgrade;
	upgrade->errors = -1;
	ev_init(&upgrade->test, on_test_ended);
	timer_init(&upgrade->patience, agent->loop, "upgrade", on_patience, agent);
	ev_prepare_init(&upgrade->settle, on_settle);
	ev_idle_init(&upgrade->turn, on_turn);
	upgrade->test.data = agent;
	upgrade->settle.data = agent;
	take_limits(agent, received);
	if (received->document) {
		compare_configurations(received, agent->config);
		agent->started = json_number_value(upgrade_get(received, "started"));
		agent->started_ms = started_ms(agent, received);
	}
	agent->keep_socket = received->keep_socket;
	find_binary(upgrade, received);
}

void agent_upgrade_finish(struct agent *agent)
{
	struct agent_upgrade *upgrade = agent->upgrade;
	if (!upgrade) {
		return;
	}
	if (upgrade->step == TESTING) {
		kill(upgrade->test.pid, SIGKILL);
	}
	become_idle(agent);
	free(upgrade);
	agent->upgrade = NULL;
}
