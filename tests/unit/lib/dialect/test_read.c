/* Nodes of other programs, as records. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/dialect/read.h"

TestSuite(dialect_read);

struct row {
	enum dialect_type type;
	const char *name;
	const char *group; /* the group's own data, or NULL */
	const char *data;
	const char *record; /* what follows the type in the record; NULL: it cannot be read */
	const char *why;    /* part of the message, if so */
};

#define ENDPOINT(api, protocol, host, port)                                                        \
	"{\"api\":\"" api "\",\"addressType\":\"host/port\",\"protocol\":\"" protocol              \
	"\",\"protocolType\":\"" protocol "\",\"addresses\":[{\"host\":\"" host                    \
	"\",\"port\":\"" port "\"}]}"
#define HOST(api, protocol, host)                                                                  \
	"{\"api\":\"" api "\",\"addressType\":\"hostname\",\"protocol\":\"" protocol               \
	"\",\"protocolType\":\"" protocol "\",\"addresses\":[{\"hostname\":\"" host "\"}]}"
#define RECORD(external) "\"external\":[" external "],\"internal\":[]"

#define SERVICE                                                                                    \
	"{\"type\":\"service\",\"service\":{\"type\":\"service\",\"service\":"                     \
	"{\"srvce\":\"_http\",\"proto\":\"_tcp\",\"port\":8080,\"ttl\":45}}}"
#define FLAT_SERVICE                                                                               \
	"{\"type\":\"service\",\"service\":{\"srvce\":\"_http\",\"proto\":\"_udp\",\"port\":53}}"
#define LONGEST_PROTOCOL "long-1234567890-1234567890-1234567890-1234567890-1234567890-long"
#define BARE_SERVICE(port) "{\"type\":\"service\",\"service\":{\"port\":" port "}}"
#define HOST_RECORD                                                                                \
	"{\"type\":\"load_balancer\",\"address\":\"10.9.8.7\",\"ttl\":25,\"load_balancer\":{"      \
	"\"address\":\"10.9.8.7\",\"ports\":[8080]}}"
#define HOST_TAIL_OF(type)                                                                         \
	",\"yarn:id\":\"web1\",\"yarn:persistence\":\"container\",\"dialect\":\"registrar\","      \
	"\"yarn:hostname\":\"web1\",\"yarn:ip\":\"10.9.8.7\",\"registrar:type\":\"" type "\""
#define HOST_TAIL HOST_TAIL_OF("load_balancer")

#define MEMBER                                                                                     \
	"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":1},\"additionalEndpoints\":{\"http\":{"     \
	"\"host\":\"h\",\"port\":2}},\"status\":\"ALIVE\",\"shard\":0,\"metadata\":{\"k\":\"v\"}}"
#define MEMBER_TAIL                                                                                \
	",\"yarn:id\":\"member_0000000007\",\"yarn:persistence\":\"container\","                   \
	"\"dialect\":\"serverset\""

#define URI_SPEC                                                                                   \
	"{\"parts\":[{\"value\":\"scheme\",\"variable\":true},{\"value\":\"://\","                 \
	"\"variable\":false},{\"value\":\"address\",\"variable\":true},{\"value\":\":\","          \
	"\"variable\":false},{\"value\":\"port\",\"variable\":true}]}"
#define INSTANCE                                                                                   \
	"{\"name\":\"app\",\"id\":\"uuid\",\"address\":\"10.0.0.1\",\"port\":80,\"sslPort\":null," \
	"\"payload\":null,\"registrationTimeUTC\":1700000000000,\"serviceType\":\"DYNAMIC\","      \
	"\"uriSpec\":" URI_SPEC "}"
#define INSTANCE_TAIL                                                                              \
	",\"yarn:id\":\"uuid\",\"yarn:persistence\":\"container\",\"dialect\":\"curator\""
