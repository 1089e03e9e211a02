/* Byte-exact nodes of every scheme, as its own programs write and read them. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/dialect/dialect.h"

static struct dialect_instance instance_of(enum dialect_type type)
{
	return (struct dialect_instance){
		.type = type,
		.name = "test",
		.endpoint = { "http", "10.0.0.1", 80 },
		.path = "/group",
		.domain = "web.t1.example.test",
		.host_name = "h1",
		.host_type = "load_balancer",
		.address = "10.9.8.7",
		.ttl = -1,
		.service = "",
		.protocol = "tcp",
		.service_ttl = -1,
		.shard = -1,
		.base = "/services",
		.service_name = "app",
		.instance_id = "uuid",
		.registered_ms = 1700000000000,
		.context_id = "app-1",
		.weight = -1,
		.haproxy_server_options = "",
	};
}

static struct dialect_nodes write_nodes(const struct dialect_instance *instance)
{
	struct dialect_nodes nodes = { 0 };
	struct err err = ERR_INIT;
	cr_assert(eq(int, dialect_write(&nodes, instance, &err), 0), "%s", err.msg);
	return nodes;
}

static void expect(const struct dialect_nodes *nodes, size_t index, const char *path,
	const char *data, enum dialect_node_kind kind)
{
	cr_assert(lt(sz, index, nodes->count));
	cr_assert(eq(str, nodes->items[index].path, (char *)path));
	cr_assert(eq(str, nodes->items[index].data, (char *)data));
	cr_assert(eq(int, nodes->items[index].kind, kind));
}

static int refused(const struct dialect_instance *instance)
{
	struct dialect_nodes nodes = { 0 };
	struct err err = ERR_INIT;
	int code = dialect_write(&nodes, instance, &err);
	cr_assert(eq(sz, nodes.count, 0));
	dialect_nodes_finish(&nodes);
	return code;
}

#define URI_SPEC                                                                                   \
	"\"uriSpec\":{\"parts\":[{\"value\":\"scheme\",\"variable\":true},"                        \
	"{\"value\":\"://\",\"variable\":false},{\"value\":\"address\",\"variable\":true},"        \
	"{\"value\":\":\",\"variable\":false},{\"value\":\"port\",\"variable\":true}]}"

#define SERVICE_DATA(port, ttl)                                                                    \
	"{\"type\":\"service\",\"service\":{\"type\":\"service\",\"service\":{\"srvce\":"          \
	"\"_http\",\"proto\":\"_tcp\",\"port\":" port ",\"ttl\":" ttl "}}}"

Test(write, registrar_has_host_aliases_and_then_the_service)
{
	static char *const aliases[] = { "Alias.Example.test" };
	struct dialect_instance instance = instance_of(DIALECT_REGISTRAR);
	instance.aliases = aliases;
	instance.alias_count = 1;
	instance.ttl = 25;
	instance.service = "http";
	instance.service_port = 8080;
	instance.service_ttl = 45;
	struct dialect_nodes nodes = write_nodes(&instance);
	const char *host = "{\"type\":\"load_balancer\",\"address\":\"10.9.8.7\",\"ttl\":25,"
			   "\"load_balancer\":{\"address\":\"10.9.8.7\",\"ports\":[8080]}}";
	expect(&nodes, 0, "//test/example/t1/web/h1", host, DIALECT_NODE_EPHEMERAL);
	expect(&nodes, 1, "//test/example/alias", host, DIALECT_NODE_EPHEMERAL);
	expect(&nodes, 2, "//test/example/t1/web", SERVICE_DATA("8080", "45"), DIALECT_NODE_SHARED);
	cr_assert_gt(nodes.items[2].order, nodes.items[0].order);
	dialect_nodes_finish(&nodes);
}

Test(write, registrar_has_the_ports_it_is_given_and_as_many_aliases)
{
	static char *const aliases[] = { "a.test", "B" };
	static const int ports[] = { 1, 65535 };
	struct dialect_instance instance = instance_of(DIALECT_REGISTRAR);
	instance.aliases = aliases;
	instance.alias_count = 2;
	instance.ports = ports;
	instance.port_count = 2;
	instance.ttl = 0;
	instance.service = "_http";
	instance.service_port = 1;
	struct dialect_nodes nodes = write_nodes(&instance);
	const char *host = "{\"type\":\"load_balancer\",\"address\":\"10.9.8.7\",\"ttl\":0,"
			   "\"load_balancer\":{\"address\":\"10.9.8.7\",\"ports\":[1,65535]}}";
	cr_assert(eq(sz, nodes.count, 4));
	expect(&nodes, 1, "//test/a", host, DIALECT_NODE_EPHEMERAL);
	expect(&nodes, 2, "//b", host, DIALECT_NODE_EPHEMERAL);
	expect(&nodes, 3, "//test/example/t1/web", SERVICE_DATA("1", "60"), DIALECT_NODE_SHARED);
	dialect_nodes_finish(&nodes);
	instance.service_port = 65535;
	instance.service_ttl = 0;
	nodes = write_nodes(&instance);
	expect(&nodes, 3, "//test/example/t1/web", SERVICE_DATA("65535", "0"), DIALECT_NODE_SHARED);
	dialect_nodes_finish(&nodes);
}

Test(write, registrar_leaves_out_what_is_not_set)
{
	struct dialect_instance instance = instance_of(DIALECT_REGISTRAR);
	struct dialect_nodes nodes = write_nodes(&instance);
	cr_assert(eq(sz, nodes.count, 1));
	expect(&nodes, 0, "//test/example/t1/web/h1",
		"{\"type\":\"load_balancer\",\"address\":\"10.9.8.7\","
		"\"load_balancer\":{\"address\":\"10.9.8.7\"}}",
		DIALECT_NODE_EPHEMERAL);
	dialect_nodes_finish(&nodes);
}

Test(write, registrar_never_writes_what_ends_binder)
{
	static const char *const addresses[] = { "", "::1", "host.example", "10.0.0", "null" };
	static const int ports[] = { 0, -1, 65536 };
	struct dialect_instance instance = instance_of(DIALECT_REGISTRAR);
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
		instance.address = addresses[i];
		cr_assert(eq(int, refused(&instance), BERTH_INVALID_RECORD));
	}
	instance.address = "10.0.0.1";
	for (size_t i = 0; i < ARRAY_LEN(ports); i++) {
		const int some[] = { 80, ports[i], 80 };
		instance.ports = some;
		instance.port_count = 2;
		cr_assert(eq(int, refused(&instance), BERTH_INVALID_RECORD));
		instance.ports = some + 1;
		cr_assert(eq(int, refused(&instance), BERTH_INVALID_RECORD));
		instance.port_count = 0;
		instance.service = "http";
		instance.service_port = ports[i];
		cr_assert(eq(int, refused(&instance), BERTH_INVALID_RECORD));
		instance.service = "";
	}
}

Test(write, serverset_with_and_without_what_is_optional)
{
	struct dialect_instance instance = instance_of(DIALECT_SERVERSET);
	struct dialect_nodes nodes = write_nodes(&instance);
	expect(&nodes, 0, "//group/member_",
		"{\"serviceEndpoint\":{\"host\":\"10.0.0.1\",\"port\":80},"
		"\"additionalEndpoints\":{},\"status\":\"ALIVE\"}",
		DIALECT_NODE_SEQUENTIAL);
	dialect_nodes_finish(&nodes);
	const struct dialect_address additional[] = { { "http", "h", 1 }, { "out", "", 0 },
		{ "tls", "h", 2 } };
	const struct dialect_pair pairs[] = { { "k", "v" } };
	instance.additional = additional;
	instance.additional_count = 3;
	instance.shard = 0;
	instance.pairs = pairs;
	instance.pair_count = 1;
	nodes = write_nodes(&instance);
	expect(&nodes, 0, "//group/member_",
		"{\"serviceEndpoint\":{\"host\":\"10.0.0.1\",\"port\":80},"
		"\"additionalEndpoints\":{\"http\":{\"host\":\"h\",\"port\":1},"
		"\"tls\":{\"host\":\"h\",\"port\":2}},"
		"\"status\":\"ALIVE\",\"shard\":0,\"metadata\":{\"k\":\"v\"}}",
		DIALECT_NODE_SEQUENTIAL);
	cr_assert(eq(int, nodes.items[0].change, DIALECT_CHANGE_REJOIN));
	dialect_nodes_finish(&nodes);
}

Test(write, curator_has_all_fields_nulls_too)
{
	struct dialect_instance instance = instance_of(DIALECT_CURATOR);
	struct dialect_nodes nodes = write_nodes(&instance);
	expect(&nodes, 0, "//services/app/uuid",
		"{\"name\":\"app\",\"id\":\"uuid\",\"address\":\"10.0.0.1\",\"port\":80,"
		"\"sslPort\":null,\"payload\":null,\"registrationTimeUTC\":1700000000000,"
		"\"serviceType\":\"DYNAMIC\"," URI_SPEC "}",
		DIALECT_NODE_EPHEMERAL);
	cr_assert(nodes.items[0].container_parents);
	cr_assert(eq(int, nodes.items[0].change, DIALECT_CHANGE_REPLACE));
	dialect_nodes_finish(&nodes);
	instance.endpoint.port = 1;
	instance.ssl_port = 1;
	nodes = write_nodes(&instance);
	cr_assert(ne(ptr, strstr(nodes.items[0].data, "\"port\":1,\"sslPort\":1,"), NULL));
	dialect_nodes_finish(&nodes);
}

Test(write, spring_says_whether_it_is_up)
{
	struct dialect_instance instance = instance_of(DIALECT_SPRING);
	const struct dialect_pair pairs[] = { { "instance_status", "x" }, { "k", "v" } };
	instance.ssl_port = 443;
	instance.out_of_service = true;
	instance.pairs = pairs;
	instance.pair_count = 2;
	struct dialect_nodes nodes = write_nodes(&instance);
	expect(&nodes, 0, "//services/app/uuid",
		"{\"name\":\"app\",\"id\":\"uuid\",\"address\":\"10.0.0.1\",\"port\":80,"
		"\"sslPort\":443,\"payload\":{\"@class\":\"org.springframework.cloud.zookeeper."
		"discovery.ZookeeperInstance\",\"id\":\"app-1\",\"name\":\"app\",\"metadata\":{"
		"\"instance_status\":\"OUT_OF_SERVICE\",\"k\":\"v\"}},"
		"\"registrationTimeUTC\":1700000000000,"
		"\"serviceType\":\"DYNAMIC\"," URI_SPEC "}",
		DIALECT_NODE_EPHEMERAL);
	dialect_nodes_finish(&nodes);
}

#define NERVE_DATA "{\"host\":\"10.0.0.1\",\"port\":80,\"name\":\"%s\"}"
/* Its base64, as far as a name beginning with "web" reaches. */
#define NERVE_START "eyJob3N0IjoiMTAuMC4wLjEiLCJwb3J0Ijo4MCwibmFtZSI6IndlYi"

