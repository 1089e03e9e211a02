/* Outputs of the agent: what history, metrics and the state directory have of them. */

#include "tests/unit/agent/serving/serving_stage.h"

#define OUTPUT(name, more)                                                                         \
	"[output " name "]\nfrom = /app\nformat = lines\npath = @/" name "\nquiet = 1ms\n" more
#define ON_CHANGE "on_change = /bin/sh -c 'echo ran >>@/runs'\n"

static void fill(struct serving *serving)
{
	put(serving, "/app", AT_HOST("10.0.0.1"));
}

static json_t *json_of(struct serving *serving, size_t index)
{
	json_t *list = agent_outputs_json(&serving->agent);
	json_t *json = json_incref(json_array_get(list, index));
	json_decref(list);
	return json;
}

/* A text in the object of the output; "" when it has none. Static. */
static const char *member_of(struct serving *serving, size_t index, const char *member)
{
	static char text[256];
	json_t *json = json_of(serving, index);
	const char *value = json_string_value(json_object_get(json, member));
	text_printf(text, sizeof(text), "%s", value ? value : "");
	json_decref(json);
	return text;
}

static int count_of(struct serving *serving, size_t index, const char *member)
{
	json_t *json = json_of(serving, index);
	int count = (int)json_integer_value(json_object_get(json, member));
	json_decref(json);
	return count;
}

static bool is_in_state(struct serving *serving, size_t index, const char *state)
{
	return strcmp(member_of(serving, index, "state"), state) == 0;
}

#define RUN_TO(index, state) RUN_UNTIL(serving->agent.loop, is_in_state(serving, index, state))

/* ---- what is reported ---- */

SERVED(outputs, the_file_follows_and_the_history_has_the_lasting_states, OUTPUT("a", ""))
{
	cr_expect_eq(serving->agent.output_count, 1);
	cr_expect(is_in_state(serving, 0, "waiting"));
	fill(serving);
	RUN_TO(0, "current");
	cr_expect(has(text_in(serving, "a"), "10.0.0.1:80\n"));
	cr_expect_str_eq(history_of(serving, "output a"), "waiting>current() ");
	cr_expect_eq(logged(serving, "output a"), 1);
}

SERVED(outputs, a_change_that_is_delivered_is_no_news_for_the_history, OUTPUT("a", ""))
{
	fill(serving);
	RUN_TO(0, "current");
	int wakes = serving->wakes;
	put(serving, "/app/other", AT_HOST("10.0.0.2"));
	RUN_UNTIL(serving->agent.loop, count_of(serving, 0, "writes") == 2);
	RUN_TO(0, "current");
	RUN_UNTIL(serving->agent.loop, serving->wakes > wakes);
	cr_expect_str_eq(history_of(serving, "output a"), "waiting>current() ");
}

/* ---- on_change over a restart ---- */

SERVED(outputs, on_change_does_not_run_again_after_a_restart, OUTPUT("a", ON_CHANGE))
{
	fill(serving);
	RUN_TO(0, "current");
	cr_expect_str_eq(text_in(serving, "runs"), "ran\n");
	serve_again(serving);
	RUN_TO(0, "current");
	cr_expect_str_eq(text_in(serving, "runs"), "ran\n");
	cr_expect_eq(logged(serving, "on_change runs once more"), 0);
}

SERVED(outputs, what_it_ran_for_is_saved_at_once, OUTPUT("a", ON_CHANGE) OUTPUT("b", ""))
{
	fill(serving);
	RUN_UNTIL(serving->agent.loop, has(text_in(serving, "state/outputs"), "\"a\":"));
	RUN_TO(0, "current");
	cr_expect(has(text_in(serving, "state/outputs"), "\"b\":"));
	cr_expect_eq(logged(serving, "on_change runs once more"), 0);
}

/* ---- a reload ---- */

