/* Warnings: the doubts of berthd -t about a configuration that is legal but probably a mistake. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "lib/base/array.h"

#define COMPONENT                                                                                  \
	"[component]\nuser = devteam\nservice_class = tomcat\ninstance = test1\nname = n1\n"
#define ENDPOINT "[endpoint rest]\napi = http://a/b\nprotocol = REST\naddress_type = uri\n"
#define CHECK "[check c]\n"
#define HOST_PORT "[endpoint rest]\napi = a\nprotocol = p\naddress_type = host/port\n"
/* A component to which nothing is added. */
#define BARE "[component a]\npath = /a\n"
#define OTHER "[endpoint rest]\napi = a\nprotocol = p\naddress_type = x-y\n"
/* A registry that other machines read, too. */
#define FOREIGN "[registry]\nurl = zookeeper://zk/r\n"
#define OUTPUT "[output o]\nfrom = /a\nformat = json\npath = /tmp/o\n"

#define COMPLETED                                                                                  \
	"\n[endpoint more]\napi = a\nprotocol = p\naddress_type = uri\ndynamic = yes\n"            \
	"[check more]\ntype = ttl\n"

static void load(const char *text, struct config_problems *problems)
{
	char path[] = "/tmp/doubt-XXXXXX";
	int fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	FILE *stream = fdopen(fd, "w");
	fputs(text, stream);
	/* A component without an endpoint or a check is doubtful, too; other tests concern that. */
	fputs(strstr(text, "[component]") ? COMPLETED : "", stream);
	fclose(stream);
	struct config *config = NULL;
	int code = config_load(&config, path, problems);
	config_problems_print(problems, stderr);
	unlink(path);
	cr_assert_eq(code, 0);
	cr_assert_eq(problems->error_count, 0);
	config_unref(config);
}

#define USER(user)                                                                                 \
	"[component]\nuser = " user "\nservice_class = tomcat\ninstance = test1\nname = n1\n"

