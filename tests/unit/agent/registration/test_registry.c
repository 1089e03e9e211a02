/* The agent's registry: who hears of its states and attempts. */
#include "lib/base/array.h"
#include "tests/unit/agent/registration/opened_stage.h"

#include "agent/base/log.h"
#include "tests/support/descriptors.h"

#define QUICK "[registry]\nupdate_interval = 0s\n"
#define A QUICK COMPONENT("a")
#define TWO A COMPONENT("b")

/* ---- its states ---- */

OPENED(registry, all_hear_of_an_outage_and_a_lost_session_counts, TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->bridge = NEIGHBOUR;
	stage->wakes = 0;
	seams.told[0] = '\0';
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_AWAY);
	cr_expect(strstr(seams.told, "bridge away; because the test wants it; ") != NULL);
	cr_expect(was_told("api follows; "));
	cr_expect(tells(&stage->wiring, "registry", "away"));
	cr_expect_str_eq(agent->registry_error, "the test wants it");
	cr_expect(measures(agent->metrics, "berth_registry_connected 0"));
	cr_expect_not(measures(agent->metrics, "berth_registry_session_expirations_total 1"));
	cr_expect_eq(component_state(component_of(&stage->wiring, "a")), ANNOUNCE_WAITING);
	cr_expect_eq(component_state(component_of(&stage->wiring, "b")), ANNOUNCE_WAITING);
	run_a_while(stage);
	cr_expect_gt(stage->wakes, 0);
	agent->bridge = NULL;
	memory_set_state(agent->registry, REGISTRY_LOST);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_LOST);
	memory_set_state(agent->registry, REGISTRY_CONNECTED);
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/a") && other_sees(stage, "/app/b"));
	cr_expect(measures(agent->metrics, "berth_registry_session_expirations_total 1"));
	cr_expect_str_eq(agent->registry_error, "");
}

OPENED(registry, an_attempt_that_fails_is_a_reason_for_everything, TWO)
{
	struct agent *agent = stage->agent;
	const struct registry_options *options = &seams.opened[0].options;
	run_to_records(stage);
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_AWAY);
	agent->bridge = NEIGHBOUR;
	(void)was_logged("");
	options->on_attempt(options->context, "refused", 3);
	cr_expect_str_eq(agent->registry_error, "refused, attempt 3");
	cr_expect(was_told("bridge away; because refused, attempt 3; "));
	const char *why = component_why(component_of(&stage->wiring, "b"));
	cr_expect_not_null(strstr(why, "refused, attempt 3"), "%s", why);
	options->on_attempt(options->context, "refused", 3);
	json_t *history = history_json(agent->history, false);
	const json_t *last = json_array_get(history, json_array_size(history) - 1);
	cr_expect_str_eq(json_string_value(json_object_get(last, "subject")), "registry");
	cr_expect_str_eq(json_string_value(json_object_get(last, "from")), "away");
	cr_expect_str_eq(json_string_value(json_object_get(last, "to")), "away");
	cr_expect_eq(json_integer_value(json_object_get(last, "count")), 2, "it is one entry");
	json_decref(history);
	cr_expect_not(was_logged("registry: "), "the registry logs it itself");
	agent->bridge = NULL;
}

OPENED(registry, credentials_that_are_refused_are_named, A)
{
	agent_registry_reauthenticate(stage->agent);
	cr_expect(was_logged("the credentials stay as they are: the test refuses them"));
}
