/* Whole files in, structs out. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/text.h"
#include "tests/support/config_stage.h"

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
	cr_expect_eq(check->rising_interval_ms, 1000);
	cr_expect_eq(check->falling_interval_ms, 10000);
	cr_expect_eq(check->down_interval_ms, 1000);
	cr_expect_eq(check->timeout_ms, 5000);
	cr_expect_eq(check->rise, 1);
	cr_expect_eq(check->fall, 3);
	cr_expect_not(check->initial_passing);
	cr_expect_str_eq(check->send, "");
	cr_expect_eq(check->send_len, 0);
	cr_expect_eq(check->expect_len, 0);
	cr_expect_eq(check->writer.kind, CONFIG_WRITER_NONE);
	cr_expect_eq(check->writer.id, (unsigned)-1);
	cr_expect_eq(check->environment_count, 0);
	cr_expect_eq(check->endpoint_count, 0);
	config_unref(config);
}

static void expect_pace(const char *written, int64_t rising_ms, int64_t falling_ms, int64_t down_ms)
{
	char text[300];
	snprintf(text, sizeof(text), COMPONENT "[check c]\ncommand = x\n%s", written);
	struct config *config = load(text);
	cr_expect_eq(config->checks[0].rising_interval_ms, rising_ms, "%s", written);
	cr_expect_eq(config->checks[0].falling_interval_ms, falling_ms, "%s", written);
	cr_expect_eq(config->checks[0].down_interval_ms, down_ms, "%s", written);
	config_unref(config);
}

Test(config, a_check_runs_each_second_on_the_way_up_and_at_its_interval_on_the_way_down)
{
	expect_pace("interval = 30s\n", 1000, 30000, 1000);
	expect_pace("interval = 200ms\n", 200, 200, 200);
	expect_pace("interval = 30s\nfast_interval = 2s\n", 2000, 2000, 1000);
	expect_pace("interval = 30s\ndown_interval = 1m\n", 1000, 30000, 60000);
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
	cr_expect_str_eq(checks[1].target_path, "");
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
	for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
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
	cr_expect_eq(problems.items[0].line, 0, "no line of the file is wrong");
	config_problems_finish(&problems);
	struct config *elsewhere = load("[agent]\nsocket = /run/other.sock\n");
	config_refuse_changes(now, elsewhere, "berth.ini", &problems);
	cr_expect_eq(problems.count, 1);
	check_problem(&problems, 0, "berth.ini", 0, "[agent] socket cannot change");
	config_problems_finish(&problems);
	config_unref(elsewhere);
	config_refuse_changes(next, next, "berth.ini", &problems);
	cr_expect_eq(problems.count, 0);
	config_unref(now);
	config_unref(next);
}

Test(config, a_reload_cannot_change_a_listener)
{
#define A_LISTENER(name, address) "[listen " name "]\naddress = " address "\nunder = /**\n"
	static const struct {
		const char *next;
		const char *changed[3];
	} cases[] = {
		{ A_LISTENER("a", "h:1") A_LISTENER("b", "h:2"), { NULL } },
		{ A_LISTENER("b", "h:2") A_LISTENER("a", "h:1"), { NULL } },
		{ A_LISTENER("a", "h:1"), { "[listen b]" } },
		{ A_LISTENER("a", "h:1") A_LISTENER("b", "h:3"), { "[listen b]" } },
		{ A_LISTENER("a", "h:1") A_LISTENER("b", "h:2") A_LISTENER("c", "h:3"),
			{ "[listen c]" } },
		{ A_LISTENER("c", "h:3"), { "[listen a]", "[listen b]", "[listen c]" } },
	};
	struct config *now = load(A_LISTENER("a", "h:1") A_LISTENER("b", "h:2"));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct config_problems problems = { 0 };
		struct config *next = load(cases[i].next);
		size_t count = 0;
		config_refuse_changes(now, next, "berth.ini", &problems);
		for (; count < 3 && cases[i].changed[count]; count++) {
			cr_assert_lt(count, problems.count, "%s", cases[i].next);
			cr_expect(strstr(problems.items[count].message, cases[i].changed[count]),
				"%s", problems.items[count].message);
			cr_expect_eq(problems.items[count].line, 0);
		}
		cr_expect_eq(problems.count, count, "%s", cases[i].next);
		config_problems_finish(&problems);
		config_unref(next);
	}
	config_unref(now);
#undef A_LISTENER
}

Test(config, an_id_that_is_written_is_not_that_of_the_container)
{
	setenv("CONTAINER_ID", "of-the-container", 1);
	struct config *config = load(
		"[component one]\npath = /a\nid = mine\n"
		"[component two]\npath = /b\n" CHECK "component = two\ntype = ttl\n");
	cr_expect_str_eq(config->components[0].id, "mine");
	cr_expect_str_eq(config->components[1].id, "of-the-container");
	cr_expect_str_eq(config->checks[0].writer.name, "");
	cr_expect_eq(config->checks[0].writer.kind, CONFIG_WRITER_NONE);
	config_unref(config);
}

Test(config, an_explicit_path_stands_for_the_names)
{
	struct config *config = load("[component]\npath = /services/tomcat\n");
	cr_expect_str_eq(config->components[0].path, "/services/tomcat");
	cr_expect_str_eq(config_component_label(&config->components[0]), "tomcat");
	config_unref(config);
	config = load("[component web]\npath = /services/tomcat\n");
	cr_expect_str_eq(config_component_label(&config->components[0]), "web");
	config_unref(config);
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

/* ---- commands: words are split before ${…} is replaced ---- */

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

