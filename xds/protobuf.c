#include "xds/protobuf.h"

#include <stdarg.h>
#include <string.h>

enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5, VARINT_BYTES = 10, DEPTH_MAX = 16 };

#define FIELD_MAX UINT64_C(0x1fffffff)

/* ---- writing ---- */

static size_t encode(uint8_t out[VARINT_BYTES], uint64_t value)
{
	size_t len = 0;
	while (value > 0x7f) {
		out[len++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	out[len++] = (uint8_t)value;
	return len;
}

static void varint(struct buffer *out, uint64_t value)
{
	uint8_t bytes[VARINT_BYTES];
	buffer_append(out, bytes, encode(bytes, value));
}

static void key(struct buffer *out, unsigned field, unsigned type)
{
	varint(out, (uint64_t)field << 3 | type);
}

void protobuf_number(struct buffer *out, unsigned field, uint64_t value)
{
	key(out, field, VARINT);
	varint(out, value);
}

void protobuf_bytes(struct buffer *out, unsigned field, const void *data, size_t len)
{
	key(out, field, BYTES);
	varint(out, len);
	buffer_append(out, data, len);
}

void protobuf_text(struct buffer *out, unsigned field, const char *text)
{
	protobuf_bytes(out, field, text, strlen(text));
}

size_t protobuf_begin(struct buffer *out, unsigned field)
{
	key(out, field, BYTES);
	return out->len;
}

void protobuf_end(struct buffer *out, size_t begin)
{
	uint8_t bytes[VARINT_BYTES];
	size_t len = out->len - begin;
	size_t head = encode(bytes, len);
	/* The length goes in front of what it counts. */
	if (buffer_append(out, bytes, head) == 0) {
		memmove(out->data + begin + head, out->data + begin, len);
		memcpy(out->data + begin, bytes, head);
	}
}

static void pack(struct buffer *out, const char *pattern, va_list values)
{
	size_t begins[DEPTH_MAX] = { 0 };
	size_t depth = 0;
	unsigned field = 0;
	unsigned number;
	for (const char *at = pattern; *at; at++) {
		if (*at >= '0' && *at <= '9') {
			field = 10 * field + (unsigned)(*at - '0');
			continue;
		}
		if (*at == '{') {
			begins[depth++] = protobuf_begin(out, field);
		} else if (*at == '}') {
			protobuf_end(out, begins[--depth]);
		} else if (*at == 's') {
			protobuf_text(out, field, va_arg(values, const char *));
		} else if (*at == 'n' && (number = va_arg(values, unsigned)) > 0) {
			protobuf_number(out, field, number);
		}
		field = 0;
	}
}

void protobuf_pack(struct buffer *out, const char *pattern, ...)
{
	va_list values;
	va_start(values, pattern);
	pack(out, pattern, values);
	va_end(values);
}

/* ---- reading ---- */

void protobuf_reader_init(struct protobuf_reader *reader, const void *data, size_t len)
{
	*reader = (struct protobuf_reader){ .at = data, .end = (const uint8_t *)data + len };
}

static uint64_t read_varint(struct protobuf_reader *reader)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < VARINT_BYTES && reader->at < reader->end; i++) {
		uint8_t byte = *reader->at++;
		value |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (!(byte & 0x80)) {
			return value;
		}
	}
	reader->bad = true;
	return 0;
}

static void skip(struct protobuf_reader *reader, uint64_t len)
{
	if (len > (uint64_t)(reader->end - reader->at)) {
		reader->bad = true;
	} else {
		reader->at += len;
	}
}

bool protobuf_next(struct protobuf_reader *reader, struct protobuf_field *ret_field)
{
	if (reader->bad || reader->at == reader->end) {
		return false;
	}
	struct protobuf_field field = { .number = 0 };
	uint64_t word = read_varint(reader);
	uint64_t number = word >> 3;
	unsigned type = (unsigned)(word & 7);
	if (number == 0 || number > FIELD_MAX) {
		reader->bad = true;
	} else if (type == VARINT) {
		field.value = read_varint(reader);
	} else if (type == BYTES) {
		uint64_t len = read_varint(reader);
		field.is_bytes = true;
		field.data = (const char *)reader->at;
		field.len = (size_t)len;
		skip(reader, len);
	} else if (type == FIXED_64 || type == FIXED_32) {
		skip(reader, type == FIXED_64 ? sizeof(uint64_t) : sizeof(uint32_t));
	} else {
		reader->bad = true; /* groups, which no message of ours has */
	}
	field.number = (unsigned)number;
	if (!reader->bad) {
		*ret_field = field;
	}
	return !reader->bad;
}
