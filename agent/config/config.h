/*
 * The agent's configuration: INI files in, plain structs out.
 *
 * One table (options.c) knows every option: section, key, type, default, limits, one-line help. It
 * parses, prints (-T), documents (berth.full.ini, berth.ini.5) and names the nearest key for a
 * wrong one. Everything in the structs below is owned by the struct config, immutable once loaded,
 * and complete: defaults are filled in, durations are milliseconds, `${…}` is expanded. Strings are
 * never NULL ("" when unset) unless a comment says otherwise.
 */
#ifndef AGENT_CONFIG_CONFIG_H
#define AGENT_CONFIG_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/dialect/dialect.h"
#include "agent/base/log.h"
#include "agent/config/found.h"

struct config_name_value {
	char *name;
	char *value;
};

enum config_writer_kind { CONFIG_WRITER_NONE, CONFIG_WRITER_USER, CONFIG_WRITER_GROUP };

/*
 * The user or group that may report a ttl check or supply a dynamic endpoint, besides root and the
 * agent.
 */
struct config_writer {
	enum config_writer_kind kind;
	char *name;
	unsigned id; /* uid or gid, looked up at load time */
};

struct config_endpoint {
	char *name;
	char *component; /* "" when there is one unnamed component */
	bool external;   /* scope */
	char *api;
	char *protocol;
	char *address_type;
	/*
	 * text form; record_address_parse() turned each into an object without error at load time
	 */
	char **addresses;
	size_t address_count;
	bool dynamic; /* a local process supplies the addresses through the API */
	/* hold = connection: withdrawn when the supplier's connection closes */
	bool hold_connection;
	int64_t linger_ms; /* and this long after it */
	struct config_writer writer;
};

enum config_check_type {
	CONFIG_CHECK_COMMAND,
	CONFIG_CHECK_TCP,
	CONFIG_CHECK_HTTP,
	CONFIG_CHECK_TTL,
	CONFIG_CHECK_GRPC
};

/* HTTP's status codes or a command's exit statuses. */
struct config_status_range {
	int first;
	int last;
};

/* Whether one of `count` ranges holds the status. */
bool config_status_in_ranges(const struct config_status_range *ranges, size_t count, int status);

struct config_check {
	struct config *whole; /* that it is part of, for config_ref(); NULL when made by hand */
	const char *awaits;   /* the text of a config_wait: it does not run; NULL: nothing */
	char *name;
	char **components; /* names of those that it guards, each once; one at least */
	size_t component_count;
	enum config_check_type type;
	/* the command's text: as given with shell = yes, else with all ${…} replaced */
	char *command;
	char **argv; /* NULL-terminated; with shell = yes {"/bin/sh", "-c", command} */
	bool shell;
	char *user; /* "" : the agent's own */
	char *cwd;
	struct config_name_value *environment; /* env.NAME = value */
	size_t environment_count;
	char *target;      /* tcp, grpc: host:port; http: URL */
	char *target_host; /* from target, without brackets; or the path of a Unix socket */
	char *target_port;
	char *target_path; /* http: path and query, at least "/" */
	char *send;        /* tcp; with \r \n \t \\ \xHH decoded */
	size_t send_len;
	/* tcp: bytes that the answer must contain, decoded likewise; "" : connecting is enough */
	char *expect;
	size_t expect_len;
	char *method;                      /* http, default GET, or POST with a body */
	char *host;                        /* http: Host header, default from target */
	struct config_name_value *headers; /* http: header.NAME = value */
	size_t header_count;
	char *body;                                /* http; "" : none */
	struct config_status_range *expect_status; /* http, default 200-299 */
	size_t expect_status_count;
	struct config_name_value *expect_headers; /* http: expect_header.NAME = regex, valid */
	size_t expect_header_count;
	char *service; /* grpc; "" : the server as a whole */
	bool tls;      /* grpc: as written; http: the target is https:// */
	char *tls_ca;  /* files; "" : the system's, in tls_ca_pem */
	char *tls_cert;
	char *tls_key;
	char *tls_server_name; /* "" : target_host */
	bool tls_verify;
	const char *tls_ca_pem; /* what is in them; whole->found has it; NULL: nothing */
	const char *tls_cert_pem;
	const char *tls_key_pem;
	int64_t interval_ms;
	int64_t timeout_ms;
	int rise;
	int fall;
	int64_t window_ms; /* 0: consecutive failures count, no window */
	int64_t start_grace_ms;
	int64_t fast_interval_ms;   /* as written, 0 when unset; it shows in the two that follow: */
	int64_t rising_interval_ms; /* while pending, and while down with a success */
	int64_t falling_interval_ms; /* while up with a failure */
	int64_t down_interval_ms;    /* filled when unset */
	bool initial_passing;
	bool ignore_exit_status;
	struct config_status_range *warning_status; /* command: exit statuses; http */
	size_t warning_status_count;
	char *match; /* POSIX extended regex, valid; "" for none */
	bool match_invert;
	bool match_ignore_case;
	struct config_name_value *limits; /* limit.NAME = value: resource limits of the command */
	size_t limit_count;
	bool no_new_privileges;
	char **endpoints; /* names of endpoints of its components; none: the whole components */
	size_t endpoint_count;
	int64_t warn_time_ms;        /* 0: none */
	struct config_writer writer; /* ttl */
};

