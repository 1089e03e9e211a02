/*
 * The parts of the way between the agents and the registry: net.c is the agent's end of a
 * connection, net_wire.c carries requests and replies, net_faults.c is what goes wrong.
 */
#ifndef TESTS_SIM_NET_INTERNAL_H
#define TESTS_SIM_NET_INTERNAL_H

#include "lib/base/list.h"
#include "lib/registry/backend.h"
#include "tests/sim/net.h"
#include "tests/sim/sim.h"

enum { NET_HANDSHAKE_MS = 20, NET_MOST_EXPIRIES = 256 };

/* On its way to the registry. */
struct request {
	struct list link;
	struct registry_task *task; /* NULL: nobody waits for it any more */
	struct registry_task copy;  /* with inputs of its own */
	int64_t made_ms;
	int64_t due_ms;
};

/* On its way back. */
struct delivery {
	struct list link;
	int64_t due_ms;
	struct request *request; /* NULL: a notification */
	char *path;
	enum registry_watch_kind kind;
	bool gone;
};

/* An agent's end of a connection. */
struct end {
	struct registry_backend base;
	struct net *net;
	struct world_client client;
	struct list waiting; /* requests that have not been answered, each with its task */
	struct list inbox;
	int fd;
	enum registry_state state;
	bool dead;        /* killed */
	enum net_cut cut; /* what is cut while it is broken */
	bool breaks;      /* after the next change */
	unsigned fail_in; /* of allocations after the next read; 0: none */
	int64_t refuse_until_ms;
	int64_t cut_until_ms; /* no connection is made before */
	int64_t notice_ms;    /* INT64_MAX: nothing to notice */
	int64_t lost_ms;
	int64_t connect_ms;
	int64_t last_request_ms; /* no later one arrives earlier */
	int64_t last_delivery_ms;
	int64_t heard_ms;
	size_t tasks;
	char session_name[32];
};

struct expiry {
	uint64_t session;
	int64_t at_ms;
};

/* So many of an agent in the present period. */
struct changes {
	int64_t since_ms;
	unsigned count;
};

struct net {
	struct world *world;
	struct end *ends[SIM_AGENTS];
	struct changes changes[SIM_AGENTS];
	struct list requests; /* of all connections, not yet at the registry */
	struct expiry expiries[NET_MOST_EXPIRIES];
	size_t expiry_count;
	struct sim_random random;
	int64_t slow_until_ms;
	int64_t slow_most_ms;
	int64_t reorder_until_ms;
	int64_t quota_until_ms;
	bool spares_allocations;
	int64_t disturbed_ms[SIM_AGENTS];  /* when a connection has changed last */
	int64_t away_until_ms[SIM_AGENTS]; /* cut off while it was down */
};

static inline int64_t later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t earlier_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- net_wire.c ---- */

/* How long the next bytes take. */
int64_t wire_delay_ms(struct net *net);
bool wire_is_change(const struct registry_task *task);
void wire_submit(struct registry_backend *backend, struct registry_task *task);
void wire_abandon(struct registry_backend *backend, struct registry_task *task);
/* The request has reached the registry, and its reply goes back. */
void wire_apply(struct end *end, struct request *request);
void wire_on_fired(void *context, const char *path, enum registry_watch_kind kind, bool gone);
/* Hands a reply or a notification to the agent. */
void wire_deliver(struct end *end, struct delivery *delivery);
/* Fails a request whose fate the agent does not know; the registry may still get it. */
void wire_fail_unknown(struct end *end, struct request *request, int code);
void wire_free_request(struct request *request);
/* Requests that nobody waits for and that the registry has seen, or never will. */
void wire_free_forgotten(struct end *end);
void wire_clear_inbox(struct end *end);

/* ---- net_faults.c ---- */

/* From the cut until the agent has connected anew. */
bool net_is_broken(const struct end *end);
/* The registry has heard of the session for the last time. */
void net_expire_later(struct net *net, uint64_t session);
void net_forget_expiry(struct net *net, uint64_t session);
void net_expire_sessions(struct net *net);

#endif