Test(write, nerve_in_its_data)
{
	const struct dialect_pair pairs[] = { { "zone", "a" } };
	struct dialect_instance instance = instance_of(DIALECT_NERVE);
	instance.instance_id = "web-1";
	instance.weight = 2;
	instance.haproxy_server_options = "check";
	instance.pairs = pairs;
	instance.pair_count = 1;
	const char *data = "{\"host\":\"10.0.0.1\",\"port\":80,\"name\":\"web-1\",\"weight\":2,"
			   "\"haproxy_server_options\":\"check\",\"labels\":{\"zone\":\"a\"}}";
	struct dialect_nodes nodes = write_nodes(&instance);
	expect(&nodes, 0, "//group/web-1_", data, DIALECT_NODE_SEQUENTIAL);
	cr_assert(eq(int, nodes.items[0].change, DIALECT_CHANGE_IN_PLACE));
	dialect_nodes_finish(&nodes);
	instance.weight = 0;
	nodes = write_nodes(&instance);
	cr_assert(ne(ptr, strstr(nodes.items[0].data, "\"weight\":0"), NULL));
	dialect_nodes_finish(&nodes);
}

Test(write, nerve_in_a_name_is_base64_of_each_length)
{
	static const struct {
		const char *id;
		const char *path;
	} rows[] = {
		{ "web-1", "//group/base64_60_" NERVE_START "0xIn0=_" },
		{ "web-~?", "//group/base64_60_" NERVE_START "1-PyJ9_" },
		{ "web-123", "//group/base64_64_" NERVE_START "0xMjMifQ==_" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dialect_instance instance = instance_of(DIALECT_NERVE);
		char *data = NULL;
		instance.instance_id = rows[i].id;
		instance.path_encoding = true;
		struct dialect_nodes nodes = write_nodes(&instance);
		cr_assert_gt(asprintf(&data, NERVE_DATA, rows[i].id), 0);
		expect(&nodes, 0, rows[i].path, data, DIALECT_NODE_SEQUENTIAL);
		cr_assert(eq(int, nodes.items[0].change, DIALECT_CHANGE_REJOIN));
		dialect_nodes_finish(&nodes);
		free(data);
	}
}

Test(write, yarn_is_the_record_at_its_path)
{
	struct record *record = record_create();
	struct dialect_instance instance = instance_of(DIALECT_YARN);
	cr_assert(eq(int, record_set_text(record, "yarn:id", "a"), 0));
	instance.record = record;
	struct dialect_nodes nodes = write_nodes(&instance);
	expect(&nodes, 0, "/group",
		"{\"type\":\"JSONServiceRecord\",\"external\":[],\"internal\":[],"
		"\"yarn:id\":\"a\"}",
		DIALECT_NODE_PERSISTENT);
	dialect_nodes_finish(&nodes);
	instance.ephemeral = true;
	nodes = write_nodes(&instance);
	cr_assert(eq(int, nodes.items[0].kind, DIALECT_NODE_EPHEMERAL));
	dialect_nodes_finish(&nodes);
	record_free(record);
}

Test(write, without_a_port_there_is_no_member)
{
	static const enum dialect_type types[] = { DIALECT_SERVERSET, DIALECT_CURATOR,
		DIALECT_SPRING, DIALECT_NERVE };
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct dialect_instance instance = instance_of(types[i]);
		instance.endpoint.port = 0;
		cr_assert(eq(int, refused(&instance), BERTH_INVALID_RECORD));
	}
}

