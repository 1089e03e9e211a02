/*
 * With `url = host:`, what became of a component's record in the registry: the component writes it
 * into the container's directory, and the host's agent announces it, or says why not. Pure.
 *
 *   own announcement   the host's agent says   the component is
 *   registered         nothing (it is away)    waiting
 *                      no such record          writing: it has not looked yet
 *                      registered, outdated    registered, outdated
 *                      conflict                conflict
 *                      refused, failed         failed
 *                      anything else           waiting
 *   withdrawn          it has the record       withdrawing
 *                      it has not been asked   withdrawing: it may have seen the record
 *                      it has it no longer     withdrawn
 *   anything else      -                       the same
 *
 * Of an agent that is away the last word counts for what may still be in the registry.
 */
#ifndef AGENT_COMPONENT_OUTCOME_H
#define AGENT_COMPONENT_OUTCOME_H

#include <jansson.h>
#include <stdbool.h>

#include "agent/component/announce.h"

struct component_outcome {
	bool hosted; /* else the announcement is in the registry itself */
	bool known;  /* the host's agent says something now */
	bool listed; /* it lists the record */
	bool has;    /* the record may be in the registry */
	bool unseen; /* a record was written that it has not mentioned yet */
	char state[32];
	char why[256];
	/* The state that the component shows. */
	enum announce_state shown;
	char shown_why[320];
	double shown_since; /* wall clock seconds */
};

/*
 * Takes what the host's agent says of the path: `known` with a record of GET /v1/bridge, or NULL
 * when it lists none.
 */
void component_outcome_take(struct component_outcome *outcome, bool known, const json_t *record);
/* A record is withdrawn that the host's agent has not mentioned yet: ask what it lists now. */
bool component_outcome_is_unseen(const struct component_outcome *outcome, enum announce_state own);
/* It was asked after the withdrawal, and its whole list was taken. */
void component_outcome_asked(struct component_outcome *outcome);
/* Shows what follows with this state of the own announcement. True when the shown state is new. */
bool component_outcome_show(
	struct component_outcome *outcome, enum announce_state own, const char *why, double now);

#endif
