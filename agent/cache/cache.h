/*
 * The lookup cache: nodes of the registry, kept true by watches, and ready answers about them.
 *
 *   registry watch --> entry (data or children of a path) --> answers of the path and its parent
 *                                                        \--> observers of the path and of trees
 *
 * An entry is live while its watch is. A lookup is answered from live entries (a hit), after
 * loading missing entries (a miss: one read for any number of clients), or from stale ones. Absence
 * is an entry like any other.
 *
 * A watch alone proves nothing about the present: the server may be frozen, or the connection dead.
 * So an answer of live entries is confirmed only while the server was heard within the last
 * `confirm_ms`. When look-ups come in and nothing was heard for half of it, one cheap read confirms
 * all entries at once; while that stays without an answer, answers are stale, with their age since
 * the server was last heard. A cache without look-ups sends nothing.
 *
 * Everything is charged to `max_size_bytes`; the least recently used paths go first and give their
 * watches back. Observed paths stay; when these alone are too much, the cache refuses the observers
 * that came last, those of whole trees first, then the lookups. A directory that cannot fit is
 * refused before any of its children is read, and for a while without another look at its list.
 *
 * Changes reach waiting lookups and observers once per turn of the loop, before it sleeps, never
 * from inside a call of this interface. No turn does work without bound: large bodies, evictions,
 * events and pictures for many observers go on in the next turns. Loop thread only.
 */
#ifndef AGENT_CACHE_CACHE_H
#define AGENT_CACHE_CACHE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/file_work.h"
#include "agent/cache/filter.h"
#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "lib/base/list.h"
#include "lib/registry/registry.h"
#include "lib/registry/value.h"

#define CACHE_ETAG_BYTES 24

struct cache;

struct cache_options {
	size_t max_size_bytes;
	int64_t confirm_ms;   /* 0: a third of the session timeout */
	int64_t max_stale_ms; /* 0: no limit */
	int64_t resync_ms;
	/* paths; recursive ones end in slash and two asterisks; borrowed for the call */
	char *const *warm;
	size_t warm_count;
	const char *snapshot_name; /* of its file; NULL: "cache"; borrowed for the cache's life */
	/* Frees the front end's rendering of an answer. */
	void (*release_rendering)(void *rendering);
};

struct cache_stats {
	size_t paths;
	size_t entries;
	size_t bytes;
	size_t max_bytes;
	double stale_seconds; /* since the registry went away; 0 while it is connected */
	uint64_t loads;
	uint64_t evictions;
	uint64_t refusals; /* observers and lookups that did not fit */
	size_t searches;   /* that look-ups began, and that are under way */
	uint64_t steps;    /* of the work for observers, pictures and answers over children */
};

struct cache *cache_create(
	struct ev_loop *loop, struct registry *registry, const struct cache_options *options);
/* No lookup and no observer may be left. Accepts NULL. */
void cache_destroy(struct cache *cache);

/* ---- further registries: each has a cache of its own, and shares nothing with the others ---- */

/*
 * From now on `other` is the cache of `at` and all below it, among the users of `cache`, until it
 * is detached. Both stay the caller's.
 */
void cache_attach(struct cache *cache, const char *at, struct cache *other);
void cache_detach(struct cache *cache, const struct cache *other);
/*
 * The cache for the path: an attached one, or `cache` itself. All that is asked of a path is asked
 * of its cache, and what follows from an answer, too: its age, its confirmation.
 */
struct cache *cache_at(struct cache *cache, const char *path);
/*
 * A client is about to wait for a read: counts it until cache_leave(). False when CACHE_MAX_WAITING
 * wait for this attached cache already: a registry that is slow must not take all connections and
 * questions that there can be. The first cache has no such bound.
 */
enum { CACHE_MAX_WAITING = 256 };
bool cache_enter(struct cache *cache, struct err *err) ERR_REQUIRED(2);
void cache_leave(struct cache *cache);
/* Before the end of a cache in use: all that waits for it, and all observers, are refused. */
void cache_refuse_all(struct cache *cache, const struct err *err);
enum registry_state cache_registry_state(const struct cache *cache);

/* ---- the cache as a whole ---- */

