/* Names, evaluated against a small registry in a table. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/names/internal.h"
#include "lib/base/array.h"
#include "lib/base/path.h"
#include "tests/support/names_line.h"

TestSuite(names);

#define RECORD(attributes, endpoints)                                                              \
	"{\"type\":\"JSONServiceRecord\"," attributes "\"external\":[" endpoints                   \
	"],\"internal\":[]}"
#define ENDPOINT(api, protocol, host, port)                                                        \
	"{\"api\":\"" api "\",\"addressType\":\"host/port\",\"protocol\":\"" protocol              \
	"\",\"addresses\":[{\"host\":\"" host "\",\"port\":\"" port "\"}]}"

#define APP "/users/eve/services/yarn-service/app"
#define CONTAINER APP "/components/ctr-e50-1451931954322-0016-01-000002"

static const struct {
	const char *path;
	const char *record; /* NULL: a node without one */
} nodes[] = {
	{ "/services", NULL },
	{ "/services/db", RECORD("", ENDPOINT("urn:sql", "tcp", "10.0.0.9", "5432")) },
	{ "/services/mail", RECORD("", ENDPOINT("urn:smtp", "tcp", "mx.example.org", "25")) },
	{ "/services/none", NULL },
	{ "/services/two-names",
		RECORD("",
			ENDPOINT("urn:a", "tcp", "a.example.org", "1") "," ENDPOINT(
				"urn:b", "tcp", "b.example.org", "2")) },
	{ "/services/elsewhere",
		RECORD("\"yarn:ip\":\"10.0.0.77\",",
			ENDPOINT("urn:a", "tcp", "203.0.113.5", "1") "," ENDPOINT(
				"urn:b", "tcp", "b.example.org", "2")) },
	{ "/services/container",
		RECORD("\"yarn:ip\":\"10.0.0.78\",", ENDPOINT("urn:a", "http", "c0ffee", "80")) },
	{ "/services/rds",
		RECORD("\"description\":\"orders\",",
			ENDPOINT("urn:sql", "tcp", "db1.rds.example.com", "5432")) },
	{ "/services/bad", "{\"type\":\"JSONServiceRecord\"" },
	{ "/net", NULL },
	{ "/net/east", NULL },
	{ "/net/east/users", NULL },
	{ "/net/east/users/joe", NULL },
	{ "/net/east/users/joe/web", NULL },
	{ "/net/east/users/joe/web/prod", NULL },
	{ "/net/east/users/joe/web/prod/components", NULL },
	{ "/net/east/users/joe/web/prod/components/c9",
		RECORD("", ENDPOINT("urn:rest", "http", "10.1.0.2", "8080")) },
	{ "/users/net", NULL },
	{ "/users/net/web", NULL },
	{ "/users/net/web/prod", RECORD("", ENDPOINT("urn:rest", "http", "10.0.0.5", "8080")) },
	{ "/users", NULL },
	{ "/users/joe", NULL },
	{ "/users/joe/web", NULL },
	{ "/users/joe/web/prod",
		RECORD("\"description\":\"the site\",\"yarn:id\":\"app_1\",\"n\":1,",
			ENDPOINT("http://example.org/apis/balancer", "http", "10.0.0.1", "80")) },
	{ "/users/joe/web/prod/components", NULL },
	{ "/users/joe/web/prod/components/c1",
		RECORD("\"weight\":5,\"priority\":\"2\",",
			ENDPOINT("http://example.org/apis/REST", "http", "10.0.0.2", "8080")) },
	{ "/users/joe/web/prod/components/c2",
		RECORD("",
			ENDPOINT("urn:rest", "HTTP", "10.0.0.3", "8080") "," ENDPOINT("urn:admin",
				"web ui", "10.0.0.4",
				"81") "," ENDPOINT("urn:six", "x", "2001:db8::1", "82")) },
	{ "/users/joe/web/prod/components/c3", NULL },
	{ "/users/joe/web/test", NULL },
	{ "/users/joe/web/test/components", NULL },
	{ "/users/eve", NULL },
	{ "/users/eve/services", NULL },
	{ "/users/eve/services/batch", NULL },
	{ "/users/eve/services/batch/job", NULL },
	{ "/users/eve/services/yarn-service", NULL },
	{ APP,
		RECORD("",
			ENDPOINT("classpath:org.apache.hadoop.yarn.service.ipc", "hadoop/IPC",
				"10.0.1.1", "9000")) },
	{ APP "/components", NULL },
	{ CONTAINER,
		"{\"type\":\"JSONServiceRecord\",\"description\":\"httpd-1\",\"external\":[],"
		"\"internal\":[],\"yarn:id\":\"container_e50_1451931954322_0016_01_000002\","
		"\"yarn:persistence\":\"container\",\"yarn:ip\":\"172.17.0.19\","
		"\"yarn:hostname\":\"host1\",\"yarn:component\":\"httpd\"}" },
	{ APP "/components/other",
		"{\"type\":\"JSONServiceRecord\",\"description\":\"sleep-1\",\"external\":[],"
		"\"internal\":[],\"yarn:ip\":\"172.17.0.20\"}" },
};

