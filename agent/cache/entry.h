/*
 * Entries: what the cache knows of a path, its data or its children, and how far that can be
 * trusted. The value is the registry's; the entry adds the trust.
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
 * list; a list that is believed without it ends the doubt. All watched entries become UNCONFIRMED
 * when the registry goes away; an entry that is READING then goes on with it after the reconnect.
 */
#ifndef AGENT_CACHE_ENTRY_H
#define AGENT_CACHE_ENTRY_H

#include "agent/base/timer.h"
#include "agent/cache/heard.h"
#include "agent/cache/refused.h"
#include "agent/cache/table.h"
#include "agent/cache/turn.h"
#include "lib/base/buffer.h"
#include "lib/registry/value.h"

enum cache_entry_state {
	CACHE_IDLE,        /* new: nothing is known, and nothing is asked */
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
	struct cache_store *store;
	struct cache_node *node;
	struct registry_watch *watch;
	/* store->queue while QUEUED; store->doubted from DOUBTED until the registry says more */
	struct list link;
	const struct registry_value *value; /* the registry's, or of a snapshot; NULL: not known */
	int64_t true_at_ms; /* when it was true for sure; while LIVE ask cache_entry_true_at_ms() */
	int64_t was_true_at_ms; /* when the state that observers know was true, while `changed` */
	enum cache_kind kind;
	enum cache_entry_state state;
	enum cache_content content;
	bool hidden;  /* clients get the data with escapes */
	bool awaited; /* known, and answers wait for the next state all the same */
	/* The last state that observers know. */
	bool existed;  /* as announced last */
	bool in_list;  /* the list of its parent's children held the path then, or does since */
	bool changed;  /* since it was announced */
	bool expected; /* none of them is fresh before it is known */
	uint32_t save; /* the last one begun when it got its value, store->saving.count */
};

/* The last beginning of a save, for its child, and what has changed since: see snapshot.h. */
struct cache_saving {
	double wall_s;
	int64_t now_ms;
	uint32_t count;        /* of saves */
	size_t changed;        /* entries */
	struct buffer changes; /* a line for each: its kind, its path */
};

/* The reports of the store. */
struct cache_store_events {
	/* The value, or the trust in it, is another. */
	void (*on_change)(void *context, struct cache_node *node, enum cache_kind kind);
	/* The table is full: something is to be evicted now, perhaps the entry that has come. */
	void (*on_full)(void *context);
	void *context;
};

struct cache_store {
	struct registry *registry;
	struct cache_table *table;
	struct cache_turn *turn;
	struct cache_heard *heard;
	struct list queue;   /* entries */
	struct list doubted; /* entries */
	struct timer doubt;
	struct cache_refusals refusals;
	size_t entry_count;
	size_t unconfirmed; /* known, watched, and not LIVE; or expected, and not known */
	uint64_t loads;
	uint64_t generation;  /* another number after each change of what is known */
	double change_time_s; /* the time of the first change since the last turn; 0: none */
	int64_t max_stale_ms; /* 0: no limit */
	const char *snapshot_name;
	struct cache_saving saving;
	struct cache_loading *loading; /* NULL: not under way */
	struct cache_store_events events;
	/* The data of a path have come or changed (`known`), or have gone; or NULL. */
	void (*on_data)(void *context, const char *path, bool known);
	void *on_data_context;
};

void cache_store_init(struct cache_store *store, struct registry *registry,
	struct cache_table *table, struct cache_turn *turn, struct cache_heard *heard,
	struct cache_store_events events);
/* No entry may be left. */
void cache_store_finish(struct cache_store *store);

struct cache_entry *cache_entry_get(
	struct cache_store *store, struct cache_node *node, enum cache_kind kind);
/* Accepts NULL. */
void cache_entry_free(struct cache_entry *entry);
/* Has it read and watched: at once (`urgent`) or when its turn comes. */
void cache_entry_load(struct cache_entry *entry, bool urgent);
/* Observers are to hear of it: none of them becomes fresh before it is known. */
void cache_entry_expect(struct cache_entry *entry);
/* Has a watched one read again; answers wait for that. */
void cache_entry_refresh(struct cache_entry *entry);
/* The registry has gone away; the server was heard last at `heard_ms`. */
void cache_entry_away(struct cache_entry *entry, int64_t heard_ms);
/* Gives it the value of a snapshot. */
void cache_entry_restore(
	struct cache_entry *entry, const struct registry_result *saved, int64_t true_at_ms);
/* Begins the reads that wait, as many as may be under way, and some hundred at once. */
void cache_queue_run(struct cache_store *store);

struct cache_entry *cache_data_of(const struct cache_store *store, const char *path);
/* Tells whether the value of a known entry is a valid record. */
bool cache_entry_is_record(struct cache_entry *entry);
/* The record of a known entry; NULL: it holds no valid one. */
static inline const struct registry_value *cache_record_of(struct cache_entry *data)
{
	return cache_entry_is_record(data) ? data->value : NULL;
}
/* Appends the data as clients get them: as stored, unless they would play tricks on terminals. */
void cache_entry_append_data(const struct cache_entry *data, struct buffer *out);
/* When it was true for sure. */
int64_t cache_entry_true_at_ms(const struct cache_entry *entry);

/* The registry's last answer, if the entry has another value because that is doubted; else NULL. */
static inline const struct registry_value *cache_entry_news(const struct cache_entry *entry)
{
	const struct registry_value *value = entry->state == CACHE_LIVE || !entry->watch
		? NULL
		: registry_watch_value(entry->watch);
	return value != entry->value ? value : NULL;
}
/* Of what is known; 0 else. */
static inline int cache_code(const struct cache_entry *entry)
{
	return entry->value ? entry->value->code : 0;
}
static inline size_t cache_child_count(const struct cache_entry *list)
{
	return list->value ? list->value->stat.children : 0;
}
/* The node exists, or nothing is known of it. */
static inline bool cache_entry_exists(const struct cache_entry *entry)
{
	return !entry->value || registry_value_exists(entry->value);
}
/* An ephemeral node, which has no children: nobody needs its list. */
static inline bool cache_entry_is_leaf(const struct cache_entry *data)
{
	return data->value && data->value->code == 0 && data->value->stat.ephemeral;
}
/*
 * Estimates the minimum size of these children with their data; remembers the path as refused if
 * they do not fit.
 */
bool cache_children_fit(const struct cache_entry *children);

#endif
