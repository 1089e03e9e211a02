/*
 * A backend of HAProxy kept equal to a set of servers over its runtime socket (HAProxy 2.6, or 2.4
 * with experimental mode), so that a change of membership needs no reload.
 *
 *             wanted, or 1 s passed          a change is due
 *   RESTING ------------------> COMPARING ------------------> CHANGING
 *      ^                         |     ^                         |
 *      +--equal, failed----------+     +-------------------------+
 *
 * The comparison comes with each change of the set and once a second, because a reload forgets the
 * servers that were added at run time. Another comparison follows the commands: HAProxy's servers
 * show whether they succeeded, not the words of its answers. A server that leaves takes no new
 * connection at once, and is deleted when its last connection has ended.
 */
#ifndef AGENT_OUTPUT_HAPROXY_H
#define AGENT_OUTPUT_HAPROXY_H

#include <ev.h>
#include <stddef.h>

#include "lib/render/render.h"

struct haproxy;

/*
 * on_done comes after each haproxy_want(), and when a later comparison fails, fails for another
 * reason, or succeeds again. err
 * is NULL when HAProxy has the wanted servers, after that number of changes. Strings are borrowed
 * for the object's life.
 */
struct haproxy *haproxy_create(struct ev_loop *loop, const char *socket_path, const char *backend,
	void (*on_done)(void *context, const struct err *err, size_t changes), void *context);
/* Accepts NULL. */
void haproxy_destroy(struct haproxy *haproxy);

/*
 * The servers that are wanted from now on. Before the first call HAProxy is left alone. The result
 * says which endpoints cannot be servers.
 */
void haproxy_want(struct haproxy *haproxy, const struct render_picture *picture,
	const struct render_filter *filter, struct render_result *ret_result);

/*
 * The name that 0.1.0 gave to a server in HAProxy which is at the same place as a server that Berth
 * added; NULL: there is none. Borrowed until the loop goes on.
 */
const char *haproxy_doubled(const struct haproxy *haproxy);

#endif
