#include "agent/serving/cache.h"

#include <stdlib.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/path.h"

/* Those of the paths in `warm` that are at `at` or below; with "": those not below /net. */
static size_t choose_warm(const struct config_cache *config, const char *at, char **warm)
{
	size_t count = 0;
	for (size_t i = 0; i < config->warm_count; i++) {
		bool is_ours = *at ? path_is_under(config->warm[i], at)
				   : !path_is_under(config->warm[i], CONFIG_NET);
		if (is_ours) {
			warm[count++] = config->warm[i];
		}
	}
	return count;
}

struct cache_options agent_cache_options(const struct agent *agent, const char *at,
	int64_t session_timeout_ms, struct agent_cache_room *ret_room)
{
	const struct config *config = agent->config;
	ret_room->warm = allocate_zeroed(config->cache.warm_count, sizeof(char *));
	size_t warm_count = choose_warm(&config->cache, at, ret_room->warm);
	return (struct cache_options){
		.max_size_bytes = config->cache.max_size_bytes,
		.confirm_ms = config->cache.is_confirm_given ? config->cache.confirm_ms
							     : session_timeout_ms / 3,
		.max_stale_ms = config->cache.max_stale_ms,
		.resync_ms = config->cache.resync_ms,
		.warm = ret_room->warm,
		.warm_count = warm_count,
		.release_rendering = api_release_rendering,
	};
}

/* The map may have half of the cache's memory. */
static void set_shared_options(struct agent *agent, const struct cache_options *of_cache)
{
	const struct config *config = agent->config;
	shared_set_options(agent->shared,
		&(struct shared_options){ .enabled = config->agent.shared,
			.max_bytes = config->cache.max_size_bytes / 2,
			.warm = of_cache->warm,
			.warm_count = of_cache->warm_count });
}

static bool has_snapshots(const struct agent *agent)
{
	return agent->config->cache.snapshot && state_dir_usable(&agent->state);
}

void agent_cache_load(struct agent *agent, struct cache *cache, const char *changes)
{
	if (has_snapshots(agent)) {
		cache_load(cache, agent->state.path, changes);
	}
}

void agent_cache_open(struct agent *agent, const char *changes)
{
	struct agent_cache_room room;
	struct cache_options options = agent_cache_options(
		agent, "", agent->config->registry.session_timeout_ms, &room);
	agent->cache = cache_create(agent->loop, agent->lookups, &options);
	agent->shared = shared_create(agent->loop, agent->cache);
	set_shared_options(agent, &options);
	free(room.warm);
	agent_cache_load(agent, agent->cache, changes);
}

struct file_job *agent_cache_begin_save(struct agent *agent, struct cache *cache,
	void (*on_saved)(void *context, const struct err *err), void *context)
{
	struct file_work work;
	if (!cache || !has_snapshots(agent) || cache_is_loading(cache)) {
		return NULL;
	}
	cache_save(cache, agent->state.path, &work);
	return file_queue_add(agent->files, &work, on_saved, context);
}

static void on_saved(void *context, const struct err *err)
{
	struct agent *agent = context;
	agent->cache_save = NULL;
	if (err->code) {
		log_warn("cache", "no snapshot is left for the next start: %s", err->msg);
	}
	agent_wake(agent);
}

void agent_cache_save(struct agent *agent)
{
	agent->cache_save = agent_cache_begin_save(agent, agent->cache, on_saved, agent);
}

void agent_cache_close(struct agent *agent)
{
	shared_destroy(agent->shared);
	agent->shared = NULL;
	if (agent->cache_save) {
		file_queue_cancel(agent->cache_save);
		agent->cache_save = NULL;
	}
	cache_destroy(agent->cache);
	agent->cache = NULL;
}

void agent_cache_apply_options(struct agent *agent)
{
	struct agent_cache_room room;
	struct cache_options options = agent_cache_options(
		agent, "", agent->config->registry.session_timeout_ms, &room);
	cache_set_options(agent->cache, &options);
	set_shared_options(agent, &options);
	free(room.warm);
}
