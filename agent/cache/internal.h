/*
 * The inside of the cache, shared by its files: cache.c (paths, limits, time), entry.c (entries
 * and their watches), listing.c (what a list says of its children), heard.c (was the server heard
 * lately?), ask.c with answer.c, make.c, body.c and search.c, follow.c with picture.c, records.c
 * (for an index of the records), snapshot.c.
 */
#ifndef AGENT_CACHE_INTERNAL_H
#define AGENT_CACHE_INTERNAL_H

#include "agent/base/timer.h"
#include "agent/cache/cache.h"
#include "lib/registry/value.h"

enum { CACHE_ALLOCATION_BYTES = 16 }; /* malloc's overhead for each block */

enum cache_kind { CACHE_DATA, CACHE_CHILDREN };

/* The body of an answer, which responses on their way share. */
struct cache_body {
	unsigned references;
	const struct registry_value *value; /* what it shows, if that is one value; or NULL */
	const char *data;                   /* NUL-terminated: `text`, or the value's */
	size_t len;
	char text[];
};

/*
 * The life of an entry.
 *
 *   IDLE --load--> QUEUED --at once---> READING --state--> LIVE
 *                                          |               | ^ ^
 *                                no answer |   registry    | | '-- state -- RECHECKED
 *                                          |   away, or    | |                  ^
 *                                          v   no answer   | | state            | a second later
 *                                       UNCONFIRMED <------' |                  |
 *                                          '-----------------+-- doubtful -> DOUBTED
 *
 * "Nothing" in the first state after a reconnect, where there was something before, may come from a
 * server that lags or was set up anew: the cache doubts it, and believes it when the registry
 * reports it again. A path that is absent because its parent's list lacks it is doubted with the
 * list. All watched entries become UNCONFIRMED when the registry goes away; an entry that is
 * READING then goes on with it after the reconnect.
 */
enum cache_entry_state {
	CACHE_IDLE,        /* not watched; may hold a value of a snapshot */
	CACHE_QUEUED,      /* to be watched: the registry is away, or the cache is full */
	CACHE_READING,     /* watched; the first read is under way */
	CACHE_UNCONFIRMED, /* watched; the registry reads it again by itself */
	CACHE_DOUBTED,
	CACHE_RECHECKED,
	CACHE_LIVE
};

/* Whether an entry's data are a valid record; the cache finds it out once, at its first use. */
enum cache_content { CACHE_CONTENT_UNSEEN, CACHE_CONTENT_RECORD, CACHE_CONTENT_OTHER };

/* The data or the list of children of one path. */
struct cache_entry {
	struct cache *cache;
	struct cache_node *node;
	struct registry_watch *watch;
	struct list link; /* cache->queue while QUEUED, cache->doubted while DOUBTED */
	const struct registry_value *value; /* the registry's, or of a snapshot; NULL: not known */
	int64_t true_at_ms; /* when it was true for sure; while LIVE ask cache_true_at_ms() */
	enum cache_kind kind;
	enum cache_entry_state state;
	enum cache_content content;
	bool hidden;  /* clients get the data with escapes */
	bool awaited; /* known, and answers wait for the next state all the same */
	/* The last state that observers know. */
	bool existed; /* as announced last */
	bool in_list; /* the list of its parent's children held the path then, or does since */
	bool changed; /* since it was announced */
};

/* A hit looks at the end of a node and at the end of an answer: both are few cache lines. */
struct answer {
	struct cache *cache;
	struct cache_body *body; /* behind public.body */
	struct cache_node *node;
	struct list waits;
	struct cache_build *build; /* for a large body, over several turns; else NULL */
	struct cache_find *find;   /* of kind FIND */
	size_t missing;
	size_t charged;
	bool refresh_children;
	struct cache_answer public;
	struct answer *next;
	struct cache_filter *filter; /* NULL: it accepts anything */
	enum cache_answer_kind kind;
	bool ready;
	bool busy;    /* being delivered */
	bool own;     /* a client wants a read, or a change: its own entries are loaded */
	bool passing; /* made of a list above its path: it goes at the end of the turn */
};

