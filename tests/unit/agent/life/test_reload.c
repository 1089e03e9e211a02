/* A reload: what is read again, what it changes, and what becomes of mistakes. */
#include "tests/unit/agent/life/life_stage.h"

static json_t *reload(struct life *life, const char *how)
{
	char target[64];
	snprintf(target, sizeof(target), "/v1/agent/reload%s", how);
	return life_ask(life, "POST", target, NULL);
}

static void reload_to(struct life *life, const char *text)
{
	life_configure(life, text);
	json_decref(reload(life, ""));
	cr_assert_str_eq(life->problem, "");
}

static bool check_runs(struct life *life, size_t index)
{
	json_t *checks = life_ask(life, "GET", "/v1/agent/checks", NULL);
	bool runs = json_is_true(json_object_get(json_array_get(checks, index), "running"));
	json_decref(checks);
	return runs;
}

static bool has_metric(struct life *life, const char *line)
{
	char *text = life_metrics(life);
	bool found = strstr(text, line) != NULL;
	free(text);
	return found;
}

/* The time of the reload that is in force. */
static double reloaded_at(struct life *life)
{
	static const char name[] = "\nberth_config_last_reload_success_timestamp_seconds ";
	char *text = life_metrics(life);
	const char *line = strstr(text, name);
	cr_assert_not_null(line);
	double time = atof(line + strlen(name));
	free(text);
	return time;
}

LIFE(reload, the_components_become_those_of_the_file, LIFE_COMPONENT("a") LIFE_COMPONENT("b"))
{
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	double before = reloaded_at(life);
	life_pass(life, 1000);
	life_configure(life, LIFE_COMPONENT("b") LIFE_COMPONENT("c"));
	cr_assert_eq(kill(life->pid, SIGHUP), 0);
	cr_expect_str_eq(life_told(life), "RELOADING=1");
	cr_expect_str_eq(life_told(life), "READY=1");
	cr_expect_str_eq(life_last(life, "config"), "in force > reloaded (on request)");
	cr_expect_str_eq(life_shows(life, "components.0.name"), "\"b\"");
	cr_expect_str_eq(life_shows(life, "components.1.name"), "\"c\"");
	cr_expect_str_eq(life_shows(life, "components.2"), "absent");
	cr_expect_str_eq(life_shows(life, "reload_problems"), "null");
	cr_expect_gt(reloaded_at(life), before + 998);
	LIFE_UNTIL(life_is_ready(life));
	LIFE_UNTIL(!has_metric(life, "berth_registered{component=\"a\"}"));
	json_t *gone = life_ask(life, "GET", "/v1/resolve/app/a", NULL);
	cr_expect_null(gone);
}

LIFE(reload, a_mistake_leaves_everything_as_it_is, LIFE_COMPONENT("a"))
{
	char line[SCRATCH_PATH + 64];
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	double before = reloaded_at(life);
	life_pass(life, 1000);
	life_configure(life, "nonsense = 1\n" LIFE_COMPONENT("b"));
	json_decref(reload(life, ""));
	cr_expect_not_null(strstr(life->problem, "nonsense"), "%s", life->problem);
	cr_expect_str_eq(life_told(life), "RELOADING=1");
	cr_expect_str_eq(life_told(life), "READY=1");
	cr_expect_str_eq(life_last(life, "config"),
		"in force > refused (the new configuration is bad, the old one stays)");
	cr_expect_str_eq(life_shows(life, "components.0.name"), "\"a\"");
	cr_expect_not_null(strstr(life_shows(life, "reload_problems"), "nonsense"));
	cr_expect_eq(reloaded_at(life), before);
	cr_expect(has_metric(life, "berth_config_last_reload_successful 0\n"));
	snprintf(line, sizeof(line), "error config: %s:7: ", life_path(life, "berth.ini"));
	cr_expect(life_logs(life, line), "%s", life_read(life, "log"));

	reload_to(life, LIFE_COMPONENT("b"));
	cr_expect_str_eq(life_shows(life, "reload_problems"), "null");
	cr_expect_str_eq(life_shows(life, "components.0.name"), "\"b\"");
	cr_expect(has_metric(life, "berth_config_last_reload_successful 1\n"));
}

