/*
 * The socket of one container, berth.sock in its subdirectory. It is made through the descriptor of
 * the subdirectory, and made again when its file was removed or replaced.
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

/*
 * Makes the socket unless it is there. `inherited`: a predecessor's sockets, `count` of them; the
 * container's own is taken if its file is still in the subdirectory. BERTH_FAILED.
 */
int bridge_listener_renew(struct bridge_listener *listener, struct http *http, const char *name,
	int directory, struct bridge_socket *inherited, size_t count, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(7);
void bridge_listener_finish(struct bridge_listener *listener);
/* A copy of the descriptor for a successor; false: there is no socket. */
bool bridge_listener_pass(
	const struct bridge_listener *listener, const char *name, struct bridge_socket *ret_socket);

#endif
