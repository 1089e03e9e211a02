#include "xds/member.h"

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buffer.h"
#include "lib/program/memory.h"
#include "lib/record/select.h"
#include "lib/record/service.h"
#include "lib/record/target.h"
#include "lib/render/host.h"
#include "lib/render/render.h"

static const char *attribute(const struct record *record, const char *name)
{
	const char *text = json_string_value(record_attribute(record, name));
	return text ? text : "";
}

/* The address to send for a target: its own, or that of the record. */
static bool read_host(char out[INET6_ADDRSTRLEN], char *host, const struct record *record)
{
	char own[INET6_ADDRSTRLEN];
	const char *found = NULL;
	if (render_host_read(host) == RENDER_HOST_ADDRESS) {
		found = host;
	} else if (strlen(attribute(record, "yarn:ip")) < sizeof(own)) {
		strcpy(own, attribute(record, "yarn:ip"));
		found = render_host_read(own) == RENDER_HOST_ADDRESS ? own : NULL;
	}
	/* A zone of an interface (%eth0) means nothing elsewhere. */
	if (!found || strlen(found) >= INET6_ADDRSTRLEN || strchr(found, '%')) {
		return false;
	}
	strcpy(out, found);
	return true;
}

/* The parts of a member, until all of it is known. */
struct parts {
	struct member_endpoint *endpoints;
	size_t count;
	size_t left_out;
	uint32_t attributes;
	struct buffer texts;
};

static uint32_t keep(struct parts *parts, const char *text)
{
	size_t place = parts->texts.len;
	buffer_append(&parts->texts, text, strlen(text) + 1);
	return (uint32_t)place;
}

static void add_address(struct parts *parts, const struct record *record, const char *address_type,
	const json_t *address, struct member_endpoint endpoint)
{
	char host[INET6_ADDRSTRLEN];
	struct record_target target;
	if (!record_target_read(&target, address_type, address) || target.port == 0 ||
		!read_host(host, target.host, record)) {
		parts->left_out++;
		return;
	}
	endpoint.port = target.port;
	endpoint.host = keep(parts, host);
	parts->endpoints = memory_grow(parts->endpoints, parts->count, sizeof(*parts->endpoints));
	parts->endpoints[parts->count++] = endpoint;
}

static uint32_t keep_attributes(struct parts *parts, const struct record *record)
{
	enum { NAME_BYTES = 64, VALUE_BYTES = 64 };
	uint32_t place = (uint32_t)parts->texts.len;
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)(uintptr_t)record_json(record), key, value) {
		char text[SELECT_VALUE_BYTES];
		if (strlen(key) < NAME_BYTES && !strpbrk(key, "=\n") && select_text(text, value) &&
			strlen(text) < VALUE_BYTES && !strchr(text, '\n')) {
			buffer_printf(&parts->texts, "%s=%s\n", key, text);
		}
	}
	buffer_append(&parts->texts, "", 1);
	return place;
}

static void read_parts(struct parts *ret_parts, const struct record *record)
{
	*ret_parts = (struct parts){ .count = 0 };
	buffer_init(&ret_parts->texts, UINT32_MAX);
	(void)keep(ret_parts, render_zone(record));
	ret_parts->attributes = keep_attributes(ret_parts, record);
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		const struct record_endpoint from = record_endpoint(record, i);
		const struct member_endpoint endpoint = {
			.protocol = keep(ret_parts, from.protocol), .api = keep(ret_parts, from.api)
		};
		size_t at;
		json_t *address;
		json_array_foreach (from.addresses, at, address) {
			add_address(ret_parts, record, from.address_type, address, endpoint);
		}
	}
}

static struct member *put_together(const struct parts *parts, const struct record *record)
{
	size_t endpoint_bytes = parts->count * sizeof(*parts->endpoints);
	struct member *member = memory_must(
		malloc(sizeof(*member) + endpoint_bytes + parts->texts.len));
	*member = (struct member){ .weight = render_weight(record),
		.health = render_health(record),
		.count = (uint32_t)parts->count,
		.left_out = (uint32_t)parts->left_out,
		.attributes = parts->attributes };
	if (parts->count > 0) {
		memcpy(member->endpoints, parts->endpoints, endpoint_bytes);
	}
	memcpy(member->endpoints + parts->count, parts->texts.data, parts->texts.len);
	return member;
}

struct member *member_create(const json_t *json)
{
	struct record *record;
	struct parts parts;
	if (record_from_json(&record, json, NULL) != 0) {
		return NULL;
	}
	read_parts(&parts, record);
	struct member *member = put_together(&parts, record);
	buffer_finish(&parts.texts);
	free(parts.endpoints);
	record_free(record);
	return member;
}

static const char *text_at(const struct member *member, uint32_t place)
{
	return (const char *)(member->endpoints + member->count) + place;
}

const char *member_zone(const struct member *member)
{
	return text_at(member, 0);
}

const char *member_host(const struct member *member, const struct member_endpoint *endpoint)
{
	return text_at(member, endpoint->host);
}

/* Is the line of a record the wanted one? Both end at their line's end. */
static bool is_line(const char *line, const char *wanted, bool as_labels)
{
	size_t len = strcspn(line, "\n");
	size_t wanted_len = strcspn(wanted, "\n");
	size_t name_len = strcspn(line, "=");
	size_t wanted_name_len = strcspn(wanted, "=");
	if (len != wanted_len || name_len != wanted_name_len) {
		return false;
	}
	if (!as_labels) {
		return memcmp(line, wanted, len) == 0;
	}
	char text[2 * SELECT_VALUE_BYTES];
	char label[2 * SELECT_VALUE_BYTES];
	snprintf(text, sizeof(text), "%.*s", (int)len, line);
	snprintf(label, sizeof(label), "%.*s", (int)len, wanted);
	text[name_len] = label[name_len] = '\0';
	return record_text_is_label(text, label) &&
		record_text_is_label(text + name_len + 1, label + name_len + 1);
}

bool member_has(const struct member *member, const char *lines, bool as_labels)
{
	const char *own = text_at(member, member->attributes);
	bool has = true;
	for (const char *wanted = lines ? lines : ""; *wanted && has;
		wanted += strcspn(wanted, "\n") + 1) {
		has = false;
		for (const char *line = own; *line && !has; line += strcspn(line, "\n") + 1) {
			has = is_line(line, wanted, as_labels);
		}
	}
	return has;
}

bool member_offers(
	const struct member *member, const struct member_endpoint *endpoint, const char *service)
{
	const struct record_endpoint offered = { .protocol = text_at(member, endpoint->protocol),
		.api = text_at(member, endpoint->api) };
	return !*service || record_endpoint_offers(&offered, service);
}
