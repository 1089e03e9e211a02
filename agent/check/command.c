#include "agent/check/command.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/check/match.h"
#include "agent/check/orphans.h"
#include "agent/check/output.h"
#include "agent/check/spawn.h"

/* Most commands are done by then, and what they print lies in the pipe until they are. */
static const ev_tstamp WATCH_OUTPUT_AFTER_S = 0.02;
static const ev_tstamp TERM_TO_KILL_S = 1;
static const ev_tstamp SWEEP_AGAIN_S = 0.01;

enum phase { RUNNING, ENDING, SWEEPING };

struct check_command {
	struct ev_loop *loop;
	const struct config_check *config; /* NULL: abandoned */
	struct check_command_callbacks callbacks;
	enum phase phase;
	pid_t pid;
	char marker[48];
	ev_child exit;
	ev_timer timer; /* output, deadline, then TERM to KILL, then the next sweep */
	bool output_watched;
	struct check_output output;
	struct check_match *match;  /* of stdout; NULL: no pattern */
	struct check_output errors; /* used when a pattern is to see stdout alone */
	struct check_command *next;
};

/* All runs, so that a sweep does not have to look at the environment of the other runs' commands. */
static struct check_command *commands;

static bool is_running_command(pid_t pid)
{
	for (const struct check_command *command = commands; command; command = command->next) {
		if (command->pid == pid) {
			return true;
		}
	}
	return false;
}

static void unlink_command(const struct check_command *command)
{
	struct check_command **at = &commands;
	while (*at != command) {
		at = &(*at)->next;
	}
	*at = command->next;
}

static void judge_exit(const struct check_command *command, int status, struct check_result *result)
{
	if (WIFSIGNALED(status)) {
		result->verdict = CHECK_FAILING;
		check_result_set_detail(result, "killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
		return;
	}
	int code = WEXITSTATUS(status);
	check_result_set_detail(result, "exit status %d", code);
	const struct config_check *config = command->config;
	if (code == 0 || config->ignore_exit_status) {
		result->verdict = CHECK_PASSING;
	} else if (config_status_listed(
			   config->warning_status, config->warning_status_count, code)) {
		result->verdict = CHECK_WARNING;
	} else {
		result->verdict = CHECK_FAILING;
	}
}

static void judge_output(const struct check_command *command, struct check_result *result)
{
	const struct config_check *config = command->config;
	if (!command->match || !check_verdict_good(result->verdict)) {
		return;
	}
	if (check_match_finish(command->match) == config->match_invert) {
		result->verdict = CHECK_FAILING;
		check_result_set_detail(result, "output %s: %s",
			config->match_invert ? "matches" : "does not match", config->match);
	}
}

static void show_output(struct check_command *command, struct check_result *result)
{
	struct check_output *output = &command->output;
	check_output_append(output, &command->errors);
	check_result_set_output(result, output->data, output->len, output->cut);
}

static void gone(struct check_command *command)
{
	struct check_command_callbacks callbacks = command->callbacks;
	bool abandoned = !command->config;
	ev_timer_stop(command->loop, &command->timer);
	unlink_command(command);
	check_match_destroy(command->match);
	free(command);
	if (!abandoned) {
		callbacks.on_gone(callbacks.context);
	}
}

static void start_timer(struct check_command *command, ev_tstamp delay_s)
{
	ev_timer_set(&command->timer, delay_s, 0.);
	ev_timer_start(command->loop, &command->timer);
}

static void sweep(struct check_command *command)
{
	if (!check_orphans_kill(command->marker, is_running_command)) {
		gone(command);
		return;
	}
	start_timer(command, SWEEP_AGAIN_S);
}

static void on_child_exit(struct ev_loop *loop, ev_child *watcher, int events)
{
	(void)events;
	struct check_command *command = watcher->data;
	pid_t group = command->pid;
	ev_child_stop(loop, watcher);
	ev_timer_stop(loop, &command->timer);
	command->pid = 0;
	check_output_finish(&command->output, loop);
	check_output_finish(&command->errors, loop);
	/* What the command left in its group goes with it. */
	kill(-group, SIGKILL);
	if (command->phase == RUNNING && command->config) {
		struct check_result result = { .verdict = CHECK_PASSING };
		judge_exit(command, watcher->rstatus, &result);
		judge_output(command, &result);
		show_output(command, &result);
		command->callbacks.on_result(command->callbacks.context, &result);
	}
	command->phase = SWEEPING;
	sweep(command);
}

static void at_deadline(struct check_command *command)
{
	command->phase = ENDING;
	kill(-command->pid, SIGTERM);
	/* A stopped process would take its TERM only when somebody continued it. */
	kill(-command->pid, SIGCONT);
	start_timer(command, TERM_TO_KILL_S);

	struct check_result result = { .verdict = CHECK_TIMED_OUT };
	check_result_set_detail(
		&result, "no exit within %.9gs", (double)command->config->timeout_ms / 1000);
	show_output(command, &result);
	command->callbacks.on_result(command->callbacks.context, &result);
}

static ev_tstamp timeout_s(const struct check_command *command)
{
	return (double)command->config->timeout_ms / 1000;
}

static void watch_output(struct check_command *command)
{
	command->output_watched = true;
	check_output_watch(&command->output, command->loop);
	check_output_watch(&command->errors, command->loop);
}

static void while_running(struct check_command *command)
{
	ev_tstamp left_s = command->output_watched ? 0 : timeout_s(command) - WATCH_OUTPUT_AFTER_S;
	watch_output(command);
	if (left_s > 0) {
		start_timer(command, left_s);
	} else {
		at_deadline(command);
	}
}

static void on_timer(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)loop;
	(void)events;
	struct check_command *command = watcher->data;
	switch (command->phase) {
	case RUNNING:
		while_running(command);
		break;
	case ENDING:
		kill(-command->pid, SIGKILL);
		break;
	case SWEEPING:
		sweep(command);
		break;
	}
}

