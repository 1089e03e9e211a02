/* Requests that change something: their bodies, what the agent is asked to do, and who may. */
#include <grp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lib/base/array.h"
#include "tests/support/rights.h"
#include "tests/unit/agent/api/api_stage.h"

enum { NOBODY = 65534, STRANGER = 12345, ADMINS = 777, FIRST_GROUP = 99 };

#define IN_WEB "component = web\n"
#define SUPPLIED "protocol = tcp\naddress_type = host/port\ndynamic = yes\n"
#define FIXED "protocol = http\naddress_type = host/port\naddress = 10.9.8.7:80\n"
#define HELD "hold = connection\n"
#define FOR_NOBODY "writer = user:nobody\n"
#define WEB                                                                                        \
	"[component web]\npath = /web\n"                                                           \
	"[endpoint fixed]\napi = a\n" IN_WEB FIXED                                                 \
	"[endpoint more]\napi = b\n" FOR_NOBODY IN_WEB SUPPLIED HELD                               \
	"[endpoint free]\napi = c\nwriter = group:nogroup\n" IN_WEB SUPPLIED                       \
	"[component mail]\npath = /mail\n"                                                         \
	"[endpoint smtp]\napi = d\ncomponent = mail\n" SUPPLIED HELD
#define ALIVE "[check alive]\ntype = ttl\ninterval = 1h\n" FOR_NOBODY IN_WEB

static struct config *config;
static struct check_scheduler *scheduler;
static int listener;
static char port_check[256];

/* ---- an agent with a component and its checks ---- */

static void on_transition(void *context, const struct transition *transition)
{
	(void)context;
	(void)transition;
}

static void on_announced(void *context, struct component *component)
{
	(void)context;
	(void)component;
}

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	(void)result;
}

static void on_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	(void)context;
	(void)check;
	(void)from;
	(void)to;
	(void)why;
}

static struct config *load(const char *text)
{
	char path[SCRATCH_PATH];
	struct config *loaded = NULL;
	struct config_problems problems;
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	int code = config_load(&loaded, path, &problems);
	config_problems_print(&problems, stderr);
	config_problems_finish(&problems);
	unlink(path);
	cr_assert_eq(code, 0);
	return loaded;
}

static void arrange(const char *checks)
{
	char text[2048];
	snprintf(text, sizeof(text), WEB "%s", checks);
	struct config *changed = load(text);
	check_set_arrange(stage.checks, changed, NULL);
	if (config) {
		config_unref(config);
	}
	config = changed;
}

static void begin(void)
{
	const struct check_callbacks callbacks = { on_result, on_change, NULL, NULL };
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(address);
	open_api();
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(listen(listener, 10), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	snprintf(port_check, sizeof(port_check),
		ALIVE "[check port]\n" IN_WEB "type = tcp\ninterval = 1h\n"
		      "target = 127.0.0.1:%d\n",
		ntohs(address.sin_port));
	scheduler = check_scheduler_create(http_stage.loop, 4);
	stage.checks = check_set_create(scheduler, &callbacks);
	arrange(port_check);
	const struct component_environment environment = {
		.loop = http_stage.loop,
		.registry = stage.registry,
		.lookups = stage.registry,
		.checks = stage.checks,
		.on_transition = on_transition,
		.on_announced = on_announced,
	};
	for (size_t i = 0; i < 2; i++) {
		stage.components[i] = component_create(&environment, &config->components[i], NULL);
	}
}

static void finish(void)
{
	struct check_set *checks = stage.checks;
	for (size_t i = 0; i < 2; i++) {
		struct component *component = stage.components[i];
		stage.components[i] = NULL;
		component_destroy(component);
	}
	stage.checks = NULL;
	check_set_destroy(checks);
	check_scheduler_destroy(scheduler);
	config_unref(config);
	close(listener);
	close_api();
}

TestSuite(api_order, .init = begin, .fini = finish);

static const char *order_as(int client, const char *method, const char *target, const char *body)
{
	char text[4096];
	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
		method, target, strlen(body), body);
	stage.acts[0] = '\0';
	http_stage_send(client, text);
	turn();
	return http_stage_receive(client);
}

static const char *order(const char *method, const char *target, const char *body)
{
	return order_as(stage.client, method, target, body);
}

static const char *post(const char *target, const char *body)
{
	return order("POST", target, body);
}

/* ---- drains, reloads, damping ---- */

