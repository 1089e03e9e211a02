#include "runtime/facts.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/program/memory.h"

static const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

const char *facts_id(const json_t *id)
{
	const char *text = json_string_value(id);
	size_t len = text ? strlen(text) : 0;
	bool good = len > 0 && len < RUNTIME_ID_BYTES && strspn(text, "0123456789abcdef") == len;
	return good ? text : "";
}

void facts_signature(struct buffer *to, const json_t *entry)
{
	/* "Up 5 minutes (healthy)": only what is in parentheses matters. */
	const char *health = strchr(text_at(entry, "Status"), '(');
	const char *name = json_string_value(json_array_get(json_object_get(entry, "Names"), 0));
	buffer_clear(to);
	buffer_printf(
		to, "%s %s %s", text_at(entry, "State"), name ? name : "", health ? health : "");
}

void facts_process(struct facts_process *ret_process, const json_t *inspection)
{
	const json_t *state = json_object_get(inspection, "State");
	bool runs = json_is_true(json_object_get(state, "Running")) ||
		strcmp(text_at(state, "Status"), "running") == 0 ||
		strcmp(text_at(state, "Status"), "paused") == 0;
	ret_process->pid = runs ? json_integer_value(json_object_get(state, "Pid")) : 0;
	text_printf(ret_process->started, sizeof(ret_process->started), "%s",
		text_at(state, "StartedAt"));
}

const char *facts_health(const json_t *inspection)
{
	const json_t *state = json_object_get(inspection, "State");
	const json_t *health = json_object_get(state, "Health");
	return text_at(health ? health : json_object_get(state, "Healthcheck"), "Status");
}

bool facts_same_process(const struct facts_process *a, const struct facts_process *b)
{
	return a->pid == b->pid && strcmp(a->started, b->started) == 0;
}

/* ---- the frame ---- */

/* Of a list, 0: an absent one. The number comes before the items, so they are counted first. */
static size_t count_ports(const json_t *ports)
{
	size_t count = 0;
	const char *key;
	json_t *bindings;
	json_object_foreach ((json_t *)(uintptr_t)ports, key, bindings) {
		size_t size = json_array_size(bindings);
		count += size > 0 ? size : 1;
	}
	return count < RUNTIME_PORTS_MAX ? count : RUNTIME_PORTS_MAX;
}

static void write_port(struct wire *wire, const char *key, const json_t *binding)
{
	const char *slash = strchr(key, '/');
	wire_number(wire, strtoul(key, NULL, 10));
	wire_text(wire, slash ? slash + 1 : "tcp");
	wire_text(wire, text_at(binding, "HostIp"));
	wire_number(wire, strtoul(text_at(binding, "HostPort"), NULL, 10));
}

static void write_ports(struct wire *wire, const json_t *ports)
{
	size_t left = count_ports(ports);
	const char *key;
	json_t *bindings;
	wire_number(wire, left);
	json_object_foreach ((json_t *)(uintptr_t)ports, key, bindings) {
		size_t size = json_array_size(bindings);
		for (size_t i = 0; (i == 0 || i < size) && left > 0; i++, left--) {
			write_port(wire, key, json_array_get(bindings, i));
		}
	}
}

static void write_networks(struct wire *wire, const json_t *networks)
{
	size_t left = json_object_size(networks);
	const char *name;
	json_t *network;
	left = left < RUNTIME_NETWORKS_MAX ? left : RUNTIME_NETWORKS_MAX;
	wire_number(wire, left);
	json_object_foreach ((json_t *)(uintptr_t)networks, name, network) {
		if (left-- == 0) {
			break;
		}
		wire_text(wire, name);
		wire_text(wire, text_at(network, "IPAddress"));
		wire_text(wire, text_at(network, "GlobalIPv6Address"));
	}
}

struct texts {
	json_t *pairs; /* of arrays [flag, name, value] */
	size_t bytes;
	bool too_many;
};

static void add_text(struct texts *texts, const struct facts_filter *filter, bool is_variable,
	const char *name, size_t name_len, const char *value)
{
	bool matters = false;
	for (size_t i = 0; i < filter->count && !matters; i++) {
		size_t len = strlen(filter->prefixes[i]);
		matters = name_len >= len && memcmp(name, filter->prefixes[i], len) == 0;
	}
	if (!matters) {
		return;
	}
	texts->bytes += name_len + strlen(value);
	texts->too_many = texts->too_many || texts->bytes > RUNTIME_LABEL_BYTES ||
		json_array_size(texts->pairs) >= RUNTIME_LABELS_MAX;
	if (!texts->too_many) {
		json_array_append_new(texts->pairs,
			memory_must(
				json_pack("[b, s#, s]", is_variable, name, (int)name_len, value)));
	}
}