static const struct {
	const char *text;
	int line;
	const char *part;
} doubtful[] = {
	{ USER("dev_team"), 2, "the home /users/dev-team" },
	{ USER("Dev-Team@EXAMPLE.ORG"), 2, "\"Dev-Team\" has the home /users/dev-team" },
	{ USER("B\xc3\xbc"
	       "cher"),
		2, "has the home /users/xn--bcher-kva" },
	{ COMPONENT CHECK "command = /bin/true | cat\n", 7, "`|` is passed to the program" },
	{ COMPONENT CHECK "command = /bin/true && /bin/false\n", 7, "`&&`" },
	{ COMPONENT CHECK "command = /bin/true; /bin/false\n", 7, "`;`" },
	{ COMPONENT CHECK "command = /bin/true > /dev/null\n", 7, "`>`" },
	{ COMPONENT CHECK "command = /bin/true 2>/dev/null\n", 7, "`2>`" },
	{ COMPONENT CHECK "command = /bin/echo `id`\n", 7, "shell = yes" },
	{ COMPONENT CHECK "command = /bin/echo $PORT\n", 7, "write ${PORT}" },
	{ COMPONENT CHECK "command = /bin/echo \"it's $PORT\"\n", 7, "write ${PORT}" },
	{ COMPONENT CHECK "command = /no/such/program\n", 7, "no program /no/such/program" },
	{ COMPONENT CHECK "command = no-such-program-anywhere\n", 7, "no program" },
	{ COMPONENT CHECK "command = /tmp\n", 7, "no program /tmp" },
	{ COMPONENT CHECK "command = no/such/program\n", 7, "no program no/such/program" },
	{ COMPONENT CHECK "command = bin/no-such\ncwd = /\n", 7, "no program bin/no-such" },
	{ COMPONENT CHECK "command = /bin/true &\n", 7, "`&`" },
	{ COMPONENT CHECK "command = /bin/cat ~/x\n", 7, "`~/`" },
	{ COMPONENT CHECK "command = /bin/echo \"a\\\" b\" $(id)\n", 7, "`$(`" },
	{ COMPONENT CHECK "command = /bin/true\nmatch = a\\x\n", 8, "means the letter x" },
	{ COMPONENT CHECK "command = /bin/true\nmatch = ^\\d+$\n", 8, "[0-9]" },
	{ COMPONENT ENDPOINT "address = http://h:$PORT/\n", 10, "`$PORT` stays" },
	{ COMPONENT ENDPOINT "address = http://h:abc/\n", 10, "port \"abc\"" },
	{ COMPONENT ENDPOINT "address = http://h:/\n", 10, "port \"\"" },
	{ COMPONENT ENDPOINT "address = http://[::]:80/\n", 10, "address to listen at" },
	{ COMPONENT ENDPOINT "address = http://u@NONE/\n", 10, "host is \"NONE\"" },
	{ COMPONENT ENDPOINT "address = http://h:80/$$a\n", 10, "`$a` as it is" },
	{ COMPONENT ENDPOINT "address = http://h:80/$$$${a}\n", 10, "`${a}` as it is" },
	{ COMPONENT ENDPOINT "address = http://h:65536\n", 10, "65535" },
	{ COMPONENT ENDPOINT "address = http://h:0/\n", 10, "port \"0\"" },
	{ COMPONENT ENDPOINT "address = http://h:000080/\n", 10, "port \"000080\"" },
	{ COMPONENT ENDPOINT "address = http://h:8x/\n", 10, "port \"8x\"" },
	{ COMPONENT ENDPOINT "address = http://:80/\n", 10, "host is \"\"" },
	{ COMPONENT ENDPOINT "address = http://None:80/\n", 10, "host is \"None\"" },
	{ COMPONENT ENDPOINT "address = http://nil/\n", 10, "host is \"nil\"" },
	{ COMPONENT ENDPOINT "address = http://null?a\n", 10, "host is \"null\"" },
	{ COMPONENT ENDPOINT "address = http://undefined#a\n", 10, "host is \"undefined\"" },
	{ COMPONENT ENDPOINT "address = http://0.0.0.0:80/\n", 10, "address to listen at" },
	{ COMPONENT OTHER "address = http://{{host}}/\n", 10, "`{{` is a mark" },
	{ COMPONENT OTHER "address = http://<%=h%>/\n", 10, "`<%` is a mark" },
	{ COMPONENT OTHER "address = http://%{h}/\n", 10, "`%{` is a mark" },
	{ COMPONENT OTHER "address = <no value>\n", 10, "`<no value>` is a mark" },
	{ COMPONENT OTHER "address = http://@@h@@/\n", 10, "`@@` is a mark" },
	{ COMPONENT ENDPOINT "address = http://h:80/$$_a.b\n", 10, "`$_a` as it is" },
	{ COMPONENT ENDPOINT "address = http://h/$$1/$$ab\n", 10, "`$ab` as it is" },
	{ FOREIGN COMPONENT ENDPOINT "address = http://127.0.0.1/\n", 12, "own machine" },
	{ FOREIGN COMPONENT ENDPOINT "address = http://127.255.0.1/\n", 12, "own machine" },
	{ FOREIGN COMPONENT ENDPOINT "address = http://[::1]/\n", 12, "own machine" },
	{ FOREIGN COMPONENT ENDPOINT "address = http://LocalHost:1/\n", 12, "own machine" },
	{ FOREIGN COMPONENT ENDPOINT "address = http://localhost.localdomain/\n", 12,
		"own machine" },
	{ FOREIGN COMPONENT ENDPOINT "address = http://ip6-localhost/\n", 12, "own machine" },
	{ FOREIGN COMPONENT HOST_PORT "address = localhost:80\n", 12, "own machine" },
	{ COMPONENT HOST_PORT "address = 0.0.0.0:80\n", 10, "address to listen at" },
	{ COMPONENT "[endpoint rest]\napi = a\nprotocol = p\naddress_type = hostname\n"
		    "address = undefined\n",
		10, "host is \"undefined\"" },
	{ "[dns]\nlisten = 126.255.255.255:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 128.0.0.1:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 9.255.255.255:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 11.0.0.0:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 172.15.255.255:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 192.167.255.255:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 192.169.0.0:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 169.253.255.255:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 169.255.0.0:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 100.63.255.255:53\n", 2, "strangers" },
	{ "[dns]\nlisten = 100.128.0.0:53\n", 2, "strangers" },
	{ "[dns]\nlisten = [fb00::1]:53\n", 2, "strangers" },
	{ "[dns]\nlisten = [fe00::1]:53\n", 2, "strangers" },
	{ "[dns]\ndomain = a.invalid\n", 2, "names below invalid" },
	{ "[dns]\ndomain = a.arpa\n", 2, "names below arpa" },
	{ "[zone a.org]\n", 1, "nobody can ask for its names" },
	{ "[agent]\nlog_level = info\n", 0, "there is nothing to do" },
	{ BARE "[check c]\ntype = ttl\n", 1, "has no [endpoint]" },
	{ BARE ENDPOINT "address = http://h/\n", 1, "has no [check]" },
	{ BARE ENDPOINT "dynamic = yes\n[endpoint two]\napi = a\nprotocol = p\n"
			"address_type = uri\naddress = http://h/\n",
		1, "has no [check]" },
	{ "[dns]\ndomain = x\n", 0, "there is nothing to do" },
	{ "[output o]\nfrom = /users/a/b/c\nformat = json\npath = /tmp/o\n", 2,
		"write /users/a/b/c/components" },
	{ "[output o]\nfrom = /users/a/services/b/c\nformat = json\npath = /tmp/o\n", 2,
		"is an instance" },
	{ "[output o]\nfrom = /a\nformat = json\npath = /no/such/directory/o\n", 4,
		"no directory /no/such/directory here" },
	{ "[output o]\nfrom = /a\nformat = json\npath = /etc/passwd/o\n", 4,
		"no directory /etc/passwd here" },
	{ OUTPUT "check = /bin/true\n", 5, "it has no {}" },
	{ OUTPUT "on_change = /bin/true | cat\n", 5, "`|` is passed" },
	{ OUTPUT "on_change = /no/such/program\n", 5, "no program" },
	{ "[output o]\nfrom = /a\nrender = /bin/cat && x\npath = /tmp/o\n", 3, "`&&`" },
	{ OUTPUT "prefer = zone\n", 5, "nothing is nearer" },
	{ COMPONENT CHECK "command = true\ninterval = 5s\ntimeout = 5001ms\n", 9,
		"5.001s is longer than `interval`, 5s: a run that hangs" },
	{ COMPONENT CHECK "command = true\ninterval = 5s\nfast_interval = 6s\n", 9,
		"would run less often" },
	{ COMPONENT CHECK "command = /bin/true\nmatch = \\D\n", 8, "[0-9]" },
	{ COMPONENT CHECK "command = /bin/true\nmatch = a\\\\\\t\n", 8, "\\t means the letter t" },
	{ COMPONENT ENDPOINT "address = http://[::1]:x/\n", 10, "port \"x\"" },
	{ COMPONENT "[endpoint rest]\napi = http://a/b\nprotocol = x\n"
		    "address_type = x-y\naddress = a # b\n",
		10, "a comment has a line of its own" },
	{ "[registry]\nurl = dir:/tmp/r ; local\n", 2, "a comment has a line of its own" },
	{ COMPONENT "description = $(hostname)\n", 6, "no command is run" },
	{ COMPONENT "id =\n", 6, "is empty" },
	{ COMPONENT "id = ${UNSET:-}\n", 6, "is empty" },
	{ "[agent]\nsocket_mode = 0600\n" COMPONENT CHECK "type = ttl\nwriter = user:12345\n", 10,
		"cannot connect" },
	{ "[agent]\nsocket_mode = 0660\nsocket_group = 4321\n" COMPONENT ENDPOINT
	  "dynamic = yes\nwriter = group:12345\n",
		14, "cannot connect" },
	{ "[agent]\nsocket_mode = 0660\n" COMPONENT CHECK "type = ttl\nwriter = user:12345\n", 10,
		"cannot connect" },
	{ "[agent]\nsocket_mode = 0660\n" COMPONENT CHECK "type = ttl\nwriter = user:nobody\n", 10,
		"cannot connect" },
	{ "[agent]\nuser = nobody\n" OUTPUT "owner = root\n", 7, "only root can give" },
	{ "[agent]\nuser = nobody\n" OUTPUT "group = root\n", 7, "only a member can give" },
	{ "[dns]\nlisten = 127.0.0.1:5353\nforward = 192.0.2.1:53, 127.0.0.1:5353\n", 3,
		"does not ask itself" },
	{ "[dns]\nlisten = 127.0.0.1:53, 0.0.0.0:53\n", 2, "strangers may reach 0.0.0.0:53" },
	{ "[dns]\nlisten = 203.0.113.1:53\n", 2, "strangers may reach 203.0.113.1:53" },
	{ "[dns]\nlisten = 172.32.0.1:53\n", 2, "strangers may reach 172.32.0.1:53" },
	{ "[dns]\nlisten = [::]:53\n", 2, "strangers may reach [::]:53" },
	{ "[dns]\nlisten = [2001:db8::1]:53\n", 2, "strangers may reach [2001:db8::1]:53" },
	{ "[dns]\ndomain = berth.local\n", 2, "names below local" },
	{ "[dns]\ndomain = localhost\n", 2, "names below localhost" },
	{ "[dns]\nttl = 1500ms\n", 2, "this one is 1 s" },
	{ "[dns]\nttl = 1s\nstale_ttl = 10500ms\n", 3, "this one is 10 s" },
	{ "[bridge]\ncontainers = /run/c\n[container a]\nrate = 1\n", 3, "has no `allow`" },
	{ "[listen a]\naddress = 127.0.0.1:1\n", 1, "has no `under`: it shows nothing" },
	{ "[container a]\nallow = /a\n", 1, "no effect without `containers`" },
	{ "[bridge]\ncontainers = /run/c\n", 0, "has no [container GLOB]" },
	{ "[registry east]\nurl = dir:/e\n[registry west]\nurl = dir:/w\n", 1,
		"[registry east] is only read, and there is no [registry] without a name" },
	{ "[listen a]\naddress = 127.0.0.1:1\nunder = /a/**\n[registry west]\nurl = dir:/w\n", 4,
		"the agent's own records are in dir:" },
};

