/*
 * One container of the host: its subdirectory, the registry in it, and what becomes of the records
 * there.
 *
 * An event only says that something has changed; the looker looks at the whole again, as far as the
 * policy's limits go, and bridge_container_on_looked() decides anew for every record. A container
 * gets a tenth of the looker's time, a hundredth if it makes the others wait, and one that changes
 * too fast loses its watches for a while: what it does costs the others nothing.
 *
 *   SERVED --its control group is frozen--> FROZEN: its records go until it is thawed
 *   SERVED --no answer in time--> STALLED --the looker has ended, and a pause--> looked at again
 *                                    '-- too many, or for too long: its records go
 *
 * While it is stalled the kernel says which of its owners live: the agent has their files open.
 */
#ifndef AGENT_BRIDGE_CONTAINER_H
#define AGENT_BRIDGE_CONTAINER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/bridge/holders.h"
#include "agent/bridge/looker.h"
#include "agent/bridge/publish.h"
#include "agent/bridge/socket.h"
#include "agent/config/config.h"
#include "lib/looker/wire.h"

struct bridge_container;

/* All borrowed. */
struct bridge_container_environment {
	struct bridge_looker *looker;
	struct bridge_publish *publish;
	const struct bridge_holders *holders;
	struct http *http; /* that serves the sockets */
	/* those of a predecessor: entries are taken out */
	struct bridge_socket *sockets;
	size_t socket_count;
};

/* `id` is its alone for good, not 0. The policy is set next. */
struct bridge_container *bridge_container_create(
	const struct bridge_container_environment *environment, const char *name, uint64_t id,
	uint64_t device, uint64_t inode);
/*
 * `gone`: its records are taken out, because its subdirectory has gone; else they stay as they are.
 */
void bridge_container_destroy(struct bridge_container *container, bool gone);

const char *bridge_container_name(const struct bridge_container *container);
/* dir/NAME */
const char *bridge_container_full_name(const struct bridge_container *container);
uint64_t bridge_container_id(const struct bridge_container *container);
/* Whether it is this directory. */
bool bridge_container_is(const struct bridge_container *container, uint64_t device, uint64_t inode);
/* `policy` is borrowed until the next one; NULL: nothing is allowed. */
void bridge_container_set_policy(struct bridge_container *container,
	const struct config_container *policy, const struct config_bridge *options);
/* A predecessor has announced a record of it at this path: call it before the first look. */
void bridge_container_expect(struct bridge_container *container, const char *path);
/* Something may have changed that no event reports. */
void bridge_container_doubt(struct bridge_container *container);
/* Its drain has begun or ended. */
void bridge_container_review(struct bridge_container *container, int64_t now_ms);
/* A path has become free, or something that the container gave up has gone. */
void bridge_container_retry(struct bridge_container *container, int64_t now_ms);

/* Events of its directories. */
void bridge_container_on_event(
	struct bridge_container *container, unsigned what, size_t count, int64_t now_ms);

/* When it has to be looked at; INT64_MAX: never. Monotonic. */
int64_t bridge_container_due_ms(const struct bridge_container *container);
/* Asks the looker, which is free. The answer comes by the next three functions. */
void bridge_container_ask(struct bridge_container *container, int64_t now_ms);
void bridge_container_on_frame(
	struct bridge_container *container, struct wire *wire, struct wire_frame *frame);
/* It was looked at. False: its subdirectory is another one now, or none. */
bool bridge_container_on_looked(struct bridge_container *container, int64_t now_ms);
/* The looker does not answer, or broke. `refused`: too many others are stalled. */
void bridge_container_on_stalled(
	struct bridge_container *container, const char *why, bool refused, int64_t now_ms);
/* Whether each record of it has been looked at, or the looker stalled at it, since it was made. */
bool bridge_container_is_known(const struct bridge_container *container);

/* It is stalled, and its owner of the path may live. */
bool bridge_container_awaits(const struct bridge_container *container, const char *path);
/* While the looker does not answer for it: when bridge_container_ask_owners() is due. */
int64_t bridge_container_owners_due_ms(const struct bridge_container *container);
/* Asks the kernel for some of its owners. */
void bridge_container_ask_owners(struct bridge_container *container, int64_t now_ms);
/* When bridge_container_ask_freezer() is due; INT64_MAX: it has no owner that the agent may see. */
int64_t bridge_container_freezer_due_ms(const struct bridge_container *container);
/* It has owners whose processes are to be sought in a reading (holders.h). */
bool bridge_container_seeks_owners(const struct bridge_container *container);
/* Asks which of its owners are frozen, after a reading of the list, or of a part of it. */
void bridge_container_ask_freezer(struct bridge_container *container, bool whole, int64_t now_ms);

/* Its socket, for a successor; false: it has none. */
bool bridge_container_pass(
	const struct bridge_container *container, struct bridge_socket *ret_socket);
/* The files of its owners, for a successor: `visit` for each. And how long it has been stalled. */
void bridge_container_pass_owners(const struct bridge_container *container,
	void (*visit)(void *context, const char *path, int fd, uint64_t inode), void *context);
int64_t bridge_container_stalled_ms(const struct bridge_container *container, int64_t now_ms);
/* The same in a successor, before the first look. Takes the descriptor. */
void bridge_container_inherit_owner(
	struct bridge_container *container, const char *path, int fd_take, uint64_t inode);
void bridge_container_inherit_stall(
	struct bridge_container *container, int64_t stalled_ms, int64_t now_ms);

/* "served", "empty", "frozen", "throttled", "refused", "stalled". */
const char *bridge_container_state(const struct bridge_container *container);
/* The records of it that are in the registry. */
size_t bridge_container_registered(const struct bridge_container *container);
/* name, state, why, since, records, more: for GET /v1/bridge. New reference. */
json_t *bridge_container_json(const struct bridge_container *container);
/* Records that are not announced, by their state (an array of BRIDGE_CLAIM_LINGERING + 1). */
void bridge_container_count(const struct bridge_container *container, size_t *counts);

#endif