/* ---- defaults for Hadoop, and the container's id ---- */

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
	/* A record at a path of its own may speak of another host than this one. */
	config = load("[component]\npath = /services/db\n");
	cr_expect_null(attribute(config, "yarn:ip"));
	cr_expect_null(attribute(config, "yarn:hostname"));
	cr_expect_null(attribute(config, "yarn:component"));
	config_unref(config);
	config = load("[component]\npath = /services/db\nattribute.yarn:ip = 10.0.0.1\n");
	cr_expect_str_eq(attribute(config, "yarn:ip"), "10.0.0.1");
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
	setenv("CREDENTIALS_DIRECTORY", "relative", 1);
	check_one("[registry]\nurl = zookeeper://h:1/r\nauth = digest\nauth_file = auth\n", 4,
		"is not an absolute file name");
	unsetenv("CREDENTIALS_DIRECTORY");
	check_one("[registry]\nurl = zookeeper://h:1/r\nauth = digest\nauth_file = auth\n", 4,
		"$CREDENTIALS_DIRECTORY is not set");
}

/* ---- zones ---- */

Test(config, zones_are_read_in_their_order)
{
	struct config *config = load("[dns]\ndomain = org\nlisten = 127.0.0.1:53\n"
				     "[zone b.xorg]\n[zone a.net]\nunknown = nxdomain\n");
	cr_assert_eq(config->zone_count, 2);
	cr_expect_str_eq(config->zones[0].name, "b.xorg");
	cr_expect_eq(config->zones[0].unknown, CONFIG_ZONE_REFUSED);
	cr_expect_str_eq(config->zones[1].name, "a.net");
	cr_expect_eq(config->zones[1].unknown, CONFIG_ZONE_NXDOMAIN);
	config_unref(config);
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

/* ---- containers ---- */

Test(config, policies_for_containers_are_read_in_their_order)
{
	struct config *config = load(
		"[bridge]\ncontainers = /run/c\nlinger = 2s\n"
		"[container web-*]\nallow = /users/joe/**, /services/w*\nowner = 1000:1001\n"
		"rate = 5\nmax_bytes = 1K\nattribute.yarn:id = x\n"
		"[container *]\nallow = /users/guests/**\n");
	cr_assert_eq(config->container_count, 2);
	cr_expect_str_eq(config->bridge.containers, "/run/c");
	cr_expect_eq(config->bridge.linger_ms, 2000);
	const struct config_container *web = &config->containers[0];
	cr_expect_str_eq(web->glob, "web-*");
	cr_assert_eq(web->allow_count, 2);
	cr_expect_str_eq(web->allow[1], "/services/w*");
	cr_expect_eq(web->owner_uid, 1000);
	cr_expect_eq(web->owner_gid, 1001);
	cr_expect_eq(web->rate, 5);
	cr_expect_eq(web->max_bytes, 1024);
	cr_expect_str_eq(web->attributes[0].name, "yarn:id");
	cr_expect_str_eq(config->containers[1].glob, "*");
	cr_expect_eq(config->containers[1].owner_uid, (unsigned)-1);
	cr_expect_eq(config->containers[1].max_records, 64);
	config_unref(config);
}

/* ---- further registries and outputs ---- */

Test(config, a_further_registry_is_the_same_while_its_name_and_options_are)
{
	struct config *now = load("[registry east]\nurl = dir:/e\n[registry west]\nurl = dir:/e\n");
	struct config *next = load("[registry east]\nurl = dir:/e\n"
				   "[registry west]\nurl = dir:/e\nsession_timeout = 9s\n");
	cr_expect(config_further_equal(&now->further[0], &next->further[0]));
	cr_expect_not(config_further_equal(&now->further[0], &now->further[1]));
	cr_expect_not(config_further_equal(&now->further[1], &next->further[1]));
	config_unref(now);
	config_unref(next);
}

Test(config, an_output_of_another_name_is_another_output)
{
	struct config *config = load("[output a]\nfrom = /a\nformat = json\npath = /tmp/a\n"
				     "[output b]\nfrom = /a\nformat = json\npath = /tmp/b\n");
	strcpy(config->outputs[1].path, "/tmp/a");
	cr_expect_not(config_output_equal(&config->outputs[0], &config->outputs[1]));
	strcpy(config->outputs[1].name, "a");
	cr_expect(config_output_equal(&config->outputs[0], &config->outputs[1]));
	config_unref(config);
}
