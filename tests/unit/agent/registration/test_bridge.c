/* The bridge in its agent: when there is one, its questions to the agent, and reports of it. */
#include <sys/stat.h>

#include "agent/core/upgrade.h"
#include "tests/unit/agent/bridge/bridge_stage.h"
#include "tests/unit/agent/registration/opened_stage.h"

struct stage {
	struct opened opened;
	struct agent *agent;
	struct bridge_stage files; /* its folder is that of the agent */
	struct upgrade received;
};

#define QUICK "[registry]\nupdate_interval = 0s\n"
#define ALLOWED "[container *]\nallow = /services/**\n"

/* The agent gets this configuration, and a bridge where it says so. */
static void configure(struct stage *stage, bool bridges, const char *more)
{
	char text[1000];
	snprintf(text, sizeof(text), QUICK "%s%s%s%s", bridges ? "[bridge]\ncontainers = " : "",
		bridges ? stage_file(&stage->files, "containers") : "", "\n", more);
	agent_components_reload(stage->agent, load(&stage->opened.wiring, text));
}

static int open_bridge(struct stage *stage)
{
	struct err err = ERR_INIT;
	int code = agent_bridge_open(stage->agent, &stage->received, &err);
	cr_expect_eq(code, err.code, "%s", err.msg);
	return code;
}

static struct stage *begin(struct stage *stage, const char *text)
{
	struct err err = ERR_INIT;
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	opened_begin(&stage->opened, text, true);
	stage->agent = stage->opened.agent;
	snprintf(stage->files.folder, sizeof(stage->files.folder), "%s",
		stage->opened.wiring.folder);
	const struct http_options options = { .socket_path = stage_file(&stage->files, "socket"),
		.socket_mode = 0600,
		.socket_group_id = (unsigned)-1,
		.socket_fd = -1,
		.listen_fd = -1,
		.max_connections = 40,
		.idle_timeout_ms = 60000 };
	cr_assert_eq(http_open(&stage->agent->http, stage->agent->loop, &options, &err), 0, "%s",
		err.msg);
	memory_put(stage->opened.other, "/services", "");
	RUN_UNTIL(stage->agent->loop, registry_state(stage->agent->registry) == REGISTRY_CONNECTED);
	RUN_UNTIL(stage->agent->loop, !timer_runs(&stage->agent->session_save_timer));
	return stage;
}

static void close_bridge(struct stage *stage)
{
	agent_bridge_close(stage->agent);
	cr_expect_null(stage->agent->bridge);
	cr_assert(file_queue_wait(stage->agent->files, 60000));
	agent_bridge_forget(stage->agent);
	cr_expect_null(stage->agent->bridge_book);
}

static void end(struct stage *stage)
{
	close_bridge(stage);
	http_close(stage->agent->http);
	opened_end(&stage->opened);
}

#define BRIDGED(name, text)                                                                        \
	STAGED_TEST(bridge_of_agent, name, struct stage *, stage,                                  \
		begin(&(struct stage){ 0 }, QUICK text), end)

/* A record of a container; the descriptor that has its owner's lock. */
static int own(const struct stage *stage, const char *container, const char *name)
{
	char path[LIMIT_PATH_BYTES];
	static const char *const folders[] = { "", "/registry", "/registry/services" };
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "containers/%s%s", container, folders[i]);
		mkdir(stage_file(&stage->files, path), 0755);
	}
	snprintf(path, sizeof(path), "containers/%s/registry/services/%s", container, name);
	return stage_own(&stage->files, path, RECORD("one"));
}

/* The state of a container's record; "" without one. */
static const char *state_of(const struct stage *stage, const char *container, const char *path)
{
	static char text[64];
	struct err err = ERR_INIT;
	json_t *json = agent_bridge_json(stage->agent, container, &err);
	size_t index;
	json_t *record;
	text[0] = '\0';
	const json_t *own = json_array_get(json_object_get(json, "containers"), 0);
	json_array_foreach (json_object_get(own, "records"), index, record) {
		if (strcmp(json_string_value(json_object_get(record, "path")), path) == 0) {
			snprintf(text, sizeof(text), "%s",
				json_string_value(json_object_get(record, "state")));
		}
	}
	json_decref(json);
	return text;
}

static bool is(
	const struct stage *stage, const char *container, const char *path, const char *state)
{
	return strcmp(state_of(stage, container, path), state) == 0;
}

/* ---- is there one? ---- */

static bool says_there_is_none(const struct stage *stage, const char *container, const char *words)
{
	struct err err = ERR_INIT;
	bool none = agent_bridge_json(stage->agent, container, &err) == NULL;
	cr_expect_eq(err.code, BERTH_PATH_NOT_FOUND);
	cr_expect_str_eq(err.msg, words);
	return none;
}