#define SPRING_PAYLOAD(status)                                                                     \
	"{\"@class\":\"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance\","         \
	"\"id\":\"application-1\",\"name\":\"app\",\"metadata\":{\"instance_status\":\"" status    \
	"\"}}"
#define SPRING(status)                                                                             \
	"{\"name\":\"app\",\"id\":\"uuid\",\"address\":\"10.0.0.1\",\"port\":80,\"sslPort\":443,"  \
	"\"payload\":" SPRING_PAYLOAD(status) "}"
#define SPRING_TAIL(status)                                                                        \
	INSTANCE_TAIL ",\"curator:name\":\"app\",\"curator:payload\":" SPRING_PAYLOAD(             \
		status) ",\"metadata.instance_status\":\"" status "\""

#define NERVE                                                                                      \
	"{\"host\":\"1.2.3.4\",\"port\":3000,\"name\":\"i-1\",\"weight\":2,"                       \
	"\"haproxy_server_options\":\"backup\",\"labels\":{\"az\":\"a\"}}"
#define NERVE_TAIL ",\"yarn:persistence\":\"container\",\"dialect\":\"nerve\""

#define MASTER                                                                                     \
	"{\"address\":{\"hostname\":\"m1\",\"ip\":\"10.0.0.1\",\"port\":5050},\"capabilities\":["  \
	"{\"type\":\"AGENT_UPDATE\"}],\"hostname\":\"m1\",\"id\":\"u1\",\"ip\":16777226,"          \
	"\"pid\":\"master@10.0.0.1:5050\",\"port\":5050,\"version\":\"1.11.0\"}"
#define OLD_MASTER                                                                                 \
	"{\"hostname\":\"m1\",\"id\":\"u1\",\"ip\":16777226,\"pid\":\"master@10.0.0.1:5050\","     \
	"\"port\":5050}"
#define MASTER_RECORD                                                                              \
	RECORD(ENDPOINT("web", "http", "10.0.0.1", "5050"))                                        \
	",\"yarn:id\":\"u1\",\"yarn:persistence\":\"container\",\"dialect\":\"mesos\","            \
	"\"yarn:hostname\":\"m1\",\"yarn:ip\":\"10.0.0.1\",\"mesos:pid\":\"master@10.0.0.1:5050\""

#define MESOS_TAIL ",\"yarn:persistence\":\"container\",\"dialect\":\"mesos\""

#define READABLE(type, name, group, data, record)                                                  \
	{                                                                                          \
		type, name, group, data, record, NULL                                              \
	}
#define UNREADABLE(type, name, data, why)                                                          \
	{                                                                                          \
		type, name, NULL, data, NULL, why                                                  \
	}

/* A host below a service that has no member of its type. */
#define NO_MEMBER(type)                                                                            \
	{                                                                                          \
		DIALECT_REGISTRAR, "web1", SERVICE,                                                \
			"{\"type\":\"" type "\",\"" type "\":{\"address\":\"10.9.8.7\"}}", NULL,   \
			"does not count"                                                           \
	}

