#include "agent/core/event.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/state.h"
#include "agent/base/log.h"
#include "lib/base/array.h"
#include "lib/base/hash.h"

static const char HISTORY_DOCUMENT[] = "history";

/*
 * The pause between two savings, for the sake of the disk; a killed agent loses the events of that
 * time.
 */
enum { SAVE_AFTER_MS = 5000, LINES_TIMES = 4 };

static enum log_level level_of(const char *state)
{
	static const char *const wrong[] = { "down", "failing", "warning", "out", "failed",
		"conflict", "held", "away", "lost", "denied", "refused", "stalled", "throttled",
		"frozen" };
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		if (strcmp(state, wrong[i]) == 0) {
			return LOG_LEVEL_WARN;
		}
	}
	return LOG_LEVEL_INFO;
}

/* Attempts that fail come again every few seconds. */
static bool is_retry(const char *from, const char *to)
{
	static const char *const states[] = { "failed", "conflict", "denied" };
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		if (strcmp(from, states[i]) == 0 || strcmp(to, states[i]) == 0) {
			return true;
		}
	}
	return false;
}

/*
 * The reporter of a check can change its state, and its component's, without end. Two subjects may
 * share a rate: the history has all of them.
 */
static struct log_rate *rate_of(struct agent *agent, const char *subject)
{
	struct log_rate *rate = &agent->lines[hash_text(HASH_INIT, subject) % AGENT_LINE_RATES];
	rate->times = LINES_TIMES;
	return rate;
}

/* The other subjects, such as config, change by an administrator's orders or by the registry. */
static bool is_for_reporters(const char *subject)
{
	static const char *const kinds[] = { "check ", "component ", "endpoint " };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strncmp(subject, kinds[i], strlen(kinds[i])) == 0) {
			return true;
		}
	}
	return false;
}

/* A repeated line is written again when its count has doubled. */
static void log_transition(struct agent *agent, enum log_level level,
	const struct transition *transition, unsigned count)
{
	char times[64] = "";
	unsigned left_out = 0;
	if ((count & (count - 1)) || !log_enabled(level) ||
		(!transition->limited && is_for_reporters(transition->subject) &&
			!log_rate_allows(rate_of(agent, transition->subject), &left_out))) {
		return;
	}
	if (count > 1) {
		snprintf(times, sizeof(times), " (%u times)", count);
	} else if (left_out) {
		snprintf(times, sizeof(times), " (%u lines before it are left out)", left_out);
	}
	const char *why = transition->why ? transition->why : "";
	const char *output = transition->output ? transition->output : "";
	const struct log_field fields[] = { { "component", transition->component },
		{ "from", transition->from }, { "to", transition->to }, { "why", why },
		{ "output", transition->output }, { NULL, NULL } };
	log_event(level, transition->subject, fields, "%s -> %s%s%s%s%s%s", transition->from,
		transition->to, *why ? ": " : "", why, *output ? ": " : "", output, times);
}

void agent_event(struct agent *agent, const struct transition *transition)
{
	enum log_level level = transition->trouble ? LOG_LEVEL_WARN : level_of(transition->to);
	struct transition known = *transition;
	known.retry = known.retry || is_retry(known.from, known.to);
	unsigned count = history_add(agent->history, ev_now(agent->loop), &known);
	if (!known.unlogged) {
		log_transition(agent, level, &known, count);
	}
	agent_wake(agent);
	bool counted = (count & (count - 1)) != 0; /* saved when its count has doubled */
	if (!counted && !timer_runs(&agent->history_timer)) {
		timer_start(&agent->history_timer, SAVE_AFTER_MS);
	}
}

void agent_transition(
	struct agent *agent, const char *subject, const char *from, const char *to, const char *why)
{
	agent_event(agent,
		&(struct transition){ .subject = subject, .from = from, .to = to, .why = why });
}

static void on_history_saved(void *context, const struct err *err)
{
	(void)context;
	if (err->code) {
		log_info("history", "it is not saved: %s", err->msg);
	}
}

/* Nothing waits for it: the history is for people. */
static void save(void *context)
{
	struct agent *agent = context;
	if (!state_dir_usable(&agent->state)) {
		return;
	}
	char *text = history_text(agent->history);
	state_dir_save_text_take(
		&agent->state, HISTORY_DOCUMENT, text, strlen(text), on_history_saved, agent);
}

void agent_history_save(struct agent *agent)
{
	if (timer_runs(&agent->history_timer)) {
		timer_stop(&agent->history_timer);
		save(agent);
	}
}

void agent_history_load(struct agent *agent, const json_t *received)
{
	timer_init(&agent->history_timer, agent->loop, "history", save, agent);
	agent->history = history_create();
	struct err err = ERR_INIT;
	json_t *document = received ? json_incref((json_t *)received)
				    : state_dir_load(&agent->state, HISTORY_DOCUMENT, &err);
	if (err.code) {
		log_warn("history", "the saved history cannot be read and is ignored: %s", err.msg);
	}
	history_load(agent->history, document);
	json_decref(document);
}

void agent_wake(struct agent *agent)
{
	ev_feed_event(agent->loop, &agent->reconsider, EV_CUSTOM);
	if (agent->api) {
		api_agent_changed(agent->api);
	}
}
