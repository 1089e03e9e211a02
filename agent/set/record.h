/*
 * The part of a record that a set needs, read once for as long as the record stays as it is: its
 * members, and whether a name means it. Counted by reference: a set that holds it outlives its
 * changes.
 */
#ifndef AGENT_SET_RECORD_H
#define AGENT_SET_RECORD_H

#include "lib/names/meaning.h"
#include "lib/render/locality.h"
#include "lib/render/render.h"

/* One address of one endpoint. */
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
	char *zone;
	unsigned weight;
	enum render_health health;
	bool is[NAMES_TRAITS];
	char *text; /* of the items */
	size_t count;
	struct set_item items[];
};

/* Which members count, and for which name. Borrowed. */
struct set_reader {
	const struct render_filter *filter; /* NULL: no member counts */
	const struct names_name *name;      /* NULL: none */
};

/* With one reference; NULL for other data than a record's, and when the filter leaves it out. */
struct set_record *set_record_read(
	const struct set_reader *reader, const char *path, const char *data, size_t len);
struct set_record *set_record_hold(struct set_record *record);
/* Accepts NULL. */
void set_record_release(struct set_record *record);

#endif
