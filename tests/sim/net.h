/*
 * The way between the agents and the registry: the workers of their ZooKeeper backend, played, with
 * connections, delays, and everything that can go wrong. The backend itself is the agent's own code
 * (lib/registry/zookeeper/), up to the frames that it exchanges with its worker.
 *
 * Requests of a connection arrive in their order, and so do its replies and notifications, as with
 * ZooKeeper. A connection that breaks loses both, and the watches; the session lives on until its
 * timeout, or until a worker is back with it.
 *
 *   searching --handshake--> connected --cut--> broken --noticed later--> searching, for ever
 *       '--its session has expired--> (the agent starts the next worker in any case)
 */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "lib/registry/registry.h"
#include "tests/sim/world.h"

enum { NET_SESSION_TIMEOUT_MS = 15000 };

struct net;

/* From now on the workers of the agents reach this one. */
struct net *net_create(struct world *world, uint64_t seed);
void net_destroy(struct net *net);

/* Delivers due bytes to the registry, connects workers, and ends expired sessions. */
void net_step(struct net *net);
/* When that has to be done next. */
int64_t net_due_ms(const struct net *net);
/* When the agent's end has something to do. */
int64_t net_agent_due_ms(const struct net *net, int agent);
/* The agent has bytes of its worker to read. */
void net_ring(struct net *net, int agent);

/* Each path that it hears of at this moment. */
void net_each_due(const struct net *net, int agent, void (*hear)(void *context, const char *path),
	void *context);

/* The agent's session; 0: none. */
uint64_t net_session(const struct net *net, int agent);
/* When the state of the agent's connection has changed last. */
int64_t net_disturbed_ms(const struct net *net, int agent);

/* ---- faults ---- */

enum net_cut { NET_CUT_BOTH, NET_CUT_REPLIES, NET_CUT_REQUESTS };

/*
 * For so long nothing passes, or nothing in one direction. An agent that is down will not reach the
 * registry when it starts.
 */
void net_cut(struct net *net, int agent, int64_t for_ms, enum net_cut cut);
/* The next change that the agent makes is applied, and the connection breaks before the reply. */
void net_break_after_change(struct net *net, int agent);
/* The worker has died: the agent notices at once. */
void net_drop(struct net *net, int agent);
/* The registry ends the session. */
void net_expire(struct net *net, int agent);
/* Everybody's requests and replies take up to `most_ms`, for so long. */
void net_slow(struct net *net, int64_t for_ms, int64_t most_ms);
/* Nothing that is sent to the agent arrives for so long; then all of it comes at once. */
void net_stall(struct net *net, int agent, int64_t for_ms);
/* Replies about different paths overtake each other, for so long. */
void net_reorder(struct net *net, int64_t for_ms);
/* Nobody can create or set anything for so long. */
void net_exceed_quota(struct net *net, int64_t for_ms);
/* The agent's changes are refused for so long: it lacks the permissions. */
void net_refuse(struct net *net, int agent, int64_t for_ms);
/* After the next data that it reads, the agent's so-manieth allocation fails. */
void net_fail_allocation(struct net *net, int agent, unsigned in);
/* None fails meanwhile: somebody asks whether all is well. */
void net_spare_allocations(struct net *net, bool spare);
/* The agent's process has died: its requests may still arrive, its session expires later. */
void net_gone(struct net *net, int agent);

#endif