Test(write, a_path_that_is_none_is_refused)
{
	struct dialect_instance instance = instance_of(DIALECT_SERVERSET);
	struct dialect_nodes nodes;
	struct err err = ERR_INIT;
	instance.path = "/a//b";
	cr_assert(eq(int, dialect_write(&nodes, &instance, &err), BERTH_INVALID_PATHNAME));
	cr_assert(eq(int, strncmp(err.msg, "[dialect test]: ", 16), 0), "%s", err.msg);
	instance = instance_of(DIALECT_REGISTRAR);
	instance.domain = ".a";
	cr_assert(eq(int, refused(&instance), BERTH_INVALID_PATHNAME));
}

/* A domain of so many bytes, in labels of one byte. */
static char *domain_of(size_t len)
{
	char *domain = calloc(1, len + 1);
	for (size_t i = 0; i < len; i++) {
		domain[i] = i % 2 && i + 1 < len ? '.' : 'a';
	}
	return domain;
}

Test(write, a_domain_has_a_length)
{
	static const struct {
		size_t len;
		int code;
	} domains[] = { { 0, BERTH_INVALID_PATHNAME }, { 1, 0 }, { 253, 0 },
		{ 254, BERTH_INVALID_PATHNAME } };
	for (size_t i = 0; i < ARRAY_LEN(domains); i++) {
		struct dialect_instance instance = instance_of(DIALECT_REGISTRAR);
		struct dialect_nodes nodes = { 0 };
		struct err err = ERR_INIT;
		struct err err_of_alias = ERR_INIT;
		char *domain = domain_of(domains[i].len);
		instance.domain = domain;
		cr_assert(eq(int, dialect_write(&nodes, &instance, &err), domains[i].code));
		dialect_nodes_finish(&nodes);
		instance.domain = "web";
		instance.aliases = &domain;
		instance.alias_count = 1;
		cr_assert(
			eq(int, dialect_write(&nodes, &instance, &err_of_alias), domains[i].code));
		dialect_nodes_finish(&nodes);
		free(domain);
	}
}

