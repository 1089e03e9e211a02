#include "agent/config/options.h"

#include "agent/config/doubt.h"
#include "agent/config/verify.h"
#include "agent/config/verify_dialect.h"
#include "lib/base/limits.h"
#include "lib/registry/registry.h"

/* The offset of a member, if it has this type: a row that says otherwise does not compile. */
#define FIELD(section, member, type)                                                               \
	(offsetof(struct config_##section, member) +                                               \
		_Generic(((struct config_##section *)NULL)->member, type : 0))

#define TEXT(section, member) .type = CONFIG_TEXT, .offset = FIELD(section, member, char *)
#define COMMAND(section, member, words)                                                            \
	.type = CONFIG_COMMAND, .offset = FIELD(section, member, char *),                          \
	.second = FIELD(section, words, char **)
#define FILE_NAME(section, member) .type = CONFIG_FILE, .offset = FIELD(section, member, char *)
#define BOOLEAN(section, member) .type = CONFIG_BOOLEAN, .offset = FIELD(section, member, bool)
#define CHOICE(section, member, ...)                                                               \
	.type = CONFIG_CHOICE, .offset = FIELD(section, member, bool),                             \
	.words = (const char *const[])                                                             \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}
#define WORD(section, member, ...)                                                                 \
	.type = CONFIG_WORD, .offset = FIELD(section, member, unsigned),                           \
	.words = (const char *const[])                                                             \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}
#define INTEGER(section, member, least, most)                                                      \
	.type = CONFIG_INTEGER, .offset = FIELD(section, member, int), .min = least, .max = most
#define NUMBER(section, member) .type = CONFIG_NUMBER, .offset = FIELD(section, member, double)
#define DURATION(section, member, least, most)                                                     \
	.type = CONFIG_DURATION, .offset = FIELD(section, member, int64_t), .min = least,          \
	.max = most
#define SIZE(section, member, least, most)                                                         \
	.type = CONFIG_SIZE, .offset = FIELD(section, member, size_t), .min = least, .max = most
#define MODE(section, member) .type = CONFIG_MODE, .offset = FIELD(section, member, unsigned)
#define LIST(section, member, count)                                                               \
	.type = CONFIG_LIST, .offset = FIELD(section, member, char **),                            \
	.second = FIELD(section, count, size_t)
#define NUMBERED(section, member, count)                                                           \
	.type = CONFIG_NUMBERED, .offset = FIELD(section, member, char **),                        \
	.second = FIELD(section, count, size_t)
#define PAIRS(section, member, count)                                                              \
	.type = CONFIG_PAIRS, .offset = FIELD(section, member, struct config_name_value *),        \
	.second = FIELD(section, count, size_t), .masks_secrets = true
#define BYTES(section, member, len)                                                                \
	.type = CONFIG_BYTES, .offset = FIELD(section, member, char *),                            \
	.second = FIELD(section, len, size_t)
#define STATUS_RANGES(section, member, count, least, most)                                         \
	.type = CONFIG_STATUS_RANGES,                                                              \
	.offset = FIELD(section, member, struct config_status_range *),                            \
	.second = FIELD(section, count, size_t), .min = least, .max = most
#define SIGNAL(section, member) .type = CONFIG_SIGNAL, .offset = FIELD(section, member, int)
#define USER(section, member, id)                                                                  \
	.type = CONFIG_USER, .offset = FIELD(section, member, char *),                             \
	.second = FIELD(section, id, unsigned)
#define GROUP(section, member, id)                                                                 \
	.type = CONFIG_GROUP, .offset = FIELD(section, member, char *),                            \
	.second = FIELD(section, id, unsigned)
#define WRITER(section, member)                                                                    \
	.type = CONFIG_WRITER, .offset = FIELD(section, member, struct config_writer)

#define SECONDS(count) ((int64_t)(count)*1000)
#define HOURS(count) (SECONDS(3600) * (count))
#define DAYS(count) (HOURS(24) * (count))
#define KIB(count) ((int64_t)(count)*1024)
#define GIB(count) (KIB(1024) * 1024 * (count))

enum { SOCKET_PATH_BYTES = 107 /* sockaddr_un's room, without its NUL */ };

static const struct config_option agent_options[] = {
	{ "socket", FILE_NAME(agent, socket), .fallback = BERTH_RUNSTATEDIR "/berth/berth.sock",
		.max = SOCKET_PATH_BYTES, .fixed = true,
		.help = "The Unix socket on which the agent answers. It is made again when it was "
			"removed: at a reload, and within some seconds." },
	{ "socket_mode", MODE(agent, socket_mode), .fallback = "0666", .fixed = true,
		.help = "Permissions of the socket: a user who may write to it may look up. "
			"Changing anything takes root, the agent's own user or admin_group." },
	{ "socket_group", GROUP(agent, socket_group, socket_group_id),
		.automatic = "the agent's own", .example = "users", .fixed = true,
		.help = "The group that owns the socket." },
	{ "admin_group", GROUP(agent, admin_group, admin_group_id), .automatic = "nobody",
		.example = "adm",
		.help = "Members of this group may drain, reload and run checks, beside "
			"root and the agent's own user." },
	{ "user", TEXT(agent, user), .verify = config_verify_user,
		.automatic = "the one that starts it", .example = "berth", .fixed = true,
		.help = "An agent that root has started becomes this user once its sockets are "
			"bound, and gives up its capabilities. The worker, the main process and "
			"checks without a user of their own run as this user too. It must be able "
			"to read the configuration and auth_file." },
	{ "group", GROUP(agent, group, group_id), .automatic = "that of user", .example = "berth",
		.fixed = true, .help = "The group that the agent becomes a member of with user." },
	{ "state_dir", FILE_NAME(agent, state_dir), .fallback = BERTH_STATEDIR "/berth",
		.fixed = true,
		.help = "Where the agent keeps what a restart must not lose: its registry session, "
			"the drain, the snapshot of the cache. It is not used when others than "
			"root and the agent's user can change what its path leads to." },
	{ "listen", TEXT(agent, listen), .verify = config_verify_listen, .automatic = "none",
		.example = "127.0.0.1:8930", .fixed = true,
		.help = "Also answer lookups over TCP, on this host:port; reading only, for "
			"everybody who can connect." },
	{ "log_level", WORD(agent, log_level, "error", "warn", "info", "debug"), .fallback = "info",
		.help = "The least important messages that are logged." },
	{ "log_format", CHOICE(agent, log_json, "text", "json"), .fallback = "text",
		.help = "Log lines for people, or one JSON object a line." },
	{ "drain_delay", DURATION(agent, drain_delay_ms, 0, HOURS(24)), .fallback = "0s",
		.help = "How long to wait after deregistering, before the agent exits or stops the "
			"process that it supervises, so that clients notice." },
	{ "drain_early", BOOLEAN(agent, drain_early), .fallback = "no",
		.help = "Whether drain_delay ends early, once two looks a second apart find no TCP "
			"connection on the ports of the endpoints. A port without a listener in "
			"the agent's network namespace says nothing: "
			"then the whole delay passes." },
	{ "stop_timeout", DURATION(agent, stop_timeout_ms, 0, HOURS(24)), .fallback = "5s",
		.help = "How long the supervised process has from its stop signal to SIGKILL." },
	{ "stop_signal", SIGNAL(agent, stop_signal), .fallback = "TERM",
		.help = "What asks the supervised process to stop: QUIT for nginx, INT "
			"for PostgreSQL. The kernel sends it too when the agent is "
			"killed and is not process 1." },
	{ "restart", WORD(agent, restart, "never", "on-failure", "always"), .fallback = "never",
		.help = "Whether a supervised process that ended is started "
			"again, after a growing pause." },
	{ "restart_limit", INTEGER(agent, restart_limit, 0, 1000000), .fallback = "0",
		.help = "So many restarts in a row, each after less than a minute; then the agent "
			"ends with the process. 0: any number." },
	{ "pre_start", COMMAND(agent, pre_start, pre_start_argv), .automatic = "none",
		.example = "/usr/bin/migrate --check",
		.help = "Run before each start of the supervised process; when it "
			"fails, that counts as its end." },
	{ "post_stop", COMMAND(agent, post_stop, post_stop_argv), .automatic = "none",
		.example = "/usr/bin/rm -f /run/app.lock",
		.help = "Run after each end of the supervised process, "
			"before it is started again." },
	{ "hook_timeout", DURATION(agent, hook_timeout_ms, 1, HOURS(24)), .fallback = "30s",
		.help = "How long pre_start and post_stop may take." },
	{ "max_parallel_checks", INTEGER(agent, max_parallel_checks, 1, 1024), .fallback = "16",
		.help = "Checks that may run at the same time; others wait their turn." },
	{ "max_watchers", INTEGER(agent, max_watchers, 1, 1000000), .fallback = "10000",
		.fixed = true,
		.help = "Event streams and waiting requests that may be open at the same time. One "
			"client (a user on the Unix socket, an address over TCP) gets at most "
			"three times as many as are free, so three quarters of them when it is "
			"alone; all clients over TCP get a quarter." },
	{ "heartbeat_interval", DURATION(agent, heartbeat_interval_ms, 10, HOURS(1)),
		.fallback = "15s", .help = "How often an event stream shows that it is alive." },
};

static const struct config_option registry_options[] = {
	{ "url", TEXT(registry, url), .fallback = "dir:" BERTH_STATEDIR "/berth/registry",
		.verify = config_verify_registry_url, .doubt = config_doubt_comment, .fixed = true,
		.help = "dir:/path, one directory for all agents of a machine, or "
			"zookeeper://host:port,host:port/root (without a root, /registry); "
			"zookeeper+tls:// where the client library has TLS." },
	{ "session_timeout", DURATION(registry, session_timeout_ms, 100, HOURS(1)),
		.fallback = "30s", .fixed = true,
		.help = "How long ZooKeeper keeps the records of an agent that it does not hear "
			"of. The server may shorten or lengthen it." },
	{ "auth", TEXT(registry, auth), .fallback = "none", .verify = config_verify_auth,
		.fixed = true, .help = "How to log in: none, digest (see auth_file) or sasl." },
	{ "auth_file", TEXT(registry, auth_file), .automatic = "none",
		.example = BERTH_SYSCONFDIR "/berth/registry.auth", .fixed = true,
		.help = "With auth = digest: a file that holds user:password: one that only "
			"its owner can use, or a secret that is mounted read-only. A name "
			"without a slash is that of a file in $CREDENTIALS_DIRECTORY, where "
			"systemd puts credentials. The file is read again at a reload, and "
			"when the server refuses its content." },
	{ "secure", BOOLEAN(registry, secure), .fallback = "no", .fixed = true,
		.help = "Write access control lists: everybody reads; the system accounts, we "
			"ourselves and the user below /users write. Needs a zookeeper:// registry, "
			"and auth; a directory is protected by its owner and mode." },
	{ "system_accounts", TEXT(registry, system_accounts), .may_be_empty = true,
		.fallback = REGISTRY_SYSTEM_ACCOUNTS, .verify = config_verify_accounts,
		.fixed = true,
		.help = "With secure = yes: accounts, as scheme:id, that may do everything." },
	{ "write_accessors", TEXT(registry, write_accessors), .automatic = "none",
		.example = "digest:ann:c7XqK5+wk1vYyyFPxIHfTCrhiYo=",
		.verify = config_verify_accounts, .fixed = true,
		.help = "With secure = yes: more accounts, as scheme:id, that may "
			"change what this agent writes." },
	{ "realm", TEXT(registry, realm), .automatic = "none", .example = "EXAMPLE.COM",
		.fixed = true, .help = "What is appended to system accounts that end in @." },
	{ "update_interval", DURATION(registry, update_interval_ms, 0, HOURS(1)), .fallback = "1s",
		.help = "Each record is written once in this time at most; of "
			"several changes the latest wins." },
};

static const struct config_option component_options[] = {
	{ "user", TEXT(component, user), .example = "devteam",
		.help = "Whose component it is; becomes a DNS label in the path: realm and host "
			"are dropped, letters lower-cased, others encoded, and _ gives -. A name "
			"that still is no label gets - for each odd character and a mark of its "
			"own: Joe Smith gives joe-smith-0953a823. Users who would share a home are "
			"an error in one configuration; for a name with _ or upper case berthd "
			"warns. Required, unless path is given." },
	{ "service_class", TEXT(component, service_class), .verify = config_verify_label,
		.example = "org-apache-tomcat",
		.help = "What kind of service it is, a DNS label. "
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
		.help = "The container's id, yarn:id in the record. An agent that finds its own id "
			"on a record takes it over." },
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
		.automatic = "none", .example = "tomcat node",
		.help = "For people, in the record." },
	{ "on_conflict", CHOICE(component, takeover, "refuse", "takeover"), .fallback = "refuse",
		.help = "What to do when another container's live record is at the path." },
	{ "on_stop", CHOICE(component, keep_on_stop, "remove", "keep"),
		.automatic = "remove for container, else keep", .example = "remove",
		.help = "What becomes of the record when the agent stops. keep: a persistent "
			"record stays until an agent takes it over or it is purged." },
	{ "attribute", PAIRS(component, attributes, attribute_count),
		.verify_name = config_verify_attribute_name, .automatic = "none", .example = "blue",
		.help = "One more attribute NAME of the record; letters, digits, . _ : and -. "
			"Hadoop reads yarn:ip, yarn:hostname and yarn:component, which have "
			"${berth.ip}, ${berth.hostname} and the component's name when they are not "
			"given, and are left out when they are empty." },
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
};

static const struct config_option endpoint_options[] = {
	{ "component", TEXT(endpoint, component), .automatic = "the only component",
		.example = "NAME",
		.help = "The NAME of the [component] that it belongs to. "
			"Required when there are several." },
	{ "scope", CHOICE(endpoint, external, "internal", "external"), .fallback = "external",
		.help = "external: for clients. internal: for management and the service itself." },
	{ "api", TEXT(endpoint, api), .max = LIMIT_API_BYTES,
		.example = "http://example.org/api/v1",
		.help = "What clients look for: a URI that names the API. Required." },
	{ "protocol", TEXT(endpoint, protocol), .max = LIMIT_PROTOCOL_BYTES, .example = "REST",
		.help = "What is spoken there: REST, http, tcp, thrift, … Required." },
	{ "address_type", TEXT(endpoint, address_type), .max = LIMIT_ADDRESS_TYPE_BYTES,
		.verify = config_verify_address_type, .example = "uri",
		.help = "What an address is: uri, hostname, inetaddress or host/port "
			"(host:port), path, zookeeper (host:port/path) or one of your own "
			"that begins with x-. Required." },
	{ "address", NUMBERED(endpoint, addresses, address_count), .doubt = config_doubt_comment,
		.example = "http://${berth.hostname}:8080/",
		.help = "The address; several as address.1, address.2, … "
			"Required, unless dynamic." },
	{ "dynamic", BOOLEAN(endpoint, dynamic), .fallback = "no",
		.help = "A local process supplies the addresses over the socket; until then the "
			"endpoint is not in the record." },
	{ "hold", CHOICE(endpoint, hold_connection, "none", "connection"), .fallback = "none",
		.help = "With dynamic = yes. connection: the addresses are withdrawn when the "
			"connection closes that supplied them." },
	{ "writer", WRITER(endpoint, writer), .automatic = "none", .example = "user:www-data",
		.help = "With dynamic = yes: user:NAME or group:NAME that may supply the "
			"addresses, beside root, the agent's own user and admin_group." },
};

#define FOR_COMMAND CONFIG_FOR(CHECK_COMMAND)
#define FOR_TCP CONFIG_FOR(CHECK_TCP)
#define FOR_HTTP CONFIG_FOR(CHECK_HTTP)
#define FOR_TTL CONFIG_FOR(CHECK_TTL)

static const struct config_option check_options[] = {
	{ "component", TEXT(check, component), .automatic = "the only component", .example = "NAME",
		.help = "The NAME of the [component] that it guards. "
			"Required when there are several." },
	{ "type", WORD(check, type, "command", "tcp", "http", "ttl"),
		.automatic = "command, when there is one", .example = "command",
		.help = "command: run a program, which passes by its exit status 0 and fails "
			"by any other. tcp: connect. http: ask for a status. ttl: the "
			"application reports over the socket." },
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
			"started. One that has become [agent] user has to be restarted "
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
		.verify_name = config_verify_variable_name, .automatic = "none", .example = "value",
		.help = "The environment variable NAME of the command, beside the agent's own and "
			"BERTH_CHECK, BERTH_COMPONENT, BERTH_PATH and BERTH_RUN." },
	{ "ignore_exit_status", BOOLEAN(check, ignore_exit_status), .fallback = "no",
		.for_types = FOR_COMMAND, .help = "Any exit status passes; match alone decides." },
	{ "warning_status", STATUS_RANGES(check, warning_status, warning_status_count, 1, 255),
		.for_types = FOR_COMMAND, .automatic = "none", .example = "1",
		.help = "Exit statuses, and ranges of them, that are a warning: the component "
			"stays registered. Plugins for Nagios use 1." },
	{ "match", TEXT(check, match), .for_types = FOR_COMMAND | FOR_HTTP,
		.verify = config_verify_regex, .doubt = config_doubt_regex, .automatic = "none",
		.example = "^OK",
		.help = "A POSIX extended regular expression that a line of the output must match "
			"to pass; http: a line of the first 64 KiB of the body." },
	{ "match_invert", BOOLEAN(check, match_invert), .fallback = "no",
		.for_types = FOR_COMMAND | FOR_HTTP,
		.help = "No line of the output, or of the body, may match." },
	{ "match_ignore_case", BOOLEAN(check, match_ignore_case), .fallback = "no",
		.for_types = FOR_COMMAND | FOR_HTTP, .help = "Letters match whatever their case." },
	{ "target", TEXT(check, target), .for_types = FOR_TCP | FOR_HTTP,
		.example = "localhost:8080",
		.help = "tcp: host:port, or unix:/path of a socket. http: http://host:port/path, "
			"or http://unix:/path of a socket:/path; for "
			"https use a command. Required." },
	{ "send", BYTES(check, send, send_len), .for_types = FOR_TCP, .automatic = "nothing",
		.example = "PING\\r\\n",
		.help = "What to send after connecting; \\r \\n \\t \\\\ \\xHH stand for bytes." },
	{ "expect", BYTES(check, expect, expect_len), .for_types = FOR_TCP, .automatic = "nothing",
		.example = "PONG", .help = "What the answer must contain, written as in send." },
	{ "method", TEXT(check, method), .for_types = FOR_HTTP, .fallback = "GET",
		.verify = config_verify_method, .help = "The request's method." },
	{ "host", TEXT(check, host), .for_types = FOR_HTTP, .verify = config_verify_host,
		.automatic = "from target", .example = "www.example.org",
		.help = "The Host header." },
	{ "header", PAIRS(check, headers, header_count), .for_types = FOR_HTTP,
		.verify_name = config_verify_header_name, .automatic = "none", .example = "value",
		.help = "A header of the request, in the place of ours if there is "
			"one. For Host there is host." },
	{ "expect_status", STATUS_RANGES(check, expect_status, expect_status_count, 100, 599),
		.for_types = FOR_HTTP, .fallback = "200-299",
		.help = "Status codes that pass, and ranges of them. Redirects are not followed." },
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
			"Longer than fall - 1 times fast_interval, or it could never hold them." },
	{ "start_grace", DURATION(check, start_grace_ms, 0, DAYS(1)), .fallback = "0s",
		.help = "Failures do not count in this time after the start, "
			"or until the first success." },
	{ "fast_interval", DURATION(check, fast_interval_ms, 10, DAYS(7)), .automatic = "interval",
		.example = "2s", .help = "The interval while a change of state is under way." },
	{ "down_interval", DURATION(check, down_interval_ms, 10, DAYS(7)), .automatic = "interval",
		.example = "30s", .help = "The interval while down." },
	{ "initial", CHOICE(check, initial_passing, "failing", "passing"), .fallback = "failing",
		.help = "failing: not registered before the first success. "
			"passing: registered at once." },
	{ "endpoints", LIST(check, endpoints, endpoint_count), .automatic = "the whole component",
		.example = "rest",
		.help = "What failing takes out: only these endpoints of the component." },
	{ "warn_time", DURATION(check, warn_time_ms, 1, DAYS(1)), .automatic = "none",
		.for_types = FOR_COMMAND | FOR_TCP | FOR_HTTP, .example = "500ms",
		.help = "A success that took longer is a warning." },
	{ "writer", WRITER(check, writer), .for_types = FOR_TTL, .automatic = "none",
		.example = "user:www-data",
		.help = "user:NAME or group:NAME that may report, beside root, the "
			"agent's own user and admin_group." },
};

