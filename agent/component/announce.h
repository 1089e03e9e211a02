/*
 * One node in the registry, kept as it should be: a component's record, or a node of another
 * scheme.
 *
 * An announcement compares its wish (a record, none, or "no verdict yet") with the node at its
 * path, as its watch saw it last, and makes the one write that brings the node to the wish
 * (decision.h). After every event (a new wish, a change in the registry, the end of a write, a
 * reconnect, a timer) it decides again from the whole state. So a record that another client
 * deleted or changed comes back, a new session registers again, and a failed write is repeated, all
 * by the same path.
 *
 *                    want DOWN                             write done
 *   +-----------+ <------------ WITHDRAWING <---+  WRITING -----------> REGISTERED --+
 *   | WITHDRAWN |    node gone                  |   ^  |                  |          | node or
 *   +-----------+ --------------------------------->+  |       want DOWN  |          | wish
 *      |    |     want UP                       +------|------------------+          | changed
 *      |    |                                          |  ^--- or OUTDATED -----------+
 *      |    +--> CONFLICT  (another client's node; looks again when it changes, and after a pause)
 *      +-------> FAILED    (the registry refused, or the wish makes no record: tries again after
 *                           a pause, and stays FAILED until an attempt succeeds)
 *   Any state --> WAITING while the registry is away or has not yet reported the node.
 *   "Node or wish changed": from REGISTERED to WRITING, or to OUTDATED.
 *   OUTDATED: a record of ours is there, but not the wanted one: its change is under way, the
 *   throttle delays it, or there is no verdict yet.
 *
 * Where nothing of ours can be at the path, the first record is created without waiting for the
 * first look at it: the registry refuses a second node, and then the look decides.
 *
 * A node with children cannot go. Its record is then replaced by no data; the announcement is
 * WITHDRAWN, watches the children, and removes the node after the last one, unless another client
 * has written it.
 *
 * The number of a sequential node is known to the announcement that made it. Another one, after an
 * upgrade or after a write whose answer was lost, searches the nodes of its own session. A
 * sequential node whose change is to join anew gets a successor first, and leaves after it.
 *
 * Writes are throttled: at most one per `update_interval`, the latest wish wins. Removing is never
 * delayed.
 */
#ifndef AGENT_COMPONENT_ANNOUNCE_H
#define AGENT_COMPONENT_ANNOUNCE_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/component/decision.h"
#include "lib/dialect/dialect.h"
#include "lib/registry/registry.h"

enum announce_state {
	ANNOUNCE_WAITING,
	ANNOUNCE_WITHDRAWN,
	ANNOUNCE_WRITING,
	ANNOUNCE_REGISTERED,
	ANNOUNCE_OUTDATED,
	ANNOUNCE_WITHDRAWING,
	ANNOUNCE_CONFLICT,
	ANNOUNCE_FAILED
};

#define ANNOUNCE_STATE_COUNT (ANNOUNCE_FAILED + 1)

struct announce;

struct announce_options {
	enum dialect_type type;
	enum dialect_node_kind kind;
	const char *path; /* of a sequential node: all but its digits */
	bool ephemeral;
	bool takeover;
	bool may_be_registered; /* by a predecessor whose session is resumed */
	/*
	 * The persistent node that a predecessor wrote last, by announce_persistent(); NULL: not
	 * known. It is ours in that version, with any content.
	 */
	const json_t *persistent;
	/*
	 * For a node without a mark: whether a predecessor had this session, see
	 * announce_former_session(). NULL: the record's mark says it.
	 */
	bool (*is_former)(void *context, uint64_t session);
	/* From the loop: announce_former_session() is another one. May be NULL. */
	void (*on_former)(void *context);
	/*
	 * The last state of a predecessor, and since when; the first state keeps that time if it is
	 * the same.
	 */
	enum announce_state saved_state;
	double saved_since;
	int64_t update_interval_ms;
	/*
	 * After each change of state, with its reason; `from` equals `to` when a FAILED or CONFLICT
	 * goes on after another attempt. The announcement may not be destroyed from here.
	 */
	void (*on_change)(
		void *context, enum announce_state from, enum announce_state to, const char *why);
	/* WITHDRAWN as before, and the emptied node has gone at last. May be NULL. */
	void (*on_gone)(void *context);
	/*
	 * Before a write, for what a successor has to know even if this process ends before it has
	 * the answer; announce_persistent() includes the new data. False: the disk does not have
	 * that yet; the write is put off until announce_noted(). May be NULL.
	 */
	bool (*on_write)(void *context);
	/* A write has made this parent of the node. May be NULL. */
	void (*on_parent)(void *context, const char *path, uint64_t node_id);
	void *context;
};

