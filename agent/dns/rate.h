/*
 * How much an address gets over UDP beyond what it sent. Over UDP anybody can ask in the name of
 * another, and the answer, which may be many times as long as the question, goes to that other. So
 * beyond a rate an address gets cut answers, as long as the questions, and a true client asks again
 * over TCP.
 *
 * Addresses share a fixed number of buckets, by a hash that strangers cannot foresee: the memory
 * does not grow with the number of addresses, and none can push another's bucket out.
 */
#ifndef AGENT_DNS_RATE_H
#define AGENT_DNS_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define DNS_RATE_BYTES (64 << 10)  /* a second */
#define DNS_RATE_BURST (128 << 10) /* at once */

struct dns_rate;

/* For free(). */
struct dns_rate *dns_rate_create(void);

/*
 * True when `bytes` more may go to the address (of IPv6: to its network of 64 bits); if so, they
 * count. A loopback address, in whose name nobody else can ask, always may.
 */
bool dns_rate_take(struct dns_rate *rate, const struct sockaddr_storage *address, size_t bytes,
	int64_t now_ms);

#endif
