/*
 * Which TCP ports of this network namespace are in use, as the kernel lists them in
 * /proc/self/net/tcp and tcp6.
 */
#ifndef AGENT_BASE_TCP_PORTS_H
#define AGENT_BASE_TCP_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum { TCP_PORTS_BYTES = 65536 / 8 };

/* One bit for each local port. */
struct tcp_ports {
	uint8_t listening[TCP_PORTS_BYTES];
	uint8_t connected[TCP_PORTS_BYTES]; /* a peer can still send or receive */
};

static inline bool tcp_ports_has(const uint8_t *set, uint16_t port)
{
	return set[port / 8] >> (port % 8) & 1;
}

/* Adds the ports of the kernel's text; `text` holds whole lines. */
void tcp_ports_add_text(struct tcp_ports *ports, const char *text);

/*
 * Reads tcp and tcp6 of `directory`, usually /proc/self/net; a kernel without IPv6 has no tcp6. 0,
 * or BERTH_LIMIT_EXCEEDED for more sockets than are read in a moment (4 MiB of text), or
 * BERTH_FAILED.
 */
int tcp_ports_read(struct tcp_ports *ret, const char *directory, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

#endif
