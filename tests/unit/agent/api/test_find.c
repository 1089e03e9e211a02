/*
 * GET /v1/find under pressure, on a registry that does nothing between dispatches.
 */

#include <criterion/criterion.h>
#include <ev.h>
#include <stdio.h>

#include "agent/api/api.h"
#include "tests/support/memory_backend.h"
#include "tests/support/names_stage.h"
#include "tests/unit/agent/api/plain_http.h"

enum { SEARCHES = 40, CHILDREN = 20, MAX_WALKS = 4 };

struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct cache *cache;
	struct names_lookups *names;
	struct history *history;
	struct metrics *metrics;
	struct api *api;
	size_t tasks;
	struct client clients[SEARCHES];
};

/* ---- the stage ---- */

static void count_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	(void)err;
	((struct stage *)context)->tasks++;
}

static void dispatch(struct stage *stage)
{
	for (int i = 0; i < 100; i++) {
		registry_dispatch(stage->registry, 1);
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
}

static void open_stage(struct stage *stage)
{
	static const struct api_hooks hooks;
	static const struct api_options options = { .version = "0", .max_watchers = 10 };
	static const struct cache_options cache_options = { .max_size_bytes = 1024 * 1024,
		.resync_ms = 600000,
		.release_rendering = api_release_rendering };
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO) };
	stage->registry = memory_open("find", &(struct registry_options){ .context = stage });
	memory_on_task(stage->registry, count_task, stage);
	stage->cache = cache_create(stage->loop, stage->registry, &cache_options);
	stage->names = names_stage_create(stage->loop, stage->cache);
	stage->history = history_create();
	stage->metrics = metrics_create();
	stage->api = api_create(stage->loop, stage->cache, stage->names, stage->registry,
		stage->history, stage->metrics, &hooks, &options);
	for (int i = 0; i < CHILDREN; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/n%d", i);
		memory_put(stage->registry, path, "");
	}
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	dispatch(stage);
	stage->tasks = 0;
}

static void close_stage(struct stage *stage)
{
	api_destroy(stage->api);
	metrics_destroy(stage->metrics);
	history_destroy(stage->history);
	names_stage_destroy(stage->names);
	cache_destroy(stage->cache);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

/* Everybody asks for something else. */
static void search(struct stage *stage, bool local)
{
	for (int i = 0; i < SEARCHES; i++) {
		struct client *client = &stage->clients[i];
		*client = (struct client){ .request = { .method = HTTP_GET,
						   .path = "/v1/find",
						   .query = "",
						   .local = local },
			.parameter = "api" };
		snprintf(client->value, sizeof(client->value), "urn:%d", i);
		api_on_request(stage->api, &client->request);
	}
}

static void leave(struct client *client)
{
	if (!client->status) {
		client->on_closed(client->on_closed_context);
	}
}

static int count_answers(const struct stage *stage, int status)
{
	int count = 0;
	for (int i = 0; i < SEARCHES; i++) {
		count += stage->clients[i].status == status;
	}
	return count;
}

Test(api_find, only_some_walk_at_once_and_only_some_wait)
{
	struct stage stage;
	open_stage(&stage);
	search(&stage, true);
	cr_assert_eq(memory_tasks(stage.registry), MAX_WALKS);
	cr_assert_eq(count_answers(&stage, 503), 8);
	cr_assert(stage.clients[SEARCHES - 1].retry);
	dispatch(&stage);
	cr_assert_eq(count_answers(&stage, 200), 32);
	close_stage(&stage);
}

Test(api_find, remote_clients_do_not_use_up_the_turns_of_local_ones)
{
	struct stage stage;
	open_stage(&stage);
	search(&stage, false);
	cr_assert_eq(count_answers(&stage, 503), SEARCHES - 8);
	struct client local = { .request = { .path = "/v1/find", .query = "", .local = true },
		.parameter = "api",
		.value = "urn:local" };
	api_on_request(stage.api, &local.request);
	dispatch(&stage);
	cr_assert_eq(local.status, 200);
	cr_assert_eq(count_answers(&stage, 200), 8);
	search(&stage, false);
	dispatch(&stage);
	cr_assert_eq(count_answers(&stage, 200), 8, "there is room again");
	search(&stage, false);
	for (int i = 0; i < SEARCHES; i++) {
		leave(&stage.clients[i]);
	}
	search(&stage, false);
	dispatch(&stage);
	cr_assert_eq(count_answers(&stage, 200), 8, "after those that left, too");
	close_stage(&stage);
}

Test(api_find, a_walk_ends_when_its_last_client_leaves)
{
	struct stage stage;
	open_stage(&stage);
	search(&stage, true);
	for (int i = 0; i < SEARCHES; i++) {
		leave(&stage.clients[i]);
	}
	dispatch(&stage);
	cr_assert_lt(stage.tasks, CHILDREN, "%zu tasks for nobody", stage.tasks);
	search(&stage, true);
	dispatch(&stage);
	cr_assert_eq(count_answers(&stage, 200), 32, "what was left can be asked for again");
	close_stage(&stage);
}
