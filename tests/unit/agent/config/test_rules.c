/* Rules that concern several sections, with more than one section of each kind. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/config_stage.h"

TestSuite(config_rules, .init = make_folder, .fini = remove_folder);

#define OUTPUT(name, more) "[output " name "]\nformat = json\npath = /tmp/" name "\n" more
#define LISTENER(name, address) "[listen " name "]\naddress = " address "\nunder = /**\n"
#define IMPORT(name, as) "[import " name "]\ntype = nerve\nfrom = /f\nas = " as "\n"
#define EAST_AND_WEST "[registry east]\nurl = dir:/east\n[registry west]\nurl = dir:/west\n"

Test(config_rules, each_listener_has_an_address_of_its_own)
{
	check_one(LISTENER("a", "h:1") LISTENER("b", "h:2") LISTENER("c", "h:2"), 8,
		"another [listen NAME] listens at h:2, too");
	check_one(LISTENER("a", "h:1") LISTENER("b", "h:2") LISTENER("c", "h:1"), 8,
		"another [listen NAME] listens at h:1, too");
	config_unref(load(LISTENER("a", "h:1") LISTENER("b", "h:2") LISTENER("c", "h:3")));
}

Test(config_rules, the_hosts_of_this_agent_are_known_when_it_listens)
{
	char host[256] = "";
	cr_assert_eq(gethostname(host, sizeof(host) - 1), 0);
	struct config *config = load("[agent]\nlog_level = info\n");
	cr_expect_eq(config->agent.own_host_count, 0);
	config_unref(config);
	config = load("[agent]\nlisten = example.org:1\n" LISTENER("a", "[::1]:2")
			LISTENER("b", "other.example:3"));
	char *const *hosts = config->agent.own_hosts;
	size_t count = config->agent.own_host_count;
	cr_assert_geq(count, 6);
	cr_expect_str_eq(hosts[0], "localhost");
	cr_expect_eq(strncasecmp(hosts[1], host, strlen(hosts[1])), 0);
	cr_expect_str_eq(hosts[2], host);
	cr_expect_str_eq(hosts[count - 3], "example.org");
	cr_expect_str_eq(hosts[count - 2], "::1");
	cr_expect_str_eq(hosts[count - 1], "other.example");
	cr_expect_leq(count, 7, "those of the machine are there once");
	config_unref(config);
}

Test(config_rules, addresses_are_in_the_order_of_their_numbers)
{
	struct config *config = load(COMPONENT ENDPOINT
		"address.10 = http://d\naddress.1 = http://b\naddress = http://a\n"
		"address.2 = http://c\n");
	const struct config_endpoint *endpoint = &config->components[0].endpoints[0];
	cr_assert_eq(endpoint->address_count, 4);
	for (size_t i = 0; i < 4; i++) {
		char expected[] = "http://a";
		expected[7] = (char)('a' + i);
		cr_expect_str_eq(endpoint->addresses[i], expected);
	}
	config_unref(config);
}

Test(config_rules, each_path_below_net_is_of_a_registry_that_there_is)
{
	check_one(EAST_AND_WEST OUTPUT("o", "from = /a\n") OUTPUT("p", "from = /net/north/a\n"), 12,
		"there is no [registry north]");
	check_one(EAST_AND_WEST OUTPUT("o", "from = /a\nfailover = /net/east, /net/north/b\n"), 9,
		"there is no [registry north], which /net/north/b would be in");
	check_one(EAST_AND_WEST "[xds]\nlisten = h:1\nserve = /a/**, /net/north/**\n", 7,
		"there is no [registry north]");
	check_one(EAST_AND_WEST "[xds]\nlisten = h:1\nfailover = /net/west, /net/nor\n", 7,
		"there is no [registry nor]");
	check_one(EAST_AND_WEST IMPORT("a", "/b") IMPORT("c", "/net/wes/a"), 12,
		"there is no [registry wes]");
	check_one(EAST_AND_WEST IMPORT("a", "/b") IMPORT("c", "/net/west"), 12,
		"/net/west cannot be an import");
	check_one(EAST_AND_WEST IMPORT("a", "/net"), 8, "/net cannot be an import");
	check_one(EAST_AND_WEST "[component a]\npath = /a\n[component b]\npath = /net/west/a\n", 8,
		"`path`: /net/west/a is below /net");
	check_one(EAST_AND_WEST
		"[container a*]\nallow = /a\n[container b]\nallow = /b, /net/east\n",
		8, "`allow`: /net/east is below /net");
	config_unref(load(EAST_AND_WEST "[output o]\nformat = json\npath = /tmp/o\n"
					"from = /net/west/a\nfailover = /net/east\n"));
	config_unref(load(EAST_AND_WEST IMPORT("a", "/b") IMPORT("c", "/net/west/a")));
	config_unref(load(EAST_AND_WEST "[xds]\nlisten = h:1\nserve = /net/west/**\n"
					"failover = /net/east, /a\n"));
}

Test(config_rules, a_path_below_net_leads_to_its_registry)
{
	static const struct {
		const char *path;
		int registry; /* -1: none */
	} cases[] = { { "/net/east", 0 }, { "/net/east/a/b", 0 }, { "/net/west", 1 },
		{ "/net/west/**", 1 }, { "/net", -1 }, { "/net/", -1 }, { "/net/eas", -1 },
		{ "/net/easts", -1 }, { "/net/wesx/a", -1 }, { "/nets/east", -1 }, { "/a", -1 },
		{ "/", -1 } };
	struct config *config = load(EAST_AND_WEST);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct config_registry *found = config_further_at(config, cases[i].path);
		cr_expect_eq(found ? (int)(found - config->further) : -1, cases[i].registry, "%s",
			cases[i].path);
	}
	config_unref(config);
}

