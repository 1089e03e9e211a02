/* The mistakes of a configuration: each is found, with its file and line. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/config/problems.h"
#include "lib/base/array.h"
#include "tests/support/config_stage.h"

#define TEN "0123456789"
/* With a slash in front, one byte longer than the path of a socket. */
#define LONG_NAME TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "0123456"

TestSuite(config_mistake, .init = make_folder, .fini = remove_folder);

Test(config_mistake, seven_mistakes_are_seven_errors_with_their_lines)
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

Test(config_mistake, each_mistake_is_reported_once_where_it_is)
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
		{ "[registry]\nsystem_accounts = sasl:, sasl:yarn\n", 2, "scheme:id" },
		{ "[registry]\nsystem_accounts = :yarn\n", 2, "scheme:id" },
		{ "[registry]\nurl = consul:x\n", 2, "url" },
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
		{ "[dns]\nlisten = 127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:2\n", 2,
			"127.0.0.1:2 twice" },
		{ "[dns]\nlisten = 127.0.0.1:1, 127.0.0.1:1, 127.0.0.1:1\n", 2,
			"127.0.0.1:1 twice" },
		{ "[dns]\nforward = 192.0.2.1:53, none\n", 2, "`none` has no other server" },
		{ "[dns]\ndomain = .berth\n", 2, "not a domain" },
		{ "[dns]\ndomain = Berth\n", 2, "not a domain" },
		{ "[dns]\nforward = system, 192.0.2.1:53\n", 2, "no other server next to it" },
		{ "[dns]\nforward = ns.example.org:53\n", 2, "none, system or ADDRESS:PORT" },
		{ "[component]\nuser = a\ninstance = i\n", 1, "service_class" },
		{ "[component]\npath = /a/../b\n", 2, ".." },
		{ "[component]\npath = /\n", 2, "root" },
		{ COMPONENT "attribute.type = x\n", 6, "of its own" },
		{ COMPONENT "attribute.yarn:id = x\n", 6, "`id` sets the attribute" },
		{ COMPONENT "attribute.berth:health = x\n", 6, "publish_health" },
		{ COMPONENT "attribute.a/b = x\n", 6, "letters" },
		{ COMPONENT "attribute.internal = x\n", 6, "[endpoint] sets" },
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
		{ COMPONENT ENDPOINT "address = ${NOT_SET_ANYWHERE}\n", 10, "NOT_SET_ANYWHERE" },
		{ COMPONENT "[endpoint x]\nprotocol = p\naddress_type = uri\naddress = a:b\n", 6,
			"needs `api`" },
		{ COMPONENT "[endpoint x]\napi = a\nprotocol = p\naddress_type = x-\n"
			    "address = a:b\n",
			9, "begins with x-" },
		{ COMPONENT ENDPOINT "address = http://a\nscope = both\n", 11, "external" },
		{ COMPONENT ENDPOINT "address.x = http://a\naddress = http://a\n", 10,
			"`address`" },
		{ COMPONENT ENDPOINT "component = other\naddress = http://a\n", 10,
			"no [component other]" },
		{ COMPONENT ENDPOINT "dynamic = yes\nlinger = 1s\n", 11, "`hold = connection`" },
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
		{ COMPONENT CHECK "type = http\ntarget = https://u@a/\n", 8, "password" },
		{ COMPONENT CHECK "type = ttl\ncommand = x\n", 8, "type = ttl" },
		{ COMPONENT CHECK "command = \"\"\n", 7, "name a program" },
		{ COMPONENT CHECK "command = ' ' --option\n", 7, "name a program" },
		{ COMPONENT CHECK "command = x\nexpect_status = 200\n", 8, "type = command" },
		{ COMPONENT CHECK "command = x\nmatch = (\n", 8, "regular expression" },
		{ COMPONENT CHECK "command = x\nlimit.fd = 1\n", 8, "nofile" },
		{ COMPONENT CHECK "command = x\nlimit.nofile = many\n", 8, "unlimited" },
		{ COMPONENT CHECK "command = x\nwarning_status = 0\n", 8, "1 to 599" },
		{ COMPONENT CHECK "command = x\nwarning_status = 256\n", 8, "1 to 255" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nwarning_status = 1\n", 9,
			"100 to 599" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nwarning_status = 429,204\n", 9,
			"status 204 is in `expect_status`, too, which is 200-299" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nwarning_status = 290-410\n"
				  "expect_status = 200,410\n",
			9, "status 410 is in" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nexpect_header.A = (\n", 9,
			"regular expression" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nexpect_header.A b = x\n", 9,
			"name of a header" },
		{ COMPONENT CHECK "type = tcp\ntarget = unix:s\n", 8, "absolute path" },
		{ COMPONENT CHECK "type = http\ntarget = http://unix:/s\nheader.Host = x\n", 9,
			"see host" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nheader.a b = x\n", 9, "" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nheader.connection = x\n", 9,
			"the agent sets this one" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nmethod = get\n", 9,
			"in capitals" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\n"
				  "method = ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG\n",
			9, "in capitals" },
		{ COMPONENT CHECK "type = http\ntarget = http://a/\nhost = a b\n", 9, "host name" },
		{ "[output o]\nfrom = /a\nformat = json\npath = /x\nscope = both\n", 5,
			"external or internal" },
		{ "[output o]\nfrom = /a\nformat = haproxy-runtime\nsocket = /s\n"
		  "backend = a b\n",
			5, "a name in HAProxy" },
		{ "[agent]\nstop_signal = FOO\n" COMPONENT, 2, "TERM, QUIT or INT" },
		{ "[agent]\nstop_on = TERM, FOO\n" COMPONENT, 2, "TERM, QUIT or INT" },
		{ "[agent]\nstop_on = SIGHUP\n" COMPONENT, 2, "always means a reload" },
		{ "[agent]\nstop_on = USR2\n" COMPONENT, 2, "always means an upgrade" },
		{ "[agent]\nstop_on = KILL\n" COMPONENT, 2, "cannot ask the agent to stop" },
		{ "[agent]\nstop_on = ,\n" COMPONENT, 2, "name a signal" },
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
		{ COMPONENT CHECK "type = ttl\nwriter = usex:root\n", 8, "user:NAME" },
		{ COMPONENT CHECK "type = ttl\nwriter = users:root\n", 8, "user:NAME" },
		{ COMPONENT CHECK "type = ttl\nwriter = groux:root\n", 8, "user:NAME" },
		{ COMPONENT CHECK "type = ttl\nwriter = groups:root\n", 8, "user:NAME" },
		{ COMPONENT CHECK "type = ttl\nwriter = :root\n", 8, "user:NAME" },
		{ COMPONENT CHECK "type = ttl\nwriter = user:no-such-user\n", 8, "no user" },
		{ COMPONENT CHECK "type = ttl\nwriter = group:no-such-group\n", 8, "no group" },
		{ COMPONENT CHECK "type = tcp\ntarget = a:1\nsend = \\q\n", 9, "backslash" },
		{ "[component]\nuser = a\nservice_class = s\ninstance = i\nid = ___\n", 5,
			"no name for the component can be made from its id" },
		{ "[component a]\nuser = joe@A\nservice_class = s\ninstance = i\n"
		  "[component b]\nuser = Joe@A\nservice_class = t\ninstance = i\n",
			6, "would share the home /users/joe" },
		{ "[registry]\nauth = digest\nauth_file = ./a\n", 3, "absolute file name, or" },
		{ COMPONENT "znode = ephemeral\non_stop = keep\n", 7,
			"needs `znode = persistent`" },
		{ COMPONENT "damping_reuse = 3\ndamping_suppress = 3\n", 6,
			"damping_reuse (3) must be less than damping_suppress (3)" },
		{ COMPONENT "damping_suppress = 0.5\n", 6, "must be less than" },
		{ "[output o]\nformat = json\npath = /tmp/o\n", 1, "needs `from`" },
		{ "[output o]\nfrom = /a\nformat = json\n", 1, "needs `path`" },
		{ "[output o]\nfrom = /a\npath = /tmp/o\n", 1, "needs `format`, or `render`" },
		{ "[output o]\nfrom = /a\nformat = render\npath = /tmp/o\n", 1, "needs `render`" },
		{ "[output o]\nfrom = /a\nformat = json\nrender = /bin/cat\npath = /tmp/o\n", 4,
			"goes without another `format`" },
		{ "[output o]\nfrom = /a\nformat = json\npath = /tmp/o\nsocket = /s\n", 5,
			"`socket` means nothing without" },
		{ "[output o]\nfrom = /a\nformat = json\npath = /tmp/o\nbackend = b\n", 5,
			"`backend` means nothing without" },
		{ "[output o]\nfrom = /a\nformat = haproxy-runtime\nbackend = b\n", 1,
			"needs `socket`" },
		{ "[output o]\nfrom = /a\nformat = haproxy-runtime\nsocket = /s\n", 1,
			"needs `backend`" },
		{ "[output o]\nfrom = /a\nformat = haproxy-runtime\nsocket = /s\nbackend = b\n"
		  "mode = 0600\n",
			6, "`mode` means nothing with" },
		{ "[output o]\nfrom = /a\nformat = haproxy-runtime\nsocket = /s\nbackend = b\n"
		  "path = /x\n",
			6, "`path` means nothing with" },
		{ "[output o]\nfrom = /a\nformat = json\npath = /tmp/o\nquiet = 2s\n"
		  "max_wait = 1s\n",
			6, "`max_wait` (1000ms) must not be less than `quiet` (2000ms)" },
		{ "[output o]\nfrom = /a\nformat = json\npath = /tmp/o\nfailover = /b, /a\n", 5,
			"/a is followed already" },
		{ "[output o]\nfrom = /a\nformat = json\npath = /tmp/o\n"
		  "failover = /b, /c, /b\n",
			5, "/b is followed already" },
		{ "[output a]\nfrom = /a\nformat = json\npath = /tmp/o\n"
		  "[output b]\nfrom = /b\nformat = json\npath = /tmp/o\n",
			8, "[output a] writes this file, too" },
		{ "[output a]\nfrom = /a\nformat = haproxy-runtime\nsocket = /s\nbackend = x\n"
		  "[output b]\nfrom = /a\nformat = haproxy-runtime\nsocket = /s\nbackend = x\n",
			10, "[output a] keeps this backend, too" },
		{ COMPONENT CHECK "expect_status = 200\ncommand = x\n", 7, "type = command" },
		{ COMPONENT CHECK "type = consul\nsend = x\n", 7,
			"command, tcp, http, ttl or grpc" },
		{ COMPONENT "adress = x\n", 6, "`" },
		{ COMPONENT ENDPOINT "adres = x\naddress = http://a\n", 10, "`address`" },
		{ COMPONENT "atribute.a = x\n", 6, "`attribute.NAME`" },
		{ "[dns]\ndomain = a.org\n[zone a.org]\n", 3, "is a.org" },
		{ "[zone z.org]\n[dns]\ndomain = z.org\n", 1, "is z.org" },
		{ COMPONENT CHECK "type = tcp\ntarget = unix:/" LONG_NAME "\n", 8,
			"at most 107 bytes" },
	};
	for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
		check_one(mistakes[i].text, mistakes[i].line, mistakes[i].part);
	}
}

