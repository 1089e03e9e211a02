/*
 * history: what the agent did, oldest first; with --follow also what it does from now on.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/clock.h"

enum { READER_MS = 2000 }; /* how soon a reader that has gone is noticed */

/* Which items to show: the newest `count` of those after `since`. */
struct range {
	size_t begin;
	size_t end;
};

static struct range choose(const struct cli *cli, const json_t *history)
{
	const struct options *options = &cli->options;
	struct range range = { 0, json_array_size(history) };
	if (options->since_s) {
		double since = cli->output.now - options->since_s;
		while (range.begin < range.end &&
			output_number(json_array_get(history, range.begin), "time") < since) {
			range.begin++;
		}
	}
	if (options->count && range.end - range.begin > options->count) {
		range.begin = range.end - options->count;
	}
	return range;
}

static void print_table(const struct cli *cli, const json_t *history, struct range range)
{
	static const char *const headings[] = { "WHEN", "SUBJECT", "FROM", "TO", "WHY" };
	struct table *table = table_create(headings, 5, 0);
	for (size_t i = range.begin; i < range.end; i++) {
		const json_t *item = json_array_get(history, i);
		char when[32];
		output_relative(&cli->output, when, sizeof(when), output_number(item, "time"));
		table_cell(table, TABLE_DIM, when);
		table_cell(table, TABLE_PLAIN, output_text(item, "subject"));
		table_cell(table, TABLE_PLAIN, output_text(item, "from"));
		table_cell(table, TABLE_BOLD, output_text(item, "to"));
		table_cell(table, TABLE_PLAIN, output_text(item, "why"));
	}
	output_table_take(&cli->output, table);
}

void cli_print_history(const struct cli *cli, const json_t *history, size_t count)
{
	size_t size = json_array_size(history);
	print_table(cli, history, (struct range){ size > count ? size - count : 0, size });
}

static void print_array(const json_t *history, struct range range)
{
	json_t *chosen = json_array();
	for (size_t i = range.begin; i < range.end; i++) {
		json_array_append(chosen, json_array_get(history, i));
	}
	output_json(chosen);
	json_decref(chosen);
}

/* ---- with --follow ---- */

/* A line at a time: what comes later cannot widen a column. */
static void print_lines(const struct cli *cli, const json_t *history, struct range range)
{
	for (size_t i = range.begin; i < range.end; i++) {
		const json_t *item = json_array_get(history, i);
		char when[32];
		char text[1024];
		if (cli->output.json) {
			output_json_line(item);
			continue;
		}
		output_local_time(when, sizeof(when), output_number(item, "time"));
		snprintf(text, sizeof(text), "%s  %s: %s -> %s: %s", when,
			output_text(item, "subject"), output_text(item, "from"),
			output_text(item, "to"), output_text(item, "why"));
		output_line(text);
	}
	fflush(stdout);
}

/*
 * The index behind the last item that was shown; all are new when the agent no longer knows that
 * one.
 */
static size_t count_known(const json_t *history, const json_t *last)
{
	size_t i = json_array_size(history);
	while (i > 0 && !json_equal(json_array_get(history, i - 1), last)) {
		i--;
	}
	return i;
}

/* The agent is away: before its first answer that is a failure, later a remark. */
static int wait_for_agent(const struct berth_failure *failure, bool *away)
{
	static const struct timespec pause = { .tv_nsec = 200 * 1000 * 1000 };
	if (failure->code != BERTH_AGENT_UNAVAILABLE) {
		return output_failure(failure);
	}
	if (!*away) {
		output_note("%s; trying again", failure->message);
		*away = true;
	}
	nanosleep(&pause, NULL);
	return 0;
}

static int follow(struct cli *cli)
{
	char tag[BERTH_TAG_BYTES] = "";
	json_t *history;
	json_t *last = NULL; /* the last item shown; null: none */
	struct berth_failure failure;
	bool away = false;
	int status = 0;
	while (status == 0 && !ferror(stdout)) {
		int64_t until_ms = cli->output.terminal ? INT64_MAX
							: clock_monotonic_ms() + READER_MS;
		if (cli_await(cli, BERTH_HISTORY, tag, until_ms, &history, &failure) != 0) {
			bool same = failure.code == BERTH_TIMEOUT && last;
			status = same  ? 0
				: last ? wait_for_agent(&failure, &away)
				       : output_failure(&failure);
			status = status == 0 && output_wait(-1, 0) ? EXIT_FAILURE : status;
			continue;
		}
		away = false;
		size_t count = json_array_size(history);
		print_lines(cli, history,
			last ? (struct range){ count_known(history, last), count }
			     : choose(cli, history));
		json_decref(last);
		last = count ? json_incref(json_array_get(history, count - 1)) : json_null();
		json_decref(history);
	}
	json_decref(last);
	return status;
}

int verb_history(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (cli->options.follow) {
		return follow(cli);
	}
	if (berth_history(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *history = cli_parse_take(&answer);
	if (cli->output.json) {
		print_array(history, choose(cli, history));
	} else {
		print_table(cli, history, choose(cli, history));
	}
	json_decref(history);
	return 0;
}
