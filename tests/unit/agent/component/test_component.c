/* A whole component: what its checks, gate, damping and siblings make of its record. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/registry_loop.h"
#include "agent/component/component.h"
#include "lib/record/record.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/run_until.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

static const char PATH[] = "/app/c2";
static const char *const parents[] = { "//spring", "//spring/app", "//spring/app2", "//spring/app3",
	"//example", "//example/web" };

struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_loop driver;
	struct check_scheduler *scheduler;
	struct check_set *checks;
	struct config *config;
	struct component *component;
	int64_t update_interval_ms;
	int announced;    /* on_announced */
	int writes;       /* on_write */
	char trail[2048]; /* the transitions: "subject from>to; ", with "!" for trouble */
	char whys[4096];  /* their reasons */
};

#define CHECK(name) "[check " name "]\ntype = ttl\ninterval = 1h\nfall = 1\n"
#define HTTP                                                                                       \
	"[endpoint http]\napi = web\nprotocol = http\naddress_type = host/port\n"                  \
	"address = 10.9.8.7:8080\n"
#define DYNAMIC                                                                                    \
	"[endpoint more]\napi = more\nprotocol = tcp\naddress_type = host/port\ndynamic = yes\n"

static void add(char *text, size_t size, const char *part)
{
	size_t used = strlen(text);
	snprintf(text + used, size - used, "%s; ", part);
}

static void on_transition(void *context, const struct transition *transition)
{
	struct stage *stage = context;
	char line[300];
	cr_expect_str_eq(transition->component, "c2");
	snprintf(line, sizeof(line), "%s %s>%s%s", transition->subject, transition->from,
		transition->to, transition->trouble ? "!" : "");
	add(stage->trail, sizeof(stage->trail), line);
	add(stage->whys, sizeof(stage->whys), transition->why);
}

static void on_announced(void *context, struct component *component)
{
	(void)component;
	((struct stage *)context)->announced++;
}

static void on_write(void *context, struct component *component)
{
	(void)component;
	((struct stage *)context)->writes++;
}

static void on_registry_state(void *context, enum registry_state state, const char *why)
{
	const struct stage *stage = context;
	if (stage->component) {
		component_on_registry_state(stage->component, state, why);
	}
}

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	(void)result;
}

static void on_check_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	(void)from;
	(void)to;
	(void)why;
	const struct stage *stage = context;
	component_check_changed(stage->component, check);
}

static struct config *load(const char *text)
{
	char folder[SCRATCH_PATH];
	char path[SCRATCH_PATH + 16];
	scratch_folder(folder);
	snprintf(path, sizeof(path), "%s/berth.ini", folder);
	FILE *file = fopen(path, "w");
	cr_assert_not_null(file);
	fprintf(file, "[component]\npath = %s\n%s", PATH, text);
	fclose(file);
	struct config *config = NULL;
	struct config_problems problems;
	int code = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	config_problems_finish(&problems);
	cr_assert_eq(code, 0);
	unlink(path);
	rmdir(folder);
	return config;
}

static struct component_environment environment_of(struct stage *stage)
{
	return (struct component_environment){
		.loop = stage->loop,
		.registry = stage->registry,
		.checks = stage->checks,
		.update_interval_ms = stage->update_interval_ms,
		.on_transition = on_transition,
		.on_announced = on_announced,
		.on_write = on_write,
		.context = stage,
	};
}

static void component_anew(struct stage *stage, const json_t *saved)
{
	const struct component_environment environment = environment_of(stage);
	component_destroy(stage->component);
	stage->component = component_create(&environment, &stage->config->components[0], saved);
}

static void checks_anew(struct stage *stage)
{
	const struct check_callbacks callbacks = { on_result, on_check_change, stage };
	check_set_destroy(stage->checks);
	stage->checks = check_set_create(stage->scheduler, &callbacks);
	check_set_arrange(stage->checks, stage->config, NULL);
}

