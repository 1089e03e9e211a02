/*
 * The options of the agent itself: [agent], [registry], [cache], [dns] and [xds].
 */
#include "agent/config/option_row.h"

#include "agent/config/doubt.h"
#include "agent/config/verify.h"
#include "lib/registry/registry.h"

const struct config_option config_agent_options[] = {
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
		.help = "Members of this group may drain, reload and run checks, besides "
			"root and the agent's own user." },
	{ "user", TEXT(agent, user), .verify = config_verify_user,
		.automatic = "the user that starts it", .example = "berth", .fixed = true,
		.help = "An agent that root has started becomes this user once its sockets are "
			"bound, and gives up its capabilities. The worker, the main process and "
			"checks without a user of their own run as this user too. It must be able "
			"to read the configuration and auth_file. Where others than root can "
			"write, the socket and missing directories are made with this user's "
			"rights." },
	{ "group", GROUP(agent, group, group_id), .automatic = "that of user", .example = "berth",
		.fixed = true, .help = "The group that the agent becomes a member of with user." },
	{ "state_dir", FILE_NAME(agent, state_dir), .fallback = BERTH_STATEDIR "/berth",
		.fixed = true,
		.help = "Where the agent keeps what a restart must not lose: its registry session, "
			"the secret by which it knows its own records, "
			"the drain, the snapshot of the cache. It is not used when others than "
			"root and the agent's user can change what its path leads to." },
	{ "listen", TEXT(agent, listen), .verify = config_verify_listen, .automatic = "none",
		.example = "127.0.0.1:8930", .fixed = true, .waits = true,
		.help = "Also answer lookups over TCP, on this host:port; reading only, for "
			"everybody who can connect." },
	{ "listen_hosts", LIST(agent, listen_hosts, listen_host_count),
		.verify = config_verify_host_name, .automatic = "none",
		.example = "web.example.org, proxy",
		.help = "More names by which clients may reach listen; * is every name. Always "
			"taken are addresses, localhost, this machine's host name with and "
			"without its domain, and the name in listen. A request that names another "
			"Host gets 421, so that no web page reads the answers by a name of its "
			"own." },
	{ "zone", TEXT(agent, zone), .verify = config_verify_zone, .automatic = "none",
		.example = "eu-west/a", .fixed = true,
		.help = "Where this agent runs: region/zone/..., from the largest part on. Each "
			"component's record says it in the attribute berth:zone, clients of "
			"[xds] get near endpoints first, and look-ups with ?near=self are ordered "
			"by it." },
	{ "failover", LIST(agent, failover, failover_count), .verify = config_verify_root,
		.automatic = "none", .example = "/net/eu2, /net/us1", .fixed = true,
		.help = "Further paths for look-ups, the best first. Where nothing offers what is "
			"asked for, a look-up of endpoints or targets with ?near=, and any name, "
			"is answered from the same path below the first of these, and so on: "
			"/users/joe/web/prod from /net/eu2/users/joe/web/prod. A path that cannot "
			"be confirmed neither comes in nor counts as empty. Outputs and [xds] have "
			"a key of their own." },
	{ "failover_hold", DURATION(agent, failover_hold_ms, 0, HOURS(24)), .fallback = "10s",
		.fixed = true,
		.help = "How long the nearer paths must have something before a further one goes "
			"out of the answers again." },
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
		.help = "The signal that asks the supervised process to stop: QUIT for nginx, INT "
			"for PostgreSQL. The kernel sends it too when the agent is "
			"killed and is not process 1." },
	{ "stop_on", LIST(agent, stop_on, stop_on_count), .verify = config_verify_stop_on,
		.fallback = "TERM, INT",
		.help = "The signals that stop an agent with a main process in order: its records "
			"go first, then drain_delay passes, then the process gets stop_signal. "
			"Images "
			"FROM nginx or php-fpm inherit STOPSIGNAL SIGQUIT, from httpd SIGWINCH, "
			"from haproxy SIGUSR1: such an image needs STOPSIGNAL SIGTERM, or its "
			"signal here. HUP and USR2 keep their meanings and cannot be here. QUIT "
			"leaves the session to a successor unless it is here, or nothing could be "
			"left: without a state directory and on a dir registry it stops in order, "
			"too. All others that can be caught, such as USR1 and WINCH, go to the "
			"process." },
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
		.help = "How long pre_start, post_stop and a component's on_change may take." },
	{ "max_parallel_checks", INTEGER(agent, max_parallel_checks, 1, 1024), .fallback = "16",
		.help = "Commands of checks that may run at the same time; others wait their "
			"turn. Those of one component get three times as many places as are free, "
			"and all only where no other has commands: commands that hang do not hold "
			"up other components. Checks that connect need no place." },
	{ "max_watchers", INTEGER(agent, max_watchers, 1, 1000000), .fallback = "10000",
		.fixed = true,
		.help = "Event streams and waiting requests that may be open at the same time. One "
			"client (a user on the Unix socket, an address over TCP) gets at most "
			"three times as many as are free, so three quarters of them when it is "
			"alone; all clients over TCP get a quarter." },
	{ "heartbeat_interval", DURATION(agent, heartbeat_interval_ms, 10, HOURS(1)),
		.fallback = "15s", .help = "How often an event stream shows that it is alive." },
	{ "shared", BOOLEAN(agent, shared), .fallback = "yes",
		.help = "Whether local clients may map the answers to their lookups (GET "
			"/v1/shared), which they then read without a request. The memory, at most "
			"half of max_size in [cache], is taken when a client first asks for it." },
	OPTIONS_END,
};