/* One [dialect]: another naming scheme in which a component is registered, too. */
struct config_dialect {
	char *name;
	char *component;
	enum dialect_type type; /* never DIALECT_YARN or DIALECT_MESOS */
	unsigned word;          /* the same as an index into the words of `type` */
	char *endpoint;         /* "" : the first external one */
	/* registrar */
	char *domain;
	char *host_name; /* filled with the host's name when unset */
	char **aliases;
	size_t alias_count;
	char *host_type;
	char *address;     /* "" : the endpoint's, or the next one */
	char *own_address; /* the machine's, if that is needed and there is one; else "" */
	char *ttl;         /* numbers as text: "" is unset */
	char *service_ttl;
	char **ports;
	size_t port_count;
	char *service; /* curator and spring: the service's name */
	char *protocol;
	char *port;
	/* serverset, nerve */
	char *path;
	char *shard;
	char **additional; /* names of endpoints */
	size_t additional_count;
	/* curator, spring */
	char *base;
	char *instance_id; /* nerve, too; filled when unset */
	char *ssl_endpoint;
	char *payload; /* JSON */
	/* nerve */
	char *weight;
	char *haproxy_server_options;
	bool path_encoding;
	struct config_name_value *labels;
	size_t label_count;
	struct config_name_value *metadata;
	size_t metadata_count;
};

enum config_persistence {
	PERSISTENCE_CONTAINER,
	PERSISTENCE_APPLICATION_ATTEMPT,
	PERSISTENCE_APPLICATION,
	PERSISTENCE_PERMANENT
};

struct config_component {
	struct config *whole; /* as in config_check */
	const char *awaits;   /* likewise, of its own, of a part or a check: it is not registered */
	char *name; /* the section's NAME; "" for plain [component]. Shown as label() below. */
	char *user;
	char *service_class;
	char *instance;
	/* the last path element, resolved: `name`, else from id, else the host name */
	char *component_name;
	char *id; /* yarn:id as written; "" when unset */
	enum config_persistence persistence;
	bool ephemeral; /* znode, resolved from persistence when unset */
	char *path;     /* the full registry path, resolved and valid */
	char *description;
	bool takeover;      /* on_conflict = takeover */
	bool hadoop_layout; /* path and name as Hadoop's code makes them */
	bool keep_on_stop;  /* resolved from persistence when unset */
	/* attribute.NAME = value; never type, description, external, internal, yarn:* */
	struct config_name_value *attributes;
	size_t attribute_count;
	struct config_endpoint *endpoints;
	size_t endpoint_count;
	struct config_dialect *dialects;
	size_t dialect_count;
	/*
	 * Flap damping: each down transition adds 1 penalty, halved every half_life; above
	 * `suppress` it stays out until below `reuse`.
	 */
	bool damping;
	double damping_suppress;      /* default 3 */
	double damping_reuse;         /* default 1 */
	int64_t damping_half_life_ms; /* default 60 s */
	bool keep_last;
	bool publish_health;
	int64_t slow_start_ms; /* 0: none; else attribute.weight is 2 at least */
	char *on_change;
	char **on_change_argv; /* NULL: none */
};

enum config_restart { RESTART_NEVER, RESTART_ON_FAILURE, RESTART_ALWAYS };

