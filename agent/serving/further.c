#include "agent/serving/further.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/registration/registry.h"
#include "agent/serving/cache.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/array.h"
#include "lib/base/text.h"
#include "lib/registry/registry_fixed.h"

struct agent_further {
	struct agent *agent;
	struct config *whole; /* a reference, for `config` */
	const struct config_registry *config;
	char *at;       /* /net/NAME */
	char *snapshot; /* the name of its file in the state directory */
	struct registry *registry;
	struct registry_loop driver;
	struct cache *cache;
	enum registry_state was; /* before the last change */
	double since;
	char error[256];       /* the last one since it was connected; "" while it is */
	struct file_job *save; /* of the cache; NULL: not under way */
	bool is_kept;          /* by the reload under way */
	bool goes;             /* its name is configured no more */
};

/* The registry of the names themselves. */
struct agent_net {
	struct registry *registry;
	struct registry_loop driver;
	struct cache *cache;
};

static const char *name_of(const struct agent_further *further)
{
	return further->config->name;
}

/* ---- what a registry reports ---- */

static void on_state(void *context, enum registry_state state, const char *why)
{
	struct agent_further *further = context;
	struct agent *agent = further->agent;
	char *subject = allocate_format("registry %s", name_of(further));
	further->since = ev_now(agent->loop);
	text_printf(further->error, sizeof(further->error), "%s",
		state == REGISTRY_CONNECTED ? "" : why);
	agent_transition(
		agent, subject, registry_state_name(further->was), registry_state_name(state), why);
	further->was = state;
	shared_forget(agent->shared, further->cache);
	if (state == REGISTRY_LOST) {
		metrics_add(agent->metrics, METRIC_SESSION_EXPIRATIONS, name_of(further), "", 1);
	}
	cache_on_registry_state(further->cache, state);
	free(subject);
}

static void on_log(void *context, enum registry_log_level level, const char *message)
{
	const struct agent_further *further = context;
	agent_registry_log(level, name_of(further), message);
}

static void on_attempt(void *context, const char *why, unsigned count)
{
	struct agent_further *further = context;
	text_printf(further->error, sizeof(further->error), "%s, attempt %u", why, count);
	agent_wake(further->agent);
}

static void on_answer(void *context, int code, double duration_s)
{
	const struct agent_further *further = context;
	agent_registry_count(further->agent, name_of(further), code, duration_s);
}

/* ---- coming and going ---- */

static int open_registry(struct agent_further *further, struct err *err)
{
	const struct config_registry *config = further->config;
	const struct registry_options options = {
		.url = config->url,
		.session_timeout_ms = (int)config->session_timeout_ms,
		.auth = config->auth,
		.auth_file = config->auth_file,
		.tls_ca = config->tls_ca,
		.tls_cert = config->tls_cert,
		.tls_key = config->tls_key,
		.tls_passphrase_file = config->tls_passphrase_file,
		.foreign_paths = true,
		.at = further->at,
		.on_state = on_state,
		.on_log = on_log,
		.on_attempt = on_attempt,
		.on_answer = on_answer,
		.context = further,
	};
	return registry_open(&further->registry, &options, err) ||
			agent_registry_set_imports(
				further->agent, further->registry, further->at, err)
		? err->code
		: 0;
}

static void destroy(struct agent_further *further)
{
	if (further->save) {
		file_queue_cancel(further->save);
	}
	cache_destroy(further->cache);
	if (further->registry) {
		/* A session without nodes of its own ends by itself: nobody waits for that. */
		json_decref(registry_detach(further->registry));
	}
	config_unref(further->whole);
	free(further->snapshot);
	free(further->at);
	free(further);
}

static void set_cache_options(struct agent_further *further)
{
	struct agent_cache_room room;
	struct cache_options options = agent_cache_options(
		further->agent, further->at, further->config->session_timeout_ms, &room);
	options.snapshot_name = further->snapshot;
	if (further->cache) {
		cache_set_options(further->cache, &options);
	} else {
		further->cache = cache_create(further->agent->loop, further->registry, &options);
	}
	free(room.warm);
}

/* NULL, with a line in the log: it cannot be opened. */
static struct agent_further *create(struct agent *agent, const struct config_registry *config,
	const json_t *changes, struct err *err)
{
	struct agent_further *further = allocate_zeroed(1, sizeof(*further));
	further->agent = agent;
	further->whole = agent->config;
	config_ref(further->whole);
	further->config = config;
	further->at = allocate_format(CONFIG_NET "/%s", config->name);
	further->snapshot = allocate_format("cache-%s", config->name);
	further->since = ev_now(agent->loop);
	if (open_registry(further, err)) {
		err_wrap(err, "[registry %s]", config->name);
		destroy(further);
		return NULL;
	}
	set_cache_options(further);
	agent_cache_load(
		agent, further->cache, json_string_value(json_object_get(changes, config->name)));
	shared_forget(agent->shared, agent->net->cache); /* to which its paths were absent */
	cache_attach(agent->cache, further->at, further->cache);
	registry_loop_init(&further->driver, agent->loop, further->registry);
	registry_loop_begin(&further->driver);
	return further;
}

