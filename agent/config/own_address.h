/*
 * ${berth.ip}, ${berth.ip6} and ${berth.ip.IFACE}: the addresses of this machine in a
 * configuration. They change while the agent runs (follow.c), and there may be none at first.
 */
#ifndef AGENT_CONFIG_OWN_ADDRESS_H
#define AGENT_CONFIG_OWN_ADDRESS_H

#include <stdbool.h>

#include "agent/config/found.h"

/* All addresses in one text, lines of "IFACE ADDRESS", for the variables of shells. */
#define CONFIG_EVERY_ADDRESS "berth.ip.*"

/* Whether the name is one of the three, or of all addresses. */
bool config_is_address_name(const char *name);
config_finder config_find_address;

/*
 * The registry's servers, whose route decides between several addresses: those of a URL that are
 * numeric, else the one that the agent is connected to ("192.0.2.1:2181").
 */
void config_address_set_url(const char *url);
void config_address_set_server(const char *server);

/*
 * The placeholder of an address that the machine does not have yet; no machine ever has it (RFC
 * 7600, RFC 9780). A value with it waits: it is neither served nor announced.
 */
const char *config_address_placeholder(const char *name);
/* Whether it is the host of host:port. */
bool config_address_is_placeholder(const char *host_port);

#endif