Test(doubt, is_a_warning_with_its_line)
{
	unsetenv("UNSET");
	for (size_t i = 0; i < ARRAY_LEN(doubtful); i++) {
		struct config_problems problems;
		load(doubtful[i].text, &problems);
		cr_expect_geq(problems.count, 1, "no warning: %s", doubtful[i].text);
		bool found = false;
		for (size_t j = 0; j < problems.count; j++) {
			const struct config_problem *problem = &problems.items[j];
			found |= problem->warning && problem->line == doubtful[i].line &&
				strstr(problem->message, doubtful[i].part);
		}
		cr_expect(found, "no \"%s\" in line %d: %s", doubtful[i].part, doubtful[i].line,
			doubtful[i].text);
		config_problems_finish(&problems);
	}
}

static const char *const meant[] = {
	COMPONENT,
	USER("joe_smith.x"),
	USER("Joe Smith"),
	USER("joe@EXAMPLE_ORG"),
	USER("yarn/Host@EXAMPLE.ORG"),
	COMPONENT CHECK "command = /bin/sh -c 'a | b > c; d &'\n",
	"[dns]\nlisten = 127.0.0.2:53, 10.1.2.3:53, 172.31.0.1:53, 192.168.1.1:53\n",
	"[dns]\nlisten = [::1]:53, [fe80::1]:53, [fd00::1]:53, 100.64.0.1:53, 169.254.1.1:53\n",
	COMPONENT CHECK "command = sh -c \"echo \\$HOME\" 'http://h/?a=1&b=2;c'\n",
	COMPONENT CHECK "command = sh http://h/?a=1&b=2 a\\;\n",
	COMPONENT CHECK "command = sh $$PORT\n",
	COMPONENT CHECK "command = sh -c 'echo $HOME \"$(id)\"'\n",
	COMPONENT CHECK "shell = yes\ncommand = a $PORT $(b) | c\n",
	COMPONENT CHECK "command = /bin/true\nmatch = ^(a|b$)\\.\\\\d$\n",
	COMPONENT ENDPOINT "address = http://h:80/\n",
	COMPONENT ENDPOINT "address = http://user:pass@[::1]:8080/a:b\n",
	COMPONENT ENDPOINT "address = http://[fe80::1]/\n",
	COMPONENT ENDPOINT "address = urn:a:b\n",
	COMPONENT ENDPOINT "address = file:///run/x\n",
	COMPONENT ENDPOINT "address = http://a$$/\n",
	COMPONENT ENDPOINT "address = http://localhost/\n",
	COMPONENT ENDPOINT "address = http://h:1/\n",
	COMPONENT ENDPOINT "address = http://h:65535/\n",
	COMPONENT ENDPOINT "address = http://h:00080/\n",
	COMPONENT ENDPOINT "address = http://h/:x\n",
	COMPONENT ENDPOINT "address = http://h/$$1$$-\n",
	COMPONENT ENDPOINT "address = http://u:p@h:1/\n",
	FOREIGN COMPONENT ENDPOINT "address = http://126.0.0.1/\n",
	FOREIGN COMPONENT ENDPOINT "address = http://[::2]/\n",
	FOREIGN COMPONENT HOST_PORT "address = h:80\n",
	"[dns]\nlisten = 127.255.255.255:53, 10.0.0.0:53, 10.255.255.255:53, 172.16.0.0:53, "
	"172.31.255.255:53, 192.168.0.0:53, 192.168.255.255:53, 169.254.0.0:53, "
	"169.254.255.255:53, 100.64.0.0:53, 100.127.255.255:53, [fe80::1]:53, [fc00::1]:53, "
	"[fdff::1]:53\n",
	"[dns]\nlisten = 127.0.0.1:53\n[zone a.org]\n",
	"[dns]\nlisten = 127.0.0.1:1 127.0.0.1:2 127.0.0.1:3 127.0.0.1:4 127.0.0.1:5 127.0.0.1:6 "
	"127.0.0.1:7 127.0.0.1:8 127.0.0.1:9 127.0.0.1:10 127.0.0.1:11 127.0.0.1:12 127.0.0.1:13 "
	"127.0.0.1:14 127.0.0.1:15 127.0.0.1:16\n",
	BARE ENDPOINT "dynamic = yes\n",
	BARE ENDPOINT "address = http://h/\n[check c]\ntype = ttl\n",
	COMPONENT CHECK "command = /bin/true\ncwd = /tmp\n",
	COMPONENT CHECK "command = ./true\ncwd = /bin\n",
	"[dns]\nlisten = 127.0.0.1:53\n",
	"[registry]\n",
	"[registry]\n[registry east]\nurl = dir:/e\n",
	"[registry east]\nurl = dir:/e\n[registry]\nurl = dir:/r\n",
	"[cache]\nwarm = /a\n",
	"[import a]\ntype = nerve\nfrom = /f\nas = /g\n",
	"[bridge]\ncontainers = /run/c\n[container a]\nallow = /a\n",
	"[agent]\nlisten = 127.0.0.1:1\n",
	"[listen a]\naddress = 127.0.0.1:1\nunder = /a/**\n",
	"[output o]\nfrom = /users/a/b\nformat = json\npath = /tmp/o\n",
	"[output o]\nfrom = /usersx/a/b/c\nformat = json\npath = /tmp/o\n",
	"[output o]\nfrom = /users/a/b/c/d\nformat = json\npath = /tmp/o\n",
	"[output o]\nfrom = /users/a/servicesx/b/c/d\nformat = json\npath = /tmp/o\n",
	OUTPUT "check = /bin/test -s {}\n",
	"[agent]\nzone = a\n" OUTPUT "prefer = zone\n",
	"[registry]\nurl = zookeeper://zk/r\n" COMPONENT ENDPOINT "address = http://128.0.0.1/\n",
	"[registry]\nurl = zookeeper://zk/r\n" COMPONENT ENDPOINT "address = http://localhost.a/\n",
	COMPONENT CHECK "type = ttl\ninterval = 1s\ntimeout = 5s\n",
	COMPONENT CHECK "command = true\ninterval = 1s\n",
	COMPONENT CHECK "command = true\ntimeout = 20s\n",
	COMPONENT CHECK "command = true\ninterval = 5s\ntimeout = 5s\nfast_interval = 5s\n",
	COMPONENT CHECK "command = true\ninterval = 5s\ndown_interval = 30s\n",
	"[output o]\nfrom = /users\nformat = json\npath = /o\n",
	"[output o]\nfrom = /users/a/b/c/**\nformat = json\npath = /tmp/o\n",
	"[output o]\nfrom = /users/a/services/b\nformat = json\npath = /tmp/o\n",
	"[output o]\nfrom = /users/a/services/b/components\nformat = json\npath = /tmp/o\n",
	"[output o]\nfrom = /services/a/b/c\nformat = json\npath = /tmp/o\n",
	COMPONENT ENDPOINT "address = mongodb://a:1,b:2/x\n",
	COMPONENT "description = a ; b # c\nattribute.price = 5 $\n",
	COMPONENT CHECK "command = bin/true\ncwd = /\n",
	COMPONENT CHECK "command = /bin/echo 'a\\' \"b|c\" http://h/~/x a&b ~x 1\n",
	COMPONENT CHECK "type = ttl\nwriter = user:12345\n",
	"[agent]\nsocket_mode = 0600\n" COMPONENT CHECK "type = ttl\nwriter = user:root\n",
	"[agent]\nsocket_mode = 0660\nsocket_group = nogroup\n" COMPONENT CHECK
	"type = ttl\nwriter = user:nobody\n",
	"[registry]\n[dns]\nforward = none\n",
	"[agent]\nsocket_mode = 0660\nsocket_group = 4321\n" COMPONENT CHECK
	"type = ttl\nwriter = group:4321\n",
	OUTPUT "owner = root\ngroup = root\n",
	"[agent]\nuser = nobody\n" OUTPUT "owner = nobody\ngroup = nogroup\n",
	"[agent]\nuser = nobody\ngroup = daemon\n" OUTPUT "group = daemon\n",
	"[dns]\nlisten = 127.0.0.1:53, [::1]:53\ndomain = local.example.org\n"
	"ttl = 0s\nforward = 127.0.0.1:54\n",
};

