#include "agent/command/command.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "agent/command/orphans.h"
#include "agent/command/output.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/memory_file.h"

/* Most commands have ended by then, and the pipe holds their output until they end. */
enum { WATCH_OUTPUT_AFTER_MS = 20, TERM_TO_KILL_MS = 1000, SWEEP_AGAIN_MS = 10 };

enum phase { RUNNING, ENDING, SWEEPING };

struct command {
	struct list link;
	struct ev_loop *loop;
	struct command_callbacks callbacks;
	bool abandoned;
	enum phase phase;
	pid_t pid; /* 0 after its exit */
	char marker[48];
	int64_t timeout_ms;
	ev_child exit;
	struct timer timer; /* output, deadline, then TERM to KILL, then the next sweep */
	bool output_watched;
	bool separate_errors;
	struct command_output output;
	struct command_output errors; /* used with separate_errors */
};

/*
 * All runs, so that a sweep does not have to look at the environment of the other runs' commands.
 */
static struct list runs = { &runs, &runs };

static bool is_running_command(pid_t pid)
{
	for (struct list *link = runs.next; link != &runs; link = link->next) {
		if (LIST_ITEM(link, struct command, link)->pid == pid) {
			return true;
		}
	}
	return false;
}

static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "ABRT", SIGABRT },
	{ "ALRM", SIGALRM },
	{ "BUS", SIGBUS },
	{ "FPE", SIGFPE },
	{ "HUP", SIGHUP },
	{ "ILL", SIGILL },
	{ "INT", SIGINT },
	{ "IO", SIGIO },
	{ "KILL", SIGKILL },
	{ "PIPE", SIGPIPE },
	{ "PROF", SIGPROF },
	{ "PWR", SIGPWR },
	{ "QUIT", SIGQUIT },
	{ "SEGV", SIGSEGV },
	{ "STKFLT", SIGSTKFLT },
	{ "SYS", SIGSYS },
	{ "TERM", SIGTERM },
	{ "TRAP", SIGTRAP },
	{ "URG", SIGURG },
	{ "USR1", SIGUSR1 },
	{ "USR2", SIGUSR2 },
	{ "VTALRM", SIGVTALRM },
	{ "WINCH", SIGWINCH },
	{ "XCPU", SIGXCPU },
	{ "XFSZ", SIGXFSZ },
};

static const char real_time_prefix[] = "RTMIN+";

static int real_time_number(const char *name)
{
	size_t len = strlen(real_time_prefix);
	char *end;
	if (strncmp(name, real_time_prefix, len) != 0 || !isdigit((unsigned char)name[len])) {
		return -1;
	}
	long more = strtol(name + len, &end, 10);
	return *end || more > SIGRTMAX - SIGRTMIN ? -1 : SIGRTMIN + (int)more;
}

int command_signal_number(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		if (strcmp(signals[i].name, name) == 0) {
			return signals[i].number;
		}
	}
	return real_time_number(name);
}

const char *command_signal_name(int number)
{
	static char real_time[sizeof(real_time_prefix) + 11];
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		if (signals[i].number == number) {
			return signals[i].name;
		}
	}
	if (number >= SIGRTMIN && number <= SIGRTMAX) {
		snprintf(real_time, sizeof(real_time), "%s%d", real_time_prefix, number - SIGRTMIN);
		return real_time;
	}
	return NULL;
}

void command_status_text(char out[COMMAND_STATUS_BYTES], enum command_end end, int status)
{
	const char *name = end == COMMAND_KILLED ? command_signal_name(status) : NULL;
	if (name) {
		snprintf(out, COMMAND_STATUS_BYTES, "killed by SIG%s", name);
	} else {
		snprintf(out, COMMAND_STATUS_BYTES,
			end == COMMAND_KILLED ? "killed by signal %d" : "exit status %d", status);
	}
}

/* ---- the end of a run ---- */

static void free_command(struct command *command)
{
	command_output_finish(&command->output, command->loop);
	command_output_finish(&command->errors, command->loop);
	command_output_free(&command->output);
	command_output_free(&command->errors);
	free(command);
}

static void gone(struct command *command)
{
	struct command_callbacks callbacks = command->callbacks;
	bool tell = !command->abandoned && callbacks.on_gone;
	timer_stop(&command->timer);
	list_remove(&command->link);
	free_command(command);
	if (tell) {
		callbacks.on_gone(callbacks.context);
	}
}

static void sweep(struct command *command)
{
	if (!command_orphans_kill(command->marker, is_running_command)) {
		gone(command);
		return;
	}
	timer_start(&command->timer, SWEEP_AGAIN_MS);
}

static void report(struct command *command, enum command_end end, int status)
{
	const struct command_outcome outcome = {
		.end = end,
		.status = status,
		.output = buffer_text(&command->output.kept),
		.output_len = command->output.kept.len,
		.output_cut = command->output.cut,
		.errors = buffer_text(&command->errors.kept),
		.errors_len = command->errors.kept.len,
		.errors_cut = command->errors.cut,
	};
	command->callbacks.on_end(command->callbacks.context, &outcome);
}

static void on_child_exit(struct ev_loop *loop, ev_child *watcher, int events)
{
	(void)events;
	struct command *command = watcher->data;
	pid_t group = command->pid;
	bool killed = WIFSIGNALED(watcher->rstatus);
	ev_child_stop(loop, watcher);
	timer_stop(&command->timer);
	command->pid = 0;
	command_output_finish(&command->output, loop);
	command_output_finish(&command->errors, loop);
	/* Processes that the command left in its group end with it. */
	kill(-group, SIGKILL);
	if (command->phase == RUNNING && !command->abandoned) {
		report(command, killed ? COMMAND_KILLED : COMMAND_EXITED,
			killed ? WTERMSIG(watcher->rstatus) : WEXITSTATUS(watcher->rstatus));
	}
	command->phase = SWEEPING;
	sweep(command);
}

