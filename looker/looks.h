/*
 * The looks at a host's containers: the directory of all, and for each container its subdirectory
 * and the registry in it. Their content may be another one at any moment, and hold up this
 * process for ever: then the agent gives it up.
 *
 * A look has a bound on entries, records, bytes and time; what does not fit is reported as such.
 * Nothing of a container is kept between looks but its watches: the agent says what it knows.
 */
#ifndef LOOKER_LOOKS_H
#define LOOKER_LOOKS_H

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/looker/wire.h"

struct looks;

/* Opens the directory at the path, and makes it if there is none. NULL on error. */
struct looks *looks_open(struct wire *wire, const char *path, struct err *err);
/* Accepts NULL. */
void looks_close(struct looks *looks);
/* Of the directory, for the cage. */
int looks_directory(const struct looks *looks);

/* Answers the frame; false: it cannot be answered. */
bool looks_answer(struct looks *looks, struct wire_frame *frame);

/* -1 while there is no inotify: then looks_on_time() once a second. */
int looks_events_fd(const struct looks *looks);
/* Reports events that are there. */
void looks_on_events(struct looks *looks);
void looks_on_time(struct looks *looks);

#endif
