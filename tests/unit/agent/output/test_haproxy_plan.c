/* Which commands make HAProxy's servers those that are wanted. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/output/haproxy_plan.h"
#include "lib/base/array.h"

#define HEAD                                                                                       \
	"1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight "    \
	"srv_iweight srv_time_since_last_change srv_check_status srv_check_result "                \
	"srv_check_health srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id "         \
	"srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr "    \
	"srv_agent_port\n"
#define LINE(backend, name, host, admin, weight, port)                                             \
	"3 " backend " 1 " name " " host " 2 " admin " " weight " 1 12 6 3 4 6 0 0 0 - " port      \
	" - 0 0 - - 0\n"

struct exchange {
	char state[1600];
	char commands[700]; /* one a line, sorted as they are sent */
	size_t change_count;
};

/* Wanted: c1 127.0.0.1:8001 of weight 1, c2 [::1]:8002 of weight 5. */
static struct haproxy_servers make_wanted(void)
{
	const struct haproxy_server wanted[] = {
		{ .name = strdup("berth:c1"), .host = "127.0.0.1", .port = 8001, .weight = 1 },
		{ .name = strdup("berth:c2"), .host = "::1", .port = 8002, .weight = 5 },
	};
	struct haproxy_servers servers = { malloc(sizeof(wanted)), 2 };
	memcpy(servers.items, wanted, sizeof(wanted));
	return servers;
}

#define C1 LINE("web", "berth:c1", "127.0.0.1", "0", "1", "8001")
#define C2 LINE("web", "berth:c2", "::1", "0", "5", "8002")
#define ADD_C1                                                                                     \
	"add server web/berth:c1 127.0.0.1:8001 weight 1 check; enable health web/berth:c1; "      \
	"enable server web/berth:c1\n"
#define ADD_C2                                                                                     \
	"add server web/berth:c2 [::1]:8002 weight 5 check; enable health web/berth:c2; "          \
	"enable server web/berth:c2\n"

#define READY_C2 "set server web/berth:c2 state ready\n"
#define HOST_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

ParameterizedTestParameters(haproxy_plan, makes_the_servers_equal)
{
	static struct exchange all[] = {
		{ HEAD C1 C2 "\n", "", 0 },
		{ HEAD "\n", ADD_C1 ADD_C2, 2 },
		{ HEAD C2 "\n", ADD_C1, 1 },
		/* Those of other backends are not ours, nor are those that stay. */
		{ HEAD C1 C2 LINE("other", "berth:c3", "127.0.0.1", "0", "1", "1") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "static-backup", "127.0.0.1", "0", "1", "1") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "c3", "127.0.0.1", "1", "1", "1") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "berth:c3", "127.0.0.1", "0", "1", "1") "\n",
			"set server web/berth:c3 state maint\ndel server web/berth:c3\n", 1 },
		{ HEAD C1 C2 LINE("web", "berth:c3", "127.0.0.1", "1", "1", "1") "\n",
			"del server web/berth:c3\n", 0 },
		/* A backend is never without servers, and deletions come last. */
		{ HEAD C2 LINE("web", "berth:c3", "127.0.0.1", "0", "1", "1") "\n",
			ADD_C1 "set server web/berth:c3 state maint\n"
			       "del server web/berth:c3\n",
			2 },
		{ HEAD C2 LINE("web", "berth:c1", "127.0.0.9", "0", "1", "8001") "\n",
			"set server web/berth:c1 addr 127.0.0.1 port 8001\n", 1 },
		{ HEAD C2 LINE("web", "berth:c1", "127.0.0.1", "0", "7", "9") "\n",
			"set server web/berth:c1 addr 127.0.0.1 port 8001\n"
			"set server web/berth:c1 weight 1\n",
			2 },
		/* In maintenance for whatever reason; drained by hand (8) is left. */
		{ HEAD C1 LINE("web", "berth:c2", "::1", "5", "5", "8002") "\n", READY_C2, 1 },
		{ HEAD C1 LINE("web", "berth:c2", "::1", "8", "5", "8002") "\n", "", 0 },
		{ HEAD C1 LINE("web", "berth:c2", "::1", "16", "5", "8002") "\n", "", 0 },
		{ HEAD C1 LINE("web", "berth:c2", "::1", "1", "5", "8002") "\n", READY_C2, 1 },
		{ HEAD C1 LINE("web", "berth:c2", "::1", "2", "5", "8002") "\n", READY_C2, 1 },
		{ HEAD C1 LINE("web", "berth:c2", "::1", "4", "5", "8002") "\n", READY_C2, 1 },
		{ HEAD C1 LINE("web", "berth:c2", "::1", "32", "5", "8002") "\n", READY_C2, 1 },
		/* Only the port, only the weight. */
		{ HEAD C1 LINE("web", "berth:c2", "::1", "0", "5", "8003") "\n",
			"set server web/berth:c2 addr ::1 port 8002\n", 1 },
		{ HEAD C1 LINE("web", "berth:c2", "::1", "0", "6", "8002") "\n",
			"set server web/berth:c2 weight 5\n", 1 },
		/* Not servers: a number with something behind it, or too large; no host. */
		{ HEAD C1 C2 LINE("web", "berth:c3", "a", "x", "1", "1") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "berth:c3", "a", "1x", "1", "1") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "berth:c3", "a", "", "1", "1") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "berth:c3", "a", "0", "-1", "1") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "berth:c3", "a", "0", "1", "4294967296") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "berth:c3", "a", "0", "1", "99999999999999999999") "\n",
			"", 0 },
		{ HEAD C1 C2 LINE("web", "berth:c3", HOST_64, "1", "1", "1") "\n", "", 0 },
		{ HEAD C1 C2 LINE("web", "berth:c3", "a", "1", "1", "4294967295") "\n",
			"del server web/berth:c3\n", 0 },
		{ HEAD C1 C2 "3 web 1 berth:c3 a 2 1 1 1 12 6 3 4 6 0 0 0 -\n\n", "", 0 },
		{ HEAD C1 C2 "3 web 1 berth:c3 a 2 1 1 1 12 6 3 4 6 0 0 0 - 1\n\n",
			"del server web/berth:c3\n", 0 },
	};
	return cr_make_param_array(struct exchange, all, ARRAY_LEN(all));
}

