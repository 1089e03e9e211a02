/*
 * A cache on a registry in memory, in which nothing happens but when a test says so.
 */
#ifndef TESTS_SUPPORT_CACHE_STAGE_H
#define TESTS_SUPPORT_CACHE_STAGE_H

#include "agent/cache/cache.h"

struct cache_stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct cache *cache;
	int64_t now_ms;   /* the registry's time; a test may let time pass */
	bool shares_loop; /* something else may go on when the cache has ended */
};

/* The outcome of a lookup. */
struct cache_outcome {
	struct cache_wait wait;
	struct cache_stage *stage;
	int calls;
	int code;
	bool live;
	bool confirmed;
	int64_t age_ms;
	char etag[CACHE_ETAG_BYTES];
	char why[256]; /* with a code */
	char text[4096];
};

/* Connected. max_size_bytes is 1 MiB unless given. */
void cache_stage_open(struct cache_stage *stage, const struct cache_options *options);
void cache_stage_open_at(
	struct cache_stage *stage, const char *url, const struct cache_options *options);
void cache_stage_close(struct cache_stage *stage);
/*
 * Evicts everything, and aborts when something is left then, or was not given back. Nobody may wait
 * for the cache or observe it, but paths that are to be warm are let go. cache_stage_close() does
 * it, too, unless somebody is left.
 */
void cache_stage_check_accounts(struct cache *cache);
/* Everything happens that can happen now. */
void cache_stage_turn(struct cache_stage *stage);

/* The value that the cache holds of a path, without a read; NULL: none. */
const struct registry_value *cache_stage_data(const struct cache_stage *stage, const char *path);
const struct registry_value *cache_stage_list(const struct cache_stage *stage, const char *path);

/* cache_find() of a record. */
struct cache_answer *cache_stage_find(struct cache_stage *stage, const char *path);
/* cache_ask(): READY and UNAVAILABLE fill the outcome at once, WAITING later. */
enum cache_verdict cache_stage_ask(struct cache_stage *stage, struct cache_outcome *outcome,
	const char *path, enum cache_answer_kind kind, const char *unlike, bool refresh);
enum cache_verdict cache_stage_ask_query(struct cache_stage *stage, struct cache_outcome *outcome,
	const struct cache_query *query, const char *unlike);
/* Asks and waits; the code. Aborts when there is no answer. */
int cache_stage_look(struct cache_stage *stage, struct cache_outcome *outcome, const char *path,
	enum cache_answer_kind kind);
int cache_stage_look_filtered(struct cache_stage *stage, struct cache_outcome *outcome,
	const char *path, enum cache_answer_kind kind, const struct cache_filter *filter);

/* A record with this description and an endpoint http://DESCRIPTION. Static. */
const char *cache_stage_record(const char *description);

#endif
