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

/* ---- one that is away ---- */

#define AWAY "[registry far]\nurl = zookeeper://127.0.0.1:1/r\n"

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

SERVED(further, the_snapshot_of_one_that_is_configured_no_more_goes, EAST WEST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	cr_assert(resolves(serving, "/net/east/app", "\"10.0.0.7\""));
	serve_again(serving);
	cr_expect(is_there(serving, "state/cache-east"));
	metrics_add(serving->agent.metrics, METRIC_SESSION_EXPIRATIONS, "", "", 0);
	reload(serving, WEST);
	cr_expect(has_series(serving, "berth_registry_session_expirations_total "));
	RUN_UNTIL(serving->agent.loop, !is_there(serving, "state/cache-east"));
	cr_expect(is_there(serving, "state/cache-west"));
}

SERVED(further, one_with_another_url_keeps_its_snapshot, EAST)
{
	serve_again(serving);
	reload(serving, ELSEWHERE);
	cr_assert(file_queue_wait(serving->agent.files, 60000));
	cr_expect(is_there(serving, "state/cache-east"), "it has the same name");
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

SERVED(further, its_answers_leave_the_memory_when_its_limits_change, EAST)
{
	put_east(serving, "/app", AT_HOST("10.0.0.7"));
	share(serving, "/net/east/app");
	agent_further_reload(&serving->agent);
	cr_expect_eq(shared_entries(serving), 0);
	agent_further_retire(&serving->agent);
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

#define IMPORT "[import web]\ntype = serverset\nfrom = /aurora/web\nas = /net/east/web\n"

/* One whose import is at a path that the registry does not take. */
static struct config *configure_badly(struct serving *serving, const char *text)
{
	struct config *config = configure(serving, text);
	char *name = strstr(config->imports[0].as, "web");
	cr_assert_not_null(name);
	*name = '/';
	return config;
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
