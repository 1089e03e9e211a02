/*
 * The options of the host's agent: [bridge] and [container GLOB].
 */
#include "agent/config/option_row.h"

#include "agent/config/verify.h"
#include "agent/config/verify_bridge.h"
#include "lib/base/limits.h"

enum { MOST_RECORDS = 4096 };

const struct config_option config_bridge_options[] = {
	{ "containers", FILE_NAME(bridge, containers), .fixed = true, .automatic = "no bridge",
		.example = "/run/berth/containers",
		.help = "The directory whose subdirectories are containers. The maker of a "
			"container makes its subdirectory; the agent makes registry/ and "
			"berth.sock there. The directory must be root's or the agent's user's." },
	{ "linger", DURATION(bridge, linger_ms, 0, SECONDS(60)), .fallback = "0s",
		.help = "How long a record stays whose owner has died, for agents that are "
			"restarted inside a living container. A record that was withdrawn, or "
			"whose "
			"container's subdirectory has gone, ends at once." },
	{ "stall_limit", DURATION(bridge, stall_limit_ms, SECONDS(1), SECONDS(3600)),
		.fallback = "60s",
		.help = "How long the records of a container stay whose directory somebody holds, "
			"so that it cannot be looked at. Meanwhile the kernel says which of its "
			"owners live." },
	{ "standby", BOOLEAN(bridge, standby), .fallback = "no",
		.help = "An agent that finds its state_dir in use waits for the end of the other "
			"one, and takes its session over. Both have this configuration." },
	OPTIONS_END,
};

const struct config_option config_runtime_options[] = {
	{ "socket", FILE_NAME(runtime, socket), .fixed = true, .fallback = "/run/docker.sock",
		.max = SOCKET_PATH_BYTES, .example = "/run/podman/podman.sock",
		.help = "The socket of Docker's API, or podman's. A program of its own, "
			"berth-runtime, reads there, and sends GET requests alone." },
	{ "labels", LIST(runtime, labels, label_count), .fixed = true, .fallback = "berth",
		.verify = config_verify_label_prefix, .example = "berth, registrator",
		.help = "The first part of the labels that are read: berth.path and so on. "
			"registrator: those of Registrator, SERVICE_NAME, SERVICE_80_NAME and so "
			"on, and the variables of these names." },
	{ "address", TEXT(runtime, address), .automatic = "${berth.ip}",
		.verify = config_verify_host, .example = "container",
		.help = "Where published ports and those of the host's network are announced. "
			"container: the container's own address, on the network below." },
	{ "network", TEXT(runtime, network), .automatic = "none", .example = "backend",
		.help = "The network of a container whose address is announced for ports that are "
			"not published. With address = container and no network it is its only "
			"one." },
	{ "base", TEXT(runtime, base), .fallback = "/services", .verify = config_verify_path,
		.help = "Where services are that have only a name: BASE/NAME/components/INSTANCE, "
			"where INSTANCE is the beginning of the container's id unless a label says "
			"another one." },
	{ "health", CHOICE(runtime, ignore_health, "use", "ignore"), .fallback = "use",
		.help = "use: a container that its own HEALTHCHECK does not find healthy is not "
			"registered." },
	OPTIONS_END,
};

const struct config_option config_container_options[] = {
	{ "allow", LIST(container, allow, allow_count), .verify = config_verify_allow,
		.automatic = "nothing", .example = "/users/joe/web/**",
		.help = "The paths at which these containers may register: a * stands for a part "
			"of "
			"one element, a trailing /** for everything below." },
	{ "owner", TEXT(container, owner), .verify = config_verify_owner,
		.automatic = "the agent's own", .example = "100000:100000",
		.help = "The uid:gid that registry/ belongs to: the container's root in a user "
			"namespace. Only root can give it to another user." },
	{ "max_records", INTEGER(container, max_records, 0, MOST_RECORDS), .fallback = "64",
		.help = "How many records a container may register. Records that it has given up "
			"count until they are out of the registry, and so do the distinct nodes "
			"above them: 32, and 4 for each record." },
	{ "max_bytes", SIZE(container, max_bytes, 0, KIB(64 * 1024)), .fallback = "256K",
		.help = "How many bytes its records may have together." },
	{ "rate", INTEGER(container, rate, 1, 10000), .fallback = "20",
		.help = "How many new and changed records of a container are written to the "
			"registry a second; further ones wait." },
	{ "attribute", PAIRS(container, attributes, attribute_count), .prose = true,
		.verify_name = config_verify_pinned_name, .automatic = "none",
		.example = "10.0.0.7",
		.help = "An attribute NAME that the host sets in each record of these containers, "
			"whatever the container wrote there: yarn:id, yarn:ip and any other." },
	{ "label", PAIRS(container, labels, label_count), .prose = true, .per_container = true,
		.verify_name = config_verify_label_name, .automatic = "none",
		.example = "/services/web/components/${container.name}",
		.help = "The label NAME, dots and all, of containers of a [runtime] that do not "
			"have it themselves. ${container.name}, ${container.image}, "
			"${container.id} and ${container.hostname} are the container's." },
	OPTIONS_END,
};
