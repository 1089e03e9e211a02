/* Outputs of the agent: what the history has of them. */

#include "tests/unit/agent/serving/serving_stage.h"

static json_t *output_of(struct serving *serving)
{
	json_t *list = agent_outputs_json(&serving->agent);
	json_t *json = json_incref(json_array_get(list, 0));
	json_decref(list);
	return json;
}

/* It has written its file so often, and is current. */
static bool is_current(struct serving *serving, int writes)
{
	json_t *json = output_of(serving);
	bool is = json_integer_value(json_object_get(json, "writes")) == writes &&
		strcmp(json_string_value(json_object_get(json, "state")), "current") == 0;
	json_decref(json);
	return is;
}

SERVED(outputs, a_change_that_is_delivered_is_no_news_for_the_history,
	"[output a]\nfrom = /app\nformat = lines\npath = @/a\nquiet = 1ms\n")
{
	put(serving, "/app", AT_HOST("10.0.0.1"));
	RUN_UNTIL(serving->agent.loop, is_current(serving, 1));
	int wakes = serving->wakes;
	put(serving, "/app/other", AT_HOST("10.0.0.2"));
	RUN_UNTIL(serving->agent.loop, is_current(serving, 2));
	RUN_UNTIL(serving->agent.loop, serving->wakes > wakes);
	cr_expect_str_eq(history_of(serving, "output a"), "waiting>current() ");
	cr_expect_eq(logged(serving, "output a"), 1);
}
