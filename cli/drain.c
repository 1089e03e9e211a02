/*
 * drain, undrain and undamp: for the whole agent, or for one component or container of it.
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

/* The agent as a whole when both are NULL. */
struct target {
	const char *component;
	const char *container; /* SOURCE/NAME */
};

static const json_t *drain_of(const json_t *agent, const struct target *target)
{
	const json_t *bridge = json_object_get(agent, "bridge");
	return target->container
		? json_object_get(json_object_get(bridge, "drains"), target->container)
		: json_object_get(
			  target->component ? component_named(agent, target->component) : agent,
			  "drain");
}

static bool is_gone(const json_t *component)
{
	return !json_is_true(json_object_get(component, "registered")) &&
		json_is_true(json_object_get(component, "settled"));
}

/* Says what a drain still waits for; "" when it is done. */
static void drain_remains(char *out, size_t size, const json_t *agent, const struct target *target)
{
	const char *name = target->component;
	const json_t *drain = drain_of(agent, target);
	json_int_t records = json_integer_value(json_object_get(drain, "records"));
	size_t index;
	json_t *component;
	size_t left = 0;
	const json_t *components = json_object_get(agent, "components");
	json_array_foreach (target->container ? NULL : components, index, component) {
		bool chosen = !name || strcmp(output_text(component, "name"), name) == 0;
		left += chosen && !is_gone(component);
	}
	*out = '\0';
	if (left) {
		snprintf(out, size, "deregistering: %zu of %zu components left", left,
			name ? 1 : json_array_size(components));
	} else if (records > 0) {
		snprintf(out, size, "deregistering: %lld record%s left", (long long)records,
			records == 1 ? "" : "s");
	} else if (!json_is_true(json_object_get(drain, "done"))) {
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
static int wait_for_drain(struct cli *cli, const struct target *target)
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
		bool active = json_is_true(json_object_get(drain_of(agent, target), "active"));
		drain_remains(remains, sizeof(remains), agent, target);
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
static int drain_done(struct cli *cli, const struct target *target, const char *what)
{
	struct berth_failure failure;
	struct berth_answer answer;
	if (berth_status(cli->berth, &answer, &failure) != 0) {
		return output_failure(&failure);
	}
	json_t *agent = cli_parse_take(&answer);
	const json_t *state = json_object_get(agent, "state");
	const json_t *drain = drain_of(agent, target);
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

/* 0, or the exit status. */
static int find_target(struct cli *cli, struct target *ret_target)
{
	*ret_target = (struct target){ cli_operand(cli), cli->options.container };
	return ret_target->component && ret_target->container
		? output_usage("a COMPONENT, or --container: not both")
		: 0;
}

int verb_drain(struct cli *cli)
{
	struct berth_failure failure;
	struct target target;
	const struct options *options = &cli->options;
	int status = find_target(cli, &target);
	if (status) {
		return status;
	}
	int code = target.container ? berth_drain_container(cli->berth, target.container,
					      options->reason, options->for_s, &failure)
		: target.component
		? berth_drain_component(
			  cli->berth, target.component, options->reason, options->for_s, &failure)
		: berth_drain(cli->berth, options->reason, options->for_s, &failure);
	if (code != 0) {
		return output_failure(&failure);
	}
	if (!options->wait) {
		return drain_done(cli, &target, "draining");
	}
	status = wait_for_drain(cli, &target);
	return status ? status
		      : drain_done(cli, &target, "drained: the registry no longer shows it");
}

int verb_undrain(struct cli *cli)
{
	struct berth_failure failure;
	struct target target;
	int status = find_target(cli, &target);
	if (status) {
		return status;
	}
	int code = target.container
		? berth_undrain_container(cli->berth, target.container, &failure)
		: target.component ? berth_undrain_component(cli->berth, target.component, &failure)
				   : berth_undrain(cli->berth, &failure);
	return code ? output_failure(&failure) : drain_done(cli, &target, "the drain has ended");
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
