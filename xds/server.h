/*
 * The server: listening sockets, clients' connections, and the world that follows the agent, on one
 * loop.
 */
#ifndef XDS_SERVER_H
#define XDS_SERVER_H

#include <ev.h>

#include "xds/follow.h"
#include "xds/share.h"

struct server;

struct server_options {
	struct ev_loop *loop;
	struct source *source; /* driven by the server; borrowed */
	struct world *world;   /* borrowed */
	struct shares *shares; /* for server_connections_max(); borrowed */
	int status_fd; /* gets a line of JSON whenever the figures change; -1: nobody does */
};

/* How many connections there can be at a time. Raises the limit of open files. */
size_t server_connections_max(void);

struct server *server_create(const struct server_options *options);
/* Takes the descriptor of a listening socket. */
void server_listen_take(struct server *server, int fd);
/*
 * Takes no further client, tells those it has, and breaks the loop once they have gone, a second
 * later at the latest.
 */
void server_leave(struct server *server);
/* Closes all connections. */
void server_destroy(struct server *server);

#endif