#define NODE_COUNT (ARRAY_LEN(nodes))

struct table {
	const char *odd; /* the path that is pending or unknown */
	enum names_known odd_is;
	bool away; /* everything below the root that is not there is unknown */
	struct record *records[NODE_COUNT];
	char **children
		[8]; /* of the calls of one evaluation; as long as they are, for a sanitizer */
	size_t lists;
	/* records of a search among all */
};

static struct table table;

static void open_table(void)
{
	for (size_t i = 0; i < NODE_COUNT; i++) {
		if (nodes[i].record) {
			int code = record_decode(
				&table.records[i], nodes[i].record, strlen(nodes[i].record), NULL);
			cr_assert(code == 0 || strcmp(nodes[i].path, "/services/bad") == 0, "%s",
				nodes[i].path);
		}
	}
}

static void forget_children(void)
{
	while (table.lists > 0) {
		free(table.children[--table.lists]);
	}
}

static void close_table(void)
{
	for (size_t i = 0; i < NODE_COUNT; i++) {
		record_free(table.records[i]);
	}
	forget_children();
}

static enum names_known get_node(void *context, const char *path, const void **ret_record)
{
	struct table *from = context;
	if (from->odd && strcmp(from->odd, path) == 0) {
		return from->odd_is;
	}
	for (size_t i = 0; i < NODE_COUNT; i++) {
		if (strcmp(nodes[i].path, path) == 0) {
			*ret_record = from->records[i];
			return NAMES_NODE_THERE;
		}
	}
	return from->away ? NAMES_NODE_UNKNOWN : NAMES_NODE_ABSENT;
}

static enum names_known get_children(
	void *context, const char *path, char *const **ret_paths, size_t *ret_count)
{
	struct table *from = context;
	const void *record;
	enum names_known known = get_node(context, path, &record);
	if (known != NAMES_NODE_THERE) {
		return known;
	}
	char **children = NULL;
	size_t count = 0;
	for (size_t i = 0; i < NODE_COUNT; i++) {
		size_t parent_len = path_parent_len(nodes[i].path);
		if (strlen(path) == parent_len && strncmp(nodes[i].path, path, parent_len) == 0) {
			children = realloc(children, (count + 1) * sizeof(*children));
			children[count++] = (char *)(uintptr_t)nodes[i].path;
		}
	}
	cr_assert_lt(from->lists, ARRAY_LEN(from->children));
	from->children[from->lists++] = children;
	*ret_paths = children;
	*ret_count = count;
	return NAMES_NODE_THERE;
}

/* All of them: the names module looks at each. */
static enum names_known each_known(
	void *context, uint64_t key, names_visit *visit, void *visit_context)
{
	const struct table *from = context;
	(void)key;
	for (size_t i = 0; i < NODE_COUNT; i++) {
		if (from->records[i]) {
			visit(visit_context, nodes[i].path, from->records[i]);
		}
	}
	return NAMES_NODE_THERE;
}

static const struct names_source source = { &table, get_node, get_children, each_known, NULL };

static const char *describe(const char *name)
{
	struct names_answer answer;
	names_evaluate(&answer, name, "berth", &source);
	const char *line = names_line(&answer);
	names_answer_finish(&answer);
	forget_children();
	return line;
}

