/* Whole files in, structs or mistakes out. */
#include <criterion/criterion.h>
#include <limits.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "lib/base/text.h"
#include "tests/support/scratch.h"

static char folder[SCRATCH_PATH];

static void make_folder(void)
{
	scratch_folder(folder);
	char command[300];
	snprintf(command, sizeof(command), "%s/conf.d", folder);
	cr_assert_eq(mkdir(command, 0700), 0);
}

static void remove_folder(void)
{
	char command[300];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

static const char *path_of(const char *name)
{
	static char path[600];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_bytes(const char *name, const char *bytes, size_t len)
{
	FILE *stream = fopen(path_of(name), "we");
	cr_assert_not_null(stream);
	cr_assert_eq(fwrite(bytes, 1, len, stream), len);
	cr_assert_eq(fclose(stream), 0);
}

static void write_file(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

static struct config *load_path(const char *path)
{
	struct config *config = NULL;
	struct config_problems problems;
	int ret = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	cr_assert_eq(ret, 0);
	cr_assert_eq(problems.error_count, 0);
	config_problems_finish(&problems);
	return config;
}

static struct config *load(const char *text)
{
	write_file("a.ini", text);
	return load_path(path_of("a.ini"));
}

/* test_doubt.c looks at them. */
static void drop_warnings(struct config_problems *problems)
{
	size_t count = 0;
	for (size_t i = 0; i < problems->count; i++) {
		if (problems->items[i].warning) {
			free(problems->items[i].file);
			free(problems->items[i].message);
		} else {
			problems->items[count++] = problems->items[i];
		}
	}
	problems->count = count;
}

static struct config_problems fail_path(const char *path)
{
	struct config *config = NULL;
	struct config_problems problems;
	cr_assert_eq(config_load(&config, path, &problems), BERTH_FAILED);
	cr_assert_null(config);
	drop_warnings(&problems);
	cr_assert_gt(problems.count, 0);
	return problems;
}

static struct config_problems fail(const char *text)
{
	write_file("a.ini", text);
	return fail_path(path_of("a.ini"));
}

static void check_problem(const struct config_problems *problems, size_t index, const char *file,
	int line, const char *part)
{
	cr_assert_lt(index, problems->count, "problem %zu is missing", index);
	const struct config_problem *problem = &problems->items[index];
	const char *slash = strrchr(problem->file, '/');
	cr_expect_str_eq(slash ? slash + 1 : problem->file, file);
	cr_expect_eq(
		problem->line, line, "line %d, not %d: %s", problem->line, line, problem->message);
	cr_expect(strstr(problem->message, part), "\"%s\" lacks \"%s\"", problem->message, part);
}

/* The text has one mistake, in this line, and the message holds `part`. */
static void check_one(const char *text, int line, const char *part)
{
	struct config_problems problems = fail(text);
	if (problems.count != 1) {
		config_problems_print(&problems, stderr);
	}
	cr_expect_eq(problems.count, 1, "%zu mistakes in: %s", problems.count, text);
	check_problem(&problems, 0, "a.ini", line, part);
	config_problems_finish(&problems);
}

#define COMPONENT                                                                                  \
	"[component]\nuser = devteam\nservice_class = tomcat\ninstance = test1\nname = n1\n"
#define ENDPOINT "[endpoint rest]\napi = http://a/b\nprotocol = REST\naddress_type = uri\n"
#define CHECK "[check c]\n"

TestSuite(config, .init = make_folder, .fini = remove_folder);

Test(config, an_empty_file_gives_the_defaults)
{
	struct config *config = load("");
	cr_expect_str_eq(config->agent.socket, "/run/berth/berth.sock");
	cr_expect_eq(config->agent.socket_mode, 0666);
	cr_expect_str_eq(config->agent.socket_group, "");
	cr_expect_eq(config->agent.socket_group_id, (unsigned)-1);
	cr_expect_str_eq(config->agent.listen, "");
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_INFO);
	cr_expect_not(config->agent.log_json);
	cr_expect_eq(config->agent.stop_timeout_ms, 5000);
	cr_expect_eq(config->agent.restart, RESTART_NEVER);
	cr_expect_eq(config->agent.max_parallel_checks, 16);
	cr_expect_eq(config->agent.max_watchers, 10000);
	cr_expect_eq(config->agent.heartbeat_interval_ms, 15000);
	cr_expect_str_eq(config->registry.url, "dir:/var/lib/berth/registry");
	cr_expect_eq(config->registry.session_timeout_ms, 30000);
	cr_expect_str_eq(config->registry.system_accounts, "sasl:yarn@, sasl:mapred@, sasl:hdfs@");
	cr_expect_eq(config->cache.max_size_bytes, 16 * 1024 * 1024);
	cr_expect_eq(config->cache.max_stale_ms, 0);
	cr_expect(config->cache.snapshot);
	cr_expect_eq(config->component_count, 0);
	config_unref(config);
}

Test(config, a_component_is_complete)
{
	struct config *config = load(
		"[component]\n"
		"user = Dev_Team@REALM\n"
		"service_class = org-apache-tomcat\n"
		"instance = test1\n"
		"id = container_1408631738011_0001_01_000002\n"
		"attribute.Mixed.Case_1 = Value\n" ENDPOINT
		"address.10 = http://c/\naddress.9 = http://b/\naddress = http://a/\n" CHECK
		"command = sh -c 'a ; b' \"c d\"\n");
	cr_assert_eq(config->component_count, 1);
	const struct config_component *component = &config->components[0];
	cr_expect_str_eq(component->name, "");
	cr_expect_str_eq(component->path,
		"/users/dev-team/org-apache-tomcat/test1/components/"
		"container-1408631738011-0001-01-000002");
	cr_expect_str_eq(
		config_component_label(component), "container-1408631738011-0001-01-000002");
	cr_expect_eq(config_find_component(config, config_component_label(component)), component);
	cr_expect_null(config_find_component(config, "nobody"));
	cr_expect(component->ephemeral);
	cr_expect(component->damping);
	cr_expect_eq(component->damping_suppress, 3);
	cr_expect_eq(component->damping_reuse, 1);
	cr_expect_eq(component->damping_half_life_ms, 60000);
	cr_expect_str_eq(component->attributes[0].name, "Mixed.Case_1");
	cr_expect_str_eq(component->attributes[0].value, "Value");

	cr_assert_eq(component->endpoint_count, 1);
	const struct config_endpoint *endpoint = &component->endpoints[0];
	cr_expect_str_eq(endpoint->name, "rest");
	cr_expect(endpoint->external);
	cr_assert_eq(endpoint->address_count, 3);
	cr_expect_str_eq(endpoint->addresses[0], "http://a/");
	cr_expect_str_eq(endpoint->addresses[1], "http://b/");
	cr_expect_str_eq(endpoint->addresses[2], "http://c/");

	cr_assert_eq(config->check_count, 1);
	const struct config_check *check = &config->checks[0];
	cr_expect_eq(check->type, CONFIG_CHECK_COMMAND);
	cr_expect_str_eq(check->command, "sh -c 'a ; b' 'c d'");
	cr_expect_str_eq(check->argv[0], "sh");
	cr_expect_str_eq(check->argv[1], "-c");
	cr_expect_str_eq(check->argv[2], "a ; b");
	cr_expect_str_eq(check->argv[3], "c d");
	cr_expect_null(check->argv[4]);
	cr_expect_eq(check->interval_ms, 10000);
	cr_expect_eq(check->fast_interval_ms, 10000);
	cr_expect_eq(check->down_interval_ms, 10000);
	cr_expect_eq(check->timeout_ms, 5000);
	cr_expect_eq(check->rise, 1);
	cr_expect_eq(check->fall, 3);
	cr_expect_not(check->initial_passing);
	config_unref(config);
}

Test(config, each_type_of_check_is_complete)
{
	struct config *config = load(
		COMPONENT "[check s]\ncommand = a | b\nshell = yes\nenv.LANG = C\ncwd = /srv\n"
			  "[check t]\ntype = tcp\ntarget = [::1]:80\nsend = A\\r\\n\\x00\\\\\n"
			  "expect = B\n"
			  "[check h]\ntype = http\ntarget = http://localhost\n"
			  "expect_status = 200-204 301\nwarn_time = 1s\n"
			  "[check u]\ntype = http\ntarget = http://unix:/run/a.sock:/live?x\n"
			  "header.X-A = b\nmatch = UP\n"
			  "[check v]\ntype = tcp\ntarget = unix:/run/a.sock\n"
			  "[check l]\ntype = ttl\nwriter = user:root\ninterval = 1m\n");
	const struct config_check *checks = config->checks;
	cr_assert_eq(config->check_count, 6);
	cr_expect_str_eq(checks[0].argv[0], "/bin/sh");
	cr_expect_str_eq(checks[0].argv[2], "a | b");
	cr_expect_null(checks[0].argv[3]);
	cr_expect_str_eq(checks[0].environment[0].name, "LANG");
	cr_expect_eq(checks[1].type, CONFIG_CHECK_TCP);
	cr_expect_str_eq(checks[1].target_host, "::1");
	cr_expect_str_eq(checks[1].target_port, "80");
	cr_assert_eq(checks[1].send_len, 5);
	cr_expect_eq(memcmp(checks[1].send, "A\r\n\0\\", 5), 0);
	cr_expect_eq(checks[1].expect_len, 1);
	cr_expect_eq(checks[2].type, CONFIG_CHECK_HTTP);
	cr_expect_str_eq(checks[2].target_host, "localhost");
	cr_expect_str_eq(checks[2].target_port, "80");
	cr_expect_str_eq(checks[2].target_path, "/");
	cr_expect_str_eq(checks[2].method, "GET");
	cr_assert_eq(checks[2].expect_status_count, 2);
	cr_expect_eq(checks[2].expect_status[0].last, 204);
	cr_expect_eq(checks[2].expect_status[1].first, 301);
	cr_expect_str_eq(checks[3].target_host, "/run/a.sock");
	cr_expect_str_eq(checks[3].target_path, "/live?x");
	cr_expect_str_eq(checks[3].headers[0].value, "b");
	cr_expect_str_eq(checks[4].target_host, "/run/a.sock");
	cr_expect_eq(checks[5].type, CONFIG_CHECK_TTL);
	cr_expect_eq(checks[5].writer.kind, CONFIG_WRITER_USER);
	cr_expect_eq(checks[5].writer.id, 0);
	config_unref(config);
}

Test(config, znode_follows_persistence_unless_it_is_given)
{
	struct config *config = load(COMPONENT "persistence = application\n");
	cr_expect_not(config->components[0].ephemeral);
	config_unref(config);
	config = load(COMPONENT "persistence = application\nznode = ephemeral\n");
	cr_expect(config->components[0].ephemeral);
	config_unref(config);
}

#define TWO "[component a]\npath = /a\n[component b]\npath = /b\n"
#define AN_ENDPOINT(name, component)                                                               \
	"[endpoint " name "]\ncomponent = " component                                              \
	"\napi = a\nprotocol = p\naddress_type = uri\naddress = http://a\n"

Test(config, a_check_guards_all_components_that_it_names)
{
	struct config *config = load(TWO "[component c]\npath = /c\n" AN_ENDPOINT("x", "a")
			AN_ENDPOINT("y", "b") "[check shared]\ncomponent = b, a\ncommand = x\n"
					      "endpoints = x y\n");
	const struct config_check *check = &config->checks[0];
	cr_assert_eq(check->component_count, 2);
	cr_expect_str_eq(config_check_component(check, 0)->path, "/b");
	cr_expect_str_eq(config_check_component(check, 1)->path, "/a");
	cr_expect(config_check_guards(check, &config->components[0]));
	cr_expect(config_check_guards(check, &config->components[1]));
	cr_expect_not(config_check_guards(check, &config->components[2]));
	config_unref(config);
	config = load("[component]\npath = /a\n[check only]\ncommand = x\n");
	cr_assert_eq(config->checks[0].component_count, 1);
	cr_expect(config_check_guards(&config->checks[0], &config->components[0]));
	config_unref(config);
}

Test(config, each_unknown_component_of_a_check_is_named)
{
	struct config_problems problems = fail(TWO "[check c]\ncomponent = x, a, y\ncommand = z\n");
	cr_assert_eq(problems.error_count, 2);
	cr_expect(strstr(problems.items[0].message, "no [component x]"));
	cr_expect(strstr(problems.items[1].message, "no [component y]"));
	cr_expect_eq(problems.items[0].line, 6);
	config_problems_finish(&problems);
}

Test(config, lives_as_long_as_a_reference_to_it)
{
	struct config *config = load("[component]\npath = /services/tomcat\n");
	const struct config_component *component = &config->components[0];
	config_ref(component->whole);
	config_unref(config);
	cr_expect_str_eq(component->path, "/services/tomcat");
	config_unref(component->whole);
	config_ref(NULL);
	config_unref(NULL);
}

Test(config, the_hadoop_layout_has_the_paths_of_hadoops_code)
{
	struct config *config = load(
		"[component]\nlayout = hadoop\nuser = joe\nservice_class = web\n"
		"instance = prod\nid = container_e50_1451931954322_0016_01_000002\n");
	cr_expect_str_eq(config->components[0].path,
		"/users/joe/services/web/prod/components/ctr-e50-1451931954322-0016-01-000002");
	config_unref(config);
	config = load("[component]\nlayout = hadoop\nuser = joe\nservice_class = web\n"
		      "instance = prod\nname = container-1\n");
	cr_expect_str_eq(
		config->components[0].path, "/users/joe/services/web/prod/components/container-1");
	config_unref(config);
}

static const struct {
	const char *options;
	bool keep;
} stops[] = {
	{ "", false },
	{ "persistence = application", true },
	{ "persistence = permanent", true },
	{ "persistence = application-attempt\non_stop = remove", false },
	{ "znode = persistent", false },
	{ "znode = persistent\non_stop = keep", true },
	{ "persistence = permanent\nznode = ephemeral", false },
};

Test(config, on_stop_follows_the_persistence)
{
	for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		char text[256];
		snprintf(text, sizeof(text), "[component]\npath = /services/x\n%s\n",
			stops[i].options);
		struct config *config = load(text);
		cr_expect_eq(
			config->components[0].keep_on_stop, stops[i].keep, "%s", stops[i].options);
		config_unref(config);
	}
	struct config_problems problems = fail("[component]\npath = /services/x\non_stop = keep\n");
	cr_expect(strstr(problems.items[0].message, "needs `znode = persistent`"));
	config_problems_finish(&problems);
}

Test(config, confirm_is_a_third_of_the_session_timeout)
{
	struct config *config = load("[registry]\nsession_timeout = 12s\n");
	cr_expect_eq(config->cache.confirm_ms, 4000);
	config_unref(config);
	config = load("[cache]\nconfirm = 2s\n");
	cr_expect_eq(config->cache.confirm_ms, 2000);
	config_unref(config);
}

Test(config, the_table_says_what_a_reload_cannot_change)
{
	struct config *now = load("");
	struct config *next = load("[agent]\nlog_level = debug\nsocket_mode = 0600\n"
				   "[registry]\nsession_timeout = 31s\n[cache]\nmax_size = 1M\n");
	struct config_problems problems = { 0 };
	config_refuse_changes(now, next, "berth.ini", &problems);
	cr_assert_eq(problems.count, 2);
	cr_expect_str_eq(problems.items[0].message,
		"[agent] socket_mode cannot change while the agent runs (it is "
		"\"0666\"); restart it, or send USR2");
	cr_expect(strstr(problems.items[1].message, "[registry] session_timeout"));
	config_problems_finish(&problems);
	config_refuse_changes(next, next, "berth.ini", &problems);
	cr_expect_eq(problems.count, 0);
	config_unref(now);
	config_unref(next);
}

Test(config, an_explicit_path_stands_for_the_names)
{
	struct config *config = load("[component]\npath = /services/tomcat\n");
	cr_expect_str_eq(config->components[0].path, "/services/tomcat");
	cr_expect_str_eq(config_component_label(&config->components[0]), "tomcat");
	config_unref(config);
}

Test(config, seven_mistakes_are_seven_errors_with_their_lines)
{
	struct config_problems problems = fail("[agent]\n"
					       "log_level = loud\n"
					       "soket = /run/x\n"
					       "drain_delay = 5\n"
					       "[registri]\n"
					       "url = dir:/x\n"
					       "[component]\n"
					       "user = devteam\n"
					       "service_class = Tomcat\n"
					       "instance = ${NOT_SET_ANYWHERE}\n"
					       "name = n1\n"
					       "[check c]\n"
					       "command = sh -c 'open\n");
	cr_expect_eq(problems.count, 7);
	check_problem(&problems, 0, "a.ini", 2, "error, warn, info or debug");
	check_problem(&problems, 1, "a.ini", 3, "`socket`");
	check_problem(&problems, 2, "a.ini", 4, "30s");
	check_problem(&problems, 3, "a.ini", 5, "[registry]");
	check_problem(&problems, 4, "a.ini", 9, "DNS label");
	check_problem(&problems, 5, "a.ini", 10, "NOT_SET_ANYWHERE");
	check_problem(&problems, 6, "a.ini", 13, "command");
	config_problems_finish(&problems);
}

struct mistake {
	const char *text;
	int line;
	const char *part;
};

Test(config, each_mistake_is_reported_once_where_it_is)
{
	static const struct mistake mistakes[] = {
		{ "a = b\n", 1, "below a [section]" },
		{ "[agent]\nsocket\n", 2, "key = value" },
		{ "[agent]\n= x\n", 2, "no key" },
		{ "[agent\n", 1, "[kind]" },
		{ "[agent] ; remark\n", 1, "line of its own" },
		{ "[agent x]\n", 1, "no name" },
		{ "[endpoint a b]\nx = 1\n", 1, "one word" },
		{ "[agent]\nlisten = a\001b\n", 2, "control character" },
		{ "[agent]\nlisten = \xff\n", 2, "UTF-8" },
		{ "[agent]\nlisten = x\n", 2, "host:port" },
		{ "[agent]\nsocket = run/x\n", 2, "absolute" },
		{ "[agent]\nsocket_mode = 999\n", 2, "octal" },
		{ "[agent]\nsocket_group = no-such-group-here\n", 2, "no group" },
		{ "[agent]\nmax_watchers = 0\n", 2, "between 1 and" },
		{ "[agent]\nsocket = /a\nsocket = /b\n", 3, "first in line 2" },
		{ "[agent]\n[cache]\n[agent]\n", 3, "first in line 1" },
		{ "[registry]\nauth = digest\n", 2, "auth_file" },
		{ "[registry]\nauth_file = /no/such/file\n", 2, "No such file" },
		{ "[registry]\nsystem_accounts = yarn\n", 2, "scheme:id" },
		{ "[cache]\nmax_size = 16m\n", 2, "16M" },
		{ "[cache]\nwarm = /a, /B/**\n", 2, "/B" },
		{ "[cache]\nsnapshot = maybe\n", 2, "yes or no" },
		{ "[dns]\nlisten = localhost:53\n", 2, "numeric address" },
		{ "[dns]\nlisten = 127.0.0.1\n", 2, "host:port" },
		{ "[dns]\nlisten = 127.0.0.1:0\n", 2, "1 to 65535" },
		{ "[dns]\nlisten = 127.0.0.1:53, [::1]:53 127.0.0.1:53\n", 2,
			"127.0.0.1:53 twice" },
		{ "[dns]\nlisten = 127.0.0.1:1 127.0.0.1:2 127.0.0.1:3 127.0.0.1:4 127.0.0.1:5 "
		  "127.0.0.1:6 127.0.0.1:7 127.0.0.1:8 127.0.0.1:9 127.0.0.1:10 127.0.0.1:11 "
		  "127.0.0.1:12 127.0.0.1:13 127.0.0.1:14 127.0.0.1:15 127.0.0.1:16 127.0.0.1:17\n",
			2, "at most 16" },
		{ "[dns]\ndomain = .berth\n", 2, "no domain" },
		{ "[dns]\ndomain = Berth\n", 2, "no domain" },
		{ "[dns]\nforward = system, 192.0.2.1:53\n", 2, "no other server beside it" },
		{ "[dns]\nforward = ns.example.org:53\n", 2, "none, system or ADDRESS:PORT" },
		{ "[component]\nuser = a\ninstance = i\n", 1, "service_class" },
		{ "[component]\npath = /a/../b\n", 2, ".." },
		{ "[component]\npath = /\n", 2, "root" },
		{ COMPONENT "attribute.type = x\n", 6, "of its own" },
		{ COMPONENT "attribute.yarn:id = x\n", 6, "`id` sets the attribute" },
		{ COMPONENT "attribute.berth:health = x\n", 6, "publish_health" },
		{ COMPONENT "attribute.a/b = x\n", 6, "letters" },
		{ COMPONENT CHECK "command = a ${PORT:8080}\n", 7,
			"neither ${PORT} nor ${PORT:-default}" },
		{ COMPONENT CHECK "command = a ${X:?}\n", 7, "neither ${X} nor" },
		{ COMPONENT CHECK "shell = yes\ncommand = a ${berth.ip}\n", 8, "$BERTH_IP" },
		{ "[registry]\nauth = digest\nauth_file = a/b\n", 3, "$CREDENTIALS_DIRECTORY" },
		{ COMPONENT "attribute = x\n", 6, "attribute.NAME" },
		{ COMPONENT "attribut.colour = x\n", 6, "attribute.NAME" },
		{ COMPONENT "damping_reuse = 3\n", 6, "less than" },
		{ COMPONENT "[component x]\npath = /b\n", 1, "needs a name" },
		{ "[component a]\npath = /b\n[component b]\npath = /b\n", 3, "same path" },
		{ "[component a]\nuser = dev_team\nservice_class = s\ninstance = i\n"
		  "[component b]\nuser = dev-team\nservice_class = t\ninstance = i\n",
			6, "would share the home /users/dev-team" },
		{ ENDPOINT "address = http://a\n", 1, "no [component]" },
		{ COMPONENT
			"[endpoint]\napi = a\nprotocol = p\naddress_type = uri\naddress = a:b\n",
			6, "[endpoint NAME]" },
		{ COMPONENT ENDPOINT, 6, "needs `address`" },
		{ COMPONENT ENDPOINT "address.x = http://a\naddress = http://a\n", 10,
			"`address`" },
		{ COMPONENT ENDPOINT "component = other\naddress = http://a\n", 10,
			"no [component other]" },
		{ COMPONENT ENDPOINT "address = http://a\nhold = connection\n", 11,
			"dynamic = yes" },
		{ COMPONENT ENDPOINT "address = http://a\nwriter = user:root\n", 11,
			"dynamic = yes" },
		{ COMPONENT ENDPOINT "address = http://a\ndynamic = yes\n", 10, "supplies" },
		{ COMPONENT "[endpoint x]\napi = a\nprotocol = p\n"
			    "address_type = host/port\naddress = nowhere\n",
			10, "address" },
		{ COMPONENT
			"[endpoint x]\napi = a\nprotocol = p\naddress_type = url\naddress = a\n",
			9, "uri" },
		{ "[component a]\npath = /a\n[component b]\npath = /b\n[check c]\ncommand = x\n", 5,
			"several components" },
		{ TWO "[check c]\ncomponent = a, b, a\ncommand = x\n", 6, "names a twice" },
		{ TWO AN_ENDPOINT(
			  "x", "a") "[check c]\ncomponent = a\nendpoints = y\ncommand = x\n",
			13, "this component has no [endpoint y]" },
		{ TWO AN_ENDPOINT(
			  "x", "a") "[check c]\ncomponent = a, b\nendpoints = x, y\ncommand = x\n",
			13, "none of its components has [endpoint y]" },
		{ TWO AN_ENDPOINT(
			  "x", "a") "[check c]\ncomponent = a, b\nendpoints = x\ncommand = x\n",
			13, "names no endpoint of [component b]" },
		{ COMPONENT CHECK, 6, "needs `type`" },
		{ COMPONENT CHECK "type = tcp\n", 6, "needs `target`" },
		{ COMPONENT CHECK "type = tcp\ntarget = localhost\n", 8, "host:port" },
		{ COMPONENT CHECK "type = http\ntarget = https://a/\n", 8, "command" },
		{ COMPONENT CHECK "type = ttl\ncommand = x\n", 8, "type = ttl" },
		{ COMPONENT CHECK "command = \"\"\n", 7, "name a program" },
		{ COMPONENT CHECK "command = ' ' --option\n", 7, "name a program" },
		{ COMPONENT CHECK "command = x\nexpect_status = 200\n", 8, "type = command" },
		{ COMPONENT CHECK "command = x\nmatch = (\n", 8, "regular expression" },
		{ COMPONENT CHECK "command = x\nlimit.fd = 1\n", 8, "nofile" },
		{ COMPONENT CHECK "command = x\nlimit.nofile = many\n", 8, "unlimited" },
		{ COMPONENT CHECK "command = x\nwarning_status = 0\n", 8, "1 to 255" },
		{ COMPONENT CHECK "type = tcp\ntarget = unix:s\n", 8, "absolute path" },
		{ COMPONENT CHECK "type = http\ntarget = http://unix:/s\nheader.Host = x\n", 9,
			"see host" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nheader.a b = x\n", 9, "" },
		{ "[agent]\nstop_signal = FOO\n" COMPONENT, 2, "TERM, QUIT or INT" },
		{ COMPONENT CHECK "command = x\nuser = no-such-user-here\n", 8, "no user" },
		{ COMPONENT CHECK "command = x\nenv.1A = x\n", 8, "variable" },
		{ COMPONENT CHECK "command = x\nendpoints = rest\n", 8, "no [endpoint rest]" },
		{ COMPONENT CHECK "command = x\ninterval = 0s\n", 8, "10ms" },
		{ COMPONENT CHECK "command = x\nwindow = 20s\n", 8,
			"`fall` = 3 failures, which `interval` = 10s" },
		{ COMPONENT CHECK "command = x\nfall = 2\nwindow = 5s\nfast_interval = 5s\n", 9,
			"which `fast_interval` = 5s" },
		{ COMPONENT CHECK "command = x\nwindow = 15s\ninterval = 5x\n", 9, "30s" },
		{ COMPONENT CHECK "type = ttl\nwriter = root\n", 8, "user:NAME" },
		{ COMPONENT CHECK "type = tcp\ntarget = a:1\nsend = \\q\n", 9, "backslash" },
	};
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		check_one(mistakes[i].text, mistakes[i].line, mistakes[i].part);
	}
}

Test(config, a_window_may_be_any_that_can_hold_its_failures)
{
	config_unref(load(COMPONENT CHECK "command = x\nwindow = 20001ms\n"));
	config_unref(load(COMPONENT CHECK "command = x\nwindow = 3s\nfast_interval = 1s\n"));
	config_unref(load(COMPONENT CHECK "command = x\nwindow = 1ms\nfall = 1\n"));
	config_unref(load(COMPONENT CHECK "type = ttl\nwindow = 1s\n"));
}

Test(config, a_socket_path_longer_than_the_kernel_takes_is_refused)
{
	char text[200];
	int len = snprintf(text, sizeof(text), "[agent]\nsocket = /%0106d\n", 0);
	cr_assert_gt(len, 0);
	config_unref(load(text));
	snprintf(text, sizeof(text), "[agent]\nsocket = /%0107d\n", 0);
	check_one(text, 2, "at most 107");
}

Test(config, an_auth_file_that_others_can_read_is_refused)
{
	write_file("auth", "user:password\n");
	char text[400];
	char path[300];
	snprintf(path, sizeof(path), "%s", path_of("auth"));
	snprintf(text, sizeof(text), "[registry]\nauth = digest\nauth_file = %s\n", path);
	cr_assert_eq(chmod(path, 0640), 0);
	check_one(text, 3, "others may read it");
	cr_assert_eq(chmod(path, 0600), 0);
	config_unref(load(text));
}

Test(config, a_line_of_5000_bytes_is_one_value)
{
	char *text;
	cr_assert_gt(asprintf(&text, COMPONENT CHECK "command = echo %05000d ; x=y\n", 7), 0);
	struct config *config = load(text);
	cr_expect_eq(strlen(config->checks[0].argv[1]), 5000);
	cr_expect_str_eq(config->checks[0].argv[3], "x=y");
	config_unref(config);
	free(text);
}

Test(config, a_line_longer_than_64_KiB_is_refused_and_the_next_ones_are_read)
{
	static const char key[] = "listen = ";
	char *text;
	int fill = 65536 - (int)strlen(key);
	cr_assert_gt(asprintf(&text, "[agent]\n%s%0*d\nsoket = x\n", key, fill + 1, 0), 0);
	struct config_problems problems = fail(text);
	cr_expect_eq(problems.count, 2);
	check_problem(&problems, 0, "a.ini", 2, "65537 bytes");
	check_problem(&problems, 1, "a.ini", 3, "socket");
	config_problems_finish(&problems);
	free(text);
	cr_assert_gt(asprintf(&text, "[registry]\nrealm = %0*d\n", fill + 1, 0), 0);
	struct config *config = load(text);
	cr_expect_eq(strlen(config->registry.realm), fill + 1);
	config_unref(config);
	free(text);
}

Test(config, a_record_that_is_too_large_as_a_whole_is_an_error_of_its_component)
{
	char *text;
	size_t len;
	FILE *stream = open_memstream(&text, &len);
	for (char name = 'a'; name <= 'c'; name++) {
		fprintf(stream, "[component %c]\npath = /%c\n", name, name);
		for (int i = 0; i < (name == 'b' ? 2 : 3); i++) {
			fprintf(stream, "attribute.x%d = %060000d\n", i, 0);
		}
	}
	cr_assert_eq(fclose(stream), 0);
	struct config_problems problems = fail(text);
	cr_expect_eq(problems.count, 2);
	check_problem(&problems, 0, "a.ini", 1, "[component a]: LimitExceeded: ");
	check_problem(&problems, 1, "a.ini", 10, "at most 131072");
	config_problems_finish(&problems);
	free(text);
}

Test(config, an_indented_line_is_a_key_of_its_own)
{
	struct config *config = load("[agent]\n  drain_delay = 1s\n\tlog_level = debug\n");
	cr_expect_eq(config->agent.drain_delay_ms, 1000);
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_DEBUG);
	config_unref(config);
	check_one(COMPONENT CHECK "command = a\n  --option\n", 8, "key = value");
}

