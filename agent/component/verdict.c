#include "agent/component/verdict.h"

#include "lib/base/text.h"

static const struct component_check_view *first_in_state(
	const struct component_check_view *checks, size_t count, enum check_state state)
{
	for (size_t i = 0; i < count; i++) {
		if (checks[i].whole && checks[i].state == state) {
			return &checks[i];
		}
	}
	return NULL;
}

static bool any_silent(const struct component_check_view *checks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!checks[i].whole && checks[i].state == CHECK_STATE_PENDING) {
			return true;
		}
	}
	return false;
}

static const struct component_check_view *first_warning(
	const struct component_check_view *checks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (checks[i].warning) {
			return &checks[i];
		}
	}
	return NULL;
}

struct component_verdict component_verdict(enum component_gate gate, const char *gate_why,
	const struct component_check_view *checks, size_t count)
{
	const struct component_check_view *warning = first_warning(checks, count);
	struct component_verdict verdict = { .wish = ANNOUNCE_UP, .warning = warning != NULL };
	const struct component_check_view *down = first_in_state(checks, count, CHECK_STATE_DOWN);
	verdict.down = down != NULL;
	verdict.silent = any_silent(checks, count);
	const struct component_check_view *pending = first_in_state(
		checks, count, CHECK_STATE_PENDING);
	if (gate == COMPONENT_GATE_CLOSED) {
		verdict.wish = ANNOUNCE_DOWN;
		text_printf(verdict.why, sizeof(verdict.why), "%s", gate_why);
	} else if (down) {
		verdict.wish = ANNOUNCE_DOWN;
		verdict.failing = true;
		text_printf(verdict.why, sizeof(verdict.why), "check %s: %s", down->name, down->why);
	} else if (gate == COMPONENT_GATE_UNDECIDED) {
		verdict.wish = ANNOUNCE_KEEP;
		text_printf(verdict.why, sizeof(verdict.why), "%s", gate_why);
	} else if (pending) {
		verdict.wish = ANNOUNCE_KEEP;
		text_printf(verdict.why, sizeof(verdict.why), "check %s has not passed yet",
			pending->name);
	} else if (warning) {
		text_printf(verdict.why, sizeof(verdict.why), "check %s warns: %s", warning->name,
			warning->why);
	} else {
		text_printf(verdict.why, sizeof(verdict.why),
			count == 0           ? "no checks"
				: count == 1 ? "its check is up"
					     : "all checks are up");
	}
	return verdict;
}