/* After a reload: limits and warm paths. */
void cache_set_options(struct cache *cache, const struct cache_options *options);
/* To be called with every change of the registry's state. */
void cache_on_registry_state(struct cache *cache, enum registry_state state);
/*
 * The time at which the registry reported the first change that this turn delivers; monotonic
 * seconds.
 */
double cache_change_time_s(const struct cache *cache);
void cache_get_stats(const struct cache *cache, struct cache_stats *stats);
bool cache_is_connected(const struct cache *cache);
/* Counts memory of a user of the cache in max_size_bytes, or no longer: bytes before and now. */
void cache_reserve(struct cache *cache, size_t before, size_t after);
/*
 * From now on `on_touched` hears of each path of which anything has changed, or is not known to be
 * true any more, but for an outage of the registry as a whole: at once, before any answer, wait or
 * observer does. It must not call the cache, but for cache_reserve(). NULL ends that.
 */
void cache_set_touched(
	struct cache *cache, void (*on_touched)(void *context, const char *path), void *context);
/* Have the observers heard of all that on_touched has? */
bool cache_is_settled(const struct cache *cache);

/* ---- answers ---- */

enum cache_answer_kind {
	CACHE_RESOLVE, /* the record as stored; NO_RECORD, INVALID_RECORD */
	CACHE_LIST,    /* sorted array of child paths */
	CACHE_RECORDS, /* object: child path -> record */
	/* array of addresses, of the record and its direct children; or lines of text */
	CACHE_ENDPOINTS,
	CACHE_TARGETS, /* the same addresses for Prometheus; an absent path has none */
	CACHE_STAT,
	/*
	 * for an agent that follows this one: a node as the registry holds it, {"created_ms",
	 * "modified_ms", "node_id", "version", "size", "ephemeral"}, with "data" that is a record,
	 * or bears a record's marker
	 */
	CACHE_NODE,
	/* likewise its children: the same members but "data", and "names", "foreign" */
	CACHE_NODE_LIST,
	/*
	 * object: path -> record, of everything below; made by a walk for each lookup, unless one
	 * waits for changes
	 */
	CACHE_FIND
};

/* Searches that look-ups begin: so many may be under way, or wait for their walk. */
enum { CACHE_MAX_SEARCHES = 32 };

struct cache_query {
	const char *path;
	enum cache_answer_kind kind;
	const struct cache_filter *filter; /* NULL: anything, as JSON */
	bool refresh;                      /* read again from the registry first */
	bool joins;         /* FIND: only a search that is under way already; none may begin */
	int64_t max_age_ms; /* a tighter bound than confirm_ms; negative: none */
	int64_t now_ms;     /* monotonic */
};

/* Borrowed until the next turn of the loop. */
struct cache_answer {
	const char *body;
	size_t len;
	/* quoted; depends on the content of the answer, not on its time */
	char etag[CACHE_ETAG_BYTES];
	int64_t true_at_ms; /* monotonic; for an answer that is not live */
	bool live;          /* made of live entries; see cache_answer_confirmed() */
	struct err *err;    /* NULL: body holds the answer; else PATH_NOT_FOUND, NO_RECORD … */
	const struct registry_value *value; /* of RESOLVE and LIST, what the body shows; or NULL */
	void *rendering;                    /* the front end's, and so is its age */
	long rendering_age;
};

/* A lookup under way, in the caller's memory. */
struct cache_wait {
	/*
	 * `answer` is NULL without an answer: err has the reason (REGISTRY_UNAVAILABLE …). The wait
	 * is over.
	 */
	void (*on_answer)(void *context, struct cache_answer *answer, const struct err *err);
	void *context;
	char unlike[CACHE_ETAG_BYTES]; /* "" or: wait for an answer with another ETag */
	int64_t not_before_ms;         /* this and the following members are the cache's */
	struct list link;
	struct list unconfirmed_link;
	void *answer; /* NULL: not waiting */
};

enum cache_verdict { CACHE_READY, CACHE_WAITING, CACHE_UNAVAILABLE };

/* The confirmed answer, or NULL. Allocates nothing. The path need not be valid. */
struct cache_answer *cache_find(struct cache *cache, const struct cache_query *query);