static const struct row rows[] = {
	READABLE(DIALECT_REGISTRAR, "web1", SERVICE, HOST_RECORD,
		RECORD(ENDPOINT("http", "tcp", "10.9.8.7", "8080")) HOST_TAIL
		",\"registrar:ttl\":25"),
	READABLE(DIALECT_REGISTRAR, "web1", NULL, HOST_RECORD,
		RECORD(ENDPOINT("web", "tcp", "10.9.8.7", "8080")) HOST_TAIL
		",\"registrar:ttl\":25"),
	READABLE(DIALECT_REGISTRAR, "web1", FLAT_SERVICE,
		"{\"type\":\"load_balancer\",\"load_balancer\":{\"address\":\"10.9.8.7\"}}",
		RECORD(ENDPOINT("http", "udp", "10.9.8.7", "53")) HOST_TAIL),
	READABLE(DIALECT_REGISTRAR, "web1", "rubbish",
		"{\"type\":\"load_balancer\",\"load_balancer\":{\"address\":\"10.9.8.7\"}}",
		RECORD(HOST("web", "tcp", "10.9.8.7")) HOST_TAIL),
	READABLE(DIALECT_REGISTRAR, "web1", NULL,
		"{\"type\":\"load_balancer\",\"load_balancer\":{\"address\":\"10.9.8.7\","
		"\"ports\":[1,\"2\"],\"ttl\":3},\"ttl\":4}",
		RECORD(ENDPOINT("web", "tcp", "10.9.8.7", "1") "," ENDPOINT(
			"web", "tcp", "10.9.8.7", "2")) HOST_TAIL ",\"registrar:ttl\":3"),
	READABLE(DIALECT_REGISTRAR, "web1",
		"{\"type\":\"host\",\"host\":{\"address\":\"10.0.0.1\"}}",
		"{\"type\":\"host\",\"host\":{\"address\":\"10.9.8.7\"}}",
		RECORD(HOST("web", "tcp", "10.9.8.7")) HOST_TAIL_OF("host")),
	READABLE(DIALECT_REGISTRAR, "web1", SERVICE,
		"{\"type\":\"rr_host\",\"rr_host\":{\"address\":\"10.9.8.7\"}}",
		RECORD(ENDPOINT("http", "tcp", "10.9.8.7", "8080")) HOST_TAIL_OF("rr_host")),
	READABLE(DIALECT_REGISTRAR, "web1", BARE_SERVICE("53,\"proto\":\"" LONGEST_PROTOCOL "\""),
		"{\"type\":\"rr_host\",\"rr_host\":{\"address\":\"10.9.8.7\"}}",
		RECORD(ENDPOINT("web", LONGEST_PROTOCOL, "10.9.8.7", "53"))
			HOST_TAIL_OF("rr_host")),
	READABLE(DIALECT_REGISTRAR, "web1", BARE_SERVICE("1"),
		"{\"type\":\"rr_host\",\"rr_host\":{\"address\":\"10.9.8.7\"}}",
		RECORD(ENDPOINT("web", "tcp", "10.9.8.7", "1")) HOST_TAIL_OF("rr_host")),
	READABLE(DIALECT_REGISTRAR, "web1", BARE_SERVICE("\"x\""),
		"{\"type\":\"rr_host\",\"rr_host\":{\"address\":\"10.9.8.7\"}}",
		RECORD(HOST("web", "tcp", "10.9.8.7")) HOST_TAIL_OF("rr_host")),
	NO_MEMBER("host"),
	NO_MEMBER("db_host"),
	NO_MEMBER("rr_hosts"),
	UNREADABLE(DIALECT_REGISTRAR, "web1", SERVICE, "service of its own"),
	UNREADABLE(DIALECT_REGISTRAR, "web1", "{\"type\":\"host\",\"host\":{\"address\":null}}",
		"no address"),
	UNREADABLE(DIALECT_REGISTRAR, "web1", "{\"type\":\"host\",\"host\":{}}", "no address"),
	UNREADABLE(DIALECT_REGISTRAR, "web1", "{\"type\":\"host\",\"host\":{\"address\":\"a b\"}}",
		"is not a host"),
	UNREADABLE(DIALECT_REGISTRAR, "web1",
		"{\"type\":\"host\",\"host\":{\"address\":\"10.0.0.1\",\"ports\":[null]}}", "port"),
	UNREADABLE(DIALECT_REGISTRAR, "web1",
		"{\"type\":\"host\",\"host\":{\"address\":\"10.0.0.1\",\"ports\":[65536]}}",
		"port"),
	UNREADABLE(DIALECT_REGISTRAR, "web1", "{\"address\":\"10.0.0.1\"}", "no address"),

	READABLE(DIALECT_SERVERSET, "member_0000000007", NULL, MEMBER,
		RECORD(ENDPOINT("web", "tcp", "h", "1") "," ENDPOINT("http", "tcp", "h", "2"))
			MEMBER_TAIL
		",\"serverset:status\":\"ALIVE\",\"serverset:shard\":0,\"metadata.k\":\"v\""),
	READABLE(DIALECT_SERVERSET, "member_0000000007", NULL,
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":1},\"additionalEndpoints\":{}}",
		RECORD(ENDPOINT("web", "tcp", "h", "1")) MEMBER_TAIL),
	READABLE(DIALECT_SERVERSET, "member_0000000007", NULL,
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":1},\"status\":\"DEAD\"}",
		RECORD("") MEMBER_TAIL ",\"serverset:status\":\"DEAD\""),
	READABLE(DIALECT_SERVERSET, "member_0000000007", NULL,
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":1},\"additionalEndpoints\":{"
		"\"a<b\":{\"host\":\"h\",\"port\":\"2\"},\"a\\u007f\":{\"host\":\"h\",\"port\":3}},"
		"\"metadata\":{\"k\":1,\"l\":\"\"}}",
		RECORD(ENDPOINT("web", "tcp", "h", "1") "," ENDPOINT(
			"web", "tcp", "h", "2") "," ENDPOINT("web", "tcp", "h", "3")) MEMBER_TAIL
		",\"metadata.l\":\"\""),
	READABLE(DIALECT_SERVERSET, "member_0000000007", NULL,
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":\"65535\"}}",
		RECORD(ENDPOINT("web", "tcp", "h", "65535")) MEMBER_TAIL),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007",
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":0}}", "port"),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007",
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":65536}}", "port"),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007", "{\"serviceEndpoint\":{\"host\":\"h\"}}",
		"no host or no port"),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007", "{\"serviceEndpoint\":{\"port\":1}}",
		"no host or no port"),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007",
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":\"\"}}", "port"),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007",
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":\"000080\"}}", "port"),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007",
		"{\"serviceEndpoint\":{\"host\":\"h\",\"port\":\"8o\"}}", "port"),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007",
		"{\"serviceEndpoint\":{\"host\":\"a b\",\"port\":1},\"metadata\":{\"k\":\"v\"}}",
		"is not a host"),
	UNREADABLE(DIALECT_SERVERSET, "member_0000000007", "{\"serviceEndpoint\":7}",
		"no serviceEndpoint"),

	READABLE(DIALECT_CURATOR, "uuid", NULL, INSTANCE,
		RECORD(ENDPOINT("app", "tcp", "10.0.0.1", "80")) INSTANCE_TAIL
		",\"curator:name\":\"app\",\"curator:serviceType\":\"DYNAMIC\","
		"\"curator:registrationTimeUTC\":1700000000000,\"curator:uriSpec\":" URI_SPEC),
	READABLE(DIALECT_CURATOR, "uuid", NULL,
		"{\"name\":\"my app\",\"address\":\"h\",\"port\":\"80\",\"unknown\":[1]}",
		RECORD(ENDPOINT("web", "tcp", "h", "80")) INSTANCE_TAIL
		",\"curator:name\":\"my app\""),
	READABLE(DIALECT_CURATOR, "uuid", NULL, SPRING("UP"),
		RECORD(ENDPOINT("app", "tcp", "10.0.0.1", "80") "," ENDPOINT(
			"app", "tls", "10.0.0.1", "443")) SPRING_TAIL("UP")),
	READABLE(DIALECT_CURATOR, "uuid", NULL, SPRING("OUT_OF_SERVICE"),
		RECORD("") SPRING_TAIL("OUT_OF_SERVICE")),
	READABLE(DIALECT_CURATOR, "uuid", NULL, "{\"address\":\"h\",\"port\":80,\"enabled\":false}",
		RECORD("") INSTANCE_TAIL),
	READABLE(DIALECT_CURATOR, "uuid", NULL, "{\"address\":\"h\",\"sslPort\":443}",
		RECORD(ENDPOINT("web", "tls", "h", "443")) INSTANCE_TAIL),
	READABLE(DIALECT_CURATOR, "uuid", NULL, "{\"name\":\"a!b\",\"address\":\"h\"}",
		RECORD(HOST("a!b", "tcp", "h")) INSTANCE_TAIL ",\"curator:name\":\"a!b\""),
	UNREADABLE(DIALECT_CURATOR, "uuid", "{\"name\":\"app\",\"port\":80}", "no address"),
	UNREADABLE(DIALECT_CURATOR, "uuid", "{\"address\":\"h\",\"port\":80.5}", "port"),

	READABLE(DIALECT_NERVE, "i-1_0000000001", NULL, NERVE,
		RECORD(ENDPOINT("web", "tcp", "1.2.3.4",
			"3000")) ",\"yarn:id\":\"i-1\"" NERVE_TAIL
				 ",\"nerve:weight\":2,\"nerve:haproxy_server_options\":\"backup\","
				 "\"labels.az\":\"a\""),
	READABLE(DIALECT_NERVE, "i-1_0000000001", NULL,
		"{\"host\":\"::1\",\"port\":3000,\"weight\":null}",
		RECORD(ENDPOINT(
			"web", "tcp", "::1", "3000")) ",\"yarn:id\":\"i-1_0000000001\"" NERVE_TAIL),
	UNREADABLE(DIALECT_NERVE, "i-1_0000000001", "{\"host\":\"h\"}", "no port"),

	READABLE(DIALECT_MESOS, "json.info_0000000003", NULL, MASTER,
		MASTER_RECORD ",\"mesos:version\":\"1.11.0\""),
	READABLE(DIALECT_MESOS, "json.info_0000000003", NULL, OLD_MASTER, MASTER_RECORD),
	READABLE(DIALECT_MESOS, "json.info_0000000003", NULL,
		"{\"address\":{\"hostname\":\"m1\",\"port\":5050}}",
		RECORD(ENDPOINT("web", "http", "m1", "5050")) MESOS_TAIL
		",\"yarn:hostname\":\"m1\""),
	READABLE(DIALECT_MESOS, "json.info_0000000003", NULL,
		"{\"ip\":1,\"port\":1,\"domain\":{\"a\":7}}",
		RECORD(ENDPOINT("web", "http", "1.0.0.0", "1")) MESOS_TAIL
		",\"yarn:ip\":\"1.0.0.0\",\"mesos:domain\":{\"a\":7}"),
	READABLE(DIALECT_MESOS, "json.info_0000000003", NULL, "{\"ip\":4294967295,\"port\":1}",
		RECORD(ENDPOINT("web", "http", "255.255.255.255", "1")) MESOS_TAIL
		",\"yarn:ip\":\"255.255.255.255\""),
	UNREADABLE(DIALECT_MESOS, "json.info_0000000003", "{\"pid\":\"x\"}", "no address"),

	UNREADABLE(DIALECT_NERVE, "n", "10.0.0.1:80", "not JSON"),
	UNREADABLE(DIALECT_NERVE, "n", "[]", "is not an object"),
	UNREADABLE(DIALECT_NERVE, "n", "{\"host\":\"h\\u0000\",\"port\":1}", "not JSON"),
	UNREADABLE(DIALECT_NERVE, "n", "{\"host\":\"\xff\",\"port\":1}", "not JSON"),
	UNREADABLE(DIALECT_MESOS, "json.info_0000000003", "{\"ip\":\"x\",\"port\":5050}",
		"there is no address"),
	UNREADABLE(DIALECT_MESOS, "json.info_0000000003", "{\"ip\":0,\"port\":5050}",
		"there is no address"),
	UNREADABLE(DIALECT_MESOS, "json.info_0000000003", "{\"ip\":-1,\"port\":5050}",
		"there is no address"),
	UNREADABLE(DIALECT_MESOS, "json.info_0000000003", "{\"ip\":4294967296,\"port\":5050}",
		"there is no address"),
};

