/*
 * The part of a record that a set needs, read once for as long as the record stays as it is:
 * whether it serves, and whether a name means it. Its members are written out when a form wants
 * them; others decode the record again from the cache's own value. Counted by reference: a set that
 * holds it outlives its changes.
 */
#ifndef AGENT_SET_RECORD_H
#define AGENT_SET_RECORD_H

#include "lib/names/meaning.h"
#include "lib/registry/value.h"
#include "lib/render/render.h"

/* A member: one address of one endpoint. */
struct set_item {
	const char *host; /* "": the address names none that can be used */
	uint16_t port;    /* 0: none */
	const char *json; /* an object without the brace that ends it */
	size_t json_len;
};

struct set_record {
	size_t references;
	size_t bytes;
	char *path;
	const struct registry_value *value; /* of the record as stored */
	uint64_t hash;                      /* of all that */
	char *zone;
	unsigned weight;
	bool is[NAMES_TRAITS];
	size_t count;           /* members */
	struct set_item *items; /* NULL until set_record_items() */
	char *text;             /* of the items */
};

/* Which members count, and for which name. Borrowed. */
struct set_reader {
	const struct render_filter *filter; /* NULL: no member counts */
	const struct names_name *name;      /* NULL: none */
};

/* With one reference; NULL for other data than a record's, and when the filter leaves it out. */
struct set_record *set_record_read(
	const struct set_reader *reader, const char *path, const struct registry_value *value);
/* The members, written out once; `reader` is the one that it was read for. */
const struct set_item *set_record_items(struct set_record *record, const struct set_reader *reader);
/* Decoded anew: record_free(). */
struct record *set_record_decode(const struct set_record *record);
struct set_record *set_record_hold(struct set_record *record);
/* Accepts NULL. */
void set_record_release(struct set_record *record);

#endif
