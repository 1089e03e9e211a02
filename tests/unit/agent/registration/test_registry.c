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

OPENED(registry, it_is_opened_as_configured,
	"[registry]\nurl = dir:/r\nsession_timeout = 7s\nsystem_accounts = sasl:me@\n"
	"realm = EXAMPLE\n" COMPONENT("a"))
{
	(void)stage;
	const struct registry_options *options = options_of(0);
	cr_expect_eq(seams.openings, 1);
	cr_expect_str_eq(seams.opened[0].url, "dir:/r");
	cr_expect_str_eq(seams.opened[0].session, "");
	cr_expect_eq(options->session_timeout_ms, 7000);
	cr_expect(options->ends_in_silence, "a frozen agent's records go");
	cr_expect_str_eq(options->system_accounts, "sasl:me@");
	cr_expect_str_eq(options->realm, "EXAMPLE");
	cr_expect(options->forks);
	cr_expect(options->foreign_paths);
	cr_expect_not(options->home_write);
	cr_expect_str_eq(options->hidden, "/net");
}

#define HADOOP "[component c]\nlayout = hadoop\nuser = joe\nservice_class = web\ninstance = one\n"

OPENED(registry, users_may_write_their_homes_where_the_first_component_has_hadoops_layout,
	HADOOP COMPONENT("a"))
{
	(void)stage;
	cr_expect(options_of(0)->home_write);
}

OPENED(registry, users_may_write_their_homes_where_the_last_component_has_hadoops_layout, A HADOOP)
{
	(void)stage;
	cr_expect(options_of(0)->home_write);
}

/* Opens the registry in vain; the code. */
static int refused(struct opened *stage, struct err *err)
{
	int descriptors = descriptors_count();
	int code = opened_open(stage, NULL, err);
	cr_expect_eq(code, err->code);
	cr_expect_null(stage->agent->registry);
	cr_expect_null(stage->agent->lookups);
	cr_expect_not(stage->agent->session_resumed);
	opened_end_agent(stage);
	cr_expect_eq(descriptors_count(), descriptors, "nothing is left open");
	return code;
}

Test(registry, one_that_cannot_be_opened_is_none)
{
	struct opened stage = { .other = NULL };
	struct err err = ERR_INIT;
	opened_prepare(&stage, A);
	seams.refused = 1;
	cr_expect_eq(refused(&stage, &err), BERTH_FAILED);
	cr_expect_str_eq(err.msg, "the test refuses it");
	opened_finish(&stage);
}

Test(registry, without_the_hosts_view_there_is_no_registry)
{
	struct opened stage = { .other = NULL };
	struct err err = ERR_INIT;
	opened_prepare(&stage, "[registry]\nurl = host:/h\n" COMPONENT("a"));
	seams.refused = 2;
	cr_expect_eq(refused(&stage, &err), BERTH_FAILED);
	cr_expect_str_eq(err.msg, "the test refuses it");
	cr_expect_eq(seams.openings, 2);
	opened_finish(&stage);
}

#define IMPORT(name, type)                                                                         \
	"[import " name "]\ntype = " type "\nfrom = /old/" name "\nas = /new/" name "\n"

Test(registry, without_its_imports_there_is_no_registry)
{
	struct opened stage = { .other = NULL };
	struct err err = ERR_INIT;
	opened_prepare(&stage, A IMPORT("a", "serverset") IMPORT("b", "nerve"));
	const struct config *config = stage.agent->config;
	char *own = config->imports[1].as;
	config->imports[1].as = config->imports[0].as;
	cr_expect_eq(refused(&stage, &err), BERTH_INVALID_PATHNAME, "%s", err.msg);
	config->imports[1].as = own;
	opened_finish(&stage);
}

/* ---- its states ---- */

