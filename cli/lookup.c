/* Look-ups of nodes: berth resolve, ls, records, stat, exists, find. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/json_text.h"
#include "lib/base/json_wide.h"
#include "lib/program/memory.h"
#include "lib/record/record.h"

json_t *cli_parse_take(struct berth_answer *answer)
{
	json_error_t error;
	json_t *json = json_wide_loadb(answer->json, answer->len, JSON_DECODE_ANY, &error);
	berth_answer_finish(answer);
	if (!json) {
		fprintf(stderr, "berth: the answer is not JSON: %s\n", error.text);
		exit(EXIT_FAILURE);
	}
	return json;
}

int cli_lookup_failure(const struct cli *cli, const struct berth_failure *failure)
{
	struct berth_freshness freshness = berth_last_freshness(cli->berth);
	const char *path = cli_operand(cli);
	int status = failure->code == BERTH_INVALID_PATHNAME && *path != '/' && strchr(path, '.')
		? output_failure(&(struct berth_failure){ BERTH_INVALID_PATHNAME,
			  "a path begins with /; for a name there is: berth host NAME" })
		: output_failure(failure);
	output_freshness(&freshness);
	return status;
}

/* ---- resolve ---- */

static void add_endpoint(struct table *table, const struct record_endpoint *endpoint)
{
	size_t index;
	json_t *address;
	json_array_foreach (endpoint->addresses, index, address) {
		char *text;
		if (record_address_text(endpoint->address_type, address, &text)) {
			memory_must(NULL);
		}
		if (!text) {
			text = memory_must(json_text(address, JSON_COMPACT));
		}
		table_cell(table, TABLE_PLAIN, endpoint->scope);
		table_cell(table, TABLE_PLAIN, endpoint->api);
		table_cell(table, TABLE_PLAIN, endpoint->protocol);
		table_cell(table, TABLE_GOOD, text);
		free(text);
	}
}

static void print_attributes(const struct cli *cli, const json_t *record)
{
	const char *key;
	json_t *value;
	struct table *table = table_create(NULL, 2, 0);
	json_object_foreach ((json_t *)record, key, value) {
		if (strcmp(key, "external") == 0 || strcmp(key, "internal") == 0) {
			continue;
		}
		char *text = memory_must(json_is_string(value)
				? strdup(json_string_value(value))
				: json_text(value, JSON_COMPACT | JSON_ENCODE_ANY));
		table_cell(table, TABLE_DIM, key);
		table_cell(table, TABLE_PLAIN, text);
		free(text);
	}
	output_table_take(&cli->output, table);
}

static void print_endpoints_of(const struct cli *cli, const struct record *record)
{
	static const char *const headings[] = { "SCOPE", "API", "PROTOCOL", "ADDRESS" };
	if (record_endpoint_count(record) == 0) {
		return;
	}
	struct table *table = table_create(headings, 4, 3);
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		add_endpoint(table, &endpoint);
	}
	putchar('\n');
	output_table_take(&cli->output, table);
}

/* Decoded as a record, since that reader knows the spellings of other programs. */
static int print_record(const struct cli *cli, const struct berth_answer *answer)
{
	struct berth_failure failure;
	struct err err = ERR_INIT;
	struct record *record = NULL;
	if (record_decode(&record, answer->json, answer->len, &err) != 0) {
		failure.code = err.code;
		snprintf(failure.message, sizeof(failure.message), "%s", err.msg);
		return output_failure(&failure);
	}
	print_attributes(cli, record_json(record));
	print_endpoints_of(cli, record);
	record_free(record);
	return 0;
}

int verb_resolve(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (berth_resolve(cli->berth, cli_operand(cli), &answer, &failure) != 0) {
		return cli_lookup_failure(cli, &failure);
	}
	struct berth_freshness freshness = answer.freshness;
	int status = 0;
	if (cli->output.json) {
		json_t *record = cli_parse_take(&answer);
		output_json(record);
		json_decref(record);
	} else {
		status = print_record(cli, &answer);
		berth_answer_finish(&answer);
	}
	output_freshness(&freshness);
	return status;
}

