/*
 * A component's own state, shared by the files of this folder. No other folder includes this
 * header.
 */
#ifndef AGENT_COMPONENT_INTERNAL_H
#define AGENT_COMPONENT_INTERNAL_H

#include "agent/base/holder.h"
#include "agent/base/timer.h"
#include "agent/component/damping.h"
#include "agent/component/component.h"
#include "agent/component/dialect_set.h"
#include "agent/component/hook.h"
#include "agent/component/outcome.h"
#include "agent/config/record.h"
#include "agent/component/siblings.h"

/* It stays until its nodes have gone. */
struct dialect_retired {
	struct dialect_set *set;
	struct config *whole; /* of its configuration */
};

struct endpoint_state {
	uint64_t connection;      /* the addresses end with it; 0: with none */
	int64_t lingers_until_ms; /* clock_monotonic_ms(), their connection has closed; 0: not so */
};

/*
 * The condition of a component, from its checks, the gate and flap damping. In IN and KEPT its
 * record should be in the registry, in the others not. While there is no verdict (a check is
 * pending, the gate undecided) the condition stays as it is.
 *
 *   NEW --all checks are up--> IN <--all checks are up----------------------------+-------------+
 *                              |  \                                               |             |
 *                              |   +--a check goes down; keep_last, last one--> KEPT            |
 *                              |                                                  | no longer   |
 *                              +--a check goes down--> FAILED <-------------------+ the last    |
 *                              |                        |  ^                                    |
 *                              |        all checks up,  |  | a check goes down                  |
 *                              |        penalty high    v  |                                    |
 *                              |                       HELD --the penalty has decayed-----------+
 *                              +--the gate closes--> CLOSED --it opens: by the checks, as from IN
 *
 * IN and HELD to KEPT or FAILED adds a penalty.
 */
enum component_condition {
	/* its checks have never let it in; a predecessor's record may be registered */
	COMPONENT_NEW,
	COMPONENT_IN,
	COMPONENT_KEPT,   /* failing, but the last one of its instance */
	COMPONENT_FAILED, /* a check is down */
	COMPONENT_HELD,   /* all checks are up; flap damping keeps it out */
	COMPONENT_CLOSED  /* drained, stopping, the main process does not run */
};

struct component {
	struct component_environment environment;
	const struct config_component *config;
	struct announce *announce;
	struct component_hook *hook;
	struct component_outcome outcome;
	struct registry_request *question; /* to the host's agent: what it lists; or NULL */
	struct dialect_set **dialects;
	size_t dialect_count;
	struct dialect_retired *retired; /* dialects that the configuration no longer has */
	size_t retired_count;
	struct config_record_endpoint *endpoints;
	struct endpoint_state *endpoint_states;
	size_t endpoint_count;
	struct holder_attribute mark; /* of its record */
	struct drain drain;
	enum component_gate gate;
	char gate_why[256];
	enum component_condition condition;
	struct check_damping damping;
	bool damped; /* out, with a high penalty, and on_transition knows it */
	struct timer damping_timer;
	/*
	 * slow_start. The first record of a new component may turn out to be a predecessor's, which
	 * had its whole weight: then there is none.
	 */
	int64_t ramp_began_ms; /* clock_monotonic_ms(), 0: it has its whole weight */
	bool ramp_is_first;
	bool ramp_yielded; /* a write waits for the wish with the whole weight */
	struct timer ramp_timer;
	struct timer linger_timer;
	struct component_siblings
		*siblings; /* with keep_last, from the failure of a registered component on */
};

/* ---- report.c ---- */

/* Reports a change of state of a part, such as "endpoint rest", or of the component itself. */
void component_report(struct component *component, const char *kind, const char *name,
	struct transition *transition);
void component_transition(struct component *component, const char *kind, const char *name,
	const char *from, const char *to, const char *why);

/* ---- wish.c: from checks and gate to the announcement's wish ---- */

/* `saved`: component_save() of a predecessor, or NULL. */
void component_wish_init(struct component *component, const json_t *saved);
void component_wish_finish(struct component *component);
void component_wish_save(const struct component *component, json_t *saved);
/* A write would lower the weight of a predecessor's record: it waits for another wish. */
bool component_ramp_yields(struct component *component);
/* Decides the wish anew. Call it when anything that it depends on may have changed. */
void component_reconsider(struct component *component);

/* ---- endpoints.c: which endpoints are out, and addresses known at run time only ---- */

/* Makes the endpoint states those of `config`; addresses of dynamic endpoints are kept by name. */
void component_endpoints_arrange(struct component *component, const struct config_component *config,
	const json_t *saved_addresses);
void component_endpoints_free(struct component *component);
void component_endpoints_update_out(struct component *component);
/* As component_set_addresses() and component_connection_closed(), but the wish stays to decide. */
int component_endpoints_supply(struct component *component, const char *name,
	const json_t *addresses, uint64_t connection, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);
/* True when an endpoint has lost its addresses; those that linger lose them later. */
bool component_endpoints_drop(struct component *component, uint64_t connection);
/* The addresses that linger no longer go. True when some have gone. */
bool component_endpoints_expire(struct component *component);
/* The milliseconds until component_endpoints_expire() has something to do; -1: never. */
int64_t component_endpoints_expire_in_ms(const struct component *component);
/*
 * name -> "in", "out" or "unsupplied"; and the addresses that a successor may go on with. New
 * references.
 */
json_t *component_endpoints_json(const struct component *component);
/* name -> its addresses as texts, of those that are "in". */
json_t *component_addresses_json(const struct component *component);
json_t *component_endpoints_save(const struct component *component);

/* ---- dialects.c: the other schemes in which the component is registered ---- */

/* Makes the sets those of `config`; call it before component->config changes. */
void component_dialects_arrange(
	struct component *component, const struct config_component *config, const json_t *saved);
void component_dialects_free(struct component *component);
void component_dialects_wish(struct component *component, enum announce_wish wish, const char *why);
/* announce_former_session() of the component's record is another one. */
void component_dialects_reconsider(struct component *component);
void component_dialects_on_registry_state(
	struct component *component, enum registry_state state, const char *why);
bool component_dialects_settled(const struct component *component);
/* New references. */
json_t *component_dialects_json(const struct component *component);
json_t *component_dialects_save(const struct component *component);

#endif