static int read_row(const struct row *row, char **ret_text, struct err *err)
{
	const struct dialect_member member = {
		.service = "web",
		.name = row->name,
		.ephemeral = true,
		.data = row->data,
		.len = strlen(row->data),
		.group_data = row->group,
		.group_len = row->group ? strlen(row->group) : 0,
	};
	size_t len = 0;
	int code = dialect_read(ret_text, &len, row->type, &member, err);
	cr_assert(code || len == strlen(*ret_text));
	return code;
}

static void check_readable(const struct row *row)
{
	struct err err = ERR_INIT;
	char *text = NULL;
	char *expected = NULL;
	cr_assert_eq(read_row(row, &text, &err), 0, "%s: %s", row->data, err.msg);
	cr_assert(asprintf(&expected, "{\"type\":\"JSONServiceRecord\",%s}", row->record) > 0);
	cr_assert_str_eq(text, expected, "%s\n%s", text, expected);
	free(expected);
	free(text);
}

static void check_unreadable(const struct row *row)
{
	struct err err = ERR_INIT;
	char *text = NULL;
	cr_assert_eq(read_row(row, &text, &err), BERTH_INVALID_RECORD, "%s: %s", row->data, text);
	cr_assert_null(text);
	cr_assert_not_null(strstr(err.msg, row->why), "%s: %s", row->data, err.msg);
	cr_assert_eq(read_row(row, &text, NULL), BERTH_INVALID_RECORD);
}