#define HOSTED "[registry]\nurl = host:/run/berth\n"

Test(config_rules, a_container_whose_host_announces_has_no_more_than_records)
{
	check_one(HOSTED IMPORT("a", "/b"), 3, "[import a] cannot be with `url = host:`");
	check_one(HOSTED "[zone z.org]\n", 3, "[zone z.org] cannot be");
	check_one(HOSTED "[bridge]\ncontainers = /run/c\n", 3, "[bridge] cannot be");
	check_one(HOSTED "[component]\npath = /a\n[dialect d]\ntype = nerve\npath = /x\n" ENDPOINT
			 "address = http://h:1/\n",
		5, "[dialect d] cannot be");
	check_one(HOSTED "[component a]\npath = /a\n[component b]\npath = /b\nznode = persistent\n",
		7, "the record is ephemeral");
	check_one(HOSTED "[component b]\npath = /b\npersistence = permanent\n", 5,
		"the record is ephemeral");
	config_unref(load(HOSTED "[component a]\npath = /a\n[component b]\npath = /b\n"));
	config_unref(load("[registry]\nurl = dir:/r\n" IMPORT("a", "/b") "[zone z.org]\n"));
}

Test(config_rules, the_owner_of_a_container_is_read)
{
	struct config *config = load("[bridge]\ncontainers = /run/c\n"
				     "[container a]\nallow = /a\nowner = 1000:2000\n"
				     "[container b]\nallow = /b\n");
	cr_assert_eq(config->container_count, 2);
	cr_expect_eq(config->containers[0].owner_uid, 1000);
	cr_expect_eq(config->containers[0].owner_gid, 2000);
	cr_expect_eq(config->containers[1].owner_uid, (unsigned)-1);
	cr_expect_eq(config->containers[1].owner_gid, (unsigned)-1);
	config_unref(config);
}

