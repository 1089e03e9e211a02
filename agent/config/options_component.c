/*
 * The options of what an agent registers: [component], [endpoint] and [check].
 */
#include "agent/config/option_row.h"

#include "agent/config/doubt.h"
#include "agent/config/verify.h"
#include "lib/base/limits.h"

const struct config_option config_component_options[] = {
	{ "user", TEXT(component, user), .example = "devteam",
		.help = "Whose component it is; becomes a DNS label in the path: realm and host "
			"are dropped, letters lower-cased, others encoded, and _ gives -. A name "
			"that still is not a label gets - for each odd character and a mark of its "
			"own: Joe Smith gives joe-smith-0953a823. Users who would share a home are "
			"an error in one configuration; for a name with _ or upper case berthd "
			"warns. Required, unless path is given." },
	{ "service_class", TEXT(component, service_class), .verify = config_verify_label,
		.example = "org-apache-tomcat",
		.help = "The kind of service, a DNS label. "
			"Required, unless path is given." },
	{ "instance", TEXT(component, instance), .verify = config_verify_label, .example = "test1",
		.help = "Which instance of the service it belongs to, a DNS label. "
			"Required, unless path is given." },
	{ "name", TEXT(component, component_name), .verify = config_verify_label,
		.automatic = "from id, else the host name", .example = "node-1",
		.help = "Which component of the instance it is, a DNS label: "
			"the last element of the path." },
	{ "id", TEXT(component, id), .max = LIMIT_ADDRESS_VALUE_BYTES,
		.automatic = "${berth.container_id}, where it is known",
		.example = "${berth.container_id}",
		.help = "The container's id, yarn:id in the record. It does not prove that this is "
			"the same agent: a live record of another one is left alone, see "
			"on_conflict. A persistent record, which nobody holds, is for the agent "
			"with its id." },
	{ "persistence",
		WORD(component, persistence, "container", "application-attempt", "application",
			"permanent"),
		.fallback = "container",
		.help = "How long the record is meant to live, yarn:persistence in the record." },
	{ "znode", CHOICE(component, ephemeral, "persistent", "ephemeral"),
		.automatic = "ephemeral for container, else persistent", .example = "ephemeral",
		.help = "ephemeral: the record ends with the agent's session. "
			"persistent: it stays until an agent removes it (see on_stop), "
			"and after a crash until it is purged." },
	{ "path", TEXT(component, path), .verify = config_verify_path,
		.automatic = "/users/USER/SERVICE_CLASS/INSTANCE/components/NAME",
		.example = "/services/tomcat",
		.help = "The registry path itself, in place of user, service_class, "
			"instance and name; wins over them." },
	{ "layout", CHOICE(component, hadoop_layout, "berth", "hadoop"), .fallback = "berth",
		.help = "How the path is made of user, service_class, instance and name. berth: "
			"/users/USER/SERVICE_CLASS/INSTANCE/components/NAME. hadoop: "
			"/users/USER/services/SERVICE_CLASS/INSTANCE/components/NAME, as "
			"Hadoop's code has it, where a NAME that comes from id begins with "
			"ctr- instead of container-." },
	{ "description", TEXT(component, description), .max = LIMIT_DESCRIPTION_BYTES,
		.prose = true, .automatic = "none", .example = "tomcat node",
		.help = "For people, in the record." },
	{ "on_conflict", CHOICE(component, takeover, "refuse", "takeover"), .fallback = "refuse",
		.help = "The action when another agent's live record is at the path. refuse: wait "
			"for its end. An agent's own records, also those of a session that it does "
			"not have any more, are its own by a secret in state_dir." },
	{ "on_stop", CHOICE(component, keep_on_stop, "remove", "keep"),
		.automatic = "remove for container, else keep", .example = "remove",
		.help = "The fate of the record when the agent stops. keep: a persistent "
			"record stays until an agent takes it over or it is purged." },
	{ "attribute", PAIRS(component, attributes, attribute_count), .prose = true,
		.verify_name = config_verify_attribute_name, .automatic = "none", .example = "blue",
		.help = "One more attribute NAME of the record; letters, digits, . _ : and -. "
			"weight is its share where load is balanced, 0 to 65535: 1 without, and "
			"0 takes no traffic. "
			"Hadoop reads yarn:ip, yarn:hostname and yarn:component. Without path, "
			"they have ${berth.ip}, ${berth.hostname} and the component's name when "
			"they are not given, and are left out when they are empty; a record with "
			"a path of its own has them only when they are given." },
	{ "damping", BOOLEAN(component, damping), .fallback = "yes",
		.help = "Flap damping: each time the component goes down adds a penalty of "
			"1, which halves with every half-life. Above damping_suppress it "
			"stays out until the penalty is below damping_reuse. It delays "
			"coming back, never going down." },
	{ "damping_suppress", NUMBER(component, damping_suppress), .fallback = "3",
		.help = "The penalty above which the component stays out." },
	{ "damping_reuse", NUMBER(component, damping_reuse), .fallback = "1",
		.help = "The penalty below which it may come back; less than damping_suppress." },
	{ "damping_half_life", DURATION(component, damping_half_life_ms, 10, DAYS(7)),
		.fallback = "1m", .help = "The time in which the penalty halves." },
	{ "keep_last", BOOLEAN(component, keep_last), .fallback = "no",
		.help = "Stay registered though failing, marked berth:health = failing, while no "
			"other component of the instance holds a record." },
	{ "publish_health", BOOLEAN(component, publish_health), .fallback = "no",
		.help = "Keep the attribute berth:health (passing or warning) in the record." },
	{ "slow_start", DURATION(component, slow_start_ms, 0, HOURS(24)), .fallback = "0s",
		.help = "After the component has come up, its attribute.weight, which has to be 2 "
			"at least, grows from 1 to its value in this time, in eight steps at most. "
			"Not when a session was lost, the agent was upgraded, or it finds its own "
			"record. For balancers that have no slow start of their own." },
	{ "on_change", COMMAND(component, on_change, on_change_argv), .automatic = "none",
		.example = "/usr/local/bin/announce-state",
		.help = "Run after each change of the component's state, with BERTH_COMPONENT, "
			"BERTH_STATE (registered, withdrawn, waiting, conflict, failed), BERTH_WHY "
			"and BERTH_PATH in its environment. One run at a time: states that come "
			"and go meanwhile are skipped. A run that fails, or that takes longer than "
			"hook_timeout in [agent] and is killed, is tried again after a growing "
			"pause. When the agent stops, the record goes first; then it waits for the "
			"command, as long as hook_timeout." },
	OPTIONS_END,
};