Test(api_order, each_order_reaches_the_agent)
{
	static const struct {
		const char *method;
		const char *target;
		const char *body;
		const char *acts;
	} cases[] = {
		{ "POST", "/v1/agent/drain", "", "drain - '' 0; " },
		{ "POST", "/v1/agent/drain", "{\"reason\":\"move\",\"for\":\"5m\"}",
			"drain - 'move' 300000; " },
		{ "POST", "/v1/agent/drain", "{\"reason\":null,\"for\":null}", "drain - '' 0; " },
		{ "POST", "/v1/agent/drain", "{\"for\":2147483647}", "drain - '' 2147483647000; " },
		{ "POST", "/v1/agent/drain", "{\"for\":\"2147483647s\"}",
			"drain - '' 2147483647000; " },
		{ "POST", "/v1/agent/drain", "{\"for\":\"1ms\"}", "drain - '' 1; " },
		{ "DELETE", "/v1/agent/drain", "", "undrain - '' 0; " },
		{ "POST", "/v1/agent/components/web/drain", "{\"for\":1}", "drain web '' 1000; " },
		{ "DELETE", "/v1/agent/components/web/drain", "", "undrain web '' 0; " },
		{ "POST", "/v1/agent/components/web/undamp", "", "undamp web '' 0; " },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *answer = order(cases[i].method, cases[i].target, cases[i].body);
		cr_expect_str_eq(answer, "HTTP/1.1 204 No Content\r\n\r\n", "%s", cases[i].acts);
		cr_expect_str_eq(stage.acts, cases[i].acts);
		cr_expect_eq(stage.wanted_body, true);
	}
}

Test(api_order, a_body_of_a_wrong_shape_changes_nothing)
{
	static const struct {
		const char *body;
		const char *part;
	} cases[] = {
		{ "[]", "the body must be a JSON object\"" },
		{ "{", "the body must be a JSON object: " },
		{ "{\"for\":1,\"for\":2}", "duplicate" },
		{ "{\"reasons\":\"x\"}", "allowed are reason, for\"" },
		{ "{\"for\":1,\"reasons\":\"x\"}",
			"has a member \\\"reasons\\\": allowed are reason, for\"" },
		{ "{\"reason\":1}", "reason: must be a string" },
		{ "{\"for\":0}", "for: must be whole seconds" },
		{ "{\"for\":-1}", "for: must be whole seconds" },
		{ "{\"for\":1.5}", "for: must be whole seconds" },
		{ "{\"for\":\"soon\"}", "for: must be whole seconds" },
		{ "{\"for\":2147483648}", "for: must be whole seconds" },
		{ "{\"for\":\"2147483648s\"}", "for: must be whole seconds" },
		{ "{\"for\":18446744073709552}", "for: must be whole seconds" },
		{ "{\"for\":\"30000d\"}", "for: must be whole seconds" },
	};
	stage.saves = true; /* which concerns only what is carried out */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *answer = post("/v1/agent/drain", cases[i].body);
		cr_expect(has_status(answer, 400) && has(answer, cases[i].part), "%s: %s",
			cases[i].body, answer);
		cr_expect_str_empty(stage.acts);
	}
}

Test(api_order, a_drain_is_answered_when_a_restart_will_know_of_it)
{
	int others[2] = { http_stage_connect(), http_stage_connect() };
	stage.saves = true;
	cr_assert_str_eq(post("/v1/agent/drain", ""), "");
	cr_assert_str_eq(order_as(others[0], "DELETE", "/v1/agent/components/web/drain", ""), "");
	cr_assert_str_eq(order_as(others[1], "POST", "/v1/agent/drain", ""), "");
	cr_expect_eq(list_count(&stage.api->drains), 3);
	close(others[1]);
	turn();
	cr_expect_eq(list_count(&stage.api->drains), 2, "one has left");
	api_drain_saved(stage.api);
	cr_expect(has_status(more(stage.client), 204));
	cr_expect(has_status(more(others[0]), 204));
	close(others[0]);
	api_drain_saved(stage.api);
	cr_expect_str_eq(more(stage.client), "", "one answer");
}

