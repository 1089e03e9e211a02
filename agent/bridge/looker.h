/*
 * The bridge's looker: a child that does all file calls below the directory of containers
 * (lib/looker/child.h says why), one question at a time.
 *
 *   (none) --start--> STARTING --READY--> FREE <--question, answer--> ASKED
 *      ^                  '------ no answer in time ------+------------'
 *      |                                                  v
 *      +--- it ended, or no program: a pause ---  ABANDONED, with its container --its end--> freed
 *
 * An abandoned looker may never end: it waits in the kernel. It is killed, and kept in mind until
 * it has gone; meanwhile a new one serves the rest.
 */
#ifndef AGENT_BRIDGE_LOOKER_H
#define AGENT_BRIDGE_LOOKER_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/http/http.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/looker/wire.h"

struct bridge_looker;

enum bridge_answer {
	BRIDGE_ANSWERED,
	BRIDGE_STALLED, /* no answer in time: the looker is abandoned */
	BRIDGE_BROKEN   /* the looker has ended, or sent a frame that it should not */
};

/* The functions that are called; from the loop only, and from bridge_looker_wait(). */
struct bridge_looker_events {
	/* A frame of the answer to the question; BRIDGE_ANSWERED follows the last one. */
	void (*on_frame)(void *context, struct wire *wire, struct wire_frame *frame);
	void (*on_answer)(void *context, enum bridge_answer answer);
	/* LOOKER_EVENT. */
	void (*on_event)(void *context, uint64_t id, unsigned what, size_t count);
	/* A new looker serves: it watches nothing yet. `error` "" or why the directory is away. */
	void (*on_ready)(void *context, const char *error);
	/* A looker that was abandoned with this container ("": the directory) has ended. */
	void (*on_freed)(void *context, const char *container);
	void *context;
};

/* An abandoned looker, for a successor. */
struct bridge_abandoned {
	char container[HTTP_CONTAINER_BYTES]; /* "": the directory of all */
	pid_t pid;
	int fd;
	int64_t stalled_ms; /* how long the container has been */
};

/* The file of an owner in a container that is stalled, for a successor. */
struct bridge_owner_file {
	char container[HTTP_CONTAINER_BYTES];
	char path[LIMIT_PATH_BYTES + 1];
	int fd; /* -1: somebody has taken it */
	uint64_t inode;
};

int bridge_looker_create(struct bridge_looker **ret_looker, struct ev_loop *loop,
	const char *directory, const struct bridge_looker_events *events, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);
/* Waits for nobody: what is stuck ends when it can. Accepts NULL. */
void bridge_looker_destroy(struct bridge_looker *looker);

/* Takes over what a predecessor has abandoned. */
void bridge_looker_adopt(struct bridge_looker *looker, const struct bridge_abandoned *abandoned);
/* Copies them for a successor, `max` at most; how many. Nothing is heard any more. */
size_t bridge_looker_pass(
	struct bridge_looker *looker, struct bridge_abandoned *ret_abandoned, size_t max);

/* Whether a question can be asked now. */
bool bridge_looker_is_free(const struct bridge_looker *looker);
/* There is a looker, or one that starts. */
bool bridge_looker_is_there(const struct bridge_looker *looker);
/*
 * A question about the container ("": the directory): the caller writes its frame to the wire
 * (begin to end), then bridge_looker_send().
 */
struct wire *bridge_looker_ask(struct bridge_looker *looker, const char *container);
void bridge_looker_send(struct bridge_looker *looker);
/* No answer comes to it. */
void bridge_looker_forget(struct bridge_looker *looker, uint64_t id);
/* Ends the looker that serves: a new one begins at once. */
void bridge_looker_replace(struct bridge_looker *looker);

/* Whether a looker that hangs in the container has not ended. */
bool bridge_looker_has_abandoned(const struct bridge_looker *looker, const char *container);
size_t bridge_looker_abandoned(const struct bridge_looker *looker);

/* Hears one event, or waits until the monotonic time: for the start, before the loop runs. */
void bridge_looker_wait(struct bridge_looker *looker, int64_t until_ms);

#endif