Test(config_mistake, each_unknown_component_of_a_check_is_named)
{
	struct config_problems problems = fail(TWO "[check c]\ncomponent = x, a, y\ncommand = z\n");
	cr_assert_eq(problems.error_count, 2);
	cr_expect(strstr(problems.items[0].message, "no [component x]"));
	cr_expect(strstr(problems.items[1].message, "no [component y]"));
	cr_expect_eq(problems.items[0].line, 6);
	config_problems_finish(&problems);
}

Test(config_mistake, an_endpoint_has_a_limit_of_addresses)
{
	char *text;
	size_t len;
	FILE *stream = open_memstream(&text, &len);
	fprintf(stream, COMPONENT ENDPOINT);
	for (int i = 0; i < 64; i++) {
		fprintf(stream, "address.%d = http://h%d\n", i, i);
	}
	fflush(stream);
	config_unref(load(text));
	fprintf(stream, "address.64 = http://h64\n");
	cr_assert_eq(fclose(stream), 0);
	struct config_problems problems = fail(text);
	check_problem(&problems, 0, "a.ini", 6, "[endpoint rest]: ");
	config_problems_finish(&problems);
	free(text);
}

Test(config_mistake, a_window_may_be_any_that_can_hold_its_failures)
{
	config_unref(load(COMPONENT CHECK "command = x\nwindow = 20001ms\n"));
	config_unref(load(COMPONENT CHECK "command = x\nwindow = 3s\nfast_interval = 1s\n"));
	config_unref(load(COMPONENT CHECK "command = x\nwindow = 1ms\nfall = 1\n"));
	config_unref(load(COMPONENT CHECK "type = ttl\nwindow = 1s\n"));
}

