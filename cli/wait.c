/*
 * wait: until a path offers addresses, or until this agent's own components are registered.
 *
 * A script waits for what another program starts, so an agent or a registry that is away is not an
 * error here: it may come.
 */
#include "cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"

enum { RETRY_MS = 200 };

/* ---- for addresses ---- */

struct following {
	bool changed;
	char remains[CLI_REMAINS_BYTES];
};

static void on_event(void *context, const struct berth_event *event)
{
	struct following *following = context;
	(void)event;
	following->changed = true;
}

bool cli_may_come(int code, const struct berth_failure *failure, char *remains)
{
	if (code == BERTH_PATH_NOT_FOUND) {
		snprintf(remains, CLI_REMAINS_BYTES, "there is no such path yet");
		return true;
	}
	if (code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_AGENT_UNAVAILABLE ||
		code == BERTH_TIMEOUT) {
		snprintf(remains, CLI_REMAINS_BYTES, "%.90s", failure->message);
		return true;
	}
	return false;
}

/* Enough addresses, and the answer is confirmed. */
static int look(void *context, char *remains, struct berth_failure *failure)
{
	const struct cli *cli = context;
	unsigned wanted = cli->options.endpoints ? cli->options.endpoints : 1;
	struct berth_endpoints endpoints;
	struct berth_endpoint_filter filter = cli_filter(cli);
	int code = berth_endpoints(cli->berth, cli_operand(cli), &filter, &endpoints, failure);
	if (code != 0) {
		return cli_may_come(code, failure, remains) ? 0 : code;
	}
	size_t count = endpoints.count;
	bool stale = endpoints.freshness.stale;
	berth_endpoints_finish(&endpoints);
	snprintf(remains, CLI_REMAINS_BYTES, "%zu of %u addresses%s", count, wanted,
		stale ? ", and the registry is away" : "");
	return count >= wanted && !stale;
}

static int timed_out(const struct cli *cli, const char *remains)
{
	struct berth_failure failure = { .code = BERTH_TIMEOUT };
	output_progress_end(&cli->output);
	snprintf(failure.message, sizeof(failure.message), "%s", remains);
	return output_failure(&failure);
}

static int64_t deadline_of(const struct cli *cli)
{
	return cli->options.timeout_ms ? clock_monotonic_ms() + cli->options.timeout_ms : INT64_MAX;
}

static int follow(struct cli *cli, struct following *following, cli_look *look_again, void *context)
{
	int64_t deadline_ms = deadline_of(cli);
	struct berth_failure failure;
	for (;;) {
		int found = following->changed ? look_again(context, following->remains, &failure)
					       : 0;
		following->changed = false;
		if (found != 0) {
			output_progress_end(&cli->output);
			return found > 0 ? 0 : output_failure(&failure);
		}
		output_progress_text(&cli->output, following->remains);
		int64_t left_ms = deadline_ms - clock_monotonic_ms();
		if (left_ms <= 0) {
			return timed_out(cli, following->remains);
		}
		if (berth_dispatch(cli->berth, left_ms < INT_MAX ? (int)left_ms : -1, &failure) !=
			0) {
			return output_failure(&failure);
		}
	}
}

int cli_follow(struct cli *cli, cli_look *look_again, void *context)
{
	struct following following = { .changed = true };
	struct berth_failure failure;
	struct berth_watch *watch;
	/* Recursive, since what is looked for is in the children too. */
	if (berth_watch(cli->berth, cli_operand(cli), true, on_event, &following, &watch,
		    &failure) != 0) {
		return output_failure(&failure);
	}
	int status = follow(cli, &following, look_again, context);
	berth_unwatch(watch);
	return status;
}

/* ---- for the agent's own components ---- */

/* True when all, or the one named, are registered; else `remains` says which is not, and why. */
static bool all_registered(const json_t *agent, const char *name, char *remains, size_t size)
{
	size_t index;
	json_t *component;
	bool found = !name;
	json_array_foreach (json_object_get(agent, "components"), index, component) {
		if (name && strcmp(name, output_text(component, "name")) != 0) {
			continue;
		}
		found = true;
		if (!json_is_true(json_object_get(component, "registered"))) {
			snprintf(remains, size, "%s is %s: %s", output_text(component, "name"),
				output_text(component, "state"), output_text(component, "reason"));
			return false;
		}
	}
	if (!found) {
		snprintf(remains, size, "the agent has no component %s", name);
	}
	return found;
}

/* 1: registered; 0: not yet; or a negative code. */
static int look_at_agent(struct cli *cli, char *tag, int64_t deadline_ms, char *remains,
	size_t size, struct berth_failure *failure)
{
	static const struct timespec pause = { .tv_nsec = RETRY_MS * 1000 * 1000 };
	json_t *agent;
	int code = cli_await(cli, BERTH_STATUS, tag, deadline_ms, &agent, failure);
	if (code == BERTH_AGENT_UNAVAILABLE) {
		snprintf(remains, size, "%s", failure->message);
		nanosleep(&pause, NULL);
		return 0;
	}
	if (code != 0) {
		return code == BERTH_TIMEOUT ? 0 : code;
	}
	bool registered = all_registered(agent, cli_operand(cli), remains, size);
	json_decref(agent);
	return registered;
}

static int wait_for_registration(struct cli *cli)
{
	int64_t deadline_ms = deadline_of(cli);
	char tag[BERTH_TAG_BYTES] = "";
	char remains[BERTH_MESSAGE_BYTES] = "";
	for (;;) {
		struct berth_failure failure;
		int found = look_at_agent(
			cli, tag, deadline_ms, remains, sizeof(remains), &failure);
		if (found != 0) {
			output_progress_end(&cli->output);
			return found > 0 ? 0 : output_failure(&failure);
		}
		if (clock_monotonic_ms() >= deadline_ms) {
			return timed_out(cli, remains);
		}
		output_progress_text(&cli->output, remains);
	}
}

int verb_wait(struct cli *cli)
{
	const struct options *options = &cli->options;
	bool filtered = options->endpoints || options->api || options->protocol || options->scope;
	if (options->registered && (options->registry || filtered)) {
		return output_usage(
			"wait --registered asks the agent, and only for its components");
	}
	if (options->registered) {
		return wait_for_registration(cli);
	}
	if (options->operand_count == 0) {
		return output_usage("wait needs a PATH, or --registered (berth wait --help)");
	}
	return cli_follow(cli, look, cli);
}