static struct stage *stage_begin(struct stage *stage, const char *text)
{
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO), .config = load(text) };
	const struct registry_options registry = {
		.foreign_paths = true, .on_state = on_registry_state, .context = stage
	};
	stage->registry = memory_open("component", &registry);
	registry_loop_init(&stage->driver, stage->loop, stage->registry);
	stage->scheduler = check_scheduler_create(stage->loop, 4);
	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
		memory_put(stage->registry, parents[i], "");
	}
	checks_anew(stage);
	component_anew(stage, NULL);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	return stage;
}

static void stage_end(struct stage *stage)
{
	component_destroy(stage->component);
	check_set_destroy(stage->checks);
	check_scheduler_destroy(stage->scheduler);
	config_unref(stage->config);
	registry_loop_finish(&stage->driver);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

/* A component with these lines behind its path; its gate is open. */
#define STAGED(name, text)                                                                         \
	STAGED_TEST(component, name, struct stage *, stage,                                        \
		stage_begin(&(struct stage){ 0 }, text), stage_end)

/* A reload with another configuration, whose checks stay as they are. */
static void reload(struct stage *stage, const char *text)
{
	struct config *config = load(text);
	check_set_arrange(stage->checks, config, NULL);
	const struct component_environment environment = environment_of(stage);
	component_reload(stage->component, &config->components[0], &environment);
	config_unref(stage->config);
	stage->config = config;
}

static void report(struct stage *stage, const char *name, enum check_verdict verdict)
{
	struct err err = ERR_INIT;
	struct check *check = check_set_find(stage->checks, name);
	cr_assert_eq(check_report(check, verdict, "as it said", &err), 0, "%s", err.msg);
}

static enum announce_state state_of(const struct stage *stage)
{
	return announce_get_state(component_announce(stage->component));
}

static void run_to(struct stage *stage, enum announce_state state)
{
	RUN_UNTIL(stage->loop, state_of(stage) == state && component_settled(stage->component));
}

static bool explains(const struct stage *stage, const char *text)
{
	return strstr(announce_why(component_announce(stage->component)), text) != NULL;
}

/* Whether a node is there and holds the text. */
static bool node_has(struct stage *stage, const char *path, const char *text)
{
	struct answer answer = { 0 };
	cr_assert_not_null(registry_get(stage->registry, path, answer_take, &answer));
	RUN_UNTIL(stage->loop, answer.calls > 0);
	bool has = answer.err.code == 0 && strstr(answer.data, text);
	answer_clear(&answer);
	return has;
}

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
	cr_assert_eq(stage->writes, 0, "an ephemeral record is not noted");
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
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
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

STAGED(addresses_that_a_connection_holds_end_with_it, DYNAMIC "hold = connection\n" HTTP)
{
	struct err err = ERR_INIT;
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(supply(stage, "more", "[\"a:1\"]", 7, &err), 0);
	component_connection_closed(stage->component, 6);
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "more"));
	json_t *saved = component_save(stage->component);
	component_connection_closed(stage->component, 7);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "more"));
	/* A successor has the addresses, and the connection that holds them. */
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	RUN_UNTIL(stage->loop, node_has(stage, PATH, "more"));
	component_connection_closed(stage->component, 7);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "more"));
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

/* ---- flap damping ---- */

#define DAMPING "damping_suppress = 1.5\ndamping_half_life = 7d\n"

static void flap(struct stage *stage)
{
	run_to(stage, ANNOUNCE_REGISTERED);
	report(stage, "one", CHECK_FAILING);
	run_to(stage, ANNOUNCE_WITHDRAWN);
	report(stage, "one", CHECK_PASSING);
}

