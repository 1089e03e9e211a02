/* The agent's cache: its warm paths, and what of it survives a restart. */

#include "tests/unit/agent/serving/serving_stage.h"

#define LOOK_UP "/v1/resolve/app"

/* ---- options ---- */

#define WARM                                                                                       \
	"[cache]\nwarm = /a, /net/east/b/**, /network, /net/eastern, /c/**\n"                      \
	"[registry east]\nurl = dir:@/east\n[registry eastern]\nurl = dir:@/eastern\n"

SERVED(serving_cache, each_cache_has_the_warm_paths_of_its_own_registry, WARM)
{
	struct agent_cache_room room;
	struct cache_options options = agent_cache_options(&serving->agent, "", 30000, &room);
	cr_assert_eq(options.warm_count, 3);
	cr_expect_str_eq(options.warm[0], "/a");
	cr_expect_str_eq(options.warm[1], "/network");
	cr_expect_str_eq(options.warm[2], "/c/**");
	free(room.warm);
	options = agent_cache_options(&serving->agent, "/net/east", 30000, &room);
	cr_assert_eq(options.warm_count, 1);
	cr_expect_str_eq(options.warm[0], "/net/east/b/**");
	free(room.warm);
}

/* ---- the snapshot ---- */

/* The agent starts again, and its registry does not answer. */
static void serve_in_an_outage(struct serving *serving)
{
	serve_no_more(serving);
	memory_set_state(serving->agent.registry, REGISTRY_AWAY);
	serving->received = (struct upgrade){ .socket_fd = -1, .listen_fd = -1, .xds_fd = -1 };
	serve(serving);
	RUN_UNTIL(serving->agent.loop, registry_state(serving->agent.registry) == REGISTRY_AWAY);
}

SERVED(serving_cache, a_snapshot_that_is_not_wanted_any_more_is_not_read, "")
{
	put(serving, "/app", AT_HOST("10.0.0.1"));
	cr_assert(has(get(serving, LOOK_UP), "HTTP/1.1 200"));
	serve_no_more(serving);
	cr_assert_eq(access(in(serving, "state/cache"), F_OK), 0);
	config_unref(serving->agent.config);
	serving->agent.config = configure(serving, "[cache]\nsnapshot = no\n");
	serve(serving);
	serve_in_an_outage(serving);
	cr_expect(has(get(serving, LOOK_UP), "HTTP/1.1 503"), "%s", serving->answer);
}
