/*
 * drain, undrain and undamp: for the whole agent, or for one component of it.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"

/* The component's part of the agent's state; NULL when the agent has none of that name. */
static const json_t *component_named(const json_t *agent, const char *name)
{
	size_t index;
	json_t *component;
	json_array_foreach (json_object_get(agent, "components"), index, component) {
		if (strcmp(output_text(component, "name"), name) == 0) {
			return component;
		}
	}
	return NULL;
}

/* The drain of the component, or of the agent when `name` is NULL. */
static const json_t *drain_of(const json_t *agent, const char *name)
{
	return json_object_get(name ? component_named(agent, name) : agent, "drain");
}

static bool is_gone(const json_t *component)
{
	return !json_is_true(json_object_get(component, "registered")) &&
		json_is_true(json_object_get(component, "settled"));
}

/* Says what a drain still waits for; "" when it is done. */
static void drain_remains(char *out, size_t size, const json_t *agent, const char *name)
{
	size_t index;
	json_t *component;
	size_t left = 0;
	const json_t *components = json_object_get(agent, "components");
	json_array_foreach (components, index, component) {
		bool chosen = !name || strcmp(output_text(component, "name"), name) == 0;
		left += chosen && !is_gone(component);
	}
	*out = '\0';
	if (left) {
		snprintf(out, size, "deregistering: %zu of %zu components left", left,
			name ? 1 : json_array_size(components));
	} else if (!json_is_true(json_object_get(drain_of(agent, name), "done"))) {
		snprintf(out, size, "deregistered; the drain delay has not passed yet");
	}
}

static int drain_timed_out(const char *remains)
{
	struct berth_failure failure = { .code = BERTH_TIMEOUT };
	snprintf(failure.message, sizeof(failure.message), "%s; the drain goes on", remains);
	return output_failure(&failure);
}

/* Waits as long as the drain takes, unless --timeout says how long. */
static int wait_for_drain(struct cli *cli, const char *name)
{
	static const struct berth_failure ended = { BERTH_FAILED,
		"another client ended the drain" };
	int timeout_ms = cli->options.timeout_ms;
	int64_t deadline_ms = timeout_ms ? clock_monotonic_ms() + timeout_ms : INT64_MAX;
	char tag[BERTH_TAG_BYTES] = "";
	char remains[128] = "";
	for (;;) {
		struct berth_failure failure;
		json_t *agent;
		int code = cli_await(cli, BERTH_STATUS, tag, deadline_ms, &agent, &failure);
		if (code != 0) {
			output_progress_end(&cli->output);
			return code == BERTH_TIMEOUT ? drain_timed_out(remains)
						     : output_failure(&failure);
		}
		bool active = json_is_true(json_object_get(drain_of(agent, name), "active"));
		drain_remains(remains, sizeof(remains), agent, name);
		json_decref(agent);
		if (!active || !*remains) {
			output_progress_end(&cli->output);
			return active ? 0 : output_failure(&ended);
		}
		if (clock_monotonic_ms() >= deadline_ms) {
			output_progress_end(&cli->output);
			return drain_timed_out(remains);
		}
		output_progress_text(&cli->output, remains);
	}
}

/* An agent that keeps no state loses it all; an older one does not say. */
static bool is_saved(const json_t *state)
{
	size_t index;
	json_t *name;
	const json_t *unsaved = json_object_get(state, "unsaved");
	if (!json_is_false(json_object_get(state, "saved")) || !unsaved) {
		return true;
	}
	json_array_foreach (unsaved, index, name) {
		if (strcmp(json_string_value(name), "drain") == 0) {
			return false;
		}
	}
	return json_array_size(unsaved) > 0;
}

/* The end of drain and undrain: as JSON the drain as it is now. */
static int drain_done(struct cli *cli, const char *name, const char *what)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (berth_status(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *agent = cli_parse_take(&answer);
	const json_t *state = json_object_get(agent, "state");
	const json_t *drain = drain_of(agent, name);
	json_t *none = json_pack("{s:b}", "active", 0);
	int status = 0;
	if (cli->output.json) {
		output_json(drain ? drain : none);
	} else {
		cli_say_done(cli, what);
	}
	if (!is_saved(state)) {
		failure.code = BERTH_FAILED;
		snprintf(failure.message, sizeof(failure.message),
			"the agent will not know of it after a restart: %s",
			output_text(state, "why"));
		status = output_failure(&failure);
	}
	json_decref(none);
	json_decref(agent);
	return status;
}

int verb_drain(struct cli *cli)
{
	struct berth_failure failure;
	const char *name = cli_operand(cli);
	const struct options *options = &cli->options;
	int code = name
		? berth_drain_component(cli->berth, name, options->reason, options->for_s, &failure)
		: berth_drain(cli->berth, options->reason, options->for_s, &failure);
	if (code != 0) {
		return output_failure(&failure);
	}
	if (!options->wait) {
		return drain_done(cli, name, "draining");
	}
	int status = wait_for_drain(cli, name);
	return status ? status : drain_done(cli, name, "drained: the registry no longer shows it");
}

int verb_undrain(struct cli *cli)
{
	struct berth_failure failure;
	const char *name = cli_operand(cli);
	int code = name ? berth_undrain_component(cli->berth, name, &failure)
			: berth_undrain(cli->berth, &failure);
	return code ? output_failure(&failure) : drain_done(cli, name, "the drain has ended");
}

int verb_undamp(struct cli *cli)
{
	struct berth_failure failure;
	if (berth_undamp(cli->berth, cli_operand(cli), &failure) != 0) {
		return output_failure(&failure);
	}
	cli_say_done(cli, "no longer damped");
	return 0;
}
