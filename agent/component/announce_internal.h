/*
 * Inside an announcement, from the top down: announce.c has its life and its wishes; reconcile.c
 * compares the wish with the node, and writes; announce_state.c has the state, and the questions
 * about it.
 */
#ifndef AGENT_COMPONENT_ANNOUNCE_INTERNAL_H
#define AGENT_COMPONENT_ANNOUNCE_INTERNAL_H

#include "agent/base/timer.h"
#include "agent/component/announce.h"
#include "agent/component/node.h"
#include "agent/component/own_search.h"

enum { ANNOUNCE_RETRY_FIRST_MS = 200, ANNOUNCE_WHY_BYTES = 800 };

struct announce {
	struct ev_loop *loop;
	struct registry *registry;
	struct announce_options options;
	char *path; /* of a sequential node: all but its digits */
	/* where the node is; of most it is `path` itself; NULL: of a sequential one, nowhere */
	char *at;
	struct own_search *search; /* for the node's number */
	char **leaving;            /* nodes of ours that another one has replaced */
	size_t leaving_count;

	char *wish_why;
	char *wish_failure; /* why a later wish could not be made; NULL: it could */
	struct announce_wanted wanted;
	struct announce_seen seen;

	enum announce_wish wish;
	enum announce_action doing; /* of the write under way */
	enum announce_state state;
	bool may_be_lost; /* a sequential node of ours may be there under any number */
	bool put_off;     /* a write, until what it is about to do is noted */
	bool childless;   /* the node that we emptied has lost its last child */
	bool stays_empty; /* WITHDRAWN, but for an emptied node with children */
	bool over_own;    /* the write replaces a record of ours, or of a predecessor */
	bool looked;      /* the node was seen, or its absence was, or we wrote */
	bool accepted;    /* the data wanted now were there once: others may change a shared node */
	bool has_written; /* or found, or a predecessor may have */
	bool was_ours;    /* we wrote a node here in this session, and it was not removed */
	bool may_be_registered; /* a record of ours, as far as we know */
	/* The node as we wrote or emptied it last, or found it right. */
	bool ours_is_ephemeral;
	uint64_t ours_id;
	int64_t ours_version;
	uint64_t former_session; /* of a predecessor, whose record was here; 0: none was */

	char *why;
	char *registry_why; /* why it does not answer; NULL: it does, or has not been asked */
	double since;

	struct registry_watch *watch;
	struct registry_watch *children;  /* of a node that we emptied */
	struct registry_request *request; /* the one write under way */
	/* the data of that write, until the node is known to hold it; the wish may have moved on */
	char *sent;
	size_t sent_len;
	char *predecessor_sent; /* what a predecessor was writing when it ended */
	size_t predecessor_sent_len;
	struct timer pause; /* until the next attempt, or until the throttle lets a write pass */
	int64_t retry_ms;
	double written_at; /* monotonic */
};

/*
 * announce_state.c: calls on_change when the state is another one, or is FAILED or CONFLICT again.
 */
void announce_set_state(struct announce *announce, enum announce_state state, const char *why);
/* For a state that is entered again and again without news. */
void announce_stay_in_state(struct announce *announce, enum announce_state state, const char *why);
void announce_set_failed(struct announce *announce, const struct err *err);

const char *announce_registry_why(const struct announce *announce);

/* reconcile.c: compares the wish with the node, and makes the next write. */
void announce_reconcile(struct announce *announce);
void announce_wait_for_registry(struct announce *announce);
void announce_on_pause_over(void *context);
void announce_end_pause(struct announce *announce);
bool announce_is_sequential(const struct announce *announce);
/* Nothing was seen yet, and nothing of ours can be there: a record need not wait for the look. */
bool announce_expects_no_node(const struct announce *announce);
/* The node is in the version that we wrote last. */
bool announce_is_untouched(const struct announce *announce);
/* The node is at `path` from now on; NULL: a sequential one is nowhere. */
void announce_set_place(struct announce *announce, const char *path);
/* It is nowhere; the watch is the caller's. */
void announce_drop_place(struct announce *announce);
/* A sequential node has gone, or its number is unknown. */
void announce_forget_place(struct announce *announce);
void announce_forget_node(struct announce *announce, enum announce_node node);
void announce_forget_leaving(struct announce *announce);

#endif
