/*
 * Service records: the JSON that a registry node holds (the YARN registry's ServiceRecord).
 *
 * A record is kept as the JSON object that was read, so that unknown attributes, and unknown fields
 * of endpoints, survive a round trip unchanged; the accessors below know the fields that Berth
 * uses. Reading is as lenient as Hadoop's own reader and brings every record to one spelling:
 *
 *   - numbers and booleans become strings where strings belong
 *   - null attributes, endpoints, addresses and address values are left out; null lists are empty
 *   - of two equal keys the last counts; a byte order mark, trailing blanks and NULs are skipped
 *   - protocol and protocolType: either or both may be missing
 *   - an address may be an array of its values in the order of the type's keys (Hadoop 2.6)
 *   - zktriple (Hadoop's code) is zookeeper, but stays in text that is to be written; host and
 *     hostname mean the same
 *
 * Writing is strict, enforces lib/base/limits.h, and never writes a null attribute, which Hadoop
 * cannot read.
 */
#ifndef LIB_RECORD_RECORD_H
#define LIB_RECORD_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/base/limits.h"

struct record; /* opaque; heap */

/* One endpoint of a record, all strings borrowed from the record until it is freed. */
struct record_endpoint {
	const char *scope; /* "external" | "internal" */
	const char *api;
	const char *protocol; /* "" when the record has none */
	/* uri, hostname, inetaddress, host/port, path, zookeeper (or zktriple), x-… */
	const char *address_type;
	const json_t *addresses; /* array of objects of strings */
};

/* The kind of a node's data, from its bytes alone: no JSON is parsed. */
enum record_kind {
	RECORD_KIND_EMPTY, /* no data: a directory, and free for a record */
	/* data without the marker: another program's, not to be touched unasked */
	RECORD_KIND_FOREIGN,
	RECORD_KIND_RECORD /* the marker is there: a record, though perhaps an invalid one */
};
enum record_kind record_kind(const char *data, size_t len);

struct record *record_create(void);
/* Accepts NULL. */
void record_free(struct record *record);

/*
 * Reads node data. BERTH_NO_RECORD when the marker string "JSONServiceRecord" is nowhere in the
 * bytes (decided before any JSON is parsed); BERTH_INVALID_RECORD when it is there but the JSON is
 * malformed, too deep, too large, holds invalid UTF-8 or a NUL byte, has a null attribute or
 * another "type", or its known fields have wrong shapes. A number that is too large is read as the
 * nearest double.
 */
int record_decode(struct record **ret_record, const char *data, size_t len, struct err *err)
	__attribute__((warn_unused_result));

/*
 * Makes the NUL-terminated data of a record what can be a part of another JSON document, in place:
 * without what follows its object, and with U+FFFD for escapes of NUL and of half a surrogate pair.
 * Other data stays as it is.
 */
void record_trim(char *data, size_t *len);

/* As record_decode(), from JSON that is parsed already. `json` is copied. */
int record_from_json(struct record **ret_record, const json_t *json, struct err *err)
	__attribute__((warn_unused_result));

/*
 * The same for text that is to be written: too large or too deep is BERTH_LIMIT_EXCEEDED; without
 * the marker, with a key that is there twice, or with a number that is too large, it is
 * BERTH_INVALID_RECORD.
 */
int record_decode_strictly(struct record **ret_record, const char *data, size_t len,
	struct err *err) __attribute__((warn_unused_result));

/*
 * Checks as strictly as a write needs (shapes, address keys, every limit by name): 0,
 * LIMIT_EXCEEDED or INVALID_RECORD.
 */
int record_check(const struct record *record, struct err *err) __attribute__((warn_unused_result));

/*
 * Checks, then writes the canonical form into a malloc'ed, NUL-terminated string: "type" first,
 * description, external, internal, yarn:id, yarn:persistence, then all other attributes in the
 * order they were read. Each endpoint carries its protocol twice, as `protocol` and `protocolType`.
 */
int record_encode(const struct record *record, char **ret_text, size_t *ret_len, struct err *err)
	__attribute__((warn_unused_result));

/* "" when absent. Borrowed. */
const char *record_description(const struct record *record);
const char *record_id(const struct record *record);          /* yarn:id */
const char *record_persistence(const struct record *record); /* yarn:persistence */
/* The value of any attribute, NULL when absent. Borrowed. */
const json_t *record_attribute(const struct record *record, const char *name);
/* An attribute from 0 to 65535, as a number or as text; false where there is no such number. */
bool record_small_number(unsigned *ret_number, const struct record *record, const char *name);
/* The whole record as JSON, in the one spelling above; borrowed, not to be changed. */
const json_t *record_json(const struct record *record);

/*
 * Setters copy. 0 or BERTH_FAILED (no memory, invalid UTF-8, a name of the record's own structure).
 * Limits are checked by record_check().
 */
int record_set_text(struct record *record, const char *name, const char *value)
	__attribute__((warn_unused_result));
/*
 * Takes the reference `value` also on failure; null removes the attribute. BERTH_FAILED for type,
 * external and internal, which are not attributes.
 */
int record_set_attribute_take(struct record *record, const char *name, json_t *value)
	__attribute__((warn_unused_result));

/*
 * Adds an endpoint to "external" or "internal"; takes the reference `addresses` (array of objects)
 * also on failure.
 */
int record_add_endpoint_take(struct record *record, const char *scope, const char *api,
	const char *protocol, const char *address_type, json_t *addresses)
	__attribute__((warn_unused_result));

/* Endpoints, external ones first. record_endpoint() is for index < record_endpoint_count(). */
size_t record_endpoint_count(const struct record *record);
struct record_endpoint record_endpoint(const struct record *record, size_t index);

/*
 * True when the endpoint matches a search: the same api, the same protocol in any letter case, the
 * same scope. NULL matches any.
 */
bool record_endpoint_matches(const struct record_endpoint *endpoint, const char *api,
	const char *protocol, const char *scope);

/*
 * One address as the object that a record of this type holds, from its one-line text: uri: the URI;
 * hostname: a host; inetaddress and host/port: host:port ([::1]:80 for IPv6); path: a path;
 * zookeeper and zktriple: host:port/zk/path; x-…: stored under the key "address". NULL with err
 * filled (the mistake, the allowed forms) otherwise. New reference.
 */
json_t *record_address_parse(const char *address_type, const char *text, struct err *err);

/*
 * The inverse, for lookups as plain text: host:port, URI, path … *ret_text is malloc'ed, or NULL
 * when a key is missing or empty. 0, or -1 without memory.
 */
int record_address_text(const char *address_type, const json_t *address, char **ret_text)
	__attribute__((warn_unused_result));

/* True for a value of yarn:persistence. */
bool record_persistence_valid(const char *persistence);

/* True when both hold the same JSON (key order and protocol spelling aside). */
bool record_equal(const struct record *a, const struct record *b);

#endif
