#include "xds/discovery.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/utf8.h"
#include "lib/program/memory.h"
#include "xds/protobuf.h"

/* A field of a request that counts. */
struct row {
	unsigned number;       /* in a DiscoveryRequest; 0: it has none such */
	unsigned delta_number; /* in a DeltaDiscoveryRequest */
	enum { TEXT, INNER, NAMES, HELD } kind;
	unsigned inner; /* INNER: the number of the text in the field's message */
	size_t place;
};

#define PLACE(member) offsetof(struct discovery_request, member)

static const struct row rows[] = {
	{ 1, 0, TEXT, 0, PLACE(version) },
	{ 2, 1, INNER, 1, PLACE(node) },
	{ 3, 3, NAMES, 0, PLACE(names) },
	{ 0, 4, NAMES, 0, PLACE(dropped) },
	{ 0, 5, HELD, 0, PLACE(held) },
	{ 4, 2, TEXT, 0, PLACE(type_url) },
	{ 5, 6, TEXT, 0, PLACE(nonce) },
	{ 6, 7, INNER, 2, PLACE(error) },
};

bool discovery_text_is(const struct discovery_text *text, const char *other)
{
	return strlen(other) == text->len && memcmp(text->data, other, text->len) == 0;
}

static struct discovery_text text_of(const struct protobuf_field *field)
{
	return (struct discovery_text){ field->data, field->len };
}

/* The text with this number in the message of a field; false when it is not a message. */
static bool read_inner(
	struct discovery_text *ret_text, const struct protobuf_field *field, unsigned number)
{
	struct protobuf_reader reader;
	struct protobuf_field inner;
	protobuf_reader_init(&reader, field->data, field->len);
	while (protobuf_next(&reader, &inner)) {
		if (inner.is_bytes && inner.number == number) {
			*ret_text = text_of(&inner);
		}
	}
	return !reader.bad;
}

bool discovery_name_valid(const char *name, size_t len)
{
	bool valid = len > 0 && len <= DISCOVERY_NAME_BYTES && utf8_is_valid(name, len);
	for (size_t i = 0; valid && i < len; i++) {
		valid = (unsigned char)name[i] >= ' ' && name[i] != 0x7f;
	}
	return valid;
}

static int add_name(struct discovery_names *names, const struct discovery_text *name,
	const struct discovery_text *version, struct err *err)
{
	if (names->count == DISCOVERY_NAMES_MAX) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "a request with more than %d names",
			DISCOVERY_NAMES_MAX);
	}
	if (!discovery_name_valid(name->data, name->len)) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"a name of %zu bytes: allowed are 1 to %d bytes of UTF-8 without control "
			"characters",
			name->len, DISCOVERY_NAME_BYTES);
	}
	names->items = memory_grow(names->items, names->count, sizeof(*names->items));
	names->items[names->count] = *name;
	if (version) {
		names->versions = memory_grow(
			names->versions, names->count, sizeof(*names->versions));
		names->versions[names->count] = *version;
	}
	names->count++;
	return 0;
}

/* One entry of a map: a message with the key, and the value. */
static int add_held(
	struct discovery_names *held, const struct protobuf_field *field, struct err *err)
{
	struct discovery_text name = { "", 0 };
	struct discovery_text version = { "", 0 };
	if (!read_inner(&name, field, 1) || !read_inner(&version, field, 2)) {
		return err_set(err, BERTH_FAILED, "initial_resource_versions is not a map");
	}
	return add_name(held, &name, &version, err);
}

static int take_field(struct discovery_request *request, const struct row *row,
	const struct protobuf_field *field, struct err *err)
{
	void *place = (char *)request + row->place;
	const struct discovery_text text = text_of(field);
	switch (row->kind) {
	case TEXT:
		*(struct discovery_text *)place = text;
		break;
	case INNER:
		request->refused = request->refused || place == &request->error;
		if (!read_inner(place, field, row->inner)) {
			return err_set(err, BERTH_FAILED, "a part of the request is not a message");
		}
		break;
	case NAMES:
		return add_name(place, &text, NULL, err);
	case HELD:
		return add_held(place, field, err);
	}
	return 0;
}