struct cache_node {
	struct list order; /* cache->order, or cache->pinned */
	struct cache_node *dirty_next;
	struct cache_entry *entries[2];
	struct list observers;
	struct answer *answers;
	struct cache_node *hash_next;
	uint32_t hash;
	uint16_t path_len;
	uint8_t arrived; /* a bit for each entry whose state came since the last flush */
	bool dirty;
	bool used; /* since its last turn to be evicted */
	char path[];
};

/*
 *   HEARD --look-up, nothing heard for half of `confirm`--> ASKED --answer--> HEARD
 *                          '--patience over, or no answer--> SILENT --answer--> HEARD
 */
enum cache_confirmation { CACHE_HEARD, CACHE_ASKED, CACHE_SILENT };

enum { CACHE_REFUSED_MAX = 8 };

struct cache_refused {
	char *path; /* NULL: none */
	int64_t until_ms;
};

/* The last snapshot that was written in this turn: others of the same picture copy it. */
struct cache_written {
	const struct cache_node *node; /* NULL: none */
	enum cache_scope scope;
	uint64_t generation;
	struct buffer text;
};

struct cache {
	struct ev_loop *loop;
	struct registry *registry;
	struct cache_options options;
	struct cache_node **buckets;
	size_t bucket_count;
	uint64_t hash_seed;
	size_t node_count;
	size_t entry_count;
	size_t bytes;
	struct list order;        /* of nodes, most recently used first */
	struct list pinned;       /* nodes that could not be evicted */
	bool unpinned;            /* something that pinned nodes has ended since */
	struct cache_node *dirty; /* first come, first flushed */
	struct cache_node **dirty_end;
	struct list queue;   /* entries */
	struct list doubted; /* entries */
	struct list builds;  /* bodies that are being written */
	struct list finds;   /* searches that wait for their walk, those of look-ups first */
	size_t walks;
	size_t searches;    /* that look-ups began */
	size_t unconfirmed; /* known, watched, and not LIVE */
	struct list observers;
	size_t wide_observers; /* of more than one path */
	size_t stale_observers;
	bool finds_changed; /* an observed search was, since the last tick */
	struct list due;    /* observers */
	struct cache_written written;
	cache_data_visitor *on_data; /* of an index; or NULL */
	void *on_data_context;
	unsigned turn; /* of the loop */
	size_t worked; /* steps in this turn */
	uint64_t steps;
	struct list warm;
	enum registry_state state;
	int64_t away_since_ms; /* 0 while connected */
	double change_time_s;  /* the time of the first change since the last turn; 0: none */
	enum cache_confirmation confirmation;
	struct registry_request *confirming;
	int64_t hit_until_ms; /* look-ups before this time need not ask when the server was heard */
	struct list unconfirmed_waits;
	ev_prepare flush;
	struct timer more; /* of no length: there is work for the next turn */
	struct timer doubt_timer;
	struct timer patience_timer;
	struct timer tick;
	int64_t tick_ms; /* its length */
	size_t resync_bucket;
	int64_t resync_due; /* buckets x milliseconds, less than the period */
	struct cache_refused refused[CACHE_REFUSED_MAX];
	size_t refused_next;
	void (*on_touched)(void *context, const char *path); /* may be NULL */
	void *touched_context;
	uint64_t generation;
	uint64_t loads;
	uint64_t evictions;
	uint64_t refusals;
};

/* ---- cache.c ---- */