BRIDGED(without_containers_there_is_none, COMPONENT("a"))
{
	struct agent *agent = stage->agent;
	struct upgrade passed = { .bridge = NULL };
	agent->session_resumed = true; /* and has no book */
	cr_expect_eq(open_bridge(stage), 0);
	cr_expect_null(agent->bridge);
	cr_expect_null(agent->bridge_book);
	agent_bridge_on_registry_state(agent, REGISTRY_AWAY, "");
	agent_bridge_apply_options(agent);
	agent_bridge_proceed(agent);
	agent_bridge_update_metrics(agent);
	agent_bridge_pass(agent, &passed);
	cr_expect_null(passed.bridge);
	cr_expect_not(measures(agent->metrics, "berth_bridge_containers 0"));
	cr_expect(says_there_is_none(
		stage, NULL, "this agent serves no containers: its configuration has no [bridge]"));
	cr_expect(says_there_is_none(stage, "web-1", "this agent serves no container named web-1"));
}

BRIDGED(a_directory_of_others_is_refused, )
{
	configure(stage, true, ALLOWED);
	cr_assert_eq(mkdir(stage_file(&stage->files, "containers"), 0755), 0);
	cr_assert_eq(chmod(stage_file(&stage->files, "containers"), 0777), 0);
	cr_expect_neq(open_bridge(stage), 0);
	cr_expect_null(stage->agent->bridge);
}

static void on_book_saved(void *context, const struct err *err)
{
	(void)context;
	cr_assert_eq(err->code, 0, "%s", err->msg);
}

/* A predecessor has registered this path for a container. */
static void leave_book(struct stage *stage, const char *path)
{
	struct answer answer = { 0 };
	json_t *book = json_pack("{s:i, s:{s:s}}", "version", 1, "paths", path, "web-1");
	state_dir_save(&stage->agent->state, "bridge", book, on_book_saved, NULL);
	json_decref(book);
	cr_assert(file_queue_wait(stage->agent->files, 60000));
	client_add(stage->agent->registry);
	cr_assert_eq(client_put(stage->agent->registry, path, RECORD("old"), REGISTRY_BIND_CREATE,
			     true, &answer),
		0, "%s", answer.err.msg);
	client_forget(stage->agent->registry);
	answer_clear(&answer);
}

BRIDGED(records_of_a_predecessor_are_taken_out_without_containers, )
{
	leave_book(stage, "/services/old");
	stage->agent->session_resumed = true;
	cr_expect_eq(open_bridge(stage), 0);
	cr_expect_not_null(stage->agent->bridge);
	agent_wake(stage->agent);
	RUN_UNTIL(stage->agent->loop, !other_sees(&stage->opened, "/services/old"));
}

BRIDGED(in_another_session_nothing_was_left, )
{
	leave_book(stage, "/services/old");
	stage->agent->session_resumed = false;
	cr_expect_eq(open_bridge(stage), 0);
	cr_expect_null(stage->agent->bridge);
}

/* ---- its life ---- */

/* A bridge, and a container with a record. */
static int run_to_record(struct stage *stage)
{
	configure(stage, true, ALLOWED);
	cr_assert_eq(open_bridge(stage), 0);
	int owner = own(stage, "web-1", "db");
	RUN_UNTIL(stage->agent->loop, is(stage, "web-1", "/services/db", "registered"));
	return owner;
}

BRIDGED(records_of_containers_are_registered_and_measured, )
{
	const struct agent *agent = stage->agent;
	int owner = run_to_record(stage);
	cr_expect(other_sees(&stage->opened, "/services/db"));
	cr_expect(was_told("api follows; "));
	agent_bridge_update_metrics(stage->agent);
	cr_expect(measures(agent->metrics, "berth_bridge_containers 1"));
	cr_expect(measures(agent->metrics, "berth_bridge_records{state=\"registered\"} 1"));
	cr_expect(measures(agent->metrics, "berth_bridge_records{state=\"refused\"} 0"));
	close(owner);
}

BRIDGED(the_agent_reports_all_or_one_container, )
{
	struct err err = ERR_INIT;
	int owners[] = { run_to_record(stage), own(stage, "web-2", "cache") };
	RUN_UNTIL(stage->agent->loop, is(stage, "web-2", "/services/cache", "registered"));
	json_t *all = agent_bridge_json(stage->agent, NULL, &err);
	cr_expect_eq(json_array_size(json_object_get(all, "containers")), 2);
	cr_expect_str_eq(json_string_value(json_object_get(all, "state")), "served");
	json_decref(all);
	json_t *one = agent_bridge_json(stage->agent, "web-2", &err);
	const json_t *containers = json_object_get(one, "containers");
	cr_expect_eq(json_array_size(containers), 1);
	cr_expect_str_eq(
		json_string_value(json_object_get(json_array_get(containers, 0), "name")), "web-2");
	json_decref(one);
	cr_expect_eq(err.code, 0);
	cr_expect(says_there_is_none(stage, "web-3", "this agent serves no container named web-3"));
	close(owners[0]);
	close(owners[1]);
}

