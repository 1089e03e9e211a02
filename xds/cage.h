/*
 * The program's cage (lib/sandbox/sandbox.h): its parsers read bytes of any client, so before the
 * first of them the process keeps no more than its descriptors, the sockets that listen among them,
 * memory, and new connections to the agent's socket.
 */
#ifndef XDS_CAGE_H
#define XDS_CAGE_H

#include "lib/sandbox/sandbox.h"

/* As sandbox_enter(). When all sockets listen, and the loop is there. */
void cage_enter(char out[SANDBOX_WORDS_BYTES]);

#endif
