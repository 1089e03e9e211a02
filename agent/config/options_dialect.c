/*
 * The options for other naming schemes on the same registry: [dialect], [import] and [zone].
 */
#include "agent/config/option_row.h"

#include "agent/config/verify.h"
#include "agent/config/verify_dialect.h"

#define FOR_REGISTRAR CONFIG_FOR(0)
#define FOR_SERVERSET CONFIG_FOR(1)
#define FOR_CURATOR CONFIG_FOR(2)
#define FOR_SPRING CONFIG_FOR(3)
#define FOR_NERVE CONFIG_FOR(4)

const struct config_option config_dialect_options[] = {
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
	{ "ttl", TEXT(dialect, ttl), .for_types = FOR_REGISTRAR, .verify = config_verify_seconds,
		.automatic = "none", .example = "30s",
		.help = "How long resolvers may keep the host's address: 30s, or 30." },
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
		.verify = config_verify_seconds, .automatic = "60s", .example = "60s",
		.help = "How long resolvers may keep the list of the service's instances: 60s, or "
			"60." },
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
		.automatic = "null",
		.example = "{\"@class\":\"com.example.Details\",\"version\":1}",
		.help = "The payload, as JSON. Java clients with a type of their own for it need "
			"its name as @class; null is good for all of them." },
	{ "metadata", PAIRS(dialect, metadata, metadata_count), .prose = true,
		.for_types = FOR_SERVERSET | FOR_SPRING, .verify_name = config_verify_foreign_name,
		.automatic = "none", .example = "value", .help = "One entry of the metadata." },
	{ "weight", TEXT(dialect, weight), .for_types = FOR_NERVE, .verify = config_verify_count,
		.automatic = "none", .example = "2", .help = "The instance's weight." },
	{ "haproxy_server_options", TEXT(dialect, haproxy_server_options), .for_types = FOR_NERVE,
		.automatic = "none", .example = "check inter 2s",
		.help = "Text that synapse appends to the instance's server line." },
	{ "labels", PAIRS(dialect, labels, label_count), .prose = true, .for_types = FOR_NERVE,
		.verify_name = config_verify_foreign_name, .automatic = "none", .example = "value",
		.help = "One label." },
	{ "path_encoding", BOOLEAN(dialect, path_encoding), .fallback = "no",
		.for_types = FOR_NERVE,
		.help = "Put the data into the node's name, so that a list of names is enough." },
	OPTIONS_END,
};

const struct config_option config_import_options[] = {
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
	OPTIONS_END,
};

const struct config_option config_zone_options[] = {
	{ "type", WORD(zone, type, "registrar"), .fallback = "registrar",
		.help = "How the nodes are written. registrar: by Joyent Registrar, below the path "
			"of the domain's labels from right to left." },
	{ "unknown", WORD(zone, unknown, "refused", "nxdomain"), .fallback = "refused",
		.help = "The answer for a name that is not there. refused, as Binder has it: a "
			"resolver asks its next server. nxdomain: the name does not exist." },
	OPTIONS_END,
};