const struct config_option config_listen_options[] = {
	{ "address", TEXT(listen, address), .verify = config_verify_listen, .automatic = "none",
		.example = "0.0.0.0:8931", .fixed = true, .waits = true,
		.help = "host:port. It must be given." },
	{ "under", LIST(listen, under, under_count), .verify = config_verify_tree,
		.automatic = "nothing", .example = "/users/joe/**",
		.help = "The paths that it shows, each with all that is below it. Of others it "
			"says that they are not there, whether they are or not." },
	{ "scope", WORD(listen, scope, "external", "all"), .fallback = "external",
		.help = "external: records without their internal endpoints. all: all of it." },
	OPTIONS_END,
};

const struct config_option config_registry_options[] = {
	{ "url", TEXT(registry, url), .fallback = "dir:" BERTH_STATEDIR "/berth/registry",
		.verify = config_verify_registry_url, .fixed = true,
		.help = "dir:/path, one directory for all agents of a machine, or "
			"zookeeper://host:port,host:port/root (without a root, /registry); "
			"zookeeper+tls:// where the client library has TLS; or host:/path in a "
			"container, where the host's agent has mounted its directory: records go "
			"there, look-ups to that agent. The root is any path "
			"of ZooKeeper, such as /yarnRegistry: the rules for names begin "
			"below it." },
	{ "session_timeout", DURATION(registry, session_timeout_ms, 100, HOURS(1)),
		.fallback = "30s", .fixed = true,
		.help = "How long ZooKeeper keeps the records of an agent that it does not hear "
			"of; those of a frozen agent, at most twice as long. The server may "
			"shorten or lengthen it." },
	{ "auth", TEXT(registry, auth), .fallback = "none", .verify = config_verify_auth,
		.fixed = true, .help = "How to log in: none, digest (see auth_file) or sasl." },
	{ "auth_file", TEXT(registry, auth_file), .automatic = "none",
		.example = BERTH_SYSCONFDIR "/berth/registry.auth", .fixed = true,
		.help = "With auth = digest: a file that holds user:password. Only its "
			"owner can use it, unless it is a secret that is mounted read-only. A "
			"name without a slash is that of a file in $CREDENTIALS_DIRECTORY, where "
			"systemd puts credentials. The file is read again at a reload, and "
			"when the server refuses its content." },
	{ "tls_ca", FILE_NAME(registry, tls_ca), .fallback = BERTH_SYSCONFDIR "/berth/tls/ca.pem",
		.fixed = true,
		.help = "With zookeeper+tls://: the authorities that may have signed a server's "
			"certificate, in PEM." },
	{ "tls_cert", FILE_NAME(registry, tls_cert),
		.automatic = BERTH_SYSCONFDIR "/berth/tls/cert.pem, if it is there",
		.example = BERTH_SYSCONFDIR "/berth/tls/cert.pem", .fixed = true,
		.help = "With zookeeper+tls://: the agent's own certificate, which servers ask for "
			"unless they have clientAuth = none." },
	{ "tls_key", FILE_NAME(registry, tls_key),
		.fallback = BERTH_SYSCONFDIR "/berth/tls/key.pem", .fixed = true,
		.help = "The key of tls_cert, in PEM." },
	{ "tls_passphrase_file", FILE_NAME(registry, tls_passphrase_file),
		.automatic = "none: the key is not encrypted",
		.example = BERTH_SYSCONFDIR "/berth/tls/passphrase", .fixed = true,
		.help = "A file that holds the passphrase of tls_key. Only its owner can "
			"use it, unless it is a secret that is mounted read-only. It holds no "
			"comma." },
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
		.fixed = true, .help = "The realm that completes system accounts that end in @." },
	{ "update_interval", DURATION(registry, update_interval_ms, 0, HOURS(1)), .fallback = "1s",
		.help = "Each record is written once in this time at most; of "
			"several changes the latest wins." },
	OPTIONS_END,
};

