/*
 * Inside the DNS server. A file calls only those below it:
 *
 *   server.c               listeners
 *   tcp.c, udp.c           the transports: queries in, replies out
 *   exchange.c             from a query to its reply
 *   forward.c, reply.c     other servers; the reply's packet
 *   probe.c                whether another server forwards to us
 *   ask.c                  one question to one server
 *   message.c, rate.c, address.c, alias.c
 */
#ifndef AGENT_DNS_INTERNAL_H
#define AGENT_DNS_INTERNAL_H

#include <jansson.h>
#include <sys/socket.h>

#include "agent/base/lasting_io.h"
#include "agent/base/timer.h"
#include "agent/dns/dns.h"
#include "agent/dns/message.h"
#include "agent/dns/rate.h"
#include "lib/base/buffer.h"
#include "lib/base/list.h"

#define DNS_CONTROL_BYTES 64 /* of IP_PKTINFO or IPV6_PKTINFO */

/* ---- ask.c ---- */

/* A packet to one server after another, until a reply to it comes; in the caller's memory. */
struct dns_ask {
	/*
	 * `reply` is NULL when the server does not answer in time, or cannot be asked. It is valid
	 * until the next dns_ask_send() or dns_ask_finish(), which may come from here.
	 */
	void (*on_end)(void *context, uint8_t *reply, size_t len);
	void *context;
	struct dns_query query; /* the rest is the module's */
	struct ev_loop *loop;
	uint8_t *packet; /* with two bytes of length before it */
	size_t len;
	uint16_t id;
	int fd;
	bool tcp;
	size_t sent;
	struct buffer reply; /* over TCP, length first */
	ev_io io;
	struct timer timer;
};

/* Sets all but on_end and its context. */
void dns_ask_init(struct dns_ask *ask, struct ev_loop *loop, const struct dns_query *query,
	const uint8_t *packet, size_t len, bool tcp);
/* Each time with an id and a port of its own. The end comes from the loop, never from here. */
void dns_ask_send(struct dns_ask *ask, const struct sockaddr_storage *server);
void dns_ask_finish(struct dns_ask *ask);

/* ---- probe.c ---- */

enum { DNS_PROBE_BYTES = 64 };

/*
 * Finds out whether a server sends back to us what we send to it: asks it for a name that nobody
 * else asks for.
 *
 *   ASKING --a reply, and the name did not come here--> CLEAN --dns_probe_doubt()--> ASKING
 *     |  ^
 *     |  +--a growing pause-- no reply
 *     |
 *     +--the name came here--> LOOP --after a minute it is asked again--> ASKING
 *
 * A loop is over when a reply comes without the name; since the servers on it may all have stopped
 * forwarding for its sake, the question is asked once more, a random time later.
 */
struct dns_probe {
	/* The server forwards to us; or it does not do so any more. */
	void (*on_loop)(void *context, bool loops);
	void *context;
	struct ev_loop *loop; /* the rest is the module's */
	struct sockaddr_storage server;
	bool loops;
	bool asking;
	char name[DNS_PROBE_BYTES];   /* that was asked for last; "" before */
	char before[DNS_PROBE_BYTES]; /* the one before it, which may still be on its way */
	int64_t asked_ms;
	int64_t pause_ms;
	struct dns_ask ask;
	struct timer timer;
};

void dns_probe_start(struct dns_probe *probe, struct ev_loop *loop,
	const struct sockaddr_storage *server, void (*on_loop)(void *context, bool loops),
	void *context);
void dns_probe_stop(struct dns_probe *probe);
/* Asks again now, if it has not just done so. */
void dns_probe_doubt(struct dns_probe *probe);
/* Takes a question that has come to us: true when it is the probe's. */
bool dns_probe_take(struct dns_probe *probe, const struct dns_query *query);

/* ---- forward.c ---- */

struct dns_forward;
struct dns_question;

/* An address; of IPv6 the network. */
struct dns_client {
	sa_family_t family;
	uint8_t bytes[16];
};

/* A client's wait for the answer of other servers; in the caller's memory. */
struct dns_forwarding {
	/* `data` is NULL when no server answered. The forwarding is over. */
	void (*on_reply)(void *context, const uint8_t *data, size_t len);
	void *context;
	struct dns_forward *forward; /* the rest is the module's; NULL: not under way */
	struct list link;
	struct list of_question;
	struct dns_question *question; /* NULL: it was given up, and soon ends unanswered */
	struct dns_client client;
	const struct dns_query *query;
	struct timer timer; /* the end of one that was given up */
};