Test(config, a_long_section_name_is_kept_whole)
{
	static const char name[] =
		"a-name-of-sixty-four-bytes-which-is-more-than-inih-would-keep-00";
	char text[600];
	snprintf(text, sizeof(text), COMPONENT "[check %s]\ncommand = x\n", name);
	struct config *config = load(text);
	cr_expect_str_eq(config->checks[0].name, name);
	config_unref(config);
	snprintf(text, sizeof(text), COMPONENT "[check %sx]\ncommand = x\n", name);
	check_one(text, 6, "at most 64");
}

Test(config, line_ends_and_a_byte_order_mark_do_not_matter)
{
	struct config *config = load(
		"\xef\xbb\xbf[agent]\r\nlog_level = warn\r\n# remark\r\n\r\nlog_format = json");
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_WARN);
	cr_expect(config->agent.log_json);
	config_unref(config);
}

Test(config, a_NUL_byte_is_no_text)
{
	static const char bytes[] = "[agent]\nlog_level = in\0fo\n";
	write_bytes("a.ini", bytes, sizeof(bytes) - 1);
	struct config_problems problems = fail_path(path_of("a.ini"));
	cr_expect_eq(problems.count, 1);
	check_problem(&problems, 0, "a.ini", 2, "NUL");
	config_problems_finish(&problems);
}

