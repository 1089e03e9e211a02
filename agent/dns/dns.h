/*
 * The DNS server: names over UDP and TCP, on the agent's loop.
 *
 *   packet --> message.c (read) --> names, or forward.c --> reply.c, message.c (write) --> packet
 *
 * server.c owns the listeners and decides on replies; udp.c moves packets, tcp.c owns connections;
 * rate.c bounds what an address gets over UDP; forward.c asks other servers for names outside the
 * domain, and probe.c finds those among them that would ask us in turn. A query whose answer is not
 * known yet becomes an exchange, of which there is a bounded number; beyond it, queries get
 * SERVFAIL at once.
 */
#ifndef AGENT_DNS_DNS_H
#define AGENT_DNS_DNS_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/names/lookup.h"
#include "agent/zone/zones.h"
#include "lib/base/err.h"

#define DNS_MAX_LISTENERS 16

/* A socket that outlives the program when it is exchanged. */
struct dns_socket {
	char address[64]; /* as in `listen` */
	bool tcp;
	int fd;
};

/* A bound, non-blocking socket for host:port; a negative code with err filled. */
int dns_socket_open(const char *address, bool tcp, struct err *err) ERR_REQUIRED(3);

/* A server that names outside the domain are forwarded to. */
enum dns_server_state {
	DNS_SERVER_ASKED,
	DNS_SERVER_OWN,  /* not asked: its address is one of those that we serve */
	DNS_SERVER_LOOP, /* not asked for now: what was sent there came back to us */
	DNS_SERVER_STATES
};

extern const char *const dns_server_state_names[DNS_SERVER_STATES];

struct dns_server_events {
	/* The state of a server, "ADDRESS:PORT", is another one; `why` is a text for people. */
	void (*on_state)(void *context, const char *server, enum dns_server_state from,
		enum dns_server_state to, const char *why);
	void *context;
};

struct dns_options {
	struct zones *zones; /* further domains; borrowed */
	const char *domain;
	/* host:port with numeric hosts; borrowed for the call of dns_create() */
	char *const *listen;
	size_t listen_count;
	uint32_t ttl_s;
	uint32_t stale_ttl_s;
	/* SRV answers have priorities by nearness to this zone, or ""; NULL: those of records. */
	const char *near;
	/* Empty: names outside the domain are refused. "system", or host:port … */
	char *const *forward; /* borrowed for the call */
	size_t forward_count;
	struct dns_server_events on_server;
	/* Sockets handed over, or passed by a service manager: adopted where an address fits. */
	const struct dns_socket *inherited;
	size_t inherited_count;
};

struct dns_counts {
	uint64_t queries[2];  /* over UDP, over TCP */
	uint64_t replies[16]; /* by response code */
	uint64_t dropped;     /* packets that were not a query */
	uint64_t stale;
	uint64_t forwarded;
	uint64_t truncated;
	uint64_t limited; /* replies over UDP that were cut because their address got too much */
	size_t connections;
	size_t exchanges;
};

struct dns;

/* Binds every address. 0, or BERTH_FAILED naming the address. */
int dns_create(struct dns **ret_dns, struct ev_loop *loop, struct names_lookups *lookups,
	const struct dns_options *options, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(5);
/* Accepts NULL. */
void dns_destroy(struct dns *dns);

/* After a reload: ttl_s, stale_ttl_s, near and forward. */
void dns_set_options(struct dns *dns, const struct dns_options *options);

/* The listening sockets: at most 2 * DNS_MAX_LISTENERS. The descriptors stay ours. */
size_t dns_sockets(const struct dns *dns, struct dns_socket *ret_sockets);
/* The same for a successor: the descriptors are the caller's, and only dns_destroy() may follow. */
size_t dns_pass_sockets(struct dns *dns, struct dns_socket *ret_sockets);

/* After this machine's addresses have changed: which other servers are we ourselves now? */
void dns_look_for_ourselves(struct dns *dns);

const struct dns_counts *dns_counts(struct dns *dns);
/* The servers in a state. */
size_t dns_count_servers(const struct dns *dns, enum dns_server_state state);
/* {listen: [], domain, forward: [{server, state, why}]}; a new reference. */
json_t *dns_json(const struct dns *dns);

#endif