ParameterizedTest(struct exchange *exchange, haproxy_plan, makes_the_servers_equal)
{
	struct haproxy_servers wanted = make_wanted();
	struct haproxy_plan plan;
	struct err err = ERR_INIT;
	cr_assert_eq(haproxy_plan_make(&plan, "web", &wanted, exchange->state, &err), 0);
	char found[2000] = "";
	for (size_t i = 0; i < plan.count; i++) {
		strcat(found, plan.commands[i]);
	}
	cr_expect_str_eq(found, exchange->commands);
	cr_expect_eq(plan.change_count, exchange->change_count);
	haproxy_plan_finish(&plan);
	haproxy_servers_finish(&wanted);
}

/* As 0.1.0 named it, without the prefix. */
Test(haproxy_plan, a_server_of_another_name_at_the_same_place_is_doubled)
{
	static const struct {
		const char *lines;
		const char *doubled;
	} states[] = {
		{ "", NULL },
		{ LINE("web", "c1", "127.0.0.1", "0", "7", "8001"), "c1" },
		{ LINE("web", "c2", "::1", "0", "1", "8002"), "c2" },
		{ LINE("web", "c1", "127.0.0.1", "0", "1", "8002"), NULL },
		{ LINE("web", "c1", "127.0.0.2", "0", "1", "8001"), NULL },
		{ LINE("web", "c3", "127.0.0.1", "0", "1", "8001"), NULL },
		{ LINE("other", "c1", "127.0.0.1", "0", "1", "8001"), NULL },
		{ LINE("web", "c2", "::1", "0", "1", "8002")
				LINE("web", "c1", "127.0.0.1", "0", "1", "8001"),
			"c2" },
	};
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		char state[2000];
		struct haproxy_servers wanted = make_wanted();
		struct haproxy_plan plan;
		struct err err = ERR_INIT;
		snprintf(state, sizeof(state), HEAD C1 C2 "%s\n", states[i].lines);
		cr_assert_eq(haproxy_plan_make(&plan, "web", &wanted, state, &err), 0);
		cr_expect_eq(plan.count, 0);
		cr_expect_str_eq(plan.doubled ? plan.doubled : "",
			states[i].doubled ? states[i].doubled : "");
		haproxy_plan_finish(&plan);
		haproxy_servers_finish(&wanted);
	}
}