Test(config, an_empty_value_means_the_default)
{
	struct config *config = load("[agent]\nsocket =\ndrain_delay = ${NOT_SET_ANYWHERE:-}\n"
				     "[registry]\nsystem_accounts =\n");
	cr_expect_str_eq(config->agent.socket, "/run/berth/berth.sock");
	cr_expect_eq(config->agent.drain_delay_ms, 0);
	cr_expect_str_eq(config->registry.system_accounts, "");
	config_unref(config);
}

Test(config, files_in_conf_d_add_and_win_in_the_order_of_their_names)
{
	write_file("conf.d/20.ini", "[agent]\nlog_level = debug\n[cache]\nsnapshot = no\n");
	write_file("conf.d/10.ini", "[agent]\nlog_level = warn\ndrain_delay = 2s\n");
	write_file("conf.d/.hidden.ini", "[nonsense]\n");
	write_file("conf.d/README", "[nonsense]\n");
	struct config *config = load("[agent]\nlog_level = error\nlog_format = json\n");
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_DEBUG);
	cr_expect(config->agent.log_json);
	cr_expect_eq(config->agent.drain_delay_ms, 2000);
	cr_expect_not(config->cache.snapshot);
	config_unref(config);
}

Test(config, a_directory_is_read_in_the_order_of_names)
{
	write_file("conf.d/b.ini", "[agent]\nlog_level = debug\n");
	write_file("conf.d/a.ini", "[agent]\nlog_level = warn\n");
	struct config *config = load_path(path_of("conf.d"));
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_DEBUG);
	config_unref(config);
}