/*
 * An answer by all means: READY gives it in *ret_answer, confirmed or stale; WAITING calls
 * wait->on_answer later; UNAVAILABLE fills err. The path must be valid. With wait->unlike set, an
 * answer with that ETag is waited out.
 */
enum cache_verdict cache_ask(struct cache *cache, const struct cache_query *query,
	struct cache_wait *wait, struct cache_answer **ret_answer, struct err *err) ERR_REQUIRED(5);
void cache_cancel(struct cache_wait *wait);
/* The answer is there, and waits only for the confirmation. */
bool cache_is_confirming(const struct cache_wait *wait);
/*
 * The answer without waiting, confirmed or not; NULL when a part of it is not known. Reads that it
 * waits for because of a refresh go on without it.
 */
struct cache_answer *cache_known(
	struct cache *cache, const struct cache_query *query, int64_t now_ms);
/* Keeps the answer's body beyond the turn, until cache_body_release() is called with the result. */
void *cache_body_hold(const struct cache_answer *answer);
void cache_body_release(void *body);
/*
 * Live, and the server was heard within confirm_ms, or within max_age_ms if that is less and not
 * negative.
 */
bool cache_answer_confirmed(const struct cache *cache, const struct cache_answer *answer,
	int64_t max_age_ms, int64_t now_ms);
/* How long ago the answer was true for sure. */
int64_t cache_answer_age_ms(
	const struct cache *cache, const struct cache_answer *answer, int64_t now_ms);

/* ---- observers: pictures that follow the registry, for streams and users inside the agent ---- */

enum cache_scope {
	CACHE_SELF,         /* the path alone */
	CACHE_CHILDREN_TOO, /* and its direct children */
	CACHE_TREE          /* and everything below */
};

enum cache_event { CACHE_UPDATED, CACHE_DELETED, CACHE_STALE, CACHE_FRESH };

struct cache_node;

/*
 * Follows every change of a path, in the caller's memory. After on_ready the picture is complete:
 * read it with cache_read_picture(), again after each event, or replay the events onto a snapshot.
 *
 *   LOADING --the last state arrives--> DUE --end of the turn--> LIVE <----> STALE
 *      ^                                 |                        (the registry's silence)
 *      '---- more is to be loaded -------'
 */
enum cache_observer_state {
	CACHE_OBSERVER_LOADING,
	CACHE_OBSERVER_DUE, /* everything may be loaded now */
	CACHE_OBSERVER_LIVE,
	CACHE_OBSERVER_STALE
};

struct cache_observer {
	enum cache_scope scope;
	/* Everything observed has been loaded; on_event follows. May be NULL. */
	void (*on_ready)(void *context);
	/*
	 * `path` and `record` (JSON on one line, "null" for a node without record) are for UPDATED;
	 * DELETED has a path only; both set `was_true_at_ms`. May be NULL.
	 */
	void (*on_event)(
		void *context, enum cache_event event, const char *path, const char *record);
	/* The list of some children has changed: records may still have to be read. May be NULL. */
	void (*on_listed)(void *context);
	/*
	 * The picture does not fit into max_size_bytes (LIMIT_EXCEEDED), or not all of it is known
	 * while the registry is away. The observer is removed. When this is NULL, it waits for the
	 * registry.
	 */
	void (*on_refused)(void *context, const struct err *err);
	void *context;
	int64_t was_true_at_ms; /* in on_event, on_listed: when what was before was surely so */
	struct cache_follow *follow; /* the rest is the cache's */
	struct cache_node *node;
	struct list link;
	struct list all_link;
	struct list due_link;
	size_t missing;
	size_t read; /* nodes and lists that have come while it was LOADING */
	enum cache_observer_state state;
};

/* `path` must be valid. on_ready comes later: in the next turn, if everything is loaded already. */
void cache_observe(struct cache *cache, const char *path, struct cache_observer *observer);
/* Accepts an observer that was refused, or unobserved before. */
void cache_unobserve(struct cache_observer *observer);
const char *cache_observed_path(const struct cache_observer *observer);

/* A node of a picture. */
struct cache_record {
	const char *path;
	/* the record as stored, NUL-terminated; NULL: the node holds no valid record */
	const char *data;
	size_t len;
	const struct registry_value *value; /* of the data; it may be kept beyond the call */
};