BRIDGED(without_an_api_containers_are_served_too, )
{
	stage->agent->api = NULL;
	close(run_to_record(stage));
	stage->agent->api = NEIGHBOUR;
}

BRIDGED(records_of_containers_wait_for_the_sessions_file, )
{
	struct agent *agent = stage->agent;
	configure(stage, true, ALLOWED);
	timer_start(&agent->session_save_timer, 600000);
	cr_assert_eq(open_bridge(stage), 0);
	int owner = own(stage, "web-1", "db");
	RUN_UNTIL(agent->loop, !is(stage, "web-1", "/services/db", ""));
	run_a_while(&stage->opened);
	cr_assert(file_queue_wait(agent->files, 60000));
	run_a_while(&stage->opened);
	cr_expect_not(other_sees(&stage->opened, "/services/db"));
	end_timer(&agent->session_save_timer);
	RUN_UNTIL(agent->loop, is(stage, "web-1", "/services/db", "registered"));
	close(owner);
}

BRIDGED(a_path_of_the_agents_own_is_none_for_containers, )
{
	struct agent *agent = stage->agent;
	configure(stage, true, ALLOWED "[component db]\npath = /services/db\n");
	cr_assert_eq(open_bridge(stage), 0);
	run_to_records(&stage->opened);
	int owner = own(stage, "web-1", "db");
	RUN_UNTIL(agent->loop, is(stage, "web-1", "/services/db", "conflict"));
	close(owner);
}

BRIDGED(records_of_containers_come_back_after_an_outage, )
{
	struct agent *agent = stage->agent;
	int owner = run_to_record(stage);
	memory_set_state(agent->registry, REGISTRY_LOST);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_LOST);
	run_a_while(&stage->opened);
	cr_expect_not(is(stage, "web-1", "/services/db", "registered"));
	memory_set_state(agent->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(agent->loop, is(stage, "web-1", "/services/db", "registered"));
	cr_expect(other_sees(&stage->opened, "/services/db"));
	close(owner);
}

BRIDGED(a_reload_changes_what_containers_may, )
{
	int owner = run_to_record(stage);
	configure(stage, true, "[container *]\nallow = /other/**\n");
	agent_bridge_apply_options(stage->agent);
	RUN_UNTIL(stage->agent->loop, is(stage, "web-1", "/services/db", "refused"));
	RUN_UNTIL(stage->agent->loop, !other_sees(&stage->opened, "/services/db"));
	close(owner);
}

BRIDGED(a_change_is_considered_at_once, )
{
	int owner = run_to_record(stage);
	run_a_while(&stage->opened);
	cr_assert(file_queue_wait(stage->agent->files, 60000));
	run_a_while(&stage->opened);
	seams.told[0] = '\0';
	stage->opened.wakes = 0;
	stage_withdraw(owner);
	RUN_UNTIL(stage->agent->loop, !other_sees(&stage->opened, "/services/db"));
	cr_expect_gt(stage->opened.wakes, 0);
	cr_expect(was_told("api follows; "));
}

/* ---- an upgrade ---- */

BRIDGED(a_successor_gets_the_sockets_and_closes_those_of_containers_that_have_gone, )
{
	struct agent *agent = stage->agent;
	struct upgrade passed = { .bridge = NULL };
	int owner = run_to_record(stage);
	agent_bridge_pass(agent, &passed);
	cr_assert_eq(passed.bridge_count, 1);
	cr_expect_str_eq(passed.bridge[0].container, "web-1");
	cr_expect_geq(passed.bridge[0].fd, 0);
	struct bridge_socket sockets[3] = { { .container = "gone", .fd = dup(STDIN_FILENO) },
		passed.bridge[0], { .container = "gone too", .fd = dup(STDIN_FILENO) } };
	int fds[3] = { sockets[0].fd, sockets[1].fd, sockets[2].fd };
	stage->received.bridge = sockets;
	stage->received.bridge_count = 3;
	close_bridge(stage);
	free(passed.bridge);
	free(passed.abandoned);
	free(passed.owners);
	cr_assert_eq(open_bridge(stage), 0);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(sockets[i].fd, -1, "%d", i);
	}
	cr_expect_eq(fcntl(fds[0], F_GETFD), -1);
	cr_expect_neq(fcntl(fds[1], F_GETFD), -1, "it is in use");
	cr_expect_eq(fcntl(fds[2], F_GETFD), -1);
	close(owner);
}