Test(config, mistakes_name_their_own_file)
{
	write_file("conf.d/x.ini", "[agent]\nlog_level = loud\n[check c]\ninterval = 1\n");
	struct config_problems problems = fail(
		COMPONENT "[agent]\nsoket = x\n[check c]\ncommand = x\n");
	cr_expect_eq(problems.count, 3);
	check_problem(&problems, 0, "a.ini", 7, "socket");
	check_problem(&problems, 1, "x.ini", 2, "debug");
	check_problem(&problems, 2, "x.ini", 4, "unit");
	config_problems_finish(&problems);
}

Test(config, an_unreadable_file_has_a_reason)
{
	struct config_problems problems = fail_path(path_of("missing.ini"));
	check_problem(&problems, 0, "missing.ini", 0, "No such file");
	config_problems_finish(&problems);
	problems = fail_path(path_of("conf.d"));
	check_problem(&problems, 0, "conf.d", 0, ".ini");
	config_problems_finish(&problems);
	cr_assert_eq(mkdir(path_of("conf.d/x.ini"), 0700), 0);
	problems = fail_path(path_of("conf.d"));
	check_problem(&problems, 0, "x.ini", 0, "directory");
	config_problems_finish(&problems);
}

Test(config, the_list_of_mistakes_has_an_end)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	for (int i = 0; i < 3000; i++) {
		fprintf(stream, "nothing\n");
	}
	fclose(stream);
	struct config_problems problems = fail(text);
	cr_expect_eq(problems.count, 1001);
	check_problem(&problems, 1000, "a.ini", 0, "more mistakes");
	config_problems_finish(&problems);
	free(text);
}

