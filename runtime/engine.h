/*
 * The requests to a container runtime: a stream of events, and lists and inspections, one at a
 * time. Events only wake: each is a reason to inspect a container, and the list says which ones
 * there are.
 *
 *   AWAY --a connection from the agent--> IDLE --a request--> ASKED --its answer--> IDLE
 *    ^--- its end, no answer in time, nonsense -------------------'
 */
#ifndef RUNTIME_ENGINE_H
#define RUNTIME_ENGINE_H

#include <poll.h>
#include <stdint.h>

#include "lib/looker/wire.h"
#include "lib/runtime/protocol.h"
#include "runtime/facts.h"

struct engine;

/* Both borrowed. The runtime's answers go to the wire, whose socket blocks. */
struct engine *engine_create(struct wire *wire, const struct facts_filter *filter);
/* Takes the connected socket. */
void engine_connected(struct engine *engine, enum runtime_kind kind, int fd_take);
/* Something about the container may have changed. */
void engine_look(struct engine *engine, const char *id);

/* For poll(): what it waits for, of each connection; in how many ms something is due; -1: never. */
void engine_waits(const struct engine *engine, struct pollfd fds[RUNTIME_KINDS]);
int engine_due_ms(const struct engine *engine, int64_t now_ms);
/* Afterwards. */
void engine_proceed(struct engine *engine, const struct pollfd fds[RUNTIME_KINDS], int64_t now_ms);

#endif
