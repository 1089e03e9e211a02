/* Further registries: their paths below /net, what is shown of them, and how they come and go. */

#include <sys/resource.h>

#include "lib/base/array.h"
#include "tests/unit/agent/serving/serving_stage.h"

#define EAST "[registry east]\nurl = dir:@/east\n"
#define WEST "[registry west]\nurl = dir:@/west\n"
#define ELSEWHERE "[registry east]\nurl = dir:@/elsewhere\n"

static bool is_connected(const struct serving *serving, const char *name)
{
	bool connected = false;
	size_t index;
	json_t *item, *list = agent_further_json(&serving->agent);
	json_array_foreach (list, index, item) {
		connected = connected ||
			(strcmp(json_string_value(json_object_get(item, "name")), name) == 0 &&
				strcmp(json_string_value(json_object_get(item, "state")),
					"connected") == 0);
	}
	json_decref(list);
	return connected;
}

#define RUN_TO_CONNECTED(name) RUN_UNTIL(serving->agent.loop, is_connected(serving, name))

static bool resolves(struct serving *serving, const char *path, const char *text)
{
	char target[128];
	text_printf(target, sizeof(target), "/v1/resolve%s", path);
	return has(get(serving, target), text);
}

static bool is_there(const struct serving *serving, const char *name)
{
	return access(in(serving, name), F_OK) == 0;
}

/* ---- what it is ---- */

SERVED(further, its_paths_are_below_its_name, EAST WEST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_expect(resolves(serving, "/net/east/app", "\"10.0.0.7\""), "%s", serving->answer);
	cr_expect(resolves(serving, "/net/west/app", "HTTP/1.1 404"), "%s", serving->answer);
	cr_expect(resolves(serving, "/app", "HTTP/1.1 404"), "%s", serving->answer);
	cr_expect(has(get(serving, "/v1/list/net"), "[\"/net/east\",\"/net/west\"]"), "%s",
		serving->answer);
}

SERVED(further, without_any_the_names_are_a_list_without_members, "")
{
	cr_expect(has(get(serving, "/v1/list/net"), "\r\n\r\n[]"), "%s", serving->answer);
	json_t *list = agent_further_json(&serving->agent);
	cr_expect_eq(json_array_size(list), 0);
	json_decref(list);
}

SERVED(further, its_state_is_in_the_history_and_in_the_status, EAST)
{
	RUN_TO_CONNECTED("east");
	cr_expect(strncmp(history_of(serving, "registry east"), "connecting>connected(", 21) == 0,
		"%s", history_of(serving, "registry east"));
	json_t *list = agent_further_json(&serving->agent);
	const json_t *item = json_array_get(list, 0);
	cr_expect_str_eq(json_string_value(json_object_get(item, "path")), "/net/east");
	cr_expect_str_eq(json_string_value(json_object_get(item, "error")), "");
	cr_expect(has(json_string_value(json_object_get(item, "url")), "/east"));
	cr_expect_gt(json_real_value(json_object_get(item, "since")), 0);
	json_decref(list);
	cr_expect(has_metric(serving, "berth_registry_connected{registry=\"east\"} 1"));
	cr_expect(has_metric(
		serving, "berth_registry_session_expirations_total{registry=\"east\"} 0"));
}

