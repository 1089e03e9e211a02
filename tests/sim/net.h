/*
 * The way between the agents and the registry: connections, delays, and everything that can go
 * wrong.
 *
 * Requests of a connection arrive in their order, and so do its replies and notifications, as with
 * ZooKeeper. A connection that breaks loses both, and the watches; the session lives on until its
 * timeout, or until the agent is back.
 *
 *   CONNECTING --handshake--> CONNECTED --cut, noticed later--> AWAY
 *
 *   AWAY --handshake, session alive--> CONNECTED
 *   AWAY --its timeout, or session gone--> LOST --> CONNECTED
 */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "lib/registry/registry.h"
#include "tests/sim/world.h"

enum { NET_SESSION_TIMEOUT_MS = 15000 };

struct net;

struct net *net_create(struct world *world, uint64_t seed);
void net_destroy(struct net *net);

/* Opens the registry of an agent: options as for registry_open(), without the URL. */
int net_open(struct net *net, int agent, const struct registry_options *options,
	struct registry **ret_registry, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(5);

/* Delivers due bytes to the registry, and ends expired sessions. */
void net_step(struct net *net);
int64_t net_due_ms(const struct net *net);

/* The agent's session; 0: none. */
uint64_t net_session(const struct net *net, int agent);

/* ---- faults ---- */

/* Nothing passes for so long; or, with `requests_pass`, only replies are lost. */
void net_cut(struct net *net, int agent, int64_t for_ms, bool requests_pass);
/* The next change that the agent makes is applied, and the connection breaks before the reply. */
void net_break_after_change(struct net *net, int agent);
/* The registry ends the session. */
void net_expire(struct net *net, int agent);
/* Everybody's requests and replies take up to `most_ms`, for so long. */
void net_slow(struct net *net, int64_t for_ms, int64_t most_ms);
/* The agent's changes are refused for so long: permissions, or a quota. */
void net_refuse(struct net *net, int agent, int64_t for_ms);
/* The agent's process has died: its requests may still arrive, its session expires later. */
void net_kill(struct net *net, int agent);

#endif
