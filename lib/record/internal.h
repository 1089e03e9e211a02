/*
 * Inside the record module: only its files include this header.
 *
 *   record.c   the object: accessors, setters
 *   write.c    its text: canonical
 *   read.c     node data in: lenient, brings what it reads to one spelling
 *   check.c    the rules for writing: strict, every limit by name
 *   address.c  the address types: their keys, their one-line text
 */
#ifndef LIB_RECORD_INTERNAL_H
#define LIB_RECORD_INTERNAL_H

#include "lib/record/record.h"

/*
 * One spelling in memory: `external` and `internal` are always there and are arrays of objects; an
 * endpoint that has a protocol has it under both names; addresses are objects; null fields are
 * gone.
 */
struct record {
	json_t *json;
};

/* The form of a written record: compact; a reader gets back the same reals. */
#define RECORD_DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(17))

/* The two lists of endpoints, in the order in which they are counted; NULL behind the last. */
extern const char *const record_scopes[];

/* The place of a value, for messages: "external endpoint 2", "address 3 of external endpoint 2". */
struct record_place {
	char text[64];
};
struct record_place record_endpoint_place(const char *scope, size_t index);
struct record_place record_address_place(const char *scope, size_t endpoint, size_t address);

/* "a string", "an array" … */
const char *record_json_type(const json_t *value);

/* Sets "no memory" and returns its code. */
int record_no_memory(struct err *err);

/*
 * Checks that `owner`, which messages call `place`, has a string `name` of at most `limit` bytes:
 * 0, BERTH_INVALID_RECORD or BERTH_LIMIT_EXCEEDED.
 */
int record_check_text(const json_t *owner, const char *name, size_t limit, const char *place,
	struct err *err) __attribute__((warn_unused_result));

/* The type of ZooKeeper's addresses in Hadoop's documents, and in its code. */
#define RECORD_ZOOKEEPER "zookeeper"
#define RECORD_ZKTRIPLE "zktriple"

/* True for the address types of RECORD_ADDRESS_TYPES and for x-…. */
bool record_address_type_valid(const char *address_type);

/* The types that record_address_type_valid() accepts, for messages. */
#define RECORD_ADDRESS_TYPES                                                                       \
	"uri, hostname, inetaddress, host/port, path, zookeeper, zktriple and types beginning "    \
	"with x-"

/* True for text that is allowed where a record has a URI. */
bool record_uri_valid(const char *text);

/* The rule of record_uri_valid(), for messages. */
#define RECORD_URI "a URI without spaces"

/*
 * The keys of a type's addresses in the order of their text, NULL behind the last; "uri" alone for
 * unknown types.
 */
const char *const *record_address_keys(const char *address_type);

/* Checks one address of a valid type: exactly its keys, good values, the limit. */
int record_address_check(const char *address_type, const json_t *address, const char *place,
	struct err *err) __attribute__((warn_unused_result));

#endif
