#include "agent/bridge/facts.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/text.h"

enum { STOP_TIMEOUT_MAX_S = 24 * 3600 };

static char *get_text(struct wire_frame *frame)
{
	return allocate_text(wire_get_text(frame));
}

/* Of items of a list; 0 for a bad frame. */
static size_t get_count(struct wire_frame *frame, size_t most)
{
	size_t count = (size_t)wire_get_number(frame);
	frame->bad = frame->bad || count > most;
	return frame->bad ? 0 : count;
}

static void read_ports(struct bridge_facts *facts, struct wire_frame *frame)
{
	size_t count = get_count(frame, RUNTIME_PORTS_MAX);
	facts->ports = allocate_zeroed(count, sizeof(*facts->ports));
	for (facts->port_count = 0; facts->port_count < count; facts->port_count++) {
		struct facts_port *port = &facts->ports[facts->port_count];
		port->number = (unsigned)wire_get_number(frame);
		port->protocol = get_text(frame);
		port->host = get_text(frame);
		port->host_port = (unsigned)wire_get_number(frame);
	}
}

static void read_networks(struct bridge_facts *facts, struct wire_frame *frame)
{
	size_t count = get_count(frame, RUNTIME_NETWORKS_MAX);
	facts->networks = allocate_zeroed(count, sizeof(*facts->networks));
	for (facts->network_count = 0; facts->network_count < count; facts->network_count++) {
		struct facts_network *network = &facts->networks[facts->network_count];
		network->name = get_text(frame);
		network->ip = get_text(frame);
		network->ip6 = get_text(frame);
	}
}

static void read_labels(struct bridge_facts *facts, struct wire_frame *frame)
{
	size_t count = get_count(frame, RUNTIME_LABELS_MAX);
	facts->labels = allocate_zeroed(count, sizeof(*facts->labels));
	facts->variables = allocate_zeroed(count, sizeof(*facts->variables));
	for (size_t i = 0; i < count; i++) {
		struct config_name_value *pair = wire_get_number(frame)
			? &facts->variables[facts->variable_count++]
			: &facts->labels[facts->label_count++];
		pair->name = get_text(frame);
		pair->value = get_text(frame);
	}
}

bool bridge_facts_read(struct bridge_facts *ret_facts, struct wire_frame *frame)
{
	struct bridge_facts *facts = ret_facts;
	memset(facts, 0, sizeof(*facts));
	facts->frame = frame->at;
	facts->frame_len = (size_t)(frame->end - frame->at);
	text_printf(facts->id, sizeof(facts->id), "%s", wire_get_text(frame));
	facts->flags = (unsigned)wire_get_number(frame);
	facts->error = get_text(frame);
	facts->name = get_text(frame);
	facts->image = get_text(frame);
	facts->host_name = get_text(frame);
	facts->status = get_text(frame);
	facts->health = get_text(frame);
	facts->started = get_text(frame);
	facts->pid = (pid_t)wire_get_number(frame);
	facts->stop_signal = get_text(frame);
	size_t timeout_s = (size_t)wire_get_number(frame);
	facts->stop_timeout_s = (unsigned)(timeout_s < STOP_TIMEOUT_MAX_S ? timeout_s
									  : STOP_TIMEOUT_MAX_S);
	facts->network_mode = get_text(frame);
	read_ports(facts, frame);
	read_networks(facts, frame);
	read_labels(facts, frame);
	return !frame->bad && *facts->id && facts->frame_len <= RUNTIME_REPORT_BYTES;
}

static void free_pairs(struct config_name_value *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(pairs[i].name);
		free(pairs[i].value);
	}
	free(pairs);
}

void bridge_facts_finish(struct bridge_facts *facts)
{
	char *const texts[] = { facts->error, facts->name, facts->image, facts->host_name,
		facts->status, facts->health, facts->started, facts->stop_signal,
		facts->network_mode };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		free(texts[i]);
	}
	for (size_t i = 0; i < facts->port_count; i++) {
		free(facts->ports[i].protocol);
		free(facts->ports[i].host);
	}
	free(facts->ports);
	for (size_t i = 0; i < facts->network_count; i++) {
		free(facts->networks[i].name);
		free(facts->networks[i].ip);
		free(facts->networks[i].ip6);
	}
	free(facts->networks);
	free_pairs(facts->labels, facts->label_count);
	free_pairs(facts->variables, facts->variable_count);
	memset(facts, 0, sizeof(*facts));
}
