/* The agent's components: their gates, what all hear of them, and questions about all of them. */
#include "tests/unit/agent/registration/opened_stage.h"

/* Records may change at any time. */
#define QUICK "[registry]\nupdate_interval = 0s\n"
#define A COMPONENT("a")
#define B COMPONENT("b")
#define PERSISTENT "znode = persistent\n"
#define KEPT PERSISTENT "on_stop = keep\n"

static enum announce_state state_of(struct opened *stage, const char *label)
{
	return component_state(component_of(&stage->wiring, label));
}

static bool is_registered(struct opened *stage, const char *label)
{
	return component_registered(component_of(&stage->wiring, label));
}

static bool is_because(struct opened *stage, const char *label, const char *reason)
{
	const char *why = component_why(component_of(&stage->wiring, label));
	bool is = strstr(why, reason) != NULL;
	cr_expect(is, "%s", why);
	return is;
}

static void decide(struct opened *stage)
{
	agent_wake(stage->agent);
	run_a_while(stage);
}

/* ---- gates ---- */

OPENED(gates, a_drain_of_the_agent_takes_all_out_and_says_why, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, component_of(&stage->wiring, "b"), "too slow", 0);
	agent_drain_begin(agent, NULL, "a new kernel", 0);
	RUN_UNTIL(agent->loop, !is_registered(stage, "a") && !is_registered(stage, "b"));
	is_because(stage, "a", "draining: a new kernel");
	is_because(stage, "b", "draining: a new kernel");
	cr_expect_not(other_sees(stage, "/app/a"));
	agent_drain_end(agent, NULL);
	RUN_UNTIL(agent->loop, is_registered(stage, "a"));
	run_a_while(stage);
	cr_expect_not(is_registered(stage, "b"), "its own drain goes on");
	agent_drain_end(agent, component_of(&stage->wiring, "b"));
	run_to_records(stage);
}

OPENED(gates, a_drain_of_a_component_takes_it_out_and_says_why, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, component_of(&stage->wiring, "b"), "too slow", 0);
	RUN_UNTIL(agent->loop, !is_registered(stage, "b"));
	run_a_while(stage);
	cr_expect(is_registered(stage, "a"));
	is_because(stage, "b", "draining: too slow");
	cr_expect_eq(state_of(stage, "b"), ANNOUNCE_WITHDRAWN);
}

OPENED(gates, an_agent_that_stops_takes_its_records_out, QUICK A COMPONENT("kept") KEPT)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->phase = AGENT_DEREGISTERING;
	decide(stage);
	RUN_UNTIL(agent->loop, !is_registered(stage, "a"));
	is_because(stage, "a", "the agent is stopping");
	cr_expect_eq(state_of(stage, "a"), ANNOUNCE_WITHDRAWN);
	cr_expect(other_sees(stage, "/app/kept"));
	agent->phase = AGENT_RUNNING;
	decide(stage);
	run_to_records(stage);
	agent->phase = AGENT_LINGERING;
	decide(stage);
	RUN_UNTIL(agent->loop, !is_registered(stage, "a"));
}

OPENED(gates, a_record_that_outlives_the_agent_is_neither_taken_out_nor_made_again,
	QUICK COMPONENT("kept") KEPT)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->phase = AGENT_DEREGISTERING;
	decide(stage);
	cr_expect(is_registered(stage, "kept"));
	memory_remove(stage->other, "/app/kept");
	RUN_UNTIL(agent->loop, !is_registered(stage, "kept"));
	run_a_while(stage);
	cr_expect_not(other_sees(stage, "/app/kept"));
	is_because(stage, "kept", "the agent is stopping, and the record outlives it");
	agent->phase = AGENT_RUNNING;
	decide(stage);
	run_to_records(stage);
}

