/*
 * The options of what follows the registry: [output].
 */
#include "agent/config/option_row.h"

#include "agent/config/verify.h"
#include "lib/base/limits.h"

const struct config_option config_output_options[] = {
	{ "from", TEXT(output, from), .verify = config_verify_warm,
		.example = "/users/devteam/web/prod/components",
		.help = "The path that the output follows: its record and its direct children; "
			"with a trailing /** everything below. Required." },
	{ "failover", LIST(output, failover, failover_count), .verify = config_verify_warm,
		.automatic = "none", .example = "/net/eu2/users/devteam/web/prod/components",
		.help = "Further paths, the best first: their endpoints come in while fewer than "
			"min_instances of the paths before them offer one. A path that cannot be "
			"confirmed neither comes in nor counts as empty." },
	{ "failover_hold", DURATION(output, failover_hold_ms, 0, HOURS(24)), .fallback = "10s",
		.help = "How long the nearer paths must have enough instances before a "
			"further one goes out again." },
	{ "prefer", WORD(output, prefer, "zone", "none"),
		.automatic = "zone for format = envoy, else none", .example = "zone",
		.help = "zone: endpoints near zone in [agent] come first, and those of a path of "
			"failover behind all of the paths before it. The nearest ones serve, the "
			"others are backup servers of haproxy, haproxy-runtime and nginx, and "
			"have lower priority in envoy; other formats have them in this order. "
			"none: all are equal." },
	{ "api", TEXT(output, api), .max = LIMIT_API_BYTES, .automatic = "any",
		.example = "http://example.org/api/v1", .help = "Only endpoints of this api." },
	{ "protocol", TEXT(output, protocol), .max = LIMIT_PROTOCOL_BYTES, .automatic = "any",
		.example = "http", .help = "Only endpoints of this protocol." },
	{ "scope", TEXT(output, scope), .verify = config_verify_scope, .automatic = "any",
		.example = "external", .help = "Only external or only internal endpoints." },
	{ "attribute", PAIRS(output, attributes, attribute_count), .prose = true,
		.verify_name = config_verify_selected_name, .automatic = "any", .example = "canary",
		.help = "Only endpoints of records whose attribute NAME has this value; of several "
			"all must hold." },
	{ "format",
		WORD(output, format, "lines", "json", "prometheus", "envoy", "haproxy", "nginx",
			"hosts", "env", "haproxy-runtime", "render"),
		.automatic = "render, when there is one", .example = "haproxy",
		.help = "The content of the file. lines: an address a line. json: an array of "
			"endpoints. prometheus: targets for file_sd_configs. envoy: a file for "
			"EDS. haproxy: server lines, as a whole backend section when backend names "
			"one. nginx: server lines of an upstream block. hosts: lines of "
			"/etc/hosts, with the names that DNS answers, between the marks # BEGIN "
			"berth NAME and # END berth NAME; the rest of the file stays. env: "
			"variables for a shell. haproxy-runtime is not a file: the agent adds and "
			"removes the servers of a running HAProxy over its socket. "
			"render: see there. Required, unless render is given." },
	{ "render", COMMAND(output, render, render_argv), .automatic = "none",
		.example = "/usr/bin/jq -r .endpoints[].address.uri",
		.help = "A command that makes the content, for any other format. It reads the "
			"records and endpoints as JSON from its standard input; its output becomes "
			"the file. When it fails or prints nothing, the file stays as it is." },
	{ "path", FILE_NAME(output, path), .example = "/etc/haproxy/web.cfg",
		.help = "The file. Its directory must exist. Required, but for haproxy-runtime." },
	{ "socket", FILE_NAME(output, socket), .max = SOCKET_PATH_BYTES,
		.example = "/run/haproxy/admin.sock",
		.help = "With format = haproxy-runtime: HAProxy's stats socket of "
			"level admin. Required there." },
	{ "backend", TEXT(output, backend), .verify = config_verify_proxy_name, .automatic = "none",
		.example = "web",
		.help = "The backend section of HAProxy: required with haproxy-runtime. Berth's "
			"servers there have names that begin with berth:, others are left alone." },
	{ "write", WORD(output, write, "replace", "in-place"),
		.automatic = "in-place for a file that is a mount, else replace",
		.example = "replace",
		.help = "replace: a new file is moved to the path, so that readers see the whole "
			"of the old or of the new one; a symbolic link stays, and what it leads to "
			"is replaced. in-place: for a file that is a mount, such as /etc/hosts in "
			"a container, which nothing can be moved over. The new file is made in "
			"state_dir, and written over the one that is there: a reader may see some "
			"of both, and a crash leaves that until the agent starts again. It writes "
			"through no symbolic link, and leaves mode, owner and group as they are." },
	{ "mode", MODE(output, mode), .min = 1,
		.automatic = "that of the file that is there, else 0644", .example = "0640",
		.help = "Permissions of the file." },
	{ "owner", USER(output, owner, owner_id),
		.automatic = "that of the file that is there, else the agent's own",
		.example = "root",
		.help = "The user that owns the file: only root can give it to "
			"another than the agent's own." },
	{ "group", GROUP(output, group, group_id),
		.automatic = "that of the file that is there, else the agent's own",
		.example = "adm", .help = "The group that owns the file." },
	{ "quiet", DURATION(output, quiet_ms, 1, HOURS(1)),
		.automatic = "200ms, and 10ms for haproxy-runtime", .example = "1s",
		.help = "A change is delivered when no other one has come for this long, so "
			"that a burst is one write." },
	{ "max_wait", DURATION(output, max_wait_ms, 1, HOURS(1)), .fallback = "5s",
		.help = "A change is delivered no later than this, however many others come." },
	{ "min_instances", INTEGER(output, min_instances, 1, 100000), .fallback = "1",
		.help = "While fewer components than this offer an "
			"endpoint, the file stays as it is." },
	{ "when_empty", CHOICE(output, write_when_empty, "keep", "write"), .fallback = "keep",
		.help = "Without any instance. keep: the file stays as it is. write: it is written "
			"empty, whatever min_instances says." },
	{ "check", COMMAND(output, check, check_argv), .automatic = "none",
		.example = "/usr/sbin/haproxy -c -f /etc/haproxy/haproxy.cfg -f {}",
		.help = "A command that must accept the new file before it is put in "
			"place; {} is the file's name." },
	{ "on_change", COMMAND(output, on_change, on_change_argv), .automatic = "none",
		.example = "/usr/bin/systemctl reload haproxy",
		.help = "A command that runs after a new file was put in place: one at a time, "
			"and once more for changes in the meantime. When it fails it is run "
			"again, after a growing pause." },
	{ "timeout", DURATION(output, timeout_ms, 1, HOURS(1)), .fallback = "30s",
		.help = "How long render, check and on_change may each take." },
	OPTIONS_END,
};