Test(haproxy_plan, another_answer_is_an_error_with_its_words)
{
	static const char *const answers[] = { "", "Can't find backend.\n\n", "\n",
		"Permission denied\n\n" };
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		char state[100];
		snprintf(state, sizeof(state), "%s", answers[i]);
		struct haproxy_servers wanted = make_wanted();
		struct haproxy_plan plan;
		struct err err = ERR_INIT;
		cr_assert_eq(haproxy_plan_make(&plan, "web", &wanted, state, &err), BERTH_FAILED);
		cr_assert(i != 1 || strstr(err.msg, "Can't find backend."));
		haproxy_servers_finish(&wanted);
	}
}

Test(haproxy_plan, wants_literal_addresses_with_a_port_sorted_by_name)
{
	static const char *const records[][2] = {
		{ "/a/c-2", "8002\"}" },
		{ "/a/c1", "8001\"}" },
		{ "/a/none", "\"}" },
	};
	struct render_member members[3];
	struct record *kept[3];
	for (size_t i = 0; i < 3; i++) {
		char text[400];
		snprintf(text, sizeof(text),
			"{\"type\":\"JSONServiceRecord\",\"weight\":9,\"external\":[{\"api\":\"x\","
			"\"addressType\":\"host/port\",\"protocol\":\"http\",\"addresses\":["
			"{\"host\":\"10.0.0.1\",\"port\":\"%s,"
			"{\"host\":\"name\",\"port\":\"1\"}]}]}",
			records[i][1]);
		cr_assert_eq(record_decode(&kept[i], text, strlen(text), NULL), 0);
		members[i] = (struct render_member){ .path = records[i][0], .record = kept[i] };
	}
	const struct render_picture picture = { "/a", members, 3 };
	struct haproxy_servers servers;
	struct render_result result;
	haproxy_servers_read(&servers, &picture, &(struct render_filter){ .api = "" }, &result);
	cr_assert_eq(servers.count, 2);
	cr_assert_str_eq(servers.items[0].name, "berth:c-2");
	cr_assert_str_eq(servers.items[1].name, "berth:c1");
	cr_assert_eq(servers.items[1].port, 8001);
	cr_assert_eq(servers.items[1].weight, 9);
	cr_assert_str_eq(servers.items[1].host, "10.0.0.1");
	cr_assert_eq(result.items, 2);
	cr_assert_eq(result.left_out, 4);
	cr_assert_str_eq(result.why,
		"left out: /a/c-2 \"name:1\" is a name, and only addresses can be added to "
		"HAProxy; "
		"/a/c1 \"name:1\" is a name, and only addresses can be added to HAProxy; "
		"/a/none has no port; and 1 more",
		"%s", result.why);
	haproxy_servers_finish(&servers);
	for (size_t i = 0; i < 3; i++) {
		record_free(kept[i]);
	}
}

Test(haproxy_plan, farther_servers_are_backups_under_a_name_that_says_so)
{
	static const char text[] =
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"x\",\"addressType\":"
		"\"host/port\",\"protocol\":\"http\",\"addresses\":[{\"host\":\"10.0.0.1\","
		"\"port\":\"8001\"}]}]}";
	struct record *record = NULL;
	cr_assert_eq(record_decode(&record, text, strlen(text), NULL), 0);
	const struct render_member members[] = {
		{ .path = "/a/c1", .record = record, .tier = 2 },
		{ .path = "/net/b/a/c1", .record = record, .rank = 1, .tier = 4 },
	};
	const struct render_picture picture = { "/a", members, 2 };
	struct haproxy_servers servers;
	struct render_result result;
	struct haproxy_plan plan;
	struct err err = ERR_INIT;
	char state[] = HEAD "\n";
	haproxy_servers_read(&servers, &picture, &(struct render_filter){ .api = "" }, &result);
	cr_assert_eq(servers.count, 2);
	cr_expect_str_eq(servers.items[0].name, "berth:backup:.net.b.a.c1");
	cr_expect(servers.items[0].backup);
	cr_expect_str_eq(servers.items[1].name, "berth:c1");
	cr_expect(!servers.items[1].backup);
	cr_assert_eq(haproxy_plan_make(&plan, "web", &servers, state, &err), 0);
	cr_assert_eq(plan.count, 2);
	cr_expect_not_null(strstr(plan.commands[0], " weight 1 backup check;"));
	cr_expect_not_null(strstr(plan.commands[1], " weight 1 check;"));
	haproxy_plan_finish(&plan);
	haproxy_servers_finish(&servers);
	record_free(record);
}
