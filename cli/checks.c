/* berth checks, berth run-check. */
#include "cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum table_colour colour_of_state(const json_t *check)
{
	if (strcmp(output_text(check, "state"), "up") != 0) {
		return strcmp(output_text(check, "state"), "down") == 0 ? TABLE_BAD : TABLE_WARN;
	}
	return json_is_true(json_object_get(check, "warning")) ? TABLE_WARN : TABLE_GOOD;
}

static enum table_colour colour_of_verdict(const char *verdict)
{
	return strcmp(verdict, "passing") == 0    ? TABLE_GOOD
		: strcmp(verdict, "warning") == 0 ? TABLE_WARN
						  : TABLE_BAD;
}

/* The last line of `output` that is not blank: its beginning, and its length. */
static const char *last_line(const char *output, int *ret_len)
{
	static const char blanks[] = " \t\r\n";
	size_t end = strlen(output);
	while (end > 0 && strchr(blanks, output[end - 1])) {
		end--;
	}
	size_t begin = end;
	while (begin > 0 && output[begin - 1] != '\n') {
		begin--;
	}
	*ret_len = (int)(end - begin);
	return output + begin;
}

/*
 * The line that matters. A check that passes says something in its first line; when one fails, the
 * agent knows how it ended and the last line tells why.
 */
static void summary(char *out, size_t size, const json_t *last)
{
	const char *verdict = output_text(last, "verdict");
	const char *detail = output_text(last, "detail");
	const char *output = output_text(last, "output");
	bool good = strcmp(verdict, "passing") == 0 || strcmp(verdict, "warning") == 0;
	int len;
	output += strspn(output, " \t\r\n");
	if (!*output) {
		snprintf(out, size, "%s", detail);
	} else if (good) {
		snprintf(out, size, "%.*s", (int)strcspn(output, "\r\n"), output);
	} else {
		const char *line = last_line(output, &len);
		snprintf(out, size, "%s: %.*s", detail, len, line);
	}
}

static void next_run(const struct cli *cli, char *out, size_t size, const json_t *check)
{
	double next = output_number(check, "next_run");
	if (json_is_true(json_object_get(check, "running"))) {
		snprintf(out, size, "running");
	} else if (json_is_true(json_object_get(check, "overdue"))) {
		snprintf(out, size, "overdue");
	} else if (next <= 0) {
		snprintf(out, size, "-");
	} else {
		output_relative(
			&cli->output, out, size, next > cli->output.now ? next : cli->output.now);
	}
}

static void check_row(const struct cli *cli, struct table *table, const json_t *check)
{
	char since[32];
	char took[32] = "-";
	char next[32];
	char said[256];
	const json_t *last = json_object_get(check, "last");
	const char *verdict = output_text(last, "verdict");
	output_relative(&cli->output, since, sizeof(since), output_number(check, "since"));
	if (json_is_object(last) && strcmp(output_text(check, "type"), "ttl") != 0) {
		output_duration(took, sizeof(took), output_number(last, "duration"));
	}
	next_run(cli, next, sizeof(next), check);
	summary(said, sizeof(said), last);
	table_cell(table, TABLE_PLAIN, output_text(check, "name"));
	table_cell(table, TABLE_PLAIN, output_text(check, "component"));
	table_cell(table, colour_of_state(check), output_text(check, "state"));
	table_cell(table, TABLE_PLAIN, since);
	table_cell(table, colour_of_verdict(verdict), *verdict ? verdict : "-");
	table_cell(table, TABLE_PLAIN, took);
	table_cell(table, TABLE_PLAIN, next);
	table_cell(table, TABLE_PLAIN, said);
}

void cli_print_checks(const struct cli *cli, const json_t *checks)
{
	static const char *const headings[] = { "CHECK", "COMPONENT", "STATE", "SINCE", "LAST",
		"TOOK", "NEXT", "SAID" };
	size_t index;
	json_t *check;
	if (json_array_size(checks) == 0) {
		fputs("no checks\n", stderr);
		return;
	}
	struct table *table = table_create(headings, 8, 0);
	json_array_foreach (checks, index, check) {
		check_row(cli, table, check);
	}
	output_table_take(&cli->output, table);
}

int verb_checks(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (berth_checks(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *checks = cli_parse_take(&answer);
	if (cli->output.json) {
		output_json(checks);
	} else {
		cli_print_checks(cli, checks);
	}
	json_decref(checks);
	return 0;
}

/* Everything that one run printed, line by line. */
static void print_result(const struct cli *cli, const json_t *check, const json_t *result)
{
	char took[32];
	const char *verdict = output_text(result, "verdict");
	const char *output = output_text(result, "output");
	struct table *table = table_create(NULL, 2, 0);
	table_cell(table, TABLE_DIM, "state");
	table_cell(table, colour_of_state(check), output_text(check, "state"));
	output_duration(took, sizeof(took), output_number(result, "duration"));
	table_cell(table, TABLE_DIM, "result");
	table_cell(table, colour_of_verdict(verdict), verdict);
	table_cell(table, TABLE_DIM, "detail");
	table_cell(table, TABLE_PLAIN, output_text(result, "detail"));
	table_cell(table, TABLE_DIM, "took");
	table_cell(table, TABLE_PLAIN, took);
	output_table_take(&cli->output, table);
	while (*output) {
		size_t len = strcspn(output, "\n");
		char *line = strndup(output, len);
		output_line(line ? line : "");
		free(line);
		output += len + (output[len] == '\n');
	}
	if (json_is_true(json_object_get(result, "output_cut"))) {
		puts("… (there was more)");
	}
}

int verb_run_check(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (!cli->options.timeout_ms) {
		berth_set_timeout(cli->berth, INT_MAX); /* the check has a timeout of its own */
	}
	if (berth_run_check(cli->berth, cli_operand(cli), &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *check = cli_parse_take(&answer);
	const json_t *result = json_object_get(check, "last");
	const char *verdict = output_text(result, "verdict");
	bool good = strcmp(verdict, "passing") == 0 || strcmp(verdict, "warning") == 0;
	if (cli->output.json) {
		output_json(check);
	} else {
		print_result(cli, check, result);
	}
	json_decref(check);
	return good ? 0 : EXIT_FAILURE;
}
