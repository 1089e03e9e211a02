/*
 * Finds the commands that make a backend of HAProxy equal to a set of servers. Pure.
 *
 * HAProxy's answer to `show servers state BACKEND` is compared with the servers that are wanted.
 * Berth's servers are those whose names begin with RENDER_SERVER_PREFIX; all others are left alone.
 * A server of Berth's that an operator drains stays drained; one in maintenance is set ready when
 * it is wanted.
 *
 * HAProxy cannot make a backup of a running server, or the reverse. So the name of a backup says
 * that it is one: the server comes under the other name, and the old one goes when its connections
 * have ended.
 */
#ifndef AGENT_OUTPUT_HAPROXY_PLAN_H
#define AGENT_OUTPUT_HAPROXY_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/render/render.h"

#define HAPROXY_HOST_BYTES 64

struct haproxy_server {
	char *name;
	char host[HAPROXY_HOST_BYTES]; /* an address in canonical form, without brackets */
	unsigned port;
	unsigned weight;
	unsigned tier;
	bool backup; /* farther than the nearest of all */
};

struct haproxy_servers {
	struct haproxy_server *items; /* sorted by name */
	size_t count;
};

/*
 * The servers of a picture: those endpoints that have a literal address and a port. The result
 * counts the others, and names the first ones.
 */
void haproxy_servers_read(struct haproxy_servers *ret_servers, const struct render_picture *picture,
	const struct render_filter *filter, struct render_result *ret_result);
void haproxy_servers_finish(struct haproxy_servers *servers);

/*
 * Lines for the socket, of complete commands. New servers come first, so that the backend is never
 * without any in between; deletions come last, and one may be refused while connections last.
 */
struct haproxy_plan {
	char **commands;
	size_t count;
	size_t change_count; /* of those that are not deletions */
	/*
	 * A server that Berth 0.1.0 may have added: its name is that of a wanted one without the
	 * prefix, its address is the same. malloc'ed; NULL: there is none.
	 */
	char *doubled;
};

/*
 * `state` is HAProxy's answer, whose text is changed. 0, or BERTH_FAILED with its words when it is
 * no list of servers.
 */
int haproxy_plan_make(struct haproxy_plan *ret_plan, const char *backend,
	const struct haproxy_servers *wanted, char *state, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);
void haproxy_plan_finish(struct haproxy_plan *plan);

#endif
