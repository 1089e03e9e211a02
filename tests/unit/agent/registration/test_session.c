/*
 * The session of the registry: saved for a successor, continued, left, ended; and the nodes in it
 * at paths that are no longer configured.
 */
#include <sys/stat.h>

#include "tests/unit/agent/registration/opened_stage.h"

#define QUICK "[registry]\nupdate_interval = 0s\n"
#define A QUICK COMPONENT("a")
#define TWO A COMPONENT("b")
#define URL "dir:/var/lib/berth/registry"

static bool has_paths(const json_t *document, const char *expected)
{
	char text[512] = "";
	size_t index;
	json_t *path;
	json_array_foreach (json_object_get(document, "paths"), index, path) {
		size_t used = strlen(text);
		snprintf(text + used, sizeof(text) - used, "%s%s", index ? " " : "",
			json_string_value(path));
	}
	bool same = strcmp(text, expected) == 0;
	cr_expect(same, "%s", text);
	return same;
}

static const char *session_id(const json_t *document)
{
	return json_string_value(json_object_get(json_object_get(document, "session"), "id"));
}

/* The paths that a successor finds on the disk. */
static bool saves_paths(const struct opened *stage, const char *expected)
{
	json_t *document = saved_document(stage, "session");
	cr_assert_not_null(document);
	bool same = has_paths(document, expected);
	json_decref(document);
	return same;
}

/* ---- saved ---- */

OPENED(session, it_is_waited_for_once, A)
{
	struct agent *agent = stage->agent;
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_CONNECTED);
	cr_expect(timer_runs(&agent->session_save_timer));
	run_to_records(stage);
	cr_expect_not(timer_runs(&agent->session_save_timer));
	agent_registry_save_session(agent);
	cr_expect_not(timer_runs(&agent->session_save_timer), "the disk has this one");
	memory_set_state(agent->registry, REGISTRY_LOST);
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_LOST);
	memory_set_state(agent->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_CONNECTED);
	cr_expect(timer_runs(&agent->session_save_timer), "but not the next one");
	run_to_records(stage);
	json_t *document = saved_document(stage, "session");
	cr_expect_str_eq(session_id(document), registry_session_name(agent->registry));
	json_decref(document);
}

OPENED(session, a_path_that_is_no_longer_configured_is_saved_until_its_record_has_gone, TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_components_reload(agent, load(&stage->wiring, A));
	json_t *paths = agent_registry_paths(agent);
	cr_expect_eq(json_array_size(paths), 2);
	json_decref(paths);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
	run_a_while(stage);
	saves_paths(stage, "/app/a");
}

/* ---- continued ---- */

OPENED(session, a_successor_continues_it, A)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->leave_session = true;
	opened_end_agent(stage);
	opened_begin_agent(stage, NULL);
	cr_expect(agent->session_resumed);
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_CONNECTED);
	cr_expect_not(timer_runs(&agent->session_save_timer), "the disk has it already");
}

/* Does an agent that is given this document of its predecessor continue the session? */
static bool is_continued(struct opened *stage, const json_t *left)
{
	opened_end_agent(stage);
	seams.openings = 0;
	opened_begin_agent(stage, left);
	cr_expect_eq(stage->agent->session_resumed, *seams.opened[0].session != '\0');
	cr_expect_eq(stage->agent->session_resumed, *stage->agent->session_saved != '\0');
	return stage->agent->session_resumed;
}

/* The same; takes the reference. */
static bool takes(struct opened *stage, json_t *left)
{
	bool taken = is_continued(stage, left);
	json_decref(left);
	return taken;
}

#define SESSION "session", "id", "memory 99", "number", 99

OPENED(session, only_one_of_this_registry_in_a_known_shape_is_continued, A)
{
	(void)was_logged("");
	cr_expect(takes(
		stage, json_pack("{s:i, s:s, s:{s:s, s:i}}", "version", 1, "url", URL, SESSION)));
	cr_expect_not(was_logged("a new one is made"));
	cr_expect_not(takes(stage,
		json_pack("{s:i, s:s, s:{s:s, s:i}}", "version", 1, "url", "dir:/x", SESSION)));
	cr_expect(was_logged("the predecessor's session is with another registry"));
	cr_expect_not(takes(
		stage, json_pack("{s:i, s:s, s:{s:s, s:i}}", "version", 2, "url", URL, SESSION)));
	cr_expect(was_logged("the predecessor's session has an unknown shape"));
	cr_expect_not(takes(stage, json_pack("{s:i, s:{s:s, s:i}}", "version", 1, SESSION)));
	cr_expect(was_logged("the predecessor's session has an unknown shape"));
	cr_expect_not(takes(
		stage, json_pack("{s:i, s:s, s:s}", "version", 1, "url", URL, "session", "text")));
	cr_expect(was_logged("the predecessor's session has an unknown shape"));
	cr_expect_not(is_continued(stage, NULL));
	cr_expect_not(was_logged("unknown shape"));
}