struct config_agent {
	char *socket;
	unsigned socket_mode;
	char *socket_group; /* "" : leave as it is */
	char *admin_group;
	unsigned socket_group_id; /* (unsigned)-1 when unset */
	unsigned admin_group_id;
	char *user; /* that the agent becomes; "": it stays what it is */
	char *group;
	unsigned group_id; /* (unsigned)-1 when unset */
	char *state_dir;
	char *listen;    /* host:port or "" */
	char *zone;      /* region/zone/… or "" */
	char **failover; /* paths below which a path or a name is looked up, too */
	size_t failover_count;
	int64_t failover_hold_ms;
	char **listen_hosts; /* names by which clients may come there; "*" is every name */
	size_t listen_host_count;
	char **own_hosts; /* more such names: this machine's, and that of `listen` */
	size_t own_host_count;
	enum log_level log_level;
	bool log_json;
	int64_t drain_delay_ms;
	bool drain_early;
	int64_t stop_timeout_ms; /* TERM to KILL of the supervised process, default 5 s */
	enum config_restart restart;
	int restart_limit; /* restarts in a row; 0: any number */
	int stop_signal;
	char **stop_on; /* names of signals, with or without SIG */
	size_t stop_on_count;
	char *pre_start;       /* as written */
	char **pre_start_argv; /* NULL: none */
	char *post_stop;
	char **post_stop_argv;
	int64_t hook_timeout_ms;       /* of each of the two */
	int max_parallel_checks;       /* commands, default 16 */
	int max_watchers;              /* event streams and long polls, default 10000 */
	int64_t heartbeat_interval_ms; /* of event streams, default 15 s */
	bool shared;                   /* answers in memory that clients may map */
};

#define CONFIG_NET "/net" /* /net/NAME and all below it is [registry NAME] */

struct config_registry {
	char *name; /* of [registry NAME], which is only read; NULL: [registry] */
	char *url;
	int64_t session_timeout_ms;
	char *auth;
	char *auth_file;
	char *tls_ca;
	char *tls_cert;
	char *tls_key;
	char *tls_passphrase_file;
	bool secure;
	char *system_accounts;
	char *write_accessors;
	char *realm;
	int64_t update_interval_ms;
};

struct config_cache {
	size_t max_size_bytes;
	char **warm; /* valid paths; a recursive one ends in "/" followed by two asterisks */
	size_t warm_count;
	int64_t confirm_ms; /* filled with a third of [registry] session_timeout when unset */
	bool is_confirm_given;
	int64_t max_stale_ms; /* 0: no limit */
	int64_t resync_ms;
	bool snapshot;
};

/* DNS, for programs that find components by name. */
struct config_dns {
	char **listen; /* ADDRESS:PORT with numeric addresses */
	size_t listen_count;
	char *domain;
	int64_t ttl_ms;
	int64_t stale_ttl_ms;
	unsigned prefer; /* enum config_output_prefer */
	char **forward;  /* "system" alone, or ADDRESS:PORT …; empty: names outside are refused */
	size_t forward_count;
};

/* The endpoints that berth-xds prefers. */
enum config_xds_prefer { CONFIG_XDS_ZONE, CONFIG_XDS_NOTHING };

/* gRPC and Envoy, served by berth-xds. */
struct config_xds {
	char *listen; /* a path, or host:port; "": it does not run */
	char **serve; /* paths, each with or without a trailing / and two asterisks */
	size_t serve_count;
	unsigned prefer; /* enum config_xds_prefer */
	char **failover; /* paths below which the path of a name is, too */
	size_t failover_count;
	int64_t failover_hold_ms;
	int min_instances;
};

/* How an output tells near endpoints from far ones. */
enum config_output_prefer { CONFIG_PREFER_ZONE, CONFIG_PREFER_NOTHING };

enum config_output_format {
	CONFIG_FORMAT_LINES, /* to ENV: as enum render_format (lib/render/render.h) */
	CONFIG_FORMAT_JSON,
	CONFIG_FORMAT_PROMETHEUS,
	CONFIG_FORMAT_ENVOY,
	CONFIG_FORMAT_HAPROXY,
	CONFIG_FORMAT_NGINX,
	CONFIG_FORMAT_HOSTS,
	CONFIG_FORMAT_ENV,
	CONFIG_FORMAT_HAPROXY_RUNTIME,
	CONFIG_FORMAT_RENDER /* what the command prints */
};

enum config_output_write { CONFIG_WRITE_REPLACE, CONFIG_WRITE_IN_PLACE };

