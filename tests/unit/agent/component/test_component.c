/* A component's record: its checks, the gate, endpoints, the last one of several, a successor. */
#include "lib/base/array.h"
#include "tests/support/shifted_clock.h"
#include "tests/unit/agent/component/component_stage.h"

/* ---- checks and the gate ---- */

STAGED(without_checks_an_open_gate_is_enough, HTTP)
{
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(component_registered(stage->component));
	cr_assert(component_finished(stage->component));
	cr_assert(node_has(stage, PATH, "10.9.8.7"));
	cr_assert_str_eq(component_label(stage->component), "c2");
	cr_assert_not_null(strstr(stage->trail,
		"component c2 waiting>writing; "
		"component c2 writing>registered; "));
	cr_assert(explains(stage, "no checks"));
	cr_assert_eq(stage->announced, 2);
	component_set_gate(stage->component, COMPONENT_GATE_CLOSED, "drained by joe");
	run_to(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(explains(stage, "drained by joe"));
	cr_assert_null(strchr(stage->trail, '!'), "it goes on purpose: %s", stage->trail);
	component_set_gate(stage->component, COMPONENT_GATE_CLOSED, "drained by ann");
	cr_assert(explains(stage, "drained by ann"));
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(stage->writes, 2, "each record is written when the disk has what it needs");
}

STAGED(each_check_counts, CHECK("one") CHECK("two"))
{
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_WITHDRAWN);
	report(stage, "one", CHECK_PASSING);
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN, "the other one has no verdict yet");
	report(stage, "two", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	report(stage, "two", CHECK_FAILING);
	run_to(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(explains(stage, "check two: "));
	cr_assert_not_null(
		strstr(stage->trail, "component c2 registered>withdrawing!; "), "%s", stage->trail);
	cr_assert_not(node_has(stage, PATH, ""));
	report(stage, "two", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
}

STAGED(an_undecided_gate_leaves_the_record_as_it_is, CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	component_set_gate(stage->component, COMPONENT_GATE_UNDECIDED, "restarting");
	cr_assert_eq(state_of(stage), ANNOUNCE_REGISTERED);
	cr_assert(explains(stage, "restarting"));
	report(stage, "one", CHECK_FAILING);
	run_to(stage, ANNOUNCE_WITHDRAWN);
	report(stage, "one", CHECK_PASSING);
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN);
}

STAGED(a_component_that_is_no_longer_configured_leaves, CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	component_retire(stage->component);
	run_to(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(explains(stage, "no longer configured"));
	cr_assert_null(strchr(stage->trail, '!'));
}

STAGED(the_health_is_in_the_record_when_it_is_to_be, "publish_health = yes\n" CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "\"berth:health\":\"passing\""));
	report(stage, "one", CHECK_WARNING);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "\"berth:health\":\"warning\""));
	cr_assert(explains(stage, "check one warns: "));
	reload(stage, CHECK("one"));
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "berth:health"));
}

STAGED(a_persistent_record_is_noted_before_it_is_written, "persistence = permanent\n")
{
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(stage->writes, 1);
	cr_assert(node_has(stage, PATH, "permanent"));
}

/* ---- endpoints ---- */

STAGED(a_check_of_an_endpoint_takes_out_that_endpoint_alone,
	HTTP "[endpoint admin]\nscope = internal\napi = admin\nprotocol = http\n"
	     "address_type = host/port\naddress = 10.9.8.7:9090\n" CHECK(
		     "two") "endpoints = admin\n" CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "8080"));
	cr_assert_not(node_has(stage, PATH, "9090"), "before its first good result");
	cr_assert_not_null(strstr(stage->trail, "endpoint admin in>out; "));
	report(stage, "two", CHECK_PASSING);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "9090"));
	cr_assert_not_null(strstr(stage->trail, "endpoint admin out>in; "));
	cr_assert_not_null(strstr(stage->whys, "its checks are up"));
	report(stage, "two", CHECK_FAILING);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "9090"));
	cr_assert(node_has(stage, PATH, "8080"));
	cr_assert_eq(state_of(stage), ANNOUNCE_REGISTERED);
	json_t *shown = component_json(stage->component);
	json_t *expected = json_pack("{s:s, s:s}", "http", "in", "admin", "out");
	cr_assert(json_equal(json_object_get(shown, "endpoints"), expected));
	json_decref(expected);
	json_decref(shown);
}

static int supply(struct stage *stage, const char *name, const char *addresses, uint64_t connection,
	struct err *err)
{
	json_t *json = addresses ? json_loads(addresses, 0, NULL) : NULL;
	int code = component_set_addresses(stage->component, name, json, connection, err);
	json_decref(json);
	return code;
}