/* ---- left, or ended ---- */

OPENED(session, an_agent_that_ends_takes_its_session_with_it, A)
{
	run_to_records(stage);
	agent_components_destroy(stage->agent);
	json_decref(saved_document(stage, "session"));
	agent_registry_close(stage->agent);
	cr_expect_null(stage->agent->registry);
	cr_expect_null(stage->agent->lookups);
	cr_expect_null(saved_document(stage, "session"));
	cr_expect_not(other_sees(stage, "/app/a"));
	run_a_while(stage);
	cr_expect_not(was_logged("session: "));
	agent_registry_close(stage->agent); /* once more */
}

/* ---- paths that are no longer configured ---- */

/* The predecessor's session, in which it had nodes at these paths. */
static json_t *left_at(struct opened *stage, json_t *paths_take)
{
	agent_components_destroy(stage->agent);
	return agent_registry_leave(stage->agent, paths_take, registry_detach);
}

static void make_own(struct opened *stage, const char *path)
{
	struct answer answer = { 0 };
	client_add(stage->agent->registry);
	cr_assert_eq(client_put(stage->agent->registry, path, "{\"type\":\"JSONServiceRecord\"}",
			     REGISTRY_BIND_CREATE, true, &answer),
		0, "%s", answer.err.msg);
	client_forget(stage->agent->registry);
	answer_clear(&answer);
}

static bool is_remembered(const struct opened *stage, const char *path)
{
	json_t *paths = agent_registry_paths(stage->agent);
	size_t index;
	json_t *item;
	bool found = false;
	json_array_foreach (paths, index, item) {
		found = found || strcmp(json_string_value(item), path) == 0;
	}
	json_decref(paths);
	return found;
}

/* A predecessor had a node at /app/old, too; its successor has begun. */
static void begin_after_old(struct opened *stage)
{
	run_to_records(stage);
	make_own(stage, "/app/old");
	json_t *left = left_at(
		stage, json_pack("[s, s, s, i]", "/app/a", "/app/old", "/app/old", 5));
	opened_end_agent(stage);
	opened_begin_agent(stage, left);
	json_decref(left);
	(void)was_logged("");
}

OPENED(abandoned, a_node_of_somebody_else_stays, A)
{
	begin_after_old(stage);
	json_t *paths = agent_registry_paths(stage->agent);
	cr_expect_eq(json_array_size(paths), 2, "once each");
	json_decref(paths);
	memory_remove(stage->other, "/app/old");
	memory_put(stage->other, "/app/old", "");
	RUN_UNTIL(stage->agent->loop, !is_remembered(stage, "/app/old"));
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/old"));
	cr_expect_not(was_logged("removed /app/old"));
	saves_paths(stage, "/app/a");
}

static void expect_another_attempt(struct opened *stage, const char *question, int code)
{
	begin_after_old(stage);
	let_fail(stage, question, code);
	run_to_records(stage);
	RUN_UNTIL(stage->agent->loop, strstr(stage->asked, question) != NULL);
	run_a_while(stage);
	cr_expect(is_remembered(stage, "/app/old"));
	cr_expect(other_sees(stage, "/app/old"));
	cr_expect_not(was_logged("no longer configured"));
	let_fail(stage, NULL, 0);
	reconnect(stage);
	RUN_UNTIL(stage->agent->loop, !is_remembered(stage, "/app/old"));
	cr_expect_not(other_sees(stage, "/app/old"));
}

OPENED(abandoned, a_look_that_times_out_comes_again, A)
{
	expect_another_attempt(stage, "stat /app/old", BERTH_TIMEOUT);
}

OPENED(abandoned, a_look_without_the_registry_comes_again, A)
{
	expect_another_attempt(stage, "stat /app/old", BERTH_REGISTRY_UNAVAILABLE);
}

OPENED(abandoned, a_removal_without_the_registry_comes_again, A)
{
	expect_another_attempt(stage, "delete /app/old", BERTH_REGISTRY_UNAVAILABLE);
}
