/*
 * Sets: who serves something. The one answer that all forms are written from.
 *
 *   key --> paths --> records, from the cache's values --> members, in order --> set
 *
 * A key is a path or a name, which endpoints and attributes count, a zone that is near, how many
 * are enough, and the paths below which the same is looked for where there are fewer. All users of
 * the same key have the same followed set: it is computed once for each change. A set is immutable,
 * and belongs to all who hold it.
 *
 *   LOADING --known--> READY <----> STALE (a part of it is not confirmed)
 *      '--- away, or no room ---> REFUSED --later--> LOADING
 *
 * The rules for sets, here alone:
 *
 *   - A set that was known stays as it was until a confirmed one takes its place: never is one made
 *     from an unconfirmed picture. The first may be stale, for want of anything better.
 *   - With `least`, a set that falls below it stays as it was, but for an empty one where that
 *     counts. A member of weight 0 serves nobody.
 *   - A further path comes in while the nearer ones have less than `least`, 1 at least, and stays
 *     for `hold_ms` (lib/render/failover.h). If it takes too long it counts as unconfirmed.
 *   - An empty set waits for a path that is not confirmed: the members may be there.
 *   - Members are in the order of tiers, then of paths, then of a record's addresses.
 *   - The age of a set is how long ago all that it rests on, present or absent, was surely so; from
 *     the first change that it does not show, it stays at the moment before that change, until a
 *     confirmed set replaces it. With such a change it is confirmed no longer than the cache's
 *     bound allows.
 *   - A set is followed for a while when nobody asks for it any more; the memory of such ones is an
 *     eighth of the cache's at most.
 *
 * Loop thread only.
 */
#ifndef AGENT_SET_SET_H
#define AGENT_SET_SET_H

#include <ev.h>

#include "agent/cache/cache.h"
#include "agent/set/record.h"
#include "lib/base/list.h"

enum { SETS_LINGER_MS = 30000, SETS_FURTHER_MS = 1000 };

struct sets;
struct set_question;

enum set_kind {
	SET_OF_PATH, /* the record at the path, and those of its children */
	SET_OF_NAME, /* what lib/names/meaning.h says of it */
	SET_NAMES,   /* no members: the names of all records at and below the path */
	SET_OF_NODE, /* the record at the path alone */
	SET_OF_TREE, /* and all below it */
	/*
	 * as SET_OF_PATH, or with a trailing / and two asterisks everything below, too; the further
	 * paths stand for themselves, and are not those that the path lies below
	 */
	SET_OF_PLACES
};

/* Borrowed for the call. */
struct set_key {
	enum set_kind kind;
	const char *what; /* a valid path; a name, with or without the domain */
	struct render_filter filter;
	const char *near; /* a zone, "" for none; NULL: all of a path are equally near */
	unsigned least;
	bool empty_counts;    /* as enough, whatever `least` is */
	char *const *further; /* paths, the best first */
	size_t further_count;
	int64_t hold_ms;
};

struct set_member {
	struct set_record *record;
	unsigned rank; /* 0: where it was asked for; 1: at the first further path … */
	unsigned tier; /* see render_tier() */
};

/* Each is written when it is first wanted, and kept with the set. */
enum set_form {
	SET_JSON,           /* see write.c */
	SET_LINES,          /* one member a line, host:port; those without are left out */
	SET_ENDPOINTS,      /* those of lib/render: an array of addresses, with tiers */
	SET_ENDPOINT_LINES, /* … the addresses as text */
	SET_TARGETS,        /* … Prometheus' targets */
	SET_FORMS
};

struct set_text {
	char *text; /* NULL: not written yet */
	size_t len;
};

struct set {
	size_t references;
	uint64_t version; /* of its content: the same in each process */
	struct set_question *question;
	bool exists;                /* there is such a path or name */
	bool by_address;            /* of a name: that address alone is meant */
	bool confirmed;             /* false: the first one, from an unconfirmed picture */
	bool doubtful;              /* there may be more: a path that is needed is not confirmed */
	bool enough;                /* as many serve as `least` */
	struct set_member *members; /* by record, in order */
	size_t count;
	struct set_text texts[SET_FORMS];
};

void set_hold(struct set *set);
/* Accepts NULL. */
void set_release(struct set *set);
/* As long as the set. */
const struct set_text *set_text(struct set *set, enum set_form form);

/* The last evaluation, which may have become the set, or not. */
struct set_count {
	unsigned used;       /* so many paths are in use */
	size_t serving;      /* so many records serve */
	bool held;           /* too few: the set before stays */
	const char *missing; /* a further path that is needed, and not confirmed; or NULL */
};

enum set_state { SET_LOADING, SET_READY, SET_STALE, SET_REFUSED };

/* A user's view; borrowed until the next turn of the loop. */
struct set_view {
	enum set_state state;
	struct set *set; /* NULL: none is known */
	struct set_count counted;
	unsigned revision; /* another one when the set or the count is another */
	int64_t age_ms;    /* STALE */
	/* READY as far as changes go, but the server is asked whether it still is */
	bool confirming;
	const struct err *err; /* REFUSED */
	struct cache *cache;   /* that it was asked of first */
	/*
	 * READY, and made of what that cache has below its nearest path alone: it holds until the
	 * cache touches one of these paths.
	 */
	bool lasts;
};

/* Somebody who follows a set; in the caller's memory. */
struct set_user {
	/*
	 * Something of the view has changed, or a confirmation has come. It may end the following
	 * of its own set alone.
	 */
	void (*on_news)(void *context);
	void *context;
	/* monotonic; 0, or the server must have been heard since then for a set to be confirmed */
	int64_t heard_since_ms;
	struct set_followed *followed; /* NULL: not under way; this and the rest are the module's */
	struct cache *waits;           /* cache_enter() */
	struct list link;
};

/* The domain is borrowed. */
struct sets *sets_create(struct ev_loop *loop, struct cache *cache, const char *domain);
/* Without users. Accepts NULL. */
void sets_destroy(struct sets *sets);
/* Caches were attached or detached: what was of them is observed where it is now. */
void sets_rewire(struct sets *sets);
/* Of those that are followed. */
size_t sets_count(const struct sets *sets);

void set_follow(struct sets *sets, struct set_user *user, const struct set_key *key);
/* The same for a set that is followed already; false: it is not, and nothing is read. */
bool set_follow_known(struct sets *sets, struct set_user *user, const struct set_key *key);
/* Accepts one that is not under way. */
void set_leave(struct set_user *user);
/* With confirmation, a silent server is asked: on_news follows while the view is `confirming`. */
enum set_look {
	SET_AS_KNOWN,
	SET_CONFIRMED,
	SET_CONFIRMED_NEAREST /* it alone counts, and is loaded: that is enough for a decision */
};
struct set_view set_look(struct set_user *user, enum set_look how);
/* A client waits for the set, until set_leave() or set_wait_end(). False: too many do. */
bool set_wait(struct set_user *user, struct err *err) ERR_REQUIRED(2);
void set_wait_end(struct set_user *user);

#endif