struct cache_node *cache_node_find(const struct cache *cache, const char *path, size_t len);
struct cache_node *cache_node_get(struct cache *cache, const char *path);
/* Gives it a second chance when it would be evicted next. */
void cache_node_use(struct cache_node *node);
struct cache_node *cache_node_parent(const struct cache *cache, const struct cache_node *node);
struct cache_entry *cache_data_of(const struct cache *cache, const char *path);
void cache_mark_dirty(struct cache *cache, struct cache_node *node);
/* An entry of the node has changed, or does not count as true for now. */
static inline void cache_touch(const struct cache *cache, const struct cache_node *node)
{
	if (cache->on_touched) {
		cache->on_touched(cache->touched_context, node->path);
	}
}
/* The work at the end of a turn, or when the cache has grown too far within one. */
void cache_flush(struct cache *cache);
void cache_charge(struct cache *cache, size_t before, size_t after);
/* So much is held that something is to be evicted at once, and nothing more read before. */
bool cache_is_full(const struct cache *cache);
bool cache_reachable(const struct cache *cache);
/* There is more to do than this turn should: the next one comes at once. */
void cache_go_on(struct cache *cache);
/*
 * The bound of a turn's work, where that would grow with clients and nodes: looking at a node is a
 * step, so is visiting an observer; an event costs CACHE_EVENT_STEPS.
 */
enum { CACHE_TURN_STEPS = 16384, CACHE_EVENT_STEPS = 16 };
void cache_work(struct cache *cache, size_t steps);
bool cache_may_work(struct cache *cache);
/*
 * Estimates the minimum size of these children with their data; remembers the path as refused if
 * they do not fit.
 */
bool cache_children_fit(struct cache *cache, const struct cache_entry *children);

/* ---- entry.c ---- */

struct cache_entry *cache_entry_get(
	struct cache *cache, struct cache_node *node, enum cache_kind kind);
void cache_entry_free(struct cache *cache, struct cache_entry *entry);
/* Has it read and watched: at once (`urgent`) or when its turn comes. */
void cache_entry_load(struct cache *cache, struct cache_entry *entry, bool urgent);
/* Has a watched one read again; answers wait for that. */
void cache_entry_refresh(struct cache *cache, struct cache_entry *entry);
/* The registry has gone away; the server was heard last at `heard_ms`. */
void cache_entry_away(struct cache_entry *entry, int64_t heard_ms);
/* Gives it the value of a snapshot. */
void cache_entry_restore(struct cache *cache, struct cache_entry *entry,
	const struct registry_result *saved, int64_t true_at_ms);
/* If its absence is doubted: believes it, since the list that lacks the path is believed. */
void cache_entry_end_doubt(struct cache_entry *entry);
/* Tells whether the value of a known entry is a valid record. */
bool cache_entry_is_record(struct cache_entry *entry);
/* The record of a known entry; NULL: it holds no valid one. */
static inline const struct registry_value *cache_record_of(struct cache_entry *data)
{
	return cache_entry_is_record(data) ? data->value : NULL;
}
/* Appends the data as clients get them: as stored, unless they would play tricks on terminals. */
void cache_entry_append_data(const struct cache_entry *data, struct buffer *out);
/* Of what is known; 0 else. */
static inline int cache_code(const struct cache_entry *entry)
{
	return entry->value ? entry->value->code : 0;
}
static inline size_t cache_child_count(const struct cache_entry *list)
{
	return list->value ? list->value->stat.children : 0;
}
/*
 * Whether the node of a known entry exists: data that is too large for a record makes it no less
 * there.
 */
static inline bool cache_is_there(int code)
{
	return !code || code == BERTH_NO_RECORD || code == BERTH_INVALID_RECORD;
}
static inline bool cache_entry_exists(const struct cache_entry *entry)
{
	return cache_is_there(cache_code(entry));
}
/* When it was true for sure. */
int64_t cache_entry_true_at_ms(const struct cache_entry *entry);
void cache_queue_run(struct cache *cache);
/* Has an entry that is DOUBTED read again; accepts any other, and NULL. */
void cache_entry_recheck(struct cache_entry *entry);
void cache_recheck_doubted(struct cache *cache);

/* The entries that an answer at `path` needs. */
struct cache_need {
	size_t missing;     /* being loaded */
	size_t unavailable; /* not known, and not available */
	bool outdated;      /* one of these is known, but is older than max_stale */
	bool stale;
	bool too_large;     /* children that the cache cannot hold */
	int64_t true_at_ms; /* of the oldest stale entry */
};
struct cache_entry *cache_need(
	struct cache *cache, struct cache_need *need, const char *path, enum cache_kind kind);
