/*
 * A watched path: what is known of the data of a node or of the list of its children, for all the
 * watches of that kind on that path, and the way to the next value.
 *
 *     watched.c          finds them, and keeps the queues that they are in
 *     watched_doubt.c    knows how old the oldest of their values is
 *     watched_deliver.c  gives the values to the watches
 *     watched_list.c     the rule of the list: which values agree with each other
 *     watched_read.c     reads, and hears of changes
 *     watch.c            the watches of users
 *
 * A watched path has at most one read under way. Only a connected registry reads:
 *
 *     SETTLED --notified, refreshed--> WAITING --(64 at most)--> READING --> SETTLED
 *        |  ^                            ^  ^                     | ^  |
 *        |  '--------- implied           |  '-- CONFIRMING        | |  | notified meanwhile
 *        |                 |             |        ^       overtakes |  v
 *        '--reconnect------+-------------+--------'       a list  | | READING_AGAIN --> WAITING
 *                      FOLLOWING <--------------------------------' |
 *                          '----------------------------------------'
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
 *
 * The rule of the list: no user sees a list without a path and afterwards an older value of that
 * path, nor a path and afterwards an older list without it.
 *
 * - A list that lacks a path which the list before it had makes the path absent, with all that is
 *   below it, in the same dispatch. Where the list before is not known, it does so with all paths
 *   of which no current value is known.
 * - A value that was read and does not agree with the leader (it is there, and the list lacks the
 *   path; it is absent, and the list names the path) is not shown. It is kept as `next`, the path
 *   follows its leader, and the leader is read again. The leader's next value decides.
 * - Where a read and the leader disagree, the one whose read began later is right. Answers may
 *   come in another order than reads began.
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
	struct list link;  /* watches->all */
	struct list place; /* in a queue, among those that read or failed, or of followers */
	struct list delivery_link; /* watches->deliveries */
	struct watched_doubt doubt;
	struct list handles; /* watched_deliver.c's */
	struct list followers;
	struct registry_watched *leader;    /* while FOLLOWING */
	struct registry_call *call;         /* while READING; else NULL */
	const struct registry_value *value; /* what users have, or are about to; NULL: nothing */
	const struct registry_value *last;  /* before a value that is no answer; or NULL */
	const struct registry_value *next;  /* while FOLLOWING: read, and not agreed; or NULL */
	uint64_t serial; /* of the read that gave `value`, also when it was another's; 0: none */
	uint64_t read_serial; /* of its own last read */
	uint32_t epoch;       /* the connection in which the state was learnt; 0: not any more */
	int64_t retry_at_ms;  /* INT64_MAX: not */
	bool asked;           /* the backend may hold a watch for it */
	bool recalled;        /* the value is what a user knew before: no other user gets it */
	bool hurried;         /* while WAITING: among the urgent ones */
	bool disputed;        /* the leader is read again because of `next` */
	bool undelivered;     /* the state differs from the delivered one */
	bool deliver_all;     /* also when the next read finds nothing new */
	bool delivering;
	char path[];
};

/* A user's watch. */
struct registry_watch {
	struct registry_watched *watched;
	struct list link;
	registry_done *on_change; /* NULL: unwatched while its watched path delivers */
	void *context;
	bool delivered; /* some state */
};

/* ---- watched.c ---- */

struct registry_watched *watched_find(
	struct registry *registry, const char *path, enum registry_watch_kind kind);
/* On the registry's list and SETTLED, without watches and value. NULL without memory. */
struct registry_watched *watched_create(
	struct registry *registry, const char *path, enum registry_watch_kind kind);
/* Its followers are to be read from now on. */
void watched_free(struct registry_watched *watched);
/* Takes back the read that is under way, if there is one. */
void watched_end_read(struct registry_watched *watched);
/* Bytes of memory without the value and the watches. NULL: with no path. */
size_t watched_bytes(const struct registry_watched *watched);
/* The known state is true, and the backend will report its next change. */
bool watched_is_settled(const struct registry_watched *watched);
/* Leaves the queue or the leader that it is with, and begins the phase at the end of `queue`. */
void watched_enter(struct registry_watched *watched, enum watched_phase phase, struct list *queue);
/* Queues a read, also behind a read that is under way. */
void watched_want_read(struct registry_watched *watched);
/* A user waits for it, or for its confirmation: it, or what it follows, is read before others. */
void watched_hurry(struct registry_watched *watched);
/* The watched path to be read next; it has left its queue. NULL: none is due. */
struct registry_watched *watched_next_read(struct registry_watches *watches);
/* When that may be another; INT64_MAX: not before something happens. */
int64_t watched_next_read_ms(const struct registry *registry);
/* SETTLED, and read again after about this time, unless it is before that. */
void watched_retry_later(struct registry_watched *watched, int delay_ms);

/* The last value that the registry has answered with; or NULL. */
static inline const struct registry_value *watched_answer(const struct registry_watched *watched)
{
	return watched->last ? watched->last : watched->value;
}

/* ---- watched_doubt.c ---- */

/*
 * The known state may have changed, and the change is not read yet: an announced one, or one of a
 * watched that loses its leader and has no notification of its own before its read. The doubt ends
 * when the users have the state that was read or implied afterwards. The known state is no truer
 * than the leader's that implied it; NULL: none.
 */
void watched_doubt_begin(struct registry_watched *watched, const struct registry_watched *leader);

/* ---- watched_deliver.c ---- */

/* Delivers the known state at the next dispatch, or at the end of this one. */
void watched_deliver_later(struct registry_watched *watched);
/* Delivers a state that was read; `again`: another read follows. May free it. */
void watched_deliver_read(struct registry_watched *watched, bool again);
void watched_deliver_due(struct registry_watches *watches);
/* Frees it when nobody watches it any more. */
void watched_free_if_unused(struct registry_watched *watched);

/* ---- watched_list.c ---- */

/* Queues the first read of a path, or follows the watch that implies its state. */
void watched_want_first(struct registry_watched *watched);
/* True when the confirmation of another path confirms this one, which follows it from now on. */
bool watched_follows_instead(struct registry_watched *watched);
/*
 * Takes the value that was read. True when users get it: it is watched->value now. Else the leader
 * decides, or another read does. `again`: it was notified of another change meanwhile.
 */
bool watched_take(struct registry_watched *watched, const struct registry_value *read_take,
	bool again) __attribute__((warn_unused_result));
/* The read of a leader gave no state: those without any state read for themselves. */
void watched_leader_failed(struct registry_watched *leader);
/* The node was deleted: the state follows, or is read. `watched` may be NULL. */
void watched_node_is_gone(struct registry_watched *watched);

/* ---- watched_read.c ---- */

/* Reads again, or lets its leader do so; the result is delivered in any case. */
void watched_refresh(struct registry_watched *watched);
/* Starts reads that wait, as many as may be under way. */
void watched_submit(struct registry *registry);

#endif