#define FOR_REGISTRAR CONFIG_FOR(0)
#define FOR_SERVERSET CONFIG_FOR(1)
#define FOR_CURATOR CONFIG_FOR(2)
#define FOR_SPRING CONFIG_FOR(3)
#define FOR_NERVE CONFIG_FOR(4)

static const struct config_option dialect_options[] = {
	{ "component", TEXT(dialect, component), .automatic = "the only component",
		.example = "NAME",
		.help = "The NAME of the [component] that is registered so, too. "
			"Required when there are several." },
	{ "type", WORD(dialect, word, "registrar", "serverset", "curator", "spring", "nerve"),
		.example = "registrar",
		.help = "registrar: host and service records, which Binder answers DNS from. "
			"serverset: members as Finagle and Aurora read them. curator: x-discovery. "
			"spring: Spring Cloud ZooKeeper. nerve: SmartStack. Required." },
	{ "endpoint", TEXT(dialect, endpoint), .automatic = "the first external one",
		.example = "rest", .help = "The [endpoint] that gives host and port." },
	{ "domain", TEXT(dialect, domain), .for_types = FOR_REGISTRAR, .max = 253,
		.verify = config_verify_dns_name, .example = "web.example.org",
		.help = "The service's domain name. Required." },
	{ "host_name", TEXT(dialect, host_name), .for_types = FOR_REGISTRAR, .max = 63,
		.verify = config_verify_foreign_name, .automatic = "the host's name",
		.example = "web-1", .help = "The name of the host record below the domain." },
	{ "aliases", LIST(dialect, aliases, alias_count), .for_types = FOR_REGISTRAR,
		.verify = config_verify_dns_name, .automatic = "none",
		.example = "web-1.example.org",
		.help = "Further domain names that get the host record, too." },
	{ "host_type", TEXT(dialect, host_type), .for_types = FOR_REGISTRAR, .max = 63,
		.verify = config_verify_host_type, .example = "load_balancer",
		.help = "The type of the host record. Binder answers for load_balancer, "
			"moray_host, redis_host, ops_host and rr_host as members of a service, for "
			"host and db_host directly only. Required." },
	{ "address", TEXT(dialect, address), .for_types = FOR_REGISTRAR,
		.verify = config_verify_ipv4, .automatic = "the endpoint's, or ${berth.ip}",
		.example = "${berth.ip}", .help = "The IPv4 address in the host record." },
	{ "ttl", TEXT(dialect, ttl), .for_types = FOR_REGISTRAR, .verify = config_verify_count,
		.automatic = "none", .example = "30",
		.help = "Seconds that resolvers may keep the host's address." },
	{ "ports", LIST(dialect, ports, port_count), .for_types = FOR_REGISTRAR,
		.verify = config_verify_port, .automatic = "port", .example = "8080, 8081",
		.help = "The ports in the host record, one SRV answer for each." },
	{ "service", TEXT(dialect, service), .for_types = FOR_REGISTRAR | FOR_CURATOR | FOR_SPRING,
		.max = 255, .verify = config_verify_foreign_name, .automatic = "none",
		.example = "http",
		.help = "registrar: the service that SRV questions name, http for "
			"_http; without it there is no service record. curator, "
			"spring: the service's name, required." },
	{ "protocol", TEXT(dialect, protocol), .for_types = FOR_REGISTRAR, .fallback = "tcp",
		.max = 15, .verify = config_verify_host_type,
		.help = "The protocol that SRV questions name, tcp for _tcp." },
	{ "port", TEXT(dialect, port), .for_types = FOR_REGISTRAR, .verify = config_verify_port,
		.automatic = "the endpoint's", .example = "8080", .help = "The service's port." },
	{ "service_ttl", TEXT(dialect, service_ttl), .for_types = FOR_REGISTRAR,
		.verify = config_verify_count, .automatic = "60", .example = "60",
		.help = "Seconds that resolvers may keep the list of the service's instances." },
	{ "path", TEXT(dialect, path), .for_types = FOR_SERVERSET | FOR_NERVE,
		.verify = config_verify_foreign_path, .example = "/aurora/jobs/www",
		.help = "The node whose children are the members, from the "
			"server's own root. Required." },
	{ "shard", TEXT(dialect, shard), .for_types = FOR_SERVERSET, .verify = config_verify_count,
		.automatic = "none", .example = "0", .help = "The member's shard." },
	{ "additional", LIST(dialect, additional, additional_count), .for_types = FOR_SERVERSET,
		.automatic = "none", .example = "admin",
		.help = "Endpoints of the component that go into "
			"additionalEndpoints, by their NAMEs." },
	{ "base", TEXT(dialect, base), .for_types = FOR_CURATOR | FOR_SPRING,
		.verify = config_verify_foreign_path, .automatic = "/services, for spring",
		.example = "/services",
		.help = "The node below which the services are, from the server's own "
			"root. Required for curator." },
	{ "instance_id", TEXT(dialect, instance_id),
		.for_types = FOR_CURATOR | FOR_SPRING | FOR_NERVE, .max = 255,
		.verify = config_verify_foreign_name, .automatic = "made of the component's path",
		.example = "web-1",
		.help = "The instance's name, which no other instance may have." },
	{ "ssl_endpoint", TEXT(dialect, ssl_endpoint), .for_types = FOR_CURATOR | FOR_SPRING,
		.automatic = "none", .example = "https",
		.help = "The [endpoint] whose port is the sslPort." },
	{ "payload", TEXT(dialect, payload), .for_types = FOR_CURATOR, .verify = config_verify_json,
		.automatic = "null", .example = "{\"version\":1}",
		.help = "The payload, as JSON." },
	{ "metadata", PAIRS(dialect, metadata, metadata_count),
		.for_types = FOR_SERVERSET | FOR_SPRING, .verify_name = config_verify_foreign_name,
		.automatic = "none", .example = "value", .help = "One entry of the metadata." },
	{ "weight", TEXT(dialect, weight), .for_types = FOR_NERVE, .verify = config_verify_count,
		.automatic = "none", .example = "2", .help = "The instance's weight." },
	{ "haproxy_server_options", TEXT(dialect, haproxy_server_options), .for_types = FOR_NERVE,
		.automatic = "none", .example = "check inter 2s",
		.help = "What synapse appends to the instance's server line." },
	{ "labels", PAIRS(dialect, labels, label_count), .for_types = FOR_NERVE,
		.verify_name = config_verify_foreign_name, .automatic = "none", .example = "value",
		.help = "One label." },
	{ "path_encoding", BOOLEAN(dialect, path_encoding), .fallback = "no",
		.for_types = FOR_NERVE,
		.help = "Put the data into the node's name, so that a list of names is enough." },
};

