/*
 * The host's agent: it announces the records of the host's containers in its own session.
 *
 *   <containers>/NAME/registry/  a dir: registry      a runtime's containers, with labels
 *        |   a child looks at it, since the                |   a child asks about them, since its
 *        |   container may hold whoever does               |   socket is as good as root
 *        |              --> looker.h, looker/              |            --> runtime.h, runtime/
 *        v                                                 v
 *   containers: when they are looked at,              guests: life, labels, checks
 *   and what was seen   --> container.h                    |            --> guest.h, services.h
 *        v                                                 v
 *   claims: policy, limits        claims.h, policy.h <-----'
 *        |
 *        v
 *   posts: one announcement for each path, of one container                  --> publish.h, book.h
 *        |
 *        v
 *   the registry, in the session of the host's agent
 *
 * Loop thread only.
 */
#ifndef AGENT_BRIDGE_BRIDGE_H
#define AGENT_BRIDGE_BRIDGE_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>

#include "agent/base/drains.h"
#include "agent/bridge/account.h"
#include "agent/bridge/book.h"
#include "agent/bridge/looker.h"
#include "agent/bridge/socket.h"
#include "agent/check/check.h"
#include "agent/config/config.h"
#include "agent/http/http.h"
#include "lib/registry/registry.h"

struct bridge;
struct holder;

/* All borrowed. */
struct bridge_environment {
	struct ev_loop *loop;
	struct registry *registry;
	struct bridge_book *book;
	const struct holder *holder; /* as bridge_publish_environment */
	struct http *http;           /* that serves the containers' sockets */
	const json_t *left;          /* bridge_book_load() */
	const json_t *inherited;     /* its paths in a resumed session; else NULL */
	const struct drains *drains; /* by SOURCE/NAME */
	struct check_scheduler *scheduler;
	/* those of a predecessor; the ones that are taken get fd = -1 */
	struct bridge_socket *sockets;
	size_t socket_count;
	struct bridge_owner_file *owners;
	size_t owner_count;
	const struct bridge_abandoned *abandoned; /* all are taken */
	size_t abandoned_count;
	/* As bridge_publish_environment. */
	bool (*session_is_saved)(void *context);
	bool (*is_taken)(void *context, const char *path);
	/* A container or one of its records changed its state. */
	void (*on_event)(void *context, const struct bridge_event *event);
	/* Something changed: bridge_proceed() is to follow. From the loop only. */
	void (*on_change)(void *context);
	void *context;
};

/*
 * Without containers in the configuration it only takes out what a predecessor has left. The
 * first comparison with the containers is made here, unless one of them
 * holds it up. BERTH_FAILED: the directory cannot be used.
 */
int bridge_create(struct bridge **ret_bridge, const struct bridge_environment *environment,
	const struct config *config, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(4);
/* The nodes stay. Accepts NULL. */
void bridge_destroy(struct bridge *bridge);

/* Policies and linger. The configuration is borrowed until the next one. */
void bridge_set_config(struct bridge *bridge, const struct config *config);
void bridge_on_registry_state(struct bridge *bridge, enum registry_state state, const char *why);
/* After on_change, from the loop. */
void bridge_proceed(struct bridge *bridge);

/* For GET /v1/bridge: all, or the part of one container (NULL: there is none). New reference. */
json_t *bridge_json(const struct bridge *bridge);
json_t *bridge_container_status(const struct bridge *bridge, const char *name);

/*
 * For a successor, before exec(): the lookers that hang, whose descriptors remain open; copies of
 * the files of owners in containers that are stalled; copies of the sockets of all containers,
 * `max` at most. Each returns their number. The bridge hears of no change any more.
 */
size_t bridge_pass_abandoned(struct bridge *bridge, struct bridge_abandoned **ret_abandoned);
size_t bridge_pass_owners(struct bridge *bridge, struct bridge_owner_file **ret_files);
size_t bridge_pass(struct bridge *bridge, struct bridge_socket *sockets, size_t max);

/* The drain of the container SOURCE/NAME, if there is one, has begun or ended. */
void bridge_review(struct bridge *bridge, const char *name);
/* Records of SOURCE/NAME that are in the registry, or may be; it may have gone. */
size_t bridge_records_left(const struct bridge *bridge, const char *name);

/* For metrics and the agent's status. */
size_t bridge_containers(const struct bridge *bridge);
/* By SOURCE/NAME. */
bool bridge_has_container(const struct bridge *bridge, const char *name);
/* The directory of containers cannot be used. */
bool bridge_is_away(const struct bridge *bridge);
/* Calls `visit` for each container, with the number of its registered records. */
void bridge_each_container(const struct bridge *bridge,
	void (*visit)(void *context, const char *name, const char *state, size_t registered),
	void *context);
/* Calls `visit` for each state that a record can have, with the number of records in it. */
void bridge_each_count(const struct bridge *bridge,
	void (*visit)(void *context, const char *state, size_t count), void *context);

#endif
