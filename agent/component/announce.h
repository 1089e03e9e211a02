/*
 * One record in the registry, kept as it should be.
 *
 * An announcement compares what is wanted (a record, nothing, or "no verdict yet") with what stands at its path, as its watch
 * last saw it, and does the one write that brings them together; whatever wakes it (a new wish, a change in the
 * registry, the end of a write, a reconnect, a timer), it decides anew from scratch. So a record that somebody deleted
 * or changed comes back, a new session registers again, and a failed write is tried again, all by the same path.
 *
 *                    want DOWN / node gone                       write done
 *   +-----------+ <--------------------- WITHDRAWING <----+   +-----------> REGISTERED --+
 *   | WITHDRAWN |                                         |   |                 |        |
 *   +-----------+ ---------------------> WRITING ---------|---+      want DOWN  |        | node changed or gone
 *        ^    \     want UP                |  ^           +---------------------+        |
 *        |     \                           |  +------------------------------------------+
 *        |      +--> CONFLICT (another's record stands there: looked at again when it changes, and with backoff)
 *        +---------- FAILED   (the registry refused: tried again with backoff; or no record can be made of what is wanted)
 *   Any state --> WAITING while the registry is away or what stands there is not known yet.
 *
 * Writes are throttled: at most one per `update_interval`, the latest wish wins. Removing is never delayed.
 * Whose node is it? Ephemeral: ours when our session holds it; a dead predecessor's when it carries our yarn:id. Persistent: ours when
 * nobody has written it since we did (so its yarn:id may change), or when it carries our yarn:id; without an id, when we wrote it or
 * it is just what we would write. If our standing node is replaced by a live twin with the same id, the twin wins and we report CONFLICT.
 */
#ifndef AGENT_COMPONENT_ANNOUNCE_H
#define AGENT_COMPONENT_ANNOUNCE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/record/record.h"
#include "lib/registry/registry.h"

enum announce_wish {
	ANNOUNCE_KEEP, /* no verdict yet: leave what stands, write nothing */
	ANNOUNCE_UP,
	ANNOUNCE_DOWN
};

enum announce_state {
	ANNOUNCE_WAITING,
	ANNOUNCE_WITHDRAWN,
	ANNOUNCE_WRITING,
	ANNOUNCE_REGISTERED,
	ANNOUNCE_WITHDRAWING,
	ANNOUNCE_CONFLICT,
	ANNOUNCE_FAILED
};

/* What the decision is made of. */
struct announce_view {
	enum announce_wish wish;
	bool want_ephemeral;
	bool takeover; /* on_conflict = takeover */
	bool has_id;   /* the wanted record has a yarn:id */
	bool was_ours; /* we have written the node at this path in this session and have not removed it since */
	bool untouched; /* what stands is the very node and version that we last wrote, or found to be as wished */

	bool present;
	bool has_record;
	bool ephemeral;
	bool own;
	bool same_id;   /* the standing record has the wanted one's yarn:id (both absent counts) */
	bool same_data; /* byte for byte what we would write */
	bool same_record; /* the same record, however it is written */
};

enum announce_action {
	ANNOUNCE_DO_NOTHING, /* as it should be */
	ANNOUNCE_DO_CREATE,
	ANNOUNCE_DO_REWRITE,   /* ours, other content: in place */
	ANNOUNCE_DO_TAKE_OVER, /* another's node: replaced atomically */
	ANNOUNCE_DO_REMOVE,
	ANNOUNCE_DO_REFUSE /* conflict */
};

/* Pure: what to do. */
enum announce_action announce_decide(const struct announce_view *view);

struct announce;

struct announce_options {
	const char *path;
	bool ephemeral;
	bool takeover;
	int64_t update_interval_ms;
	/* After each change of state; `why` in words. The announcement may not be destroyed from here. */
	void (*on_change)(
		void *context, enum announce_state from, enum announce_state to, const char *why);
	void *context;
};

/* Begins to watch the path; wishes KEEP until told otherwise. `registry` and `loop` are borrowed. */
struct announce *announce_create(
	struct ev_loop *loop, struct registry *registry, const struct announce_options *options);
/* Stops caring: what stands stays. Accepts NULL. */
void announce_destroy(struct announce *announce);

/*
 * Sets what is wanted, and why (for on_change and people). For UP, `record` is encoded and copied; 0, or the error
 * that says why it cannot be written (then the wish is unchanged). For KEEP and DOWN it serves to tell our records from
 * others' by yarn:id, and may be NULL if one was given before.
 */
int announce_wish(struct announce *announce, enum announce_wish wish, const struct record *record,
	const char *why, struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(5);

/* What is wanted now cannot be made a record of: FAILED with that reason until a wish can be; the wish of before holds. */
void announce_wish_failed(struct announce *announce, const struct err *err);

/* The registry's connection changed: decide again. */
void announce_on_registry_state(struct announce *announce, enum registry_state state);

/* These count from the next wish on. */
void announce_set_takeover(struct announce *announce, bool takeover);
/* These two are in force with the next wish. */
void announce_set_ephemeral(struct announce *announce, bool ephemeral);
void announce_set_update_interval(struct announce *announce, int64_t update_interval_ms);

enum announce_state announce_get_state(const struct announce *announce);
const char *announce_state_name(enum announce_state state); /* "registered" … */
const char *announce_why(const struct announce *announce);
/* Wall clock seconds of the last change of state. */
double announce_since(const struct announce *announce);
/* Wished for and done: registered when UP, nothing of ours left when DOWN, either of them when KEEP. */
bool announce_settled(const struct announce *announce);

#endif