SERVED(further, its_cache_has_metrics_of_its_own, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_expect(has_metric(serving, "berth_cache_entries{registry=\"east\"} 0"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	cr_expect(has_metric(serving, "berth_cache_entries{registry=\"east\"} 1"));
	cr_expect_not(has_metric(serving, "berth_cache_bytes{registry=\"east\"} 0"));
	cr_expect(has_metric(serving, "berth_cache_stale_seconds{registry=\"east\"} 0"));
	cr_expect(has_metric(serving, "berth_cache_evictions_total{registry=\"east\"} 0"));
	cr_expect(has_metric(serving, "berth_cache_refusals_total{registry=\"east\"} 0"));
	cr_expect(has_series(serving,
		"berth_registry_request_duration_seconds_count{registry=\"east\",result=\"ok\"}"));
}

SERVED(further, imports_below_its_path_are_its_own,
	EAST "[import web]\ntype = serverset\nfrom = /aurora/web\nas = /net/east/web\n")
{
	RUN_TO_CONNECTED("east");
	cr_expect(
		has(get(serving, "/v1/list/net/east/web"), "HTTP/1.1 200"), "%s", serving->answer);
	reload(serving, EAST);
	cr_expect(
		has(get(serving, "/v1/list/net/east/web"), "HTTP/1.1 404"), "%s", serving->answer);
}

SERVED(further, warm_paths_below_its_path_are_read_before_anybody_asks,
	EAST "[cache]\nwarm = /net/east/app\n")
{
	RUN_UNTIL(serving->agent.loop,
		has_metric(serving, "berth_cache_entries{registry=\"east\"} 1"));
}

/* ---- one that is away ---- */

#define AWAY "[registry far]\nurl = zookeeper://127.0.0.1:1/r\n"

PREPARED(further, each_attempt_is_counted_in_the_error, AWAY)
{
	put_in(serving, "berth-zookeeper", "#!/bin/sh\nexit 3\n");
	cr_assert_eq(chmod(in(serving, "berth-zookeeper"), 0755), 0);
	serve(serving);
	int wakes = serving->wakes;
	json_t *list;
	const char *error;
	bool counted = false;
	while (!counted) {
		ev_run(serving->agent.loop, EVRUN_ONCE);
		list = agent_further_json(&serving->agent);
		error = json_string_value(json_object_get(json_array_get(list, 0), "error"));
		counted = has(error, ", attempt 1");
		json_decref(list);
	}
	RUN_UNTIL(serving->agent.loop, serving->wakes > wakes);
	cr_expect(has_metric(serving, "berth_registry_connected{registry=\"far\"} 0"));
	cr_expect_neq(logged(serving, "far: "), 0);
	cr_expect(has(get(serving, "/v1/resolve/net/far/app"), "HTTP/1.1 503"), "%s",
		serving->answer);
}

/* ---- snapshots ---- */

/* The directory of the registry has gone, and another agent starts. */
static void serve_without_east(struct serving *serving)
{
	char away[SCRATCH_PATH + 16];
	serve_no_more(serving);
	text_printf(away, sizeof(away), "%s/gone", serving->folder);
	client_close(serving->east);
	serving->east = NULL;
	cr_assert_eq(rename(in(serving, "east"), away), 0);
	put_in(serving, "east", "a file in its place");
	serving->received = (struct upgrade){ .socket_fd = -1, .listen_fd = -1, .xds_fd = -1 };
	serve(serving);
}

SERVED(further, answers_survive_a_restart_in_an_outage, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	serve_without_east(serving);
	cr_expect(is_there(serving, "state/cache-east"));
	cr_expect(resolves(serving, "/net/east/app", "\"10.0.0.7\""), "%s", serving->answer);
	cr_expect_eq(logged(serving, "no snapshot"), 0);
}

SERVED(further, without_a_snapshot_they_do_not, EAST "[cache]\nsnapshot = no\n")
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	serve_without_east(serving);
	cr_expect_not(is_there(serving, "state/cache-east"));
	cr_expect_not(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
}

SERVED(further, a_snapshot_that_is_not_wanted_any_more_is_not_read, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	serve_no_more(serving);
	cr_assert(is_there(serving, "state/cache-east"));
	config_unref(serving->agent.config);
	serving->agent.config = configure(serving, EAST "[cache]\nsnapshot = no\n");
	serve(serving);
	serve_without_east(serving);
	cr_expect_not(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
}

SERVED(further, a_snapshot_that_cannot_be_saved_is_reported, EAST)
{
	char command[SCRATCH_PATH + 32];
	snprintf(command, sizeof(command), "rm -rf %s", in(serving, "state"));
	cr_assert_eq(system(command), 0);
	serve_again(serving);
	cr_expect_eq(logged(serving, "no snapshot of a further registry is left: "), 1);
}

PREPARED(further, without_a_state_directory_there_is_none_and_no_complaint, EAST)
{
	put_in(serving, "state", "a file in its place");
	serve(serving);
	connect_registry(serving);
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	serve_again(serving);
	reload(serving, "");
	go_on(serving);
	cr_expect_eq(logged(serving, "snapshot"), 0);
	cr_expect_eq(logged(serving, "cache"), 0);
}

/* ---- a reload ---- */

SERVED(further, a_reload_leaves_an_equal_one_alone, EAST WEST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	RUN_TO_CONNECTED("west");
	reload(serving, "[cache]\nmax_size = 3M\nwarm = /net/west/x\n" WEST EAST);
	cr_expect_eq(serving->agent.further_count, 2);
	cr_expect(has_metric(serving, "berth_cache_entries{registry=\"east\"} 1"));
	cr_expect(is_connected(serving, "east"));
	cr_expect(is_connected(serving, "west"));
	struct cache_stats stats;
	cache_get_stats(cache_at(serving->agent.cache, "/net/east/app"), &stats);
	cr_expect_eq(stats.max_bytes, 3 * 1024 * 1024, "but for the limits");
	RUN_UNTIL(serving->agent.loop,
		has_metric(serving, "berth_cache_entries{registry=\"west\"} 1"));
	cr_expect_eq(logged(serving, "begins anew"), 0);
	reload(serving, WEST EAST);
	cr_expect(is_connected(serving, "east"), "a second time, too");
	cr_expect_eq(serving->agent.retired_further_count, 0);
	reload(serving, WEST);
	cr_expect_eq(serving->agent.further_count, 1, "but not when it is configured no more");
	cr_expect_eq(logged(serving, "/net/east is no longer configured"), 1);
}

SERVED(further, one_that_is_configured_no_more_goes_with_all_it_had, EAST WEST)
{
	static const char *const families[] = { "berth_registry_connected",
		"berth_registry_session_expirations_total",
		"berth_registry_request_duration_seconds_count", "berth_cache_entries",
		"berth_cache_bytes", "berth_cache_stale_seconds", "berth_cache_evictions_total",
		"berth_cache_refusals_total" };
	char begin[128];
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	cr_assert(resolves(serving, "/net/west/app", "HTTP/1.1 404"));
	serve_again(serving);
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	cr_assert(resolves(serving, "/net/west/app", "HTTP/1.1 404"));
	cr_expect(is_there(serving, "state/cache-east"));
	RUN_TO_CONNECTED("west");
	agent_metrics_update(&serving->agent);
	metrics_add(serving->agent.metrics, METRIC_SESSION_EXPIRATIONS, "", "", 0);
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		text_printf(begin, sizeof(begin), "%s{registry=\"east\"", families[i]);
		cr_expect(has_series(serving, begin), "%s", begin);
	}
	reload(serving, WEST);
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		text_printf(begin, sizeof(begin), "%s{registry=\"east\"", families[i]);
		cr_expect_not(has_series(serving, begin), "%s", begin);
		text_printf(begin, sizeof(begin), "%s{registry=\"west\"", families[i]);
		cr_expect(has_series(serving, begin), "%s", begin);
	}
	cr_expect(has_series(serving, "berth_registry_session_expirations_total "));
	cr_expect_eq(serving->agent.further_count, 1);
	cr_expect_eq(serving->agent.retired_further_count, 0);
	cr_expect(resolves(serving, "/net/east/app", "HTTP/1.1 404"), "%s", serving->answer);
	cr_expect(has(get(serving, "/v1/list/net"), "[\"/net/west\"]"), "%s", serving->answer);
	cr_expect_eq(logged(serving, "/net/east is no longer configured"), 1);
	RUN_UNTIL(serving->agent.loop, !is_there(serving, "state/cache-east"));
	cr_expect(is_there(serving, "state/cache-west"));
}

SERVED(further, a_snapshot_that_cannot_be_removed_is_reported, EAST)
{
	char command[SCRATCH_PATH + 64];
	snprintf(command, sizeof(command), "mkdir -p %s/x", in(serving, "state/cache-east"));
	cr_assert_eq(system(command), 0);
	reload(serving, "");
	RUN_UNTIL(serving->agent.loop, logged(serving, "cache-east") > 0);
}

SERVED(further, one_whose_snapshot_is_removed_leaves_no_line, EAST)
{
	reload(serving, "");
	cr_assert(file_queue_wait(serving->agent.files, 60000));
	go_on(serving);
	cr_expect_eq(logged(serving, "cache"), 0);
}

SERVED(further, several_may_go_together, EAST WEST)
{
	reload(serving, "");
	cr_expect_eq(serving->agent.further_count, 0);
	cr_expect_eq(logged(serving, "/net/east is no longer configured"), 1);
	cr_expect_eq(logged(serving, "/net/west is no longer configured"), 1);
}

SERVED(further, one_behind_others_begins_anew_like_any_other, WEST EAST)
{
	reload(serving, WEST ELSEWHERE);
	cr_expect_eq(serving->agent.further_count, 2);
	cr_expect_eq(logged(serving, "/net/east begins anew"), 1);
}

SERVED(further, one_with_another_url_begins_anew, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	serve_again(serving);
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	agent_metrics_update(&serving->agent);
	reload(serving, ELSEWHERE);
	cr_expect_eq(serving->agent.further_count, 1);
	cr_expect(has_series(serving,
		"berth_registry_session_expirations_total{"
		"registry=\"east\"}"));
	RUN_TO_CONNECTED("east");
	cr_expect(resolves(serving, "/net/east/app", "HTTP/1.1 404"), "%s", serving->answer);
	cr_expect(has(get(serving, "/v1/list/net"), "[\"/net/east\"]"), "%s", serving->answer);
	cr_expect_eq(logged(serving, "/net/east begins anew"), 1);
	cr_assert(file_queue_wait(serving->agent.files, 60000));
	cr_expect(is_there(serving, "state/cache-east"), "it has the same name");
}

SERVED(further, one_that_comes_with_a_reload_is_there_at_once, WEST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "HTTP/1.1 404"));
	cr_assert(has(get(serving, "/v1/names/app.east.net.berth"), "HTTP/1.1 404"));
	reload(serving, EAST WEST);
	cr_expect_eq(serving->agent.further_count, 2);
	cr_expect(resolves(serving, "/net/east/app", "\"10.0.0.7\""), "%s", serving->answer);
	cr_expect(has(get(serving, "/v1/names/app.east.net.berth"), "\"10.0.0.7\""), "%s",
		serving->answer);
	cr_expect(has(get(serving, "/v1/list/net"), "[\"/net/east\",\"/net/west\"]"));
}

