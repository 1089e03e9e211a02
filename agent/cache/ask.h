/* Look-ups: the answers of a path, those who wait for one, and the states that make or end them. */
#ifndef AGENT_CACHE_ASK_H
#define AGENT_CACHE_ASK_H

#include "agent/cache/answer.h"

void cache_answers_init(
	struct cache_answers *answers, struct cache_store *store, struct cache_searches *searches);

/* The functions of cache.h by these names. */
struct cache_answer *cache_answers_find(
	struct cache_answers *answers, const struct cache_query *query);
enum cache_verdict cache_answers_ask(struct cache_answers *answers, const struct cache_query *query,
	struct cache_wait *wait, struct cache_answer **ret_answer, struct err *err) ERR_REQUIRED(5);
struct cache_answer *cache_answers_known(
	struct cache_answers *answers, const struct cache_query *query, int64_t now_ms);

/* Makes the answer and gives it to the waits, if all its entries are there. */
void cache_answer_retry(struct answer *answer);
/*
 * An entry of the node is another: answers that hold it have to be made anew, the node's own and,
 * for data, those over the children of its parent.
 */
void cache_answers_drop(
	struct cache_answers *answers, struct cache_node *node, enum cache_kind kind);
/* A state has come that they may have waited for. */
void cache_answers_flush(struct cache_answers *answers, struct cache_node *node);
/* The registry has gone away. */
void cache_answers_away(struct cache_answers *answers, struct cache_node *node);
/* At the end of a turn: frees those that are not worth keeping. */
void cache_answers_pass(struct cache_node *node);
void cache_answers_free(struct cache_node *node);
/* Ends all waits for answers of the node. */
void cache_answers_end_waits(struct cache_node *node, const struct err *err);
/* A slice of the build that has waited longest. */
void cache_builds_run(struct cache_answers *answers);
/*
 * Ends the waits of an answer that keeps children in the cache (`loading`: that waits for some);
 * false when there is none.
 */
bool cache_answers_refuse(struct cache_answers *answers, bool loading);

#endif
