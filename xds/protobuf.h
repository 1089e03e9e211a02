/*
 * The wire format of protocol buffers: writing into a buffer, and reading from bytes of a stranger.
 * Neither knows a message; discovery.c and resource.c do.
 */
#ifndef XDS_PROTOBUF_H
#define XDS_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"

/* ---- writing ---- */

void protobuf_number(struct buffer *out, unsigned field, uint64_t value);
void protobuf_bytes(struct buffer *out, unsigned field, const void *data, size_t len);
void protobuf_text(struct buffer *out, unsigned field, const char *text);

/*
 * A message inside a message: what is written between begin and end, which gets what begin
 * returned.
 */
size_t protobuf_begin(struct buffer *out, unsigned field);
void protobuf_end(struct buffer *out, size_t begin);

/*
 * Fields by a pattern: the number of each, and what it holds: s a text; n an unsigned, which is
 * left out when it is 0; {…} a message of such fields. "1s 2{3n}" takes a text and a number.
 */
void protobuf_pack(struct buffer *out, const char *pattern, ...);

/* ---- reading ---- */

/* One field; `data` points into the message. */
struct protobuf_field {
	unsigned number;
	bool is_bytes; /* a text, a message, packed numbers: data and len; else value */
	uint64_t value;
	const char *data;
	size_t len;
};

struct protobuf_reader {
	const uint8_t *at;
	const uint8_t *end;
	bool bad; /* the bytes are not a message */
};

void protobuf_reader_init(struct protobuf_reader *reader, const void *data, size_t len);

/* The next field; false at the end, and when the bytes are not a message. */
bool protobuf_next(struct protobuf_reader *reader, struct protobuf_field *ret_field);

#endif