/* Begins to watch the path, with the wish KEEP. `registry` and `loop` are borrowed. */
struct announce *announce_create(
	struct ev_loop *loop, struct registry *registry, const struct announce_options *options);
/* The node stays as it is. Accepts NULL. */
void announce_destroy(struct announce *announce);

/*
 * Sets the wish and its reason (for on_change and people). For UP, `node` is the dialect's node; it
 * is copied, and the announcement's own path is used. For KEEP and DOWN it distinguishes our nodes
 * from other clients', and may be NULL if an earlier call had one.
 */
void announce_wish(struct announce *announce, enum announce_wish wish,
	const struct dialect_node *node, const char *why);

/* The wish makes no record: FAILED for that reason until the next wish; the earlier wish holds. */
void announce_wish_failed(struct announce *announce, const struct err *err);

/* The registry's connection changed, for this reason: decides again. */
void announce_on_registry_state(
	struct announce *announce, enum registry_state state, const char *why);

/* The disk may have it now: a write that was put off asks on_write() again. */
void announce_noted(struct announce *announce);

/* is_former() may give another answer now: decides again. */
void announce_reconsider(struct announce *announce);

/* In force with the next wish. */
void announce_set_takeover(struct announce *announce, bool takeover);
void announce_set_ephemeral(struct announce *announce, bool ephemeral);
void announce_set_update_interval(struct announce *announce, int64_t update_interval_ms);

/* Where its node is; NULL: a sequential node that is not there, or not found. Borrowed. */
const char *announce_path(const struct announce *announce);
enum announce_state announce_get_state(const struct announce *announce);
const char *announce_state_name(enum announce_state state); /* "registered" … */
/* Our record is in the registry: REGISTERED or OUTDATED. */
bool announce_state_is_in(enum announce_state state);
bool announce_registered(const struct announce *announce);
/* ZooKeeper's session that held a record at our path, which its mark proved to be ours; 0: none. */
uint64_t announce_former_session(const struct announce *announce);
const char *announce_why(const struct announce *announce);
/* Wall clock seconds of the last change of state. */
double announce_since(const struct announce *announce);
/* The data of the last wish that had some; NULL: none had. Borrowed until the next one. */
const char *announce_text(const struct announce *announce);
/* In on_write(): the write replaces a record of ours, or of a predecessor that its mark proves. */
bool announce_writes_over_own(const struct announce *announce);
/*
 * The wish is fulfilled: registered when UP, no record of ours when DOWN, any of our records or
 * none when KEEP. An
 * announcement that has never written needs no registry to be withdrawn.
 */
bool announce_settled(const struct announce *announce);
/* It has begun a write, or found its node, or a predecessor may have: a node may be there. */
bool announce_has_written(const struct announce *announce);
/*
 * The persistent node that holds our record, and what is being written to it, for
 * announce_options.persistent of a successor. New reference; NULL when there is neither.
 */
json_t *announce_persistent(const struct announce *announce);
/* It was registered, the registry is away, and its record has not been lost. */
bool announce_outlasts_outage(const struct announce *announce);
/* Settled, and no emptied node waits for the end of its children. */
bool announce_finished(const struct announce *announce);

#endif
