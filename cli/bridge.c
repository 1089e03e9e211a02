/*
 * bridge: the containers of this host and their records, as the host's agent sees them.
 */
#include "cli/cli.h"
#include "lib/base/array.h"
#include "lib/base/text.h"

#include <stdio.h>
#include <string.h>

static enum table_colour colour_of(const char *state)
{
	static const struct {
		const char *state;
		enum table_colour colour;
	} colours[] = {
		{ "registered", TABLE_GOOD },
		{ "refused", TABLE_BAD },
		{ "conflict", TABLE_BAD },
		{ "failed", TABLE_BAD },
		{ "stalled", TABLE_BAD },
		{ "served", TABLE_PLAIN },
		{ "empty", TABLE_DIM },
	};
	for (size_t i = 0; i < ARRAY_LEN(colours); i++) {
		if (strcmp(state, colours[i].state) == 0) {
			return colours[i].colour;
		}
	}
	return TABLE_WARN;
}

static void state_cells(const struct cli *cli, struct table *table, const json_t *item)
{
	char since[32];
	const char *state = output_text(item, "state");
	output_relative(&cli->output, since, sizeof(since), output_number(item, "since"));
	table_cell(table, colour_of(state), state);
	table_cell(table, TABLE_DIM, since);
}

/* The agent names no neighbour, since its words go to the container, too. */
static const char *holder_of(const json_t *containers, const char *path)
{
	size_t i;
	size_t j;
	json_t *container;
	json_t *record;
	json_array_foreach (containers, i, container) {
		json_array_foreach (json_object_get(container, "records"), j, record) {
			const char *state = output_text(record, "state");
			if (strcmp(output_text(record, "path"), path) == 0 &&
				strcmp(state, "conflict") != 0 && strcmp(state, "refused") != 0) {
				return output_text(container, "name");
			}
		}
	}
	return NULL;
}

static void conflict_line(struct table *table, const json_t *containers, const json_t *record)
{
	char line[2048];
	const char *holder = holder_of(containers, output_text(record, "path"));
	text_printf(line, sizeof(line), "%s%s%s", output_text(record, "why"), holder ? ": " : "",
		holder ? holder : "");
	table_line(table, TABLE_WARN, line);
}

static void record_row(const struct cli *cli, struct table *table, const json_t *containers,
	const json_t *container, const json_t *record)
{
	const char *state = output_text(record, "state");
	const char *why = output_text(record, "why");
	table_cell(table, TABLE_PLAIN, "");
	table_cell(table, TABLE_PLAIN, output_text(record, "path"));
	state_cells(cli, table, record);
	if (strcmp(state, "conflict") == 0) {
		conflict_line(table, containers, record);
	} else if (strcmp(state, "registered") != 0 && *why &&
		strcmp(why, output_text(container, "why")) != 0) {
		table_line(table, TABLE_WARN, why);
	}
}

/* Labels that cannot be used; the container's reason may be one of them. */
static void problem_lines(struct table *table, const json_t *container)
{
	size_t index;
	json_t *problem;
	json_array_foreach (json_object_get(container, "problems"), index, problem) {
		const char *text = json_string_value(problem);
		if (text && strcmp(text, output_text(container, "why")) != 0) {
			table_line(table, TABLE_WARN, text);
		}
	}
}

static void container_rows(const struct cli *cli, struct table *table, const json_t *containers,
	const json_t *container)
{
	size_t index;
	json_t *record;
	table_cell(table, TABLE_BOLD, output_text(container, "name"));
	table_cell(table, TABLE_PLAIN, "");
	state_cells(cli, table, container);
	if (*output_text(container, "why")) {
		table_line(table, colour_of(output_text(container, "state")),
			output_text(container, "why"));
	}
	problem_lines(table, container);
	json_array_foreach (json_object_get(container, "records"), index, record) {
		record_row(cli, table, containers, container, record);
	}
	if (json_is_true(json_object_get(container, "more"))) {
		table_line(table, TABLE_WARN, "there is more in its registry than is looked at");
	}
	if (json_is_true(json_object_get(container, "unbounded"))) {
		table_line(table, TABLE_WARN, "its registry/ is not a file system of its own");
	}
	if (json_is_true(json_object_get(container, "unsafe"))) {
		table_line(table, TABLE_WARN, "its registry/ is mounted without nosuid or nodev");
	}
}

/* A runtime that answers needs no line. */
static void runtime_row(const struct cli *cli, struct table *table, const json_t *runtime)
{
	char name[256];
	const char *why = output_text(runtime, "why");
	if (strcmp(output_text(runtime, "state"), "served") == 0 && !*why) {
		return;
	}
	text_printf(name, sizeof(name), "[runtime %s]", output_text(runtime, "name"));
	table_cell(table, TABLE_BOLD, name);
	table_cell(table, TABLE_PLAIN, "");
	state_cells(cli, table, runtime);
	if (*why) {
		table_line(table, TABLE_WARN, why);
	}
}

static void print(const struct cli *cli, const json_t *bridge)
{
	static const char *const headings[] = { "CONTAINER", "PATH", "STATE", "SINCE" };
	const json_t *containers = json_object_get(bridge, "containers");
	size_t index;
	json_t *item;
	struct table *table = table_create(headings, 4, 1);
	json_array_foreach (json_object_get(bridge, "runtimes"), index, item) {
		runtime_row(cli, table, item);
	}
	json_array_foreach (containers, index, item) {
		container_rows(cli, table, containers, item);
	}
	output_table_take(&cli->output, table);
	if (json_array_size(containers) == 0) {
		puts("no container is there");
	}
}

int verb_bridge(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (berth_bridge(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *bridge = cli_parse_take(&answer);
	if (cli->output.json) {
		output_json(bridge);
	} else {
		print(cli, bridge);
	}
	json_decref(bridge);
	return 0;
}
