#include "agent/zone/facts.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/json_read.h"
#include "lib/base/text.h"

static enum zone_kind kind_of(const char *type)
{
	static const struct {
		const char *type;
		enum zone_kind kind;
	} kinds[] = { { "host", ZONE_HOST }, { "db_host", ZONE_HOST },
		{ "load_balancer", ZONE_INSTANCE }, { "moray_host", ZONE_INSTANCE },
		{ "redis_host", ZONE_INSTANCE }, { "ops_host", ZONE_INSTANCE },
		{ "rr_host", ZONE_INSTANCE }, { "database", ZONE_DATABASE },
		{ "service", ZONE_SERVICE } };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(type, kinds[i].type) == 0) {
			return kinds[i].kind;
		}
	}
	return ZONE_OTHER;
}

static uint16_t port_of(const json_t *value)
{
	json_int_t port = json_integer_value(value);
	return port >= 1 && port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* Of several times to live the deepest counts: call it from the outside to the inside. */
static void read_ttl(struct zone_facts *facts, const json_t *object)
{
	const json_t *ttl = json_object_get(object, "ttl");
	json_int_t seconds = json_integer_value(ttl);
	if (json_is_integer(ttl) && seconds >= 0 && seconds <= INT32_MAX) {
		facts->ttl_s = (int32_t)seconds;
	}
}

static void read_address(struct zone_facts *facts, const char *text)
{
	facts->has_address = text && inet_pton(AF_INET, text, facts->address) == 1;
}

static void read_host(struct zone_facts *facts, const json_t *host)
{
	const json_t *ports = json_object_get(host, "ports");
	size_t count = json_array_size(ports);
	count = count < ZONE_MAX_PORTS ? count : ZONE_MAX_PORTS;
	read_address(facts, json_string_value(json_object_get(host, "address")));
	facts->ports = count > 0 ? allocate_zeroed(count, sizeof(*facts->ports)) : NULL;
	for (size_t i = 0; i < count; i++) {
		uint16_t port = port_of(json_array_get(ports, i));
		if (port > 0) {
			facts->ports[facts->port_count++] = port;
		}
	}
}

/* The host of tcp://user@host:port/database. */
static void read_database(struct zone_facts *facts, const json_t *database)
{
	const char *url = json_string_value(json_object_get(database, "primary"));
	const char *host = url ? strstr(url, "://") : NULL;
	char text[INET_ADDRSTRLEN];
	if (!host) {
		return;
	}
	host += strlen("://");
	size_t len = strcspn(host, "/?#");
	const char *at = memrchr(host, '@', len);
	if (at) {
		len -= (size_t)(at + 1 - host);
		host = at + 1;
	}
	const char *colon = memchr(host, ':', len);
	len = colon ? (size_t)(colon - host) : len;
	if (len < sizeof(text)) {
		memcpy(text, host, len);
		text[len] = '\0';
		read_address(facts, text);
	}
}

static void read_label(char out[ZONE_LABEL_BYTES], const json_t *value)
{
	const char *text = json_string_value(value);
	if (text && strlen(text) < ZONE_LABEL_BYTES) {
		strcpy(out, text);
	}
}

static void read_service(struct zone_facts *facts, const json_t *service)
{
	const json_t *inner = json_object_get(service, "service");
	if (json_is_object(inner)) {
		read_ttl(facts, inner);
		service = inner;
	}
	read_label(facts->name, json_object_get(service, "srvce"));
	read_label(facts->protocol, json_object_get(service, "proto"));
	facts->port = port_of(json_object_get(service, "port"));
}

static void read_record(struct zone_facts *facts, const json_t *record)
{
	const char *type = json_string_value(json_object_get(record, "type"));
	const json_t *inner = type ? json_object_get(record, type) : NULL;
	if (!json_is_object(inner)) {
		return;
	}
	facts->kind = kind_of(type);
	read_ttl(facts, record);
	read_ttl(facts, inner);
	switch (facts->kind) {
	case ZONE_HOST:
	case ZONE_INSTANCE:
		read_host(facts, inner);
		break;
	case ZONE_DATABASE:
		read_database(facts, inner);
		break;
	case ZONE_SERVICE:
		read_service(facts, inner);
		break;
	case ZONE_NOTHING:
	case ZONE_OTHER:
		break;
	}
}

void zone_facts_read(struct zone_facts *ret_facts, const char *data, size_t len)
{
	*ret_facts = (struct zone_facts){ .ttl_s = -1 };
	json_t *record = json_read(data, len, 0, NULL);
	read_record(ret_facts, record);
	json_decref(record);
}

void zone_facts_finish(struct zone_facts *facts)
{
	free(facts->ports);
	*facts = (struct zone_facts){ .ttl_s = -1 };
}
