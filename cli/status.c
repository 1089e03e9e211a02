/* berth status. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/text.h"

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

/* Only where a restart would lose something. */
static void state_fact(const struct cli *cli, struct table *table, const json_t *state)
{
	char since[32];
	char text[768] = "not saved";
	size_t index;
	json_t *name;
	if (!json_is_false(json_object_get(state, "saved"))) {
		return;
	}
	json_array_foreach (json_object_get(state, "unsaved"), index, name) {
		size_t len = strlen(text);
		snprintf(text + len, sizeof(text) - len, "%s %s", index ? "," : ":",
			json_string_value(name));
	}
	output_relative(&cli->output, since, sizeof(since), output_number(state, "since"));
	size_t len = strlen(text);
	snprintf(
		text + len, sizeof(text) - len, ", since %s: %s", since, output_text(state, "why"));
	fact(table, "state", TABLE_BAD, text);
}

/* "2 served, 1 empty". */
static void counts_text(char *out, size_t size, const json_t *counts, const char *none)
{
	const char *word;
	json_t *count;
	text_printf(out, size, "%s", json_object_size(counts) ? "" : none);
	json_object_foreach ((json_t *)counts, word, count) {
		size_t used = strlen(out);
		text_printf(out + used, size - used, "%s%lld %s", used ? ", " : "",
			(long long)json_integer_value(count), word);
	}
}

static void bridge_fact(struct table *table, const json_t *bridge)
{
	char containers[256];
	char records[256];
	char text[600];
	if (!json_is_object(bridge)) {
		return;
	}
	bool served = strcmp(output_text(bridge, "state"), "served") == 0;
	const json_t *counts = json_object_get(bridge, "records");
	bool trouble = json_object_get(counts, "refused") || json_object_get(counts, "conflict") ||
		json_object_get(counts, "failed");
	counts_text(containers, sizeof(containers), json_object_get(bridge, "containers"), "none");
	counts_text(records, sizeof(records), counts, "none");
	fact(table, "bridge", TABLE_PLAIN, output_text(bridge, "directory"));
	text_printf(text, sizeof(text), served ? "containers: %s; records: %s" : "away", containers,
		records);
	fact(table, "", served && !trouble ? TABLE_GOOD : TABLE_BAD, text);
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
	bridge_fact(table, json_object_get(agent, "bridge"));
	drain_fact(cli, table, json_object_get(agent, "drain"));
	state_fact(cli, table, json_object_get(agent, "state"));
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

/* "rest http://h:80/, admin h:81": what the record announces. */
static char *announced(const json_t *addresses)
{
	const char *name;
	json_t *texts;
	char *out = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&out, &size);
	if (!stream) {
		return NULL;
	}
	json_object_foreach ((json_t *)addresses, name, texts) {
		size_t index;
		json_t *text;
		fprintf(stream, "%s%s", ftell(stream) > 0 ? ", " : "", name);
		json_array_foreach (texts, index, text) {
			const char *address = json_string_value(text);
			fprintf(stream, " %s", address ? address : "");
		}
	}
	fclose(stream);
	return out;
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
	char *addresses = registered ? announced(json_object_get(component, "addresses")) : NULL;
	if (addresses && *addresses) {
		table_line(table, TABLE_PLAIN, addresses);
	}
	free(addresses);
	table_line(table, registered ? TABLE_PLAIN : TABLE_WARN, why);
	const json_t *hook = json_object_get(component, "on_change");
	if (strcmp(output_text(hook, "state"), "failed") == 0) {
		snprintf(why, sizeof(why), "on_change failed: %s", output_text(hook, "why"));
		table_line(table, TABLE_BAD, why);
	}
}

static void output_row(const struct cli *cli, struct table *table, const json_t *output)
{
	char since[32];
	char instances[32];
	const char *state = output_text(output, "state");
	bool waits = strcmp(state, "waiting") == 0 || strcmp(state, "held") == 0;
	bool failed = strcmp(state, "failed") == 0;
	const char *path = output_text(output, "path");
	const char *why = output_text(output, "why");
	output_relative(&cli->output, since, sizeof(since), output_number(output, "since"));
	snprintf(instances, sizeof(instances), "%.0f", output_number(output, "instances"));
	table_cell(table, TABLE_PLAIN, output_text(output, "name"));
	table_cell(table, failed ? TABLE_BAD : waits ? TABLE_WARN : TABLE_GOOD, state);
	table_cell(table, TABLE_PLAIN, instances);
	table_cell(table, TABLE_PLAIN, since);
	table_line(table, TABLE_PLAIN, *path ? path : output_text(output, "socket"));
	if (*why) {
		table_line(table, failed ? TABLE_BAD : TABLE_WARN, why);
	}
}

