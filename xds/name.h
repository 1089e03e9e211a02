/*
 * Names of resources, as questions for the agent's sets.
 *
 * A name is that of the DNS (lib/names/meaning.h), with or without the domain at its end. A port
 * behind it is skipped: gRPC has none where it asks for endpoints. With a slash in front it is a
 * path. Behind either, ?attribute.X=VALUE&… selects records.
 */
#ifndef XDS_NAME_H
#define XDS_NAME_H

#include <stdbool.h>

#include "lib/base/buffer.h"

/* Appends the target of the set, so far; false for a name that no record can have. */
bool name_target(struct buffer *out, const char *name, const char *domain);
/* Appends &NAME=VALUE. */
void name_add(struct buffer *out, const char *name, const char *value);

#endif