SERVED(further, an_output_turns_to_the_new_one,
	EAST "[output a]\nfrom = /net/east/app\nformat = lines\npath = @/a\nquiet = 1ms\n")
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	RUN_UNTIL(serving->agent.loop, has(text_in(serving, "a"), "10.0.0.7"));
	reload(serving,
		ELSEWHERE
		"[output a]\nfrom = /net/east/app\nformat = lines\npath = @/a\nquiet = 1ms\n");
	client_close(serving->east);
	serving->east = NULL;
	RUN_TO_CONNECTED("east");
	char url[SCRATCH_PATH + 16];
	snprintf(url, sizeof(url), "dir:%s/elsewhere", serving->folder);
	serving->east = client_open(url);
	put_east(serving, "/app", AT_HOST("10.0.0.8"));
	RUN_UNTIL(serving->agent.loop, has(text_in(serving, "a"), "10.0.0.8"));
}

PREPARED(further, they_are_open_before_anybody_asks, EAST)
{
	serve(serving);
	cr_expect(is_connected(serving, "east"));
	cr_expect_eq(
		cache_registry_state(cache_at(serving->agent.cache, "/net")), REGISTRY_CONNECTED);
}

/* Questions about registries that never answer. */
static void ask_far(struct serving *serving, int fd, const char *target)
{
	char question[256];
	text_printf(question, sizeof(question), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target);
	cr_assert_eq(send(fd, question, strlen(question), 0), (ssize_t)strlen(question));
	go_on(serving);
	cr_expect_lt(recv(fd, serving->answer, 1, MSG_DONTWAIT), 0, "it waits");
}