Test(dialect_read, each_scheme_gives_its_record_byte_by_byte)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].record) {
			check_readable(&rows[i]);
		} else {
			check_unreadable(&rows[i]);
		}
	}
}

Test(dialect_read, an_empty_node_is_no_record)
{
	const struct row row = UNREADABLE(DIALECT_REGISTRAR, "below", "", NULL);
	struct err err = ERR_INIT;
	char *text = NULL;
	cr_assert_eq(read_row(&row, &text, &err), BERTH_NO_RECORD);
}

Test(dialect_read, a_node_that_stays_is_a_permanent_record)
{
	static const char data[] = "{\"host\":\"h\",\"port\":1}";
	const struct dialect_member member = {
		.service = "web", .name = "n", .data = data, .len = strlen(data)
	};
	struct err err = ERR_INIT;
	char *text = NULL;
	size_t len = 0;
	cr_assert_eq(dialect_read(&text, &len, DIALECT_NERVE, &member, &err), 0, "%s", err.msg);
	cr_assert_not_null(strstr(text, "\"yarn:persistence\":\"permanent\""), "%s", text);
	free(text);
}

/* A member whose only label has this many bytes. */
static int read_large(int label_bytes, struct err *err)
{
	struct row row = { DIALECT_NERVE, "n", NULL, NULL, NULL, NULL };
	char *data = NULL;
	char *text = NULL;
	cr_assert(asprintf(&data, "{\"host\":\"h\",\"port\":1,\"labels\":{\"l\":\"%0*d\"}}",
			  label_bytes, 0) > 0);
	row.data = data;
	int code = read_row(&row, &text, err);
	free(text);
	free(data);
	return code;
}

