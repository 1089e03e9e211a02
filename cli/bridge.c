/*
 * bridge: the containers of this host and their records, as the host's agent sees them.
 */
#include "cli/cli.h"
#include "lib/base/array.h"

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

static void record_row(const struct cli *cli, struct table *table, const json_t *record)
{
	const char *state = output_text(record, "state");
	table_cell(table, TABLE_PLAIN, "");
	table_cell(table, TABLE_PLAIN, output_text(record, "path"));
	state_cells(cli, table, record);
	if (strcmp(state, "registered") != 0 && *output_text(record, "why")) {
		table_line(table, TABLE_WARN, output_text(record, "why"));
	}
}

static void container_rows(const struct cli *cli, struct table *table, const json_t *container)
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
	json_array_foreach (json_object_get(container, "records"), index, record) {
		record_row(cli, table, record);
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

static void print(const struct cli *cli, const json_t *containers)
{
	static const char *const headings[] = { "CONTAINER", "PATH", "STATE", "SINCE" };
	size_t index;
	json_t *container;
	if (json_array_size(containers) == 0) {
		puts("no container is there");
		return;
	}
	struct table *table = table_create(headings, 4, 1);
	json_array_foreach (containers, index, container) {
		container_rows(cli, table, container);
	}
	output_table_take(&cli->output, table);
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
		print(cli, json_object_get(bridge, "containers"));
	}
	json_decref(bridge);
	return 0;
}