STAGED(a_process_supplies_the_addresses_of_a_dynamic_endpoint, HTTP DYNAMIC)
{
	struct err err = ERR_INIT;
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_not(node_has(stage, PATH, "more"));
	cr_assert_eq(
		supply(stage, "more", "[\"10.0.0.1:1\", {\"host\":\"b\",\"port\":\"2\"}]", 0, &err),
		0, "%s", err.msg);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "10.0.0.1"));
	cr_assert(node_has(stage, PATH, "{\"host\":\"b\",\"port\":\"2\"}"));
	cr_assert_not_null(strstr(stage->trail, "endpoint more unsupplied>supplied; "));
	cr_assert_eq(supply(stage, "more", "[\"10.0.0.2:1\"]", 0, &err), 0);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "10.0.0.2"));
	cr_assert_null(strstr(stage->trail, "supplied>unsupplied"));
	component_connection_closed(stage->component, 0);
	cr_assert_eq(supply(stage, "more", NULL, 0, &err), 0);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "more"));
	cr_assert_not_null(strstr(stage->trail, "endpoint more supplied>unsupplied; "));
	cr_assert_eq(supply(stage, "more", NULL, 0, &err), 0);
	const char *again = strstr(stage->trail, "supplied>unsupplied");
	cr_assert_null(strstr(again + 1, "supplied>unsupplied"), "it was not supplied");
}

STAGED(addresses_that_make_no_record_change_nothing, HTTP DYNAMIC)
{
	static const char *const bad[] = { "[]", "{}", "[\"no port\"]", "[1]", "[\"a:1\", \"b\"]" };
	run_to(stage, ANNOUNCE_REGISTERED);
	struct err err = ERR_INIT;
	cr_assert_eq(supply(stage, "more", "[\"a:1\"]", 0, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err refused = ERR_INIT;
		cr_assert_eq(supply(stage, "more", bad[i], 0, &refused), BERTH_INVALID_RECORD,
			"%s: %s", bad[i], refused.msg);
		cr_assert_eq(refused.code, BERTH_INVALID_RECORD);
	}
	struct err unknown = ERR_INIT;
	cr_assert_eq(supply(stage, "none", "[\"a:1\"]", 0, &unknown), BERTH_PATH_NOT_FOUND);
	struct err fixed = ERR_INIT;
	cr_assert_eq(supply(stage, "http", "[\"a:1\"]", 0, &fixed), BERTH_NO_PATH_PERMISSIONS);
	json_t *many = json_array();
	for (int i = 0; i < 5000; i++) {
		json_array_append_new(many, json_string("a-longer-name:1234"));
	}
	struct err large = ERR_INIT;
	cr_assert_eq(component_set_addresses(stage->component, "more", many, 0, &large),
		BERTH_LIMIT_EXCEEDED);
	json_decref(many);
	json_t *shown = component_json(stage->component);
	json_t *expected = json_pack("{s:s, s:s}", "http", "in", "more", "in");
	cr_assert(json_equal(json_object_get(shown, "endpoints"), expected));
	json_decref(expected);
	json_decref(shown);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "{\"host\":\"a\",\"port\":\"1\"}"));
}

STAGED(addresses_outlast_a_connection_that_does_not_hold_them, HTTP DYNAMIC)
{
	struct err err = ERR_INIT;
	cr_assert_eq(supply(stage, "more", "[\"a:1\"]", 1, &err), 0);
	component_connection_closed(stage->component, 1);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "more"));
}

#define HELD(name) MORE(name) "hold = connection\n"

static bool both_are_in(struct stage *stage)
{
	return node_has(stage, PATH, "\"host\":\"a\"") && node_has(stage, PATH, "\"host\":\"b\"");
}

STAGED(addresses_that_a_connection_holds_end_with_it, HELD("first") HTTP HELD("last"))
{
	struct err err = ERR_INIT;
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(supply(stage, "first", "[\"a:1\"]", 7, &err), 0);
	cr_assert_eq(supply(stage, "last", "[\"b:1\"]", 7, &err), 0);
	component_connection_closed(stage->component, 6);
	RUN_UNTIL(stage->loop, both_are_in(stage));
	json_t *saved = component_save(stage->component);
	component_connection_closed(stage->component, 7);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "more"));
	/* A successor has the addresses, and the connection that holds them. */
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	RUN_UNTIL(stage->loop, both_are_in(stage));
	component_connection_closed(stage->component, 7);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "more"));
}

#define LINGERING HELD("first") "linger = 30m\n" HELD("last") "linger = 1h\n"