Test(api_order, a_reload_says_what_is_wrong_or_what_would_change)
{
	const char *answer = post("/v1/agent/reload", "");
	cr_expect(has_status(answer, 200) && has(answer, "\"reloaded\":true"), "%s", answer);
	cr_expect(has(answer, "\"problems\":[]") && !has(answer, "changes"), "%s", answer);
	cr_expect_str_eq(stage.acts, "reload - '' 0; ");
	answer = post("/v1/agent/reload?dry_run=yes", "");
	cr_expect(has(answer, "\"reloaded\":false") && has(answer, "a change"), "%s", answer);
	cr_expect_str_eq(stage.acts, "reload - '' 0 dry; ");
	answer = post("/v1/agent/reload?dry_run=no", "");
	cr_expect(has_status(answer, 400) && has(answer, "dry_run: must be yes"), "%s", answer);
	cr_expect(has_status(post("/v1/agent/reload?dry_run=yesterday", ""), 400));
	cr_expect_str_empty(stage.acts);
	stage.problems = json_pack("[s]", "line 1");
	answer = post("/v1/agent/reload", "");
	cr_expect(has_status(answer, 422) && has(answer, "has 1 problem;"), "%s", answer);
	cr_expect(has(answer, "\"reloaded\":false") && has(answer, "line 1"), "%s", answer);
	json_array_append_new(stage.problems, json_string("line 2"));
	cr_expect(has(post("/v1/agent/reload", ""), "has 2 problems;"));
	cr_expect_eq(stage.problems->refcount, 1, "the answers keep nothing");
	json_decref(stage.problems);
}

/* ---- checks ---- */

Test(api_order, the_application_reports_its_check)
{
	static const char *const words[] = { "passing", "warning", "failing" };
	for (size_t i = 0; i < 3; i++) {
		char body[128];
		char part[64];
		char output[64];
		snprintf(output, sizeof(output), "\"output\":\"said %zu\"", i);
		snprintf(body, sizeof(body), "{\"status\":\"%s\",%s}", words[i], output);
		const char *answer = order("PUT", "/v1/agent/checks/alive", body);
		cr_expect(has_status(answer, 204), "%s", answer);
		answer = get(stage.client, "/v1/agent/checks", "");
		snprintf(part, sizeof(part), "\"verdict\":\"%s\"", words[i]);
		cr_expect(has(answer, part) && has(answer, output), "%s", answer);
	}
	cr_expect(has_status(
		order("PUT", "/v1/agent/checks/alive", "{\"status\":\"passing\"}"), 204));
	cr_expect(has(get(stage.client, "/v1/agent/checks", ""), "\"output\":\"\""));
}

static const char *answer_of_run(int client)
{
	const char *answer = "";
	for (int i = 0; i < 10000 && !*answer; i++) {
		usleep(1000);
		answer = more(client);
	}
	return answer;
}

Test(api_order, a_run_is_answered_at_its_end)
{
	const char *answer = post("/v1/agent/checks/port/run", "");
	answer = *answer ? answer : answer_of_run(stage.client);
	cr_expect(has_status(answer, 200) && has(answer, "\"name\":\"port\""), "%s", answer);
	cr_expect(has(answer, "\"verdict\":\"passing\""), "%s", answer);
	answer = post("/v1/agent/checks/alive/run", "");
	cr_expect(
		has_status(answer, 400) && has(answer, "its application reports it"), "%s", answer);
}

/* ---- dynamic endpoints ---- */

static bool is_supplied(const char *name)
{
	bool supplied = false;
	for (size_t i = 0; i < 2; i++) {
		json_t *json = component_json(stage.components[i]);
		const char *state = json_string_value(
			json_object_get(json_object_get(json, "endpoints"), name));
		supplied = supplied || (state && strcmp(state, "in") == 0);
		json_decref(json);
	}
	return supplied;
}

Test(api_order, a_supplier_holds_its_addresses_by_its_connection)
{
	static const char body[] = "{\"addresses\":[\"10.0.0.1:80\"]}";
	int other = http_stage_connect();
	cr_expect(has_status(order_as(other, "PUT", "/v1/agent/endpoints/more", body), 204));
	cr_expect(has_status(order_as(other, "PUT", "/v1/agent/endpoints/free", body), 204));
	cr_expect(has_status(order_as(other, "PUT", "/v1/agent/endpoints/smtp", body), 204));
	cr_expect(is_supplied("more") && is_supplied("free") && is_supplied("smtp"));
	close(other);
	turn();
	cr_assert_neq(http_stage.pinned, 0);
	api_on_pinned_closed(stage.api, http_stage.pinned);
	cr_expect(!is_supplied("more") && is_supplied("free"), "that one is not held");
	cr_expect_not(is_supplied("smtp"), "of whatever component");
	cr_expect(has_status(order("DELETE", "/v1/agent/endpoints/free", ""), 204));
	cr_expect_not(is_supplied("free"));
}

