/*
 * A component's own state, shared by the files component*.c that are its parts. Nobody else includes this.
 */
#ifndef AGENT_COMPONENT_INTERNAL_H
#define AGENT_COMPONENT_INTERNAL_H

#include "agent/component/damping.h"
#include "agent/component/component.h"
#include "agent/config/record.h"
#include "agent/component/siblings.h"

struct endpoint_state {
	uint64_t connection; /* whose end withdraws the addresses; 0: nobody's */
};

struct component {
	struct component_environment environment;
	const struct config_component *config;
	struct announce *announce;
	struct check **checks;
	size_t check_count;
	struct config_record_endpoint *endpoints;
	struct endpoint_state *endpoint_states;
	size_t endpoint_count;
	enum component_gate gate;
	char gate_why[256];
	struct check_damping damping;
	bool was_down; /* by its checks */
	bool was_up; /* the checks have let it in since it was created, or a predecessor of this process says so */
	bool stands; /* UP was the last verdict, not DOWN */
	bool held;   /* by flap damping */
	ev_timer damping_timer;
	struct component_siblings
		*siblings; /* while failing with keep_last, if it stood when that began */
};

/* Tells of one ("component web", "endpoint rest") and what became of it. */
void component_transition(struct component *component, const char *kind, const char *name,
	const char *from, const char *to, const char *why);

/* ---- wish.c: from what checks and gate say to what the announcement is told ---- */

/* `saved` NULL: from the beginning. */
void component_wish_init(struct component *component, const json_t *saved);
void component_wish_finish(struct component *component);
/* Something that it depends on may have changed. */
void component_reconsider(struct component *component);

/* ---- endpoints.c: which endpoints are out, and addresses known at run time only ---- */

/* Makes the endpoint states those of `config`; addresses of dynamic endpoints are kept by name. */
void component_endpoints_arrange(struct component *component, const struct config_component *config,
	const json_t *saved_addresses);
void component_endpoints_free(struct component *component);
void component_endpoints_update_out(struct component *component);
/* name -> "in", "out" or "unsupplied"; and the addresses that a successor may go on with. New references. */
json_t *component_endpoints_json(const struct component *component);
json_t *component_endpoints_save(const struct component *component);

#endif
