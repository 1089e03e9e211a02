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

OPENED(persistent, nodes_that_outlive_the_agent_are_known, QUICK KEPT("a") COMPONENT("b") KEPT("c"))
{
	run_to_records(stage);
	run_a_while(stage);
	json_t *nodes = saved_nodes(stage);
	cr_expect_eq(json_object_size(nodes), 2);
	json_t *own = announce_persistent(component_announce(component_of(&stage->wiring, "a")));
	cr_expect_not_null(own);
	cr_expect(json_equal(json_object_get(nodes, "/app/a"), own), "in its last version");
	json_decref(own);
	json_decref(nodes);
	cr_expect_not(stage->agent->persistent_is_being_saved);
	cr_expect_not(was_logged("is not saved"));
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

/* The document is not written again where nothing is new. */
OPENED(persistent, what_is_known_is_not_saved_again, QUICK KEPT("a") COMPONENT("b"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	json_decref(saved_nodes(stage));
	run_a_while(stage);
	cr_expect(agent_persistent_note(agent, component_of(&stage->wiring, "a")));
	cr_expect(agent_persistent_note(agent, component_of(&stage->wiring, "b")));
	cr_expect_not(agent->persistent_is_being_saved);
}

OPENED(persistent, a_new_version_is_saved, QUICK KEPT("a"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	json_t *before = saved_nodes(stage);
	agent_components_reload(
		agent, load(&stage->wiring, QUICK KEPT("a") "description = another one\n"));
	run_a_while(stage);
	run_to_records(stage);
	run_a_while(stage);
	json_t *after = saved_nodes(stage);
	cr_expect_not(json_equal(before, after));
	cr_expect_eq(json_object_size(after), 1);
	json_decref(before);
	json_decref(after);
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

OPENED(persistent, without_a_state_directory_nodes_are_written_all_the_same, QUICK KEPT("a"))
{
	state_dir_finish(&stage->agent->state);
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/a"));
	cr_expect_not(stage->agent->persistent_is_being_saved);
	cr_expect_not(was_logged("the list of our persistent records is not saved"));
}

OPENED(persistent, a_list_that_cannot_be_saved_stops_nothing, QUICK KEPT("a"))
{
	char path[SCRATCH_PATH + 16];
	snprintf(path, sizeof(path), "%s/persistent", stage->wiring.folder);
	cr_assert_eq(mkdir(path, 0700), 0);
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/a"));
	RUN_UNTIL(stage->agent->loop, !stage->agent->persistent_is_being_saved);
	cr_expect(was_logged("the list of our persistent records is not saved: "));
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

OPENED(persistent, a_successor_knows_them_where_it_has_them_too,
	QUICK KEPT("a") KEPT("b") KEPT("c"))
{
	const struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	json_t *nodes = saved_nodes(stage);
	restart(stage, QUICK KEPT("c") KEPT("b") KEPT("d"));
	cr_expect_eq(json_object_size(agent->persistent), 2);
	cr_expect(json_equal(
		json_object_get(agent->persistent, "/app/b"), json_object_get(nodes, "/app/b")));
	cr_expect_not_null(json_object_get(agent->persistent, "/app/c"));
	json_decref(nodes);
	cr_expect_not(was_logged("cannot be read"));
	run_to_records(stage);
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

/* The next agent finds this in the state directory, and knows of nothing. */
static void restart_with(struct opened *stage, json_t *document_take)
{
	leave_document(stage, "persistent", document_take);
	opened_begin_agent(stage, NULL);
	cr_expect(json_is_object(stage->agent->persistent));
	cr_expect_eq(json_object_size(stage->agent->persistent), 0);
	cr_expect_not(was_logged("cannot be read"));
}

OPENED(persistent, a_list_of_a_wrong_shape_is_none, COMPONENT("a"))
{
	const char *url = stage->agent->config->registry.url;
	restart_with(stage, json_pack("{s:s, s:[s]}", "url", url, "nodes", "/app/a"));
	restart_with(stage, json_pack("{s:{s:{}}}", "nodes", "/app/a"));
	restart_with(stage, json_pack("{s:s}", "url", url));
	restart_with(stage, json_pack("[s]", "/app/a"));
}

OPENED(persistent, a_damaged_list_is_none, COMPONENT("a"))
{
	char path[SCRATCH_PATH + 16];
	leave_document(stage, "persistent", json_array());
	snprintf(path, sizeof(path), "%s/persistent", stage->wiring.folder);
	cr_assert_eq(truncate(path, 5), 0);
	opened_begin_agent(stage, NULL);
	cr_expect(json_is_object(stage->agent->persistent));
	cr_expect(was_logged("the list of our persistent records cannot be read: "));
}