OPENED(gates, nothing_is_registered_before_the_main_process_runs, QUICK A)
{
	struct agent *agent = stage->agent;
	agent->supervise = NEIGHBOUR;
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_CONNECTED);
	decide(stage);
	cr_expect_not(other_sees(stage, "/app/a"));
	is_because(stage, "a", "the main process is not running");
	agent->main_process = AGENT_MAIN_PROCESS_RUNNING;
	decide(stage);
	run_to_records(stage);
	agent->main_process = AGENT_MAIN_PROCESS_DOWN;
	decide(stage);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	is_because(stage, "a", "the main process is not running");
	cr_expect_not(other_sees(stage, "/app/a"));
	agent->main_process = AGENT_MAIN_PROCESS_RUNNING;
	decide(stage);
	run_to_records(stage);
	agent->main_process = AGENT_MAIN_PROCESS_ENDED;
	decide(stage);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	agent->supervise = NULL;
	decide(stage);
	run_to_records(stage);
}

OPENED(gates, an_agent_that_leaves_its_session_changes_nothing_more, QUICK A)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->leave_session = true;
	agent->phase = AGENT_STOPPING_PROCESS;
	decide(stage);
	cr_expect(is_registered(stage, "a"));
	agent->leave_session = false;
}

OPENED(gates, a_record_of_a_predecessor_stays_until_the_main_process_runs, QUICK A)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->supervise = NEIGHBOUR;
	decide(stage);
	cr_expect(is_registered(stage, "a"));
	cr_expect(other_sees(stage, "/app/a"));
	agent->supervise = NULL;
}

/* ---- children go before their parents ---- */

#define DEEP "[component deep]\npath = /app/a/deep\n"
#define NEXT "[component next]\npath = /app/ab\n"
#define PARENT COMPONENT("a") PERSISTENT

OPENED(gates, a_parent_waits_for_a_child_that_is_being_withdrawn, QUICK NEXT PARENT DEEP)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	stage->late = "delete /app/a/deep";
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "deep") == ANNOUNCE_WITHDRAWING);
	RUN_UNTIL(agent->loop, state_of(stage, "next") == ANNOUNCE_WITHDRAWN);
	decide(stage);
	cr_expect_eq(state_of(stage, "a"), ANNOUNCE_REGISTERED);
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	cr_expect_not(other_sees(stage, "/app/a"));
}

OPENED(gates, a_parent_waits_for_a_child_that_is_being_written, QUICK DEEP PARENT)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	stage->late = "create /app/a/deep";
	memory_remove(stage->other, "/app/a/deep");
	RUN_UNTIL(agent->loop, state_of(stage, "deep") == ANNOUNCE_WRITING);
	RUN_UNTIL(agent->loop, stage->late == NULL);
	agent_drain_begin(agent, NULL, "", 0);
	decide(stage);
	cr_expect_eq(state_of(stage, "a"), ANNOUNCE_REGISTERED);
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop,
		state_of(stage, "deep") == ANNOUNCE_WITHDRAWN &&
			state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	cr_expect_not(other_sees(stage, "/app/a"));
}

OPENED(gates, a_parent_opens_while_a_child_is_being_withdrawn, QUICK PARENT DEEP)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->supervise = NEIGHBOUR;
	decide(stage);
	stage->late = "delete /app/a/deep";
	agent_drain_begin(agent, component_of(&stage->wiring, "deep"), "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "deep") == ANNOUNCE_WITHDRAWING);
	agent->main_process = AGENT_MAIN_PROCESS_RUNNING;
	decide(stage);
	memory_remove(stage->other, "/app/a");
	RUN_UNTIL(agent->loop, !is_registered(stage, "a"));
	RUN_UNTIL(agent->loop, is_registered(stage, "a"));
	memory_answer_late(agent->registry);
	agent->supervise = NULL;
}

OPENED(gates, a_parent_does_not_wait_for_others, QUICK NEXT PARENT)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	stage->late = "delete /app/ab";
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "next") == ANNOUNCE_WITHDRAWING);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, state_of(stage, "next") == ANNOUNCE_WITHDRAWN);
}

OPENED(gates, a_parent_does_not_wait_for_a_child_that_stays, QUICK PARENT DEEP)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, component_of(&stage->wiring, "a"), "", 0);
	RUN_UNTIL(agent->loop, !is_registered(stage, "a"));
	cr_expect(is_registered(stage, "deep"));
	run_a_while(stage);
	cr_expect(other_sees(stage, "/app/a/deep"));
}

