/*
 * A client of an agent's DNS server, over UDP or TCP on a loopback address that no other process
 * uses. The kernel may take real time to hand a packet over; virtual time stops meanwhile.
 */
#ifndef TESTS_SIM_QUESTION_H
#define TESTS_SIM_QUESTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/sim/process.h"

/* The address where the server of an agent of this process listens. */
struct sockaddr_in question_address(int agent);
enum { QUESTION_TEXT = 256 };

struct question_answer {
	int code;                 /* the rcode; -1: there is no answer yet */
	bool stale;               /* by the TTL of its addresses */
	char text[QUESTION_TEXT]; /* the addresses, with blanks */
};

/* Asks for the addresses of a name. With `wait` false it is content without an answer. */
struct question_answer question_ask(struct process *process, const char *name, bool tcp, bool wait);

#endif
