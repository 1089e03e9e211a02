/*
 * Numeric addresses of sockets.
 */
#ifndef AGENT_BASE_SOCKET_ADDRESS_H
#define AGENT_BASE_SOCKET_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Reads host:port or [host]:port with a numeric host. */
bool socket_address_read(
	struct sockaddr_storage *ret_address, socklen_t *ret_len, const char *text);

bool socket_address_is_wildcard(const struct sockaddr_storage *address);

/*
 * The address of ours from which the kernel would send to `to`, by its routes; nothing is sent.
 * False when no route leads there.
 */
bool socket_address_source(struct sockaddr_storage *ret_source, const struct sockaddr_storage *to);

#endif
