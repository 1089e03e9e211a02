/* Results of the agent's checks in history, metrics and components. */
#include "tests/unit/agent/registration/opened_stage.h"

#define QUICK "[registry]\nupdate_interval = 0s\n"
#define TWO COMPONENT("a") COMPONENT("b")
#define ALIVE "[check alive]\ncomponent = a, b\ntype = ttl\ninterval = 1h\nfall = 1\n"

static struct check *check_of(struct opened *stage, const char *name)
{
	struct check *check = check_set_find(stage->agent->checks, name);
	cr_assert_not_null(check, "%s", name);
	return check;
}

static void tell(struct opened *stage, enum check_verdict verdict, const char *output)
{
	struct err err = ERR_INIT;
	cr_assert_eq(
		check_report(check_of(stage, "alive"), verdict, output, &err), 0, "%s", err.msg);
}

/* The last entry of the history with this subject; borrowed from it. */
static const char *last_of(struct opened *stage, const char *subject, const char *member)
{
	static char text[300];
	json_t *history = history_json(stage->agent->history, true);
	size_t index;
	json_t *entry;
	text[0] = '\0';
	json_array_foreach (history, index, entry) {
		const char *value = json_string_value(json_object_get(entry, member));
		if (strcmp(json_string_value(json_object_get(entry, "subject")), subject) == 0) {
			snprintf(text, sizeof(text), "%s", value ? value : "");
		}
	}
	json_decref(history);
	return text;
}

static size_t entries(const struct opened *stage)
{
	json_t *history = history_json(stage->agent->history, true);
	size_t count = json_array_size(history);
	json_decref(history);
	return count;
}

OPENED(checks, a_result_is_measured, QUICK TWO ALIVE)
{
	const struct metrics *metrics = stage->agent->metrics;
	tell(stage, CHECK_PASSING, "fine");
	char line[100];
	snprintf(line, sizeof(line), "berth_check_runs_total{check=\"alive\",result=\"%s\"} 1",
		check_verdict_name(CHECK_PASSING));
	cr_expect(measures(metrics, line));
	cr_expect(measures(metrics, "berth_check_up{check=\"alive\"} 1"));
	cr_expect(measures(metrics, "berth_check_warning{check=\"alive\"} 0"));
	cr_expect_not(measures(metrics, "berth_check_duration_seconds_count{check=\"alive\"} 1"),
		"a report takes no time");
	tell(stage, CHECK_WARNING, "so so");
	cr_expect(measures(metrics, "berth_check_up{check=\"alive\"} 1"));
	cr_expect(measures(metrics, "berth_check_warning{check=\"alive\"} 1"));
	tell(stage, CHECK_FAILING, "bad");
	cr_expect(measures(metrics, "berth_check_up{check=\"alive\"} 0"));
	cr_expect(measures(metrics, "berth_check_warning{check=\"alive\"} 0"));
}

OPENED(checks, a_run_takes_its_time,
	QUICK TWO "[check web]\ncomponent = a\ntype = http\ntarget = http://unix:/none/none:/\n"
		  "interval = 1h\n[check port]\ncomponent = b\ntype = tcp\n"
		  "target = unix:/none/none\ninterval = 1h\n")
{
	const struct agent *agent = stage->agent;
	RUN_UNTIL(agent->loop,
		check_last(check_of(stage, "web")) && check_last(check_of(stage, "port")));
	cr_expect(measures(agent->metrics, "berth_check_duration_seconds_count{check=\"web\"} 1"));
	cr_expect(measures(agent->metrics, "berth_check_duration_seconds_count{check=\"port\"} 1"));
	cr_expect(measures(agent->metrics, "berth_check_up{check=\"web\"} 0"));
}

OPENED(checks, a_change_is_in_the_history, QUICK TWO ALIVE)
{
	tell(stage, CHECK_PASSING, "first\nfine");
	cr_expect_str_eq(last_of(stage, "check alive", "from"), "pending");
	cr_expect_str_eq(last_of(stage, "check alive", "to"), "up");
	cr_expect_str_eq(last_of(stage, "check alive", "output"), "fine");
	cr_expect_str_eq(last_of(stage, "check alive", "component"), "a b");
	size_t count = entries(stage);
	tell(stage, CHECK_PASSING, "fine");
	cr_expect_eq(entries(stage), count, "nothing has changed");
	tell(stage, CHECK_FAILING, "bad");
	cr_expect_str_eq(last_of(stage, "check alive", "to"), "down");
	cr_expect_str_eq(last_of(stage, "check alive", "output"), "bad");
}

OPENED(checks, another_reason_to_fail_is_not_in_the_history,
	QUICK TWO "[check alive]\ncomponent = a, b\ntype = ttl\ninterval = 1h\nfall = 5\n")
{
	tell(stage, CHECK_FAILING, "bad");
	cr_expect_str_eq(last_of(stage, "check alive", "to"), "failing");
	json_t *before = history_json(stage->agent->history, true);
	tell(stage, CHECK_TIMED_OUT, "worse");
	json_t *after = history_json(stage->agent->history, true);
	const json_t *last = json_array_get(after, json_array_size(after) - 1);
	cr_expect_eq(json_array_size(after), json_array_size(before));
	cr_expect_null(json_object_get(last, "count"));
	cr_expect_str_eq(last_of(stage, "check alive", "output"), "bad");
	json_decref(before);
	json_decref(after);
}

OPENED(checks, each_component_follows_its_checks, QUICK TWO ALIVE)
{
	const struct agent *agent = stage->agent;
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_CONNECTED);
	run_a_while(stage);
	cr_expect_not(other_sees(stage, "/app/a"));
	tell(stage, CHECK_PASSING, "");
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/a"));
	cr_expect(other_sees(stage, "/app/b"));
	tell(stage, CHECK_FAILING, "");
	RUN_UNTIL(agent->loop, !other_sees(stage, "/app/a") && !other_sees(stage, "/app/b"));
}

OPENED(checks, clients_hear_of_each_result, QUICK TWO ALIVE)
{
	struct agent *agent = stage->agent;
	tell(stage, CHECK_PASSING, "");
	run_to_records(stage);
	run_a_while(stage);
	seams.told[0] = '\0';
	tell(stage, CHECK_PASSING, "");
	cr_expect(was_told("api changed; "));
	agent->api = NULL;
	tell(stage, CHECK_PASSING, "");
	agent->api = NEIGHBOUR;
}

OPENED(checks, a_successor_knows_their_states, QUICK TWO ALIVE)
{
	struct agent *agent = stage->agent;
	tell(stage, CHECK_PASSING, "");
	json_t *saved = agent_checks_save(agent);
	cr_assert_not_null(json_object_get(saved, "alive"));
	agent_components_destroy(agent);
	agent_checks_destroy(agent);
	cr_expect_null(agent->checks);
	agent_checks_create(agent, saved);
	cr_expect_eq(check_get_state(check_of(stage, "alive")), CHECK_STATE_UP);
	json_decref(saved);
}
