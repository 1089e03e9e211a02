/*
 * One container of the host: its subdirectory, the registry in it, and what becomes of the records
 * there.
 *
 * An event only says that something has changed; bridge_container_run() looks at the whole again,
 * as far as the policy's limits go, and decides anew for every record. A container gets a tenth of
 * the time for its looks, and one that changes too fast loses its watches for a while: what it does
 * costs the others nothing.
 */
#ifndef AGENT_BRIDGE_CONTAINER_H
#define AGENT_BRIDGE_CONTAINER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/bridge/publish.h"
#include "agent/bridge/socket.h"
#include "agent/bridge/watches.h"
#include "agent/config/config.h"

struct bridge_container;

/* All borrowed. */
struct bridge_container_environment {
	struct bridge_watches *watches;
	struct bridge_publish *publish;
	struct http *http; /* that serves the sockets */
	/* those of a predecessor: entries are taken out */
	struct bridge_socket *sockets;
	size_t socket_count;
	/* An event came: bridge_container_due_ms() may be earlier than before. */
	void (*on_due)(void *context);
	void *context;
};

/* Takes the descriptor of the subdirectory. The policy is set next. */
struct bridge_container *bridge_container_create(
	const struct bridge_container_environment *environment, const char *name, int fd_take);
/*
 * `gone`: its records are taken out, because its subdirectory has gone; else they stay as they are.
 */
void bridge_container_destroy(struct bridge_container *container, bool gone);

const char *bridge_container_name(const struct bridge_container *container);
/* Whether it is the directory behind this descriptor. */
bool bridge_container_is(const struct bridge_container *container, int fd);
/* `policy` is borrowed until the next one; NULL: nothing is allowed. */
void bridge_container_set_policy(struct bridge_container *container,
	const struct config_container *policy, int64_t linger_ms);
/* A predecessor has announced a record of it at this path: call it before the first look. */
void bridge_container_expect(struct bridge_container *container, const char *path);
/* Something may have changed that no event reports. */
void bridge_container_doubt(struct bridge_container *container);
/* A path has become free, or something that the container gave up has gone. */
void bridge_container_retry(struct bridge_container *container, int64_t now_ms);

/* When bridge_container_run() has something to do; INT64_MAX: never. Monotonic. */
int64_t bridge_container_due_ms(const struct bridge_container *container);
void bridge_container_run(struct bridge_container *container, int64_t now_ms);

/* Its socket, for a successor; false: it has none. */
bool bridge_container_pass(
	const struct bridge_container *container, struct bridge_socket *ret_socket);
/* A predecessor's sockets are all taken, or closed. */
void bridge_container_forget_inherited(struct bridge_container *container);

/* name, state, why, since, records, more: for GET /v1/bridge. New reference. */
json_t *bridge_container_json(const struct bridge_container *container);
/* Records that are not announced, by their state (an array of BRIDGE_CLAIM_LINGERING + 1). */
void bridge_container_count(const struct bridge_container *container, size_t *counts);

#endif