/* A file, or a backend of HAProxy, that follows the registry. */
struct config_output {
	struct config *whole; /* as in config_check */
	const char *awaits;   /* likewise: it does nothing */
	char *name;
	char *from;      /* as written: a path, or a tree that ends in slash and two asterisks */
	char *from_path; /* without these */
	bool from_tree;
	char **failover; /* further paths, as `from` */
	size_t failover_count;
	int64_t failover_hold_ms;
	unsigned prefer; /* enum config_output_prefer; filled in when unset */
	char *api;       /* which endpoints; "" is any, as in the next two */
	char *protocol;
	char *scope;
	struct config_name_value *attributes; /* of the records */
	size_t attribute_count;
	char *selection; /* the same, for lib/record/select.h */
	enum config_output_format format;
	char *render;       /* as written */
	char **render_argv; /* of CONFIG_FORMAT_RENDER; else NULL */
	char *path;         /* of the file; "" for haproxy-runtime */
	char *socket;       /* of HAProxy */
	char *backend;
	unsigned write; /* enum config_output_write; filled in when unset */
	unsigned mode;  /* 0: that of the file that is there, else 0644 */
	char *owner;
	unsigned owner_id; /* (unsigned)-1: as it is */
	char *group;
	unsigned group_id;
	int64_t quiet_ms; /* filled in when unset */
	int64_t max_wait_ms;
	int min_instances;
	bool write_when_empty;
	char *check;
	char **check_argv; /* NULL: none */
	char *on_change;
	char **on_change_argv;
	int64_t timeout_ms;
};

enum config_import_type {
	CONFIG_IMPORT_REGISTRAR,
	CONFIG_IMPORT_SERVERSET,
	CONFIG_IMPORT_CURATOR,
	CONFIG_IMPORT_SPRING,
	CONFIG_IMPORT_NERVE,
	CONFIG_IMPORT_MESOS
};

/* A group of nodes that other programs write, seen as records. */
struct config_import {
	char *name;
	enum config_import_type type;
	char *from; /* a foreign path, with one slash in front */
	char *as;
};

enum config_listen_scope { CONFIG_LISTEN_EXTERNAL, CONFIG_LISTEN_ALL };

/* A further TCP listener, which shows a part of the registry alone. */
struct config_listen {
	char *name;
	char *address; /* host:port */
	char **under;  /* trees: each ends in slash and two asterisks */
	size_t under_count;
	unsigned scope; /* enum config_listen_scope */
};

enum config_zone_type { CONFIG_ZONE_REGISTRAR };
enum config_zone_unknown { CONFIG_ZONE_REFUSED, CONFIG_ZONE_NXDOMAIN };

/* A domain that DNS answers from another program's nodes. */
struct config_zone {
	char *name; /* the domain */
	enum config_zone_type type;
	enum config_zone_unknown unknown;
};

/* One agent for the containers of a host. */
struct config_bridge {
	char *containers; /* the directory of their subdirectories; "": no bridge */
	int64_t linger_ms;
	int64_t stall_limit_ms;
	bool standby; /* waits while another agent uses the state directory */
};

/* A container runtime whose containers are registered by their labels. */
struct config_runtime {
	const char *awaits; /* likewise: none of its containers is registered */
	char *name;
	char *socket;
	char **labels; /* the first parts of labels' names; registrator: SERVICE_… */
	size_t label_count;
	char *address; /* of published ports; "container": the container's own */
	char *network; /* the one whose addresses are announced */
	char *base;    /* above the services that have only a name */
	bool ignore_health;
};

/* The rules of the host for the containers that the glob matches. */
struct config_container {
	const char *awaits; /* likewise: none of its containers is registered */
	char *glob;
	char **allow; /* paths and patterns, as bridge_policy_allows() reads them */
	size_t allow_count;
	char *owner;        /* uid:gid of registry/; "" : the agent's own */
	unsigned owner_uid; /* from owner; (unsigned)-1 without one */
	unsigned owner_gid;
	int max_records;
	size_t max_bytes;                     /* of all its records */
	int rate;                             /* writes a second */
	struct config_name_value *attributes; /* pinned */
	size_t attribute_count;
	struct config_name_value *labels; /* of containers of a runtime that lack them */
	size_t label_count;
};

/* A value that waits for an address which the machine does not have yet. */
struct config_wait {
	char *section; /* its kind, */
	char *name;    /* and name */
	char *text;    /* "[endpoint rest] address: ${berth.ip}: no interface …" */
};

struct config_origins {
	struct config_origin *items; /* agent/config/origin.h */
	size_t count;
};

struct config {
	unsigned references;
	struct config_origins origins;
	struct config_source *source;   /* the text that it was made of */
	struct config_found_list found; /* and the machine's answers meanwhile */
	struct config_wait *waits;
	size_t wait_count;
	struct config_agent agent;
	struct config_registry registry;
	struct config_registry *further; /* of [registry NAME]; no option that is for writing */
	size_t further_count;
	struct config_cache cache;
	struct config_dns dns;
	struct config_xds xds;
	struct config_bridge bridge;
	struct config_component *components;
	size_t component_count;
	struct config_check *checks;
	size_t check_count;
	struct config_output *outputs;
	size_t output_count;
	struct config_import *imports;
	size_t import_count;
	struct config_listen *listens;
	size_t listen_count;
	struct config_zone *zones;
	size_t zone_count;
	struct config_runtime *runtimes;
	size_t runtime_count;
	struct config_container *containers; /* in the order in which they count */
	size_t container_count;
};