Test(write, a_path_or_a_name_that_is_too_long_is_refused)
{
	char long_name[LIMIT_PATH_BYTES + 1] = "";
	memset(long_name, 'a', LIMIT_PATH_BYTES);
	struct dialect_instance instance = instance_of(DIALECT_NERVE);
	instance.instance_id = long_name;
	cr_assert(eq(int, refused(&instance), BERTH_INVALID_PATHNAME));
	instance.path_encoding = true;
	cr_assert(eq(int, refused(&instance), BERTH_INVALID_PATHNAME));
}

Test(write, bytes_that_are_no_text_are_refused)
{
	static const struct dialect_pair pairs[] = { { "k", "\xff" } };
	struct dialect_instance instance = instance_of(DIALECT_CURATOR);
	instance.endpoint.host = "\xff";
	cr_assert(eq(int, refused(&instance), BERTH_INVALID_RECORD));
	instance = instance_of(DIALECT_SPRING);
	instance.pairs = pairs;
	instance.pair_count = 1;
	cr_assert(eq(int, refused(&instance), BERTH_INVALID_RECORD));
	instance = instance_of(DIALECT_NERVE);
	instance.path_encoding = true;
	instance.endpoint.host = "\xff";
	cr_assert(eq(int, refused(&instance), BERTH_INVALID_RECORD));
}

