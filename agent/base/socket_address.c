#include "agent/base/socket_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = 64, V4_IN_V6 = 12 };

bool socket_address_read(struct sockaddr_storage *ret_address, socklen_t *ret_len, const char *text)
{
	char host[HOST_BYTES];
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	bool bracketed = len > 2 && text[0] == '[' && colon[-1] == ']';
	if (len == 0 || len >= sizeof(host) || (!bracketed && memchr(text, ':', len))) {
		return false;
	}
	len -= bracketed ? 2 : 0;
	memcpy(host, text + (bracketed ? 1 : 0), len);
	host[len] = '\0';
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_family = bracketed ? AF_INET6 : AF_INET,
		.ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;
	if (strspn(colon + 1, "0123456789") != strlen(colon + 1) || !colon[1] ||
		getaddrinfo(host, colon + 1, &hints, &found) != 0) {
		return false;
	}
	*ret_address = (struct sockaddr_storage){ 0 };
	memcpy(ret_address, found->ai_addr, found->ai_addrlen);
	*ret_len = found->ai_addrlen;
	freeaddrinfo(found);
	return true;
}

bool socket_address_is_wildcard(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *ipv4 = (const void *)address;
	const struct sockaddr_in6 *ipv6 = (const void *)address;
	return address->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr)
					      : ipv4->sin_addr.s_addr == INADDR_ANY;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *ipv4 = (const void *)address;
	const struct sockaddr_in6 *ipv6 = (const void *)address;
	return address->ss_family == AF_INET6
		? IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr)
		: ntohl(ipv4->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

static bool is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a;
	const struct sockaddr_in *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a;
	const struct sockaddr_in6 *b6 = (const void *)b;
	return a->ss_family == b->ss_family &&
		(a->ss_family == AF_INET6 ? IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr)
					  : a4->sin_addr.s_addr == b4->sin_addr.s_addr);
}

bool socket_address_source(struct sockaddr_storage *ret_source, const struct sockaddr_storage *to)
{
	struct sockaddr_storage source = { 0 };
	socklen_t to_len = to->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						     : sizeof(struct sockaddr_in);
	socklen_t len = sizeof(source);
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool found = fd >= 0 && connect(fd, (const struct sockaddr *)to, to_len) == 0 &&
		getsockname(fd, (struct sockaddr *)&source, &len) == 0;
	if (fd >= 0) {
		close(fd);
	}
	if (found) {
		*ret_source = source;
	}
	return found;
}

/* Where a packet to this address goes. */
static struct sockaddr_storage destination(const struct sockaddr_storage *to)
{
	struct sockaddr_storage address = *to;
	struct sockaddr_in *ipv4 = (void *)&address;
	struct sockaddr_in6 *ipv6 = (void *)&address;
	if (address.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr)) {
		struct sockaddr_in mapped = { .sin_family = AF_INET, .sin_port = ipv6->sin6_port };
		memcpy(&mapped.sin_addr, ipv6->sin6_addr.s6_addr + V4_IN_V6,
			sizeof(mapped.sin_addr));
		address = (struct sockaddr_storage){ 0 };
		memcpy(&address, &mapped, sizeof(mapped));
	}
	if (!socket_address_is_wildcard(&address)) {
		return address;
	}
	if (address.ss_family == AF_INET6) {
		ipv6->sin6_addr = in6addr_loopback;
	} else {
		ipv4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	return address;
}

bool socket_address_arrives(
	const struct sockaddr_storage *to, const struct sockaddr_storage *listen)
{
	/* The ports of both families lie at the same place. */
	const struct sockaddr_storage target = destination(to);
	struct sockaddr_storage source;
	if (target.ss_family != listen->ss_family ||
		((const struct sockaddr_in *)(const void *)&target)->sin_port !=
			((const struct sockaddr_in *)(const void *)listen)->sin_port) {
		return false;
	}
	if (!socket_address_is_wildcard(listen)) {
		return is_same_host(&target, listen);
	}
	return is_loopback(&target) ||
		(socket_address_source(&source, &target) && is_same_host(&source, &target));
}