const struct config_option config_further_options[] = {
	{ "url", TEXT(registry, url), .verify = config_verify_registry_url, .automatic = "none",
		.example = "zookeeper://zk.east.example.org:2181/registry",
		.help = "Where it is, as in [registry]: zookeeper://, zookeeper+tls:// or dir:. It "
			"must be given." },
	{ "session_timeout", DURATION(registry, session_timeout_ms, 100, HOURS(1)),
		.fallback = "30s",
		.help = "As in [registry]: a server that was not heard for a third of it is "
			"asked, and answers are stale unless it says something, where confirm in "
			"[cache] does not say how long." },
	{ "auth", TEXT(registry, auth), .fallback = "none", .verify = config_verify_auth,
		.help = "How to log in there: none, digest (see auth_file) or sasl." },
	{ "auth_file", TEXT(registry, auth_file), .automatic = "none",
		.example = BERTH_SYSCONFDIR "/berth/east.auth",
		.help = "With auth = digest: a file that holds user:password, as in [registry]." },
	{ "tls_ca", FILE_NAME(registry, tls_ca), .fallback = BERTH_SYSCONFDIR "/berth/tls/ca.pem",
		.help = "With zookeeper+tls://: the authorities that may have signed a server's "
			"certificate there, in PEM." },
	{ "tls_cert", FILE_NAME(registry, tls_cert),
		.automatic = BERTH_SYSCONFDIR "/berth/tls/cert.pem, if it is there",
		.example = BERTH_SYSCONFDIR "/berth/tls/east-cert.pem",
		.help = "With zookeeper+tls://: the certificate that the agent shows there." },
	{ "tls_key", FILE_NAME(registry, tls_key),
		.fallback = BERTH_SYSCONFDIR "/berth/tls/key.pem",
		.help = "The key of tls_cert, in PEM." },
	{ "tls_passphrase_file", FILE_NAME(registry, tls_passphrase_file),
		.automatic = "none: the key is not encrypted",
		.example = BERTH_SYSCONFDIR "/berth/tls/east-passphrase",
		.help = "A file that holds the passphrase of tls_key, as in [registry]." },
	OPTIONS_END,
};

const struct config_option config_cache_options[] = {
	{ "max_size", SIZE(cache, max_size_bytes, KIB(1), GIB(64)), .fallback = "16M",
		.help = "The memory for cached answers; beyond it the least "
			"recently used are dropped." },
	{ "warm", LIST(cache, warm, warm_count), .verify = config_verify_warm,
		.automatic = "nothing", .example = "/services, /users/devteam/**",
		.help = "Paths that are loaded and watched from the start; with a "
			"trailing /** all below them. While a program reads the shared "
			"memory, their answers are there before it asks." },
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
	OPTIONS_END,
};