static void find_texts(
	struct texts *texts, const json_t *inspection, const struct facts_filter *filter)
{
	const json_t *config = json_object_get(inspection, "Config");
	const char *name;
	json_t *value;
	size_t index;
	json_object_foreach (json_object_get(config, "Labels"), name, value) {
		if (json_is_string(value)) {
			add_text(
				texts, filter, false, name, strlen(name), json_string_value(value));
		}
	}
	json_array_foreach (json_object_get(config, "Env"), index, value) {
		const char *text = json_is_string(value) ? json_string_value(value) : "";
		size_t len = strcspn(text, "=");
		if (text[len]) {
			add_text(texts, filter, true, text, len, text + len + 1);
		}
	}
}

static void write_texts(struct wire *wire, const struct texts *texts)
{
	size_t index;
	json_t *pair;
	wire_number(wire, texts->too_many ? 0 : json_array_size(texts->pairs));
	json_array_foreach (texts->pairs, index, pair) {
		if (texts->too_many) {
			break;
		}
		wire_number(wire, json_is_true(json_array_get(pair, 0)));
		wire_text(wire, json_string_value(json_array_get(pair, 1)));
		wire_text(wire, json_string_value(json_array_get(pair, 2)));
	}
}

static void write_state(struct wire *wire, const json_t *inspection)
{
	const json_t *state = json_object_get(inspection, "State");
	const json_t *config = json_object_get(inspection, "Config");
	const json_t *signal = json_object_get(config, "StopSignal");
	const json_t *timeout = json_object_get(config, "StopTimeout");
	char number[24] = "";
	struct facts_process process;
	facts_process(&process, inspection);
	const char *name = text_at(inspection, "Name");
	wire_text(wire, *name == '/' ? name + 1 : name);
	wire_text(wire, text_at(config, "Image"));
	wire_text(wire, text_at(config, "Hostname"));
	wire_text(wire, text_at(state, "Status"));
	wire_text(wire, facts_health(inspection));
	wire_text(wire, process.started);
	wire_number(wire, process.pid > 0 ? (uint64_t)process.pid : 0);
	if (json_is_integer(signal)) {
		text_printf(number, sizeof(number), "%lld", (long long)json_integer_value(signal));
	}
	wire_text(wire, *number ? number : text_at(config, "StopSignal"));
	wire_number(wire,
		json_is_integer(timeout) && json_integer_value(timeout) >= 0
			? (uint64_t)json_integer_value(timeout)
			: 10);
	wire_text(wire, text_at(json_object_get(inspection, "HostConfig"), "NetworkMode"));
}

void facts_write(struct wire *wire, const json_t *inspection, const struct facts_filter *filter,
	bool watched)
{
	const json_t *state = json_object_get(inspection, "State");
	const json_t *network = json_object_get(inspection, "NetworkSettings");
	struct texts texts = { .pairs = memory_must(json_array()) };
	struct facts_process process;
	bool paused = json_is_true(json_object_get(state, "Paused")) ||
		strcmp(text_at(state, "Status"), "paused") == 0;
	facts_process(&process, inspection);
	find_texts(&texts, inspection, filter);
	wire_begin(wire, RUNTIME_CONTAINER);
	wire_text(wire, facts_id(json_object_get(inspection, "Id")));
	wire_number(wire,
		(process.pid > 0 ? RUNTIME_RUNS : 0) | (paused ? RUNTIME_PAUSED : 0) |
			(watched ? RUNTIME_WATCHED : 0));
	wire_text(wire,
		texts.too_many ? "it has more labels than a container may have: 256, and 64 KiB of "
				 "names and values"
			       : "");
	write_state(wire, inspection);
	const json_t *ports = json_object_get(network, "Ports");
	if (json_object_size(ports) == 0) {
		/* In the host's network all are. */
		ports = json_object_get(json_object_get(inspection, "Config"), "ExposedPorts");
	}
	write_ports(wire, ports);
	write_networks(wire, json_object_get(network, "Networks"));
	write_texts(wire, &texts);
	json_decref(texts.pairs);
}

void facts_write_error(struct wire *wire, const char *id, const char *error)
{
	enum { TEXTS = 6 };
	wire_begin(wire, RUNTIME_CONTAINER);
	wire_text(wire, id);
	wire_number(wire, 0);
	wire_text(wire, error);
	for (int i = 0; i < TEXTS; i++) {
		wire_text(wire, ""); /* from the name to the time of the start */
	}
	wire_number(wire, 0);
	wire_text(wire, "");
	wire_number(wire, 0);
	wire_text(wire, "");
	wire_number(wire, 0);
	wire_number(wire, 0);
	wire_number(wire, 0);
	wire_end(wire);
}
