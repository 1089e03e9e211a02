/*
 * Where sets come from: one stream of the agent for all of them, and the questions for it (GET and
 * POST /v1/follow in docs/PROTOCOL.md).
 *
 *   UNASKED --POST--> ASKED --SET, each time it changes--> ASKED
 *      ^                '----- SET, with `ended`: there was no room -----> LATER
 *      '------- a new stream, or the time has come -------'-----------------'
 *
 * Never blocks: poll the descriptor, wait no longer than source_due_ms(), call source_dispatch().
 */
#ifndef XDS_SOURCE_H
#define XDS_SOURCE_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/list.h"

struct source;

/* A set that is followed; in the caller's memory. */
struct source_set {
	/* `answer` has `set`, or `error` and `why`; called from source_dispatch(). */
	void (*on_answer)(void *context, const json_t *answer);
	void *context;
	char *target;     /* this and the rest are the source's; NULL: not followed */
	uint64_t id;      /* it is the same in each stream */
	int64_t again_ms; /* LATER */
	struct list link;
};

/* `where`: as client_socket() takes it. Connects later. NULL, and err filled. */
struct source *source_create(const char *where, struct err *err) ERR_REQUIRED(2);
/* All sets are dropped. */
void source_destroy(struct source *source);

/* Begins to follow the set of GET `target`, which is copied. */
void source_ask(struct source *source, struct source_set *set, const char *target);
/* Accepts one that is not followed. */
void source_drop(struct source *source, struct source_set *set);

int source_fd(const struct source *source);
int64_t source_due_ms(const struct source *source);
void source_dispatch(struct source *source, int64_t now_ms);
/* Does the stream flow, and has the agent its registry? Else why not. */
int source_trouble(const struct source *source, struct err *err) ERR_REQUIRED(2);

#endif
