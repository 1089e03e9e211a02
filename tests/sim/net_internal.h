/*
 * The parts of the way between the agents and the registry: net.c is the worker of an agent and its
 * connection, net_agent.c what the agent sees of it, net_wire.c carries requests and what comes
 * back, net_frame.c turns frames into tasks and results into frames, net_faults.c is what goes
 * wrong.
 */
#ifndef TESTS_SIM_NET_INTERNAL_H
#define TESTS_SIM_NET_INTERNAL_H

#include "lib/base/buffer.h"
#include "lib/base/list.h"
#include "lib/registry/backend.h"
#include "lib/registry/zookeeper/frame.h"
#include "tests/sim/net.h"
#include "tests/sim/sim.h"

enum { NET_HANDSHAKE_MS = 20, NET_MOST_EXPIRIES = 256 };

/* On its way to the registry. */
struct request {
	struct list link;
	struct end *end;
	uint32_t tag;
	enum zk_operation operation;
	struct registry_task task; /* with a path of the world, and inputs of its own */
	int64_t due_ms;
};

/* On its way to the agent. */
struct delivery {
	struct list link;
	int64_t due_ms;
	struct buffer frame;
	char *path;    /* that it is about; NULL: none */
	bool is_reply; /* else a notification, or a report of the worker */
	bool is_data;
};

/* The worker of an agent, and its connection to the registry. */
struct end {
	struct net *net;
	struct world_client client;
	struct list inbox;
	int fd;         /* readable while the inbox holds something that is due */
	bool rings;     /* it is readable */
	bool connected; /* the registry takes this connection for one */
	bool ended;     /* the worker's process has died */
	bool broken;    /* cut, until the next worker */
	enum net_cut cut;
	bool breaks;             /* after the next change */
	int64_t notice_ms;       /* when the worker finds that the connection is broken */
	int64_t connect_ms;      /* INT64_MAX: not now */
	int64_t last_request_ms; /* no later one arrives earlier */
	int64_t last_delivery_ms;
	size_t requests;  /* without an answer */
	bool needs_words; /* it would end, and leave the session, if the agent sent nothing */
	int64_t said_ms;  /* when the agent last sent something */
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

/* The way of an agent to the registry, which outlives its workers. */
struct way {
	int64_t cut_until_ms; /* no connection is made before */
	int64_t refuse_until_ms;
	int64_t disturbed_ms; /* when a connection has changed last */
	unsigned fail_in;     /* of allocations after the next read; 0: none */
	struct changes changes;
};

struct net {
	struct world *world;
	struct end *ends[SIM_MOST];
	struct way ways[SIM_MOST];
	struct list requests; /* of all connections, not yet at the registry */
	struct expiry expiries[NET_MOST_EXPIRIES];
	size_t expiry_count;
	struct sim_random random;
	int64_t slow_until_ms;
	int64_t slow_most_ms;
	int64_t reorder_until_ms;
	int64_t quota_until_ms;
	bool spares_allocations;
};

/* The network of the agents. */
extern struct net *net_in_use;

static inline int64_t later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t earlier_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline struct way *way_of(const struct end *end)
{
	return &end->net->ways[end->client.agent];
}

/* ---- net.c ---- */

struct end *net_begin_end(int agent, uint64_t session);
/* `requests_arrive`: those under way do, and nobody hears of it. */
void net_finish_end(struct end *end, bool requests_arrive);

/* ---- net_wire.c ---- */

/* How long the next bytes take. */
int64_t wire_delay_ms(struct net *net);
void wire_submit(struct end *end, const struct zk_request *request);
/* The request has reached the registry, and its reply goes back. */
void wire_apply(struct request *request);
void wire_on_fired(void *context, const char *path, enum registry_watch_kind kind, bool gone);
/* The worker reports at once. */
void wire_report(struct end *end, enum zk_session_state state);
void wire_free_request(struct request *request);
void wire_free_delivery(struct delivery *delivery);
void wire_clear_inbox(struct end *end);

/* ---- net_frame.c ---- */

/* The world's path of a server's path; allocated. */
char *frame_world_path(const char *path);
void frame_read_request(struct request *request, const struct zk_request *sent);
/* Carries it out, and makes the frame of its result. */
void frame_apply(struct request *request, struct buffer *out);
void frame_event(struct buffer *out, const char *path, enum registry_watch_kind kind, bool gone);

/* ---- net_faults.c ---- */

/* The registry has heard of the session for the last time. */
void net_expire_later(struct net *net, uint64_t session);
void net_forget_expiry(struct net *net, uint64_t session);
void net_expire_sessions(struct net *net);

#endif