/* Needs the list of children; returns it, if there is one. It may be too large. */
struct cache_entry *cache_need_list(struct cache *cache, struct cache_need *need, const char *path);
/* The same, and their data. */
void cache_need_children(struct cache *cache, struct cache_need *need, const char *path);

/* ---- listing.c ---- */

/* Does the parent's list, as far as it is known, name the node? */
bool cache_is_listed(const struct cache *cache, const struct cache_node *node);
/*
 * The nearest known list above the path, if it does not name the path, or the directory that the
 * path is in: as far as the list goes, the path is absent. Else NULL.
 */
struct cache_entry *cache_list_without(const struct cache *cache, const char *path);
/* The list is known to be the registry's present one. */
bool cache_list_holds(const struct cache_entry *list);
/* The entry that has this one absent: the path's data, or its parent's list. Else NULL. */
const struct cache_entry *cache_entry_without(const struct cache_entry *entry);
/* The list of children is about to have this state: news of those that it lacks, or names first. */
void cache_list_changes(
	struct cache *cache, const struct cache_entry *list, const struct registry_value *next);

/* ---- refused.c ---- */

/* The path's children were too many a short time ago: they are not worth another read yet. */
bool cache_refused(struct cache *cache, const char *path);
void cache_refused_note(struct cache *cache, const char *path, size_t children);
void cache_refused_forget(struct cache *cache);

/* ---- heard.c ---- */

int64_t cache_heard_ms(const struct cache *cache, int64_t now_ms);
/*
 * Was the server heard since? If not, a confirmation is under way afterwards, if one can
 * succeed.
 */
enum cache_truth { CACHE_TRUE, CACHE_TRUE_SOON, CACHE_NOT_CONFIRMED };
/* The earliest time that an answer may be true at, to be given now as confirmed. */
int64_t cache_not_before_ms(const struct cache *cache, int64_t max_age_ms, int64_t now_ms);
enum cache_truth cache_confirm_since(struct cache *cache, int64_t not_before_ms, int64_t now_ms);
/* The registry's state has changed, or its options. */
void cache_confirm_reset(struct cache *cache);
void cache_confirm_init(struct cache *cache);
void cache_confirm_finish(struct cache *cache);

/* ---- answer.c ---- */

/* A body of its own text, which may show a value; or one that is a value's data. */
struct cache_body *cache_body_of_text(
	const char *text, size_t len, const struct registry_value *value);
struct cache_body *cache_body_of_value(const struct registry_value *value);
/* Made of the data of the children too. */
bool cache_answer_is_composite(const struct answer *answer);
/* Sets the answer's content; takes the body. */
void cache_answer_publish(struct cache *cache, struct answer *answer, struct cache_body *body_take,
	const struct cache_need *need, const struct err *err);
void cache_answer_clear(struct cache *cache, struct answer *answer);
void cache_answer_deliver(struct cache *cache, struct answer *answer, enum cache_verdict verdict,
	const struct err *err);
bool cache_answers_waited(const struct cache_node *node);
/* Is it good enough for the wait, or as good as it will get? */
bool cache_answer_satisfies(struct cache *cache, struct answer *answer, struct cache_wait *wait);
/* Live entries of a server that is silent for too long are worth no more than stale ones. */
bool cache_answer_is_outdated(
	const struct cache *cache, const struct answer *answer, int64_t now_ms);
/* Takes it off all lists. */
void cache_answer_end_wait(struct cache_wait *wait);
/* Fills err with the reason why an entry has no value. */
void cache_answer_fail(const struct cache_entry *entry, struct err *err);
/* Fills err: the registry is away, and what the answer needs is not known, or is outdated. */
enum cache_verdict cache_answer_unavailable(const struct cache *cache, const struct answer *answer,
	const struct cache_need *need, struct err *err);

/* ---- make.c ---- */

/*
 * Makes the answer of its entries and publishes it. WAITING: answer->missing of them are being
 * loaded, or the body goes on in the next turn. UNAVAILABLE fills err.
 */
enum cache_verdict cache_answer_make(struct cache *cache, struct answer *answer, struct err *err);
/* ---- body.c ---- */

