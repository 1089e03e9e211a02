/*
 * The addresses of this machine, and the one that others are to know it by.
 *
 * Read without netlink, which seccomp filters and security modules refuse more often than what is
 * used here.
 */
#ifndef AGENT_BASE_OWN_ADDRESSES_H
#define AGENT_BASE_OWN_ADDRESSES_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct own_address {
	char interface[IF_NAMESIZE];
	sa_family_t family;
	char text[INET6_ADDRSTRLEN];
	bool public; /* others may know it: none of loopback, the link alone, a passing IPv6 one */
};

/* Of interfaces that are up, in the order of the kernel. */
struct own_addresses {
	struct own_address *items;
	size_t count;
};

void own_addresses_read(struct own_addresses *ret_addresses);
void own_addresses_finish(struct own_addresses *addresses);

/*
 * The address of this family for others; borrowed, NULL when there is none:
 *
 *   1. from which the kernel sends to one of the `servers`, those of the registry,
 *   2. from which it sends to the Internet, by the default route,
 *   3. the first one, interfaces that container engines make for their networks last.
 */
const char *own_addresses_main(const struct own_addresses *addresses, sa_family_t family,
	const struct sockaddr_storage *servers, size_t server_count);
/* That of an interface, a public one first. */
const char *own_addresses_of(
	const struct own_addresses *addresses, sa_family_t family, const char *interface);

/*
 * Whether a packet to `to` arrives at a socket that is bound to `listen`: they are the same, or
 * `listen` is the wildcard address and `to` is an address that this machine has now. An IPv4
 * address in IPv6 form counts as what it is, and the wildcard as a destination means loopback.
 */
bool own_addresses_hear(const struct sockaddr_storage *to, const struct sockaddr_storage *listen);

#endif
