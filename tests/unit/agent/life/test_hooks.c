/* Requests of the API to the agent as a whole. */
#include "lib/base/array.h"
#include "tests/unit/agent/life/life_stage.h"

#define DAMPED                                                                                     \
	LIFE_COMPONENT("a") LIFE_COMPONENT("b") "[registry far]\nurl = dir:/nonexistent/far\n"

LIFE(hooks, the_status_shows_the_whole_agent, DAMPED)
{
	char text[SCRATCH_PATH + 64];
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	cr_expect_str_eq(life_shows(life, "version"), "\"" BERTH_VERSION "\"");
	snprintf(text, sizeof(text), "%d", (int)life->pid);
	cr_expect_str_eq(life_shows(life, "pid"), text);
	cr_expect_str_eq(life_shows(life, "phase"), "\"running\"");
	snprintf(text, sizeof(text), "\"%s\"", life_path(life, "berth.ini"));
	cr_expect_str_eq(life_shows(life, "config"), text);
	snprintf(text, sizeof(text), "\"dir:%s\"", life_path(life, "registry"));
	cr_expect_str_eq(life_shows(life, "registry.url"), text);
	cr_expect_str_eq(life_shows(life, "registry.state"), "\"connected\"");
	cr_expect_str_eq(life_shows(life, "registry.error"), "\"\"");
	cr_expect_str_neq(life_shows(life, "registry.session"), "absent");
	cr_expect_str_neq(life_shows(life, "registry.since"), "absent");
	cr_expect_str_neq(life_shows(life, "registry.session_timeout_ms"), "absent");
	cr_expect_str_eq(life_shows(life, "registries.0.name"), "\"far\"");
	cr_expect_str_eq(life_shows(life, "components.0.name"), "\"a\"");
	cr_expect_str_eq(life_shows(life, "components.1.name"), "\"b\"");
	cr_expect_str_eq(life_shows(life, "components.2"), "absent");
	cr_expect_str_eq(life_shows(life, "components.0.drain"), "absent");
	cr_expect_str_eq(life_shows(life, "outputs"), "[]");
	cr_expect_str_eq(life_shows(life, "imports"), "[]");
	cr_expect_str_eq(life_shows(life, "zones"), "[]");
	cr_expect_str_eq(life_shows(life, "xds"), "null");
	cr_expect_str_eq(life_shows(life, "drain.active"), "false");
	cr_expect_str_eq(life_shows(life, "main_process"), "null");
	cr_expect_str_eq(life_shows(life, "reload_problems"), "null");
	double uptime = atof(life_shows(life, "uptime"));
	double started = atof(life_shows(life, "started"));
	cr_expect(uptime >= 0 && uptime < 1e6, "%f", uptime);
	cr_expect(started > 1e9, "%f", started);
	life_pass(life, 1000);
	double later = atof(life_shows(life, "uptime"));
	cr_expect(later - uptime > 999 && later - uptime < 1e6, "%f", later - uptime);
}

LIFE(hooks, the_agent_is_drained_and_serves_again, DAMPED)
{
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	json_decref(life_ask(life, "POST", "/v1/agent/drain", "{\"reason\": \"disk\"}"));
	cr_expect_str_eq(life->problem, "");
	cr_expect_str_eq(life_shows(life, "drain.active"), "true");
	cr_expect_str_eq(life_shows(life, "drain.reason"), "\"disk\"");
	cr_expect(life_has(life, "state/drain"), "it was answered when it was saved");
	LIFE_UNTIL(strcmp(life_shows(life, "drain.done"), "true") == 0);
	cr_expect_not(life_is_ready(life));
	json_decref(life_ask(life, "DELETE", "/v1/agent/drain", NULL));
	cr_expect_str_eq(life->problem, "");
	cr_expect_str_eq(life_shows(life, "drain.active"), "false");
	LIFE_UNTIL(life_is_ready(life));
}

