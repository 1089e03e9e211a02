/*
 * The host by which a client came. A browser that was led to the TCP listener by a foreign name,
 * which its owner lets point here (DNS rebinding), must not give the answers to the foreign page:
 * such a page cannot use an address, or a name that is this machine's. Pure.
 */
#ifndef AGENT_HTTP_HOST_H
#define AGENT_HTTP_HOST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * True when `host` (a name or an address, and a port if need be) is empty, a literal address, or
 * one of `names` in any letter case and with or without a dot behind it. "*" is every name.
 */
bool http_host_is_own(const char *host, size_t len, char *const *names, size_t count);

#endif