static const struct config_option cache_options[] = {
	{ "max_size", SIZE(cache, max_size_bytes, KIB(1), GIB(64)), .fallback = "16M",
		.help = "The memory for cached answers; beyond it the least "
			"recently used are dropped." },
	{ "warm", LIST(cache, warm, warm_count), .verify = config_verify_warm,
		.automatic = "nothing", .example = "/services, /users/devteam/**",
		.help = "Paths that are loaded and watched from the start; with a "
			"trailing /** all below them." },
	{ "confirm", DURATION(cache, confirm_ms, 1, DAYS(1)),
		.automatic = "a third of session_timeout", .example = "5s",
		.help = "How long an answer counts as live when nothing was heard from the "
			"registry. Past half of it, while clients ask, one cheap read confirms all "
			"answers; without an answer to that they are stale." },
	{ "max_stale", DURATION(cache, max_stale_ms, 1, DAYS(365)), .automatic = "no limit",
		.example = "1h",
		.help = "While the registry is away, answers older than "
			"this are not served any more." },
	{ "resync", DURATION(cache, resync_ms, 10, DAYS(7)), .fallback = "10m",
		.help = "How often everything is read again, against "
			"lost notifications; jittered." },
	{ "snapshot", BOOLEAN(cache, snapshot), .fallback = "yes",
		.help = "Keep the cache in state_dir, so that an agent started "
			"during an outage can answer." },
};

