/*
 * The meaning of one node of Registrar's for Binder; docs/DIALECTS.md has the format. Pure.
 *
 * Binder dies of odd values. Here a value outside the format counts as not written: an address that
 * IPv4 does not know, a port outside 1 to 65535, a negative time to live.
 */
#ifndef AGENT_ZONE_FACTS_H
#define AGENT_ZONE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_TTL_S 30       /* where nothing says another one */
#define ZONE_MAX_PORTS 64   /* of a host; more are passed over */
#define ZONE_LABEL_BYTES 64 /* of a service's name or protocol, with its NUL */

enum zone_kind {
	ZONE_NOTHING,  /* no data, or none of Registrar's: it cannot be answered */
	ZONE_HOST,     /* answers for itself */
	ZONE_INSTANCE, /* a host that also answers for the service above it */
	ZONE_DATABASE, /* answers for itself; its address does not lead back to it */
	ZONE_SERVICE,  /* answers with its instances */
	ZONE_OTHER     /* a type that Binder does not know */
};

struct zone_facts {
	enum zone_kind kind;
	bool has_address;
	uint8_t address[4]; /* of all but a service */
	int32_t ttl_s;      /* -1: not written */
	uint16_t *ports;    /* of a host; owned */
	size_t port_count;  /* 0: the service's port */
	/* of a service: "_http" and "_tcp"; "" when it does not say */
	char name[ZONE_LABEL_BYTES];
	char protocol[ZONE_LABEL_BYTES];
	uint16_t port; /* 0: none */
};

/* Reads a node's data, any bytes. Finish the facts. */
void zone_facts_read(struct zone_facts *ret_facts, const char *data, size_t len);
void zone_facts_finish(struct zone_facts *facts);

#endif
