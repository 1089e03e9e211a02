/*
 * The answer for a name, as JSON and as lines of text: GET /v1/names, `berth host`, the NSS module.
 */
#ifndef AGENT_NAMES_WRITE_H
#define AGENT_NAMES_WRITE_H

#include <jansson.h>

#include "agent/names/lookup.h"
#include "lib/base/buffer.h"

/* Which parts; a set of these. */
enum names_part {
	NAMES_PART_A = 1,
	NAMES_PART_AAAA = 2,
	NAMES_PART_SRV = 4,
	NAMES_PART_TXT = 8,
	NAMES_PART_PTR = 16,
	NAMES_PART_ALL = NAMES_PART_A | NAMES_PART_AAAA | NAMES_PART_SRV | NAMES_PART_TXT |
		NAMES_PART_PTR
};

/* The part that a record type's name means, in any letter case; 0 for another word. */
unsigned names_part(const char *type);

/*
 * {"name", "ttl", "age", "stale", "paths": [path], "addresses": [text], "alias": name, "targets":
 * [{"priority", "weight", "port", "target", "address"}], "texts": [text], "names": [name]}; empty
 * members are left out, except name, ttl, age, stale and paths. With `near`, a zone, addresses and
 * targets are in the order of nearness, "tiers" has the tier of each address, and each target has
 * its "tier". A new reference.
 */
json_t *names_json(const struct names_view *view, const char *name, unsigned parts, uint32_t ttl_s,
	const char *near);

/* Lines of a record type, a blank and its data: "A 10.0.0.1", "CNAME web.example.org". */
void names_write_lines(
	const struct names_view *view, unsigned parts, const char *near, struct buffer *out);

#endif
