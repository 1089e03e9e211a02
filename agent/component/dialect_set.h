/*
 * The nodes of one [dialect], kept as they should be: an announcement for each, with one wish and
 * one state for all.
 *
 * The nodes come and go together: the set sends the requests for all nodes in one loop iteration,
 * so that they follow one another on the connection. They are not a transaction: a conflict at one
 * alias, or a parent that has to be made, must not keep the other nodes out, and a set that is half
 * there is completed by the same means as a set that another client has damaged. Nodes of a higher
 * order wait until those of a lower one are registered (Registrar's service record follows its
 * hosts). When the configuration renames a node, the old one leaves after the new one is there.
 *
 *   the set is ...   when
 *   FAILED           the instance cannot be expressed in the scheme, or a node cannot be written
 *   CONFLICT         another client's node is in the way
 *   WAITING, WITHDRAWING, WRITING, WITHDRAWN    one of the nodes is
 *   REGISTERED       all are
 *
 * An instance whose endpoint a check has taken out, or that waits for the addresses of a dynamic
 * endpoint, is withdrawn and says so.
 *
 * Spring's instance is out of service for a moment before it leaves: its data change first.
 */
#ifndef AGENT_COMPONENT_DIALECT_SET_H
#define AGENT_COMPONENT_DIALECT_SET_H

#include "agent/component/announce.h"
#include "agent/config/dialect.h"

struct dialect_set;

struct dialect_set_options {
	struct ev_loop *loop;
	struct registry *registry;
	bool takeover;
	bool session_resumed;  /* a predecessor's: its nodes may be there */
	int64_t registered_ms; /* of a predecessor; 0: now */
	int64_t update_interval_ms;
	/* As announce_options.is_former. */
	bool (*is_former)(void *context, uint64_t session);
	/* After each change of the set's state. The set may not be destroyed from here. */
	void (*on_change)(void *context, struct dialect_set *set, enum announce_state from);
	void *context;
};

/* `config` is borrowed, until dialect_set_configure() or the end. */
struct dialect_set *dialect_set_create(
	const struct config_dialect *config, const struct dialect_set_options *options);
/* The nodes stay as they are. Accepts NULL. */
void dialect_set_destroy(struct dialect_set *set);

/* Another configuration of the same dialect, in force with the next wish. */
void dialect_set_configure(struct dialect_set *set, const struct config_dialect *config,
	const struct dialect_set_options *options);

/*
 * `component` and `endpoints` give the content of the nodes; they are used during the call alone.
 */
void dialect_set_wish(struct dialect_set *set, enum announce_wish wish,
	const struct config_component *component, const struct config_record_endpoint *endpoints,
	const char *why);

/* is_former() may give another answer now. */
void dialect_set_reconsider(struct dialect_set *set);

void dialect_set_on_registry_state(
	struct dialect_set *set, enum registry_state state, const char *why);

const struct config_dialect *dialect_set_config(const struct dialect_set *set);
enum announce_state dialect_set_state(const struct dialect_set *set);
const char *dialect_set_why(const struct dialect_set *set);
/* As announce_settled(), for all of its nodes; none of them waits for the end of its children. */
bool dialect_set_settled(const struct dialect_set *set);
/* name, type, state, reason, since, nodes: their paths. New reference. */
json_t *dialect_set_json(const struct dialect_set *set);
/* When the instance was registered first, wall clock. */
int64_t dialect_set_registered_ms(const struct dialect_set *set);

#endif