static const struct config_option dns_options[] = {
	{ "listen", LIST(dns, listen, listen_count), .verify = config_verify_dns_address,
		.fixed = true, .automatic = "nothing", .example = "127.0.0.1:53, [::1]:53",
		.help = "Where names are served over UDP and TCP: numeric addresses with "
			"ports. Resolvers ask port 53." },
	{ "domain", TEXT(dns, domain), .max = 200, .fallback = "berth", .fixed = true,
		.verify = config_verify_domain, .help = "What the names of this registry end in." },
	{ "ttl", DURATION(dns, ttl_ms, 0, HOURS(24)), .fallback = "1s",
		.help = "How long a resolver may keep a live answer; whole seconds." },
	{ "stale_ttl", DURATION(dns, stale_ttl_ms, 1000, SECONDS(30)), .fallback = "30s",
		.help = "How long it may keep an answer that is given while the registry is away. "
			"Such an answer carries the extended error 3." },
	{ "forward", LIST(dns, forward, forward_count), .verify = config_verify_dns_forward,
		.automatic = "none", .example = "system",
		.help = "Who answers for names outside the domain: none, which refuses them, so "
			"that resolvers ask their next server; system, the servers of "
			"/etc/resolv.conf; or ADDRESS:PORT, several of them. They are also asked "
			"for the name that an alias leads to." },
};