Test(dialect_read, a_member_that_no_record_can_hold_is_unreadable)
{
	struct err err = ERR_INIT;
	cr_assert_eq(read_large(LIMIT_RECORD_BYTES - 1024, &err), 0, "%s", err.msg);
	cr_assert_eq(read_large(LIMIT_RECORD_BYTES, &err), BERTH_INVALID_RECORD);
	cr_assert_not_null(strstr(err.msg, "bytes"), "%s", err.msg);
}

Test(dialect_read, an_api_that_is_too_long_is_the_services_name)
{
	const struct {
		int bytes;
		bool is_kept;
	} names[] = { { LIMIT_API_BYTES, true }, { LIMIT_API_BYTES + 1, false } };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct row row = { DIALECT_CURATOR, "n", NULL, NULL, NULL, NULL };
		struct err err = ERR_INIT;
		char *data = NULL;
		char *text = NULL;
		cr_assert(asprintf(&data, "{\"name\":\"%0*d\",\"address\":\"h\",\"port\":1}",
				  names[i].bytes, 0) > 0);
		row.data = data;
		cr_assert_eq(read_row(&row, &text, &err), 0, "%s", err.msg);
		cr_assert_eq(!strstr(text, "\"api\":\"web\""), names[i].is_kept, "%s", text);
		free(text);
		free(data);
	}
}