static void on_saved(void *context, const struct err *err)
{
	struct agent_further *further = context;
	further->save = NULL;
	if (err->code) {
		log_warn("cache", "no snapshot of a further registry is left: %s", err->msg);
	}
	agent_wake(further->agent);
}

void agent_further_save(struct agent *agent)
{
	for (size_t i = 0; i < agent->further_count; i++) {
		struct agent_further *further = agent->further[i];
		further->save = agent_cache_begin_save(agent, further->cache, on_saved, further);
	}
}

bool agent_further_any(const struct agent *agent, bool (*is)(const struct cache *cache))
{
	bool any = false;
	for (size_t i = 0; i < agent->further_count; i++) {
		any = any || is(agent->further[i]->cache);
	}
	return any;
}

bool agent_further_is_saving(const struct agent *agent)
{
	bool saving = false;
	for (size_t i = 0; i < agent->further_count; i++) {
		saving = saving || agent->further[i]->save;
	}
	return saving;
}

json_t *agent_further_changes(const struct agent *agent)
{
	json_t *changes = json_object();
	for (size_t i = 0; i < agent->further_count; i++) {
		char *text = cache_changes(agent->further[i]->cache);
		json_object_set_new(changes, name_of(agent->further[i]), json_string(text));
		free(text);
	}
	return changes;
}

/* ---- /net ---- */

static int open_net(struct agent *agent, struct err *err)
{
	struct agent_net *net = allocate_zeroed(1, sizeof(*net));
	const struct registry_options options = { .at = CONFIG_NET };
	struct agent_cache_room room;
	struct cache_options of_cache = agent_cache_options(agent, CONFIG_NET "/", 0, &room);
	free(room.warm);
	of_cache.warm_count = 0;
	if (registry_open_fixed(&net->registry, &options, err)) {
		free(net);
		return err->code;
	}
	/* It is connected before anybody asks. */
	registry_dispatch(net->registry, 0);
	net->cache = cache_create(agent->loop, net->registry, &of_cache);
	cache_attach(agent->cache, CONFIG_NET, net->cache);
	registry_loop_init(&net->driver, agent->loop, net->registry);
	agent->net = net;
	return 0;
}

static void close_net(struct agent *agent)
{
	struct agent_net *net = agent->net;
	if (net) {
		shared_forget(agent->shared, net->cache);
		cache_detach(agent->cache, net->cache);
		cache_destroy(net->cache);
		registry_loop_finish(&net->driver);
		registry_close(net->registry);
		free(net);
	}
	agent->net = NULL;
}

static void show_names(struct agent *agent)
{
	const char **names = allocate_zeroed(agent->further_count, sizeof(*names));
	struct err err = ERR_INIT;
	for (size_t i = 0; i < agent->further_count; i++) {
		names[i] = name_of(agent->further[i]);
	}
	allocated_code(registry_fixed_set(agent->net->registry, names, agent->further_count, &err));
	free(names);
}

/* ---- all of them ---- */

static void add(struct agent *agent, struct agent_further *further)
{
	agent->further = allocate_grow(
		agent->further, agent->further_count, sizeof(struct agent_further *));
	agent->further[agent->further_count++] = further;
}

int agent_further_open(struct agent *agent, const json_t *changes, struct err *err)
{
	if (open_net(agent, err)) {
		return err->code;
	}
	for (size_t i = 0; i < agent->config->further_count; i++) {
		struct agent_further *further = create(
			agent, &agent->config->further[i], changes, err);
		if (!further) {
			return err->code;
		}
		add(agent, further);
	}
	show_names(agent);
	return 0;
}

void agent_further_close(struct agent *agent)
{
	for (size_t i = 0; i < agent->further_count; i++) {
		struct agent_further *further = agent->further[i];
		shared_forget(agent->shared, further->cache);
		cache_detach(agent->cache, further->cache);
		registry_loop_finish(&further->driver);
		destroy(further);
	}
	free(agent->further);
	agent->further = NULL;
	agent->further_count = 0;
	close_net(agent);
}

void agent_further_leave(struct agent *agent)
{
	for (size_t i = 0; i < agent->further_count; i++) {
		struct agent_further *further = agent->further[i];
		registry_loop_finish(&further->driver);
		json_decref(registry_leave(further->registry));
	}
}

/* The one with the same options, which then is kept; NULL: there is none. */
static struct agent_further *find_equal(struct agent *agent, const struct config_registry *config)
{
	for (size_t i = 0; i < agent->further_count; i++) {
		struct agent_further *further = agent->further[i];
		if (config_further_equal(further->config, config)) {
			return further;
		}
	}
	return NULL;
}