/* Takes a field, if it counts. */
static int take(struct discovery_request *request, bool delta, const struct protobuf_field *field,
	struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(rows) && field->is_bytes; i++) {
		if (field->number == (delta ? rows[i].delta_number : rows[i].number)) {
			return take_field(request, &rows[i], field, err);
		}
	}
	return 0;
}

int discovery_read(struct discovery_request *ret_request, bool delta, const void *data, size_t len,
	struct err *err)
{
	static const struct discovery_text none = { "", 0 };
	struct discovery_request request = {
		.type_url = none, .node = none, .version = none, .nonce = none, .error = none
	};
	struct protobuf_reader reader;
	struct protobuf_field field;
	int code = 0;
	protobuf_reader_init(&reader, data, len);
	while (code == 0 && protobuf_next(&reader, &field)) {
		code = take(&request, delta, &field, err);
	}
	if (code == 0 && reader.bad) {
		code = err_set(err, BERTH_FAILED, "the request is not a message");
	}
	if (code != 0) {
		discovery_request_finish(&request);
		return code;
	}
	request.type = resource_of_url(request.type_url.data, request.type_url.len);
	*ret_request = request;
	return 0;
}

static void finish_names(struct discovery_names *names)
{
	free(names->items);
	free(names->versions);
	*names = (struct discovery_names){ .count = 0 };
}

void discovery_request_finish(struct discovery_request *request)
{
	finish_names(&request->names);
	finish_names(&request->dropped);
	finish_names(&request->held);
}

void discovery_write_version(char out[DISCOVERY_VERSION_BYTES], uint64_t version)
{
	snprintf(out, DISCOVERY_VERSION_BYTES, "%016llx", (unsigned long long)version);
}

uint64_t discovery_read_version(const struct discovery_text *text)
{
	char digits[DISCOVERY_VERSION_BYTES];
	if (text->len != sizeof(digits) - 1) {
		return 0;
	}
	memcpy(digits, text->data, text->len);
	digits[text->len] = '\0';
	bool ours = strspn(digits, "0123456789abcdef") == text->len;
	return ours ? strtoull(digits, NULL, 16) : 0;
}

/* ---- answers ---- */

/* Fields of DiscoveryResponse and of DeltaDiscoveryResponse; of Resource; of Any. */
enum { ANSWER_RESOURCES = 2, ANSWER_REMOVED = 6, RESOURCE_ANY = 2, ANY_URL = 1, ANY_VALUE = 2 };

struct discovery_mark discovery_begin_resource(
	struct buffer *out, enum resource_type type, bool delta, const char *name, uint64_t version)
{
	struct discovery_mark mark = { .outer = protobuf_begin(out, ANSWER_RESOURCES) };
	if (delta) {
		char text[DISCOVERY_VERSION_BYTES];
		discovery_write_version(text, version);
		protobuf_pack(out, "1s 3s", text, name); /* version, name */
		mark.any = protobuf_begin(out, RESOURCE_ANY);
	}
	protobuf_text(out, ANY_URL, resource_url(type));
	mark.value = protobuf_begin(out, ANY_VALUE);
	return mark;
}

void discovery_end_resource(struct buffer *out, bool delta, const struct discovery_mark *mark)
{
	protobuf_end(out, mark->value);
	if (delta) {
		protobuf_end(out, mark->any);
	}
	protobuf_end(out, mark->outer);
}

void discovery_add_removed(struct buffer *out, const char *name, size_t len)
{
	protobuf_bytes(out, ANSWER_REMOVED, name, len);
}

void discovery_end_answer(
	struct buffer *out, enum resource_type type, uint64_t version, const char *nonce)
{
	char text[DISCOVERY_VERSION_BYTES];
	discovery_write_version(text, version);
	/* version_info (system_version_info), type_url, nonce */
	protobuf_pack(out, "1s 4s 5s", text, resource_url(type), nonce);
}