/* ---- time ---- */

static void on_deadline(struct command *command)
{
	command->phase = ENDING;
	kill(-command->pid, SIGTERM);
	/* A stopped process receives its TERM only when it is continued. */
	kill(-command->pid, SIGCONT);
	timer_start(&command->timer, TERM_TO_KILL_MS);
	report(command, COMMAND_TIMED_OUT, 0);
}

static void on_running_timer(struct command *command)
{
	int64_t left_ms = command->output_watched ? 0 : command->timeout_ms - WATCH_OUTPUT_AFTER_MS;
	command->output_watched = true;
	command_output_watch(&command->output, command->loop);
	command_output_watch(&command->errors, command->loop);
	if (left_ms > 0) {
		timer_start(&command->timer, left_ms);
	} else {
		on_deadline(command);
	}
}

static void on_timer(void *context)
{
	struct command *command = context;
	switch (command->phase) {
	case RUNNING:
		on_running_timer(command);
		break;
	case ENDING:
		kill(-command->pid, SIGKILL);
		break;
	case SWEEPING:
		sweep(command);
		break;
	}
}

/* ---- the start of a run ---- */

/*
 * A file without a name needs no watcher and no care for a command that does not read. -1 with
 * errno.
 */
static int make_input(const void *data, size_t len)
{
	int file = memory_file("input");
	for (size_t done = 0; file >= 0 && done < len;) {
		ssize_t written = pwrite(file, (const char *)data + done, len - done, (off_t)done);
		if (written < 0 && errno != EINTR) {
			int error = errno;
			close(file);
			errno = error;
			return -1;
		}
		done += written > 0 ? (size_t)written : 0;
	}
	return file;
}

static void close_files(int files[3])
{
	for (int i = 0; i < 3; i++) {
		if (files[i] >= 0 && (i == 0 || files[i] != files[i - 1])) {
			close(files[i]);
		}
	}
}

static bool open_files(struct command *command, const struct command_options *options, int files[3])
{
	files[0] = options->input ? make_input(options->input, options->input_len) : -1;
	if (options->input && files[0] < 0) {
		return false;
	}
	files[1] = command_output_open(&command->output);
	if (files[1] < 0) {
		return false;
	}
	files[2] = options->separate_errors ? command_output_open(&command->errors) : files[1];
	return files[2] >= 0;
}

static bool spawn(struct command *command, const struct command_options *options, struct err *err)
{
	struct command_spawn spawn = {
		.argv = options->argv,
		.launch = options->launch,
		.placement = COMMAND_SESSION,
		.marker = command->marker,
		.files = { -1, -1, -1 },
	};
	if (!open_files(command, options, spawn.files)) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot make a pipe");
	} else {
		command->pid = command_spawn(&spawn, err);
	}
	close_files(spawn.files);
	return command->pid > 0;
}

static void watch(struct command *command)
{
	ev_child_init(&command->exit, on_child_exit, command->pid, 0);
	command->exit.data = command;
	ev_child_start(command->loop, &command->exit);
	timer_init(&command->timer, command->loop, "command", on_timer, command);
	timer_start(&command->timer,
		command->timeout_ms < WATCH_OUTPUT_AFTER_MS ? command->timeout_ms
							    : WATCH_OUTPUT_AFTER_MS);
	list_append(&runs, &command->link);
}

struct command *command_start(struct ev_loop *loop, const struct command_options *options,
	const struct command_callbacks *callbacks, struct err *err)
{
	static unsigned long long count;
	struct command *command = allocate_zeroed(1, sizeof(*command));
	command->loop = loop;
	command->callbacks = *callbacks;
	command->timeout_ms = options->timeout_ms;
	command_output_init(&command->output, options->output_max);
	command_output_init(&command->errors, options->output_max);
	command->output.on_data = callbacks->on_output;
	command->output.context = callbacks->context;
	snprintf(command->marker, sizeof(command->marker), "BERTH_RUN=%d-%llu", (int)getpid(),
		++count);
	if (!spawn(command, options, err)) {
		free_command(command);
		return NULL;
	}
	watch(command);
	return command;
}

void command_abandon(struct command *command)
{
	command->abandoned = true;
	command->output.on_data = NULL;
	if (command->phase != SWEEPING) {
		command->phase = ENDING;
		timer_stop(&command->timer);
		kill(-command->pid, SIGKILL);
	}
}

/* ---- the end of the agent ---- */

static void reap(struct command *command)
{
	pid_t ended = command->pid > 0 ? waitpid(command->pid, NULL, WNOHANG) : 0;
	if (ended == 0) {
		return;
	}
	if (ended == command->pid) {
		kill(-command->pid, SIGKILL);
	}
	ev_child_stop(command->loop, &command->exit);
	command->pid = 0;
	command->phase = SWEEPING;
}

bool command_wait_for_all(int64_t timeout_ms)
{
	enum { PAUSE_MS = 2 };
	int64_t until_ms = clock_monotonic_ms() + timeout_ms;
	while (!list_empty(&runs) && clock_monotonic_ms() < until_ms) {
		struct list *next;
		for (struct list *link = runs.next; link != &runs; link = next) {
			struct command *command = LIST_ITEM(link, struct command, link);
			next = link->next;
			reap(command);
			if (command->phase == SWEEPING &&
				!command_orphans_kill(command->marker, is_running_command)) {
				gone(command);
			}
		}
		/* Orphans that a sweep has killed, which the loop would reap. */
		while (waitpid(-1, NULL, WNOHANG | __WNOTHREAD) > 0) {
		}
		poll(NULL, 0, PAUSE_MS);
	}
	return list_empty(&runs);
}
