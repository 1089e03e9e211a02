/*
 * ${berth.…}: values that Berth finds out by itself.
 *
 *   berth.hostname      the host name, as gethostname(2) gives it
 *   berth.fqdn          the host name with its domain; asks the resolver, once for a process
 *   berth.ip            the IPv4 address for others, see agent/base/own_addresses.h
 *   berth.ip6           likewise IPv6
 *   berth.ip.IFACE      the IPv4 address of this interface
 *   berth.container_id  $CONTAINER_ID (YARN sets it), else the id from Docker, Podman or Kubernetes
 */
#ifndef AGENT_CONFIG_BUILTIN_H
#define AGENT_CONFIG_BUILTIN_H

#include <stdbool.h>

#include "lib/base/err.h"

/*
 * `name` with its "berth.". A malloc'ed value, or BERTH_FAILED: the name is unknown, or this
 * machine has no value for it.
 */
int config_builtin(const char *name, char **ret_value, struct err *err) ERR_REQUIRED(3);

/*
 * Calls `take` for each value that is known here with the environment variable that a shell finds
 * it as: BERTH_HOSTNAME for berth.hostname, BERTH_IP_eth0 for berth.ip.eth0. BERTH_FQDN, which may
 * ask the resolver, only when `text` names it.
 */
void config_builtin_each(const char *text,
	void (*take)(void *context, const char *variable, const char *value), void *context);

/* True for a name that is there on some machine, if not on this. */
bool config_builtin_known(const char *name);

/* The host name up to its first dot, lower-cased; malloc'ed. */
char *config_short_host_name(void);

#endif
