#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"

extern char **environ;

enum { FIRST_ANSWER_MS = 10000 };

struct watching {
	struct cli *cli;
	struct berth_watch *watch;
	json_t *known; /* path -> record or null: what a RESYNC is compared with */
	bool subscribed;
	int status; /* -1: go on */
};

/* ---- a command for each change ---------------------------------------------------------------- */

/* A descriptor that reads as `text`. */
static int input_of(const char *text)
{
	int fd = memfd_create("record", MFD_CLOEXEC);
	size_t len = strlen(text);
	if (fd >= 0 && (write(fd, text, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int spawn(char **command, int input, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	int reason = posix_spawnp(ret_pid, command[0], &actions, &attributes, command, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return reason;
}

/* Runs the command and waits for it; one that cannot be run ends the watch. */
static void run_command(
	struct watching *watching, const char *event, const char *path, const char *record)
{
	char **command = watching->cli->options.command;
	pid_t pid;
	int status = 0;
	setenv("BERTH_EVENT", event, 1);
	setenv("BERTH_PATH", path, 1);
	int input = input_of(record ? record : "");
	int reason = input < 0 ? errno : spawn(command, input, &pid);
	if (input >= 0) {
		close(input);
	}
	if (reason != 0) {
		fprintf(stderr, "berth: %s: %s\n", command[0], strerror(reason));
		watching->status = EXIT_FAILURE;
		return;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "berth: note: %s of %s: %s was ended by signal %d\n", event, path,
			command[0], WTERMSIG(status));
	} else if (WEXITSTATUS(status) != 0) {
		fprintf(stderr, "berth: note: %s of %s: %s ended with exit status %d\n", event,
			path, command[0], WEXITSTATUS(status));
	}
}

static void run_for_record(
	struct watching *watching, const char *event, const char *path, const json_t *record)
{
	char *text = json_is_object(record) ? json_dumps(record, JSON_COMPACT) : NULL;
	if (watching->status < 0) {
		run_command(watching, event, path, text);
	}
	free(text);
}

/* A snapshot becomes the changes that lead to it from what was known. */
static void run_for_snapshot(struct watching *watching, const char *event, const json_t *snapshot)
{
	const char *path;
	json_t *record;
	json_object_foreach (watching->known, path, record) {
		if (!json_object_get(snapshot, path)) {
			run_for_record(watching, "DELETED", path, NULL);
		}
	}
	json_object_foreach ((json_t *)snapshot, path, record) {
		const json_t *before = json_object_get(watching->known, path);
		if (!before || !json_equal(before, record)) {
			run_for_record(watching, event, path, record);
		}
	}
}

static void run_for_event(struct watching *watching, const struct berth_event *event)
{
	json_t *snapshot = event->snapshot ? json_loads(event->snapshot, 0, NULL) : NULL;
	switch (event->type) {
	case BERTH_EVENT_SUBSCRIBED:
	case BERTH_EVENT_RESYNC:
		run_for_snapshot(watching,
			event->type == BERTH_EVENT_RESYNC ? "UPDATED" : "SUBSCRIBED", snapshot);
		json_object_clear(watching->known);
		json_object_update(watching->known, snapshot);
		break;
	case BERTH_EVENT_UPDATED:
		run_command(watching, "UPDATED", event->path, event->record);
		json_object_set_new(watching->known, event->path,
			event->record ? json_loads(event->record, 0, NULL) : json_null());
		break;
	case BERTH_EVENT_DELETED:
		run_command(watching, "DELETED", event->path, NULL);
		json_object_del(watching->known, event->path);
		break;
	default:
		break;
	}
	json_decref(snapshot);
}

/* ---- lines ------------------------------------------------------------------------------------ */

static void print_json(const struct berth_event *event)
{
	json_t *json = json_pack("{s:s, s:I, s:f}", "type", berth_event_name(event->type),
		"sequence", (json_int_t)event->sequence, "time", event->time);
	if (event->path) {
		json_object_set_new(json, "path", json_string(event->path));
	}
	if (event->type == BERTH_EVENT_UPDATED) {
		json_object_set_new(json, "record",
			event->record ? json_loads(event->record, 0, NULL) : json_null());
	}
	if (event->snapshot) {
		json_object_set_new(json, "snapshot", json_loads(event->snapshot, 0, NULL));
	}
	output_json_line(json);
	json_decref(json);
}

static void print_line(const struct watching *watching, const struct berth_event *event,
	const char *path, const json_t *record)
{
	static const enum table_colour colours[] = {
		[BERTH_EVENT_SUBSCRIBED] = TABLE_PLAIN,
		[BERTH_EVENT_UPDATED] = TABLE_GOOD,
		[BERTH_EVENT_DELETED] = TABLE_BAD,
		[BERTH_EVENT_STALE] = TABLE_WARN,
		[BERTH_EVENT_FRESH] = TABLE_GOOD,
		[BERTH_EVENT_RESYNC] = TABLE_PLAIN,
		[BERTH_EVENT_LOST] = TABLE_WARN,
	};
	char when[16];
	struct tm local;
	time_t seconds = (time_t)event->time;
	localtime_r(&seconds, &local);
	strftime(when, sizeof(when), "%H:%M:%S", &local);
	char *shown = table_escape(path);
	char *description = table_escape(output_text(record, "description"));
	const char *code = watching->cli->output.colour ? table_colour_code(colours[event->type])
							: "";
	printf("%s  %s%-10s%s  %s", when, code, berth_event_name(event->type),
		*code ? "\033[0m" : "", shown);
	if (json_is_null(record)) {
		fputs("  (no record)", stdout);
	} else if (*description) {
		printf("  %s", description);
	}
	putchar('\n');
	free(shown);
	free(description);
}

static void print_text(const struct watching *watching, const struct berth_event *event)
{
	if (event->snapshot) {
		const char *path;
		json_t *record;
		json_t *snapshot = json_loads(event->snapshot, 0, NULL);
		json_object_foreach (snapshot, path, record) {
			print_line(watching, event, path, record);
		}
		if (json_object_size(snapshot) == 0) {
			print_line(watching, event, "nothing is there yet", NULL);
		}
		json_decref(snapshot);
	} else {
		json_t *record = event->record               ? json_loads(event->record, 0, NULL)
			: event->type == BERTH_EVENT_UPDATED ? json_null()
							     : NULL;
		print_line(watching, event, event->path ? event->path : "", record);
		json_decref(record);
	}
	fflush(stdout);
}

/* ---- the watch -------------------------------------------------------------------------------- */

/* The stream broke: at first that is a failure, later a remark. */
static void on_lost(struct watching *watching)
{
	struct berth_failure failure = { .code = BERTH_REGISTRY_UNAVAILABLE,
		.message = "the event stream broke" };
	berth_watch_trouble(watching->watch, &failure);
	if (!watching->subscribed) {
		watching->status = output_failure(&failure);
	} else {
		fprintf(stderr, "note: %s; trying again\n", failure.message);
	}
}

static void on_event(void *context, const struct berth_event *event)
{
	struct watching *watching = context;
	if (watching->status >= 0) {
		return;
	}
	if (event->type == BERTH_EVENT_LOST) {
		on_lost(watching);
	} else {
		watching->subscribed = true;
	}
	if (watching->status >= 0) {
		return;
	}
	if (event->type == BERTH_EVENT_LOST && !watching->cli->output.json) {
		return; /* the remark has said it */
	}
	if (watching->cli->options.command) {
		run_for_event(watching, event);
	} else if (watching->cli->output.json) {
		print_json(event);
	} else {
		print_text(watching, event);
	}
	if (ferror(stdout)) {
		watching->status = EXIT_FAILURE;
	}
}

/* How long the first snapshot may take. */
static int first_answer_ms(const struct cli *cli)
{
	return cli->options.timeout_ms ? cli->options.timeout_ms : FIRST_ANSWER_MS;
}

static int follow(struct watching *watching)
{
	struct berth *berth = watching->cli->berth;
	struct berth_failure failure = { .code = BERTH_TIMEOUT,
		.message = "no first snapshot came" };
	int64_t deadline_ms = clock_monotonic_ms() + first_answer_ms(watching->cli);
	while (watching->status < 0) {
		int64_t left_ms = deadline_ms - clock_monotonic_ms();
		if (!watching->subscribed && left_ms <= 0) {
			berth_watch_trouble(watching->watch, &failure);
			return output_failure(&failure);
		}
		if (berth_dispatch(berth, watching->subscribed ? -1 : (int)left_ms, &failure) != 0) {
			return output_failure(&failure);
		}
	}
	return watching->status;
}

int verb_watch(struct cli *cli)
{
	struct berth_failure failure;
	struct watching watching = { .cli = cli, .known = json_object(), .status = -1 };
	int status;
	if (berth_watch(cli->berth, cli_operand(cli), cli->options.recursive, on_event, &watching,
		    &watching.watch, &failure) != 0) {
		status = output_failure(&failure);
	} else {
		status = follow(&watching);
	}
	json_decref(watching.known);
	return status;
}