/* The answer that has come. Takes the descriptor. */
static const char *answer_from(struct serving *serving, int fd_take)
{
	ssize_t len = recv(fd_take, serving->answer, sizeof(serving->answer) - 1, MSG_DONTWAIT);
	serving->answer[len > 0 ? len : 0] = '\0';
	close(fd_take);
	return serving->answer;
}

PREPARED(further, clients_that_wait_for_one_that_goes_are_refused,
	AWAY "[registry off]\nurl = zookeeper://127.0.0.1:1/r\n")
{
	put_in(serving, "berth-zookeeper", "#!/bin/sh\nexec sleep 60\n");
	cr_assert_eq(chmod(in(serving, "berth-zookeeper"), 0755), 0);
	serve(serving);
	connect_registry(serving);
	int far = knock(serving), off = knock(serving), name = knock(serving);
	ask_far(serving, far, "/v1/resolve/net/far/app");
	ask_far(serving, off, "/v1/resolve/net/off/app");
	ask_far(serving, name, "/v1/names/app.far.net.berth");
	reload(serving, "");
	go_on(serving);
	cr_expect(has(answer_from(serving, far), "the configuration of [registry far] has changed"),
		"%s", serving->answer);
	cr_expect(has(answer_from(serving, off), "the configuration of [registry off] has changed"),
		"%s", serving->answer);
	cr_expect(has(answer_from(serving, name), "HTTP/1.1 "), "it waits no longer");
	go_on(serving);
}