SERVED(outputs, a_reload_leaves_an_equal_output_alone, OUTPUT("a", ON_CHANGE) OUTPUT("b", ""))
{
	fill(serving);
	RUN_TO(0, "current");
	RUN_TO(1, "current");
	reload(serving, OUTPUT("c", "") OUTPUT("a", ON_CHANGE));
	cr_assert_eq(serving->agent.output_count, 2);
	cr_expect_str_eq(member_of(serving, 0, "name"), "c");
	cr_expect_str_eq(member_of(serving, 1, "name"), "a");
	cr_expect(is_in_state(serving, 1, "current"), "it has not begun anew");
	cr_expect_eq(count_of(serving, 1, "runs"), 1);
	RUN_TO(0, "current");
	cr_expect(has(text_in(serving, "c"), "10.0.0.1:80\n"));
	put(serving, "/app/other", AT_HOST("10.0.0.2"));
	RUN_UNTIL(serving->agent.loop, count_of(serving, 1, "runs") == 2);
	cr_expect_not(has(text_in(serving, "b"), "10.0.0.2"), "nobody writes it any more");
}

SERVED(outputs, one_with_other_options_remembers_what_was_delivered, OUTPUT("a", ON_CHANGE))
{
	fill(serving);
	RUN_TO(0, "current");
	reload(serving, OUTPUT("a", ON_CHANGE "max_wait = 9s\n"));
	cr_expect(is_in_state(serving, 0, "settling"), "it begins anew");
	RUN_TO(0, "current");
	cr_expect_str_eq(text_in(serving, "runs"), "ran\n");
}

SERVED(outputs, two_equal_outputs_are_never_one, OUTPUT("a", "") OUTPUT("b", ""))
{
	fill(serving);
	RUN_TO(0, "current");
	RUN_TO(1, "current");
	reload(serving, OUTPUT("a", "") OUTPUT("b", ""));
	for (size_t i = 0; i < 2; i++) {
		cr_expect_str_eq(member_of(serving, i, "name"), i == 0 ? "a" : "b");
		cr_expect(is_in_state(serving, i, "current"), "it goes on untouched");
	}
	reload(serving, "");
	cr_expect_eq(serving->agent.output_count, 0);
	json_t *list = agent_outputs_json(&serving->agent);
	cr_expect_eq(json_array_size(list), 0);
	json_decref(list);
}

/* ---- metrics ---- */

SERVED(outputs, metrics_have_each_output_and_forget_those_that_are_gone,
	OUTPUT("a", ON_CHANGE) OUTPUT("b", "min_instances = 9\n"))
{
	cr_expect(has_metric(serving, "berth_output_current{output=\"a\"} 0"));
	cr_expect(has_metric(serving, "berth_output_writes_total{output=\"a\"} 0"));
	fill(serving);
	put(serving, "/app/other", AT_HOST("10.0.0.2"));
	RUN_TO(0, "current");
	RUN_TO(1, "held");
	cr_expect(has_metric(serving, "berth_output_current{output=\"a\"} 1"));
	cr_expect(has_metric(serving, "berth_output_current{output=\"b\"} 0"));
	cr_expect(has_metric(serving, "berth_output_instances{output=\"a\"} 2"));
	cr_expect(has_metric(serving, "berth_output_writes_total{output=\"a\"} 1"));
	cr_expect(has_metric(serving, "berth_output_runs_total{output=\"a\"} 1"));
	cr_expect(has_metric(serving, "berth_output_failures_total{output=\"b\"} 0"));
	reload(serving, OUTPUT("a", ON_CHANGE));
	cr_expect(has_metric(serving, "berth_output_writes_total{output=\"a\"} 1"));
	cr_expect_not(has_series(serving, "berth_output_current{output=\"b\""));
	cr_expect_not(has_series(serving, "berth_output_instances{output=\"b\""));
	cr_expect_not(has_series(serving, "berth_output_writes_total{output=\"b\""));
	cr_expect_not(has_series(serving, "berth_output_runs_total{output=\"b\""));
	cr_expect_not(has_series(serving, "berth_output_failures_total{output=\"b\""));
}
