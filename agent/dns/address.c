/* Sockets for the addresses that we serve. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include "agent/base/socket_address.h"
#include "agent/dns/internal.h"

#define BACKLOG 128

/* With the wildcard address, a reply must come from the address that was asked. */
static void want_own_address(int fd, const struct sockaddr_storage *address)
{
	const int on = 1;
	if (!socket_address_is_wildcard(address)) {
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
	if (!tcp && socket_address_read(&storage, &len, address)) {
		want_own_address(fd, &storage);
	}
}

int dns_socket_open(const char *address, bool tcp, struct err *err)
{
	struct sockaddr_storage storage;
	socklen_t len;
	const int on = 1;
	if (!socket_address_read(&storage, &len, address)) {
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
