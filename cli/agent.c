#include "cli/cli.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"

/* A problem of the configuration: "file:line: message". */
static void print_problem(FILE *out, const json_t *problem)
{
	char text[1024];
	double line = output_number(problem, "line");
	if (line > 0) {
		snprintf(text, sizeof(text), "%s:%.0f: %s", output_text(problem, "file"), line,
			output_text(problem, "message"));
	} else {
		snprintf(text, sizeof(text), "%s: %s", output_text(problem, "file"),
			output_text(problem, "message"));
	}
	char *escaped = table_escape(text);
	fprintf(out, "%s\n", escaped);
	free(escaped);
}

/* ---- status ----------------------------------------------------------------------------------- */

static void fact(struct table *table, const char *name, enum table_colour colour, const char *text)
{
	table_cell(table, TABLE_DIM, name);
	table_cell(table, colour, text);
}

static void registry_fact(const struct cli *cli, struct table *table, const json_t *registry)
{
	char since[32];
	char text[768];
	const char *state = output_text(registry, "state");
	const char *session = output_text(registry, "session");
	output_relative(&cli->output, since, sizeof(since), output_number(registry, "since"));
	snprintf(text, sizeof(text), "%s, since %s", state, since);
	bool connected = strcmp(state, "connected") == 0;
	fact(table, "registry", TABLE_PLAIN, output_text(registry, "url"));
	fact(table, "", connected ? TABLE_GOOD : TABLE_BAD, text);
	if (*session) {
		snprintf(text, sizeof(text), "session %s", session);
		fact(table, "", TABLE_DIM, text);
	}
}

static void drain_fact(const struct cli *cli, struct table *table, const json_t *drain)
{
	char when[32];
	char text[512];
	if (!json_is_true(json_object_get(drain, "active"))) {
		return;
	}
	const char *reason = output_text(drain, "reason");
	output_relative(&cli->output, when, sizeof(when), output_number(drain, "since"));
	int len = snprintf(
		text, sizeof(text), "begun %s%s%.300s", when, *reason ? ": " : "", reason);
	double until = output_number(drain, "until");
	if (until > 0 && len > 0 && (size_t)len < sizeof(text)) {
		output_relative(&cli->output, when, sizeof(when), until);
		snprintf(text + len, sizeof(text) - (size_t)len, "; ends %s", when);
	}
	fact(table, "drain", TABLE_WARN, text);
}

static void agent_facts(const struct cli *cli, const json_t *agent)
{
	char duration[32];
	char text[256];
	struct table *table = table_create(NULL, 2, 0);
	output_duration(duration, sizeof(duration), output_number(agent, "uptime"));
	snprintf(text, sizeof(text), "berthd %s, pid %.0f, running for %s",
		output_text(agent, "version"), output_number(agent, "pid"), duration);
	fact(table, "agent", TABLE_PLAIN, text);
	registry_fact(cli, table, json_object_get(agent, "registry"));
	drain_fact(cli, table, json_object_get(agent, "drain"));
	const json_t *main_process = json_object_get(agent, "main_process");
	if (json_is_object(main_process)) {
		bool running = json_is_true(json_object_get(main_process, "running"));
		snprintf(text, sizeof(text), running ? "running, pid %.0f" : "not running",
			output_number(main_process, "pid"));
		fact(table, "process", running ? TABLE_GOOD : TABLE_BAD, text);
	}
	output_table_take(&cli->output, table);
}

/* "rest in, admin unsupplied": only when some are not in. */
static void endpoint_states(char *out, size_t size, const json_t *endpoints)
{
	const char *name;
	json_t *state;
	size_t used = 0;
	*out = '\0';
	json_object_foreach ((json_t *)endpoints, name, state) {
		const char *text = json_string_value(state);
		if (text && strcmp(text, "in") != 0 && used < size) {
			int len = snprintf(
				out + used, size - used, "%s%s %s", used ? ", " : "", name, text);
			used += len > 0 ? (size_t)len : 0;
		}
	}
}

static void component_row(const struct cli *cli, struct table *table, const json_t *component)
{
	char since[32];
	char why[512];
	char endpoints[256];
	bool registered = json_is_true(json_object_get(component, "registered"));
	output_relative(&cli->output, since, sizeof(since), output_number(component, "since"));
	endpoint_states(endpoints, sizeof(endpoints), json_object_get(component, "endpoints"));
	snprintf(why, sizeof(why), "%s%s%s%s", output_text(component, "reason"),
		*endpoints ? " [" : "", endpoints, *endpoints ? "]" : "");
	table_cell(table, TABLE_PLAIN, output_text(component, "name"));
	table_cell(table, registered ? TABLE_GOOD : TABLE_BAD, output_text(component, "state"));
	table_cell(table, TABLE_PLAIN, since);
	table_line(table, TABLE_PLAIN, output_text(component, "path"));
	table_line(table, registered ? TABLE_PLAIN : TABLE_WARN, why);
}

static void print_status(const struct cli *cli, const json_t *agent)
{
	static const char *const headings[] = { "COMPONENT", "STATE", "SINCE" };
	size_t index;
	json_t *item;
	agent_facts(cli, agent);
	if (json_array_size(json_object_get(agent, "components"))) {
		struct table *table = table_create(headings, 3, 0);
		json_array_foreach (json_object_get(agent, "components"), index, item) {
			component_row(cli, table, item);
		}
		putchar('\n');
		output_table_take(&cli->output, table);
	}
	json_t *problems = json_object_get(agent, "reload_problems");
	if (json_array_size(problems)) {
		puts("\nThe configuration on disk is not the one in use:");
	}
	json_array_foreach (problems, index, item) {
		print_problem(stdout, item);
	}
}

