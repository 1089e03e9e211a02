/*
 * Inside the DNS server. A file calls only those below it:
 *
 *   server.c               listeners
 *   tcp.c, udp.c           the transports: queries in, replies out
 *   exchange.c             from a query to its reply
 *   forward.c, reply.c     other servers; the reply's packet
 *   message.c, rate.c, address.c, alias.c
 */
#ifndef AGENT_DNS_INTERNAL_H
#define AGENT_DNS_INTERNAL_H

#include <sys/socket.h>

#include "agent/base/lasting_io.h"
#include "agent/base/timer.h"
#include "agent/dns/dns.h"
#include "agent/dns/message.h"
#include "agent/dns/rate.h"
#include "lib/base/buffer.h"
#include "lib/base/list.h"

#define DNS_CONTROL_BYTES 64 /* of IP_PKTINFO or IPV6_PKTINFO */

/* ---- forward.c ---- */

struct dns_forward;

/* An address; of IPv6 the network. */
struct dns_client {
	sa_family_t family;
	uint8_t bytes[16];
};

/* A question to another server under way; in the caller's memory. */
struct dns_forwarding {
	/* `data` is NULL when no server answered. The forwarding is over. */
	void (*on_reply)(void *context, const uint8_t *data, size_t len);
	void *context;
	struct dns_forward *forward; /* the rest is the module's; NULL: not under way */
	struct list link;
	struct dns_client client;
	bool given_up; /* its client asks for more than its share: it soon ends unanswered */
	const struct dns_query *query;
	uint8_t *packet; /* the client's, with two bytes of length before it */
	size_t len;
	uint16_t id;
	unsigned attempt;
	int fd;
	bool tcp;
	size_t sent;
	struct buffer reply; /* over TCP, length first */
	ev_io io;
	struct timer timer;
};

struct dns_forward *dns_forward_create(struct ev_loop *loop);
void dns_forward_destroy(struct dns_forward *forward);
/* `own`: addresses that must not be asked, since they are ours. */
void dns_forward_set(struct dns_forward *forward, char *const *servers, size_t count,
	char *const *own, size_t own_count);
bool dns_forward_enabled(const struct dns_forward *forward);
/*
 * Sends the client's packet on. `query` is borrowed until the end. False: none can be asked now. A
 * client whose questions are more than its share gives up its longest waiting one.
 */
bool dns_forward_ask(struct dns_forward *forward, struct dns_forwarding *forwarding,
	const struct sockaddr_storage *client, const struct dns_query *query, const uint8_t *packet,
	size_t len, bool tcp);
void dns_forward_cancel(struct dns_forwarding *forwarding);

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

/* Reads host:port or [host]:port with a numeric host. */
bool dns_address_read(struct sockaddr_storage *ret_address, socklen_t *ret_len, const char *text);
/* Makes a socket that another program bound to `address` like one of dns_socket_open(). */
void dns_socket_adopt(int fd, const char *address, bool tcp);

#endif
