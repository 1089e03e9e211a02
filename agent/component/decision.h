/*
 * Decides an announcement's next step from its wish and from the node at its path. Pure.
 *
 * Whose node is it? An ephemeral node is ours when our session holds it. One of another session may
 * belong to a live agent, whatever its record says: it is a predecessor's only when it is proven to
 * be (a record by its mark, agent/base/holder.h; a node of another scheme by its session, in which
 * such a record is), or when it is as this process left it. A persistent node has no holder whose
 * end one could wait for: it is ours when no client has written it since we did, when its mark
 * proves it, or when it has our yarn:id; without yarn:id when it equals ours. But once we have
 * written it, another agent's mark on it says that it is that agent's now. An empty persistent node
 * is free, as any directory is. Every other node belongs to others, with any content.
 *
 *                   UP                                         DOWN
 *   no node         create                                     -
 *   ours            rewrite if it differs, replace if its      remove (an emptied node: once it has
 *                   kind (ephemeral or persistent) is not      no children)
 *                   the wanted one
 *   predecessor's   take over                                  remove if proven, or by yarn:id
 *   free            take over                                  -
 *   others'         refuse; take over with on_conflict         -
 *
 * KEEP, no verdict yet, never writes.
 */
#ifndef AGENT_COMPONENT_DECISION_H
#define AGENT_COMPONENT_DECISION_H

#include <stdbool.h>

enum announce_wish {
	ANNOUNCE_KEEP, /* no verdict yet: write nothing */
	ANNOUNCE_UP,
	ANNOUNCE_DOWN
};

enum announce_node {
	ANNOUNCE_NODE_UNKNOWN, /* the registry has not reported it yet; nothing is decided */
	ANNOUNCE_NODE_ABSENT,
	ANNOUNCE_NODE_EMPTY,
	ANNOUNCE_NODE_FOREIGN, /* data that is not a record */
	ANNOUNCE_NODE_RECORD
};

enum announce_holder {
	ANNOUNCE_HOLDER_NONE, /* a persistent node */
	ANNOUNCE_HOLDER_US,   /* an ephemeral node of our session */
	ANNOUNCE_HOLDER_OTHER /* an ephemeral node of another session */
};

/* Of a node that this process has not written: who has? */
enum announce_proof {
	ANNOUNCE_UNMARKED, /* nobody can say */
	ANNOUNCE_PROVEN,   /* an agent with our secret: a predecessor */
	ANNOUNCE_STRANGE   /* an agent with another one */
};

enum announce_past {
	ANNOUNCE_PAST_NONE,     /* we have not written a node at this path in this session */
	ANNOUNCE_PAST_WRITTEN,  /* we have, and have not removed it */
	ANNOUNCE_PAST_UNTOUCHED /* this node is in the version that we wrote last */
};

/* How much the record is like the wanted one; each includes those before it. */
enum announce_likeness {
	ANNOUNCE_LIKE_NOTHING,
	ANNOUNCE_LIKE_ID,     /* the same yarn:id; both absent counts */
	ANNOUNCE_LIKE_RECORD, /* the same record, in whatever encoding, with another mark */
	ANNOUNCE_LIKE_BYTES
};

struct announce_view {
	enum announce_wish wish;
	bool want_ephemeral;
	bool takeover; /* on_conflict = takeover */
	/*
	 * The node belongs to all instances of a service: it is written when its data are new to
	 * us, is left to whoever changes it later, and is never removed.
	 */
	bool shared;
	bool accepted; /* shared: our data were there once */
	bool has_id;   /* the wanted record has a yarn:id */

	enum announce_node node;
	enum announce_holder holder;
	enum announce_past past;
	enum announce_proof proof;
	enum announce_likeness likeness;
	bool childless; /* of a node that we emptied: its last child has gone */
};

enum announce_action {
	ANNOUNCE_DO_NOTHING, /* all is as wanted */
	ANNOUNCE_DO_CREATE,
	ANNOUNCE_DO_REWRITE,   /* our node, in place */
	ANNOUNCE_DO_TAKE_OVER, /* another node, replaced atomically */
	ANNOUNCE_DO_REMOVE,
	ANNOUNCE_DO_REFUSE /* a conflict */
};

enum announce_action announce_decide(const struct announce_view *view);

/* A record of ours is at the path. */
bool announce_is_registered(const struct announce_view *view);

#endif
