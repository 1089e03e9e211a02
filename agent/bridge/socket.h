/*
 * The socket of one container, berth.sock in its subdirectory. The looker makes it, and makes it
 * again when its file was removed or replaced; the agent accepts.
 */
#ifndef AGENT_BRIDGE_SOCKET_H
#define AGENT_BRIDGE_SOCKET_H

#include "agent/http/http.h"

/* A listening socket on its way to a successor. */
struct bridge_socket {
	char container[HTTP_CONTAINER_BYTES];
	int fd; /* -1: somebody has taken it */
	struct http_place place;
};

struct bridge_listener {
	struct http_container *http; /* NULL: there is none */
	struct http_place place;     /* of its file */
};

/* A predecessor's socket, if it is among these `count` ones; else there is none yet. */
void bridge_listener_inherit(struct bridge_listener *listener, struct http *http, const char *name,
	struct bridge_socket *inherited, size_t count);
/* Takes a descriptor that listens in the place of the one that there is. */
void bridge_listener_take(struct bridge_listener *listener, struct http *http, const char *name,
	int fd_take, const struct http_place *place);
void bridge_listener_finish(struct bridge_listener *listener);
/* A copy of the descriptor for a successor; false: there is no socket. */
bool bridge_listener_pass(
	const struct bridge_listener *listener, const char *name, struct bridge_socket *ret_socket);

#endif