OPENED(gates, a_parent_does_not_wait_for_a_child_that_has_no_record, QUICK PARENT DEEP)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, component_of(&stage->wiring, "deep"), "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "deep") == ANNOUNCE_WITHDRAWN);
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	cr_expect_not(other_sees(stage, "/app/a"));
}

/* ---- who hears of them ---- */

OPENED(components, their_states_are_measured_and_noted, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	cr_expect(measures(agent->metrics, "berth_registered{component=\"a\"} 1"));
	cr_expect(measures(agent->metrics, "berth_registered{component=\"b\"} 1"));
	cr_expect(measures(
		agent->metrics, "berth_transitions_total{component=\"a\",to=\"registered\"} 1"));
	cr_expect(tells(&stage->wiring, "component a", "registered"));
	agent_drain_begin(agent, component_of(&stage->wiring, "a"), "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	cr_expect(measures(agent->metrics, "berth_registered{component=\"a\"} 0"));
	cr_expect(measures(
		agent->metrics, "berth_transitions_total{component=\"a\",to=\"withdrawn\"} 1"));
	cr_expect(tells(&stage->wiring, "component a", "withdrawn"));
	agent_drain_end(agent, component_of(&stage->wiring, "a"));
	run_to_records(stage);
	cr_expect(measures(
		agent->metrics, "berth_transitions_total{component=\"a\",to=\"registered\"} 2"));
}

OPENED(components, a_change_is_considered_at_once, QUICK A)
{
	RUN_UNTIL(stage->agent->loop, is_registered(stage, "a"));
	run_a_while(stage);
	stage->wakes = 0;
	memory_remove(stage->other, "/app/a");
	RUN_UNTIL(stage->agent->loop, !is_registered(stage, "a"));
	run_a_while(stage);
	cr_expect_gt(stage->wakes, 0);
}

/* ---- questions ---- */

OPENED(components, they_are_found_by_their_labels, QUICK A B)
{
	const struct agent *agent = stage->agent;
	cr_expect_str_eq(component_label(agent_components_find(agent, "a")), "a");
	cr_expect_str_eq(component_label(agent_components_find(agent, "b")), "b");
	cr_expect_null(agent_components_find(agent, "c"));
}

static bool is_ready(const struct opened *stage, bool away_ok, const char *why)
{
	struct err err = ERR_INIT;
	bool ready = agent_components_ready(stage->agent, away_ok, &err);
	cr_expect_eq(ready, err.code == 0);
	cr_expect_not_null(strstr(err.msg, why), "%s", err.msg);
	return ready;
}

OPENED(components, all_are_ready_when_each_is_registered, QUICK A B)
{
	struct agent *agent = stage->agent;
	cr_expect_not(is_ready(stage, true, "component a is waiting: "));
	run_to_records(stage);
	cr_expect(is_ready(stage, false, ""));
	agent_drain_begin(agent, component_of(&stage->wiring, "b"), "too slow", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "b") == ANNOUNCE_WITHDRAWN);
	cr_expect_not(is_ready(stage, false, "component b is withdrawn: draining: too slow"));
	cr_expect_not(is_ready(stage, true, "component b is withdrawn: "));
}

OPENED(components, an_outage_alone_can_be_passed_over, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, !is_registered(stage, "a") && !is_registered(stage, "b"));
	cr_expect_not(is_ready(stage, false, "component a is waiting: "));
	cr_expect(is_ready(stage, true, ""));
	memory_set_state(agent->registry, REGISTRY_LOST);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_LOST);
	cr_expect_not(is_ready(stage, true, "component a is "));
}