static void registry_row(const struct cli *cli, struct table *table, const json_t *registry)
{
	char since[32];
	const char *state = output_text(registry, "state");
	bool connected = strcmp(state, "connected") == 0;
	output_relative(&cli->output, since, sizeof(since), output_number(registry, "since"));
	table_cell(table, TABLE_PLAIN, output_text(registry, "path"));
	table_cell(table, connected ? TABLE_GOOD : TABLE_BAD, state);
	table_cell(table, TABLE_PLAIN, since);
	table_line(table, TABLE_PLAIN, output_text(registry, "url"));
}

static void import_row(const struct cli *cli, struct table *table, const json_t *import)
{
	(void)cli;
	table_cell(table, TABLE_PLAIN, output_text(import, "name"));
	table_cell(table, TABLE_PLAIN, output_text(import, "type"));
	table_cell(table, TABLE_PLAIN, output_text(import, "as"));
	table_cell(table, TABLE_PLAIN, output_text(import, "from"));
}

/* The agent's arrays of that name, each a table if it is not empty. */
static const struct part {
	const char *name;
	const char *headings[4];
	size_t columns;
	void (*row)(const struct cli *cli, struct table *table, const json_t *item);
} parts[] = {
	{ "components", { "COMPONENT", "STATE", "SINCE" }, 3, component_row },
	{ "outputs", { "OUTPUT", "STATE", "INSTANCES", "SINCE" }, 4, output_row },
	{ "registries", { "REGISTRY", "STATE", "SINCE" }, 3, registry_row },
	{ "imports", { "IMPORT", "TYPE", "AS", "FROM" }, 4, import_row },
};

static void print_part(const struct cli *cli, const struct part *part, const json_t *items)
{
	size_t index;
	json_t *item;
	if (json_array_size(items) == 0) {
		return;
	}
	struct table *table = table_create(part->headings, part->columns, 0);
	json_array_foreach (items, index, item) {
		part->row(cli, table, item);
	}
	putchar('\n');
	output_table_take(&cli->output, table);
}

static void print_xds(const json_t *xds)
{
	if (!json_is_object(xds)) {
		return;
	}
	if (json_is_true(json_object_get(xds, "running"))) {
		printf("\nxds: %s, %lld connections, %lld names\n", output_text(xds, "listen"),
			(long long)json_integer_value(json_object_get(xds, "connections")),
			(long long)json_integer_value(json_object_get(xds, "names")));
	} else {
		printf("\nxds: %s, berth-xds does not run\n", output_text(xds, "listen"));
	}
}

/* The servers that names are not forwarded to, although they should be. */
static void print_dns(const json_t *dns)
{
	size_t index;
	json_t *server;
	json_array_foreach (json_object_get(dns, "forward"), index, server) {
		const char *why = output_text(server, "why");
		if (*why) {
			printf("\ndns: nothing is forwarded to %s: %s\n",
				output_text(server, "server"), why);
		}
	}
}

void cli_print_status(const struct cli *cli, const json_t *agent)
{
	size_t index;
	json_t *item;
	agent_facts(cli, agent);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		print_part(cli, &parts[i], json_object_get(agent, parts[i].name));
	}
	print_dns(json_object_get(agent, "dns"));
	print_xds(json_object_get(agent, "xds"));
	json_array_foreach (json_object_get(agent, "waits"), index, item) {
		printf("%swaits for an address: %s\n", index == 0 ? "\n" : "",
			json_string_value(item));
	}
	json_t *problems = json_object_get(agent, "reload_problems");
	if (json_array_size(problems)) {
		puts("\nThe configuration on disk is not the one in use:");
	}
	json_array_foreach (problems, index, item) {
		cli_print_problem(stdout, item);
	}
}

static bool all_registered(const json_t *agent)
{
	size_t index;
	json_t *component;
	json_array_foreach (json_object_get(agent, "components"), index, component) {
		if (!json_is_true(json_object_get(component, "registered"))) {
			return false;
		}
	}
	return true;
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
		cli_print_status(cli, agent);
	}
	bool good = !cli->options.exit_code || all_registered(agent);
	json_decref(agent);
	return good ? 0 : EXIT_FAILURE;
}