Test(api_order, without_hold_no_connection_is_remembered)
{
	int other = http_stage_connect();
	(void)order_as(other, "PUT", "/v1/agent/endpoints/free", "{\"addresses\":[\"a:1\"]}");
	close(other);
	turn();
	cr_expect_eq(http_stage.pinned, 0);
}

/* ---- who may ---- */

/* A client of another user, whose groups are these two, and another one that comes before them. */
static int connect_as(uid_t user, gid_t group, gid_t other_group)
{
	const gid_t groups[] = { FIRST_GROUP, other_group };
	char folder[sizeof(http_stage.path)];
	cr_assert_eq(setgroups(2, groups), 0);
	cr_assert_eq(setegid(group), 0);
	strcpy(folder, http_stage.path);
	*strrchr(folder, '/') = '\0';
	cr_assert_eq(chmod(folder, 0755), 0);
	cr_assert_eq(chmod(http_stage.path, 0666), 0);
	cr_assert_eq(seteuid(user), 0);
	int client = http_stage_knock();
	cr_assert_eq(seteuid(0), 0);
	cr_assert_eq(setegid(0), 0);
	cr_assert_eq(setgroups(0, NULL), 0);
	turn();
	return client;
}

Test(api_order, each_may_do_what_is_his)
{
	static const char passing[] = "{\"status\":\"passing\"}";
	static const char address[] = "{\"addresses\":[\"a:1\"]}";
	static const struct {
		uid_t user;
		gid_t group, other;
		bool drains, reports, supplies_more, supplies_free;
	} cases[] = {
		{ NOBODY, STRANGER, STRANGER, false, true, true, false },
		{ STRANGER, NOBODY, STRANGER, false, false, false, true },
		{ STRANGER, STRANGER, NOBODY, false, false, false, true },
		{ STRANGER, STRANGER, STRANGER, false, false, false, false },
		{ STRANGER, ADMINS, STRANGER, true, true, true, true },
		{ STRANGER, STRANGER, ADMINS, true, true, true, true },
	};
	rights_needed("users");
	const struct api_options options = { .version = "0", .admin_group_id = ADMINS };
	api_set_options(stage.api, &options);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		static const char *const for_admins[][2] = { { "POST", "/v1/agent/drain" },
			{ "DELETE", "/v1/agent/drain" }, { "POST", "/v1/agent/reload" },
			{ "POST", "/v1/agent/components/web/undamp" },
			{ "POST", "/v1/agent/components/web/drain" },
			{ "POST", "/v1/agent/checks/alive/run" }, { "GET", "/v1/bridge" } };
		int client = connect_as(cases[i].user, cases[i].group, cases[i].other);
		for (size_t j = 0; j < ARRAY_LEN(for_admins); j++) {
			const char *answer = order_as(
				client, for_admins[j][0], for_admins[j][1], "");
			cr_expect_eq(
				!has_status(answer, 403), cases[i].drains, "%zu: %s", i, answer);
			cr_expect_eq(*stage.acts != '\0', cases[i].drains && j < 5);
			cr_expect_eq(stage.wanted_body, cases[i].drains && j < 6);
		}
		const char *answer = order_as(client, "PUT", "/v1/agent/checks/alive", passing);
		cr_expect(has_status(answer, cases[i].reports ? 204 : 403), "%s", answer);
		cr_expect_eq(has(answer, "the check's writer"), !cases[i].reports);
		cr_expect_eq(stage.wanted_body, cases[i].reports);
		answer = order_as(client, "PUT", "/v1/agent/endpoints/more", address);
		cr_expect(has_status(answer, cases[i].supplies_more ? 204 : 403), "%s", answer);
		cr_expect_eq(has(answer, "the endpoint's writer"), !cases[i].supplies_more);
		cr_expect_eq(stage.wanted_body, cases[i].supplies_more);
		answer = order_as(client, "DELETE", "/v1/agent/endpoints/free", "");
		cr_expect(has_status(answer, cases[i].supplies_free ? 204 : 403), "%s", answer);
		close(client);
	}
}