OPENED(components, all_are_settled_when_each_has_what_it_wants, QUICK A B)
{
	struct agent *agent = stage->agent;
	cr_expect_not(agent_components_settled(agent));
	run_to_records(stage);
	cr_expect(agent_components_settled(agent));
	stage->late = "delete /app/b";
	agent_drain_begin(agent, component_of(&stage->wiring, "b"), "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "b") == ANNOUNCE_WITHDRAWING);
	cr_expect_not(agent_components_settled(agent));
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, agent_components_settled(agent));
	agent_drain_end(agent, component_of(&stage->wiring, "b"));
	run_to_records(stage);
	run_a_while(stage);
	stage->late = "delete /app/a";
	agent_drain_begin(agent, component_of(&stage->wiring, "a"), "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWING);
	cr_expect_not(agent_components_settled(agent), "each counts");
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, agent_components_settled(agent));
	agent_drain_end(agent, component_of(&stage->wiring, "a"));
	run_to_records(stage);
	run_a_while(stage);
	stage->late = "delete /app/a";
	agent_components_reload(agent, load(&stage->wiring, QUICK B));
	run_a_while(stage);
	cr_expect_eq(agent->retired_count, 1);
	cr_expect_not(agent_components_settled(agent), "one that is no longer configured counts");
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
	cr_expect(agent_components_settled(agent));
}

OPENED(components, each_that_is_no_longer_configured_has_to_be_settled, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	memory_put(stage->other, "/app/p", "");
	agent_components_reload(agent,
		load(&stage->wiring, QUICK COMPONENT("p") KEPT "on_conflict = takeover\n" A B));
	agent_wake(agent);
	run_to_records(stage);
	run_a_while(stage);
	memory_put(stage->other, "/app/p/child", "");
	stage->late = "delete /app/b";
	agent_components_reload(agent, load(&stage->wiring, QUICK A));
	agent_wake(agent);
	RUN_UNTIL(agent->loop, stage->late == NULL);
	run_a_while(stage);
	cr_expect_eq(agent->retired_count, 2, "a node with a child stays");
	cr_expect(component_settled(agent->retired[0]));
	cr_expect_not(agent_components_settled(agent), "but the other one is not settled");
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, agent->retired_count == 1);
	cr_expect(agent_components_settled(agent));
	memory_remove(stage->other, "/app/p/child");
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
}

OPENED(components, those_that_are_no_longer_configured_hear_of_an_outage, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	memory_set_answering(agent->registry, false);
	agent_components_reload(agent, load(&stage->wiring, QUICK));
	run_a_while(stage);
	cr_assert_eq(agent->retired_count, 2);
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_AWAY);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq(component_state(agent->retired[i]), ANNOUNCE_WAITING);
	}
	memory_set_answering(agent->registry, true);
	memory_set_state(agent->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
}

OPENED(components, an_agent_that_ends_waits_for_none, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	memory_set_answering(agent->registry, false);
	agent_components_reload(agent, load(&stage->wiring, QUICK B));
	run_a_while(stage);
	cr_assert_eq(agent->retired_count, 1);
	agent_components_destroy(agent);
	cr_expect_eq(agent->retired_count, 0);
	cr_expect_null(agent->retired);
	memory_set_answering(agent->registry, true);
}