Test(config_mistake, a_socket_path_longer_than_the_kernel_takes_is_refused)
{
	char text[200];
	int len = snprintf(text, sizeof(text), "[agent]\nsocket = /%0106d\n", 0);
	cr_assert_gt(len, 0);
	config_unref(load(text));
	snprintf(text, sizeof(text), "[agent]\nsocket = /%0107d\n", 0);
	check_one(text, 2, "at most 107");
}

Test(config_mistake, a_long_value_or_key_is_shown_in_part)
{
#define SIXTY TEN TEN TEN TEN TEN TEN
	check_one("[agent]\nlog_level = " SIXTY "\n", 2, "`log_level = " SIXTY "`: write");
	check_one("[agent]\nlog_level = " SIXTY "0\n", 2, "`log_level = " SIXTY "…`: write");
	check_one("[agent]\n" SIXTY "0 = x\n", 2, "[agent] has no key `" SIXTY "`");
	check_one("[" SIXTY "0]\n", 1, "there is no section [" SIXTY "]; ");
#undef SIXTY
}

Test(config_mistake, an_option_of_another_type_is_one_mistake_at_most)
{
	check_one(COMPONENT CHECK "command = x\nexpect_status = 9\n", 8, "100 to 599");
	check_one(COMPONENT CHECK "command = x\nexpect_status = 200\nmethod =\n", 8,
		"`expect_status` means nothing to a check of `type = command`");
	config_unref(load(COMPONENT CHECK "command = x\nexpect_status =\nmethod =\n"));
}

