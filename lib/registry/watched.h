/*
 * A watched path: the state that all watches of one kind on one path share, and the way to the next
 * state. watch.c delivers states to the handles; watched.c reads them; watched_follow.c takes them
 * from another watched path; watched_doubt.c knows how old the oldest of them is.
 *
 * A watched path has at most one read under way. Only a connected registry reads:
 *
 *     SETTLED --notified, refreshed--> WAITING --(64 at most)--> READING --> SETTLED
 *        |  ^                            ^  ^                      |  ^
 *        |  '--------- implied           |  '-- CONFIRMING         |  | notified meanwhile
 *        |                 |             |        ^                v  |
 *        '--reconnect------+-------------+--------'          READING_AGAIN --> WAITING
 *                      FOLLOWING
 *     INVALID: the path is invalid; it is never read.
 *
 * Each read arms the next notification; a failed read may not have done so, and is tried again
 * later. After a reconnect every watched path is CONFIRMING: these reads are spread over a
 * window, because all clients of a restarted server come at once. Reads that a user wants go first.
 *
 * FOLLOWING needs no read and no notification of its own, because another watched path implies
 * its state: the data of the same path (an ephemeral or absent node has no children), or
 * the list of the parent's children (a path that it does not name is absent). The follower waits
 * until its leader is settled, and looks again whenever the leader has learnt something; when the
 * leader's state implies nothing, the follower reads. A path whose node was deleted follows its
 * parent's list, which has changed by then. The path must not count as absent at once: another node
 * may have replaced the old one.
 */
#ifndef LIB_REGISTRY_WATCHED_H
#define LIB_REGISTRY_WATCHED_H

#include "lib/registry/internal.h"
#include "lib/registry/value.h"

enum watched_phase {
	WATCHED_SETTLED,
	WATCHED_CONFIRMING,
	WATCHED_WAITING,
	WATCHED_READING,
	WATCHED_READING_AGAIN,
	WATCHED_FOLLOWING,
	WATCHED_INVALID
};

/*
 * A change of the known state may have gone unread: until the users have the state that was read
 * afterwards, nothing that is heard says more than what had been heard before.
 */
struct watched_doubt {
	struct list link; /* watches->doubted, or alone: there is no doubt */
	int64_t heard_ms; /* when the known state was true */
	bool resolved;    /* the state has been read; not all users have it */
};

struct registry_watched {
	struct registry *registry;
	enum registry_watch_kind kind;
	enum watched_phase phase;
	struct list link;          /* watches->all */
	struct list place;         /* in a queue of watches, or among the leader's followers */
	struct list delivery_link; /* watches->deliveries */
	struct watched_doubt doubt;
	struct list handles; /* watch.c's */
	struct list followers;
	struct registry_watched *leader;    /* while FOLLOWING */
	struct registry_call *call;         /* while READING; else NULL */
	const struct registry_value *value; /* what is known; NULL: nothing yet */
	uint32_t epoch;      /* the connection in which the state was learnt; 0: not any more */
	int64_t retry_at_ms; /* INT64_MAX: not */
	bool asked;          /* the backend may hold a watch for it */
	bool undelivered;    /* the state differs from the delivered one */
	bool deliver_all;    /* also when the next read finds nothing new */
	bool delivering;
	char path[];
};

struct registry_watched *watched_find(
	struct registry *registry, const char *path, enum registry_watch_kind kind);
/* On the registry's list, without handles, and about to be read. NULL without memory. */
struct registry_watched *watched_create(
	struct registry *registry, const char *path, enum registry_watch_kind kind);
/* Takes back the read that is under way, if there is one. */
void watched_end_read(struct registry_watched *watched);
/* Bytes of memory without the value and the handles. NULL: with no path. */
size_t watched_bytes(const struct registry_watched *watched);
/* Its followers look after themselves from the next dispatch on. */
void watched_free(struct registry_watched *watched);
/* Reads again, or lets its leader do so; the result is delivered in any case. */
void watched_refresh(struct registry_watched *watched);
/* If it waits for its confirmation: it does so no longer. */
void watched_hurry(struct registry_watched *watched);
/* Starts reads that wait, as many as may be under way. */
void watched_submit(struct registry *registry);
/* Delivers the known state at the next dispatch. */
void watched_deliver_later(struct registry_watched *watched);

/*
 * watch.c: delivers the state to all handles, or only to those that have no state yet. May free it.
 */
void watched_deliver(struct registry_watched *watched, bool all);

/* ---- watched.c, for the other two ---- */

/* Leaves the queue or the leader that it is with, and begins the phase at the end of `queue`. */
void watched_enter(struct registry_watched *watched, enum watched_phase phase, struct list *queue);
/* Queues a read, also behind a read that is under way. */
void watched_want_read(struct registry_watched *watched);
/*
 * Takes the state that the backend, or the leader, has found. -1 without memory: what was known
 * stays, no longer settled, and the path is read again soon.
 */
int watched_learn(struct registry_watched *watched, const struct registry_task *found)
	__attribute__((warn_unused_result));
/* The known state is true, and the backend will report its next change. */
bool watched_is_settled(const struct registry_watched *watched);

/* ---- watched_follow.c ---- */

/* Queues the first read of a path, or follows the watch that implies its state. */
void watched_want_first(struct registry_watched *watched);
/* True when the confirmation of another path confirms this one, which follows it from now on. */
bool watched_follows_instead(struct registry_watched *watched);
/*
 * The followers look again at their leader, which has `answered` with a state or got no answer. One
 * that has to read leaves: the leader's state implies nothing, or the follower waits for an answer.
 * No callback runs here.
 */
void watched_update_followers(struct registry_watched *leader, bool answered);
/* The node was deleted: the state follows, or is read. `watched` may be NULL. */
void watched_node_is_gone(struct registry_watched *watched);

/* ---- watched_doubt.c ---- */

/*
 * The known state may have changed, and the change is not read yet: an announced one, or one of a
 * watched that loses its leader and has no notification of its own before its read. The doubt ends
 * when the users have the state that was read or implied afterwards.
 */
void watched_doubt_begin(struct registry_watched *watched);

#endif
