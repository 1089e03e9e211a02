/*
 * The answers to subscribers of a name as JSON, for people: berth-xds --dump.
 */
#ifndef XDS_DUMP_H
#define XDS_DUMP_H

#include "xds/follow.h"

/*
 * Follows the name until all that it needs is confirmed, `timeout_ms` at most, and prints its
 * cluster and its endpoints if they are known. The exit status of the program.
 */
int dump_name(struct source *source, struct world *world, const char *name, int timeout_ms);

#endif
