/* The agent's cache: its options, what of it survives a restart, and the memory that is mapped. */

#include "tests/unit/agent/serving/serving_stage.h"

#define LOOK_UP "/v1/resolve/app"

static size_t most_bytes(const struct serving *serving)
{
	struct cache_stats stats;
	cache_get_stats(serving->agent.cache, &stats);
	return stats.max_bytes;
}

/* The size of the map that a client gets; 0: it gets none. */
static size_t map_bytes(struct serving *serving)
{
	int fd;
	size_t size = 0;
	struct err err = ERR_INIT;
	if (shared_is_enabled(serving->agent.shared)) {
		cr_assert_eq(shared_hand_out(serving->agent.shared, &fd, &size, &err), 0);
	}
	return size;
}

/* ---- options ---- */

SERVED(serving_cache, the_options_are_those_of_the_configuration,
	"[cache]\nmax_size = 2M\nmax_stale = 7s\nresync = 9s\nconfirm = 11s\n")
{
	struct agent_cache_room room;
	struct cache_options options = agent_cache_options(&serving->agent, "", 30000, &room);
	cr_expect_eq(options.max_size_bytes, 2 * 1024 * 1024);
	cr_expect_eq(options.max_stale_ms, 7000);
	cr_expect_eq(options.resync_ms, 9000);
	cr_expect_eq(options.confirm_ms, 11000);
	cr_expect_eq(options.warm_count, 0);
	free(room.warm);
	cr_expect_eq(most_bytes(serving), 2 * 1024 * 1024);
}

SERVED(serving_cache, without_a_word_a_server_is_asked_after_a_third_of_its_session, "")
{
	struct agent_cache_room room;
	struct cache_options options = agent_cache_options(&serving->agent, "", 30000, &room);
	cr_expect_eq(options.confirm_ms, 10000);
	free(room.warm);
}

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

SERVED(serving_cache, warm_paths_are_read_before_anybody_asks, "[cache]\nwarm = /app\n")
{
	struct cache_stats stats;
	put(serving, "/app", AT_HOST("10.0.0.1"));
	go_on(serving);
	cache_get_stats(serving->agent.cache, &stats);
	cr_expect_gt(stats.entries, 0);
	struct shared_stats shared;
	cr_assert_gt(map_bytes(serving), 0);
	RUN_UNTIL(serving->agent.loop,
		(shared_get_stats(serving->agent.shared, &shared), shared.entries > 0));
}

SERVED(serving_cache, a_reload_puts_limits_into_force, "[cache]\nmax_size = 1M\n")
{
	cr_expect_gt(map_bytes(serving), 0);
	reload(serving, "shared = no\n[cache]\nmax_size = 3M\nwarm = /app\n");
	cr_expect_eq(most_bytes(serving), 3 * 1024 * 1024);
	cr_expect_not(shared_is_enabled(serving->agent.shared));
	put(serving, "/app", AT_HOST("10.0.0.1"));
	go_on(serving);
	struct cache_stats stats;
	cache_get_stats(serving->agent.cache, &stats);
	cr_expect_gt(stats.entries, 0, "what is warm now is read");
}

/* ---- the map ---- */

SERVED(serving_cache, the_map_has_half_of_the_memory, "[cache]\nmax_size = 128K\n")
{
	cr_expect_eq(map_bytes(serving), 64 * 1024);
}

SERVED(serving_cache, memory_of_which_half_is_too_little_has_no_map, "[cache]\nmax_size = 127K\n")
{
	cr_expect_eq(map_bytes(serving), 0);
}

SERVED(serving_cache, an_agent_may_have_no_map, "shared = no\n")
{
	cr_expect_eq(map_bytes(serving), 0);
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

SERVED(serving_cache, answers_survive_a_restart_in_an_outage, "")
{
	put(serving, "/app", AT_HOST("10.0.0.1"));
	cr_assert(has(get(serving, LOOK_UP), "HTTP/1.1 200"));
	serve_in_an_outage(serving);
	cr_expect(has(get(serving, LOOK_UP), "\"10.0.0.1\""), "%s", serving->answer);
	cr_expect_eq(logged(serving, "no snapshot is left"), 0);
}

SERVED(serving_cache, without_a_snapshot_they_do_not, "[cache]\nsnapshot = no\n")
{
	put(serving, "/app", AT_HOST("10.0.0.1"));
	cr_assert(has(get(serving, LOOK_UP), "HTTP/1.1 200"));
	serve_in_an_outage(serving);
	cr_expect(has(get(serving, LOOK_UP), "HTTP/1.1 503"), "%s", serving->answer);
	cr_expect_neq(access(in(serving, "state/cache"), F_OK), 0);
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

SERVED(serving_cache, a_snapshot_that_cannot_be_saved_is_reported, "")
{
	char command[SCRATCH_PATH + 32];
	snprintf(command, sizeof(command), "rm -rf %s", in(serving, "state"));
	cr_assert_eq(system(command), 0);
	serve_again(serving);
	cr_expect_eq(logged(serving, "no snapshot is left for the next start: "), 1);
}

PREPARED(serving_cache, without_a_state_directory_there_is_none_and_no_complaint, "")
{
	put_in(serving, "state", "a file in its place");
	serve(serving);
	connect_registry(serving);
	serve_again(serving);
	cr_expect_eq(logged(serving, "snapshot"), 0);
}