OPENED(components, what_may_be_left_is_logged, QUICK COMPONENT("p") PERSISTENT A B COMPONENT("c"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_components_log_left(agent);
	cr_expect_not(was_logged("may be left"));
	memory_set_answering(agent->registry, false);
	agent_components_reload(agent, load(&stage->wiring, QUICK A COMPONENT("p") PERSISTENT));
	agent_drain_begin(agent, component_of(&stage->wiring, "p"), "", 0);
	RUN_UNTIL(agent->loop, state_of(stage, "p") == ANNOUNCE_WITHDRAWING);
	(void)was_logged("");
	agent_components_log_left(agent);
	char lines[2000];
	ssize_t len = pread(STDERR_FILENO, lines, sizeof(lines) - 1, 0);
	cr_assert_gt(len, 0);
	lines[len] = '\0';
	cr_expect_null(strstr(lines, " a: its record"), "%s", lines);
	cr_expect_not_null(
		strstr(lines, "b: its record may be left at /app/b, until the session ends ("));
	cr_expect_not_null(strstr(lines, "c: its record may be left at /app/c, "));
	cr_expect_not_null(strstr(lines,
		"p: its record may be left at /app/p, until a person removes or purges it ("));
	memory_set_answering(agent->registry, true);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
}

/* The paths of all, separated by blanks. */
static const char *paths_of(const struct agent *agent)
{
	static char text[300];
	json_t *paths = json_array();
	size_t index;
	json_t *path;
	text[0] = '\0';
	agent_components_add_paths(agent, paths);
	json_array_foreach (paths, index, path) {
		size_t used = strlen(text);
		snprintf(text + used, sizeof(text) - used, "%s ", json_string_value(path));
	}
	json_decref(paths);
	return text;
}

OPENED(components, paths_are_those_of_all_that_have_not_gone, QUICK A B COMPONENT("c"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	cr_expect_str_eq(paths_of(agent), "/app/a /app/b /app/c ");
	agent_components_reload(agent, load(&stage->wiring, QUICK B));
	cr_expect_str_eq(paths_of(agent), "/app/b /app/a /app/c ");
	cr_expect(agent_components_have_path(agent, "/app/a"));
	cr_expect(agent_components_have_path(agent, "/app/b"));
	cr_expect(agent_components_have_path(agent, "/app/c"));
	cr_expect_not(agent_components_have_path(agent, "/app/d"));
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
	cr_expect_str_eq(paths_of(agent), "/app/b ");
	cr_expect_not(agent_components_have_path(agent, "/app/c"));
}

/* ---- life ---- */

#define DYNAMIC                                                                                    \
	"[endpoint http]\ncomponent = a\napi = web\nprotocol = http\n"                             \
	"address_type = host/port\ndynamic = yes\n"

static void supply(struct opened *stage, const char *label, const char *address)
{
	struct err err = ERR_INIT;
	json_t *addresses = json_pack("[s]", address);
	cr_assert_eq(component_set_addresses(
			     component_of(&stage->wiring, label), "http", addresses, 0, &err),
		0, "%s", err.msg);
	json_decref(addresses);
}

/* The record at the path, as another client reads it, has this text. */
static bool record_has(const struct opened *stage, const char *path, const char *text)
{
	struct answer answer = { 0 };
	bool has = client_get(stage->other, path, &answer) == 0 && strstr(answer.data, text);
	answer_clear(&answer);
	return has;
}

OPENED(components, a_successor_gets_what_they_have_learnt, QUICK A B DYNAMIC)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	supply(stage, "a", "10.1.2.3:80");
	RUN_UNTIL(agent->loop, record_has(stage, "/app/a", "10.1.2.3"));
	json_t *saved = agent_components_save(agent);
	cr_expect_eq(json_object_size(saved), 2);
	cr_expect_not_null(json_object_get(saved, "a"));
	cr_expect_not_null(json_object_get(saved, "b"));
	agent_components_destroy(agent);
	cr_expect_eq(agent->component_count, 0);
	agent_components_create(agent, saved);
	cr_expect_eq(agent->component_count, 2);
	json_decref(saved);
	agent_components_on_registry_state(agent, REGISTRY_CONNECTED, "");
	agent_wake(agent);
	run_to_records(stage);
	cr_expect(record_has(stage, "/app/a", "10.1.2.3"));
}

/* ---- reload ---- */

OPENED(components, a_reload_leaves_equal_ones_alone, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	const struct component *before = component_of(&stage->wiring, "b");
	stage->asked[0] = '\0';
	agent_components_reload(agent, load(&stage->wiring, QUICK B COMPONENT("c") A));
	cr_expect_eq(agent->component_count, 3);
	cr_expect_eq(component_of(&stage->wiring, "b"), before);
	cr_expect_eq(agent->retired_count, 0);
	run_to_records(stage);
	run_a_while(stage);
	cr_expect(other_sees(stage, "/app/c"));
	cr_expect(strstr(stage->asked, "create /app/c; ") != NULL);
	cr_expect(strstr(stage->asked, "delete") == NULL, "%s", stage->asked);
	cr_expect(strstr(stage->asked, "set /app/") == NULL, "%s", stage->asked);
}

OPENED(components, a_reload_changes_a_record, QUICK A)
{
	run_to_records(stage);
	agent_components_reload(
		stage->agent, load(&stage->wiring, QUICK A "description = another one\n"));
	RUN_UNTIL(stage->agent->loop, record_has(stage, "/app/a", "another one"));
}

#define MOVED(label, path) "[component " label "]\npath = " path "\n"

OPENED(components, lessons_go_with_their_names_to_other_paths, QUICK A B DYNAMIC)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	supply(stage, "a", "10.1.2.3:80");
	RUN_UNTIL(agent->loop, record_has(stage, "/app/a", "10.1.2.3"));
	agent_drain_begin(agent, component_of(&stage->wiring, "a"), "too old", 0);
	agent_drain_begin(agent, component_of(&stage->wiring, "b"), "too slow", 0);
	agent_components_reload(agent,
		load(&stage->wiring,
			QUICK MOVED("c", "/app/c") MOVED("b", "/app/b2") MOVED("a", "/app/a2")
				DYNAMIC));
	agent_wake(agent);
	cr_expect_eq(agent->retired_count, 2);
	cr_expect_str_eq(component_drain(component_of(&stage->wiring, "a"))->reason, "too old");
	cr_expect_str_eq(component_drain(component_of(&stage->wiring, "b"))->reason, "too slow");
	cr_expect_not(component_drain(component_of(&stage->wiring, "c"))->active);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
	cr_expect_not(other_sees(stage, "/app/a"));
	cr_expect_not(other_sees(stage, "/app/b"));
	RUN_UNTIL(agent->loop, other_sees(stage, "/app/c"));
	cr_expect_not(other_sees(stage, "/app/a2"), "it is drained");
	agent_drain_end(agent, component_of(&stage->wiring, "a"));
	RUN_UNTIL(agent->loop, record_has(stage, "/app/a2", "10.1.2.3"));
	cr_expect_not(other_sees(stage, "/app/b2"));
}

