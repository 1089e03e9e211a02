#include "agent/supervise/supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/random.h"
#include "agent/base/timer.h"
#include "agent/command/command.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"

enum {
	BACKOFF_FIRST_MS = 500,
	BACKOFF_MAX_MS = 30000,
	GOOD_RUN_MS = 60000, /* a run of this length resets the count of failed runs */
	HOOK_OUTPUT_BYTES = 4096,
	CANNOT_RUN = 126, /* the exit status of a shell */
	NOT_FOUND = 127,
};

enum state { PREPARING, RUNNING, CLEANING, WAITING, OVER };

/* The agent's wish for the process: it only grows, from the first to the last. */
enum wish { TO_RUN, NO_RESTART, TO_STOP };

struct supervise {
	struct ev_loop *loop;
	char **argv;
	struct command_launch *launch;      /* for the main process */
	struct command_launch *hook_launch; /* of pre_start and post_stop */
	struct supervise_callbacks callbacks;
	const struct config_agent *config;
	enum state state;
	enum wish wish;
	pid_t pid;    /* 0 unless it runs */
	int status;   /* the last exit status, as a shell would report it */
	bool again;   /* it is to be started again when post_stop has ended */
	int restarts; /* in a row, without a good run between them */
	int64_t backoff_ms;
	double started_at;
	ev_child child;
	struct timer timer;   /* KILL while stopping, the next start while waiting */
	struct command *hook; /* pre_start or post_stop under way */
};

/* ---- the end ---- */

static void report_over(struct supervise *supervise)
{
	supervise->state = OVER;
	supervise->callbacks.on_over(supervise->callbacks.context, supervise->status);
}

static void restart_or_end(struct supervise *supervise)
{
	if (!supervise->again || supervise->wish != TO_RUN) {
		report_over(supervise);
		return;
	}
	supervise->state = WAITING;
	timer_start(&supervise->timer, random_jitter_ms(supervise->backoff_ms));
	supervise->backoff_ms = supervise->backoff_ms * 2 > BACKOFF_MAX_MS
		? BACKOFF_MAX_MS
		: supervise->backoff_ms * 2;
}

/* The last line that a hook printed says most about how it ended. */
static void log_hook(const char *name, const struct command_outcome *outcome)
{
	char ended[COMMAND_STATUS_BYTES] = "timed out";
	if (outcome->end != COMMAND_TIMED_OUT) {
		command_status_text(ended, outcome->end, outcome->status);
	}
	size_t len = outcome->output_len;
	while (len > 0 && strchr(" \t\r\n", outcome->output[len - 1])) {
		len--;
	}
	const char *newline = len ? memrchr(outcome->output, '\n', len) : NULL;
	const char *line = newline ? newline + 1 : outcome->output;
	int line_len = (int)(outcome->output + len - line);
	bool good = outcome->end == COMMAND_EXITED && outcome->status == 0;
	log_at(good ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, name, "%s%s%.*s", ended,
		line_len > 0 ? ": " : "", line_len, line);
}

static void on_cleaned(void *context, const struct command_outcome *outcome)
{
	(void)context;
	log_hook("post_stop", outcome);
}

static void on_cleaner_gone(void *context)
{
	struct supervise *supervise = context;
	supervise->hook = NULL;
	restart_or_end(supervise);
}

static struct command *start_hook(struct supervise *supervise, char *const *argv, const char *name,
	const struct command_callbacks *callbacks)
{
	const struct command_options options = {
		.argv = argv,
		.launch = supervise->hook_launch,
		.output_max = HOOK_OUTPUT_BYTES,
		.timeout_ms = supervise->config->hook_timeout_ms,
	};
	struct err err = ERR_INIT;
	supervise->hook = command_start(supervise->loop, &options, callbacks, &err);
	if (!supervise->hook) {
		log_warn(name, "%s", err.msg);
	}
	return supervise->hook;
}

static void clean(struct supervise *supervise)
{
	const struct command_callbacks callbacks = { NULL, on_cleaned, on_cleaner_gone, supervise };
	char *const *argv = supervise->config->post_stop_argv;
	supervise->state = CLEANING;
	if (!argv || !start_hook(supervise, argv, "post_stop", &callbacks)) {
		restart_or_end(supervise);
	}
}

