/*
 * An answer: a ready body over entries, and the look-ups that wait for it. The cache makes it when
 * a client asks and keeps it until an entry of it changes. Each filter has an answer of its own.
 */
#ifndef AGENT_CACHE_ANSWER_H
#define AGENT_CACHE_ANSWER_H

#include "agent/cache/cache.h"
#include "agent/cache/need.h"

/* The body of an answer, which responses on their way share. */
struct cache_body {
	unsigned references;
	const struct registry_value *value; /* what it shows, if that is one value; or NULL */
	const char *data;                   /* NUL-terminated: `text`, or the value's */
	size_t len;
	char text[];
};

/* Shared by all answers. */
struct cache_answers {
	struct cache_table *table;
	struct cache_turn *turn;
	struct cache_heard *heard;
	struct cache_store *store;
	struct cache_searches *searches;
	struct list builds; /* bodies that are being written */
	uint64_t refusals;
	void (*release_rendering)(void *rendering);
};

struct answer {
	struct cache_answers *all;
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

/* Made of the data of the children too. */
bool cache_answer_is_composite(const struct answer *answer);

/* ---- its content ---- */

/* A body of its own text, which may show a value; or one that is a value's data. */
struct cache_body *cache_body_of_text(
	const char *text, size_t len, const struct registry_value *value);
struct cache_body *cache_body_of_value(const struct registry_value *value);
/* Sets the answer's content; takes the body. */
void cache_answer_publish(struct answer *answer, struct cache_body *body_take,
	const struct cache_need *need, const struct err *err);
void cache_answer_clear(struct answer *answer);
/* Fills err with the reason why an entry has no value. */
void cache_answer_fail(const struct cache_entry *entry, struct err *err);
/* Fills err: the registry is away, and what the answer needs is not known, or is outdated. */
enum cache_verdict cache_answer_unavailable(
	const struct answer *answer, const struct cache_need *need, struct err *err);

/* When it was true for sure, as far as is known now. */
int64_t cache_answer_true_at_ms(
	const struct cache_heard *heard, const struct cache_answer *answer, int64_t now_ms);

/* ---- those who wait for it ---- */

bool cache_answers_waited(const struct cache_node *node);
/* Is it good enough for the wait, or as good as it will get? */
bool cache_answer_satisfies(struct answer *answer, struct cache_wait *wait);
/* Live entries of a server that is silent for too long are worth no more than stale ones. */
bool cache_answer_is_outdated(const struct answer *answer, int64_t now_ms);
/* Takes it off all lists. */
void cache_answer_end_wait(struct cache_wait *wait);
void cache_answer_deliver(struct answer *answer, enum cache_verdict verdict, const struct err *err);

#endif
