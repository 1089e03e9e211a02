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