Test(doubt, is_not_cast_on_what_is_meant)
{
	for (size_t i = 0; i < ARRAY_LEN(meant); i++) {
		struct config_problems problems;
		load(meant[i], &problems);
		cr_expect_eq(problems.count, 0, "%s: %s", meant[i],
			problems.count ? problems.items[0].message : "");
		config_problems_finish(&problems);
	}
}

Test(doubt, is_cast_once)
{
	static const char *const once[] = { "[zone a.org]\n", "[agent]\nlog_level = info\n",
		"[bridge]\ncontainers = /run/c\n[container a]\nrate = 1\n",
		"[bridge]\ncontainers = /run/c\n",
		"[registry east]\nurl = dir:/e\n[registry west]\nurl = dir:/w\n",
		"[dns]\nlisten = 127.0.0.1:5353\nforward = 127.0.0.1:5353, 127.0.0.1:5353\n" };
	for (size_t i = 0; i < ARRAY_LEN(once); i++) {
		struct config_problems problems;
		load(once[i], &problems);
		cr_expect_eq(problems.count, 1, "%zu for %s", problems.count, once[i]);
		config_problems_finish(&problems);
	}
}

Test(doubt, is_no_error_for_a_reload)
{
	struct config_problems problems;
	load(doubtful[0].text, &problems);
	json_t *errors = config_problems_json(&problems);
	cr_expect_eq(json_array_size(errors), 0);
	json_decref(errors);
	config_problems_finish(&problems);
}