static bool wants_restart(struct supervise *supervise)
{
	const struct config_agent *config = supervise->config;
	bool wanted = config->restart == RESTART_ALWAYS ||
		(config->restart == RESTART_ON_FAILURE && supervise->status != 0);
	if (supervise->wish != TO_RUN || !wanted) {
		return false;
	}
	if (config->restart_limit > 0 && supervise->restarts >= config->restart_limit) {
		log_error("main process", "it ended %d times in a row: not started again",
			supervise->restarts + 1);
		return false;
	}
	supervise->restarts++;
	return true;
}

/* It exited, or never ran. */
static void ended(struct supervise *supervise, const char *why)
{
	bool failed = supervise->status != 0 && supervise->wish != TO_STOP;
	supervise->again = wants_restart(supervise);
	supervise->callbacks.on_exited(supervise->callbacks.context, why, failed, supervise->again);
	clean(supervise);
}

static void on_exit_of_child(struct ev_loop *loop, ev_child *child, int events)
{
	(void)events;
	struct supervise *supervise = child->data;
	bool killed = WIFSIGNALED(child->rstatus);
	int number = killed ? WTERMSIG(child->rstatus) : WEXITSTATUS(child->rstatus);
	char why[COMMAND_STATUS_BYTES];
	ev_child_stop(loop, child);
	timer_stop(&supervise->timer);
	/* The rest of its group must not outlive the main process and hold its ports. */
	kill(-supervise->pid, SIGTERM);
	supervise->pid = 0;
	supervise->status = killed ? 128 + number : number;
	if ((clock_monotonic_s() - supervise->started_at) * 1000.0 > GOOD_RUN_MS) {
		supervise->backoff_ms = BACKOFF_FIRST_MS;
		supervise->restarts = 0;
	}
	command_status_text(why, killed ? COMMAND_KILLED : COMMAND_EXITED, number);
	ended(supervise, why);
}

/* ---- the start ---- */

static void watch_child(struct supervise *supervise, pid_t pid)
{
	supervise->state = RUNNING;
	supervise->pid = pid;
	supervise->started_at = clock_monotonic_s();
	ev_child_set(&supervise->child, pid, 0);
	ev_child_start(supervise->loop, &supervise->child);
}

static int spawn(struct supervise *supervise, struct err *err)
{
	const struct command_spawn spawn = {
		.argv = supervise->argv,
		.launch = supervise->launch,
		.placement = COMMAND_FOREGROUND,
		.files = { -1, -1, -1 },
		.keep_files = true,
		/* The end of a container's first process is the end of all the others anyway. */
		.death_signal = getpid() == 1 ? 0 : supervise->config->stop_signal,
	};
	pid_t pid = command_spawn(&spawn, err);
	if (pid < 0) {
		supervise->status = pid == -ENOENT ? NOT_FOUND : CANNOT_RUN;
		return err->code;
	}
	watch_child(supervise, pid);
	supervise->callbacks.on_started(supervise->callbacks.context, pid);
	return 0;
}

static void on_prepared(void *context, const struct command_outcome *outcome)
{
	struct supervise *supervise = context;
	log_hook("pre_start", outcome);
	supervise->status = outcome->end == COMMAND_EXITED ? outcome->status
		: outcome->end == COMMAND_KILLED           ? 128 + outcome->status
							   : CANNOT_RUN;
}

static void on_preparer_gone(void *context)
{
	struct supervise *supervise = context;
	struct err err = ERR_INIT;
	supervise->hook = NULL;
	if (supervise->status != 0) {
		ended(supervise, "pre_start failed");
	} else if (spawn(supervise, &err)) {
		ended(supervise, err.msg);
	}
}

