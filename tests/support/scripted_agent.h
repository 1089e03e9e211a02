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

/* The path of its socket, which goes with the process. Static. */
const char *scripted_agent_path(void);

#endif
