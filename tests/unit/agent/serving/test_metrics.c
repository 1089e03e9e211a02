/* The metrics that are brought up to date for each scrape, and dropped with their subject. */

#include "lib/base/array.h"
#include "tests/unit/agent/serving/serving_stage.h"

#define COMPONENT(name) "[component " name "]\npath = /" name "\n"
#define CHECK(name, component)                                                                     \
	"[check " name "]\ncomponent = " component "\ntype = ttl\ninterval = 60s\n"
#define DIALECT(name, component)                                                                   \
	"[endpoint e" name "]\ncomponent = " component                                             \
	"\napi = a\nprotocol = http\naddress_type = host/port\naddress = 10.0.0.1:80\n"            \
	"[dialect " name "]\ncomponent = " component "\ntype = serverset\npath = /aurora/" name    \
	"\nendpoint = e" name "\n"

static void run_to_registered(struct serving *serving)
{
	struct err why = ERR_INIT;
	RUN_UNTIL(serving->agent.loop, agent_components_ready(&serving->agent, false, &why));
}

/* ---- the agent as a whole ---- */

SERVED(metrics_of_agent, the_connection_is_a_gauge_and_its_losses_are_counted_from_0, "")
{
	cr_expect(has_metric(serving, "berth_registry_connected 1"));
	cr_expect(has_metric(serving, "berth_registry_session_expirations_total 0"));
	cr_expect(has_metric(serving, "berth_main_process_restarts_total 0"));
	change_registry(serving, REGISTRY_AWAY);
	cr_expect(has_metric(serving, "berth_registry_connected 0"));
}

SERVED(metrics_of_agent, the_last_reload_is_that_of_the_start_until_there_is_another, "")
{
	serving->agent.started = 1000;
	cr_expect(has_metric(serving, "berth_config_last_reload_successful 1"));
	cr_expect(has_metric(serving, "berth_config_last_reload_success_timestamp_seconds 1000"));
	serving->agent.reloaded = 2000;
	serving->agent.reload_problems = json_array();
	cr_expect(has_metric(serving, "berth_config_last_reload_successful 0"));
	cr_expect(has_metric(serving, "berth_config_last_reload_success_timestamp_seconds 2000"));
	json_decref(serving->agent.reload_problems);
	serving->agent.reload_problems = NULL;
}

SERVED(metrics_of_agent, all_that_is_served_has_its_metrics, "[registry east]\nurl = dir:@/east\n")
{
	agent_metrics_update(&serving->agent);
	cr_expect(has_series(serving, "berth_registry_connected{registry=\"east\"}"));
	cr_expect(has_series(serving, "berth_dns_queries_total{"));
	cr_expect(has_series(serving, "berth_xds_running "));
	cr_expect_not(has_series(serving, "berth_bridge_containers "));
}

PREPARED(metrics_of_agent, a_host_has_those_of_its_containers, "[bridge]\ncontainers = @/all\n")
{
	cr_assert_eq(mkdir(in(serving, "all"), 0755), 0);
	serve(serving);
	cr_expect(has_metric(serving, "berth_bridge_containers 0"));
}

/* ---- components ---- */

SERVED(metrics_of_components, a_component_has_its_state, COMPONENT("a") COMPONENT("b"))
{
	run_to_registered(serving);
	cr_expect(has_metric(serving, "berth_registered{component=\"a\"} 1"));
	cr_expect(has_metric(serving, "berth_registered{component=\"b\"} 1"));
	cr_expect(has_metric(serving, "berth_damped{component=\"b\"} 0"));
	cr_expect(has_metric(serving, "berth_penalty{component=\"b\"} 0"));
	cr_expect(has_metric(serving, "berth_draining{component=\"b\"} 0"));
}

PREPARED(metrics_of_components, one_that_has_not_been_registered_yet_has_it_too, COMPONENT("a"))
{
	serve(serving);
	cr_expect(has_metric(serving, "berth_registered{component=\"a\"} 0"));
}

SERVED(metrics_of_components, each_transition_is_counted_from_0, COMPONENT("a"))
{
	static const char *const states[] = { "waiting", "writing", "registered", "outdated",
		"withdrawing", "withdrawn", "conflict", "failed" };
	cr_expect_eq(ARRAY_LEN(states), ANNOUNCE_STATE_COUNT);
	agent_metrics_update(&serving->agent);
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		char begin[128];
		text_printf(begin, sizeof(begin),
			"berth_transitions_total{component=\"a\",to=\"%s\"}", states[i]);
		cr_expect(has_series(serving, begin), "%s", begin);
	}
	cr_expect(
		has_metric(serving, "berth_transitions_total{component=\"a\",to=\"conflict\"} 0"));
	cr_expect_eq(count_series(serving, "berth_transitions_total{component=\"a\""),
		ANNOUNCE_STATE_COUNT);
}

SERVED(metrics_of_components, a_drain_of_one_is_its_own, COMPONENT("a") COMPONENT("b"))
{
	run_to_registered(serving);
	agent_drain_begin(
		&serving->agent, agent_components_find(&serving->agent, "a"), "too slow", 0);
	cr_expect(has_metric(serving, "berth_draining{component=\"a\"} 1"));
	cr_expect(has_metric(serving, "berth_draining{component=\"b\"} 0"));
	RUN_UNTIL(serving->agent.loop,
		!component_registered(agent_components_find(&serving->agent, "a")));
	cr_expect(has_metric(serving, "berth_registered{component=\"a\"} 0"));
	agent_drain_end(&serving->agent, agent_components_find(&serving->agent, "a"));
	timer_stop(&serving->agent.drain_save_timer);
}

