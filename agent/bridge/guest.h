/*
 * A container that a runtime has started, and that knows nothing of Berth: what is registered for
 * it, and why something is not.
 *
 *   UNKNOWN --its process in the book of a predecessor has ended--> ENDED
 *   UNKNOWN --a pidfd that is its first process's--> ALIVE --the kernel: it has ended--> ENDED
 *      '----- another process's, or none ----------> UNVERIFIED                            |
 *                                                       a new first process --> ALIVE <----'
 *
 * Its records are in the registry while it is ALIVE, its runtime has no order to stop it and has
 * not paused it, its own health check and those of its labels are good, and nobody drains it.
 */
#ifndef AGENT_BRIDGE_GUEST_H
#define AGENT_BRIDGE_GUEST_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/bridge/book.h"
#include "agent/bridge/facts.h"
#include "agent/bridge/publish.h"
#include "agent/check/check.h"
#include "agent/config/config.h"
#include "lib/base/list.h"

struct bridge_guest;

/* One for all of a runtime. All borrowed; the configuration may change, see _reconfigure(). */
struct bridge_guest_environment {
	struct ev_loop *loop;
	struct bridge_publish *publish;
	struct bridge_book *book;
	struct check_scheduler *scheduler;
	const char *source; /* the runtime's name */
	const struct config *config;
	const struct config_runtime *runtime;
	/* The runtime should be asked about it. */
	void (*on_doubt)(void *context, const char *id);
	void *doubt_context;
	/* Something changed: bridge_proceed() is to follow. From the loop only. */
	void (*on_change)(void *context);
	void *context;
};

/* The environment is borrowed. */
struct bridge_guest *bridge_guest_create(
	const struct bridge_guest_environment *environment, const char *id);
/* `why`: its records are taken out; NULL: they stay. */
void bridge_guest_destroy(struct bridge_guest *guest, const char *why);
/* The environment has another configuration. */
void bridge_guest_reconfigure(struct bridge_guest *guest);

/*
 * A predecessor has left in the book which process is its first one: until the runtime says
 * something of it, the kernel's word counts.
 */
void bridge_guest_expect(struct bridge_guest *guest, const char *process);
/* For the book; NULL: nothing. */
const char *bridge_guest_process(const struct bridge_guest *guest);
/* The runtime says so of it. Takes the descriptor (-1: none). */
void bridge_guest_take(
	struct bridge_guest *guest, const struct bridge_facts *facts, int pidfd_take);
/*
 * The runtime does not know it, or knows of no process of it. True: it is to go; else the runtime
 * is asked once more, since the kernel says that it lives.
 */
bool bridge_guest_deny(struct bridge_guest *guest);
/* Another helper reports on the runtime: in doubt until that one reports on this container. */
void bridge_guest_doubt(struct bridge_guest *guest);
bool bridge_guest_is_doubted(const struct bridge_guest *guest);
/* Somebody has sent it a signal by the runtime; 0: it is not known which. */
void bridge_guest_on_signal(struct bridge_guest *guest, unsigned number);
/* Its drain has begun or ended. */
void bridge_guest_review(struct bridge_guest *guest);
/* A path has become free, or something that it gave up has gone. */
void bridge_guest_retry(struct bridge_guest *guest, int64_t now_ms);
/* When bridge_guest_on_time() is due; INT64_MAX: never. Monotonic. */
int64_t bridge_guest_due_ms(const struct bridge_guest *guest);
void bridge_guest_on_time(struct bridge_guest *guest, int64_t now_ms);

const char *bridge_guest_id(const struct bridge_guest *guest);
/* SOURCE/ID, and SOURCE/NAME. */
const char *bridge_guest_key(const struct bridge_guest *guest);
const char *bridge_guest_name(const struct bridge_guest *guest);
const char *bridge_guest_state(const struct bridge_guest *guest);
size_t bridge_guest_registered(const struct bridge_guest *guest);
/* It may have this path, but has no verdict yet: a predecessor's record stays. */
bool bridge_guest_awaits(const struct bridge_guest *guest, const char *path);
/* For GET /v1/bridge. New reference. */
json_t *bridge_guest_json(const struct bridge_guest *guest);
/* Records that are not announced, by their state (an array of BRIDGE_CLAIM_STATES). */
void bridge_guest_count(const struct bridge_guest *guest, size_t *counts);

#endif
