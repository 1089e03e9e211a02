/*
 * An agent in a thread of this process that answers each connection with the same bytes and then
 * closes it, for readers of answers that block.
 */
#ifndef TESTS_SUPPORT_SCRIPTED_AGENT_H
#define TESTS_SUPPORT_SCRIPTED_AGENT_H

#include <stddef.h>
#include <stdint.h>

/* Sets the bytes that every connection gets from now on. Starts the thread. */
void scripted_agent_set(const uint8_t *answer, size_t len);

/* Likewise for the next two connections: one gets the first bytes, the other the second. */
void scripted_agent_set_two(
	const uint8_t *first, size_t first_len, const uint8_t *second, size_t second_len);

/* The path of its socket, which goes with the process. Static. */
const char *scripted_agent_path(void);

#endif