int supervise_start(struct supervise *supervise, int *ret_status, struct err *err)
{
	const struct command_callbacks callbacks = { NULL, on_prepared, on_preparer_gone,
		supervise };
	char *const *argv = supervise->config->pre_start_argv;
	supervise->state = PREPARING;
	supervise->status = 0;
	if (!argv) {
		int code = spawn(supervise, err);
		*ret_status = code ? supervise->status : *ret_status;
		return code;
	}
	if (!start_hook(supervise, argv, "pre_start", &callbacks)) {
		*ret_status = CANNOT_RUN;
		return err_set(err, BERTH_FAILED, "pre_start cannot be run");
	}
	return 0;
}

void supervise_adopt(struct supervise *supervise, pid_t pid)
{
	watch_child(supervise, pid);
}

static void on_timer(void *context)
{
	struct supervise *supervise = context;
	if (supervise->state == RUNNING) {
		log_warn("main process", "still runs %.9g s after its stop signal: sending KILL",
			(double)supervise->config->stop_timeout_ms / 1000);
		supervise_signal(supervise, SIGKILL);
		return;
	}
	struct err err = ERR_INIT;
	if (supervise_start(supervise, &supervise->status, &err)) {
		ended(supervise, err.msg);
	}
}

/* ---- life ---- */

struct supervise *supervise_create(struct ev_loop *loop, char **argv,
	const struct supervise_limits *limits, const struct supervise_callbacks *callbacks)
{
	const struct command_limit own[] = {
		{ RLIMIT_CORE, limits->core },
		{ RLIMIT_NOFILE, limits->files },
	};
	/* The agent's own is "off": it and its checks do not ask the agent for names. */
	static const struct command_variable names = { "BERTH_NSS", "" };
	const struct command_launch_options options = {
		.variables = &names,
		.variable_count = 1,
		.user = "",
		.cwd = "",
		.limits = own,
		.limit_count = ARRAY_LEN(own),
	};
	struct supervise *supervise = allocate_zeroed(1, sizeof(*supervise));
	supervise->loop = loop;
	supervise->argv = argv;
	supervise->launch = command_launch_create(&options);
	supervise->hook_launch = command_launch_create(&options);
	supervise->callbacks = *callbacks;
	supervise->backoff_ms = BACKOFF_FIRST_MS;
	ev_init(&supervise->child, on_exit_of_child);
	supervise->child.data = supervise;
	timer_init(&supervise->timer, loop, "main process", on_timer, supervise);
	return supervise;
}

void supervise_destroy(struct supervise *supervise)
{
	if (!supervise) {
		return;
	}
	if (supervise->hook) {
		command_abandon(supervise->hook);
	}
	ev_child_stop(supervise->loop, &supervise->child);
	timer_stop(&supervise->timer);
	command_launch_destroy(supervise->launch);
	command_launch_destroy(supervise->hook_launch);
	free(supervise);
}

void supervise_set_policy(struct supervise *supervise, const struct config_agent *config)
{
	supervise->config = config;
}

void supervise_forbid_restart(struct supervise *supervise)
{
	if (supervise->wish == TO_RUN) {
		supervise->wish = NO_RESTART;
	}
	if (supervise->state == WAITING) {
		timer_stop(&supervise->timer);
		supervise->status = 0; /* the end of a requested stop */
		report_over(supervise);
	}
}

pid_t supervise_pid(const struct supervise *supervise)
{
	return supervise->pid;
}

void supervise_signal(struct supervise *supervise, int signal_number)
{
	if (supervise->pid > 0) {
		kill(-supervise->pid, signal_number);
	}
}

void supervise_stop(struct supervise *supervise)
{
	if (supervise->wish == TO_STOP) {
		return;
	}
	supervise->wish = TO_STOP;
	if (supervise->state == PREPARING && supervise->hook) {
		command_abandon(supervise->hook);
		supervise->hook = NULL;
		ended(supervise, "the agent stops before pre_start has ended");
		return;
	}
	if (supervise->state != RUNNING) {
		supervise_forbid_restart(supervise);
		return;
	}
	supervise_signal(supervise, supervise->config->stop_signal);
	/* A stopped process cannot act on a signal. */
	supervise_signal(supervise, SIGCONT);
	timer_start(&supervise->timer, supervise->config->stop_timeout_ms);
}