/* ---- shared memory ---- */

static size_t shared_entries(const struct serving *serving)
{
	struct shared_stats stats;
	shared_get_stats(serving->agent.shared, &stats);
	return stats.entries;
}

/* A client has a map, and its question about the path is answered from it from now on. */
static void share(struct serving *serving, const char *path)
{
	int fd;
	size_t size;
	char target[128];
	struct err err = ERR_INIT;
	cr_assert_eq(shared_hand_out(serving->agent.shared, &fd, &size, &err), 0);
	text_printf(target, sizeof(target), "/v1/resolve%s", path);
	RUN_UNTIL(serving->agent.loop,
		(ask_over(serving, knock(serving), target, "Host: a\r\nPrefer: shared\r\n"),
			shared_entries(serving) == 1));
}

SERVED(further, its_answers_leave_the_shared_memory_with_it, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	share(serving, "/net/east/app");
	reload(serving, "");
	cr_expect_eq(shared_entries(serving), 0);
}

SERVED(further, and_when_its_limits_change, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	share(serving, "/net/east/app");
	agent_further_reload(&serving->agent);
	cr_expect_eq(shared_entries(serving), 0);
	agent_further_retire(&serving->agent);
}

SERVED(further, its_answers_leave_the_memory_before_its_paths_are_detached, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	share(serving, "/net/east/app");
	agent_components_reload(&serving->agent, configure(serving, ""));
	agent_further_reload(&serving->agent);
	cr_expect_eq(shared_entries(serving), 0);
	agent_further_retire(&serving->agent);
}

SERVED(further, an_absent_one_is_not_absent_in_the_memory_when_it_comes, "")
{
	share(serving, "/net/east");
	reload(serving, EAST);
	cr_expect_eq(shared_entries(serving), 0);
}

SERVED(further, no_answer_stays_in_the_memory_behind_them, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	share(serving, "/net/east/app");
	agent_outputs_close(&serving->agent);
	agent_api_close(&serving->agent);
	serving->agent.http = NULL;
	agent_names_close(&serving->agent);
	agent_further_close(&serving->agent);
	cr_expect_eq(shared_entries(serving), 0);
}

/* ---- what cannot be had ---- */

#define CLOSED "[registry bad]\nurl = zookeeper://127.0.0.1:1/r\nauth = digest\nauth_file = @/key\n"
#define IMPORT "[import web]\ntype = serverset\nfrom = /aurora/web\nas = /net/east/web\n"

static void put_key(const struct serving *serving)
{
	put_in(serving, "key", "joe:secret");
	cr_assert_eq(chmod(in(serving, "key"), 0600), 0);
}

