#include "agent/check/probe.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/check/http.h"
#include "agent/check/match.h"
#include "agent/command/command.h"
#include "agent/config/value.h"
#include "lib/base/clock.h"

enum { TCP_ANSWER_BYTES = 64 * 1024 };

struct check_probe {
	const struct config_check *config;
	struct check_probe_callbacks callbacks;
	double started;
	double started_monotonic_s;
	struct command *command; /* one of these */
	struct check_socket *socket;
	struct check_match *match; /* for a command's stdout; NULL: no pattern */
};

static void free_probe(struct check_probe *probe)
{
	check_match_destroy(probe->match);
	free(probe);
}

static void complete(const struct check_probe *probe, struct check_result *result)
{
	const struct config_check *config = probe->config;
	result->started = probe->started;
	result->duration_s = clock_monotonic_s() - probe->started_monotonic_s;
	if (result->verdict == CHECK_PASSING && config->warn_time_ms > 0 &&
		result->duration_s * 1000 > (double)config->warn_time_ms) {
		result->verdict = CHECK_WARNING;
		check_result_set_detail(
			result, "slower than %.9gs", (double)config->warn_time_ms / 1000);
	}
}

static void report(struct check_probe *probe, struct check_result *result)
{
	complete(probe, result);
	probe->callbacks.on_result(probe->callbacks.context, result);
}

static void on_gone(void *context)
{
	struct check_probe *probe = context;
	struct check_probe_callbacks callbacks = probe->callbacks;
	free_probe(probe);
	callbacks.on_gone(callbacks.context);
}

/* ---- commands ---- */

struct command_launch *check_probe_launch(
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

static void judge_output(const struct check_probe *probe, struct check_result *result)
{
	const struct config_check *config = probe->config;
	if (!probe->match || !check_verdict_good(result->verdict)) {
		return;
	}
	if (check_match_finish(probe->match) == config->match_invert) {
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

static void on_output(void *context, const char *data, size_t len)
{
	struct check_probe *probe = context;
	if (probe->match) {
		check_match_add(probe->match, data, len);
	}
}

static void on_end(void *context, const struct command_outcome *outcome)
{
	struct check_probe *probe = context;
	struct check_result result = { .verdict = CHECK_TIMED_OUT };
	if (outcome->end == COMMAND_TIMED_OUT) {
		check_result_set_detail(
			&result, "no exit within %.9gs", (double)probe->config->timeout_ms / 1000);
	} else {
		judge_status(probe->config, outcome, &result);
		judge_output(probe, &result);
	}
	show_output(outcome, &result);
	report(probe, &result);
}

static void start_command(struct check_probe *probe, struct ev_loop *loop,
	const struct command_launch *launch, struct check_result *result)
{
	const struct config_check *config = probe->config;
	const struct command_callbacks callbacks = { on_output, on_end, on_gone, probe };
	const struct command_options options = {
		.argv = config->argv,
		.launch = launch,
		.output_max = CHECK_OUTPUT_BYTES,
		.separate_errors = *config->match != '\0',
		.timeout_ms = config->timeout_ms,
	};
	struct err err = ERR_INIT;
	if (*config->match) {
		probe->match = check_match_create(config->match, config->match_ignore_case);
	}
	probe->command = command_start(loop, &options, &callbacks, &err);
	if (!probe->command) {
		result->verdict = CHECK_COULD_NOT_RUN;
		check_result_set_detail(result, "%s", err.msg);
	}
}

/* ---- tcp and http ---- */

static bool judge_tcp(const struct config_check *config, const char *answer, size_t len,
	bool complete_answer, struct check_result *result)
{
	bool found = config->expect_len == 0 ||
		memmem(answer, len, config->expect, config->expect_len);
	if (!found && !complete_answer) {
		return false;
	}
	result->verdict = found ? CHECK_PASSING : CHECK_FAILING;
	if (config->expect_len == 0) {
		check_result_set_detail(result, "connected");
	} else {
		check_result_set_detail(result, "%s in an answer of %zu bytes",
			found ? "expected bytes found" : "expected bytes not found", len);
	}
	/* The check looks at no more than this part of the answer, so nothing counts as cut. */
	check_result_set_output(result, answer, len, false);
	return true;
}

static void on_socket_result(void *context, const struct check_result *said)
{
	struct check_probe *probe = context;
	struct check_result result = *said;
	probe->socket = NULL;
	report(probe, &result);
	on_gone(probe);
}

static void start_tcp(struct check_probe *probe, struct ev_loop *loop)
{
	const struct check_socket_exchange exchange = {
		.send = probe->config->send,
		.send_len = probe->config->send_len,
		.answer_max = TCP_ANSWER_BYTES,
		.judge = judge_tcp,
	};
	probe->socket = check_socket_start(loop, probe->config, &exchange, on_socket_result, probe);
}

static void start_http(struct check_probe *probe, struct ev_loop *loop, struct check_result *result)
{
	struct check_socket_exchange exchange;
	struct buffer request;
	buffer_init(&request, CHECK_HTTP_REQUEST_BYTES);
	if (check_http_exchange(probe->config, &request, &exchange)) {
		probe->socket = check_socket_start(
			loop, probe->config, &exchange, on_socket_result, probe);
	} else {
		result->verdict = CHECK_COULD_NOT_RUN;
		check_result_set_detail(
			result, "the request is longer than %d bytes", CHECK_HTTP_REQUEST_BYTES);
	}
	buffer_finish(&request);
}

/* ---- life ---- */

struct check_probe *check_probe_start(struct ev_loop *loop, const struct config_check *config,
	const struct command_launch *launch, const struct check_probe_callbacks *callbacks,
	struct check_result *result)
{
	struct check_probe *probe = allocate_zeroed(1, sizeof(*probe));
	probe->config = config;
	probe->callbacks = *callbacks;
	probe->started = clock_wall_s();
	probe->started_monotonic_s = clock_monotonic_s();
	switch (config->type) {
	case CHECK_COMMAND:
		start_command(probe, loop, launch, result);
		break;
	case CHECK_TCP:
		start_tcp(probe, loop);
		break;
	case CHECK_HTTP:
		start_http(probe, loop, result);
		break;
	case CHECK_TTL:
		break;
	}
	if (!probe->command && !probe->socket) {
		complete(probe, result);
		free_probe(probe);
		return NULL;
	}
	return probe;
}

void check_probe_abandon(struct check_probe *probe)
{
	if (!probe) {
		return;
	}
	if (probe->command) {
		command_abandon(probe->command);
	} else {
		check_socket_abandon(probe->socket);
	}
	free_probe(probe);
}
