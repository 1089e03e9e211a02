/* Inside the read halves of the dialects; no other file includes this. */
#ifndef LIB_DIALECT_READ_INTERNAL_H
#define LIB_DIALECT_READ_INTERNAL_H

#include <jansson.h>

#include "lib/dialect/read.h"

/* A record that is being made. The first mistake stays in `err`; the calls behind it do nothing. */
struct dialect_reading {
	const struct dialect_member *member;
	const json_t *json; /* the member's data: an object */
	struct record *record;
	struct err err;
};

typedef void dialect_reader(struct dialect_reading *reading);
dialect_reader dialect_read_registrar;
dialect_reader dialect_read_serverset;
dialect_reader dialect_read_curator;
dialect_reader dialect_read_nerve;
dialect_reader dialect_read_mesos;

/* Text as an object, a new reference; NULL for any other text. */
json_t *dialect_json(const char *data, size_t len, struct err *err);

/* The data do not follow the scheme; `what` names the mistake. */
void dialect_unreadable(struct dialect_reading *reading, const char *what);

/* A member of an object that is a string and not empty; else NULL. Borrowed. */
const char *dialect_text(const json_t *object, const char *key);

/*
 * A port of 1 to 65535, an integer or its text. 0: there is none or it is null; -1: it is something
 * else.
 */
int dialect_port(const json_t *value);

/*
 * Adds an external endpoint host/port, or hostname when `port` is 0. An invalid host, or a port of
 * -1, makes the member unreadable. `api` NULL or of a form that a record cannot hold: the service's
 * name.
 */
void dialect_add_endpoint(struct dialect_reading *reading, const char *api, const char *protocol,
	const char *host, int port);

/* Sets an attribute to a value, which is copied; without one (NULL or null) nothing is set. */
void dialect_set(struct dialect_reading *reading, const char *name, const json_t *value);
void dialect_set_text(struct dialect_reading *reading, const char *name, const char *value);
/* Sets "PREFIX.key" for every member of an object that is a string. */
void dialect_set_pairs(struct dialect_reading *reading, const char *prefix, const json_t *object);

#endif