STAGED(a_component_that_flaps_is_held_out_until_it_is_let_in, DAMPING CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	cr_assert_eq(component_penalty(stage->component), 0);
	flap(stage);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_float_eq(component_penalty(stage->component), 1, 0.01);
	cr_assert_not(component_damped(stage->component));
	flap(stage);
	cr_assert(component_damped(stage->component));
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN);
	cr_assert(explains(stage,
		"flap damping holds it out until its penalty has decayed to 1, "
		"at 2"));
	cr_assert_not_null(strstr(stage->trail, "damping of c2 free>held; "));
	cr_assert_null(strstr(stage->whys, "; its penalty has decayed;"));
	report(stage, "one", CHECK_FAILING);
	cr_assert_float_eq(component_penalty(stage->component), 3, 0.01);
	report(stage, "one", CHECK_WARNING);
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN);
	component_undamp(stage->component);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_not(component_damped(stage->component));
	cr_assert_eq(component_penalty(stage->component), 0);
	cr_assert_not_null(strstr(stage->trail, "damping of c2 held>free; "));
}

STAGED(damping_lasts_through_a_restart, DAMPING CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	flap(stage);
	flap(stage);
	cr_assert(component_damped(stage->component));
	json_t *saved = component_save(stage->component);
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	cr_assert(component_damped(stage->component));
	cr_assert_float_eq(component_penalty(stage->component), 2, 0.01);
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_WITHDRAWN);
	reload(stage, "damping = no\n" CHECK("one"));
	run_to(stage, ANNOUNCE_REGISTERED);
}

STAGED(a_failure_after_a_restart_is_flapping, DAMPING CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	json_t *saved = component_save(stage->component);
	component_destroy(stage->component);
	stage->component = NULL;
	checks_anew(stage);
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	report(stage, "one", CHECK_FAILING);
	cr_assert_float_eq(component_penalty(stage->component), 1, 0.01);
}

static void on_end(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)timer;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

STAGED(a_component_that_is_in_leaves_the_loop_alone, CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	ev_timer end;
	ev_timer_init(&end, on_end, 0.05, 0.);
	ev_timer_start(stage->loop, &end);
	unsigned before = ev_iteration(stage->loop);
	ev_run(stage->loop, 0);
	cr_assert_lt(ev_iteration(stage->loop) - before, 4);
}

STAGED(a_penalty_that_has_decayed_lets_it_in,
	"damping_suppress = 0.5\ndamping_reuse = 0.4\ndamping_half_life = 150ms\n" CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	flap(stage);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_not_null(strstr(stage->trail, "damping of c2 free>held; "));
	cr_assert_not_null(strstr(stage->trail, "damping of c2 held>free; "));
	cr_assert_not_null(strstr(stage->whys, "its penalty has decayed"));
}

STAGED(a_failure_while_the_gate_is_closed_is_no_flapping, DAMPING CHECK("one"))
{
	report(stage, "one", CHECK_FAILING);
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(component_penalty(stage->component), 0, "it had never been in");
	component_set_gate(stage->component, COMPONENT_GATE_CLOSED, "drained");
	report(stage, "one", CHECK_FAILING);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(component_penalty(stage->component), 0);
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
	/* One that is out does not come back for another that fails. */
	memory_remove(stage->registry, SIBLING);
	cr_assert_not(node_has(stage, PATH, ""));
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN);
	memory_remove(stage->registry, LESSER);
	run_to(stage, ANNOUNCE_REGISTERED);
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

/* ---- dialects ---- */

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
	size_t watches = registry_watch_count(stage->registry);
	reload(stage, HTTP REGISTRAR("c.web.example"));
	RUN_UNTIL(stage->loop, component_finished(stage->component));
	reload(stage, HTTP REGISTRAR("c.web.example"));
	cr_assert_not(node_has(stage, "//example/web/a", ""));
	cr_assert_not(node_has(stage, "//example/web/b", ""));
	cr_assert(node_has(stage, "//example/web/c", "10.9.8.7"));
	cr_assert_eq(registry_watch_count(stage->registry), watches - 1);
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
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	RUN_UNTIL(stage->loop, component_registered(stage->component));
	report(stage, "one", CHECK_PASSING);
	cr_assert(node_has(stage, PATH, "8080"));
	cr_assert(component_registered(stage->component));
	report(stage, "two", CHECK_FAILING);
	RUN_UNTIL(stage->loop, !node_has(stage, PATH, "8080"));
	run_to(stage, ANNOUNCE_REGISTERED);
}
