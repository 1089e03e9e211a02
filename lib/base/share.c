#include "lib/base/share.h"

#include <netinet/in.h>
#include <string.h>

struct share_client share_client_of(int fd)
{
	struct share_client client = { .family = AF_UNSPEC };
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
	struct ucred peer;
	socklen_t len = sizeof(address);
	socklen_t peer_len = sizeof(peer);
	if (getpeername(fd, (struct sockaddr *)&address, &len) < 0) {
		return client;
	}
	client.family = address.ss_family;
	if (address.ss_family == AF_INET) {
		memcpy(client.bytes, &v4->sin_addr, sizeof(v4->sin_addr));
	} else if (address.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		client.family = AF_INET;
		memcpy(client.bytes, v6->sin6_addr.s6_addr + 12, sizeof(v4->sin_addr));
	} else if (address.ss_family == AF_INET6) {
		memcpy(client.bytes, v6->sin6_addr.s6_addr, sizeof(client.bytes));
	} else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0) {
		memcpy(client.bytes, &peer.uid, sizeof(peer.uid));
	} else {
		client.family = AF_UNSPEC;
	}
	return client;
}

bool share_client_same(const struct share_client *a, const struct share_client *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}
