/*
 * From a host and a port to socket addresses, without ever blocking the loop.
 *
 * Numeric addresses, the path of a Unix socket, and "localhost" (127.0.0.1, then ::1) are known at
 * once. Any other name is looked up by getaddrinfo() in a short-lived child: the C library's
 * resolver cannot be interrupted at a deadline.
 */
#ifndef AGENT_CHECK_RESOLVE_H
#define AGENT_CHECK_RESOLVE_H

#include <ev.h>
#include <stdbool.h>
#include <sys/socket.h>

#define CHECK_ADDRESSES_MAX 8

struct check_address {
	socklen_t len;
	struct sockaddr_storage address;
};

struct check_addresses {
	int count;
	struct check_address items[CHECK_ADDRESSES_MAX];
	char problem[128]; /* why there are none */
};

/* The lookup under way; to be initialised with check_resolve_init(). */
struct check_resolve {
	struct ev_loop *loop;
	ev_io readable;
	int child; /* process id */
	int pipe;  /* from the child; -1: there is none */
	void (*on_done)(void *context);
	void *context;
	struct check_addresses *addresses;
};

void check_resolve_init(struct check_resolve *resolve, struct ev_loop *loop);

/*
 * Fills `addresses`, at once or later, and then calls on_done: always from the loop, unless it
 * returns true: then they are there already and on_done does not come.
 */
bool check_resolve_start(struct check_resolve *resolve, const char *host, const char *port,
	struct check_addresses *addresses, void (*on_done)(void *context), void *context);

/* Gives up a lookup under way; on_done does not come any more. */
void check_resolve_stop(struct check_resolve *resolve);

#endif
