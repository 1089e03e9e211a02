#include "agent/component/hook.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/random.h"
#include "agent/base/timer.h"
#include "agent/command/command.h"
#include "lib/base/array.h"
#include "lib/base/text.h"

enum {
	OUTPUT_BYTES = 4096,
	SHOWN_BYTES = 200,
	WHY_BYTES = 512,
	FIRST_BACKOFF_MS = 1000,
	LAST_BACKOFF_MS = 60000,
	NO_STATE = -1
};

struct component_hook {
	struct component_hook_options options;
	const struct config_component *config;
	int wanted;          /* enum announce_state of the component, or NO_STATE */
	int running;         /* of the command that runs */
	int delivered;       /* the last one that a command has taken */
	char why[WHY_BYTES]; /* of `wanted` */
	struct command *command;
	struct timer again; /* PAUSED */
	int64_t backoff_ms; /* 0: the last run succeeded */
	char failure[SHOWN_BYTES + COMMAND_STATUS_BYTES];
	uint64_t runs;
	uint64_t failures;
};

static const char *state_name(int state)
{
	return state == NO_STATE ? "" : announce_state_name((enum announce_state)state);
}

static int state_named(const json_t *name)
{
	for (int i = 0; i < ANNOUNCE_STATE_COUNT; i++) {
		const char *text = json_string_value(name);
		if (text && strcmp(announce_state_name((enum announce_state)i), text) == 0) {
			return i;
		}
	}
	return NO_STATE;
}

static void deliver(struct component_hook *hook);

static void copy_last_line(char *out, size_t size, const char *text, size_t len)
{
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
		len--;
	}
	size_t start = len;
	while (start > 0 && text[start - 1] != '\n') {
		start--;
	}
	text_printf(out, size, "%.*s", (int)(len - start), text + start);
}

static void retry_later(struct component_hook *hook)
{
	hook->failures++;
	hook->backoff_ms = hook->backoff_ms ? 2 * hook->backoff_ms : FIRST_BACKOFF_MS;
	if (hook->backoff_ms > LAST_BACKOFF_MS) {
		hook->backoff_ms = LAST_BACKOFF_MS;
	}
	timer_start(&hook->again, random_jitter_ms(hook->backoff_ms));
	log_warn("component", "%s: on_change of the state %s: %s; it is tried again",
		config_component_label(hook->config), state_name(hook->running), hook->failure);
	hook->options.on_run(hook->options.context, false);
}

static void on_end(void *context, const struct command_outcome *outcome)
{
	struct component_hook *hook = context;
	hook->command = NULL;
	hook->runs++;
	if (outcome->end == COMMAND_EXITED && outcome->status == 0) {
		hook->backoff_ms = 0;
		hook->delivered = hook->running;
		hook->options.on_run(hook->options.context, true);
		deliver(hook);
		return;
	}
	char status[COMMAND_STATUS_BYTES];
	char line[SHOWN_BYTES];
	command_status_text(status, outcome->end, outcome->status);
	copy_last_line(line, sizeof(line), outcome->output, outcome->output_len);
	text_printf(hook->failure, sizeof(hook->failure), "%s%s%s",
		outcome->end == COMMAND_TIMED_OUT ? "not ended within hook_timeout" : status,
		*line ? ": " : "", line);
	retry_later(hook);
}

static void run(struct component_hook *hook)
{
	const struct config_component *config = hook->config;
	const struct command_variable variables[] = {
		{ "BERTH_COMPONENT", config_component_label(config) },
		{ "BERTH_STATE", state_name(hook->wanted) },
		{ "BERTH_WHY", hook->why },
		{ "BERTH_PATH", config->path },
	};
	const struct command_launch_options launch_options = { .variables = variables,
		.variable_count = ARRAY_LEN(variables),
		.user = "",
		.cwd = "" };
	struct command_launch *launch = command_launch_create(&launch_options);
	const struct command_options options = { .argv = config->on_change_argv,
		.launch = launch,
		.output_max = OUTPUT_BYTES,
		.timeout_ms = config->whole->agent.hook_timeout_ms };
	const struct command_callbacks callbacks = { .on_end = on_end, .context = hook };
	struct err err = ERR_INIT;
	hook->running = hook->wanted;
	hook->command = command_start(hook->options.loop, &options, &callbacks, &err);
	command_launch_destroy(launch);
	if (!hook->command) {
		text_printf(hook->failure, sizeof(hook->failure), "%s", err.msg);
		retry_later(hook);
	}
}

bool component_hook_pending(const struct component_hook *hook)
{
	return hook->config->on_change_argv && hook->wanted != NO_STATE &&
		(hook->command || hook->wanted != hook->delivered);
}

/* Begins what is due, unless a command runs. */
static void deliver(struct component_hook *hook)
{
	if (!hook->command && component_hook_pending(hook)) {
		timer_stop(&hook->again);
		run(hook);
	} else if (!hook->command) {
		timer_stop(&hook->again);
	}
}

static void on_again(void *context)
{
	deliver(context);
}

void component_hook_tell(struct component_hook *hook, enum announce_state state, const char *why)
{
	if (state == ANNOUNCE_WRITING || state == ANNOUNCE_WITHDRAWING) {
		return;
	}
	state = state == ANNOUNCE_OUTDATED ? ANNOUNCE_REGISTERED : state;
	bool same = hook->wanted == (int)state;
	hook->wanted = (int)state;
	text_printf(hook->why, sizeof(hook->why), "%s", why);
	if (!same) {
		deliver(hook);
	}
}

bool component_hook_failed(const struct component_hook *hook)
{
	return hook->backoff_ms > 0 && component_hook_pending(hook);
}

struct component_hook *component_hook_create(const struct component_hook_options *options)
{
	struct component_hook *hook = allocate_zeroed(1, sizeof(*hook));
	const char *why = json_string_value(json_object_get(options->saved, "why"));
	hook->options = *options;
	hook->config = options->config;
	hook->wanted = state_named(json_object_get(options->saved, "wanted"));
	hook->delivered = state_named(json_object_get(options->saved, "delivered"));
	text_printf(hook->why, sizeof(hook->why), "%s", why ? why : "");
	hook->options.saved = NULL;
	timer_init(&hook->again, options->loop, "on_change", on_again, hook);
	deliver(hook);
	return hook;
}

void component_hook_destroy(struct component_hook *hook)
{
	if (!hook) {
		return;
	}
	if (hook->command) {
		command_abandon(hook->command);
	}
	timer_stop(&hook->again);
	free(hook);
}

void component_hook_reload(struct component_hook *hook, const struct config_component *config)
{
	bool same = strcmp(hook->config->on_change, config->on_change) == 0;
	hook->config = config;
	if (!same) {
		hook->backoff_ms = 0;
		deliver(hook);
	}
}

json_t *component_hook_json(const struct component_hook *hook)
{
	if (!hook->config->on_change_argv) {
		return json_null();
	}
	bool failed = component_hook_failed(hook);
	return json_pack("{s:s, s:s, s:s, s:I, s:I}", "state",
		failed                  ? "failed"
			: hook->command ? "running"
					: "idle",
		"why", failed ? hook->failure : "", "delivered", state_name(hook->delivered),
		"runs", (json_int_t)hook->runs, "failures", (json_int_t)hook->failures);
}

json_t *component_hook_save(const struct component_hook *hook)
{
	return json_pack("{s:s, s:s, s:s}", "wanted", state_name(hook->wanted), "delivered",
		state_name(hook->delivered), "why", hook->why);
}
