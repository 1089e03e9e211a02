/*
 * The members of a set of the agent (docs/PROTOCOL.md, "Sets") as a set of endpoints that can be
 * sent. Pure.
 *
 * Only numeric addresses can be sent: gRPC and Envoy refuse a whole set for one host name. So a
 * member whose address names a host has the record's yarn:ip instead, and is left out without.
 */
#ifndef XDS_MEMBERS_H
#define XDS_MEMBERS_H

#include <jansson.h>

#include "lib/render/assignment.h"

/* Reads them into an empty set. */
void members_read(struct assignment *assignment, const json_t *members);

#endif
