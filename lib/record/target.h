/*
 * The host and the port of an endpoint's address of any type, for DNS, proxies and monitoring.
 * Pure.
 */
#ifndef LIB_RECORD_TARGET_H
#define LIB_RECORD_TARGET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define RECORD_TARGET_HOST_BYTES                                                                   \
	254 /* a host name of 253 bytes, or an IPv6 address with its zone */

struct record_target {
	char host[RECORD_TARGET_HOST_BYTES]; /* a name or an address, without brackets */
	uint16_t port;                       /* 0: the address names none */
};

/*
 * Reads `address`, an object of strings as a record of `address_type` holds it. A uri names the
 * host and port of its authority (http and ws mean port 80, https and wss 443); hostname,
 * inetaddress, host/port and zookeeper have keys for them. False when the address names no host: a
 * path, a free type, a urn:, or text that is not a host name.
 */
bool record_target_read(
	struct record_target *ret_target, const char *address_type, const json_t *address);

/* The same for the text of a URI. */
bool record_target_read_uri(struct record_target *ret_target, const char *uri);

#endif