/* One mistake, or a warning about something legal that is surely not meant. */
struct config_problem {
	char *file;
	int line; /* 0: the file as a whole */
	bool warning;
	char *message;
};

struct config_problems {
	struct config_problem *items;
	size_t count;
	size_t error_count; /* those that are not warnings */
};

/*
 * Reads FILE and, next to it, conf.d/<any>.ini in name order; or every .ini file of a directory in
 * name order. 0 with a configuration, or BERTH_FAILED with every mistake of all files in `problems`
 * (finish it in both cases: a good configuration has warnings there). Touches nothing but files to
 * read, the user database and the host's name and addresses.
 */
int config_load(struct config **ret_config, const char *path, struct config_problems *problems)
	__attribute__((warn_unused_result));
/*
 * Whether the machine's addresses are others than those that the configuration was made with. One
 * that is gone counts when `lost` says so of its name.
 */
bool config_addresses_differ(
	const struct config *config, bool (*lost)(void *context, const char *name), void *context);
/*
 * Calls `on_other` for each address that two configurations were made with and that is not the
 * same; NULL: there is none.
 */
void config_each_other_address(const struct config *before, const struct config *after,
	void (*on_other)(void *context, const char *name, const char *from, const char *to),
	void *context);
/*
 * Makes the configuration again from the same text for the addresses of now; but for an address
 * that is gone, and whose time has not come. Options that cannot change at run time keep their
 * values, except for what listens. No file is read, and nobody is asked for names or users.
 * 0, or BERTH_FAILED with what is wrong in `problems`.
 */
int config_follow(struct config **ret_next, const struct config *config,
	bool (*lost)(void *context, const char *name), void *context,
	struct config_problems *problems) __attribute__((warn_unused_result));

/*
 * A configuration is counted by reference: config_load() gives the first one, and an object that
 * keeps a pointer to a part holds one of the whole. Both accept NULL; the last config_unref()
 * frees.
 */
void config_ref(struct config *config);
void config_unref(struct config *config);
void config_problems_finish(struct config_problems *problems);
/* "file:line: message" lines; "warning: " before the message of a warning. */
void config_problems_print(const struct config_problems *problems, FILE *stream);
/* To the log, all of them or the warnings alone. */
void config_problems_log(const struct config_problems *problems);
void config_problems_log_warnings(const struct config_problems *problems);
/* The errors: [{"file","line","message"}]; new reference. */
json_t *config_problems_json(const struct config_problems *problems);

/*
 * Adds a problem of `file` for every option of `next` that is another than in `now` and cannot
 * change at run time.
 */
void config_refuse_changes(const struct config *now, const struct config *next, const char *file,
	struct config_problems *problems);

/*
 * The effective configuration as an INI file that config_load() reads as the same configuration;
 * secrets masked as ****.
 */
void config_print(const struct config *config, FILE *stream);
/*
 * Its parts in numbers, without an end of line: "1 component, 2 endpoints, 1 check, registry …".
 * Listeners, dialects, outputs, imports and zones are named where there are some.
 */
void config_print_summary(const struct config *config, FILE *stream);

/*
 * The name of a component in logs, metrics and the API: its NAME, or the last path element when it
 * has none. Borrowed.
 */
const char *config_component_label(const struct config_component *component);
/* attribute.weight; 1 without. */
int config_component_weight(const struct config_component *component);

/* The [registry NAME] that the path is in; NULL: it is in none. */
const struct config_registry *config_further_at(const struct config *config, const char *path);
bool config_further_equal(const struct config_registry *a, const struct config_registry *b);

/* The component that is the check's number `index`, below component_count. */
const struct config_component *config_check_component(
	const struct config_check *check, size_t index);
bool config_check_guards(
	const struct config_check *check, const struct config_component *component);
/* berth-probe asks for it: type grpc, and https:// targets. */
bool config_check_is_probed(const struct config_check *check);
/*
 * True when all options are equal that matter to the check itself, so that a reload need not touch
 * it: all but the components that it guards.
 */
bool config_check_equal(const struct config_check *a, const struct config_check *b);
bool config_output_equal(const struct config_output *a, const struct config_output *b);

#endif
