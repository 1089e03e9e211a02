/* The state of an output, and the end of an attempt with the pause before the next one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/random.h"
#include "agent/output/internal.h"
#include "lib/base/clock.h"
#include "lib/base/quote.h"

enum { FIRST_BACKOFF_MS = 1000, LAST_BACKOFF_MS = 60000 };

static const char *const state_names[] = {
	[OUTPUT_WAITING] = "waiting",
	[OUTPUT_SETTLING] = "settling",
	[OUTPUT_CONFIRMING] = "confirming",
	[OUTPUT_RESOLVING] = "resolving",
	[OUTPUT_RENDERING] = "rendering",
	[OUTPUT_WRITING] = "writing",
	[OUTPUT_CHECKING] = "checking",
	[OUTPUT_NOTIFYING] = "notifying",
	[OUTPUT_CURRENT] = "current",
	[OUTPUT_HELD] = "held",
	[OUTPUT_FAILED] = "failed",
};

const char *output_state_name(enum output_state state)
{
	return state_names[state];
}

bool output_state_is_lasting(enum output_state state)
{
	return state == OUTPUT_WAITING || state == OUTPUT_CURRENT || state == OUTPUT_HELD ||
		state == OUTPUT_FAILED;
}

static void replace_printed(struct output *output, char *printed_taken)
{
	free(output->printed);
	output->printed = printed_taken;
}

void output_enter_take(struct output *output, enum output_state state, char *why_taken)
{
	bool same = output->state == state && strcmp(output->why, why_taken) == 0;
	if (output->state != state) {
		output->since = clock_wall_s();
	}
	free(output->why);
	output->why = why_taken;
	output->state = state;
	if (state != OUTPUT_FAILED) {
		replace_printed(output, NULL);
	}
	if (!same) {
		output->callbacks.on_state(output->callbacks.context, output);
	}
}

bool output_is_busy(const struct output *output)
{
	return output->state == OUTPUT_CONFIRMING || output->state == OUTPUT_RESOLVING ||
		output->state == OUTPUT_RENDERING || output->state == OUTPUT_WRITING ||
		output->state == OUTPUT_CHECKING || output->state == OUTPUT_NOTIFYING;
}

void output_settle(struct output *output)
{
	const struct config_output *config = output->config;
	int64_t now_ms = clock_monotonic_ms();
	int64_t latest_ms = output->first_change_ms + config->max_wait_ms - now_ms;
	timer_start(&output->timer, config->quiet_ms < latest_ms ? config->quiet_ms : latest_ms);
	if (output->state != OUTPUT_SETTLING) {
		output_enter_take(output, OUTPUT_SETTLING, allocate_text(""));
	}
}

/* Behind a step: a change that came meanwhile is taken up now. */
static void go_on(struct output *output)
{
	if (output->first_change_ms) {
		output_settle(output);
	}
}

void output_drop_attempt(struct output *output)
{
	if (output->command) {
		command_abandon(output->command);
		output->command = NULL;
	}
	if (output->file) {
		file_queue_cancel(output->file);
		output->file = NULL;
	}
	/* In place, it may be needed to mend what a failure has left. */
	if (output->temporary && output->config->write != CONFIG_WRITE_IN_PLACE) {
		unlink(output->temporary);
	}
	free(output->temporary);
	free(output->place);
	output->temporary = NULL;
	output->place = NULL;
	buffer_finish(&output->content);
}

void output_fail_take(struct output *output, char *why_taken, char *printed_taken)
{
	replace_printed(output, printed_taken);
	output->counts.failures++;
	output_drop_attempt(output);
	output->backoff_ms = output->backoff_ms ? 2 * output->backoff_ms : FIRST_BACKOFF_MS;
	if (output->backoff_ms > LAST_BACKOFF_MS) {
		output->backoff_ms = LAST_BACKOFF_MS;
	}
	timer_start(&output->timer, random_jitter_ms(output->backoff_ms));
	output_enter_take(output, OUTPUT_FAILED, why_taken);
	go_on(output);
}

void output_note_left_out(struct output *output, const struct render_result *result)
{
	free(output->left_out);
	output->left_out = allocate_text(result->why);
}

static void add_reason(struct buffer *why, const char *reason)
{
	buffer_printf(why, "%s%s", why->len > 0 ? "; " : "", reason);
}

/* The reason of CURRENT: an operator should know this although all is well. */
static char *current_why(const struct output *output)
{
	const char *doubled = output->haproxy ? haproxy_doubled(output->haproxy) : NULL;
	struct buffer why;
	buffer_init(&why, SIZE_MAX);
	buffer_append_text(&why, output->left_out);
	for (unsigned i = 1; i < output->counted.used; i++) {
		add_reason(&why, i == 1 ? "failed over to " : "and to ");
		buffer_append_text(&why, output->config->failover[i - 1]);
	}
	if (doubled) {
		add_reason(&why, "HAProxy has the server ");
		buffer_printf(&why, "%s twice, as Berth 0.1 named it too: reload HAProxy",
			quote_text(doubled).text);
	}
	return allocated(buffer_take(&why, NULL));
}

void output_succeed(struct output *output)
{
	output_drop_attempt(output);
	output->backoff_ms = 0;
	output_enter_take(output, OUTPUT_CURRENT, current_why(output));
	go_on(output);
}

struct render_filter output_filter(const struct config_output *config)
{
	return (struct render_filter){ config->api, config->protocol, config->scope,
		config->selection };
}
