#include "agent/component/outcome.h"

#include <string.h>

#include "lib/base/text.h"

static bool is_any_of(const char *state, const char *const *states)
{
	while (*states && strcmp(state, *states) != 0) {
		states++;
	}
	return *states != NULL;
}

static const char *text_of(const json_t *record, const char *member)
{
	const char *text = json_string_value(json_object_get(record, member));
	return text ? text : "";
}

void component_outcome_take(struct component_outcome *outcome, bool known, const json_t *record)
{
	static const char *const out[] = { "conflict", "refused", "failed", "withdrawn", "frozen",
		"withheld", NULL };
	static const char *const unclear[] = { "waiting", "new", NULL };
	outcome->known = known;
	if (!known) {
		outcome->unseen = false; /* it says what it lists when it is back */
		return;
	}
	outcome->listed = record != NULL;
	outcome->unseen = outcome->unseen && !record;
	text_printf(outcome->state, sizeof(outcome->state), "%s", text_of(record, "state"));
	text_printf(outcome->why, sizeof(outcome->why), "%s", text_of(record, "why"));
	if (!record || is_any_of(outcome->state, out)) {
		outcome->has = false;
	} else if (!is_any_of(outcome->state, unclear)) {
		outcome->has = true;
	}
}

static enum announce_state state_of_registered(const struct component_outcome *outcome)
{
	static const char *const registered[] = { "registered", NULL };
	static const char *const outdated[] = { "outdated", NULL };
	static const char *const failed[] = { "refused", "failed", NULL };
	static const char *const conflict[] = { "conflict", NULL };
	return !outcome->known                          ? ANNOUNCE_WAITING
		: !outcome->listed                      ? ANNOUNCE_WRITING
		: is_any_of(outcome->state, registered) ? ANNOUNCE_REGISTERED
		: is_any_of(outcome->state, outdated)   ? ANNOUNCE_OUTDATED
		: is_any_of(outcome->state, failed)     ? ANNOUNCE_FAILED
		: is_any_of(outcome->state, conflict)   ? ANNOUNCE_CONFLICT
							: ANNOUNCE_WAITING;
}

bool component_outcome_is_unseen(const struct component_outcome *outcome, enum announce_state own)
{
	return outcome->unseen && own == ANNOUNCE_WITHDRAWN;
}

void component_outcome_asked(struct component_outcome *outcome)
{
	outcome->unseen = false;
}

static enum announce_state state_of(
	const struct component_outcome *outcome, enum announce_state own)
{
	if (announce_state_is_in(own)) {
		enum announce_state state = state_of_registered(outcome);
		return state == ANNOUNCE_REGISTERED ? own : state;
	}
	bool may_be_in = outcome->has || component_outcome_is_unseen(outcome, own);
	return own == ANNOUNCE_WITHDRAWN && may_be_in ? ANNOUNCE_WITHDRAWING : own;
}

/* The reason of the state, which is the announcement's own unless the host's agent decides. */
static void explain(struct component_outcome *outcome, enum announce_state own, const char *why)
{
	char *out = outcome->shown_why;
	size_t size = sizeof(outcome->shown_why);
	bool decides = announce_state_is_in(own) || outcome->shown != own;
	if (!decides) {
		text_printf(out, size, "%s", why);
	} else if (!outcome->known) {
		text_printf(out, size, "the host's agent cannot be reached");
	} else if (!outcome->listed) {
		text_printf(out, size, "the host's agent has not announced the record yet");
	} else if (announce_state_is_in(outcome->shown)) {
		text_printf(out, size, "%s", why);
	} else {
		text_printf(
			out, size, "the host's agent says %s: %s", outcome->state, outcome->why);
	}
}

bool component_outcome_show(
	struct component_outcome *outcome, enum announce_state own, const char *why, double now)
{
	bool written = announce_state_is_in(own) || own == ANNOUNCE_WRITING;
	outcome->unseen = outcome->unseen || (written && outcome->known && !outcome->listed);
	enum announce_state state = outcome->hosted ? state_of(outcome, own) : own;
	bool news = state != outcome->shown;
	outcome->shown = state;
	explain(outcome, own, why);
	if (news) {
		outcome->shown_since = now;
	}
	return news;
}
