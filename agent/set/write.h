/* The forms of a set that come from the set alone. */
#ifndef AGENT_SET_WRITE_H
#define AGENT_SET_WRITE_H

#include "agent/set/set.h"

/*
 * Fills json and version: {"kind", "name" or "path", "filter": {}, "exists", "paths": [of the
 * records], "members": [{"path", "scope", "api", "protocol", "addressType", "address", "host",
 * "port", "weight", "health", "zone", "attributes": {}, "tier"}]}. Of SET_NAMES: {"kind", "path",
 * "exists", "names": []}.
 */
void set_write_json(struct set *set, const struct set_key *key);

#endif