/* A configuration whose file with the credentials has gone since it was read. */
static struct config *configure_without_key(struct serving *serving, const char *text)
{
	put_key(serving);
	struct config *config = configure(serving, text);
	cr_assert_eq(unlink(in(serving, "key")), 0);
	return config;
}

PREPARED(further, without_a_descriptor_there_is_no_list_of_them, EAST)
{
	struct err err = ERR_INIT;
	struct rlimit all, none;
	base_open(serving);
	agent_cache_open(&serving->agent, NULL);
	int fd = dup(STDERR_FILENO);
	close(fd);
	getrlimit(RLIMIT_NOFILE, &all);
	none = (struct rlimit){ .rlim_cur = (rlim_t)fd, .rlim_max = all.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	cr_expect_eq(agent_further_open(&serving->agent, NULL, &err), BERTH_FAILED);
	setrlimit(RLIMIT_NOFILE, &all);
	cr_expect(has(err.msg, "cannot make a registry in memory"), "%s", err.msg);
	cr_expect_null(serving->agent.net);
	cr_expect_eq(serving->agent.further_count, 0);
}

/* One whose import is at a path that the registry does not take. */
static struct config *configure_badly(struct serving *serving, const char *text)
{
	struct config *config = configure(serving, text);
	char *name = strstr(config->imports[0].as, "web");
	cr_assert_not_null(name);
	*name = '/';
	return config;
}

static void start_with(struct serving *serving, struct config *config, struct err *err)
{
	config_unref(serving->agent.config);
	serving->agent.config = config;
	base_open(serving);
	cr_expect_neq(try_serve(serving, err), 0);
	cr_expect_eq(serving->agent.further_count, 0);
}

PREPARED(further, one_that_cannot_be_opened_is_named, "")
{
	struct err err = ERR_INIT;
	start_with(serving, configure_without_key(serving, CLOSED), &err);
	cr_expect(strncmp(err.msg, "[registry bad]: ", 16) == 0, "%s", err.msg);
}

PREPARED(further, one_whose_imports_are_refused_is_named, "")
{
	struct err err = ERR_INIT;
	start_with(serving, configure_badly(serving, EAST IMPORT), &err);
	cr_expect(strncmp(err.msg, "[registry east]: ", 17) == 0, "%s", err.msg);
}

SERVED(further, one_that_cannot_be_opened_does_not_keep_others_away, WEST)
{
	reload_take(serving, configure_without_key(serving, CLOSED EAST));
	cr_expect_eq(serving->agent.further_count, 1);
	RUN_TO_CONNECTED("east");
	cr_expect_eq(logged(serving, "[registry bad]: "), 1);
}

SERVED(further, imports_that_are_refused_stay_as_they_were, EAST IMPORT)
{
	RUN_TO_CONNECTED("east");
	reload_take(serving, configure_badly(serving, EAST IMPORT));
	cr_expect_eq(logged(serving, "the imports in /net/east stay as they were: "), 1);
	cr_expect(
		has(get(serving, "/v1/list/net/east/web"), "HTTP/1.1 200"), "%s", serving->answer);
	reload(serving, EAST IMPORT);
	cr_expect_eq(logged(serving, "stay as they were"), 1);
}

PREPARED(further, credentials_that_cannot_be_read_stay_as_they_are, "")
{
	put_in(serving, "berth-zookeeper", "#!/bin/sh\nexec sleep 60\n");
	cr_assert_eq(chmod(in(serving, "berth-zookeeper"), 0755), 0);
	put_key(serving);
	config_unref(serving->agent.config);
	serving->agent.config = configure(serving, CLOSED);
	serve(serving);
	reload_take(serving, configure_without_key(serving, CLOSED));
	cr_expect_eq(serving->agent.further_count, 1);
	cr_expect_eq(logged(serving, "bad: the credentials stay as they are: "), 1);
	cr_expect_eq(logged(serving, "No such file"), 1);
	put_key(serving);
	reload(serving, CLOSED);
	cr_expect_eq(logged(serving, "stay as they are"), 1);
}