LIFE(hooks, a_component_is_drained_by_its_name, DAMPED)
{
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	json_decref(life_ask(life, "POST", "/v1/agent/components/b/drain",
		"{\"reason\": \"slow\", \"for\": 3600}"));
	cr_expect_str_eq(life->problem, "");
	cr_expect_str_eq(life_shows(life, "components.0.drain"), "absent");
	cr_expect_null(strstr(life_shows(life, "components.0"), "\"drain\""));
	cr_expect_str_eq(life_shows(life, "components.1.drain.reason"), "\"slow\"");
	cr_expect_str_neq(life_shows(life, "components.1.drain.until"), "null");
	json_decref(life_ask(life, "DELETE", "/v1/agent/components/b/drain", NULL));
	cr_expect_str_eq(life->problem, "");
	cr_expect_str_eq(life_shows(life, "components.1.drain"), "absent");
	json_decref(life_ask(life, "POST", "/v1/agent/components/b/undamp", NULL));
	cr_expect_str_eq(life->problem, "");
	static const char *const targets[] = { "/v1/agent/components/c/drain",
		"/v1/agent/components/c/undamp" };
	for (size_t i = 0; i < 2; i++) {
		json_decref(life_ask(life, "POST", targets[i], i == 0 ? "{}" : NULL));
		cr_expect_not_null(
			strstr(life->problem, "no component is named \"c\""), "%s", life->problem);
	}
}

LIFE(hooks, damping_ends_on_request,
	"[component a]\npath = /app/a\ndamping = yes\ndamping_suppress = 1.5\n"
	"[check c]\ncomponent = a\ntype = ttl\ninterval = 1h\nrise = 1\nfall = 1\n")
{
	static const char *const states[] = { "passing", "failing", "passing", "failing", "passing",
		"failing", "passing" };
	life_start(life, NULL);
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		char body[64];
		snprintf(body, sizeof(body), "{\"status\": \"%s\"}", states[i]);
		json_decref(life_ask(life, "PUT", "/v1/agent/checks/c", body));
		cr_expect_str_eq(life->problem, "");
	}
	cr_expect_str_eq(life_shows(life, "components.0.damped"), "true");
	json_decref(life_ask(life, "POST", "/v1/agent/components/a/undamp", NULL));
	cr_expect_str_eq(life_shows(life, "components.0.damped"), "false");
}

LIFE(hooks, checks_are_found_and_metrics_brought_up_to_date,
	LIFE_COMPONENT("a") "[check c]\ncommand = /bin/true\n")
{
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	json_t *checks = life_ask(life, "GET", "/v1/agent/checks", NULL);
	cr_assert_eq(json_array_size(checks), 1);
	cr_expect_str_eq(
		json_string_value(json_object_get(json_array_get(checks, 0), "name")), "c");
	json_decref(checks);
	char *text = life_metrics(life);
	cr_expect_not_null(strstr(text, "berth_check_up{check=\"c\"} 1\n"));
	free(text);
	json_decref(life_ask(life, "GET", "/v1/bridge", NULL));
	cr_expect_not_null(strstr(life->problem, "PathNotFound"), "%s", life->problem);
}

LIFE(hooks, readiness_names_what_is_missing,
	LIFE_COMPONENT("a") "[check c]\ncommand = /bin/false\n")
{
	life_start(life, NULL);
	cr_expect_not(life_is_ready(life));
	cr_expect_not_null(strstr(life->problem, "component a"), "%s", life->problem);
}

LIFE(hooks, a_dynamic_endpoint_is_supplied_to_its_component,
	LIFE_COMPONENT("a") "[endpoint e]\ncomponent = a\napi = x\nprotocol = tcp\n"
			    "address_type = host/port\ndynamic = yes\n")
{
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	json_decref(
		life_ask(life, "PUT", "/v1/agent/endpoints/e", "{\"addresses\": [\"h1:4711\"]}"));
	cr_expect_str_eq(life->problem, "");
	cr_expect_not_null(strstr(life_shows(life, "components.0.addresses"), "h1:4711"));
	json_decref(
		life_ask(life, "PUT", "/v1/agent/endpoints/f", "{\"addresses\": [\"h1:4711\"]}"));
	cr_expect_str_neq(life->problem, "");
}

LIFE(hooks, a_main_process_that_waits_for_its_start_does_not_run, "restart = always\n")
{
	char *const main_process[] = { "--", "sleep", "1000", NULL };
	life_start(life, main_process);
	LIFE_UNTIL(strcmp(life_shows(life, "main_process.running"), "true") == 0);
	life_stand();
	cr_assert_eq(kill((pid_t)atoi(life_shows(life, "main_process.pid")), SIGKILL), 0);
	LIFE_UNTIL(strcmp(life_shows(life, "main_process.running"), "false") == 0);
	cr_expect_str_eq(life_shows(life, "main_process.pid"), "0");
	(void)life_stop(life);
}