Test(config, mistakes_are_shown_as_lines_and_as_json)
{
	struct config_problems problems = fail("[agent]\nsoket = x\n");
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	config_problems_print(&problems, stream);
	fclose(stream);
	cr_expect(strstr(text, "a.ini:2: [agent] has no key `soket`"));
	free(text);
	json_t *json = config_problems_json(&problems);
	const json_t *first = json_array_get(json, 0);
	cr_expect_eq(json_integer_value(json_object_get(first, "line")), 2);
	cr_expect_str_eq(
		json_string_value(json_object_get(first, "message")), problems.items[0].message);
	json_decref(json);
	config_problems_finish(&problems);
}

/* ---- commands: words are split before ${…} is replaced --------------------------------------- */

static const char evil[] = "a\" --evil \"b";

Test(config, a_value_is_one_argument_whatever_it_holds)
{
	setenv("EVIL", evil, 1);
	setenv("EMPTY", "", 1);
	struct config *config = load(
		COMPONENT CHECK "command = check \"${EVIL}\" ${EVIL} x'${EVIL}'y ${EMPTY} "
				"${NONE:-two words} $$HOME \\$\n");
	char **argv = config->checks[0].argv;
	cr_expect_str_eq(argv[0], "check");
	cr_expect_str_eq(argv[1], evil);
	cr_expect_str_eq(argv[2], evil);
	cr_expect_str_eq(argv[3], "xa\" --evil \"by");
	cr_expect_str_eq(argv[4], "");
	cr_expect_str_eq(argv[5], "two words");
	cr_expect_str_eq(argv[6], "$HOME");
	cr_expect_str_eq(argv[7], "$");
	cr_expect_null(argv[8]);
	config_unref(config);
}

