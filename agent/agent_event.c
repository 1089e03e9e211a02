#include "agent/agent_event.h"

#include <string.h>

#include "agent/agent_internal.h"
#include "agent/base/log.h"

/* A state in which something is wrong is a warning, whatever it is that changed into it. */
static enum log_level level_of(const char *to)
{
	static const char *const wrong[] = { "down", "warning", "out", "failed", "conflict", "held",
		"away", "lost", "denied", "refused" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (strcmp(to, wrong[i]) == 0) {
			return LOG_LEVEL_WARN;
		}
	}
	return LOG_LEVEL_INFO;
}

void agent_transition(
	struct agent *agent, const char *subject, const char *from, const char *to, const char *why)
{
	log_at(level_of(to), subject, "%s -> %s%s%s", from, to, *why ? ": " : "", why);
	history_add(agent->history, ev_now(agent->loop), subject, from, to, why);
}

void agent_wake(struct agent *agent)
{
	ev_feed_event(agent->loop, &agent->reconsider, EV_CUSTOM);
}
