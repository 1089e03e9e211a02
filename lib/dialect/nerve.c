/*
 * nerve, the writing side of SmartStack: a sequential node named after the instance, whose data
 * change in place. With path encoding the name itself carries the data, so a change is another
 * node.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buffer.h"
#include "lib/base/json_text.h"
#include "lib/dialect/write.h"

static json_t *instance_json(const struct dialect_instance *instance)
{
	json_t *data = json_pack("{s:s, s:i, s:s}", "host", instance->endpoint.host, "port",
		instance->endpoint.port, "name", instance->instance_id);
	if (instance->weight >= 0) {
		json_object_set_new(data, "weight", json_integer(instance->weight));
	}
	if (*instance->haproxy_server_options) {
		json_object_set_new(data, "haproxy_server_options",
			json_string(instance->haproxy_server_options));
	}
	if (instance->pair_count) {
		json_object_set_new(data, "labels", dialect_pairs_json(instance));
	}
	return data;
}

/* base64 with the alphabet for URLs, padded; malloc'ed, or NULL without memory. */
static char *url_base64(const char *text, size_t len)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const unsigned char *bytes = (const unsigned char *)text;
	char *out = calloc(1, (len + 2) / 3 * 4 + 1);
	char *end = out;
	for (size_t i = 0; out && i < len; i += 3) {
		size_t left = len - i;
		unsigned group = (unsigned)bytes[i] << 16 |
			(left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
			(left > 2 ? bytes[i + 2] : 0);
		*end++ = alphabet[group >> 18];
		*end++ = alphabet[group >> 12 & 63];
		*end++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
		*end++ = left > 2 ? alphabet[group & 63] : '=';
	}
	return out;
}

static int add_encoded(struct dialect_nodes *nodes, const struct dialect_instance *instance,
	json_t *data, struct err *err)
{
	const struct dialect_node member = {
		.kind = DIALECT_NODE_SEQUENTIAL,
		.change = DIALECT_CHANGE_REJOIN,
	};
	char *text = json_text(data, JSON_COMPACT);
	char *encoded = text ? url_base64(text, strlen(text)) : NULL;
	if (data && !encoded) {
		err_set(err, BERTH_FAILED, "no memory for the name of a node");
	}
	const char *name = encoded ? encoded : "";
	int code = dialect_add_node_take(nodes, &member, data, err, "/%s/base64_%zu_%s_",
		instance->path, strlen(name), name);
	free(encoded);
	free(text);
	return code;
}

int dialect_nerve_write(
	struct dialect_nodes *nodes, const struct dialect_instance *instance, struct err *err)
{
	const struct dialect_node member = { .kind = DIALECT_NODE_SEQUENTIAL };
	json_t *data = instance_json(instance);
	return instance->path_encoding ? add_encoded(nodes, instance, data, err)
				       : dialect_add_node_take(nodes, &member, data, err, "/%s/%s_",
						 instance->path, instance->instance_id);
}