/* ---- names ---- */

/* `expected`: labels and names in turns, NULL at the end. */
static void check_entries(
	enum dialect_type type, char *const names[], size_t count, const char *const expected[])
{
	struct dialect_entry entries[8];
	size_t found = dialect_entries(entries, type, names, count);
	for (size_t i = 0; i < found; i++) {
		cr_assert_not_null(expected[2 * i], "%s", entries[i].label);
		cr_assert_str_eq(entries[i].label, expected[2 * i]);
		cr_assert_str_eq(entries[i].name, expected[2 * i + 1]);
	}
	cr_assert_null(expected[2 * found], "%s is missing", expected[2 * found]);
}

Test(dialect_read, a_serverset_has_members_and_weights)
{
	/* A server may say a name twice. */
	char *const names[] = { "member_0000000002", "vector_0000000001", "member_0000000010",
		"member_0000000002", "member_0000000010" };
	static const char *const expected[] = { "member--0000000002", "member_0000000002",
		"member--0000000010", "member_0000000010", NULL };
	check_entries(DIALECT_SERVERSET, names, 5, expected);
	cr_assert_not(dialect_reads_group(DIALECT_SERVERSET));
}

Test(dialect_read, each_node_of_other_groups_is_a_member)
{
	char *const names[] = { "web1", "vector_1" };
	static const char *const expected[] = { "vector--1", "vector_1", "web1", "web1", NULL };
	check_entries(DIALECT_REGISTRAR, names, 2, expected);
	check_entries(DIALECT_NERVE, names, 2, expected);
	cr_assert(dialect_reads_group(DIALECT_REGISTRAR));
}

Test(dialect_read, the_lowest_of_the_masters_leads)
{
	char *const names[] = { "log_replicas", "json.info_0000000012", "json.info_0000000009",
		"info_0000000001", "json.info_0000000010", "json.info_", "json.info_00000000011",
		"json.info_000000001x" };
	static const char *const expected[] = { "leader", "json.info_0000000009",
		"master-0000000010", "json.info_0000000010", "master-0000000012",
		"json.info_0000000012", NULL };
	static const char *const none[] = { NULL };
	check_entries(DIALECT_MESOS, names, 8, expected);
	check_entries(DIALECT_MESOS, names, 1, none);
}

Test(dialect_read, a_label_alone_tells_most_names)
{
	char name[DIALECT_LABEL_SIZE];
	cr_assert(dialect_entry_name(name, DIALECT_SERVERSET, "member--0000000002"));
	cr_assert_str_eq(name, "member_0000000002");
	cr_assert_not(dialect_entry_name(name, DIALECT_SERVERSET, "vector--0000000002"));
	cr_assert_not(dialect_entry_name(name, DIALECT_MESOS, "leader"));
	cr_assert_not(dialect_entry_name(name, DIALECT_NERVE, "x---2e---2e"));
	cr_assert_not(dialect_entry_name(name, DIALECT_NERVE, "a---2fb"));
	cr_assert_not(
		dialect_entry_name(name, DIALECT_NERVE, "h----0123456789abcdef0123456789abcdef"));
}
