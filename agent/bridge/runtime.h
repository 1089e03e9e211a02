/*
 * A container runtime, Docker or podman, as a source of containers.
 *
 *   the runtime's socket <--connect-- runtime.c --connected sockets--> berth-runtime (runtime/)
 *                                        ^------ facts, pidfds ------------'
 *                                        v
 *                                     guests                                   --> guest.h
 *
 * The agent connects, since the program that parses the runtime's answers has no right to. A
 * program that ends, or does not answer, is started again, and takes no record with it: the agent
 * watches the containers' processes itself.
 *
 *   STARTING --the first list is complete--> SERVED <--> AWAY, with a reason; its guests stay
 */
#ifndef AGENT_BRIDGE_RUNTIME_H
#define AGENT_BRIDGE_RUNTIME_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>

#include "agent/bridge/book.h"
#include "agent/bridge/guest.h"
#include "agent/bridge/publish.h"
#include "agent/check/check.h"
#include "agent/config/config.h"
#include "lib/base/err.h"

struct bridge_runtime;

/* All borrowed. */
struct bridge_runtime_environment {
	struct ev_loop *loop;
	struct bridge_publish *publish;
	struct bridge_book *book;
	const json_t *processes; /* that a predecessor has left, container -> text; or NULL */
	struct check_scheduler *scheduler;
	/* As in guest.h. */
	void (*on_change)(void *context);
	void *context;
};

int bridge_runtime_create(struct bridge_runtime **ret_runtime,
	const struct bridge_runtime_environment *environment, const struct config *config,
	const struct config_runtime *options, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(5);
/* `gone`: its containers' records are taken out; else they stay. Accepts NULL. */
void bridge_runtime_destroy(struct bridge_runtime *runtime, bool gone);
/* Both borrowed until the next ones. */
void bridge_runtime_set_config(struct bridge_runtime *runtime, const struct config *config,
	const struct config_runtime *options);

const char *bridge_runtime_name(const struct bridge_runtime *runtime);
/* All its containers have been looked at since the start. */
bool bridge_runtime_is_settled(const struct bridge_runtime *runtime);
/* Whether the key of an account is that of a container of it. */
bool bridge_runtime_owns(const struct bridge_runtime *runtime, const char *key);
/* Borrowed until the next call from the loop; `index` below bridge_runtime_guests(). */
size_t bridge_runtime_guests(const struct bridge_runtime *runtime);
struct bridge_guest *bridge_runtime_guest(const struct bridge_runtime *runtime, size_t index);
/* The guest with the key, or with the name; NULL: none. */
struct bridge_guest *bridge_runtime_find(const struct bridge_runtime *runtime, const char *name);
/* For GET /v1/bridge: name, socket, state, why, since. New reference. */
json_t *bridge_runtime_json(const struct bridge_runtime *runtime);

#endif
