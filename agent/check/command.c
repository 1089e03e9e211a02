#include "agent/check/command.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/check/match.h"
#include "agent/command/command.h"
#include "agent/config/value.h"

struct check_command {
	const struct config_check *config;
	struct check_run_callbacks callbacks;
	struct command *command;
	struct check_match *match; /* for stdout; NULL: no pattern */
};

/* ---- the launch ---- */

struct command_launch *check_command_launch(
	const struct config_check *config, const char *components, const char *paths)
{
	enum { STANDARD_VARIABLES = 3 };
	struct command_variable variables[STANDARD_VARIABLES + config->environment_count];
	variables[0] = (struct command_variable){ "BERTH_CHECK", config->name };
	variables[1] = (struct command_variable){ "BERTH_COMPONENT", components };
	variables[2] = (struct command_variable){ "BERTH_PATH", paths };
	for (size_t i = 0; i < config->environment_count; i++) {
		const struct config_name_value *pair = &config->environment[i];
		variables[STANDARD_VARIABLES + i] = (struct command_variable){ pair->name,
			pair->value };
	}
	struct command_limit limits[config->limit_count + 1];
	for (size_t i = 0; i < config->limit_count; i++) {
		uint64_t value = UINT64_MAX;
		struct err err = ERR_INIT; /* the configuration was verified when it was read */
		(void)config_parse_limit(config->limits[i].value, &value, &err);
		limits[i].resource = command_limit_resource(config->limits[i].name);
		limits[i].value = (struct rlimit){ (rlim_t)value, (rlim_t)value };
	}
	const struct command_launch_options options = {
		.variables = variables,
		.variable_count = STANDARD_VARIABLES + config->environment_count,
		.user = config->user,
		.cwd = config->cwd,
		.limits = limits,
		.limit_count = config->limit_count,
		.no_new_privileges = config->no_new_privileges,
	};
	return command_launch_create(&options);
}

/* ---- the judgement ---- */

static void judge_status(const struct config_check *config, const struct command_outcome *outcome,
	struct check_result *result)
{
	char text[COMMAND_STATUS_BYTES];
	command_status_text(text, outcome->end, outcome->status);
	check_result_set_detail(result, "%s", text);
	if (outcome->end == COMMAND_KILLED) {
		result->verdict = CHECK_FAILING;
	} else if (outcome->status == 0 || config->ignore_exit_status) {
		result->verdict = CHECK_PASSING;
	} else if (config_status_in_ranges(
			   config->warning_status, config->warning_status_count, outcome->status)) {
		result->verdict = CHECK_WARNING;
	} else {
		result->verdict = CHECK_FAILING;
	}
}

static void judge_output(const struct check_command *command, struct check_result *result)
{
	const struct config_check *config = command->config;
	if (!command->match || !check_verdict_good(result->verdict)) {
		return;
	}
	if (check_match_finish(command->match) == config->match_invert) {
		result->verdict = CHECK_FAILING;
		check_result_set_detail(result, "output %s: %s",
			config->match_invert ? "matches" : "does not match", config->match);
	}
}

/* The command's stdout, then its stderr, as far as there is room. */
static void show_output(const struct command_outcome *outcome, struct check_result *result)
{
	char text[CHECK_OUTPUT_BYTES];
	size_t len = outcome->output_len;
	size_t room = sizeof(text) - len;
	size_t errors_len = outcome->errors_len < room ? outcome->errors_len : room;
	memcpy(text, outcome->output, len);
	memcpy(text + len, outcome->errors, errors_len);
	check_result_set_output(result, text, len + errors_len,
		outcome->output_cut || outcome->errors_cut || errors_len < outcome->errors_len);
}

/* ---- the run ---- */

static void free_command(struct check_command *command)
{
	check_match_destroy(command->match);
	free(command);
}

static void on_output(void *context, const char *data, size_t len)
{
	struct check_command *command = context;
	if (command->match) {
		check_match_add(command->match, data, len);
	}
}

static void on_end(void *context, const struct command_outcome *outcome)
{
	struct check_command *command = context;
	struct check_result result = { .verdict = CHECK_TIMED_OUT };
	if (outcome->end == COMMAND_TIMED_OUT) {
		check_result_set_detail(&result, "no exit within %.9gs",
			(double)command->config->timeout_ms / 1000);
	} else {
		judge_status(command->config, outcome, &result);
		judge_output(command, &result);
	}
	show_output(outcome, &result);
	command->callbacks.on_result(command->callbacks.context, &result);
}

static void on_gone(void *context)
{
	struct check_command *command = context;
	struct check_run_callbacks callbacks = command->callbacks;
	free_command(command);
	callbacks.on_gone(callbacks.context);
}

struct check_command *check_command_start(struct ev_loop *loop, const struct config_check *config,
	const struct command_launch *launch, const struct check_run_callbacks *callbacks,
	struct err *err)
{
	struct check_command *command = allocate_zeroed(1, sizeof(*command));
	const struct command_callbacks own = { on_output, on_end, on_gone, command };
	const struct command_options options = {
		.argv = config->argv,
		.launch = launch,
		.output_max = CHECK_OUTPUT_BYTES,
		.separate_errors = *config->match != '\0',
		.timeout_ms = config->timeout_ms,
	};
	command->config = config;
	command->callbacks = *callbacks;
	if (*config->match) {
		command->match = check_match_create(config->match, config->match_ignore_case);
	}
	command->command = command_start(loop, &options, &own, err);
	if (!command->command) {
		free_command(command);
		return NULL;
	}
	return command;
}

void check_command_abandon(struct check_command *command)
{
	command_abandon(command->command);
	free_command(command);
}