static void let_pass(struct stage *stage, int64_t ms)
{
	clock_shift_ms += ms;
	for (int i = 0; i < 10; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
}

STAGED(addresses_linger_after_the_connection_that_holds_them, HTTP LINGERING)
{
	struct err err = ERR_INIT;
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(supply(stage, "first", "[\"a:1\"]", 7, &err), 0);
	cr_assert_eq(supply(stage, "last", "[\"b:1\"]", 7, &err), 0);
	RUN_UNTIL(stage->loop, both_are_in(stage));
	component_connection_closed(stage->component, 7);
	/* It comes again, and supplies one. */
	cr_assert_eq(supply(stage, "first", "[\"a:1\"]", 8, &err), 0);
	let_pass(stage, 1800 * 1000);
	cr_assert(both_are_in(stage));
	component_connection_closed(stage->component, 8);
	/* A successor lets them linger on. */
	json_t *saved = component_save(stage->component);
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	let_pass(stage, 1800 * 1000 - 1000);
	RUN_UNTIL(stage->loop, both_are_in(stage));
	let_pass(stage, 1000);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "more"));
}

static void count_writes(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	*(int *)context += task->operation == REGISTRY_OP_SET;
}

STAGED(the_end_of_a_connection_that_holds_several_addresses_is_one_write,
	HELD("first") HTTP HELD("last"))
{
	struct err err = ERR_INIT;
	int writes = 0;
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(supply(stage, "first", "[\"a:1\"]", 7, &err), 0);
	cr_assert_eq(supply(stage, "last", "[\"b:1\"]", 7, &err), 0);
	RUN_UNTIL(stage->loop, both_are_in(stage));
	run_to(stage, ANNOUNCE_REGISTERED);
	memory_on_task(stage->registry, count_writes, &writes);
	component_connection_closed(stage->component, 7);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "more"));
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(writes, 1);
}

STAGED(an_endpoint_that_is_no_longer_dynamic_has_the_configured_addresses, HTTP)
{
	json_t *saved = json_pack("{s:{s:{s:[{s:s, s:s}], s:i}}}", "addresses", "http", "addresses",
		"host", "before", "port", "1", "connection", 0);
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "8080"));
	cr_assert_not(node_has(stage, PATH, "before"));
}

STAGED(a_reload_keeps_addresses_of_the_same_type, HTTP DYNAMIC)
{
	struct err err = ERR_INIT;
	cr_assert_eq(supply(stage, "more", "[\"a:1\"]", 0, &err), 0);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "more"));
	reload(stage, "description = other\n" DYNAMIC HTTP);
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "more"));
	cr_assert(node_has(stage, PATH, "8080"));
	reload(stage,
		HTTP "[endpoint more]\napi = more\nprotocol = tcp\naddress_type = uri\n"
		     "dynamic = yes\n");
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "more"));
	cr_assert_not_null(component_endpoint_config(stage->component, "more"));
	reload(stage, HTTP);
	cr_assert_null(component_endpoint_config(stage->component, "more"));
	cr_assert_str_eq(component_endpoint_config(stage->component, "http")->api, "web");
}

static void on_port(void *context, uint16_t port)
{
	char *ports = context;
	size_t used = strlen(ports);
	snprintf(ports + used, 64 - used, "%u ", port);
}

STAGED(the_ports_are_those_of_all_addresses,
	"[endpoint http]\napi = web\nprotocol = http\naddress_type = host/port\n"
	"address.1 = 10.9.8.7:8080\naddress.2 = 10.9.8.7:8081\n"
	"[endpoint file]\napi = file\nprotocol = x\naddress_type = path\naddress = /tmp\n"
	"[endpoint portless]\napi = web\nprotocol = x\naddress_type = uri\n"
	"address = x-other://host/\n" DYNAMIC)
{
	char ports[64] = "";
	struct err err = ERR_INIT;
	cr_assert_eq(supply(stage, "more", "[\"a:1\", \"b:2\"]", 0, &err), 0);
	component_each_port(stage->component, on_port, ports);
	cr_assert_str_eq(ports, "8080 8081 1 2 ");
}

/* A process supplies as much as fits into a record, but not with the next configuration. */
static void supply_much(struct stage *stage, const char *endpoint, size_t bytes)
{
	static char host[1000];
	struct err err = ERR_INIT;
	json_t *addresses = json_array();
	memset(host, 'x', sizeof(host) - 1);
	for (; bytes > sizeof(host); bytes -= sizeof(host)) {
		json_array_append_new(
			addresses, json_pack("{s:s, s:s}", "host", host, "port", "1"));
	}
	cr_assert_eq(component_set_addresses(stage->component, endpoint, addresses, 0, &err), 0,
		"%s", err.msg);
	json_decref(addresses);
}