OPENED(registry, all_hear_of_a_connection, TWO)
{
	struct agent *agent = stage->agent;
	agent->bridge = NEIGHBOUR;
	cr_expect_gt(agent->registry_since, 0);
	cr_expect(measures(agent->metrics, "berth_registry_connected 1") == false);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_CONNECTED);
	cr_expect(strstr(seams.told, "shared connected; ") != NULL);
	cr_expect(strstr(seams.told, "cache connected; ") != NULL);
	cr_expect(strstr(seams.told, "bridge connected; ") != NULL);
	cr_expect(was_told("api follows; "));
	cr_expect(tells(&stage->wiring, "registry", "connected"));
	cr_expect_str_eq(agent->registry_error, "");
	cr_expect(measures(agent->metrics, "berth_registry_connected 1"));
	run_to_records(stage);
	agent->bridge = NULL;
}

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

OPENED(registry, without_an_api_and_a_bridge_states_change_too, A)
{
	struct agent *agent = stage->agent;
	agent->api = NULL;
	run_to_records(stage);
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_AWAY);
	agent->api = NEIGHBOUR;
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

/* ---- its messages and answers ---- */

OPENED(registry, its_messages_keep_their_levels, A)
{
	const struct registry_options *options = options_of(0);
	static const struct {
		enum registry_log_level level;
		enum log_level shown; /* the last level at which it is not shown */
		const char *line;
	} rows[] = { { REGISTRY_LOG_WARN, LOG_LEVEL_ERROR, "warn" },
		{ REGISTRY_LOG_INFO, LOG_LEVEL_WARN, "info" },
		{ REGISTRY_LOG_DEBUG, LOG_LEVEL_INFO, "debug" } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		log_set(rows[i].shown, false);
		options->on_log(stage->agent, rows[i].level, "a word");
		cr_expect_not(was_logged("a word"), "%s", rows[i].line);
		log_set(rows[i].shown + 1, false);
		options->on_log(stage->agent, rows[i].level, "a word");
		cr_expect(was_logged("a word"), "%s", rows[i].line);
	}
	log_set(LOG_LEVEL_ERROR, false);
	options->on_log(stage->agent, REGISTRY_LOG_ERROR, "a word");
	cr_expect(was_logged("registry: a word\n"));
	agent_registry_log(REGISTRY_LOG_ERROR, "east", "a word");
	cr_expect(was_logged("registry: east: a word\n"));
	log_set(LOG_LEVEL_INFO, false);
}

static bool counts(const struct agent *agent, const char *registry, const char *result, int count)
{
	char line[200];
	snprintf(line, sizeof(line),
		"berth_registry_request_duration_seconds_count{%s%sresult=\"%s\"} %d", registry,
		*registry ? "," : "", result, count);
	return measures(agent->metrics, line);
}

