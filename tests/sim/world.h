/*
 * The simulated registry: a tree of nodes, sessions, one-shot watches, and the history of every
 * path.
 *
 * It does what ZooKeeper does, at once and without failures; what can go wrong on the way there is
 * net.c's. The history remembers what each path held and when, so that the oracle can tell
 * whether an answer was ever true.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <jansson.h>

#include "lib/registry/backend.h"

enum { WORLD_STRANGER = -1 }; /* a writer that is not an agent of the simulation */

struct world;

/* The client of a request: a session, and the agent that holds it (or WORLD_STRANGER). */
struct world_client {
	uint64_t session; /* 0: none, as with persistent nodes */
	int agent;
	/* Told of the watches that fire. */
	void (*on_fired)(void *context, const char *path, enum registry_watch_kind kind, bool gone);
	void *context;
};

struct world *world_create(void);
void world_destroy(struct world *world);

uint64_t world_session_begin(struct world *world, int agent);
bool world_session_lives(const struct world *world, uint64_t session);
/* Its ephemeral nodes vanish. */
void world_session_end(struct world *world, uint64_t session);

/* Carries out the operation; outputs and ret_err of the task are filled. */
void world_apply(
	struct world *world, const struct world_client *client, struct registry_task *task);
void world_unwatch(struct world *world, const struct world_client *client, const char *path,
	enum registry_watch_kind kind);
/* The connection is gone, and its watches with it. */
void world_unwatch_all(struct world *world, const struct world_client *client);

/* The node at a path; NULL without one. Borrowed until the next change. */
struct world_node {
	char *path;
	char *data;
	struct registry_stat stat;
	uint64_t session;
	int owner;      /* who made the node */
	int writer;     /* who wrote its data */
	json_t *record; /* made by world_record() */
};
/* Its data as JSON when they are a record, else null; for a text that JSON does not hold: NULL. */
const json_t *world_record(const struct world_node *node);
const struct world_node *world_node(const struct world *world, const char *path);
/* How often anything has changed. */
uint64_t world_changes(const struct world *world);
size_t world_count(const struct world *world);
const struct world_node *world_node_at(const struct world *world, size_t index);

/* An aspect of a path of which the history remembers every value. */
enum world_aspect {
	WORLD_DATA,    /* the data; NULL: no node */
	WORLD_CHILDREN /* the names of the children, sorted, each with a newline; NULL: no node */
};

/*
 * When the aspect last had this value: now, when it still has; INT64_MIN: never. Before the first
 * change there was no node.
 */
int64_t world_last_true_ms(
	const struct world *world, const char *path, enum world_aspect aspect, const char *value);

/* The same for the data, as a record of JSON, or null; NULL: no node. */
int64_t world_last_record_ms(const struct world *world, const char *path, const json_t *record);

/* The first time from then on at which it had this value; INT64_MAX: never. */
int64_t world_next_true_ms(const struct world *world, const char *path, enum world_aspect aspect,
	const char *value, int64_t from_ms);

/* The same for the data, as a record of JSON; NULL: no node. */
int64_t world_next_record_ms(
	const struct world *world, const char *path, const json_t *record, int64_t from_ms);

/*
 * When the data of the path last held a text, or last did not: now, when it still is so; INT64_MIN:
 * never.
 */
int64_t world_last_held_ms(
	const struct world *world, const char *path, const char *text, bool holds);

/* Since when it has its present value; INT64_MIN: it has never changed. */
int64_t world_changed_ms(const struct world *world, const char *path, enum world_aspect aspect);

/* When the agent last had a node of its own at the path; now, when it has; INT64_MIN: never. */
int64_t world_last_owned_ms(const struct world *world, const char *path, int agent);

#endif