static const char *variable(const struct config_check *check, const char *name)
{
	for (size_t i = 0; i < check->environment_count; i++) {
		if (strcmp(check->environment[i].name, name) == 0) {
			return check->environment[i].value;
		}
	}
	return NULL;
}

Test(config, a_shell_gets_the_text_as_it_is_and_values_in_its_environment)
{
	setenv("EVIL", evil, 1);
	setenv("CONTAINER_ID", "container_1_2", 1);
	struct config *config = load(COMPONENT CHECK
		"env.BERTH_IP = mine\ncommand = check \"$EVIL\" ${EVIL} $$ | cat\nshell = yes\n");
	const struct config_check *check = &config->checks[0];
	cr_expect_str_eq(check->command, "check \"$EVIL\" ${EVIL} $$ | cat");
	cr_expect_str_eq(check->argv[0], "/bin/sh");
	cr_expect_str_eq(check->argv[1], "-c");
	cr_expect_str_eq(check->argv[2], check->command);
	cr_expect_null(check->argv[3]);
	cr_expect_str_eq(variable(check, "BERTH_IP"), "mine");
	cr_expect_str_eq(variable(check, "BERTH_CONTAINER_ID"), "container_1_2");
	cr_expect_str_eq(variable(check, "BERTH_IP_lo"), "127.0.0.1");
	char host[256];
	gethostname(host, sizeof(host));
	cr_expect_str_eq(variable(check, "BERTH_HOSTNAME"), host);
	config_unref(config);
}