Test(config_rules, the_same_place_is_that_of_any_output_before)
{
	check_one(OUTPUT("a", "from = /a\n") OUTPUT("b",
			  "from = /a\n") "[output c]\nformat = json\nfrom = /a\npath = /tmp/b\n",
		12, "[output b] writes this file, too");
	check_one("[component a]\npath = /a\n[component b]\npath = /b\n[component c]\npath = /b\n",
		5, "same path");
	check_one("[component a]\nuser = x\nservice_class = s\ninstance = i\n"
		  "[component b]\nuser = y_z\nservice_class = s\ninstance = i\n"
		  "[component c]\nuser = y-z\nservice_class = t\ninstance = i\n",
		10, "would share the home /users/y-z");
	check_one(TWO "[check c]\ncommand = x\ncomponent = a, b\n[check c]\ncommand = y\n"
		      "component = a\n",
		8, "first in line 5");
}

/* ---- which component a section belongs to ---- */

#define E_OF(component) "[endpoint e]\napi = a\nprotocol = p\naddress_type = uri\n" component

Test(config_rules, a_bad_name_of_a_component_is_one_mistake)
{
	check_one(TWO E_OF("dynamic = yes\ncomponent = ${UNSET_HERE}\n"), 10, "UNSET_HERE");
	check_one(TWO "[check c]\ntype = ttl\ncomponent = ${UNSET_HERE}\n", 7, "UNSET_HERE");
	check_one(TWO "[check c]\ntype = ttl\ncomponent = x, a\nendpoints = e\n", 7,
		"there is no [component x]");
	check_one(TWO E_OF("dynamic = yes\n"), 5, "needs `component = NAME`");
	check_one(E_OF("dynamic = yes\n"), 1, "[endpoint e] has no [component]");
}

Test(config_rules, a_component_has_a_limit_of_endpoints)
{
	enum { MOST = 128 };
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	fputs("[component]\npath = /a\n", stream);
	for (int i = 0; i < MOST + 2; i++) {
		fprintf(stream, "[endpoint e%d]\napi = a\nprotocol = p\n", i);
		fprintf(stream, "address_type = uri\ndynamic = yes\n");
		fflush(stream);
		if (i == MOST - 1) {
			config_unref(load(text));
		} else if (i >= MOST) {
			check_one(text, 3 + 5 * MOST, "can have 128 endpoints at most");
		}
	}
	fclose(stream);
	free(text);
}

/* ---- checks ---- */

#define COMMAND COMPONENT CHECK "command = x\n"

Test(config_rules, a_window_is_judged_by_values_that_are_good)
{
	check_one(COMMAND "window = 1ms\nfall = x\n", 9, "between 1 and 1000");
	check_one(COMMAND "window = 15s\nfast_interval = 5x\n", 9, "unit");
	check_one(COMMAND "window = 15s\ninterval = 5x\n", 9, "unit");
	check_one(COMMAND "window = 20s\n", 8,
		"`fall` = 3 failures, which `interval` = 10s sets apart: it must be longer than "
		"20s");
	check_one(COMMAND "window = 250ms\nfast_interval = 250ms\nfall = 2\n", 8,
		"`fast_interval` = 0.25s sets apart: it must be longer than 0.25s");
}

Test(config_rules, a_check_has_what_its_type_needs)
{
	check_one(COMPONENT CHECK "type = command\n", 6, "needs `command`");
	check_one(COMPONENT CHECK "type = http\n", 6, "needs `target`");
	check_one(COMPONENT CHECK "command =\n", 6, "needs `type`");
	check_one(COMPONENT CHECK "type = tcp\ntarget = ${UNSET_HERE}\n", 8, "UNSET_HERE");
	check_one(COMPONENT CHECK "type = tcp\ntarget = h:0\n", 8, "from 1 to 65535");
	check_one(COMPONENT CHECK "type = tcp\ntarget = unix:\n", 8, "absolute path");
	check_one(COMPONENT CHECK "type = tcp\ntarget = unix:80\n", 8, "absolute path");
	check_one(COMPONENT CHECK "type = http\ntarget = http://unix:80/x\n", 8, "absolute path");
	check_one(COMPONENT CHECK "type = http\ntarget = http://unix:s:/x\n", 8, "absolute path");
}

