/* A path that an output follows: observed, confirmed, and again when that was refused. */
#ifndef AGENT_OUTPUT_SOURCE_H
#define AGENT_OUTPUT_SOURCE_H

#include <stdbool.h>

#include "agent/cache/cache.h"

struct output_source;

struct output_source_callbacks {
	/* Its picture is complete, or has changed, or is live again (`fresh`). */
	void (*on_change)(void *context, const struct output_source *source, bool fresh);
	/* It is observed no more. */
	void (*on_refused)(
		void *context, const struct output_source *source, const struct err *err);
	/* The answer to output_source_confirm(). */
	void (*on_confirmed)(
		void *context, const struct output_source *source, const struct err *err);
	void *context;
};

struct output_source {
	unsigned rank;       /* 0: the nearest */
	struct cache *cache; /* of the path */
	char *path;
	bool tree; /* everything below, too */
	bool observing;
	bool complete;   /* its picture was complete once: it can be read */
	bool confirming; /* on_confirmed follows */
	bool confirmed;  /* when it was read last: the user's */
	struct cache_observer observer;
	struct cache_wait confirmation;
	struct output_source_callbacks callbacks;
};

/* `from`: a path; with a trailing / and two asterisks, everything below. */
void output_source_init(struct output_source *source, unsigned rank, struct cache *cache,
	const char *from, const struct output_source_callbacks *callbacks);
void output_source_finish(struct output_source *source);
/* Does nothing while it is observed. */
void output_source_observe(struct output_source *source);
/* As cache_confirm(); WAITING while a confirmation is under way. */
enum cache_verdict output_source_confirm(struct output_source *source, int64_t now_ms);

#endif
