/* The persistent nodes that an agent leaves, as the state directory knows them. */
#include <sys/stat.h>

#include "tests/unit/agent/registration/opened_stage.h"

#define QUICK "[registry]\nupdate_interval = 0s\n"
#define KEPT(name) COMPONENT(name) "znode = persistent\non_stop = keep\n"

/* The nodes that a successor finds; NULL: none. A new reference. */
static json_t *saved_nodes(const struct opened *stage)
{
	json_t *document = saved_document(stage, "persistent");
	json_t *nodes = json_incref(json_object_get(document, "nodes"));
	if (document) {
		cr_expect_str_eq(json_string_value(json_object_get(document, "url")),
			stage->agent->config->registry.url);
	}
	json_decref(document);
	return nodes;
}

static bool is_saved(const struct opened *stage, const char *path)
{
	json_t *nodes = saved_nodes(stage);
	bool is = json_object_get(nodes, path) != NULL;
	json_decref(nodes);
	return is;
}

OPENED(persistent, a_write_waits_until_the_disk_knows_it, QUICK KEPT("a"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	agent->persistent_is_being_saved = true;
	memory_remove(stage->other, "/app/a");
	RUN_UNTIL(agent->loop, !all_registered(&stage->wiring));
	timer_start(&agent->session_save_timer, 600000); /* that is none of its business */
	json_decref(saved_nodes(stage));
	agent->persistent_is_being_saved = true;
	cr_expect_not(agent_persistent_note(agent, component_of(&stage->wiring, "a")));
	agent->persistent_is_being_saved = false;
	cr_expect(agent_persistent_note(agent, component_of(&stage->wiring, "a")));
	agent_wake(agent);
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/a"));
}

OPENED(persistent, a_node_that_is_withdrawn_is_forgotten, QUICK KEPT("a") KEPT("b"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	cr_expect(is_saved(stage, "/app/a"));
	agent_drain_begin(agent, component_of(&stage->wiring, "a"), "", 0);
	RUN_UNTIL(agent->loop, !other_sees(stage, "/app/a"));
	run_a_while(stage);
	cr_expect_not(is_saved(stage, "/app/a"));
	cr_expect(is_saved(stage, "/app/b"));
	agent_drain_begin(agent, component_of(&stage->wiring, "b"), "", 0);
	RUN_UNTIL(agent->loop, !other_sees(stage, "/app/b"));
	run_a_while(stage);
	cr_expect_null(saved_document(stage, "persistent"), "none is left");
}

OPENED(persistent, nodes_are_known_during_an_outage, QUICK KEPT("a"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_AWAY);
	run_a_while(stage);
	cr_expect(is_saved(stage, "/app/a"));
}

/* ---- a successor ---- */

/* Ends the agent, whose nodes stay; the next one has this configuration. */
static void restart(struct opened *stage, const char *text)
{
	opened_end_agent(stage);
	config_unref(stage->agent->config);
	stage->agent->config = load(&stage->wiring, text);
	(void)was_logged("");
	opened_begin_agent(stage, NULL);
}

OPENED(persistent, those_of_another_registry_are_not_known, QUICK KEPT("a"))
{
	run_to_records(stage);
	run_a_while(stage);
	json_decref(saved_nodes(stage));
	restart(stage, "[registry]\nurl = dir:/another\n" KEPT("a"));
	cr_expect_eq(json_object_size(stage->agent->persistent), 0);
	cr_expect(json_is_object(stage->agent->persistent));
}