Test(config_mistake, each_section_and_key_that_is_there_again_is_a_mistake)
{
	struct config_problems problems = fail(
		"[agent]\nsocket = /a\n[agent]\n[cache]\n[agent]\n[registry]\nrealm = a\n"
		"realm = b\nrealm = c\n");
	cr_expect_eq(problems.count, 4);
	check_problem(&problems, 0, "a.ini", 3, "[agent] is here a second time, first in line 1");
	check_problem(&problems, 1, "a.ini", 5, "[agent] is here a second time, first in line 3");
	check_problem(&problems, 2, "a.ini", 8, "`realm` is here a second time, first in line 7");
	check_problem(&problems, 3, "a.ini", 9, "`realm` is here a second time, first in line 7");
	config_problems_finish(&problems);
	check_one("[component a]\npath = /a\n[component a]\n", 3, "[component a] is here");
}

Test(config_mistake, a_text_longer_than_its_option_takes_is_refused)
{
	char text[1200];
	snprintf(text, sizeof(text), COMPONENT "description = %01024d\n", 0);
	config_unref(load(text));
	snprintf(text, sizeof(text), COMPONENT "description = %01025d\n", 0);
	check_one(text, 6, "has 1025 bytes; at most 1024 are allowed");
}

Test(config_mistake, an_auth_file_that_others_can_read_is_refused)
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

Test(config_mistake, a_record_that_is_too_large_as_a_whole_is_an_error_of_its_component)
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

Test(config_mistake, an_import_that_cannot_be_is_refused)
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
	config_unref(load(COMPONENT ENDPOINT "address = http://h:1/\n[import a]\n" IMPORT(
		"/a", "/users/devteam/tomcats") "[import b]\n" IMPORT("/a", "/users/b")));
	check_one("[import a]\n" IMPORT("/a", "/b") "[import c]\n" IMPORT(
			  "/a", "/c") "[import d]\n" IMPORT("/a", "/c"),
		12, "[import c] is at /c");
#undef IMPORT
}

Test(config_mistake, a_zone_that_cannot_be_is_refused)
{
	check_one("[zone]\n", 1, "write [zone NAME]");
	check_one("[zone a..org]\n", 1, "is not a domain");
	check_one("[zone A.org]\n", 1, "lower-case");
	check_one("[zone org]\n", 1, "one of two or more");
	check_one("[zone a.org]\ntype = bind\n", 2, "registrar");
	check_one("[zone a.org]\nunknown = servfail\n", 2, "write refused or nxdomain");
	check_one("[zone a.berth]\n", 1, "`domain` of [dns] is berth");
	check_one("[dns]\ndomain = x.a.org\n[zone a.org]\n", 3, "is x.a.org");
}

Test(config_mistake, the_list_of_mistakes_has_an_end)
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
	cr_expect_eq(problems.error_count, 3000, "those that are not listed count, too");
	check_problem(&problems, 1000, "a.ini", 0, "more mistakes than the 1000 reported");
	config_problems_finish(&problems);
	free(text);
}