/* A body that is being written, a slice in each turn. */
struct cache_build {
	struct list link; /* cache->builds while it can go on */
	struct answer *answer;
	struct buffer out;
	size_t items; /* of CACHE_TARGETS */
	struct cache_need need;
	char *after;  /* the last child written; NULL: none yet */
	bool changed; /* something that it holds has changed since */
	bool put_off; /* nothing is begun: the turn in which it was asked for had work enough */
};

/*
 * Goes on with the body of an answer over children. READY: the body is complete in build->out, or
 * err is filled. WAITING: it goes on in the next turn, or when answer->missing states have come.
 */
enum cache_verdict cache_build_go_on(struct cache *cache, struct answer *answer, struct err *err);
void cache_build_put_off(struct cache *cache, struct answer *answer);
void cache_build_free(struct answer *answer);
void cache_write_list(const struct cache_entry *children, struct buffer *out);

/* ---- search.c ---- */

enum cache_verdict cache_find_build(struct cache *cache, struct answer *answer, struct err *err);
/* Walks again for a client that waits for a change of the answer it has. */
void cache_find_again(struct cache *cache, struct answer *answer);
/* An equal search is under way, or has its answer for want of a registry. */
bool cache_find_joins(const struct cache *cache, const struct answer *answer);
/* A wait was added (it may poll), or the last one has gone. */
void cache_find_waited(struct cache *cache, struct answer *answer);
void cache_find_free(struct cache *cache, struct answer *answer);
void cache_finds_run(struct cache *cache);
void cache_finds_tick(struct cache *cache);

/* ---- ask.c ---- */

/* Makes the answer and gives it to the waits, if all its entries are there. */
void cache_answer_retry(struct cache *cache, struct answer *answer);
/* Answers that hold this node's entries have to be made anew: its own, and those of its parent. */
void cache_answers_drop(struct cache *cache, struct cache_node *node);
/* A state has come that they may have waited for. */
void cache_answers_flush(struct cache *cache, struct cache_node *node);
/* The registry has gone away. */
void cache_answers_away(struct cache *cache, struct cache_node *node);
void cache_answers_free(struct cache *cache, struct cache_node *node);
/* At the end of a turn: frees those that are not worth keeping. */
void cache_answers_pass(struct cache *cache, struct cache_node *node);
/* A slice of the build that has waited longest. */
void cache_builds_run(struct cache *cache);
/*
 * Ends the waits of an answer that keeps children in the cache (`loading`: that waits for some);
 * false when there is none.
 */
bool cache_answers_refuse(struct cache *cache, bool loading);

/* ---- follow.c ---- */

/*
 * Appends the record as clients get it, on one line: line breaks of valid JSON can only be between
 * the tokens, where they mean nothing. NULL: "null".
 */
void cache_write_line(const char *data, size_t len, struct buffer *out);
void cache_observers_flush(struct cache *cache, struct cache_node *node);
/*
 * At the end of a turn, after all changes: observers that waited for the last of their paths are
 * ready.
 */
void cache_observers_ready(struct cache *cache);
void cache_observers_freshness(struct cache *cache);
/* Ends the observer that came last. False when there is none. */
bool cache_observers_refuse(struct cache *cache);
/* Events follow: everything observed has been loaded. */
static inline bool cache_observer_is_ready(const struct cache_observer *observer)
{
	return observer->state == CACHE_OBSERVER_LIVE || observer->state == CACHE_OBSERVER_STALE;
}
bool cache_is_observed(const struct cache *cache, const struct cache_node *node);
/* An observer follows the path or a tree in which it is. */
bool cache_is_in_tree(const struct cache *cache, const struct cache_node *node);
void cache_warm_set(struct cache *cache, char *const *warm, size_t count);

/* ---- records.c ---- */

/* Tells the index: the entry has another value, or is about to go. */
void cache_data_changed(const struct cache_entry *entry, bool known);

/* ---- picture.c ---- */

/* Forgets the snapshot that others might have copied. */
void cache_written_forget(struct cache *cache);

#endif