/* The path of a socket has this many bytes at most. */
enum { SOCKET_BYTES = 107 };

Test(config_rules, a_check_may_be_of_a_socket_with_the_longest_path)
{
	for (int more = 0; more < 2; more++) {
		char tcp[300];
		char http[300];
		snprintf(tcp, sizeof(tcp), COMPONENT CHECK "type = tcp\ntarget = unix:/%0*d\n",
			SOCKET_BYTES - 1 + more, 0);
		snprintf(http, sizeof(http),
			COMPONENT CHECK "type = http\ntarget = http://unix:/%0*d:/x\n",
			SOCKET_BYTES - 1 + more, 0);
		if (more) {
			check_one(tcp, 8, "at most 107 bytes");
			check_one(http, 8, "at most 107 bytes");
			continue;
		}
		struct config *config = load(http);
		cr_expect_eq(strlen(config->checks[0].target_host), SOCKET_BYTES);
		cr_expect_str_eq(config->checks[0].target_path, "/x");
		cr_expect_str_eq(config->checks[0].target_port, "");
		config_unref(config);
		config = load(tcp);
		cr_expect_eq(strlen(config->checks[0].target_host), SOCKET_BYTES);
		config_unref(config);
	}
	struct config *config = load(COMPONENT CHECK "type = http\ntarget = http://unix:/s\n");
	cr_expect_str_eq(config->checks[0].target_host, "/s");
	cr_expect_str_eq(config->checks[0].target_path, "/");
	config_unref(config);
}

Test(config_rules, the_endpoints_of_a_check_are_of_its_components)
{
	check_one(TWO AN_ENDPOINT("x", "a") AN_ENDPOINT("y", "a") AN_ENDPOINT(
			  "z", "b") "[check c]\ncomponent = a, b\nendpoints = y, x\ncommand = x\n",
		25, "names no endpoint of [component b]");
	check_one(TWO AN_ENDPOINT("x", "a") "[check c]\ncomponent = b, a\nendpoints = x\n"
					    "command = x\n",
		13, "names no endpoint of [component b]");
	check_one(TWO "[check c]\ncomponent = b, a, a\ncommand = x\n", 6, "names a twice");
	struct config_problems problems = fail(TWO AN_ENDPOINT("x", "a") AN_ENDPOINT(
		"z", "b") "[check c]\ncomponent = b, a\nendpoints = z, w, v\ncommand = x\n");
	cr_expect_eq(problems.count, 2);
	check_problem(&problems, 1, "a.ini", 19, "none of its components has [endpoint v]");
	config_problems_finish(&problems);
	config_unref(load(TWO AN_ENDPOINT("x", "a") AN_ENDPOINT("y", "a") AN_ENDPOINT(
		"z", "b") "[check c]\ncomponent = a, b\nendpoints = z, y\ncommand = x\n"));
}

Test(config_rules, a_shell_has_no_variable_twice)
{
	static const char *const own[] = { "BERTH_HOSTNAME", "A", "BERTH_IP_lo" };
	struct config *config = load(COMPONENT CHECK
		"shell = yes\ncommand = x\nenv.BERTH_HOSTNAME = mine\nenv.A = mine\n"
		"env.BERTH_IP_lo = mine\n");
	const struct config_check *check = &config->checks[0];
	for (size_t i = 0; i < 3; i++) {
		size_t count = 0;
		for (size_t j = 0; j < check->environment_count; j++) {
			count += strcmp(check->environment[j].name, own[i]) == 0;
		}
		cr_expect_eq(count, 1, "%s", own[i]);
		cr_expect_str_eq(check->environment[i].value, "mine");
	}
	config_unref(config);
}
