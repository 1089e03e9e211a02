/*
 * Listening sockets, for a program that is run by hand; the agent hands over its own.
 */
#ifndef XDS_LISTEN_H
#define XDS_LISTEN_H

#include "lib/base/err.h"

/*
 * `where`: the path of a Unix socket, which replaces one that nobody listens on; or host:port with
 * a numeric host, [::1]:18000 for IPv6. The descriptor, or BERTH_FAILED.
 */
int listen_open(const char *where, struct err *err) ERR_REQUIRED(2);

#endif
