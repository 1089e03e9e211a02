/*
 * watch: shows the picture and each change of it, or runs a command.
 *
 * Without --settle a command runs once for each node: for those of the first picture, then for each
 * that changes. With --settle it runs once for a burst of changes, when nothing has changed for
 * that time, and reads the whole picture.
 */
#include "cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "lib/base/clock.h"
#include "lib/base/json_read.h"
#include "lib/base/json_text.h"
#include "lib/program/memory.h"

enum {
	FIRST_ANSWER_MS = 10000,
	SETTLE_AT_MOST =
		10 /* times --settle: changes that never end must not hold the command back */
};

struct watching {
	struct cli *cli;
	struct berth_watch *watch;
	json_t *known; /* path -> record or null */
	bool subscribed;
	bool ran;        /* --settle: at least once */
	int64_t due_ms;  /* --settle: when to run; INT64_MAX: nothing to do */
	int64_t last_ms; /* --settle: when to run at the latest */
	int failed;      /* 0, or the exit status of the last command that failed */
	int status;      /* -1: go on */
};

/* ---- a command for each node ---- */

/* A command that cannot be run ends the watch. */
static void run(struct watching *watching, const char *event, const char *path, const char *input)
{
	if (watching->status >= 0) {
		return;
	}
	int status = command_run(watching->cli->options.command, event, path, input);
	if (status < 0) {
		watching->status = EXIT_FAILURE;
	} else if (status > 0) {
		watching->failed = status;
	}
}