Test(config_mistake, the_note_that_the_list_ends_stays_last)
{
	static char *files[] = { "one", "two" };
	struct config_problems problems = { 0 };
	for (int i = 0; i < 1000; i++) {
		config_problems_add(&problems, i % 2 ? "one" : "two", 1000 - i, "x");
	}
	config_problems_warn(&problems, "one", 3, "y");
	config_problems_warn(&problems, "one", 4, "z");
	config_problems_sort(&problems, files, 2);
	cr_assert_eq(problems.count, 1001);
	cr_expect_eq(problems.error_count, 1000, "a warning is no error");
	for (size_t i = 1; i < 1000; i++) {
		const struct config_problem *before = &problems.items[i - 1];
		int order = strcmp(before->file, problems.items[i].file);
		cr_expect(order < 0 || (order == 0 && before->line < problems.items[i].line));
	}
	check_problem(&problems, 1000, "one", 0, "more mistakes");
	config_problems_finish(&problems);
}

Test(config_mistake, warnings_are_logged)
{
	struct config_problems problems = { 0 };
	char text[400] = "";
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	cr_assert(file && dup2(fileno(file), STDERR_FILENO) >= 0);
	config_problems_add(&problems, "a.ini", 1, "an error");
	config_problems_warn(&problems, "a.ini", 2, "a doubt");
	config_problems_add(&problems, "a.ini", 3, "an error");
	config_problems_warn(&problems, "b.ini", 4, "another doubt");
	config_problems_log_warnings(&problems);
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(file);
	cr_assert_gt(fread(text, 1, sizeof(text) - 1, file), 0);
	fclose(file);
	cr_expect_not_null(strstr(text, "a.ini:2: a doubt\n"), "%s", text);
	cr_expect_not_null(strstr(text, "b.ini:4: another doubt\n"), "%s", text);
	cr_expect_null(strstr(text, "an error"), "%s", text);
	config_problems_finish(&problems);
}

Test(config_mistake, problems_are_in_the_order_of_files_and_lines)
{
	static char *files[] = { "one", "two" };
	struct config_problems problems = { 0 };
	config_problems_add(&problems, "two", 3, "c%d", 3);
	config_problems_warn(&problems, "one", 7, "w");
	config_problems_add(&problems, "other", 0, "o");
	config_problems_add(&problems, "two", 1, "a");
	config_problems_add(&problems, "two", 3, "d");
	config_problems_add(&problems, "one", 0, "n");
	config_problems_sort(&problems, files, 2);
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	config_problems_print(&problems, stream);
	fclose(stream);
	cr_expect_str_eq(
		text, "one: n\none:7: warning: w\ntwo:1: a\ntwo:3: c3\ntwo:3: d\nother: o\n");
	cr_expect_eq(problems.error_count, 5);
	json_t *json = config_problems_json(&problems);
	cr_expect_eq(json_array_size(json), 5);
	json_decref(json);
	free(text);
	config_problems_finish(&problems);
	cr_expect_eq(problems.count, 0);
}

Test(config_mistake, mistakes_are_shown_as_lines_and_as_json)
{
	struct config_problems problems = fail("[agent]\nsoket = x\nlog_level = loud\n");
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	config_problems_print(&problems, stream);
	fclose(stream);
	cr_expect(strstr(text, "a.ini:2: [agent] has no key `soket`"));
	cr_expect(strstr(text, "a.ini:3: `log_level = loud`: "), "%s", text);
	free(text);
	json_t *json = config_problems_json(&problems);
	const json_t *first = json_array_get(json, 0);
	cr_expect_eq(json_array_size(json), 2);
	cr_expect_eq(json_integer_value(json_object_get(first, "line")), 2);
	cr_expect_str_eq(
		json_string_value(json_object_get(first, "message")), problems.items[0].message);
	json_decref(json);
	config_problems_finish(&problems);
}

