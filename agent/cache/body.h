/*
 * The bodies of answers over children. A large one is written in slices, one in each turn of the
 * loop, so that no other client waits for it. A record that changes after it was written does not
 * begin the body anew: each part was true while the client waited.
 */
#ifndef AGENT_CACHE_BODY_H
#define AGENT_CACHE_BODY_H

#include "agent/cache/answer.h"

/* One record's part of a body that is ordered by nearness. */
struct cache_part {
	size_t start;
	size_t end;
	size_t place; /* among the parts as they were written */
	unsigned tier;
};

/* A body that is being written, a slice in each turn. */
struct cache_build {
	struct list link; /* all->builds while it can go on */
	struct answer *answer;
	struct buffer out;
	size_t items; /* of CACHE_TARGETS */
	struct cache_part *parts;
	size_t part_count;
	struct cache_need need;
	char *after;  /* the last child written; NULL: none yet */
	bool changed; /* something that it holds has changed since */
	bool put_off; /* nothing is begun: the turn in which it was asked for had work enough */
};

/*
 * Goes on with the body of an answer over children. READY: the body is complete in build->out, or
 * err is filled. WAITING: it goes on in the next turn, or when answer->missing states have come.
 */
enum cache_verdict cache_build_go_on(struct answer *answer, struct err *err);
void cache_build_put_off(struct answer *answer);
void cache_build_free(struct answer *answer);
/* The record without its internal endpoints. */
void cache_write_outside(const struct cache_entry *data, struct buffer *out);
void cache_write_list(const struct cache_entry *children, struct buffer *out);

#endif