#define PROD "components.prod.web.joe.users.berth"
#define EAST "components.prod.web.joe.users.east.net.berth"
#define C1 "[2 5 8080 c1." PROD "]"
#define C2 "[0 1 8080 ip-10-0-0-3.c2." PROD "]"
#define C2_ADMIN "[0 1 81 ip-10-0-0-4.c2." PROD "]"
#define C2_SIX "[0 1 82 ip6-20010db8000000000000000000000001.c2." PROD "]"
#define OWN "[0 1 80 prod.web.joe.users.berth]"
#define ALL                                                                                        \
	"found 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 2001:db8::1 " OWN " " C1 " " C2 " " C2_ADMIN    \
	" " C2_SIX

static const struct {
	const char *name;
	const char *answer;
} names[] = {
	{ "berth", "found apex" },
	{ "BERTH.", "found apex" },
	{ "db.services.berth", "found 10.0.0.9 [0 1 5432 db.services.berth]" },
	{ "Db.Services.Berth.", "found 10.0.0.9 [0 1 5432 db.services.berth]" },
	{ "mail.services.berth", "found =mx.example.org" },
	{ "_smtp._tcp.mail.services.berth", "found [0 1 25 mx.example.org]" },
	{ "elsewhere.services.berth",
		"found 203.0.113.5 [0 1 1 elsewhere.services.berth] [0 1 2 b.example.org]" },
	{ "ip-203-0-113-5.elsewhere.services.berth",
		"found 203.0.113.5 [0 1 1 elsewhere.services.berth] [0 1 2 b.example.org]" },
	{ "ip-10-0-0-77.elsewhere.services.berth", "absent" },
	{ "container.services.berth", "found 10.0.0.78 [0 1 80 c0ffee]" },
	{ "rds.services.berth", "found =db1.rds.example.com" },
	{ "_tcp.rds.services.berth", "found" },
	{ "two-names.services.berth", "found [0 1 1 a.example.org] [0 1 2 b.example.org]" },
	{ "none.services.berth", "found" },
	{ "bad.services.berth", "found" },
	{ "services.berth", "found" },
	{ "joe.berth", "found" },
	{ "joe.users.berth", "found" },
	{ "web.joe.berth", "found" },
	{ "components.prod.web.joe.berth", "found" },
	{ "c1." PROD, "found 10.0.0.2 " C1 },
	{ "c1.prod.web.joe.berth", "found 10.0.0.2 " C1 },
	{ "c1.prod.web.joe.users.berth", "found 10.0.0.2 " C1 },
	{ "c1.components.prod.web.joe.berth", "found 10.0.0.2 " C1 },
	{ "c3.prod.web.joe.berth", "found" },
	{ "prod.web.joe.berth", ALL },
	{ "prod.web.joe.users.berth", ALL },
	{ "test.web.joe.berth", "found" },
	{ "_http._tcp.prod.web.joe.berth", "found " OWN " " C1 " " C2 },
	{ "_HTTP._UDP.c1.prod.web.joe.berth", "found " C1 },
	{ "_rest._tcp.prod.web.joe.berth", "found " C1 " " C2 },
	{ "_balancer._tcp.prod.web.joe.berth", "found " OWN },
	{ "_web-ui._tcp.c2.prod.web.joe.berth", "found " C2_ADMIN },
	{ "_other._tcp.prod.web.joe.berth", "absent" },
	{ "_tcp.prod.web.joe.berth", "found" },
	{ "_tcp.nowhere.berth", "absent" },
	{ "_http._tcp.nowhere.berth", "absent" },
	{ "ip-10-0-0-4.c2.prod.web.joe.berth",
		"found 10.0.0.4 [0 1 8080 ip-10-0-0-3.c2." PROD "] " C2_ADMIN " " C2_SIX },
	{ "ip-10-0-0-5.c2.prod.web.joe.berth", "absent" },
	{ "ip-300-0-0-5.c2.prod.web.joe.berth", "absent" },
	{ "ip6-20010db8000000000000000000000001.c2." PROD,
		"found 2001:db8::1 [0 1 8080 ip-10-0-0-3.c2." PROD "] " C2_ADMIN " " C2_SIX },
	{ "c9.prod.web.joe.berth", "absent" },
	{ "net.berth", "found" },
	{ "east.net.berth", "found" },
	{ "west.net.berth", "absent" },
	{ "prod.web.joe.east.net.berth", "found 10.1.0.2 [0 1 8080 c9." EAST "]" },
	{ "prod.web.joe.users.east.net.berth", "found 10.1.0.2 [0 1 8080 c9." EAST "]" },
	{ "c9.prod.web.joe.east.net.berth", "found 10.1.0.2 [0 1 8080 c9." EAST "]" },
	{ "_http._tcp.prod.web.joe.east.net.berth", "found [0 1 8080 c9." EAST "]" },
	{ "ip-10-1-0-2.c9.prod.web.joe.east.net.berth", "found 10.1.0.2 [0 1 8080 c9." EAST "]" },
	{ "c1.prod.web.joe.east.net.berth", "absent" },
	{ "ctr-e50-1451931954322-0016-01-000002.east.net.berth", "absent" },
	{ "prod.web.net.berth", "absent" },
	{ "prod.web.net.users.berth", "found 10.0.0.5 [0 1 8080 prod.web.net.users.berth]" },
	{ "nowhere.berth", "absent" },
	{ "c1.c1.prod.web.joe.berth", "absent" },
	{ "a_b.services.berth", "absent" },
	{ "-.services.berth", "absent" },
	{ "app.eve.berth", "found 10.0.1.1 [0 1 9000 app.yarn-service.services.eve.users.berth]" },
	{ "_ipc._tcp.app.eve.berth", "found [0 1 9000 app.yarn-service.services.eve.users.berth]" },
	{ "_hadoop-ipc._tcp.app.eve.berth",
		"found [0 1 9000 app.yarn-service.services.eve.users.berth]" },
	{ "httpd-1.app.eve.berth", "found 172.17.0.19" },
	{ "httpd.app.eve.berth", "found 172.17.0.19" },
	{ "sleep-1.app.eve.berth", "found 172.17.0.20" },
	{ "none-1.app.eve.berth", "absent" },
	{ "job.eve.berth", "found" },
	{ "nothing.eve.berth", "absent" },
	{ "x.job.eve.berth", "absent" },
	{ "c1.berth", "absent" },
	{ "ctr-e50-1451931954322-0016-01-000002.x.berth", "absent" },
	{ "_tcp.berth", "found" },
	{ "_http._tcp.berth", "absent" },
	{ "_http.berth", "absent" },
	{ "berth..", "outside" },
	{ "app.yarn-service.eve.berth",
		"found 10.0.1.1 172.17.0.19 172.17.0.20 "
		"[0 1 9000 app.yarn-service.services.eve.users.berth]" },
	{ "ctr-e50-1451931954322-0016-01-000002.app.yarn-service.eve.berth", "found 172.17.0.19" },
	{ "ctr-e50-1451931954322-0016-01-000002.berth", "found 172.17.0.19" },
	{ "ctr-e50-1451931954322-0016-01-000003.berth", "absent" },
	{ "9.0.0.10.in-addr.arpa", "outside" },
	{ "5.113.0.203.in-addr.arpa", "outside" },
	{ "77.0.0.10.in-addr.arpa", "found ->elsewhere.services.berth" },
	{ "1.0.0.10.in-addr.arpa", "outside" },
	{ "2.0.0.10.in-addr.arpa", "found ->c1." PROD },
	{ "1.1.0.10.in-addr.arpa", "outside" },
	{ "19.0.17.172.in-addr.arpa.",
		"found ->ctr-e50-1451931954322-0016-01-000002"
		".components.app.yarn-service.services.eve.users.berth" },
	{ "8.0.0.10.in-addr.arpa", "outside" },
	{ "9.00.0.10.in-addr.arpa", "outside" },
	{ "0.10.in-addr.arpa", "outside" },
	{ "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
		"found ->c2." PROD },
	{ "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.x.ip6.arpa", "outside" },
	{ "example.org", "outside" },
	{ "notberth", "outside" },
	{ "berth.example.org", "outside" },
	{ "", "outside" },
	{ ".", "outside" },
	{ "a..berth", "outside" },
};