/* ---- ls ---- */

static json_t *json_of_stat(const char *path, const struct berth_stat *stat)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I}", "path", path, "time",
		(json_int_t)stat->time_ms, "size", (json_int_t)stat->size, "children",
		(json_int_t)stat->children, "foreign", (json_int_t)stat->foreign);
}

static void add_stat(
	const struct cli *cli, struct table *table, const char *path, const struct berth_stat *stat)
{
	char text[32];
	output_relative(&cli->output, text, sizeof(text), (double)stat->time_ms / 1000);
	table_cell(table, TABLE_PLAIN, text);
	snprintf(text, sizeof(text), "%zu", stat->size);
	table_cell(table, TABLE_PLAIN, stat->size ? text : "-");
	snprintf(text, sizeof(text), "%zu", stat->children);
	table_cell(table, TABLE_PLAIN, stat->children ? text : "-");
	table_cell(table, TABLE_PLAIN, path);
}

static int list_long(struct cli *cli, const struct berth_paths *paths)
{
	static const char *const headings[] = { "CREATED", "BYTES", "CHILDREN", "PATH" };
	struct berth_failure failure;
	struct table *table = table_create(headings, 4, 3);
	json_t *array = json_array();
	int status = 0;
	for (size_t i = 0; status == 0 && i < paths->count; i++) {
		struct berth_stat stat;
		int code = berth_stat(cli->berth, paths->items[i], &stat, &failure);
		if (code == 0) {
			add_stat(cli, table, paths->items[i], &stat);
			json_array_append_new(array, json_of_stat(paths->items[i], &stat));
		} else if (code != BERTH_PATH_NOT_FOUND) {
			/* A node that went away meanwhile is just not in the answer. */
			status = output_failure(&failure);
		}
	}
	if (cli->output.json) {
		output_json(array);
		table_free(table);
	} else {
		output_table_take(&cli->output, table);
	}
	json_decref(array);
	return status;
}

static void list_short(const struct cli *cli, const struct berth_paths *paths)
{
	json_t *array = json_array();
	for (size_t i = 0; i < paths->count; i++) {
		if (cli->output.json) {
			json_array_append_new(array, json_string(paths->items[i]));
		} else {
			output_line(paths->items[i]);
		}
	}
	if (cli->output.json) {
		output_json(array);
	}
	json_decref(array);
}

/* Programs that read the list as paths do not meet them in JSON. */
static void list_foreign(const struct cli *cli, const struct berth_paths *paths)
{
	for (size_t i = 0; i < paths->foreign_count; i++) {
		fprintf(cli->output.json ? stderr : stdout, "%s (foreign)\n", paths->foreign[i]);
	}
}

int verb_ls(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_paths paths;
	if (berth_list(cli->berth, cli_operand(cli), &paths, &failure) != 0) {
		return cli_lookup_failure(cli, &failure);
	}
	int status = 0;
	if (cli->options.long_list) {
		status = list_long(cli, &paths);
	} else {
		list_short(cli, &paths);
	}
	list_foreign(cli, &paths);
	output_freshness(&paths.freshness);
	berth_paths_finish(&paths);
	return status;
}

/* ---- records, find ---- */

void cli_print_records(const struct cli *cli, const json_t *records)
{
	static const char *const headings[] = { "PATH", "PERSISTENCE", "ENDPOINTS", "DESCRIPTION" };
	const char *path;
	json_t *record;
	struct table *table = table_create(headings, 4, 0);
	json_object_foreach ((json_t *)records, path, record) {
		char count[32];
		snprintf(count, sizeof(count), "%zu",
			json_array_size(json_object_get(record, "external")) +
				json_array_size(json_object_get(record, "internal")));
		table_cell(table, TABLE_PLAIN, path);
		table_cell(table, TABLE_PLAIN, output_text(record, "yarn:persistence"));
		table_cell(table, TABLE_PLAIN, count);
		table_cell(table, TABLE_PLAIN, output_text(record, "description"));
	}
	output_table_take(&cli->output, table);
}

