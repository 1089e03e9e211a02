/*
 * The options of the host's agent: [bridge] and [container GLOB].
 */
#include "agent/config/option_row.h"

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
	OPTIONS_END,
};
