/* The agent's registry: how it is opened; who hears of its states, attempts and answers. */
#include "lib/base/array.h"
#include "tests/unit/agent/registration/opened_stage.h"

#include "agent/base/log.h"
#include "tests/support/descriptors.h"

#define QUICK "[registry]\nupdate_interval = 0s\n"
#define A QUICK COMPONENT("a")
#define TWO A COMPONENT("b")

/* ---- how it is opened ---- */

static const struct registry_options *options_of(int number)
{
	return &seams.opened[number].options;
}

#define IMPORT(name, type)                                                                         \
	"[import " name "]\ntype = " type "\nfrom = /old/" name "\nas = /new/" name "\n"

/* ---- its states ---- */

OPENED(registry, all_hear_of_an_outage, TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->bridge = NEIGHBOUR;
	stage->wakes = 0;
	seams.told[0] = '\0';
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_AWAY);
	cr_expect(strstr(seams.told, "shared away; ") != NULL);
	cr_expect(strstr(seams.told, "cache away; ") != NULL);
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
}

OPENED(registry, a_lost_session_counts_and_everything_is_registered_anew, TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	memory_set_state(agent->registry, REGISTRY_LOST);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_LOST);
	cr_expect(measures(agent->metrics, "berth_registry_session_expirations_total 1"));
	cr_expect_not(other_sees(stage, "/app/a"));
	memory_set_state(agent->registry, REGISTRY_CONNECTED);
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/a"));
	cr_expect(other_sees(stage, "/app/b"));
	cr_expect(measures(agent->metrics, "berth_registry_session_expirations_total 1"));
	cr_expect_str_eq(agent->registry_error, "");
}

/* How often the history has an attempt to connect. */
static int attempts(const struct agent *agent, const char *why)
{
	json_t *history = history_json(agent->history, false);
	size_t index;
	json_t *entry;
	int count = 0;
	json_array_foreach (history, index, entry) {
		if (strcmp(json_string_value(json_object_get(entry, "why")), why) == 0) {
			json_t *times = json_object_get(entry, "count");
			count += times ? (int)json_integer_value(times) : 1;
		}
	}
	json_decref(history);
	return count;
}

OPENED(registry, an_attempt_that_fails_is_a_reason_for_everything, TWO)
{
	struct agent *agent = stage->agent;
	const struct registry_options *options = options_of(0);
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
	cr_expect_eq(attempts(agent, "refused, attempt 3"), 1);
	options->on_attempt(options->context, "refused", 3);
	cr_expect_eq(attempts(agent, "refused, attempt 3"), 2);
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

/* ---- the root ---- */

static void connect_with(struct opened *stage, const char *failing, int code)
{
	let_fail(stage, failing, code, NULL, 0);
	run_to_records(stage);
}

OPENED(registry, a_root_that_is_missing_is_made, A)
{
	connect_with(stage, "stat /", BERTH_PATH_NOT_FOUND);
	run_a_while(stage);
	cr_expect(was_asked(stage, "create /; "));
}

/* ---- imports ---- */

/* Is there something at the path, as those see it who use the agent's registry? */
static bool is_seen(struct registry *registry, const char *path)
{
	struct answer answer = { 0 };
	client_add(registry);
	int code = client_stat(registry, path, &answer);
	answer_clear(&answer);
	client_forget(registry);
	return code == 0;
}

OPENED(registry, imports_are_mounted_and_a_reload_changes_them,
	A IMPORT("s", "serverset") IMPORT("n", "nerve"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	cr_expect(is_seen(agent->registry, "/new/s"));
	cr_expect(is_seen(agent->registry, "/new/n"));
	cr_expect_not(is_seen(agent->registry, "/new/m"));
	agent_components_reload(agent, load(&stage->wiring, A IMPORT("m", "mesos")));
	agent_registry_apply_options(agent);
	cr_expect(is_seen(agent->registry, "/new/m"));
	cr_expect_not(is_seen(agent->registry, "/new/s"));
	cr_expect_not(is_seen(agent->registry, "/new/n"));
	cr_expect_not(was_logged("the imports stay"));
}

/* ---- credentials ---- */

OPENED(registry, credentials_are_read_again, A)
{
	run_to_records(stage);
	agent_registry_reauthenticate(stage->agent);
	cr_expect(was_told("registry reauthenticates; "));
	cr_expect_not(was_logged("the credentials stay"));
	seams.reauthenticate = true;
	agent_registry_reauthenticate(stage->agent);
	cr_expect(was_logged("the credentials stay as they are: the test refuses them"));
}