static const struct config_option output_options[] = {
	{ "from", TEXT(output, from), .verify = config_verify_warm,
		.example = "/users/devteam/web/prod/components",
		.help = "The path that the output follows: its record and its direct children; "
			"with a trailing /** everything below. Required." },
	{ "api", TEXT(output, api), .max = LIMIT_API_BYTES, .automatic = "any",
		.example = "http://example.org/api/v1", .help = "Only endpoints of this api." },
	{ "protocol", TEXT(output, protocol), .max = LIMIT_PROTOCOL_BYTES, .automatic = "any",
		.example = "http", .help = "Only endpoints of this protocol." },
	{ "scope", TEXT(output, scope), .verify = config_verify_scope, .automatic = "any",
		.example = "external", .help = "Only external or only internal endpoints." },
	{ "format",
		WORD(output, format, "lines", "json", "prometheus", "envoy", "haproxy", "nginx",
			"hosts", "env", "haproxy-runtime", "render"),
		.automatic = "render, when there is one", .example = "haproxy",
		.help = "What the file holds. lines: an address a line. json: an array of "
			"endpoints. prometheus: targets for file_sd_configs. envoy: a file for "
			"EDS. haproxy: server lines, as a whole backend section when backend names "
			"one. nginx: server lines of an upstream block. hosts: lines of "
			"/etc/hosts. env: variables for a shell. haproxy-runtime is no file: the "
			"agent adds and removes the servers of a running HAProxy over its socket. "
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
		.help = "The backend section of HAProxy: required with haproxy-runtime, whose "
			"servers are all Berth's, but for those whose names begin with static." },
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
};