const struct config_option config_endpoint_options[] = {
	{ "component", TEXT(endpoint, component), .automatic = "the only component",
		.example = "NAME",
		.help = "The NAME of the [component] that it belongs to. "
			"Required when there are several." },
	{ "scope", CHOICE(endpoint, external, "internal", "external"), .fallback = "external",
		.help = "external: for clients. internal: for management and the service itself." },
	{ "api", TEXT(endpoint, api), .max = LIMIT_API_BYTES,
		.example = "http://example.org/api/v1",
		.help = "The name that clients look for: a URI that names the API. Required." },
	{ "protocol", TEXT(endpoint, protocol), .max = LIMIT_PROTOCOL_BYTES, .example = "REST",
		.help = "The protocol of the endpoint: REST, http, tcp, thrift, … Required." },
	{ "address_type", TEXT(endpoint, address_type), .max = LIMIT_ADDRESS_TYPE_BYTES,
		.verify = config_verify_address_type, .example = "uri",
		.help = "The form of an address: uri, hostname, inetaddress or host/port "
			"(host:port), path, zookeeper (host:port/path), zktriple (the same, as "
			"Hadoop's own code calls it) or one of your own that begins with x-. "
			"Required." },
	{ "address", NUMBERED(endpoint, addresses, address_count),
		.example = "http://${berth.hostname}:8080/",
		.help = "The address; several as address.1, address.2, … "
			"Required, unless dynamic." },
	{ "dynamic", BOOLEAN(endpoint, dynamic), .fallback = "no",
		.help = "A local process supplies the addresses over the socket; until then the "
			"endpoint is not in the record." },
	{ "hold", CHOICE(endpoint, hold_connection, "none", "connection"), .fallback = "none",
		.help = "With dynamic = yes. connection: the addresses are withdrawn when the "
			"connection closes that supplied them." },
	{ "linger", DURATION(endpoint, linger_ms, 0, HOURS(1)), .fallback = "0s",
		.help = "With hold = connection: the addresses stay this long after the connection "
			"has closed, so that a supplier that connects again and supplies them does "
			"not make the record blink." },
	{ "writer", WRITER(endpoint, writer), .automatic = "none", .example = "user:www-data",
		.help = "With dynamic = yes: user:NAME or group:NAME that may supply the "
			"addresses, besides root, the agent's own user and admin_group." },
	OPTIONS_END,
};

