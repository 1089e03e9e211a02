/*
 * The rule by which clients share what is bounded: a client may hold three times as much as is
 * free. So a client alone gets three quarters, and the next one always finds room. And who is one
 * client, whatever the number of its connections.
 */
#ifndef LIB_BASE_SHARE_H
#define LIB_BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Whether a client that has `used`, all of them `total`, may have one more. */
static inline bool share_allows(size_t used, size_t total, size_t limit)
{
	return total < limit && used / 3 < limit - total;
}

/*
 * A user of this machine (on a Unix socket: AF_UNIX), or an address (AF_INET, AF_INET6). Of IPv6 it
 * is the network, the first half; an IPv4 address is itself, also where a socket of IPv6 took the
 * connection. AF_UNSPEC: the kernel does not say.
 */
struct share_client {
	sa_family_t family;
	unsigned char bytes[8];
};

/* The client at the other end of a connected socket. */
struct share_client share_client_of(int fd);
bool share_client_same(const struct share_client *a, const struct share_client *b);

#endif
