/* A container as berth-runtime describes it (lib/runtime/protocol.h). */
#ifndef AGENT_BRIDGE_FACTS_H
#define AGENT_BRIDGE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/config/config.h"
#include "lib/looker/wire.h"
#include "lib/runtime/protocol.h"

struct facts_port {
	unsigned number;
	char *protocol;
	char *host;         /* address on the host; "": any */
	unsigned host_port; /* 0: it is not published */
};

struct facts_network {
	char *name;
	char *ip;
	char *ip6;
};

struct bridge_facts {
	const char *frame; /* all of it, borrowed: bridge_facts_read() reads a copy as well */
	size_t frame_len;
	char id[RUNTIME_ID_BYTES];
	unsigned flags;
	char *error; /* why the rest is not known; "" */
	char *name;
	char *image;
	char *host_name;
	char *status;
	char *health;
	char *started;
	pid_t pid;
	char *stop_signal;
	unsigned stop_timeout_s;
	char *network_mode;
	struct facts_port *ports;
	size_t port_count;
	struct facts_network *networks;
	size_t network_count;
	struct config_name_value *labels;
	size_t label_count;
	struct config_name_value *variables;
	size_t variable_count;
};

/* False for a bad frame. Finish the facts in both cases. */
bool bridge_facts_read(struct bridge_facts *ret_facts, struct wire_frame *frame);
/* Zeroed ones may be finished, too. */
void bridge_facts_finish(struct bridge_facts *facts);

#endif