/* ---- defaults for Hadoop, and the container's id --------------------------------------------- */

static const char *attribute(const struct config *config, const char *name)
{
	const struct config_component *component = &config->components[0];
	for (size_t i = 0; i < component->attribute_count; i++) {
		if (strcmp(component->attributes[i].name, name) == 0) {
			return component->attributes[i].value;
		}
	}
	return NULL;
}

Test(config, attributes_may_have_colons_and_letters_of_any_language)
{
	struct config *config = load(
		COMPONENT "attribute.yarn:component = httpd\nattribute.yarn:hostname =\n"
			  "attribute.f\xc3\xa4rbe:x = blau:\n");
	cr_expect_str_eq(attribute(config, "yarn:component"), "httpd");
	cr_expect_str_eq(attribute(config, "yarn:hostname"), "");
	cr_expect_str_eq(attribute(config, "f\xc3\xa4rbe:x"), "blau:");
	config_unref(config);
}

Test(config, a_record_names_ip_host_and_component_for_hadoop)
{
	struct config *config = load(COMPONENT);
	char host[256];
	gethostname(host, sizeof(host));
	cr_expect_str_eq(attribute(config, "yarn:hostname"), host);
	cr_expect_str_eq(attribute(config, "yarn:component"), "n1");
	config_unref(config);
}