#define TEXT20 "01234567890123456789"
#define TEXT1000                                                                                   \
	TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 \
		TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20       \
			TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20      \
				TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20     \
					TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20 TEXT20

STAGED(a_component_whose_record_cannot_be_made_fails_and_can_still_leave,
	MORE("a") MORE("b") MORE("c"))
{
	static const char larger[] = "description = " TEXT1000 "\n" MORE("a") MORE("b") MORE("c");
	run_to(stage, ANNOUNCE_REGISTERED);
	supply_much(stage, "a", 60000);
	supply_much(stage, "b", 60000);
	supply_much(stage, "c", 10000);
	run_to(stage, ANNOUNCE_REGISTERED);
	reload(stage, larger);
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_FAILED);
	cr_assert(explains(stage, "LimitExceeded: "));
	cr_assert(node_has(stage, PATH, "xxx"));
	component_set_gate(stage->component, COMPONENT_GATE_CLOSED, "drained");
	run_to(stage, ANNOUNCE_WITHDRAWN);
	cr_assert_not(node_has(stage, PATH, ""));
}

STAGED(a_successor_whose_record_cannot_be_made_can_still_remove_the_old_one,
	"persistence = permanent\n" MORE("a") MORE("b") MORE("c"))
{
	run_to(stage, ANNOUNCE_REGISTERED);
	supply_much(stage, "a", 60000);
	supply_much(stage, "b", 60000);
	supply_much(stage, "c", 10000);
	run_to(stage, ANNOUNCE_REGISTERED);
	json_t *saved = component_save(stage->component);
	stage->persistent = json_pack(
		"{s:o}", PATH, announce_persistent(component_announce(stage->component)));
	component_destroy(stage->component);
	stage->component = NULL;
	config_unref(stage->config);
	stage->config = load("persistence = permanent\ndescription = " TEXT1000 "\n" MORE("a")
			MORE("b") MORE("c"));
	checks_anew(stage);
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_CLOSED, "drained");
	run_to(stage, ANNOUNCE_WITHDRAWN);
	cr_assert_not(node_has(stage, PATH, ""));
}

/* ---- keep_last ---- */

#define KEEP "keep_last = yes\n" CHECK("one")
#define SIBLING "/app/c1"
#define LESSER "/app/c3"
#define RECORD(more) "{\"type\":\"JSONServiceRecord\"" more "}"
#define FAILING RECORD(",\"berth:health\":\"failing\"")

static void fail_registered(struct stage *stage)
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	report(stage, "one", CHECK_FAILING);
}

STAGED(the_last_one_stays_and_says_that_it_fails, KEEP)
{
	fail_registered(stage);
	cr_assert_eq(state_of(stage), ANNOUNCE_REGISTERED, "before the others are known");
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "\"berth:health\":\"failing\""));
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(explains(stage, "failing, but the last one: kept; check one: "));
	cr_assert_null(strstr(stage->trail, "withdraw"), "%s", stage->trail);
	memory_put(stage->registry, SIBLING, RECORD(""));
	run_to(stage, ANNOUNCE_WITHDRAWN);
	cr_assert_not_null(strstr(stage->trail, "component c2 registered>withdrawing!; "));
	memory_remove(stage->registry, SIBLING);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "\"berth:health\":\"failing\""));
	report(stage, "one", CHECK_PASSING);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "berth:health"));
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_gt(component_penalty(stage->component), 0);
	cr_assert_leq(component_penalty(stage->component), 1, "one failure, one penalty");
	/* Nobody looks at the others any more. */
	memory_put(stage->registry, SIBLING, RECORD(""));
	cr_assert(node_has(stage, SIBLING, ""));
}

STAGED(of_two_that_fail_the_first_by_path_stays, KEEP)
{
	memory_put(stage->registry, "/app", "");
	memory_put(stage->registry, LESSER, FAILING);
	fail_registered(stage);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "\"berth:health\":\"failing\""));
	memory_put(stage->registry, SIBLING, FAILING);
	run_to(stage, ANNOUNCE_WITHDRAWN);
	/* A component that is out does not come back when another one fails. */
	memory_remove(stage->registry, SIBLING);
	for (int i = 0; i < 5; i++) {
		cr_assert_not(node_has(stage, PATH, ""));
	}
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN);
	memory_remove(stage->registry, LESSER);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_leq(component_penalty(stage->component), 1, "one failure, one penalty");
}

