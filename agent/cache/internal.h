/*
 * The inside of the cache, shared by its files: cache.c (paths, limits, time), entry.c (entries and their watches),
 * answer.c, observe.c, snapshot.c.
 */
#ifndef AGENT_CACHE_INTERNAL_H
#define AGENT_CACHE_INTERNAL_H

#include "agent/cache/cache.h"

enum cache_kind { CACHE_DATA, CACHE_CHILDREN };

/* Bytes that an entry, its answers and responses on their way share. */
struct cache_blob {
	unsigned references;
	size_t len;
	char data[]; /* NUL-terminated */
};

/* The data or the list of children of one path. */
struct cache_entry {
	struct cache *cache;
	struct cache_node *node;
	struct registry_watch *watch;
	struct cache_entry *queue_next; /* while queued or guarded */
	struct cache_entry *queue_prev;
	struct registry_stat stat;
	struct cache_blob *blob; /* data */
	char **children;         /* one block, with the strings behind */
	size_t children_count;
	size_t foreign_count; /* stand in `children` behind the others */
	double known_true;    /* monotonic seconds; meaningful while not live */
	int code;             /* 0, PATH_NOT_FOUND, NO_PATH_PERMISSIONS … */
	enum cache_kind kind;
	bool loaded;
	bool live;
	bool loading;   /* somebody waits for the next state */
	bool in_flight; /* counts as a load */
	bool queued;    /* for a load */
	bool guarded; /* an empty state right after a reconnect was not believed: the next one will be */
	bool guard_listed; /* and is to be read again */
	bool unconfirmed; /* stale, watched, and to be read again: after a reconnect, or a read without answer */
	uint32_t told;  /* cache.audience when observers were told last */
	bool announced; /* observers know that the path exists */
	bool listed;    /* and so does the list of its parent's children */
	bool changed;   /* since observers were told */
};

/* A hit looks at the end of a node and at the end of an answer: each is to be found in as few cache lines as may be. */
struct answer {
	struct cache_blob *blob; /* behind public.body */
	struct cache_node *node;
	struct cache_wait *waits;
	size_t missing;
	size_t charged;
	bool refresh_children;
	struct cache_answer public;
	struct answer *next;
	enum cache_answer_kind kind;
	bool ready;
	char variant[]; /* of the filter */
};

struct cache_node {
	struct cache_node *prev; /* in the order in which they may be evicted, last first */
	struct cache_node *next;
	struct cache_node *dirty_next;
	struct cache_entry *entries[2];
	struct cache_observer *observers;
	struct answer *answers;
	struct cache_node *hash_next;
	uint32_t hash;
	uint16_t path_len;
	uint8_t landed; /* a bit for each entry whose state came since the last flush */
	bool dirty;
	bool used; /* since its last turn to be evicted */
	char path[];
};

struct node_list {
	struct cache_node *first;
	struct cache_node *last;
};

struct entry_list {
	struct cache_entry *first;
	struct cache_entry *last;
};

struct warm_path {
	struct warm_path *next;
	struct cache_observer observer;
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
	struct node_list order;
	struct cache_node *dirty;
	struct entry_list queue;
	struct entry_list guarded;
	size_t in_flight;
	size_t unconfirmed;
	struct cache_observer *observers;
	size_t recursive_observers;
	size_t stale_observers;
	size_t due_observers;
	uint32_t audience; /* counts snapshots: what was told when it stood the same has been told to all */
	struct warm_path *warm;
	enum registry_state state;
	double away_since; /* monotonic seconds; 0 while connected */
	double noticed;    /* monotonic seconds of the first change since the last turn; 0: none */
	ev_prepare flush;
	ev_timer guard_timer;
	ev_timer resync_timer;
	size_t resync_bucket;
	double resync_due;
	uint64_t loads;
	uint64_t evictions;
	uint64_t refusals;
};

/* cache.c */
struct cache_node *cache_node_find(const struct cache *cache, const char *path, size_t len);
struct cache_node *cache_node_get(struct cache *cache, const char *path);
/* Gives it a second chance when it would be evicted next. */
void cache_node_use(struct cache_node *node);
struct cache_node *cache_node_parent(const struct cache *cache, const struct cache_node *node);
void cache_mark_dirty(struct cache *cache, struct cache_node *node);
/* What is done at the end of a turn, or when the cache has grown too far within one. */
void cache_flush(struct cache *cache);
void cache_charge(struct cache *cache, size_t before, size_t after);
bool cache_reachable(const struct cache *cache);
struct cache_blob *cache_blob_create(const char *data, size_t len);

/* entry.c */
struct cache_entry *cache_entry_get(
	struct cache *cache, struct cache_node *node, enum cache_kind kind);
void cache_entry_free(struct cache *cache, struct cache_entry *entry);
/* Has it read and watched: at once (`urgent`) or when its turn comes. */
void cache_entry_load(struct cache *cache, struct cache_entry *entry, bool urgent);
void cache_entry_refresh(struct cache *cache, struct cache_entry *entry);
void cache_entry_away(struct cache *cache, struct cache_entry *entry, double now);
void cache_entry_set_data(
	struct cache *cache, struct cache_entry *entry, const char *data, size_t len);
void cache_entry_set_children(struct cache *cache, struct cache_entry *entry, char *const *children,
	size_t count, size_t foreign_count);
void cache_entry_set_unconfirmed(struct cache *cache, struct cache_entry *entry, bool unconfirmed);
size_t cache_entry_bytes(const struct cache_entry *entry);
void cache_queue_run(struct cache *cache);
/* What a read of `kind` at `path` needs before an answer can be made of it. */
struct cache_need {
	size_t missing;     /* being loaded */
	size_t unavailable; /* neither known nor to be had */
	bool outdated;      /* one of these is known, but not well enough for max_stale */
	bool stale;
	double known_true; /* of the oldest stale one */
};
const struct cache_entry *cache_need(
	struct cache *cache, struct cache_need *need, const char *path, enum cache_kind kind);

/* answer.c */
/* Answers made of this node's entries are no more; those of its parent that hold records of children neither. */
void cache_answers_drop(struct cache *cache, struct cache_node *node);
/* A state has come that they may have waited for; `first`: nobody knew it before. */
void cache_answers_flush(struct cache *cache, struct cache_node *node);
void cache_answers_stale(struct cache_node *node);
void cache_answers_free(struct cache *cache, struct cache_node *node);
bool cache_answers_waited(const struct cache_node *node);

/* observe.c */
void cache_observers_flush(struct cache *cache, struct cache_node *node);
/* At the end of a turn, when everybody has been told everything: who has waited for all to be known is ready. */
void cache_observers_ready(struct cache *cache);
void cache_observers_freshness(struct cache *cache);
/* Ends the observer that came last. False when there is none. */
bool cache_observers_refuse(struct cache *cache);
bool cache_is_observed(const struct cache *cache, const struct cache_node *node);
void cache_warm_set(struct cache *cache, char *const *warm, size_t count);

#endif
