/*
 * The nodes of the host's containers in the registry: one announcement for each path.
 *
 * All of them are in the host's session, so an announcement takes any of these nodes for its own.
 * That is right as long as one container at a time has a path, and this file sees to it: the book
 * names that container, other ones have to wait until its node has gone.
 *
 *   (no post) --claim--> HELD --release--> LEAVING --the node has gone--> (no post)
 *   a predecessor's entry --> INHERITED --claim by the same container--> HELD
 *                                     \--forsake: nobody claimed it--> LEAVING
 *   LEAVING --claim by the same container--> HELD
 *
 * A post that was never written does not leave: it is gone at once. Those that leave count in the
 * limits of their container. The nodes above a post that were made for it go after it (parents.h).
 */
#ifndef AGENT_BRIDGE_PUBLISH_H
#define AGENT_BRIDGE_PUBLISH_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/drains.h"
#include "agent/bridge/account.h"
#include "agent/bridge/book.h"
#include "agent/component/announce.h"
#include "agent/config/config.h"
#include "lib/registry/registry.h"

struct bridge_publish;
struct holder;

/* All borrowed. */
struct bridge_publish_environment {
	struct ev_loop *loop;
	struct registry *registry;
	struct bridge_book *book;
	const struct drains *drains; /* by SOURCE/NAME */
	const struct holder *holder; /* marks the records */
	int64_t update_interval_ms;
	/* A predecessor's entries, path -> container, in the session that is resumed; or NULL. */
	const json_t *inherited;
	/* And its parents, path -> [container, node_id]; or NULL. */
	const json_t *parents;
	/* The disk has the session: records that are made now survive this process. */
	bool (*session_is_saved)(void *context);
	/* A component of the host itself has the path. */
	bool (*is_taken)(void *context, const char *path);
	/* A container or one of its records changed its state, as people see it. */
	void (*on_event)(void *context, const struct bridge_event *event);
	/* A node changed its state, or has gone and freed its path. From the loop only. */
	void (*on_change)(void *context);
	void *context;
};

struct bridge_publish *bridge_publish_create(const struct bridge_publish_environment *environment);
/* The nodes stay as they are. Accepts NULL. */
void bridge_publish_destroy(struct bridge_publish *publish);
/* For the book. */
void bridge_publish_describe(const struct bridge_publish *publish, json_t *paths, json_t *parents);

/*
 * The record with our mark: that of the key which the container has shown, else that of a key of
 * our own. A mark that the container has copied from a record does not count. Free with free().
 */
char *bridge_publish_mark(
	const struct bridge_publish *publish, const char *path, const char *data, size_t len);
/*
 * The container wants this marked record, which has so many bytes in its own file, at the path;
 * also to change it. 0, or FILE_ALREADY_EXISTS: the
 * path is another one's. A new record needs room within the policy's limits: LIMIT_EXCEEDED, or
 * REGISTRY_UNAVAILABLE while there will be some.
 */
int bridge_publish_claim(struct bridge_publish *publish, const struct config_container *policy,
	const char *path, const char *container, const char *text, size_t bytes, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(7);
/* The drain of SOURCE/NAME; NULL: none. Borrowed until the next change of drains. */
const struct drain *bridge_publish_drain(const struct bridge_publish *publish, const char *name);
/* The accounts of all containers. */
struct bridge_accounts *bridge_publish_accounts(struct bridge_publish *publish);
/* A predecessor has announced the container's path, and nobody has claimed it yet. */
bool bridge_publish_inherits(
	const struct bridge_publish *publish, const char *path, const char *container);
/* Takes the node out, if the container has the path, and forgets it if it was never written. */
void bridge_publish_release(
	struct bridge_publish *publish, const char *path, const char *container, const char *why);
/*
 * After the first comparison with the containers: takes out what a predecessor announced and no
 * container has now.
 */
void bridge_publish_forsake(struct bridge_publish *publish,
	bool (*is_spared)(void *context, const char *path, const char *container), void *context);

/* Some of a predecessor's are neither claimed nor given up. */
bool bridge_publish_has_inherited(const struct bridge_publish *publish);

/* The announcement of the container's path; NULL: it has none there. Borrowed. */
const struct announce *bridge_publish_find(
	const struct bridge_publish *publish, const char *path, const char *container);
/* Calls `visit` for each path that the container has given up, and whose node may be there yet. */
void bridge_publish_each_leaving(const struct bridge_publish *publish, const char *container,
	void (*visit)(void *context, const char *path, const struct announce *announce),
	void *context);
/* How many nodes of the container are in the registry. */
size_t bridge_publish_registered(const struct bridge_account *account);
/* Nodes in each state of an announcement. */
void bridge_publish_count(
	const struct bridge_publish *publish, size_t ret_counts[ANNOUNCE_STATE_COUNT]);
void bridge_publish_set_update_interval(struct bridge_publish *publish, int64_t update_interval_ms);
void bridge_publish_on_registry_state(
	struct bridge_publish *publish, enum registry_state state, const char *why);
/* Frees the paths whose nodes have gone, and goes on with writes that waited for the disk. */
void bridge_publish_proceed(struct bridge_publish *publish);

#endif
