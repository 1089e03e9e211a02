/*
 * A component at work: its endpoints, its flap damping and its announcement, wired together, as the
 * checks that guard it decide.
 *
 *   check results --> check states --+
 *   drain, stop, main process -------+--> verdict --> damping, last-instance guard -> wish -+
 *   dynamic endpoints, endpoint checks --> record ------------------------------------------+
 *                                                                                           |
 *                                                         registry <-- announcement <-------+
 *
 * Loop thread only.
 */
#ifndef AGENT_COMPONENT_COMPONENT_H
#define AGENT_COMPONENT_COMPONENT_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/drain.h"
#include "agent/base/history.h"
#include "agent/component/announce.h"
#include "agent/check/set.h"
#include "agent/component/verdict.h"
#include "agent/config/config.h"
#include "lib/registry/registry.h"

struct component;
struct holder;

/* The component's connections to the agent. All borrowed. */
struct component_environment {
	struct ev_loop *loop;
	struct registry *registry; /* which the record is written to */
	struct registry *lookups;  /* in which others are found: the same, unless `hosted` */
	bool hosted; /* the host's agent announces it: component_set_outcome() follows */
	const struct check_set *checks; /* those that guard it, and others */
	int64_t update_interval_ms;
	const struct holder *holder; /* marks the records */
	bool session_outlives;       /* the process; so an ephemeral record may, too */
	bool session_resumed;        /* a predecessor's: its records may be registered */
	const json_t *persistent;    /* path -> announce_persistent() of a predecessor; or NULL */
	/* The component ("component NAME") or an endpoint changed state. */
	void (*on_transition)(void *context, const struct transition *transition);
	/* Registered or not, settled or not: something about the announcement changed. */
	void (*on_announced)(void *context, struct component *component);
	/* Withdrawn before, and the last of its nodes has gone, too. May be NULL. */
	void (*on_gone)(void *context);
	/* A run of the component's on_change has ended. */
	void (*on_hook_run)(void *context, struct component *component, bool succeeded);
	/* As announce_options.on_write. */
	bool (*on_write)(void *context, struct component *component);
	void *context;
};

/* Takes a reference to `config`. `saved`: from component_save(), or NULL. The gate is closed
 * until component_set_gate(). */
struct component *component_create(const struct component_environment *environment,
	const struct config_component *config, const json_t *saved);
/* The nodes in the registry stay. Accepts NULL. */
void component_destroy(struct component *component);

/*
 * Gives the same path a new configuration, after check_set_arrange(): an equal record is not
 * rewritten.
 */
void component_reload(struct component *component, const struct config_component *config,
	const struct component_environment *environment);

/* It is no longer configured: withdraws, and no check counts any more. */
void component_retire(struct component *component);

/* After a change of a check's state. */
void component_check_changed(struct component *component, const struct check *check);
void component_set_gate(struct component *component, enum component_gate gate, const char *why);
void component_on_registry_state(
	struct component *component, enum registry_state state, const char *why);

/*
 * When it is hosted: what the host's agent says of it, as component_outcome_take(). Without a
 * word it counts as away.
 */
void component_set_outcome(struct component *component, bool known, const json_t *record);

const struct config_component *component_config(const struct component *component);
const char *component_label(const struct component *component);
struct announce *component_announce(const struct component *component);
/*
 * The state of its record in the registry, with its reason and its time: the announcement's own,
 * or the one that the host's agent reports.
 */
enum announce_state component_state(const struct component *component);
const char *component_why(const struct component *component);
double component_since(const struct component *component);
/* As announce_outlasts_outage(). */
bool component_outlasts_outage(const struct component *component);
/* Its record is in the registry, if not always the wanted one. */
bool component_registered(const struct component *component);
/* Its on_change has not taken the component's state yet. */
bool component_untold(const struct component *component);
/*
 * As announce_settled() and announce_finished(), for the record and for all dialects; finished also
 * when on_change has taken the last state, or failed.
 */
bool component_settled(const struct component *component);
bool component_finished(const struct component *component);
/* The dialects, for metrics: how many, and one's name and whether it is registered. */
size_t component_dialect_count(const struct component *component);
const char *component_dialect(
	const struct component *component, size_t index, bool *ret_registered);

/* Flap damping holds it out; and its penalty, as it has decayed by now. */
bool component_damped(const struct component *component);
double component_penalty(const struct component *component);

/* Forgets the penalty: flap damping no longer holds it out. */
void component_undamp(struct component *component);

/* Its own maintenance, which the agent begins, ends and turns into a gate. */
struct drain *component_drain(struct component *component);

/* The endpoint of that name, or NULL. */
const struct config_endpoint *component_endpoint_config(
	const struct component *component, const char *name);
/* Calls `visit` for the port of each address that its endpoints have, in the record or not. */
void component_each_port(const struct component *component,
	void (*visit)(void *context, uint16_t port), void *context);
/*
 * Publishes (an array of address texts or objects) or withdraws (NULL) the addresses of a dynamic
 * endpoint. `connection`: when it ends, they are withdrawn; 0 for none. On an error nothing
 * changes.
 */
int component_set_addresses(struct component *component, const char *name, const json_t *addresses,
	uint64_t connection, struct err *err) ERR_REQUIRED(5);
void component_connection_closed(struct component *component, uint64_t connection);

/* For GET /v1/agent: name, path, state, reason, since, wish, damping, endpoints. New reference. */
json_t *component_json(const struct component *component);
/* Damping and dynamic addresses for a successor. New reference. */
json_t *component_save(const struct component *component);

#endif
