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
