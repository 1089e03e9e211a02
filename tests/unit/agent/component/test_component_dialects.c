/* A component's nodes in other schemes. */
#include "tests/support/watch_count.h"
#include "tests/unit/agent/component/component_stage.h"

#define SPRING(name, service)                                                                      \
	"[dialect " name "]\ntype = spring\nbase = /spring\nservice = " service                    \
	"\ninstance_id = i1\n"

static bool dialect_is_in(const struct stage *stage, size_t index, const char *name)
{
	bool registered;
	cr_assert_str_eq(component_dialect(stage->component, index, &registered), name);
	return registered;
}

STAGED(dialects_follow_the_component, HTTP SPRING("d", "app") SPRING("e", "app2"))
{
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(component_dialect_count(stage->component), 2);
	cr_assert(dialect_is_in(stage, 0, "d"));
	cr_assert(dialect_is_in(stage, 1, "e"));
	cr_assert(node_has(stage, "//spring/app/i1", "10.9.8.7"));
	cr_assert_not_null(strstr(stage->trail, "dialect d writing>registered; "));
	json_t *shown = component_json(stage->component);
	const json_t *dialects = json_object_get(shown, "dialects");
	cr_assert_eq(json_array_size(dialects), 2);
	cr_assert_str_eq(
		json_string_value(json_object_get(json_array_get(dialects, 1), "name")), "e");
	json_decref(shown);
	component_set_gate(stage->component, COMPONENT_GATE_CLOSED, "drained");
	RUN_UNTIL(stage->loop, component_finished(stage->component));
	cr_assert_not(node_has(stage, "//spring/app/i1", ""));
	cr_assert_not(node_has(stage, "//spring/app2/i1", ""));
	cr_assert_not(dialect_is_in(stage, 0, "d"));
}

STAGED(a_dialect_that_a_reload_drops_leaves_and_the_others_stay,
	HTTP SPRING("d", "app") SPRING("e", "app2"))
{
	run_to(stage, ANNOUNCE_REGISTERED);
	json_t *before = component_save(stage->component);
	const json_t *since = json_object_get(json_object_get(before, "dialects"), "e");
	cr_assert_gt(json_integer_value(since), 1000000000000);
	reload(stage, HTTP SPRING("e", "app2") SPRING("f", "app3"));
	cr_assert_eq(component_dialect_count(stage->component), 2);
	cr_assert_not(component_settled(stage->component), "the old node is still there");
	RUN_UNTIL(stage->loop, component_finished(stage->component));
	cr_assert_not(node_has(stage, "//spring/app/i1", ""));
	cr_assert(node_has(stage, "//spring/app2/i1", "10.9.8.7"));
	cr_assert(node_has(stage, "//spring/app3/i1", "10.9.8.7"));
	cr_assert_null(strstr(stage->trail, "dialect e registered>"));
	json_t *after = component_save(stage->component);
	cr_assert(json_equal(since, json_object_get(json_object_get(after, "dialects"), "e")));
	json_decref(after);
	json_decref(before);
}

STAGED(a_dialect_that_comes_back_is_not_withdrawn_by_the_old_one, HTTP SPRING("d", "app"))
{
	run_to(stage, ANNOUNCE_REGISTERED);
	reload(stage, HTTP);
	RUN_UNTIL(stage->loop, component_finished(stage->component));
	int announced = stage->announced;
	reload(stage, HTTP);
	reload(stage, HTTP SPRING("d", "app"));
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_gt(stage->announced, announced, "its dialect has come");
	stage->trail[0] = '\0';
	for (int i = 0; i < 3; i++) {
		reload(stage, HTTP SPRING("d", "app"));
		cr_assert(node_has(stage, "//spring/app/i1", "10.9.8.7"));
	}
	cr_assert_str_eq(stage->trail, "");
	cr_assert(component_finished(stage->component));
}

STAGED(a_component_whose_dialect_is_in_conflict_is_not_settled,
	HTTP SPRING("e", "app2") SPRING("d", "app"))
{
	memory_put(stage->registry, "//spring/app/i1", "{\"id\":\"another\"}");
	RUN_UNTIL(stage->loop, strstr(stage->trail, "dialect d waiting>conflict"));
	RUN_UNTIL(stage->loop, strstr(stage->trail, "dialect e writing>registered"));
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert_not(component_settled(stage->component));
	cr_assert_not(component_finished(stage->component));
	memory_remove(stage->registry, "//spring/app/i1");
	run_to(stage, ANNOUNCE_REGISTERED);
}