struct dns_forward *dns_forward_create(struct ev_loop *loop);
void dns_forward_destroy(struct dns_forward *forward);
/* `own`: where we listen. Servers that are we ourselves, or send back to us, are not asked. */
void dns_forward_set(struct dns_forward *forward, char *const *servers, size_t count,
	char *const *own, size_t own_count);
/* After this machine's addresses have changed. */
void dns_forward_look_for_own(struct dns_forward *forward);
/* Whether there is any server but ourselves. */
bool dns_forward_enabled(const struct dns_forward *forward);
/*
 * Sends the client's packet on, or waits with others for the answer to an equal one. `query` is
 * borrowed until the end. False: none can be asked now. A client whose questions are more than its
 * share gives up its longest waiting one.
 */
bool dns_forward_ask(struct dns_forward *forward, struct dns_forwarding *forwarding,
	const struct sockaddr_storage *client, const struct dns_query *query, const uint8_t *packet,
	size_t len, bool tcp);
void dns_forward_cancel(struct dns_forwarding *forwarding);
/* Whether the query that has come to us is one of our own, by which we look for loops. */
bool dns_forward_take_probe(struct dns_forward *forward, const struct dns_query *query);
void dns_forward_on_server(struct dns_forward *forward, const struct dns_server_events *events);
/* See dns_servers_json(). */
json_t *dns_forward_json(const struct dns_forward *forward);
size_t dns_forward_count(const struct dns_forward *forward, enum dns_server_state state);

/* ---- exchange.c ---- */

struct dns_connection;
struct dns_batch;

/* Where a reply goes. */
struct dns_origin {
	/* Sends a reply there; of tcp.c or udp.c. */
	void (*send)(const struct dns_origin *origin, const uint8_t *data, size_t len);
	struct dns_connection *connection; /* NULL: over UDP */
	struct dns_batch *batch;           /* NULL: over TCP */
	int fd;
	struct sockaddr_storage address;
	socklen_t address_len;
	/* Which of our addresses was asked. */
	_Alignas(struct cmsghdr) uint8_t control[DNS_CONTROL_BYTES];
	size_t control_len;
};

/* A query that waits for its answer. */
struct dns_exchange {
	struct dns *dns;
	struct list link;          /* of all */
	struct list of_connection; /* of its connection */
	struct dns_origin origin;
	struct dns_query query;
	struct names_wait wait;
	struct zone_wait zone_wait;
	struct dns_query beyond; /* the question to another server about an alias */
	struct dns_forwarding forwarding;
};

struct dns_listener {
	struct dns *dns;
	struct dns_socket socket;
	struct lasting_io io;
};

struct dns {
	struct ev_loop *loop;
	struct names_lookups *lookups;
	struct zones *zones;
	struct dns_forward *forward;
	char *domain;
	char **listen;
	size_t listen_count;
	uint32_t ttl_s;
	uint32_t stale_ttl_s;
	char *near; /* see dns_options */
	struct dns_listener listeners[2 * DNS_MAX_LISTENERS];
	size_t listener_count;
	struct dns_batch *batch; /* of udp.c */
	struct dns_rate *rate;
	struct list exchanges;
	struct list connections; /* of tcp.c; the one idle longest first */
	struct dns_counts counts;
	unsigned rotation;
	uint8_t buffer[DNS_TCP_BYTES + 2];
};

/*
 * Handles a packet from `origin`: the reply is sent at once, or later by an exchange, which
 * `exchanges` links when it is not NULL.
 */
void dns_handle(struct dns *dns, const struct dns_origin *origin, const uint8_t *packet, size_t len,
	struct list *exchanges);
/* Ends an exchange without a reply. */
void dns_exchange_drop(struct dns_exchange *exchange);

/* ---- tcp.c ---- */

void dns_tcp_accept(struct dns *dns, int listener_fd);
void dns_tcp_close_all(struct dns *dns);

/* ---- udp.c ---- */

/* For free(). */
struct dns_batch *dns_batch_create(void);
/* Answers what has come on a socket, a bounded number per loop iteration. */
void dns_udp_receive(struct dns *dns, int fd);

/* ---- address.c ---- */

/* Makes a socket that another program bound to `address` like one of dns_socket_open(). */
void dns_socket_adopt(int fd, const char *address, bool tcp);

#endif
