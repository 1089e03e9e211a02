/*
 * From the states of a component's checks to what should be in the registry. Pure.
 */
#ifndef AGENT_COMPONENT_VERDICT_H
#define AGENT_COMPONENT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/component/announce.h"
#include "agent/check/check.h"

/* The agent's own wish for all its components. */
enum component_gate {
	COMPONENT_GATE_OPEN,
	COMPONENT_GATE_UNDECIDED, /* the supervised process has not started yet */
	COMPONENT_GATE_CLOSED     /* drained, stopping, the process has ended */
};

struct component_check_view {
	const char *name;
	const char *why;    /* of its state */
	const char *detail; /* of its last result, "" before the first */
	enum check_state state;
	bool warning;
	bool whole; /* guards the component, not just some endpoints */
};

struct component_verdict {
	enum announce_wish wish;
	bool failing;  /* DOWN because of a check */
	bool silent;   /* a check that guards endpoints only has not had a result yet */
	bool warning;  /* some check that is up last gave a warning */
	char why[512]; /* names every check that is responsible */
};

/*
 * DOWN when the gate is closed or a check that guards the whole is down; KEEP when there is no such
 * verdict yet (a check pending, the gate undecided); else UP. Checks that guard endpoints only do
 * not count here.
 */
struct component_verdict component_verdict(enum component_gate gate, const char *gate_why,
	const struct component_check_view *checks, size_t count);

#endif