static void run_for_record(
	struct watching *watching, const char *event, const char *path, const json_t *record)
{
	char *text = json_is_object(record) ? memory_must(json_text(record, JSON_COMPACT)) : NULL;
	run(watching, event, path, text ? text : "");
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

static void run_for_event(
	struct watching *watching, const struct berth_event *event, const json_t *snapshot)
{
	switch (event->type) {
	case BERTH_EVENT_SUBSCRIBED:
	case BERTH_EVENT_RESYNC:
		run_for_snapshot(watching,
			event->type == BERTH_EVENT_RESYNC ? "UPDATED" : "SUBSCRIBED", snapshot);
		break;
	case BERTH_EVENT_UPDATED:
		run(watching, "UPDATED", event->path, event->record ? event->record : "");
		break;
	case BERTH_EVENT_DELETED:
		run(watching, "DELETED", event->path, "");
		break;
	default:
		break;
	}
}

/* ---- one command for a burst ---- */

/* The picture has changed: the command runs when it stays as it is for a while. */
static void settle_later(struct watching *watching)
{
	int64_t now_ms = clock_monotonic_ms();
	int settle_ms = watching->cli->options.settle_ms;
	if (watching->due_ms == INT64_MAX) {
		watching->last_ms = now_ms + (int64_t)settle_ms * SETTLE_AT_MOST;
	}
	watching->due_ms = now_ms + settle_ms;
	if (watching->due_ms > watching->last_ms) {
		watching->due_ms = watching->last_ms;
	}
}

static void run_settled(struct watching *watching)
{
	char *text = memory_must(json_text(watching->known, JSON_COMPACT | JSON_SORT_KEYS));
	watching->due_ms = INT64_MAX;
	watching->failed = 0;
	run(watching, watching->ran ? "UPDATED" : "SUBSCRIBED", cli_operand(watching->cli), text);
	watching->ran = true;
	free(text);
}

/* ---- the picture ---- */

/* Brings the picture up to date; false for an event that leaves it as it is. */
static bool apply(
	struct watching *watching, const struct berth_event *event, const json_t *snapshot)
{
	switch (event->type) {
	case BERTH_EVENT_SUBSCRIBED:
	case BERTH_EVENT_RESYNC: {
		bool same = watching->ran && json_equal(watching->known, snapshot);
		json_object_clear(watching->known);
		json_object_update(watching->known, (json_t *)snapshot);
		return !same;
	}
	case BERTH_EVENT_UPDATED:
		json_object_set_new(watching->known, event->path,
			event->record ? json_read_text(event->record, 0) : json_null());
		return true;
	case BERTH_EVENT_DELETED:
		json_object_del(watching->known, event->path);
		return true;
	default:
		return false;
	}
}

static void take_for_command(struct watching *watching, const struct berth_event *event)
{
	json_t *snapshot = event->snapshot ? json_read_text(event->snapshot, 0) : NULL;
	bool settle = watching->cli->options.settle_ms > 0;
	if (!settle) {
		run_for_event(watching, event, snapshot);
	}
	if (apply(watching, event, snapshot) && settle) {
		settle_later(watching);
	}
	json_decref(snapshot);
}

/* ---- lines ---- */

static void print_json(const struct berth_event *event)
{
	json_t *json = json_pack("{s:s, s:I, s:f}", "type", berth_event_name(event->type),
		"sequence", (json_int_t)event->sequence, "time", event->time);
	if (event->path) {
		json_object_set_new(json, "path", json_string(event->path));
	}
	if (event->type == BERTH_EVENT_UPDATED) {
		json_object_set_new(json, "record",
			event->record ? json_read_text(event->record, 0) : json_null());
	}
	if (event->snapshot) {
		json_object_set_new(json, "snapshot", json_read_text(event->snapshot, 0));
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
		json_t *snapshot = json_read_text(event->snapshot, 0);
		json_object_foreach (snapshot, path, record) {
			print_line(watching, event, path, record);
		}
		if (json_object_size(snapshot) == 0) {
			print_line(watching, event, "nothing is there yet", NULL);
		}
		json_decref(snapshot);
	} else {
		json_t *record = event->record               ? json_read_text(event->record, 0)
			: event->type == BERTH_EVENT_UPDATED ? json_null()
							     : NULL;
		print_line(watching, event, event->path ? event->path : "", record);
		json_decref(record);
	}
	fflush(stdout);
}

/* ---- the watch ---- */

/* The stream broke: before the first picture that is a failure, later a remark. */
static void on_lost(struct watching *watching)
{
	struct berth_failure failure = { .code = BERTH_AGENT_UNAVAILABLE,
		.message = "the event stream broke" };
	berth_watch_trouble(watching->watch, &failure);
	/* After BERTH_FAILED the library may not go on: it has missed an event. */
	if (!watching->subscribed || failure.code == BERTH_FAILED) {
		watching->status = output_failure(&failure);
	} else {
		output_note("%s; trying again", failure.message);
	}
}

static void on_event(void *context, const struct berth_event *event)
{
	struct watching *watching = context;
	const struct options *options = &watching->cli->options;
	if (watching->status >= 0) {
		return;
	}
	if (event->type == BERTH_EVENT_LOST) {
		on_lost(watching);
		if (watching->status >= 0 || !options->json) {
			return; /* reported already */
		}
	}
	if (options->command) {
		take_for_command(watching, event);
	} else if (options->json) {
		print_json(event);
	} else {
		print_text(watching, event);
	}
	if (event->type == BERTH_EVENT_SUBSCRIBED) {
		watching->subscribed = true;
	}
	if (ferror(stdout)) {
		watching->status = EXIT_FAILURE;
	}
	if (watching->status < 0 && options->once && watching->subscribed && !options->settle_ms) {
		watching->status = watching->failed;
	}
}

/* How long berth_dispatch() may wait; -1: for ever. */
static int patience_ms(const struct watching *watching, int64_t first_answer_ms)
{
	int64_t until_ms = watching->subscribed ? watching->due_ms : first_answer_ms;
	int64_t left_ms = until_ms == INT64_MAX ? -1 : until_ms - clock_monotonic_ms();
	return left_ms > INT_MAX                       ? INT_MAX
		: left_ms < 0 && until_ms != INT64_MAX ? 0
						       : (int)left_ms;
}

/* Without a command the watch ends with its reader, not at the next change some day. */
static int wait_for_events(struct watching *watching, int timeout_ms, struct berth_failure *failure)
{
	struct berth *berth = watching->cli->berth;
	if (watching->cli->options.command) {
		return berth_dispatch(berth, timeout_ms, failure);
	}
	if (output_wait(berth_fd(berth), timeout_ms)) {
		watching->status = EXIT_FAILURE;
		return 0;
	}
	return berth_dispatch(berth, 0, failure);
}

static int follow(struct watching *watching)
{
	const struct options *options = &watching->cli->options;
	struct berth_failure failure = { .code = BERTH_TIMEOUT,
		.message = "no first snapshot came" };
	int64_t first_answer_ms = clock_monotonic_ms() +
		(options->timeout_ms ? options->timeout_ms : FIRST_ANSWER_MS);
	while (watching->status < 0) {
		if (!watching->subscribed && clock_monotonic_ms() >= first_answer_ms) {
			int code = berth_watch_trouble(watching->watch, &failure);
			if (code != BERTH_TIMEOUT || options->timeout_ms) {
				return output_failure(&failure);
			}
			output_note("%s", failure.message);
			first_answer_ms = clock_monotonic_ms() + FIRST_ANSWER_MS;
		}
		if (wait_for_events(watching, patience_ms(watching, first_answer_ms), &failure) !=
			0) {
			return output_failure(&failure);
		}
		if (clock_monotonic_ms() >= watching->due_ms) {
			run_settled(watching);
			if (watching->status < 0 && options->once) {
				watching->status = watching->failed;
			}
		}
	}
	return watching->status;
}

int verb_watch(struct cli *cli)
{
	struct berth_failure failure;
	struct watching watching = {
		.cli = cli, .known = json_object(), .due_ms = INT64_MAX, .status = -1
	};
	int status;
	if (cli->options.settle_ms && !cli->options.command) {
		json_decref(watching.known);
		return output_usage("watch: --settle needs a command to run (berth watch --help)");
	}
	const char *const *attributes = cli->options.attributes;
	if (berth_watch_with_attributes(cli->berth, cli_operand(cli), cli->options.recursive,
		    *attributes ? attributes : NULL, on_event, &watching, &watching.watch,
		    &failure) != 0) {
		status = output_failure(&failure);
	} else {
		status = follow(&watching);
	}
	json_decref(watching.known);
	return status;
}
