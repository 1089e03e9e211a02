#include "agent/config/dialect.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/value.h"

struct config_instance {
	struct dialect_instance dialect;
	struct record_target target;
	struct record_target *targets; /* of the additional endpoints */
	struct dialect_address *additional;
	struct dialect_pair *pairs;
	int *ports;
	char *address;
	char *lack; /* the first endpoint without an address; NULL: none */
	json_t *payload;
};

static int number_or(const char *text, int fallback)
{
	return *text ? (int)strtol(text, NULL, 10) : fallback;
}

/* Verified: a number of seconds, or a duration of whole ones. */
static int seconds_or(const char *text, int fallback)
{
	int64_t ms = 0;
	struct err ignored = ERR_INIT;
	return config_parse_duration(text, 0, INT64_MAX, &ms, &ignored) == 0
		? (int)(ms / 1000)
		: number_or(text, fallback);
}

/* The first external endpoint when no name is given; NULL when there is none. */
static const struct config_endpoint *find_endpoint(
	const struct config_component *component, const char *name)
{
	for (size_t i = 0; i < component->endpoint_count; i++) {
		const struct config_endpoint *endpoint = &component->endpoints[i];
		if (*name ? strcmp(endpoint->name, name) == 0 : endpoint->external) {
			return endpoint;
		}
	}
	return *name || component->endpoint_count == 0 ? NULL : &component->endpoints[0];
}

static json_t *first_address(
	const struct config_endpoint *endpoint, const struct config_record_endpoint *at_run_time)
{
	struct err ignored = ERR_INIT;
	if (at_run_time->out) {
		return NULL;
	}
	if (at_run_time->addresses) {
		return json_incref(json_array_get(at_run_time->addresses, 0));
	}
	return endpoint->address_count == 0
		? NULL
		: record_address_parse(endpoint->address_type, endpoint->addresses[0], &ignored);
}

static void note_lack(struct config_instance *instance, const struct config_endpoint *endpoint,
	const struct config_record_endpoint *at_run_time)
{
	if (instance->lack) {
		return;
	}
	if (at_run_time->out) {
		instance->lack = allocate_format(
			"endpoint %s is out: a check of it is not up", endpoint->name);
	} else if (endpoint->dynamic && !at_run_time->addresses) {
		instance->lack = allocate_format("endpoint %s has no address yet", endpoint->name);
	}
}

/* Port 0 when the endpoint is out or names no host. */
static void read_target(struct record_target *target, struct config_instance *instance,
	const struct config_component *component, const struct config_instance_state *state,
	const char *name)
{
	const struct config_endpoint *endpoint = find_endpoint(component, name);
	*target = (struct record_target){ 0 };
	if (!endpoint) {
		return;
	}
	const struct config_record_endpoint *at_run_time =
		&state->endpoints[endpoint - component->endpoints];
	json_t *address = first_address(endpoint, at_run_time);
	if (address) {
		(void)record_target_read(target, endpoint->address_type, address);
	}
	json_decref(address);
	note_lack(instance, endpoint, at_run_time);
}

static struct dialect_address address_of(const char *name, const struct record_target *target)
{
	return (struct dialect_address){ .name = name, .host = target->host, .port = target->port };
}

static void fill_additional(struct config_instance *instance,
	const struct config_component *component, const struct config_dialect *dialect,
	const struct config_instance_state *state)
{
	size_t count = dialect->additional_count;
	instance->targets = allocate_zeroed(count, sizeof(*instance->targets));
	instance->additional = allocate_zeroed(count, sizeof(*instance->additional));
	for (size_t i = 0; i < count; i++) {
		read_target(
			&instance->targets[i], instance, component, state, dialect->additional[i]);
		instance->additional[i] = address_of(dialect->additional[i], &instance->targets[i]);
	}
	instance->dialect.additional = instance->additional;
	instance->dialect.additional_count = count;
}