int verb_status(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (berth_status(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *agent = cli_parse_take(&answer);
	if (cli->output.json) {
		output_json(agent);
	} else {
		print_status(cli, agent);
	}
	json_decref(agent);
	return 0;
}

/* ---- history ---------------------------------------------------------------------------------- */

static void print_history(const struct cli *cli, const json_t *history)
{
	static const char *const headings[] = { "WHEN", "SUBJECT", "FROM", "TO", "WHY" };
	size_t index;
	json_t *item;
	struct table *table = table_create(headings, 5, 0);
	json_array_foreach (history, index, item) {
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

int verb_history(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (berth_history(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *history = cli_parse_take(&answer);
	if (cli->output.json) {
		output_json(history);
	} else {
		print_history(cli, history);
	}
	json_decref(history);
	return 0;
}

/* ---- drain, undrain --------------------------------------------------------------------------- */

/* What a drain still waits for, or "" when it is done. */
static void drain_remains(char *out, size_t size, const json_t *agent)
{
	size_t index;
	json_t *component;
	size_t left = 0;
	const json_t *components = json_object_get(agent, "components");
	const json_t *drain = json_object_get(agent, "drain");
	json_array_foreach (components, index, component) {
		left += json_is_true(json_object_get(component, "registered")) ||
			!json_is_true(json_object_get(component, "settled"));
	}
	*out = '\0';
	if (left) {
		snprintf(out, size, "deregistering: %zu of %zu components left", left,
			json_array_size(components));
	} else if (!json_is_true(json_object_get(drain, "done"))) {
		snprintf(out, size, "deregistered; waiting until nobody uses the old answers");
	}
}

static bool drain_ended(const json_t *agent)
{
	return !json_is_true(json_object_get(json_object_get(agent, "drain"), "active"));
}

static int drain_timed_out(const char *remains)
{
	struct berth_failure failure = { .code = BERTH_TIMEOUT };
	snprintf(failure.message, sizeof(failure.message), "%s; the drain goes on", remains);
	return output_failure(&failure);
}

/* As long as it takes, unless --timeout says how long. */
static int wait_for_drain(struct cli *cli)
{
	int64_t until_ms = cli->options.timeout_ms ? clock_monotonic_ms() + cli->options.timeout_ms
						   : INT64_MAX;
	static const struct berth_failure ended = { BERTH_FAILED,
		"the drain was ended by somebody else" };
	static const struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
	for (;;) {
		struct berth_failure failure;
		struct berth_answer answer;
		char remains[128];
		if (berth_status(cli->berth, &answer, &failure) != 0) {
			output_progress_end(&cli->output);
			return output_failure(&failure);
		}
		json_t *agent = cli_parse_take(&answer);
		bool gone = drain_ended(agent);
		drain_remains(remains, sizeof(remains), agent);
		json_decref(agent);
		if (gone || !*remains) {
			output_progress_end(&cli->output);
			return gone ? output_failure(&ended) : 0;
		}
		if (clock_monotonic_ms() >= until_ms) {
			output_progress_end(&cli->output);
			return drain_timed_out(remains);
		}
		output_progress_text(&cli->output, remains);
		nanosleep(&pause, NULL);
	}
}

/* What was done, for eyes, on a terminal only: programs look at the exit status. */
static void say_done(const struct cli *cli, const char *what)
{
	if (cli->output.terminal && !cli->output.json) {
		puts(what);
	}
}

/* The end of drain and undrain: as JSON the drain as it is now. */
static int drain_done(struct cli *cli, const char *what)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (!cli->output.json) {
		say_done(cli, what);
		return 0;
	}
	if (berth_status(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *agent = cli_parse_take(&answer);
	output_json(json_object_get(agent, "drain"));
	json_decref(agent);
	return 0;
}

int verb_drain(struct cli *cli)
{
	struct berth_failure failure;
	if (berth_drain(cli->berth, cli->options.reason, cli->options.for_s, &failure) != 0) {
		return output_failure(&failure);
	}
	if (!cli->options.wait) {
		return drain_done(cli, "draining");
	}
	int status = wait_for_drain(cli);
	return status ? status
		      : drain_done(cli, "drained: the registry no longer shows this container");
}

int verb_undrain(struct cli *cli)
{
	struct berth_failure failure;
	if (berth_undrain(cli->berth, &failure) != 0) {
		return output_failure(&failure);
	}
	return drain_done(cli, "the drain is over");
}

/* ---- reload ----------------------------------------------------------------------------------- */

static void print_problems(const json_t *answer)
{
	size_t index;
	json_t *problem;
	json_array_foreach (json_object_get(answer, "problems"), index, problem) {
		print_problem(stderr, problem);
	}
}

int verb_reload(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	int code = berth_reload(cli->berth, &answer, &failure);
	json_t *json = json_loads(answer.json ? answer.json : "", 0, NULL);
	berth_answer_finish(&answer);
	if (cli->output.json && json) {
		output_json(json);
	} else {
		print_problems(json);
	}
	json_decref(json);
	if (code != 0) {
		return output_failure(&failure);
	}
	say_done(cli, "reloaded");
	return 0;
}