Test(config_mistake, a_further_listener_has_an_address_of_its_own_and_shows_trees)
{
	check_one("[listen]\naddress = a:1\n", 1, "write [listen NAME]");
	check_one("[listen a]\nunder = /a/**\n", 1, "needs an `address`");
	check_one("[listen a]\nunder = /a/**\n[listen b]\naddress = a:1\nunder = /b/**\n", 1,
		"[listen a] needs an `address`");
	check_one("[listen a]\naddress = a\nunder = /a/**\n", 2, "host:port");
	check_one("[listen a]\naddress = a:1\nunder = /a\n", 3, "must end in /**");
	check_one("[listen a]\naddress = a:1\nunder = /A/**\n", 3, "under");
	check_one("[listen a]\naddress = a:1\nscope = internal\n", 3, "write external or all");
	check_one("[agent]\nlisten = a:1\n[listen a]\naddress = a:1\nunder = /**\n", 4,
		"`listen` in [agent] listens at a:1, too");
	check_one("[listen a]\naddress = a:1\nunder = /**\n"
		  "[listen b]\naddress = a:1\nunder = /**\n",
		5, "another [listen NAME]");
}

Test(config_mistake, a_policy_for_containers_that_cannot_be_is_refused)
{
	check_one("[container]\nallow = /a\n", 1, "write [container GLOB]");
	check_one("[container a+b]\nallow = /a\n", 1, "here * and ?");
	check_one("[bridge x]\n", 1, "has no name behind it");
	check_one("[bridge]\ncontainers = run\n", 2, "absolute");
	check_one("[bridge]\ncontainers = /run\nlinger = 2m\n", 3, "linger");
	static const char *const wrong[] = { "a", "/", "/a/", "//a", "/A", "/**/a", "/a**", "/-*",
		"/a/../b" };
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char text[64];
		snprintf(text, sizeof(text), "[container a]\nallow = /good, %s\n", wrong[i]);
		check_one(text, 2, "must be a path such as");
	}
	static const char *const owners[] = { "0", "root:root", "1:", ":1", "1:4294967295", "1:2:3",
		"-1:1", "1:99999999999" };
	for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
		char text[64];
		snprintf(text, sizeof(text), "[container a]\nallow = /a\nowner = %s\n", owners[i]);
		check_one(text, 3, "must be uid:gid");
	}
	check_one("[container a]\nallow = /a\nattribute.type = x\n", 3, "cannot be pinned");
	check_one("[container a]\nallow = /a\nattribute.a/b = x\n", 3, "attribute's name");
	check_one("[container a]\nallow = /a\nrate = 0\n", 3, "between 1 and");
}

Test(config_mistake, a_further_registry_is_only_read)
{
#define EAST "[registry east]\nurl = dir:/east\n"
	check_one("[registry East]\nurl = dir:/east\n", 1, "DNS label");
	check_one("[registry east]\nauth = none\n", 1, "[registry east] needs `url`");
	check_one("[registry east]\nurl = host:/run/berth\n", 2, "behind [registry] alone");
	check_one(EAST "secure = yes\n", 3, "nothing is written to [registry east]");
	check_one(EAST "update_interval = 1s\n", 3, "nothing is written to [registry east]");
	check_one(EAST "soket = 1\n", 3, "has no key `soket`");
	check_one(EAST "auth = digest\n", 3, "needs `auth_file`");
}

Test(config_mistake, paths_below_net_are_of_further_registries)
{
	config_unref(load(EAST "[registry west]\nurl = dir:/west\n"
			       "[cache]\nwarm = /net/west/**, /net/east/a, /network/**, /net\n"));
	check_one(EAST "[registry west]\nurl = dir:/west\n[cache]\nwarm = /net/north/**\n", 6,
		"there is no [registry north]");
	check_one(EAST "[component]\npath = /net/east/a\n", 4, "further registries");
	check_one("[component]\npath = /net\n", 2, "further registries");
	check_one(EAST "[container a]\nallow = /net/east/**\n", 4, "further registries");
	check_one(EAST "[output a]\nfrom = /net/west/a\nformat = json\npath = /a\n", 4,
		"there is no [registry west]");
	check_one(EAST "[cache]\nwarm = /net/west/**\n", 4, "there is no [registry west]");
	check_one(EAST "[import a]\ntype = nerve\nfrom = /a\nas = /net/west/a\n", 6,
		"there is no [registry west]");
	check_one(EAST "[import a]\ntype = nerve\nfrom = /a\nas = /net/east\n", 6,
		"cannot be an import");
	config_unref(load(EAST "[cache]\nwarm = /net/east/**, /net\n"
			       "[import a]\ntype = nerve\nfrom = /a\nas = /net/east/a\n"
			       "[output a]\nfrom = /net/east/a\nformat = json\npath = /a\n"));
}