static void fill_pairs(
	struct config_instance *instance, const struct config_name_value *pairs, size_t count)
{
	instance->pairs = allocate_zeroed(count, sizeof(*instance->pairs));
	for (size_t i = 0; i < count; i++) {
		instance->pairs[i] = (struct dialect_pair){ pairs[i].name, pairs[i].value };
	}
	instance->dialect.pairs = instance->pairs;
	instance->dialect.pair_count = count;
}

static void fill_ports(struct config_instance *instance, const struct config_dialect *dialect)
{
	instance->ports = allocate_zeroed(dialect->port_count, sizeof(*instance->ports));
	for (size_t i = 0; i < dialect->port_count; i++) {
		instance->ports[i] = number_or(dialect->ports[i], 0);
	}
	instance->dialect.ports = instance->ports;
	instance->dialect.port_count = dialect->port_count;
	instance->dialect.service_port = number_or(dialect->port, instance->target.port);
}

/* The configured address, the endpoint's if it is one, or the machine's. */
static char *ipv4_of(const struct config_dialect *dialect, const struct record_target *target)
{
	struct in_addr ignored;
	if (*dialect->address) {
		return allocate_text(dialect->address);
	}
	return allocate_text(inet_pton(AF_INET, target->host, &ignored) == 1
			? target->host
			: dialect->own_address);
}

static void fill_texts(struct dialect_instance *instance, const struct config_component *component,
	const struct config_dialect *dialect)
{
	instance->path = dialect->path;
	instance->domain = dialect->domain;
	instance->host_name = dialect->host_name;
	instance->aliases = dialect->aliases;
	instance->alias_count = dialect->alias_count;
	instance->host_type = dialect->host_type;
	instance->service = dialect->service;
	instance->service_name = dialect->service;
	instance->protocol = dialect->protocol;
	instance->base = dialect->base;
	instance->instance_id = dialect->instance_id;
	instance->context_id = *component->id ? component->id : component->component_name;
	instance->haproxy_server_options = dialect->haproxy_server_options;
}

struct config_instance *config_instance_create(const struct config_component *component,
	const struct config_dialect *dialect, const struct config_instance_state *state)
{
	struct config_instance *instance = allocate_zeroed(1, sizeof(*instance));
	bool is_nerve = dialect->type == DIALECT_NERVE;
	struct record_target ssl = { 0 };
	read_target(&instance->target, instance, component, state, dialect->endpoint);
	if (*dialect->ssl_endpoint) {
		read_target(&ssl, instance, component, state, dialect->ssl_endpoint);
	}
	instance->address = ipv4_of(dialect, &instance->target);
	instance->payload = json_loads(dialect->payload, JSON_DECODE_ANY, NULL);
	instance->dialect = (struct dialect_instance){
		.type = dialect->type,
		.name = dialect->name,
		.endpoint = address_of(dialect->endpoint, &instance->target),
		.ssl_port = ssl.port,
		.address = instance->address,
		.payload = instance->payload,
		.ttl = seconds_or(dialect->ttl, -1),
		.service_ttl = seconds_or(dialect->service_ttl, -1),
		.shard = number_or(dialect->shard, -1),
		.weight = number_or(dialect->weight, -1),
		.path_encoding = dialect->path_encoding,
		.registered_ms = state->registered_ms,
		.out_of_service = state->out_of_service,
	};
	fill_texts(&instance->dialect, component, dialect);
	fill_additional(instance, component, dialect, state);
	fill_pairs(instance, is_nerve ? dialect->labels : dialect->metadata,
		is_nerve ? dialect->label_count : dialect->metadata_count);
	fill_ports(instance, dialect);
	return instance;
}

const struct dialect_instance *config_instance_get(const struct config_instance *instance)
{
	return &instance->dialect;
}

const char *config_instance_lack(const struct config_instance *instance)
{
	return instance->lack;
}

void config_instance_free(struct config_instance *instance)
{
	if (instance) {
		json_decref(instance->payload);
		free(instance->address);
		free(instance->lack);
		free(instance->ports);
		free(instance->pairs);
		free(instance->additional);
		free(instance->targets);
		free(instance);
	}
}