OPENED(registry, requests_are_counted_by_their_results_from_0_on, A)
{
	const struct agent *agent = stage->agent;
	static const char *const results[] = { "ok", "refused", "timeout", "unavailable" };
	for (size_t i = 0; i < 4; i++) {
		cr_expect(counts(agent, "", results[i], 0), "%s", results[i]);
	}
	agent_registry_count(agent, "", 0, 0.1);
	agent_registry_count(agent, "", BERTH_PATH_NOT_FOUND, 0.1);
	cr_expect(counts(agent, "", "ok", 2), "no such path is an answer, too");
	agent_registry_count(agent, "", BERTH_TIMEOUT, 0.1);
	cr_expect(counts(agent, "", "timeout", 1));
	agent_registry_count(agent, "", BERTH_REGISTRY_UNAVAILABLE, 0.1);
	cr_expect(counts(agent, "", "unavailable", 1));
	agent_registry_count(agent, "", BERTH_NO_PATH_PERMISSIONS, 0.1);
	cr_expect(counts(agent, "", "refused", 1));
	agent_registry_count(agent, "east", BERTH_TIMEOUT, 0.1);
	cr_expect(counts(agent, "registry=\"east\"", "timeout", 1));
	cr_expect(counts(agent, "", "timeout", 1));
	const struct registry_options *options = options_of(0);
	options->on_answer(stage->agent, BERTH_TIMEOUT, 0.1);
	cr_expect(counts(agent, "", "timeout", 2));
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

OPENED(registry, a_root_that_is_there_is_left_alone, A)
{
	run_to_records(stage);
	run_a_while(stage);
	cr_expect(strstr(stage->asked, "stat /; ") != NULL);
	cr_expect_not(was_asked(stage, "create /; "));
	cr_expect_not(was_logged("cannot make the registry's root"));
}

OPENED(registry, a_root_that_nobody_can_see_is_not_made, A)
{
	connect_with(stage, "stat /", BERTH_TIMEOUT);
	run_a_while(stage);
	cr_expect_not(was_asked(stage, "create /; "));
}

/* The root is missing, and an attempt to make it has this result. */
static bool complains_of_root(struct opened *stage, int code)
{
	let_fail(stage, "stat /", BERTH_PATH_NOT_FOUND, "create /", code);
	(void)was_logged("");
	reconnect(stage);
	RUN_UNTIL(stage->agent->loop, strstr(stage->asked, "create /; ") != NULL);
	run_a_while(stage);
	return was_logged("cannot make the registry's root");
}

OPENED(registry, a_root_that_cannot_be_made_is_logged, A)
{
	run_to_records(stage);
	cr_expect(complains_of_root(stage, BERTH_NO_PATH_PERMISSIONS));
	cr_expect_not(complains_of_root(stage, BERTH_TIMEOUT), "another attempt comes");
	cr_expect_not(complains_of_root(stage, 0));
}

/* ---- imports ---- */

#define ALL_IMPORTS                                                                                \
	IMPORT("r", "registrar")                                                                   \
	IMPORT("s", "serverset")                                                                   \
	IMPORT("c", "curator")                                                                     \
	IMPORT("p", "spring")                                                                      \
	IMPORT("n", "nerve")                                                                       \
	IMPORT("m", "mesos")

OPENED(registry, imports_are_listed_with_their_types, A ALL_IMPORTS)
{
	static const char *const types[] = { "registrar", "serverset", "curator", "spring", "nerve",
		"mesos" };
	json_t *imports = agent_registry_imports_json(stage->agent);
	cr_assert_eq(json_array_size(imports), 6);
	for (size_t i = 0; i < 6; i++) {
		const json_t *import = json_array_get(imports, i);
		cr_expect_str_eq(json_string_value(json_object_get(import, "type")), types[i]);
	}
	const json_t *first = json_array_get(imports, 0);
	cr_expect_str_eq(json_string_value(json_object_get(first, "name")), "r");
	cr_expect_str_eq(json_string_value(json_object_get(first, "from")), "/old/r");
	cr_expect_str_eq(json_string_value(json_object_get(first, "as")), "/new/r");
	json_decref(imports);
}

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

OPENED(registry, imports_that_cannot_be_mounted_leave_those_before,
	A IMPORT("s", "serverset") IMPORT("n", "nerve"))
{
	struct agent *agent = stage->agent;
	struct err err = ERR_INIT;
	run_to_records(stage);
	char *own = agent->config->imports[1].as;
	agent->config->imports[1].as = agent->config->imports[0].as;
	agent_registry_apply_options(agent);
	cr_expect(was_logged("the imports stay as they were: "));
	cr_expect_neq(agent_registry_set_imports(agent, agent->registry, "", &err), 0);
	agent->config->imports[1].as = own;
	cr_expect(is_seen(agent->registry, "/new/n"));
}

OPENED(registry, imports_of_a_further_registry_are_mounted_there,
	A IMPORT("s", "serverset") "[registry east]\nurl = dir:/east\n"
				   "[import far]\ntype = nerve\nfrom = /old/far\n"
				   "as = /net/east/far\n")
{
	struct agent *agent = stage->agent;
	struct err err = ERR_INIT;
	run_to_records(stage);
	cr_expect_not(is_seen(agent->registry, "/net/east/far"));
	struct registry *east = memory_open(
		"east", &(struct registry_options){ .at = "/net/east", .foreign_paths = true });
	cr_expect_eq(agent_registry_set_imports(agent, east, "/net/east", &err), 0, "%s", err.msg);
	cr_expect(is_seen(east, "/net/east/far"));
	registry_close(east);
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