static int print_records_answer(struct cli *cli, struct berth_answer *answer)
{
	static const struct berth_failure none = { BERTH_NO_RECORD, "no record matches" };
	struct berth_freshness freshness = answer->freshness;
	json_t *records = cli_parse_take(answer);
	bool found = json_object_size(records) > 0;
	if (cli->output.json) {
		output_json(records);
	} else if (found) {
		cli_print_records(cli, records);
	}
	output_freshness(&freshness);
	json_decref(records);
	return found ? 0 : output_failure(&none);
}

int verb_records(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (berth_records(cli->berth, cli_operand(cli), &answer, &failure) != 0) {
		return cli_lookup_failure(cli, &failure);
	}
	return print_records_answer(cli, &answer);
}

static void on_progress(void *context, size_t visited, size_t matches)
{
	const struct cli *cli = context;
	output_progress(&cli->output, visited, matches);
}

int verb_find(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	struct berth_criteria criteria = {
		.under = cli->options.under,
		.api = cli->options.api,
		.protocol = cli->options.protocol,
		.type = cli->options.type,
		.id = cli->options.id,
		.persistence = cli->options.persistence,
	};
	const char *const *attributes = cli->options.attributes;
	int code = *attributes
		? berth_find_with_attributes(cli->berth, &criteria, attributes, &answer, &failure)
		: berth_find(cli->berth, &criteria, on_progress, cli, &answer, &failure);
	output_progress_end(&cli->output);
	return code ? cli_lookup_failure(cli, &failure) : print_records_answer(cli, &answer);
}

/* ---- stat, exists ---- */

static void stat_row(struct table *table, const char *name, const char *value)
{
	table_cell(table, TABLE_DIM, name);
	table_cell(table, TABLE_PLAIN, value);
}

static void print_stat(const struct cli *cli, const struct berth_stat *stat)
{
	char when[32];
	char ago[32];
	char text[80];
	struct table *table = table_create(NULL, 2, 0);
	output_local_time(when, sizeof(when), (double)stat->time_ms / 1000);
	output_relative(&cli->output, ago, sizeof(ago), (double)stat->time_ms / 1000);
	stat_row(table, "path", cli_operand(cli));
	snprintf(text, sizeof(text), "%s (%s)", when, ago);
	stat_row(table, "created", text);
	snprintf(text, sizeof(text), "%zu bytes", stat->size);
	stat_row(table, "size", text);
	snprintf(text, sizeof(text), "%zu", stat->children);
	stat_row(table, "children", text);
	if (stat->foreign) {
		snprintf(text, sizeof(text), "%zu, which no path can name", stat->foreign);
		stat_row(table, "foreign", text);
	}
	output_table_take(&cli->output, table);
}

int verb_stat(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_stat stat;
	if (berth_stat(cli->berth, cli_operand(cli), &stat, &failure) != 0) {
		return cli_lookup_failure(cli, &failure);
	}
	if (cli->output.json) {
		json_t *json = json_of_stat(cli_operand(cli), &stat);
		output_json(json);
		json_decref(json);
	} else {
		print_stat(cli, &stat);
	}
	output_freshness(&stat.freshness);
	return 0;
}

int verb_exists(struct cli *cli)
{
	struct berth_failure failure;
	int exists = berth_exists(cli->berth, cli_operand(cli), &failure);
	if (exists < 0) {
		return cli_lookup_failure(cli, &failure);
	}
	if (cli->output.json) {
		json_t *json = json_boolean(exists);
		output_json(json);
		json_decref(json);
	} else if (cli->output.terminal) {
		puts(exists ? "yes" : "no");
	}
	struct berth_freshness freshness = berth_last_freshness(cli->berth);
	output_freshness(&freshness);
	return exists ? 0 : 3;
}