static pid_t spawn(struct check_command *command, const struct check_launch *launch, int output,
	int errors, struct check_result *result)
{
	launch->environment[0] = command->marker;
	return check_spawn(
		&(struct check_spawn){
			.argv = command->config->argv,
			.environment = launch->environment,
			.identity = &launch->identity,
			.user = command->config->user,
			.cwd = command->config->cwd,
			.output = output,
			.errors = errors,
		},
		result);
}

static bool start(struct check_command *command, const struct check_launch *launch,
	struct check_result *result)
{
	int output = check_output_open(&command->output);
	int errors = command->match ? check_output_open(&command->errors) : output;
	if (output < 0 || errors < 0) {
		result->verdict = CHECK_COULD_NOT_RUN;
		check_result_set_detail(result, "cannot make a pipe: %s", strerror(errno));
	} else {
		command->pid = spawn(command, launch, output, errors, result);
	}
	if (errors >= 0 && errors != output) {
		close(errors);
	}
	if (output >= 0) {
		close(output);
	}
	return command->pid > 0;
}

static void make_match(struct check_command *command)
{
	if (*command->config->match) {
		command->match = check_match_create(command->config->match);
		command->output.match = command->match;
	}
}

static void watch(struct check_command *command)
{
	ev_child_init(&command->exit, on_child_exit, command->pid, 0);
	command->exit.data = command;
	ev_child_start(command->loop, &command->exit);
	/* The deadline counts from now, not from when this turn of the loop began. */
	ev_now_update(command->loop);
	ev_init(&command->timer, on_timer);
	command->timer.data = command;
	start_timer(command, fmin(timeout_s(command), WATCH_OUTPUT_AFTER_S));
	command->next = commands;
	commands = command;
}

struct check_command *check_command_start(struct ev_loop *loop, const struct config_check *config,
	const struct check_launch *launch, const struct check_command_callbacks *callbacks,
	struct check_result *result)
{
	static unsigned long long runs;
	struct check_command *command = allocate_zeroed(1, sizeof(*command));
	command->loop = loop;
	command->config = config;
	command->callbacks = *callbacks;
	check_output_init(&command->output);
	check_output_init(&command->errors);
	snprintf(command->marker, sizeof(command->marker), "BERTH_RUN=%d-%llu", (int)getpid(),
		++runs);
	make_match(command);
	if (!start(command, launch, result)) {
		check_output_finish(&command->output, loop);
		check_output_finish(&command->errors, loop);
		check_match_destroy(command->match);
		free(command);
		return NULL;
	}
	watch(command);
	return command;
}

void check_command_abandon(struct check_command *command)
{
	command->config = NULL;
	if (command->phase != SWEEPING) {
		command->phase = ENDING;
		ev_timer_stop(command->loop, &command->timer);
		kill(-command->pid, SIGKILL);
	}
}
