#include "agent/serving/cache.h"

#include "agent/core/state.h"
#include "agent/base/log.h"

static struct cache_options options_of(const struct agent *agent)
{
	const struct config *config = agent->config;
	return (struct cache_options){
		.max_size_bytes = config->cache.max_size_bytes,
		.confirm_ms = config->cache.confirm_ms,
		.max_stale_ms = config->cache.max_stale_ms,
		.resync_ms = config->cache.resync_ms,
		.warm = config->cache.warm,
		.warm_count = config->cache.warm_count,
		.release_rendering = api_release_rendering,
	};
}

/* The map may have half of the cache's memory. */
static void set_shared_options(struct agent *agent)
{
	const struct config *config = agent->config;
	shared_set_options(agent->shared,
		&(struct shared_options){ .enabled = config->agent.shared,
			.max_bytes = config->cache.max_size_bytes / 2,
			.warm = config->cache.warm,
			.warm_count = config->cache.warm_count });
}

void agent_cache_open(struct agent *agent)
{
	struct cache_options options = options_of(agent);
	agent->cache = cache_create(agent->loop, agent->lookups, &options);
	agent->shared = shared_create(agent->loop, agent->cache);
	set_shared_options(agent);
	if (agent->config->cache.snapshot && state_dir_usable(&agent->state)) {
		cache_load(agent->cache, agent->state.path);
	}
}

static void on_saved(void *context, const struct err *err)
{
	(void)context;
	if (err->code) {
		log_warn("cache", "no snapshot is left for the next start: %s", err->msg);
	}
}

void agent_cache_close(struct agent *agent)
{
	shared_destroy(agent->shared);
	agent->shared = NULL;
	if (agent->cache && agent->config->cache.snapshot && state_dir_usable(&agent->state)) {
		struct err err = ERR_INIT;
		struct file_work work;
		if (cache_save(agent->cache, agent->state.path, &work, &err)) {
			on_saved(agent, &err);
		} else {
			(void)file_queue_add(agent->files, &work, on_saved, agent);
		}
	}
	cache_destroy(agent->cache);
	agent->cache = NULL;
}

void agent_cache_apply_options(struct agent *agent)
{
	struct cache_options options = options_of(agent);
	cache_set_options(agent->cache, &options);
	set_shared_options(agent);
}