LIFE(reload, another_registry_takes_a_restart, "")
{
	char text[1024];
	life_start(life, NULL);
	snprintf(text, sizeof(text),
		"[registry]\nurl = dir:%s/other\n[agent]\nsocket = %s/sock\nstate_dir = %s/state\n",
		life->folder, life->folder, life->folder);
	life_write(life, "berth.ini", text);
	json_decref(reload(life, ""));
	cr_expect_not_null(strstr(life->problem, "url"), "%s", life->problem);
	json_decref(reload(life, "?dry_run=yes"));
	cr_expect_not_null(strstr(life->problem, "url"), "%s", life->problem);
}

LIFE(reload, a_dry_run_tells_the_changes_and_makes_none, LIFE_COMPONENT("a"))
{
	life_start(life, NULL);
	life_configure(life, LIFE_COMPONENT("a") LIFE_COMPONENT("b"));
	json_t *answer = reload(life, "?dry_run=yes");
	cr_assert_not_null(answer, "%s", life->problem);
	cr_expect(json_is_false(json_object_get(answer, "reloaded")));
	const json_t *changes = json_object_get(answer, "changes");
	cr_assert_eq(json_array_size(changes), 1);
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(changes, 0), "section")),
		"component b");
	json_decref(answer);
	cr_expect_str_eq(life_shows(life, "components.1"), "absent");
	cr_expect_str_eq(life_last(life, "config"), "");

	life_configure(life, "nonsense = 1\n" LIFE_COMPONENT("a"));
	json_decref(reload(life, "?dry_run=yes"));
	cr_expect_not_null(strstr(life->problem, "nonsense"), "%s", life->problem);
	cr_expect_str_eq(life_shows(life, "reload_problems"), "null");
}

LIFE(reload, an_agent_that_stops_does_not_read_it_again, "drain_delay = 1h\n" LIFE_COMPONENT("a"))
{
	static const char *const how[] = { "", "?dry_run=yes" };
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	life_stand();
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	cr_expect_str_eq(life_told(life), "STOPPING=1");
	LIFE_UNTIL(strcmp(life_shows(life, "phase"), "\"lingering\"") == 0);
	for (size_t i = 0; i < 2; i++) {
		json_decref(reload(life, how[i]));
		cr_expect_not_null(
			strstr(life->problem, "the agent is stopping, and does not read it again"),
			"%s", life->problem);
		cr_expect_not_null(strstr(life->problem, "berth.ini"), "%s", life->problem);
		cr_expect_not_null(strstr(life->problem, "\"line\":0"), "%s", life->problem);
	}
	cr_expect_str_eq(life_last(life, "config"), "");
	life_pass(life, 3599);
	cr_expect_str_eq(life_shows(life, "phase"), "\"lingering\"");
	life_pass(life, 2);
	cr_expect_eq(life_wait(life), 0);
}

LIFE(reload, a_socket_that_was_removed_is_made_again, "")
{
	life_start(life, NULL);
	cr_assert_eq(unlink(life_path(life, "sock")), 0);
	cr_assert_eq(kill(life->pid, SIGHUP), 0);
	cr_expect_str_eq(life_told(life), "RELOADING=1");
	cr_expect_str_eq(life_told(life), "READY=1");
	cr_expect(life_has(life, "sock"));
	cr_expect_str_eq(life_last(life, "config"), "in force > reloaded (on request)");
}

/* ---- options that may change ---- */

#define SLEEPERS                                                                                   \
	LIFE_COMPONENT("a")                                                                        \
	"[check c]\ncommand = sleep 1000\ntimeout = 1000s\n[check d]\ncommand = sleep 1000\n"      \
	"timeout = 1000s\n"

