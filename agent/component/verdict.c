#include "agent/component/verdict.h"

#include <string.h>

#include "lib/base/text.h"

static bool is_one_of(const struct component_check_view *check, enum check_state state)
{
	return check->whole && check->state == state;
}

static bool any_in_state(
	const struct component_check_view *checks, size_t count, enum check_state state)
{
	for (size_t i = 0; i < count; i++) {
		if (is_one_of(&checks[i], state)) {
			return true;
		}
	}
	return false;
}

/* "check http: exit status 2; check db: no answer within 5s" */
static void name_all(struct component_verdict *verdict, const struct component_check_view *checks,
	size_t count, enum check_state state)
{
	size_t used = 0;
	for (size_t i = 0; i < count; i++) {
		const struct component_check_view *check = &checks[i];
		if (!is_one_of(check, state)) {
			continue;
		}
		bool pending = state == CHECK_STATE_PENDING;
		const char *why = pending ? check->detail : check->why;
		text_printf(verdict->why + used, sizeof(verdict->why) - used, "%scheck %s%s%s%s",
			used ? "; " : "", check->name, pending ? " has not passed yet" : "",
			*why ? ": " : "", why);
		used += strlen(verdict->why + used);
	}
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
	bool down = any_in_state(checks, count, CHECK_STATE_DOWN);
	verdict.silent = any_silent(checks, count);
	if (gate == COMPONENT_GATE_CLOSED) {
		verdict.wish = ANNOUNCE_DOWN;
		text_printf(verdict.why, sizeof(verdict.why), "%s", gate_why);
	} else if (down) {
		verdict.wish = ANNOUNCE_DOWN;
		verdict.failing = true;
		name_all(&verdict, checks, count, CHECK_STATE_DOWN);
	} else if (gate == COMPONENT_GATE_UNDECIDED) {
		verdict.wish = ANNOUNCE_KEEP;
		text_printf(verdict.why, sizeof(verdict.why), "%s", gate_why);
	} else if (any_in_state(checks, count, CHECK_STATE_PENDING)) {
		verdict.wish = ANNOUNCE_KEEP;
		name_all(&verdict, checks, count, CHECK_STATE_PENDING);
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
