/*
 * Verbs that ask the agent to do something, and the probes.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/json_read.h"

/* ---- shared with other verbs of the agent ---- */

void cli_say_done(const struct cli *cli, const char *what)
{
	if (cli->output.terminal && !cli->output.json) {
		puts(what);
	}
}

int cli_await(struct cli *cli, enum berth_document document, char *tag, int64_t deadline_ms,
	json_t **ret, struct berth_failure *failure)
{
	enum { LONGEST_WAIT_S = 60 };
	struct berth_answer answer;
	int code;
	do {
		int64_t left_ms = deadline_ms - clock_monotonic_ms();
		/* Rounded up, so that the last wait covers the deadline. */
		int64_t left_s = left_ms > 0 ? (left_ms + 999) / 1000 : 0;
		unsigned wait_s = left_s < LONGEST_WAIT_S ? (unsigned)left_s : LONGEST_WAIT_S;
		code = berth_await(cli->berth, document, tag, wait_s, &answer, failure);
	} while (code == BERTH_TIMEOUT && clock_monotonic_ms() < deadline_ms);
	if (code == 0) {
		snprintf(tag, BERTH_TAG_BYTES, "%s", answer.tag);
		*ret = cli_parse_take(&answer);
	}
	return code;
}

/* ---- ready, live ---- */

static int probe_result(
	const struct cli *cli, const char *what, int code, const struct berth_failure *failure)
{
	if (cli->output.json && (code == 0 || code == BERTH_FAILED)) {
		json_t *json = json_pack(
			"{s:b, s:s*}", what, code == 0, "reason", code ? failure->message : NULL);
		output_json(json);
		json_decref(json);
		return code ? EXIT_FAILURE : 0;
	}
	if (code != 0) {
		return output_failure(failure);
	}
	cli_say_done(cli, what);
	return 0;
}

int verb_ready(struct cli *cli)
{
	struct berth_failure failure;
	int code = berth_ready(cli->berth, cli->options.away_ok, &failure);
	return probe_result(cli, "ready", code, &failure);
}

int verb_live(struct cli *cli)
{
	struct berth_failure failure;
	int code = berth_live(cli->berth, &failure);
	return probe_result(cli, "live", code, &failure);
}

/* ---- report, supply, withdraw ---- */

int verb_report(struct cli *cli)
{
	static const char *const names[] = {
		[BERTH_PASSING] = "passing",
		[BERTH_WARNING] = "warning",
		[BERTH_FAILING] = "failing",
	};
	struct berth_failure failure;
	const char *status = cli->options.operands[1];
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(status, names[i]) == 0) {
			int code = berth_report(cli->berth, cli_operand(cli), (enum berth_health)i,
				cli->options.message, &failure);
			return code ? output_failure(&failure) : 0;
		}
	}
	return output_usage("report: \"%s\" is not passing, warning or failing", status);
}

int verb_supply(struct cli *cli)
{
	struct berth_failure failure;
	const char *const *addresses = (const char *const *)cli->options.operands + 1;
	int code = berth_supply(
		cli->berth, cli_operand(cli), addresses, cli->options.operand_count - 1, &failure);
	return code ? output_failure(&failure) : 0;
}

int verb_withdraw(struct cli *cli)
{
	struct berth_failure failure;
	int code = berth_withdraw(cli->berth, cli_operand(cli), &failure);
	return code ? output_failure(&failure) : 0;
}

/* ---- reload ---- */

void cli_print_problem(FILE *out, const json_t *problem)
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

static void print_problems(const json_t *answer)
{
	size_t index;
	json_t *problem;
	json_array_foreach (json_object_get(answer, "problems"), index, problem) {
		cli_print_problem(stderr, problem);
	}
}

/* "[check http] interval: 10s -> 5s", "[endpoint rest of web] added" */
static void print_changes(const json_t *changes)
{
	size_t index;
	json_t *change;
	json_array_foreach (changes, index, change) {
		char text[1024];
		const char *key = output_text(change, "key");
		int len = snprintf(text, sizeof(text), "[%s] %s", output_text(change, "section"),
			*key ? key : output_text(change, "change"));
		if (*key && len > 0 && (size_t)len < sizeof(text)) {
			const char *from = output_text(change, "from");
			const char *to = output_text(change, "to");
			snprintf(text + len, sizeof(text) - (size_t)len, ": %s -> %s",
				*from ? from : "nothing", *to ? to : "nothing");
		}
		output_line(text);
	}
	if (json_array_size(changes) == 0) {
		puts("nothing would change");
	}
}

int verb_reload(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer answer;
	bool dry = cli->options.dry_run;
	int code = dry ? berth_try_reload(cli->berth, &answer, &failure)
		       : berth_reload(cli->berth, &answer, &failure);
	json_t *json = json_read_text(answer.json ? answer.json : "", 0);
	berth_answer_finish(&answer);
	if (cli->output.json && json) {
		output_json(json);
	} else {
		print_problems(json);
	}
	if (code == 0 && dry && !cli->output.json) {
		print_changes(json_object_get(json, "changes"));
	}
	json_decref(json);
	if (code != 0) {
		return output_failure(&failure);
	}
	if (!dry) {
		cli_say_done(cli, "reloaded");
	}
	return 0;
}
