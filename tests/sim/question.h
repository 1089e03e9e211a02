/*
 * A client of an agent's DNS server, over UDP or TCP on a loopback address that no other process
 * uses. The kernel may take real time to hand a packet over; virtual time stands still meanwhile.
 */
#ifndef TESTS_SIM_QUESTION_H
#define TESTS_SIM_QUESTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/sim/process.h"

/* The address where the server of an agent of this process listens. */
struct sockaddr_in question_address(int agent);
/*
 * Asks for the addresses of a name: they are in `out`, with blanks. The rcode; -1 without an
 * answer.
 */
int question_ask(struct process *process, const char *name, bool tcp, char *out, size_t size);

#endif
