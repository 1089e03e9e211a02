/* Numeric addresses and the sockets bound to them. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "agent/dns/internal.h"

#define BACKLOG 128

bool dns_address_read(struct sockaddr_storage *ret_address, socklen_t *ret_len, const char *text)
{
	char host[64];
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
	memcpy(ret_address, found->ai_addr, found->ai_addrlen);
	*ret_len = found->ai_addrlen;
	freeaddrinfo(found);
	return true;
}

static bool is_wildcard(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *ipv4 = (const void *)address;
	const struct sockaddr_in6 *ipv6 = (const void *)address;
	return address->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr)
					      : ipv4->sin_addr.s_addr == INADDR_ANY;
}

/* With the wildcard address, a reply must come from the address that was asked. */
static void want_own_address(int fd, const struct sockaddr_storage *address)
{
	const int on = 1;
	if (!is_wildcard(address)) {
		return;
	}
	if (address->ss_family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
	} else {
		setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	}
}

void dns_socket_adopt(int fd, const char *address, bool tcp)
{
	struct sockaddr_storage storage;
	socklen_t len;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (!tcp && dns_address_read(&storage, &len, address)) {
		want_own_address(fd, &storage);
	}
}

int dns_socket_open(const char *address, bool tcp, struct err *err)
{
	struct sockaddr_storage storage;
	socklen_t len;
	const int on = 1;
	if (!dns_address_read(&storage, &len, address)) {
		return err_set(err, BERTH_FAILED,
			"%s: must be ADDRESS:PORT with a numeric address, IPv6 in brackets",
			address);
	}
	int fd = socket(storage.ss_family,
		(tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "socket");
	}
	if (storage.ss_family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	}
	if (tcp) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	} else {
		want_own_address(fd, &storage);
	}
	if (bind(fd, (const struct sockaddr *)&storage, len) < 0 ||
		(tcp && listen(fd, BACKLOG) < 0)) {
		int error = errno;
		close(fd);
		return err_set_errno(err, BERTH_FAILED, error, "cannot serve DNS on %s over %s",
			address, tcp ? "TCP" : "UDP");
	}
	return fd;
}