SERVED(metrics_of_components, a_drain_of_the_agent_is_that_of_all, COMPONENT("a") COMPONENT("b"))
{
	agent_drain_begin(&serving->agent, NULL, "a new kernel", 0);
	cr_expect(has_metric(serving, "berth_draining{component=\"a\"} 1"));
	cr_expect(has_metric(serving, "berth_draining{component=\"b\"} 1"));
	agent_drain_end(&serving->agent, NULL);
	timer_stop(&serving->agent.drain_save_timer);
}

SERVED(metrics_of_components, each_dialect_of_each_has_a_gauge,
	COMPONENT("a") COMPONENT("b") DIALECT("x", "a") DIALECT("y", "b") DIALECT("z", "b"))
{
	put(serving, "//aurora", "");
	put(serving, "//aurora/x", "");
	put(serving, "//aurora/y", "");
	put(serving, "//aurora/z", "");
	cr_expect(has_metric(serving, "berth_dialect_registered{dialect=\"z\"} 0"));
	run_to_registered(serving);
	RUN_UNTIL(serving->agent.loop,
		has_metric(serving, "berth_dialect_registered{dialect=\"x\"} 1") &&
			has_metric(serving, "berth_dialect_registered{dialect=\"y\"} 1") &&
			has_metric(serving, "berth_dialect_registered{dialect=\"z\"} 1"));
}

/* ---- checks ---- */

SERVED(metrics_of_checks, a_check_has_its_state_and_results_from_0,
	COMPONENT("a") CHECK("alive", "a") CHECK("full", "a"))
{
	struct err err = ERR_INIT;
	cr_expect(has_metric(serving, "berth_check_up{check=\"alive\"} 0"));
	cr_expect(has_metric(serving, "berth_check_warning{check=\"full\"} 0"));
	for (int verdict = 0; verdict < CHECK_VERDICT_COUNT; verdict++) {
		char line[128];
		text_printf(line, sizeof(line),
			"berth_check_runs_total{check=\"full\",result=\"%s\"} 0",
			check_verdict_name((enum check_verdict)verdict));
		cr_expect(has_metric(serving, line), "%s", line);
	}
	struct check *full = check_set_find(serving->agent.checks, "full");
	cr_assert_eq(check_report(full, CHECK_WARNING, "nearly", &err), 0, "%s", err.msg);
	go_on(serving);
	cr_expect(has_metric(serving, "berth_check_up{check=\"full\"} 1"));
	cr_expect(has_metric(serving, "berth_check_warning{check=\"full\"} 1"));
	cr_expect(has_metric(serving, "berth_check_up{check=\"alive\"} 0"));
}

/* ---- what is configured no more ---- */

SERVED(metrics_of_removed, they_go_with_their_subjects,
	COMPONENT("a") COMPONENT("b") CHECK("alive", "a") CHECK("full", "b") DIALECT("w", "a")
		DIALECT("x", "a") DIALECT("y", "b"))
{
	static const char *const families[] = { "berth_registered", "berth_transitions_total",
		"berth_damped", "berth_penalty", "berth_draining" };
	static const char *const of_checks[] = { "berth_check_up", "berth_check_warning",
		"berth_check_runs_total", "berth_check_duration_seconds_count" };
	char begin[128];
	agent_metrics_update(&serving->agent);
	metrics_observe(serving->agent.metrics, METRIC_CHECK_DURATION, "alive", 1);
	metrics_observe(serving->agent.metrics, METRIC_CHECK_DURATION, "full", 1);
	agent_metrics_forget_removed(&serving->agent);
	for (int round = 0; round < 2; round++) {
		bool is_there = round == 0;
		for (size_t i = 0; i < ARRAY_LEN(families); i++) {
			text_printf(begin, sizeof(begin), "%s{component=\"a\"", families[i]);
			cr_expect(has_series(serving, begin), "%s", begin);
			text_printf(begin, sizeof(begin), "%s{component=\"b\"", families[i]);
			cr_expect_eq(has_series(serving, begin), is_there, "%s", begin);
		}
		for (size_t i = 0; i < ARRAY_LEN(of_checks); i++) {
			text_printf(begin, sizeof(begin), "%s{check=\"alive\"", of_checks[i]);
			cr_expect(has_series(serving, begin), "%s", begin);
			text_printf(begin, sizeof(begin), "%s{check=\"full\"", of_checks[i]);
			cr_expect_eq(has_series(serving, begin), is_there, "%s", begin);
		}
		cr_expect(has_series(serving, "berth_dialect_registered{dialect=\"x\"}"));
		cr_expect_eq(
			has_series(serving, "berth_dialect_registered{dialect=\"y\"}"), is_there);
		cr_expect(has_series(serving, "berth_dialect_registered{dialect=\"w\"}"));
		reload(serving,
			COMPONENT("a") CHECK("alive", "a") DIALECT("w", "a") DIALECT("x", "a"));
	}
}
