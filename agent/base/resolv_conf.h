/*
 * The name servers of this machine, as resolv.conf(5) has them.
 */
#ifndef AGENT_BASE_RESOLV_CONF_H
#define AGENT_BASE_RESOLV_CONF_H

#include <stddef.h>

#define RESOLV_CONF "/etc/resolv.conf"

enum { RESOLV_CONF_SERVERS = 8, RESOLV_CONF_SERVER_BYTES = 80 };

/*
 * Reads them as ADDRESS:53, IPv6 in brackets. Returns how many there are: 0 without the file.
 */
size_t resolv_conf_read(char ret_servers[RESOLV_CONF_SERVERS][RESOLV_CONF_SERVER_BYTES]);

#endif
