/*
 * Doubts about the addresses of an endpoint, in the manner of doubt.h: 0, or BERTH_FAILED with an
 * error that explains the doubt.
 */
#ifndef AGENT_CONFIG_DOUBT_ADDRESS_H
#define AGENT_CONFIG_DOUBT_ADDRESS_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"

/*
 * For the text of an address, as written: a variable whose dollar is doubled.
 */
int config_doubt_address_text(const char *raw, struct err *err) ERR_REQUIRED(2);

/*
 * For an address in its parsed form: a host that no client can connect to, and a port of a URI that
 * is not a number from 1 to 65535. `others_read`: clients on other machines read the registry, and
 * an address of the loopback interface leads each of them to itself.
 */
int config_doubt_address(const json_t *address, bool others_read, struct err *err) ERR_REQUIRED(3);

#endif
