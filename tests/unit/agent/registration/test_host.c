/* url = host: records in the container's own directory, look-ups at the host's agent. */
#include "tests/unit/agent/registration/opened_stage.h"

#define HOST "[registry]\nurl = host:/run/host\n"
#define TWO COMPONENT("a") COMPONENT("b")

static const struct registry_options *lookups(void)
{
	return &seams.opened[1].options;
}

/* Only once both are connected has everything happened at the beginning. */
static void run_to_both(struct opened *stage)
{
	RUN_UNTIL(stage->agent->loop,
		stage->agent->registry_was == REGISTRY_CONNECTED &&
			registry_state(stage->agent->registry) == REGISTRY_CONNECTED);
	RUN_UNTIL(stage->agent->loop, other_sees(stage, "/app/a") && other_sees(stage, "/app/b"));
	run_a_while(stage);
	seams.told[0] = '\0';
	stage->wakes = 0;
}

/* The host's agent reports on these records, a list of {path, state}; NULL: it says nothing. */
static void report(struct opened *stage, json_t *records_take)
{
	json_t *container = records_take
		? json_pack("{s:s, s:o}", "name", "web-1", "records", records_take)
		: NULL;
	stage->wakes = 0;
	lookups()->on_container(lookups()->context, container);
	json_decref(container);
	run_a_while(stage);
	cr_expect_gt(stage->wakes, 0);
}

OPENED(host, a_record_that_is_no_longer_configured_goes_when_the_host_says_so, HOST TWO)
{
	struct agent *agent = stage->agent;
	run_to_both(stage);
	report(stage,
		json_pack("[{s:s, s:s}, {s:s, s:s}]", "path", "/app/a", "state", "registered",
			"path", "/app/b", "state", "registered"));
	agent_components_reload(agent, load(&stage->wiring, HOST));
	RUN_UNTIL(agent->loop, !other_sees(stage, "/app/a") && !other_sees(stage, "/app/b"));
	run_a_while(stage);
	cr_expect_eq(agent->retired_count, 2, "the host still has them");
	report(stage, json_pack("[{s:s, s:s}]", "path", "/app/a", "state", "registered"));
	RUN_UNTIL(agent->loop, agent->retired_count == 1);
	cr_expect(agent_components_have_path(agent, "/app/a"));
	report(stage, json_array());
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
}

OPENED(host, a_change_of_the_own_directory_is_considered, HOST)
{
	struct agent *agent = stage->agent;
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_CONNECTED);
	run_a_while(stage);
	stage->wakes = 0;
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_AWAY);
	run_a_while(stage);
	cr_expect_gt(stage->wakes, 0);
}