Test(config, the_id_is_the_containers_where_that_is_known)
{
	setenv("CONTAINER_ID", "container_e50_2", 1);
	struct config *config = load("[component]\nuser = u\nservice_class = c\ninstance = i\n");
	cr_expect_str_eq(config->components[0].id, "container_e50_2");
	cr_expect_str_eq(config->components[0].component_name, "container-e50-2");
	config_unref(config);
	/* Docker's id has more digits than a label. */
	setenv("CONTAINER_ID", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		1);
	config = load("[component]\nuser = u\nservice_class = c\ninstance = i\n");
	cr_expect_eq(strlen(config->components[0].id), 64);
	cr_expect_neq(config->components[0].component_name[0], '0');
	config_unref(config);
}

Test(config, a_credential_of_systemd_is_found_by_its_name)
{
	write_file("auth", "user:password\n");
	cr_assert_eq(chmod(path_of("auth"), 0400), 0);
	char place[PATH_MAX];
	text_printf(place, sizeof(place), "%s", path_of("auth"));
	*strrchr(place, '/') = '\0';
	setenv("CREDENTIALS_DIRECTORY", place, 1);
	struct config *config = load(
		"[registry]\nurl = zookeeper://h:1/r\nauth = digest\nauth_file = auth\n");
	cr_expect_str_eq(config->registry.auth_file, path_of("auth"));
	config_unref(config);
	unsetenv("CREDENTIALS_DIRECTORY");
	check_one("[registry]\nurl = zookeeper://h:1/r\nauth = digest\nauth_file = auth\n", 4,
		"$CREDENTIALS_DIRECTORY is not set");
}

/* ---- imports ---- */

Test(config, imports_are_read_in_their_order)
{
	struct config *config = load(
		"[import b]\ntype = mesos\nfrom = /mesos\nas = /services/mesos\n"
		"[import a]\ntype = registrar\nfrom = /test/My App\nas = /x/a\n");
	cr_assert_eq(config->import_count, 2);
	cr_expect_str_eq(config->imports[0].name, "b");
	cr_expect_eq(config->imports[0].type, CONFIG_IMPORT_MESOS);
	cr_expect_str_eq(config->imports[1].from, "/test/My App");
	cr_expect_str_eq(config->imports[1].as, "/x/a");
	config_unref(config);
}

Test(config, an_import_that_cannot_be_is_refused)
{
#define IMPORT(from, as) "type = nerve\nfrom = " from "\nas = " as "\n"
	check_one("[import]\n" IMPORT("/a", "/b"), 1, "write [import NAME]");
	check_one("[import a]\nfrom = /a\nas = /b\n", 1, "needs `type`");
	check_one("[import a]\ntype = nerve\nas = /b\n", 1, "needs `from`");
	check_one("[import a]\ntype = nerve\nfrom = /a\n", 1, "needs `as`");
	check_one("[import a]\ntype = consul\nfrom = /a\nas = /b\n", 2, "registrar, serverset");
	check_one("[import a]\n" IMPORT("/a/../b", "/b"), 3, "foreign path");
	check_one("[import a]\n" IMPORT("a", "/b"), 3, "foreign path");
	check_one("[import a]\n" IMPORT("/a", "/B"), 4, "path");
	check_one("[import a]\n" IMPORT("/a", "/"), 4, "root");
	check_one("[import a]\n" IMPORT("/a", "/b") "[import b]\n" IMPORT("/a", "/b/c"), 8,
		"[import a] is at /b");
	check_one("[import a]\n" IMPORT("/a", "/b/c") "[import b]\n" IMPORT("/a", "/b"), 8,
		"[import a] is at /b/c");
	check_one(COMPONENT ENDPOINT
		"address = http://h:1/\n[import a]\n" IMPORT("/a", "/users/devteam/tomcat"),
		14, "/users/devteam/tomcat/test1/components/n1");
#undef IMPORT
}
