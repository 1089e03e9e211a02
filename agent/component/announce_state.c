/* The state of an announcement, and the questions about it. */
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/component/announce_internal.h"
#include "lib/base/text.h"

const char *announce_state_name(enum announce_state state)
{
	static const char *const names[ANNOUNCE_STATE_COUNT] = { "waiting", "withdrawn", "writing",
		"registered", "outdated", "withdrawing", "conflict", "failed" };
	return names[state];
}

bool announce_state_is_in(enum announce_state state)
{
	return state == ANNOUNCE_REGISTERED || state == ANNOUNCE_OUTDATED;
}

/* ---- state ---- */

static bool is_trouble(enum announce_state state)
{
	return state == ANNOUNCE_CONFLICT || state == ANNOUNCE_FAILED;
}

/* The time of a state that a predecessor was in already. */
static double since_when(struct announce *announce, enum announce_state state)
{
	bool same = announce->options.saved_since > 0 && announce->options.saved_state == state;
	double since = same ? announce->options.saved_since : ev_now(announce->loop);
	announce->options.saved_since = 0;
	return since;
}

void announce_set_state(struct announce *announce, enum announce_state state, const char *why)
{
	enum announce_state from = announce->state;
	if (from != state) {
		announce->since = since_when(announce, state);
	}
	announce->state = state;
	char copy[ANNOUNCE_WHY_BYTES]; /* the listener may change ours */
	text_printf(copy, sizeof(copy), "%s", why);
	allocate_kept(&announce->why, copy);
	if ((from != state || is_trouble(state)) && announce->options.on_change) {
		announce->options.on_change(announce->options.context, from, state, copy);
	}
}

void announce_stay_in_state(struct announce *announce, enum announce_state state, const char *why)
{
	if (announce->state != state || strcmp(kept_text(announce->why), why) != 0) {
		announce_set_state(announce, state, why);
	}
}

void announce_set_failed(struct announce *announce, const struct err *err)
{
	char why[ANNOUNCE_WHY_BYTES];
	text_printf(why, sizeof(why), "%s: %s", berth_error_name(err->code), err->msg);
	announce_set_state(announce, ANNOUNCE_FAILED, why);
}

const char *announce_registry_why(const struct announce *announce)
{
	return announce->registry_why ? announce->registry_why
				      : "the registry has not answered yet";
}

/* ---- questions ---- */

const char *announce_path(const struct announce *announce)
{
	return announce->at;
}

enum announce_state announce_get_state(const struct announce *announce)
{
	return announce->state;
}

bool announce_registered(const struct announce *announce)
{
	return announce_state_is_in(announce->state);
}

uint64_t announce_former_session(const struct announce *announce)
{
	return announce->former_session;
}

const char *announce_why(const struct announce *announce)
{
	return kept_text(announce->why);
}

bool announce_has_written(const struct announce *announce)
{
	return announce->has_written;
}

double announce_since(const struct announce *announce)
{
	return announce->since;
}

bool announce_settled(const struct announce *announce)
{
	bool registered = announce->state == ANNOUNCE_REGISTERED;
	bool outdated = announce->state == ANNOUNCE_OUTDATED;
	bool withdrawn = announce->state == ANNOUNCE_WITHDRAWN;
	switch (announce->wish) {
	case ANNOUNCE_KEEP:
		return registered || outdated || withdrawn;
	case ANNOUNCE_UP:
		return registered;
	case ANNOUNCE_DOWN:
		return withdrawn ||
			(announce->state == ANNOUNCE_WAITING && !announce->may_be_registered);
	}
	return false;
}

bool announce_outlasts_outage(const struct announce *announce)
{
	return announce->state == ANNOUNCE_WAITING && announce->wish == ANNOUNCE_UP &&
		announce->may_be_registered;
}

bool announce_finished(const struct announce *announce)
{
	/* A replaced node leaves before the state is a settled one. */
	return announce_settled(announce) && !announce->children;
}
