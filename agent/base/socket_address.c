#include "agent/base/socket_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = 64 };

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