static bool is_configured(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->further_count; i++) {
		if (strcmp(config->further[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

static void keep(struct agent_further *further)
{
	struct err err = ERR_INIT;
	further->is_kept = true;
	set_cache_options(further);
	shared_forget(further->agent->shared, further->cache);
	if (agent_registry_set_imports(further->agent, further->registry, further->at, &err)) {
		log_error("agent", "the imports in %s stay as they were: %s", further->at, err.msg);
		err_clear(&err);
	}
	if (registry_reauthenticate(further->registry, &err)) {
		log_warn("registry", "%s: the credentials stay as they are: %s", name_of(further),
			err.msg);
	}
}

/* Its paths are no longer its own. */
static void detach(struct agent_further *further)
{
	struct agent *agent = further->agent;
	further->goes = !is_configured(agent->config, name_of(further));
	shared_forget(agent->shared, further->cache);
	cache_detach(agent->cache, further->cache);
	registry_loop_finish(&further->driver);
	agent->retired_further = allocate_grow(agent->retired_further, agent->retired_further_count,
		sizeof(struct agent_further *));
	agent->retired_further[agent->retired_further_count++] = further;
}

void agent_further_reload(struct agent *agent)
{
	const struct config *config = agent->config;
	for (size_t i = 0; i < config->further_count; i++) {
		struct agent_further *same = find_equal(agent, &config->further[i]);
		if (same) {
			keep(same);
		}
	}
	size_t kept = 0;
	for (size_t i = 0; i < agent->further_count; i++) {
		struct agent_further *further = agent->further[i];
		if (further->is_kept) {
			agent->further[kept++] = further;
		} else {
			detach(further);
		}
		further->is_kept = false;
	}
	agent->further_count = kept;
	for (size_t i = 0; i < config->further_count; i++) {
		struct err err = ERR_INIT;
		if (find_equal(agent, &config->further[i])) {
			continue;
		}
		struct agent_further *further = create(agent, &config->further[i], NULL, &err);
		if (further) {
			add(agent, further);
		} else {
			log_error("agent", "%s", err.msg);
		}
	}
	show_names(agent);
}

static void on_removed(void *context, const struct err *err)
{
	(void)context;
	if (err->code) {
		log_info("cache", "%s", err->msg);
	}
}

static const enum metric of_registries[] = { METRIC_REGISTRY_CONNECTED, METRIC_SESSION_EXPIRATIONS,
	METRIC_REGISTRY_REQUESTS, METRIC_CACHE_ENTRIES, METRIC_CACHE_BYTES,
	METRIC_CACHE_STALE_SECONDS, METRIC_CACHE_EVICTIONS, METRIC_CACHE_REFUSALS };

static bool is_known(void *context, const char *name)
{
	const struct agent *agent = context;
	return !*name || is_configured(agent->config, name);
}

void agent_further_retire(struct agent *agent)
{
	struct err err = ERR_INIT;
	for (size_t i = 0; i < agent->retired_further_count; i++) {
		struct agent_further *further = agent->retired_further[i];
		err_clear(&err);
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE,
			"the configuration of [registry %s] has changed", name_of(further));
		cache_refuse_all(further->cache, &err);
		names_lookups_forget(agent->names);
		if (further->goes && state_dir_usable(&agent->state)) {
			state_dir_remove(&agent->state, further->snapshot, on_removed, agent);
		}
		log_info("agent", "%s %s", further->at,
			further->goes ? "is no longer configured" : "begins anew");
		destroy(further);
	}
	sets_rewire(agent->sets);
	for (size_t i = 0; i < ARRAY_LEN(of_registries); i++) {
		metrics_retain(agent->metrics, of_registries[i], is_known, agent);
	}
	free(agent->retired_further);
	agent->retired_further = NULL;
	agent->retired_further_count = 0;
	names_lookups_forget(agent->names);
}

/* ---- status ---- */

json_t *agent_further_json(const struct agent *agent)
{
	json_t *list = json_array();
	for (size_t i = 0; i < agent->further_count; i++) {
		const struct agent_further *further = agent->further[i];
		const struct registry *registry = further->registry;
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:i}", "name",
				name_of(further), "path", further->at, "url",
				registry_url(registry), "state",
				registry_state_name(registry_state(registry)), "error",
				further->error, "session", registry_session_name(registry), "since",
				further->since, "session_timeout_ms",
				registry_session_timeout_ms(registry)));
	}
	return list;
}

void agent_further_update_metrics(struct agent *agent)
{
	struct metrics *metrics = agent->metrics;
	for (size_t i = 0; i < agent->further_count; i++) {
		const struct agent_further *further = agent->further[i];
		const char *name = name_of(further);
		struct cache_stats stats;
		cache_get_stats(further->cache, &stats);
		metrics_set(metrics, METRIC_REGISTRY_CONNECTED, name,
			registry_state(further->registry) == REGISTRY_CONNECTED);
		metrics_add(metrics, METRIC_SESSION_EXPIRATIONS, name, "", 0);
		metrics_set(metrics, METRIC_CACHE_ENTRIES, name, (double)stats.entries);
		metrics_set(metrics, METRIC_CACHE_BYTES, name, (double)stats.bytes);
		metrics_set(metrics, METRIC_CACHE_STALE_SECONDS, name, stats.stale_seconds);
		metrics_set(metrics, METRIC_CACHE_EVICTIONS, name, (double)stats.evictions);
		metrics_set(metrics, METRIC_CACHE_REFUSALS, name, (double)stats.refusals);
	}
}