STAGED(one_that_was_never_in_is_not_the_last, KEEP)
{
	report(stage, "one", CHECK_FAILING);
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_WITHDRAWN);
	cr_assert_not(node_has(stage, PATH, ""));
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN);
}

STAGED(without_keep_last_the_last_one_goes_too, CHECK("one"))
{
	fail_registered(stage);
	run_to(stage, ANNOUNCE_WITHDRAWN);
	cr_assert_not(node_has(stage, PATH, ""));
}

/* ---- a successor ---- */

STAGED(a_successor_goes_on_with_the_state_and_its_time, "persistence = permanent\n" CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	json_t *saved = component_save(stage->component);
	cr_assert_str_eq(json_string_value(json_object_get(saved, "state")), "registered");
	cr_assert_str_eq(json_string_value(json_object_get(saved, "condition")), "in");
	json_object_set_new(saved, "since", json_real(1000));
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(announce_since(component_announce(stage->component)) == 1000);
	json_t *shown = component_json(stage->component);
	cr_assert_str_eq(json_string_value(json_object_get(shown, "path")), PATH);
	cr_assert_str_eq(json_string_value(json_object_get(shown, "state")), "registered");
	cr_assert(json_is_true(json_object_get(shown, "registered")));
	cr_assert(json_is_true(json_object_get(shown, "settled")));
	cr_assert(json_is_false(json_object_get(shown, "damped")));
	json_decref(shown);
}

/* The endpoints of the record that is there are not taken out before their checks have spoken. */
STAGED(a_successor_leaves_the_record_whole_until_each_check_has_spoken,
	"persistence = permanent\nid = c_1\n" HTTP CHECK("one") CHECK("two") "endpoints = http\n")
{
	report(stage, "one", CHECK_PASSING);
	report(stage, "two", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "8080"));
	component_destroy(stage->component);
	stage->component = NULL;
	checks_anew(stage);
	component_anew(stage, NULL);
	report(stage, "one", CHECK_PASSING);
	cr_assert(node_has(stage, PATH, "8080"), "before the gate is decided");
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	RUN_UNTIL(stage->loop, component_registered(stage->component));
	report(stage, "one", CHECK_PASSING);
	cr_assert(node_has(stage, PATH, "8080"));
	cr_assert(component_registered(stage->component));
	report(stage, "two", CHECK_FAILING);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "8080"));
	run_to(stage, ANNOUNCE_REGISTERED);
}

/* Its predecessor's record goes without an alarm: the predecessor has reported the failure. */
STAGED(a_successor_that_fails_from_the_start_has_never_been_in,
	"persistence = permanent\nid = c_1\n" CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	component_destroy(stage->component);
	stage->component = NULL;
	checks_anew(stage);
	component_anew(stage, NULL);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	stage->trail[0] = '\0';
	report(stage, "one", CHECK_FAILING);
	run_to(stage, ANNOUNCE_WITHDRAWN);
	cr_assert_not(node_has(stage, PATH, ""));
	cr_assert_null(strchr(stage->trail, '!'), "%s", stage->trail);
	cr_assert_eq(component_penalty(stage->component), 0);
}

STAGED(a_successor_begins_anew_from_a_condition_that_it_does_not_know, CHECK("one"))
{
	json_t *saved = component_save(stage->component);
	json_object_set_new(saved, "condition", json_string("resting"));
	json_object_set_new(saved, "state", json_string("resting"));
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	saved = component_save(stage->component);
	cr_assert_str_eq(json_string_value(json_object_get(saved, "condition")), "new");
	json_decref(saved);
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
}

STAGED(a_reload_may_take_over_another_record, HTTP)
{
	memory_put(stage->registry, PATH, RECORD(",\"yarn:id\":\"c_9\""));
	reload(stage, "id = c_1\n" HTTP);
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_CONFLICT);
	reload(stage, "id = c_1\non_conflict = takeover\n" HTTP);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert(node_has(stage, PATH, "c_1"));
}

STAGED(a_reload_may_make_a_record_persistent, "id = c_1\n" HTTP)
{
	run_to(stage, ANNOUNCE_REGISTERED);
	reload(stage, "id = c_1\npersistence = permanent\n" HTTP);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "permanent"));
	run_to(stage, ANNOUNCE_REGISTERED);
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_WAITING);
	cr_assert(announce_outlasts_outage(component_announce(stage->component)));
}

STAGED(a_component_keeps_the_configuration_of_its_reload, HTTP)
{
	reload(stage, "description = other\n" HTTP);
	config_unref(stage->config);
	stage->config = NULL;
	json_t *shown = component_json(stage->component);
	cr_assert_str_eq(json_string_value(json_object_get(shown, "path")), PATH);
	json_decref(shown);
}