struct cache_picture {
	bool confirmed; /* all of it is live, and the server was heard within confirm_ms */
	bool live;      /* all of it is live and was read, and events have told of all of it */
	int64_t age_ms; /* how long ago all of it was true for sure */
};

/*
 * Reads a picture that is ready: calls `visit` (or NULL) for each node, parents first, children in
 * order. Borrowed for the call.
 */
struct cache_picture cache_read_picture(const struct cache_observer *observer, int64_t now_ms,
	void (*visit)(void *context, const struct cache_record *record), void *context);
/*
 * Whether a snapshot can be written without much work. While it is false, the text of a large
 * picture is being made: ask again in the next turn.
 */
bool cache_snapshot_ready(const struct cache_observer *observer);
/* Appends {"path": record or null, …} of everything observed. */
void cache_write_snapshot(const struct cache_observer *observer, struct buffer *out);

/* ---- for names ---- */

/*
 * Another number whenever anything above may have changed, but for the passing of time: with the
 * same number a result holds as long as cache_confirm() says READY.
 */
uint64_t cache_generation(const struct cache *cache);

/* ---- every record, for an index of them ---- */

/* The data of the path have come or changed (`known`), or have gone. */
typedef void cache_data_visitor(void *context, const char *path, bool known);

/*
 * Calls `visit` at each such change from now on, from inside the cache's own work: it must not call
 * the cache, but for cache_reserve(). There is one visitor; NULL ends it.
 */
void cache_on_data(struct cache *cache, cache_data_visitor *visit, void *context);
/*
 * Visits each path with known data, of `most` paths or some more from *cursor on, which is 0 at
 * first and moves. False at the end. Paths that come between two calls may be left out, and others
 * be visited twice, when a visitor of changes hears of them.
 */
bool cache_visit_paths(const struct cache *cache, size_t *cursor, size_t most,
	cache_data_visitor *visit, void *context);
/* The data of the path as stored, whatever they are; borrowed until the next turn of the loop. */
bool cache_known_data(const struct cache *cache, const char *path, struct cache_record *ret_record);

/*
 * Confirms all pictures: READY, the server was heard within confirm_ms. WAITING: a read is under
 * way, and wait->on_answer comes with answer NULL and err->code 0 or REGISTRY_UNAVAILABLE.
 * UNAVAILABLE: it is away, or has been silent for long. With `wait` NULL the result is READY or
 * UNAVAILABLE, and no callback follows.
 */
enum cache_verdict cache_confirm(struct cache *cache, int64_t now_ms, struct cache_wait *wait);
/* The same with a bound of the caller's, tighter than confirm_ms. */
enum cache_verdict cache_confirm_within(
	struct cache *cache, int64_t max_age_ms, int64_t now_ms, struct cache_wait *wait);
/* How long ago the server was heard; INT64_MAX: never. */
int64_t cache_heard_age_ms(const struct cache *cache, int64_t now_ms);
/* The bound of a confirmed answer's age; a third of the session timeout unless configured. */
int64_t cache_confirm_ms(const struct cache *cache);
/*
 * Until when live answers count as confirmed if nothing is heard any more; 0: they do not count.
 */
int64_t cache_hits_until_ms(const struct cache *cache, int64_t now_ms);

/* ---- across restarts ---- */

/*
 * The work that saves the known entries into a state directory: a child writes what the cache knows
 * when it begins. The cache must be there until the work is done, or cancelled.
 */
void cache_save(struct cache *cache, const char *directory, struct file_work *ret_work);
/* So much has changed since a save began that another one is worth it. */
bool cache_is_outgrown(const struct cache *cache);
/* The changes since then, for cache_load(); free(). */
char *cache_changes(const struct cache *cache);
/*
 * Loads what was saved, with the `changes` since, or NULL, as stale with its true age, to be
 * confirmed by the registry. A large file is loaded in the next turns; what anybody asks for
 * meanwhile comes first, so that nobody notices. A damaged file, or one of another registry, is
 * ignored with a log line.
 */
void cache_load(struct cache *cache, const char *directory, const char *changes);
bool cache_is_loading(const struct cache *cache);

#endif