Test(names, every_form_of_a_name_finds_its_records, .init = open_table, .fini = close_table)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cr_expect_str_eq(describe(names[i].name), names[i].answer, "%s", names[i].name);
	}
}

/* A path that is tried makes the name pending while it is read. */
Test(names, a_name_means_certain_paths_and_no_others, .init = open_table, .fini = close_table)
{
	static const struct {
		const char *name;
		const char *path;
		bool is_tried;
	} meanings[] = {
		{ "b.a.berth", "/a/b", true },
		{ "b.a.berth", "/users/a/b", true },
		{ "b.a.users.berth", "/users/users/a/b", false },
		{ "a_b.a.berth", "/a/a_b", false },
		{ "a.users.berth", "/users/a", true },
		{ "a.users.berth", "/users/a/services", false },
		{ "b.a.users.berth", "/users/a/services/b", true },
		{ "c.b.a.users.berth", "/users/a/services/b/c", true },
		{ "c.b.a.users.berth", "/users/a/services/b/components/c", false },
		{ "d.c.b.a.users.berth", "/users/a/b/c/components/d", true },
		{ "d.c.b.a.users.berth", "/users/a/services/b/c/d", true },
		{ "d.c.b.a.users.berth", "/users/a/services/b/c/components/d", true },
		{ "e.d.c.b.a.users.berth", "/users/a/b/c/components/d/e", false },
		{ "e.d.c.b.a.users.berth", "/users/a/services/b/c/d/e", true },
		{ "e.d.c.b.a.users.berth", "/users/a/services/b/c/components/d/e", false },
		{ "f.e.d.c.b.a.users.berth", "/users/a/services/b/c/d/e/f", false },
		{ "b.services.a.users.berth", "/users/a/services/services/b", false },
		{ "d.c.b.services.a.users.berth", "/users/a/services/b/c/components/d", true },
		{ "d.c.services.b.a.users.berth", "/users/a/b/services/c/components/d", false },
		{ "components.c.b.a.users.berth", "/users/a/b/c/components/components", false },
		/* The children of a user's services. */
		{ "a.berth", "/users/a/services", false },
		{ "b.a.berth", "/users/a/services", true },
		{ "c.b.a.berth", "/users/a/services", true },
		{ "d.c.b.a.berth", "/users/a/services", false },
	};
	table.odd_is = NAMES_NODE_PENDING;
	for (size_t i = 0; i < ARRAY_LEN(meanings); i++) {
		table.odd = meanings[i].path;
		cr_expect_str_eq(describe(meanings[i].name),
			meanings[i].is_tried ? "pending" : "absent", "%s %s", meanings[i].name,
			meanings[i].path);
	}
}