STAGED(a_dialect_leaves_while_its_endpoint_is_out,
	HTTP SPRING("d", "app") CHECK("one") "endpoints = http\n")
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, "//spring/app/i1", "10.9.8.7"));
	report(stage, "one", CHECK_FAILING);
	RUN_UNTIL(stage->loop, !node_has(stage, "//spring/app/i1", ""));
	run_to(stage, ANNOUNCE_REGISTERED);
	report(stage, "one", CHECK_PASSING);
	RUN_UNTIL(stage->loop, node_has(stage, "//spring/app/i1", "10.9.8.7"));
}

#define REGISTRAR(aliases)                                                                         \
	"[dialect d]\ntype = registrar\ndomain = web.example\nhost_name = h1\n"                    \
	"host_type = host\naliases = " aliases "\n"

STAGED(nodes_that_a_reload_drops_go_and_leave_nothing,
	HTTP REGISTRAR("a.web.example b.web.example"))
{
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, "//example/web/b", "10.9.8.7"));
	size_t watches = watch_count(stage->registry);
	reload(stage, HTTP REGISTRAR("c.web.example"));
	RUN_UNTIL(stage->loop, component_finished(stage->component));
	reload(stage, HTTP REGISTRAR("c.web.example"));
	cr_assert_not(node_has(stage, "//example/web/a", ""));
	cr_assert_not(node_has(stage, "//example/web/b", ""));
	cr_assert(node_has(stage, "//example/web/c", "10.9.8.7"));
	cr_assert_eq(watch_count(stage->registry), watches - 1);
}

STAGED(a_reload_sets_the_pause_between_two_writes, HTTP)
{
	run_to(stage, ANNOUNCE_REGISTERED);
	stage->update_interval_ms = 3600 * 1000;
	reload(stage, "description = other\n" HTTP);
	cr_assert_eq(state_of(stage), ANNOUNCE_OUTDATED);
	stage->update_interval_ms = 0;
	reload(stage, "description = other\n" HTTP);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "other"));
}

STAGED(dialects_come_back_after_an_outage, HTTP SPRING("d", "app"))
{
	run_to(stage, ANNOUNCE_REGISTERED);
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_WAITING);
	cr_assert_not(dialect_is_in(stage, 0, "d"));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(dialect_is_in(stage, 0, "d"));
	cr_assert(node_has(stage, "//spring/app/i1", "10.9.8.7"));
}

#define TWO HTTP SPRING("d", "app") SPRING("e", "app2")

STAGED(a_reload_may_drop_the_last_dialect, TWO)
{
	run_to(stage, ANNOUNCE_REGISTERED);
	reload(stage, HTTP SPRING("d", "app"));
	RUN_UNTIL(stage->loop, component_finished(stage->component));
	cr_assert(node_has(stage, "//spring/app/i1", "10.9.8.7"));
	cr_assert_not(node_has(stage, "//spring/app2/i1", ""));
}

static void keep_second(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	if (task->operation == REGISTRY_OP_DELETE && strcmp(task->path, "//spring/app2/i1") == 0) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

STAGED(a_component_waits_for_each_dialect_that_leaves, TWO)
{
	run_to(stage, ANNOUNCE_REGISTERED);
	memory_on_task(stage->registry, keep_second, NULL);
	reload(stage, HTTP);
	RUN_UNTIL(stage->loop, strstr(stage->trail, "dialect e withdrawing>failed"));
	RUN_UNTIL(stage->loop, strstr(stage->trail, "dialect d withdrawing>withdrawn"));
	cr_assert_not(component_settled(stage->component));
	memory_on_task(stage->registry, NULL, NULL);
	RUN_UNTIL(stage->loop, component_finished(stage->component));
	cr_assert_not(node_has(stage, "//spring/app2/i1", ""));
}

/* The server has ended the session, and the nodes with it: nothing is left to be withdrawn. */
STAGED(dialects_that_leave_are_gone_with_their_session, TWO)
{
	run_to(stage, ANNOUNCE_REGISTERED);
	memory_set_answering(stage->registry, false);
	reload(stage, HTTP);
	component_set_gate(stage->component, COMPONENT_GATE_CLOSED, "drained");
	cr_assert_not(component_settled(stage->component));
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage->loop, registry_state(stage->registry) == REGISTRY_LOST);
	cr_assert(component_finished(stage->component));
}
