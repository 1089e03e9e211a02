/*
 * Makes, probes and adopts the listening sockets of http.h, and asks the kernel about a peer.
 */
#ifndef AGENT_HTTP_SOCKET_H
#define AGENT_HTTP_SOCKET_H

#include "agent/http/http.h"

/*
 * A listening Unix socket at `path`, with mode and group set before anybody can connect. The
 * descriptor, or BERTH_FAILED.
 */
int http_socket_unix(const char *path, unsigned mode, unsigned group_id, struct err *err)
	ERR_REQUIRED(4);
/* The file at `path`; inode 0 when there is none. */
struct http_place http_socket_find(const char *path);
/* Whether the file at `path` is that one. */
bool http_socket_stands(const char *path, const struct http_place *place);
/* Removes the file at `path` if it is that one. */
void http_socket_unlink(const char *path, const struct http_place *place);
/*
 * A listening TCP socket for host:port ([v6]:port, :port for every address). The descriptor, or
 * BERTH_FAILED.
 */
int http_socket_tcp(const char *address, struct err *err) ERR_REQUIRED(2);
/* Makes an inherited descriptor fit for the loop; fails unless it is a listening stream socket. */
int http_socket_adopt(int fd, struct err *err) ERR_REQUIRED(2);
void http_socket_peer(int fd, struct http_peer *peer);

#endif