Test(names, a_set_with_a_part_that_is_not_known_is_not_known, .init = open_table,
	.fini = close_table)
{
	static const char *const parts[] = { "/users/joe/web/prod/components",
		"/users/joe/web/prod/components/c2" };
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		table.odd = parts[i];
		table.odd_is = NAMES_NODE_PENDING;
		cr_assert_str_eq(describe("prod.web.joe.berth"), "pending");
		table.odd_is = NAMES_NODE_UNKNOWN;
		cr_assert_str_eq(describe("prod.web.joe.berth"), "unknown");
	}
}

Test(names, known_names_are_answered_while_the_registry_is_away, .init = open_table,
	.fini = close_table)
{
	table.away = true;
	cr_assert_str_eq(describe("c1.prod.web.joe.berth"), "found 10.0.0.2 " C1);
	cr_assert_str_eq(describe("nowhere.berth"), "unknown");
	cr_assert_str_eq(describe("_other._tcp.c1.prod.web.joe.berth"), "absent");
}

Test(names, texts_are_the_attributes_that_are_text, .init = open_table, .fini = close_table)
{
	struct names_answer answer;
	names_evaluate(&answer, "prod.web.joe.berth", "berth", &source);
	cr_assert_eq(answer.text_count, 3);
	cr_assert_str_eq(answer.texts[0], "description=the site");
	cr_assert_str_eq(answer.texts[1], "yarn:id=app_1");
	cr_assert_str_eq(answer.texts[2], "priority=2");
	cr_assert_eq(answer.path_count, 3);
	names_answer_finish(&answer);
}

Test(names, an_alias_has_nothing_else, .init = open_table, .fini = close_table)
{
	struct names_answer answer;
	names_evaluate(&answer, "rds.services.berth", "berth", &source);
	cr_assert_str_eq(answer.alias, "db1.rds.example.com");
	cr_assert_eq(answer.text_count, 0);
	cr_assert_eq(answer.target_count, 0);
	cr_assert_eq(answer.path_count, 1);
	names_answer_finish(&answer);
}