static const struct config_option import_options[] = {
	{ "type",
		WORD(import, type, "registrar", "serverset", "curator", "spring", "nerve", "mesos"),
		.example = "serverset",
		.help = "How the nodes are written. registrar: by Joyent Registrar. "
			"serverset: by Finagle and Aurora. curator, spring: by Curator's "
			"x-discovery and Spring Cloud. nerve: by SmartStack. mesos: by the "
			"masters of a Mesos cluster. Required." },
	{ "from", TEXT(import, from), .verify = config_verify_foreign_path,
		.example = "/discovery/production/web",
		.help = "The node whose children are the members of the group: a path in "
			"ZooKeeper's own tree, not below the registry's root; with a "
			"directory below its root. Required." },
	{ "as", TEXT(import, as), .verify = config_verify_import_path, .example = "/services/web",
		.help = "The registry path below which the members are seen as records, for "
			"reading only; what else the registry holds there is hidden. Required." },
};

#define OPTIONS(list) .options = list, .option_count = sizeof(list) / sizeof((list)[0])

const struct config_section_type config_sections[CONFIG_SECTION_COUNT] = {
	[CONFIG_AGENT] = { "agent", CONFIG_UNNAMED, "", "The agent itself.", OPTIONS(agent_options),
		.offset = offsetof(struct config, agent) },
	[CONFIG_REGISTRY] = { "registry", CONFIG_UNNAMED, "", "Where the records are kept.",
		OPTIONS(registry_options), .offset = offsetof(struct config, registry) },
	[CONFIG_COMPONENT] = { "component", CONFIG_MAY_BE_NAMED, "",
		"What is registered. Several are written [component NAME]; their endpoints and "
		"checks then say component = NAME. Without any the agent only answers lookups.",
		OPTIONS(component_options) },
	[CONFIG_ENDPOINT] = { "endpoint", CONFIG_NAMED, "rest",
		"An address of the component, in its record.", OPTIONS(endpoint_options) },
	[CONFIG_CHECK] = { "check", CONFIG_NAMED, "http",
		"A health check. All checks of a component must be up for it to be registered.",
		OPTIONS(check_options) },
	[CONFIG_DIALECT] = { "dialect", CONFIG_NAMED, "binder",
		"Another naming scheme on the same ZooKeeper in which the component is registered, "
		"beside its record, for the clients of that scheme; see docs/DIALECTS.md. With a "
		"registry in a directory the nodes are below its root.",
		OPTIONS(dialect_options) },
	[CONFIG_CACHE] = { "cache", CONFIG_UNNAMED, "", "The lookup cache.", OPTIONS(cache_options),
		.offset = offsetof(struct config, cache) },
	[CONFIG_DNS] = { "dns", CONFIG_UNNAMED, "",
		"Names for programs: a DNS server on this machine, fed from the cache.",
		OPTIONS(dns_options), .offset = offsetof(struct config, dns) },
	[CONFIG_OUTPUT] = { "output", CONFIG_NAMED, "web",
		"A file, or a backend of HAProxy, that follows the registry. It is written as a "
		"whole or not at all, and only while the registry confirms what the agent knows: "
		"an outage changes nothing. FOLLOW.md has recipes.",
		OPTIONS(output_options) },
	[CONFIG_IMPORT] = { "import", CONFIG_NAMED, "finagle",
		"A group of nodes that programs of another naming scheme write, seen as records "
		"below a path of this registry; docs/DIALECTS.md describes the schemes.",
		OPTIONS(import_options) },
};