OPENED(components, one_that_comes_back_is_the_same_one, QUICK A B COMPONENT("c"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	const struct component *a = component_of(&stage->wiring, "a");
	const struct component *c = component_of(&stage->wiring, "c");
	agent_components_reload(agent, load(&stage->wiring, QUICK B));
	cr_expect_eq(agent->retired_count, 2);
	agent_components_reload(agent, load(&stage->wiring, QUICK COMPONENT("c") B));
	cr_expect_eq(agent->retired_count, 1);
	cr_expect_eq(component_of(&stage->wiring, "c"), c);
	agent_components_reload(agent, load(&stage->wiring, QUICK COMPONENT("c") B A));
	cr_expect_eq(component_of(&stage->wiring, "a"), a);
	cr_expect_eq(agent->retired_count, 0);
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/a"));
	cr_expect(other_sees(stage, "/app/c"));
}

OPENED(components, those_that_have_withdrawn_are_freed_one_by_one, QUICK A B COMPONENT("c"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	cr_expect_not(agent_components_free_withdrawn(agent));
	stage->late = "delete /app/b";
	agent_components_reload(agent, load(&stage->wiring, QUICK));
	cr_expect_eq(agent->retired_count, 3);
	RUN_UNTIL(agent->loop, agent->retired_count == 1);
	run_a_while(stage);
	cr_expect(agent_components_have_path(agent, "/app/b"));
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
	cr_expect_null(agent->retired);
}

OPENED(components, one_that_is_no_longer_configured_withdraws_after_an_outage, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_AWAY);
	agent_components_reload(agent, load(&stage->wiring, QUICK));
	run_a_while(stage);
	cr_expect_eq(agent->retired_count, 2);
	memory_set_state(agent->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
	cr_expect_not(other_sees(stage, "/app/a"));
	cr_expect_not(other_sees(stage, "/app/b"));
}

#define CHECK "[check alive]\ncomponent = a\ntype = ttl\ninterval = 1h\nfall = 1\n"

OPENED(components, a_reload_brings_checks_with_it, QUICK A)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	cr_expect_null(check_set_find(agent->checks, "alive"));
	agent_components_reload(agent, load(&stage->wiring, QUICK A CHECK));
	cr_expect_not_null(check_set_find(agent->checks, "alive"));
}