LIFE(reload, more_checks_run_at_a_time, "max_parallel_checks = 1\n" SLEEPERS)
{
	life_start(life, NULL);
	LIFE_UNTIL(check_runs(life, 0) || check_runs(life, 1));
	cr_expect_not(check_runs(life, 0) && check_runs(life, 1));
	reload_to(life, "max_parallel_checks = 2\n" SLEEPERS);
	LIFE_UNTIL(check_runs(life, 0) && check_runs(life, 1));
	reload_to(life, LIFE_COMPONENT("a"));
	cr_expect_not(has_metric(life, "check=\"c\""));
}

LIFE(reload, log_lines_have_the_new_form, "")
{
	life_start(life, NULL);
	cr_expect_not(life_logs(life, "{\"time\":"));
	reload_to(life, "log_format = json\n");
	cr_expect(life_logs(life, "{\"time\":"));
}

LIFE(reload, imports_come_and_go, "")
{
	life_start(life, NULL);
	reload_to(life, "[import i]\ntype = nerve\nfrom = /old\nas = /new\n");
	cr_expect_str_eq(life_shows(life, "imports.0.name"), "\"i\"");
	reload_to(life, "");
	cr_expect_str_eq(life_shows(life, "imports"), "[]");
}

LIFE(reload, warnings_are_logged_each_time, "[listen l]\naddress = 127.0.0.1:0\n")
{
	static const char warning[] = "[listen l] has no `under`";
	life_start(life, NULL);
	json_decref(reload(life, ""));
	cr_assert_str_eq(life->problem, "");
	/* A process of its own writes the log. */
	LIFE_UNTIL(strstr(life_read(life, "log"), warning));
	LIFE_UNTIL(strstr(strstr(life_read(life, "log"), warning) + 1, warning));
}

LIFE(reload, outputs_and_registries_come_and_go, LIFE_COMPONENT("a"))
{
	char text[1024];
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	snprintf(text, sizeof(text),
		LIFE_COMPONENT("a") "[output o]\nfrom = /app/**\nformat = json\npath = %s/out\n"
				    "[registry near]\nurl = dir:%s/near\n",
		life->folder, life->folder);
	reload_to(life, text);
	cr_expect_str_eq(life_shows(life, "outputs.0.name"), "\"o\"");
	cr_expect_str_eq(life_shows(life, "registries.0.name"), "\"near\"");
	reload_to(life, LIFE_COMPONENT("a"));
	cr_expect_str_eq(life_shows(life, "outputs"), "[]");
	cr_expect_str_eq(life_shows(life, "registries"), "[]");
}

LIFE(reload, a_new_component_is_drained_with_the_others, LIFE_COMPONENT("a"))
{
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	json_decref(life_ask(life, "POST", "/v1/agent/drain", "{}"));
	LIFE_UNTIL(strcmp(life_shows(life, "drain.done"), "true") == 0);
	reload_to(life, LIFE_COMPONENT("a") LIFE_COMPONENT("b"));
	cr_expect_str_eq(life_shows(life, "components.1.registered"), "false");
	LIFE_UNTIL(strcmp(life_shows(life, "drain.done"), "true") == 0);
}

LIFE(reload, a_main_process_starts_again_from_then_on, "restart = never\n")
{
	char *const main_process[] = { "--", "sh", "-c", (char *)(uintptr_t) "exec sleep 1000",
		NULL };
	life_start(life, main_process);
	LIFE_UNTIL(strcmp(life_shows(life, "main_process.running"), "true") == 0);
	pid_t first = (pid_t)atoi(life_shows(life, "main_process.pid"));
	reload_to(life, "restart = always\n");
	cr_assert_eq(kill(first, SIGKILL), 0);
	LIFE_UNTIL(strncmp(life_last(life, "main process"), "running > restarting", 20) == 0);
	cr_expect(has_metric(life, "berth_main_process_restarts_total 1\n"));
	life_pass(life, 60);
	LIFE_UNTIL(strcmp(life_shows(life, "main_process.running"), "true") == 0);
	cr_expect_neq(atoi(life_shows(life, "main_process.pid")), first);
	cr_expect_eq(life_stop(life), 128 + SIGTERM);
}
