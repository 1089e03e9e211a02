/*
 * One question to one server, on libcurl: a connection of its own, which ends with the answer.
 *
 *   ASKING --answer, error, deadline--> ANSWERED --the server's end, 64 KiB, the deadline--> freed
 *
 * The rest of an answer, behind the part that the check looks at, is read and dropped: a server
 * would log that it was cut off.
 */
#ifndef PROBE_TRANSFER_H
#define PROBE_TRANSFER_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/looker/wire.h"
#include "lib/probe/protocol.h"

/* Before the cage, since libcurl opens files. 0, or -1. */
int transfer_init(struct wire *wire);
/* The handle that all run on. */
CURLM *transfer_multi(void);
/* The library, in words. */
const char *transfer_library(void);

/* Begins with a PROBE_ASK; its ANSWER follows on the wire. */
void transfer_start(struct wire_frame *frame);
/* Lets all go on that can, and answers. */
void transfer_go_on(void);

#endif