#define FOR_COMMAND CONFIG_FOR(CONFIG_CHECK_COMMAND)
#define FOR_TCP CONFIG_FOR(CONFIG_CHECK_TCP)
#define FOR_HTTP CONFIG_FOR(CONFIG_CHECK_HTTP)
#define FOR_TTL CONFIG_FOR(CONFIG_CHECK_TTL)
#define FOR_GRPC CONFIG_FOR(CONFIG_CHECK_GRPC)

enum { CHECK_BODY_BYTES = 8192, SERVICE_BYTES = 1024 };

const struct config_option config_check_options[] = {
	{ "component", LIST(check, components, component_count), .automatic = "the only component",
		.example = "NAME",
		.help = "The NAME of the [component] that it guards, or several: then it runs "
			"once, and its verdict counts in each of them. Required when there are "
			"several components." },
	{ "type", WORD(check, type, "command", "tcp", "http", "ttl", "grpc"),
		.verify = config_verify_check_type, .automatic = "command, when there is one",
		.example = "command",
		.help = "command: run a program, which passes by its exit status 0 and fails "
			"by any other. tcp: connect. http: ask for a status. ttl: the "
			"application reports over the socket. grpc: ask the server's "
			"grpc.health.v1.Health, which passes while it says SERVING; needs the "
			"package berth-probe." },
	{ "command", COMMAND(check, command, argv), .shell = FIELD(check, shell, bool),
		.for_types = FOR_COMMAND,
		.example = "/usr/bin/curl -fsS http://localhost:8080/health",
		.help = "The program and its arguments, split as a shell would but run without "
			"one. Words are split before ${…} is replaced: one value is one "
			"argument, whatever it holds." },
	{ "shell", BOOLEAN(check, shell), .fallback = "no", .for_types = FOR_COMMAND,
		.help = "Give command to /bin/sh -c as it is. The shell finds the variables in its "
			"environment, and what Berth knows as BERTH_HOSTNAME, BERTH_FQDN, "
			"BERTH_IP, BERTH_IP6, BERTH_IP_IFACE and BERTH_CONTAINER_ID." },
	{ "user", TEXT(check, user), .for_types = FOR_COMMAND, .verify = config_verify_user,
		.automatic = "the agent's own", .example = "nobody",
		.help = "Run the command as this user; for an agent that root has "
			"started. An agent that has become [agent] user has to be restarted "
			"for the first check of this kind." },
	{ "no_new_privs", BOOLEAN(check, no_new_privileges), .fallback = "no",
		.for_types = FOR_COMMAND,
		.help = "No set-user-ID program and no file capability gives "
			"the command more privileges." },
	{ "limit", PAIRS(check, limits, limit_count), .for_types = FOR_COMMAND,
		.verify_name = config_verify_limit_name, .verify = config_verify_limit,
		.automatic = "the agent's own", .example = "64",
		.help = "A resource limit of the command, as setrlimit(2) knows it: NAME is as, "
			"core, cpu, data, fsize, memlock, nofile, nproc or stack; the value a "
			"number, a size as 16M, or unlimited." },
	{ "cwd", FILE_NAME(check, cwd), .for_types = FOR_COMMAND, .automatic = "the agent's own",
		.example = "/srv", .help = "Run the command in this directory." },
	{ "env", PAIRS(check, environment, environment_count), .for_types = FOR_COMMAND,
		.prose = true, .verify_name = config_verify_variable_name, .automatic = "none",
		.example = "value",
		.help = "The environment variable NAME of the command, besides the agent's own and "
			"BERTH_CHECK, BERTH_COMPONENT, BERTH_PATH and BERTH_RUN." },
	{ "ignore_exit_status", BOOLEAN(check, ignore_exit_status), .fallback = "no",
		.for_types = FOR_COMMAND, .help = "Any exit status passes; match alone decides." },
	{ "warning_status", STATUS_RANGES(check, warning_status, warning_status_count, 1, 599),
		.for_types = FOR_COMMAND | FOR_HTTP, .automatic = "none", .example = "1",
		.help = "Exit statuses (1 to 255), or status codes of http (100 to 599), and "
			"ranges of them, that are a warning: the component stays registered. "
			"Plugins for Nagios use 1. None may be in expect_status, too." },
	{ "match", TEXT(check, match), .for_types = FOR_COMMAND | FOR_HTTP,
		.verify = config_verify_regex, .doubt = config_doubt_regex, .verbatim = true,
		.automatic = "none", .example = "^OK",
		.help = "A POSIX extended regular expression that a line of the output must match "
			"to pass; http: a line of the first 64 KiB of the body." },
	{ "match_invert", BOOLEAN(check, match_invert), .fallback = "no",
		.for_types = FOR_COMMAND | FOR_HTTP,
		.help = "No line of the output, or of the body, may match." },
	{ "match_ignore_case", BOOLEAN(check, match_ignore_case), .fallback = "no",
		.for_types = FOR_COMMAND | FOR_HTTP, .help = "Letters match whatever their case." },
	{ "target", TEXT(check, target), .for_types = FOR_TCP | FOR_HTTP | FOR_GRPC,
		.example = "localhost:8080",
		.help = "tcp, grpc: host:port; tcp: or unix:/path of a socket. http: "
			"http://host:port/path, http://unix:/path of a socket:/path, or "
			"https://host:port/path, which needs the package berth-probe. Required." },
	{ "service", TEXT(check, service), .for_types = FOR_GRPC, .max = SERVICE_BYTES,
		.automatic = "the server as a whole", .example = "example.v1.Greeter",
		.help = "The service whose health is asked for, by the name that the application "
			"has registered with its health service." },
	{ "tls", BOOLEAN(check, tls), .fallback = "no", .for_types = FOR_GRPC,
		.help = "Ask over TLS." },
	{ "tls_ca", FILE_NAME(check, tls_ca), .for_types = FOR_HTTP | FOR_GRPC,
		.automatic = "the system's", .example = "/etc/berth/tls/ca.pem",
		.help = "The certificates, in PEM, of the authorities that may have signed the "
			"server's. This file and the next two are read at the start and at a "
			"reload, and a changed one makes a reload take the new one." },
	{ "tls_cert", FILE_NAME(check, tls_cert), .for_types = FOR_HTTP | FOR_GRPC,
		.automatic = "none", .example = "/etc/berth/tls/check.pem",
		.help = "The certificate, with those between it and its authority, that we show to "
			"a server that asks for one; with tls_key." },
	{ "tls_key", FILE_NAME(check, tls_key), .for_types = FOR_HTTP | FOR_GRPC,
		.automatic = "none", .example = "/etc/berth/tls/check.key",
		.help = "Its private key, without a passphrase." },
	{ "tls_server_name", TEXT(check, tls_server_name), .for_types = FOR_HTTP | FOR_GRPC,
		.verify = config_verify_server_name, .automatic = "from target",
		.example = "www.example.org",
		.help = "The name that the server's certificate must have, and that the server is "
			"asked for in the handshake." },
	{ "tls_verify", BOOLEAN(check, tls_verify), .fallback = "yes",
		.for_types = FOR_HTTP | FOR_GRPC, .help = "no: any certificate will do." },
	{ "send", BYTES(check, send, send_len), .for_types = FOR_TCP, .automatic = "nothing",
		.example = "PING\\r\\n",
		.help = "Bytes to send after connecting; \\r \\n \\t \\\\ \\xHH mean bytes." },
	{ "expect", BYTES(check, expect, expect_len), .for_types = FOR_TCP, .automatic = "nothing",
		.example = "PONG",
		.help = "Bytes that the answer must contain, written as in send." },
	{ "method", TEXT(check, method), .for_types = FOR_HTTP, .fallback = "GET",
		.verify = config_verify_method,
		.help = "The request's method; when it is not written, POST with a body." },
	{ "host", TEXT(check, host), .for_types = FOR_HTTP, .verify = config_verify_host,
		.automatic = "from target", .example = "www.example.org",
		.help = "The Host header." },
	{ "header", PAIRS(check, headers, header_count), .for_types = FOR_HTTP, .verbatim = true,
		.verify_name = config_verify_header_name, .automatic = "none", .example = "value",
		.help = "A header of the request, in the place of ours if there is "
			"one. For Host there is host." },
	{ "body", TEXT(check, body), .for_types = FOR_HTTP, .max = CHECK_BODY_BYTES,
		.verbatim = true, .prose = true, .automatic = "none",
		.example = "{\"query\": \"{ ping }\"}",
		.help = "The request's body, sent as it is. Its type is header.Content-Type." },
	{ "expect_status", STATUS_RANGES(check, expect_status, expect_status_count, 100, 599),
		.for_types = FOR_HTTP, .fallback = "200-299",
		.help = "Status codes that pass, and ranges of them. Redirects are not followed." },
	{ "expect_header", PAIRS(check, expect_headers, expect_header_count), .for_types = FOR_HTTP,
		.verbatim = true, .verify_name = config_verify_field_name,
		.verify = config_verify_regex, .automatic = "none", .example = "^value$",
		.help = "The answer must have the header NAME, and its value must match this POSIX "
			"extended regular expression; a dot alone takes any value." },
	{ "interval", DURATION(check, interval_ms, 10, DAYS(7)), .fallback = "10s",
		.help = "From the start of one run to the start of the next; runs never overlap. "
			"ttl: a report must come this often." },
	{ "timeout", DURATION(check, timeout_ms, 1, DAYS(1)), .fallback = "5s",
		.help = "A run that takes longer is ended and fails. Means nothing to ttl." },
	{ "rise", INTEGER(check, rise, 1, 1000), .fallback = "1",
		.help = "So many successes in a row bring it up." },
	{ "fall", INTEGER(check, fall, 1, 1000), .fallback = "3",
		.help = "So many failures take it down: in a row, or "
			"with window within that time." },
	{ "window", DURATION(check, window_ms, 1, DAYS(7)), .automatic = "none", .example = "5m",
		.help = "Down when fall failures lie within this time, whatever came between. "
			"Longer than fall - 1 times fast_interval, or without one interval: it "
			"could never hold them." },
	{ "start_grace", DURATION(check, start_grace_ms, 0, DAYS(1)), .fallback = "0s",
		.help = "Failures do not count in this time after the start, "
			"or until the first success." },
	{ "fast_interval", DURATION(check, fast_interval_ms, 10, DAYS(7)),
		.automatic = "1s on the way up, or interval if shorter; interval on the way down",
		.example = "2s",
		.help = "The interval before the first success, and while a "
			"change of state is under way. Before the first success, unless this is "
			"longer than 1s, it is looked also 0, 50, 100, 200 and 400 ms after the "
			"start of the agent, and of its main process; failures of these looks do "
			"not count." },
	{ "down_interval", DURATION(check, down_interval_ms, 10, DAYS(7)),
		.automatic = "1s, or interval if shorter", .example = "30s",
		.help = "The interval while down." },
	{ "initial", CHOICE(check, initial_passing, "failing", "passing"), .fallback = "failing",
		.help = "failing: not registered before the first success. "
			"passing: registered at once." },
	{ "endpoints", LIST(check, endpoints, endpoint_count), .automatic = "the whole component",
		.example = "rest",
		.help = "A failure takes out only these endpoints of the component." },
	{ "warn_time", DURATION(check, warn_time_ms, 1, DAYS(1)), .automatic = "none",
		.for_types = FOR_COMMAND | FOR_TCP | FOR_HTTP | FOR_GRPC, .example = "500ms",
		.help = "A success that took longer is a warning." },
	{ "writer", WRITER(check, writer), .for_types = FOR_TTL, .automatic = "none",
		.example = "user:www-data",
		.help = "user:NAME or group:NAME that may report, besides root, the "
			"agent's own user and admin_group." },
	OPTIONS_END,
};
