/*
 * ServerSet, of Finagle and Aurora: members are sequential nodes. A reader keeps what it has read
 * of a member for as long as the node is there, so a change is another member, and then the end of
 * the first.
 */
#include "lib/dialect/write.h"

static json_t *address_json(const struct dialect_address *address)
{
	return json_pack("{s:s, s:i}", "host", address->host, "port", address->port);
}

int dialect_serverset_write(
	struct dialect_nodes *nodes, const struct dialect_instance *instance, struct err *err)
{
	const struct dialect_node member = {
		.kind = DIALECT_NODE_SEQUENTIAL,
		.change = DIALECT_CHANGE_REJOIN,
	};
	json_t *additional = json_object();
	for (size_t i = 0; i < instance->additional_count; i++) {
		if (instance->additional[i].port > 0) {
			json_object_set_new(additional, instance->additional[i].name,
				address_json(&instance->additional[i]));
		}
	}
	json_t *data = json_pack("{s:o, s:o, s:s}", "serviceEndpoint",
		address_json(&instance->endpoint), "additionalEndpoints", additional, "status",
		"ALIVE");
	if (instance->shard >= 0) {
		json_object_set_new(data, "shard", json_integer(instance->shard));
	}
	if (instance->pair_count) {
		json_object_set_new(data, "metadata", dialect_pairs_json(instance));
	}
	return dialect_add_node_take(nodes, &member, data, err, "/%s/member_", instance->path);
}