static bool same(enum dialect_type type, const char *a, const char *b)
{
	return dialect_same_instance(type, a, strlen(a), b, strlen(b));
}

Test(write, an_instance_is_known_by_where_it_is)
{
	const char *one = "{\"host\":\"h\",\"port\":1,\"weight\":1}";
	cr_assert(same(DIALECT_NERVE, one, "{\"host\":\"h\",\"port\":1}"));
	cr_assert(not(same(DIALECT_NERVE, one, "{\"host\":\"h\",\"port\":2}")));
	cr_assert(not(same(DIALECT_NERVE, one, "nonsense")));
	cr_assert(not(same(DIALECT_REGISTRAR, "{}", "{}")));
	cr_assert(same(DIALECT_REGISTRAR, "{\"type\":\"service\",\"service\":{}}",
		"{\"type\":\"service\",\"service\":{\"ttl\":1}}"));
	cr_assert(not(same(DIALECT_REGISTRAR, "{\"type\":\"service\"}",
		"{\"type\":\"service\",\"service\":{}}")));
	cr_assert(same(DIALECT_CURATOR, "{\"address\":\"h\",\"port\":1,\"id\":\"a\"}",
		"{\"address\":\"h\",\"port\":1}"));
	cr_assert(not(same(DIALECT_SPRING, "{\"address\":\"h\",\"port\":1}",
		"{\"address\":\"h\",\"port\":2}")));
	cr_assert(not(same(DIALECT_MESOS, one, one)));
}

#define OF_ID(rest) "{\"type\":\"JSONServiceRecord\"" rest "}"

Test(write, a_record_is_known_by_its_id)
{
	const char *one = OF_ID(",\"yarn:id\":\"a\",\"description\":\"x\"");
	cr_assert(same(DIALECT_YARN, one, OF_ID(",\"yarn:id\":\"a\"")));
	cr_assert(not(same(DIALECT_YARN, one, OF_ID(",\"yarn:id\":\"b\""))));
	cr_assert(not(same(DIALECT_YARN, one, "nonsense")));
	cr_assert(not(same(DIALECT_YARN, "nonsense", one)));
	cr_assert(not(same(DIALECT_YARN, OF_ID(""), OF_ID(""))));
}
