/*
 * Curator's x-discovery, and Spring Cloud ZooKeeper, which is Curator's with a payload of its own:
 * one ephemeral node an instance, named by its id, below container nodes. Readers watch the list of
 * children, so a node that changes is deleted and made again.
 */
#include "lib/dialect/write.h"

#define SPRING_CLASS "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance"

/* {scheme}://{address}:{port} */
static json_t *uri_spec(void)
{
	return json_pack("{s:[{s:s, s:b}, {s:s, s:b}, {s:s, s:b}, {s:s, s:b}, {s:s, s:b}]}",
		"parts", "value", "scheme", "variable", 1, "value", "://", "variable", 0, "value",
		"address", "variable", 1, "value", ":", "variable", 0, "value", "port", "variable",
		1);
}

static json_t *spring_payload(const struct dialect_instance *instance)
{
	json_t *metadata = json_pack(
		"{s:s}", "instance_status", instance->out_of_service ? "OUT_OF_SERVICE" : "UP");
	json_t *pairs = dialect_pairs_json(instance);
	if (!pairs || json_object_update_missing(metadata, pairs)) {
		json_decref(metadata);
		metadata = NULL;
	}
	json_decref(pairs);
	return metadata ? json_pack("{s:s, s:s, s:s, s:o}", "@class", SPRING_CLASS, "id",
				  instance->context_id, "name", instance->service_name, "metadata",
				  metadata)
			: NULL;
}

static json_t *payload_of(const struct dialect_instance *instance)
{
	if (instance->type == DIALECT_SPRING) {
		return spring_payload(instance);
	}
	return instance->payload ? json_deep_copy(instance->payload) : json_null();
}

int dialect_curator_write(
	struct dialect_nodes *nodes, const struct dialect_instance *instance, struct err *err)
{
	const struct dialect_node node = {
		.kind = DIALECT_NODE_EPHEMERAL,
		.change = DIALECT_CHANGE_REPLACE,
		.container_parents = true,
	};
	json_t *ssl_port = instance->ssl_port ? json_integer(instance->ssl_port) : json_null();
	json_t *data = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:I, s:s, s:o}", "name",
		instance->service_name, "id", instance->instance_id, "address",
		instance->endpoint.host, "port", instance->endpoint.port, "sslPort", ssl_port,
		"payload", payload_of(instance), "registrationTimeUTC",
		(json_int_t)instance->registered_ms, "serviceType", "DYNAMIC", "uriSpec",
		uri_spec());
	return dialect_add_node_take(nodes, &node, data, err, "/%s/%s/%s", instance->base,
		instance->service_name, instance->instance_id);
}