const struct config_option config_xds_options[] = {
	{ "listen", TEXT(xds, listen), .verify = config_verify_xds_listen, .automatic = "nothing",
		.example = BERTH_RUNSTATEDIR "/berth/xds.sock", .fixed = true, .waits = true,
		.help = "Where clients come: the path of a Unix socket, or host:port. The socket's "
			"permissions are those of the agent's. Over TCP everybody who can connect "
			"reads all that the agent can look up." },
	{ "serve", LIST(xds, serve, serve_count), .verify = config_verify_warm,
		.fallback = "/users/**", .fixed = true,
		.help = "All clusters and listeners, for a client that does not name any: those "
			"of these paths, with a trailing /** of all below." },
	{ "prefer", WORD(xds, prefer, "zone", "none"), .fallback = "zone", .fixed = true,
		.help = "zone: endpoints have priorities by nearness to zone in [agent], when it "
			"is set. none: all have the same." },
	{ "failover", LIST(xds, failover, failover_count), .verify = config_verify_root,
		.automatic = "none", .example = "/net/eu2, /net/us1", .fixed = true,
		.help = "Further paths, the best first. Below each of them is what a name means, "
			"too: with /net/eu2 the instance /users/joe/web/prod is also "
			"/net/eu2/users/joe/web/prod. Its endpoints come in, with lower priority, "
			"while fewer than min_instances records before it have one. A path that "
			"cannot be confirmed neither comes in nor counts as empty." },
	{ "failover_hold", DURATION(xds, failover_hold_ms, 0, HOURS(24)), .fallback = "10s",
		.fixed = true,
		.help = "How long there must be enough before a further path goes out again." },
	{ "min_instances", INTEGER(xds, min_instances, 0, 1000000), .fallback = "1", .fixed = true,
		.help = "A set of endpoints with fewer records stays as it was. 0: it may become "
			"empty." },
	OPTIONS_END,
};

const struct config_option config_dns_options[] = {
	{ "listen", LIST(dns, listen, listen_count), .verify = config_verify_dns_address,
		.fixed = true, .waits = true, .automatic = "nothing",
		.example = "127.0.0.1:53, [::1]:53",
		.help = "Where names are served over UDP and TCP: numeric addresses with "
			"ports. Resolvers ask port 53." },
	{ "domain", TEXT(dns, domain), .max = 200, .fallback = "berth", .fixed = true,
		.verify = config_verify_domain,
		.help = "The domain of the names of this registry." },
	{ "ttl", DURATION(dns, ttl_ms, 0, HOURS(24)), .fallback = "1s",
		.help = "How long a resolver may keep a live answer; whole seconds." },
	{ "stale_ttl", DURATION(dns, stale_ttl_ms, 1000, SECONDS(30)), .fallback = "30s",
		.help = "How long it may keep an answer that is given while the registry is away. "
			"Such an answer carries the extended error 3." },
	{ "prefer", WORD(dns, prefer, "zone", "none"), .fallback = "none",
		.help = "zone: the priorities of SRV answers are those of nearness to zone in "
			"[agent], 0 for the nearest; targets of a path of failover in [agent] come "
			"behind all others, and of equally near ones those with a lower "
			"priority of their own first. none: the priorities that the records "
			"have." },
	{ "forward", LIST(dns, forward, forward_count), .verify = config_verify_dns_forward,
		.automatic = "none", .example = "system",
		.help = "The answers to names outside the domain: none, which refuses them, so "
			"that resolvers ask their next server; system, the servers of "
			"/etc/resolv.conf; or ADDRESS:PORT, several of them. They are also asked "
			"for the name that an alias leads to. The agent itself, and a server that "
			"sends questions back to it, are not asked; see berth-names(7)." },
	OPTIONS_END,
};
