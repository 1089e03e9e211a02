#include "tests/sim/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cache/cache.h"
#include "agent/component/component.h"
#include "agent/base/registry_loop.h"
#include "tests/sim/lookup.h"
#include "tests/sim/sim.h"

enum { CONFIGURATIONS = 2, MOST_TURNS = 2000 };
enum { STOP_WITHIN_MS = 5 * SIM_SECOND, TICK_MS = 1 };

enum phase { DOWN, RUNNING, STOPPING };

struct sim_agent {
	struct net *net;
	int number;
	struct sim_random random;
	enum phase phase;
	enum sim_health health;
	unsigned configuration;
	int64_t disturbed_ms;
	int64_t stop_by_ms;
	int64_t due_ms;
	json_t *session; /* that a successor resumes, or NULL */
	json_t *saved[SIM_COMPONENTS];
	json_t *saved_checks;

	struct ev_loop *loop;
	struct config *config;
	struct registry *registry;
	struct registry_loop driver;
	struct check_scheduler *scheduler;
	struct check_set *checks;
	struct component *components[SIM_COMPONENTS];
	struct cache *cache;
	struct lookups *lookups;
	struct cache_observer stream;
	bool stream_ready;
	json_t *replayed; /* path -> record as text */
};

static char files[SIM_AGENTS][CONFIGURATIONS][300];

/* ---- configuration ---- */

static void write_component(FILE *file, const char *name, const char *path, int number, char mark)
{
	fprintf(file,
		"[component %s]\npath = %s\nid = container_1408631738011_0001_01_00000%d\n"
		"damping = no\nattribute.mark = %c%d\n",
		name, path, number + 1, mark, number);
	fprintf(file,
		"[endpoint rest-%s]\ncomponent = %s\napi = http://example.org/rest\n"
		"protocol = http\naddress_type = host/port\naddress = 10.0.0.%d:80\n",
		name, name, number + 1);
	fprintf(file,
		"[check alive-%s]\ncomponent = %s\ntype = command\ncommand = /bin/true\n"
		"interval = 10s\ntimeout = 5s\nfall = 1\n",
		name, name);
}

void sim_agents_configure(const char *folder)
{
	for (int number = 0; number < SIM_AGENTS; number++) {
		for (int i = 0; i < CONFIGURATIONS; i++) {
			char path[64];
			snprintf(files[number][i], sizeof(files[number][i]), "%s/%d-%d.ini", folder,
				number, i);
			FILE *file = fopen(files[number][i], "w");
			if (!file) {
				perror(files[number][i]);
				exit(2);
			}
			snprintf(path, sizeof(path), "/users/joe/web/prod/components/c%d", number);
			write_component(file, "own", path, number, (char)('a' + i));
			write_component(
				file, "shared", "/services/leader", number, (char)('a' + i));
			fclose(file);
		}
	}
}

static struct config *load(const struct sim_agent *agent)
{
	struct config *config = NULL;
	struct config_problems problems;
	if (config_load(&config, files[agent->number][agent->configuration], &problems)) {
		sim_fail("agent %d: the configuration is bad: %s", agent->number,
			problems.items[0].message);
	}
	config_problems_finish(&problems);
	return config;
}

/* ---- wiring ---- */

static void on_state(void *context, enum registry_state state, const char *why)
{
	struct sim_agent *agent = context;
	agent->disturbed_ms = sim_now_ms();
	if (agent->cache) {
		cache_on_registry_state(agent->cache, state);
	}
	for (int i = 0; i < SIM_COMPONENTS; i++) {
		if (agent->components[i]) {
			component_on_registry_state(agent->components[i], state, why);
		}
	}
}

static void on_transition(void *context, const struct transition *transition)
{
	const struct sim_agent *agent = context;
	sim_trace("agent %d: %s: %s -> %s: %s", agent->number, transition->subject,
		transition->from, transition->to, transition->why);
}

static void on_check_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	const struct sim_agent *agent = context;
	if (strcmp(from, to) != 0) {
		sim_trace("agent %d: check %s: %s -> %s: %s", agent->number,
			check_config(check)->name, from, to, why);
	}
	for (int i = 0; i < SIM_COMPONENTS; i++) {
		component_check_changed(agent->components[i], check);
	}
}

static void on_announced(void *context, struct component *component)
{
	(void)context;
	(void)component;
}

static void release_rendering(void *rendering)
{
	(void)rendering;
}

static void keep_record(void *context, const struct cache_record *record)
{
	struct sim_agent *agent = context;
	json_object_set_new(
		agent->replayed, record->path, json_string(record->data ? record->data : "null"));
}

static void on_stream_ready(void *context)
{
	struct sim_agent *agent = context;
	agent->stream_ready = true;
	cache_read_picture(&agent->stream, sim_now_ms(), keep_record, agent);
}

static void on_stream_event(
	void *context, enum cache_event event, const char *path, const char *record)
{
	static const char *const words[] = { "updated", "deleted", "stale", "fresh" };
	struct sim_agent *agent = context;
	sim_trace("agent %d: event: %s %s", agent->number, words[event], path ? path : "");
	if (event == CACHE_UPDATED) {
		json_object_set_new(agent->replayed, path, json_string(record));
	} else if (event == CACHE_DELETED) {
		json_object_del(agent->replayed, path);
	}
}

static struct component_environment environment_of(struct sim_agent *agent)
{
	return (struct component_environment){ .loop = agent->loop,
		.registry = agent->registry,
		.checks = agent->checks,
		.update_interval_ms = 1000,
		.session_resumed = agent->session != NULL,
		.on_transition = on_transition,
		.on_announced = on_announced,
		.context = agent };
}

static void open_components(struct sim_agent *agent)
{
	const struct check_callbacks callbacks = { .on_change = on_check_change, .context = agent };
	agent->checks = check_set_create(agent->scheduler, &callbacks);
	check_set_arrange(agent->checks, agent->config, agent->saved_checks);
	json_decref(agent->saved_checks);
	agent->saved_checks = NULL;
	struct component_environment environment = environment_of(agent);
	for (int i = 0; i < SIM_COMPONENTS; i++) {
		agent->components[i] = component_create(
			&environment, &agent->config->components[i], agent->saved[i]);
		json_decref(agent->saved[i]);
		agent->saved[i] = NULL;
		component_set_gate(agent->components[i], COMPONENT_GATE_OPEN, "");
	}
}

void sim_agent_start(struct sim_agent *agent)
{
	struct err err = ERR_INIT;
	if (agent->phase != DOWN) {
		return;
	}
	sim_trace("agent %d starts", agent->number);
	agent->phase = RUNNING;
	agent->disturbed_ms = sim_now_ms();
	agent->loop = ev_loop_new(EVFLAG_NOENV | EVFLAG_NOTIMERFD | EVBACKEND_EPOLL);
	ev_set_userdata(agent->loop, agent);
	agent->config = load(agent);
	const struct registry_options options = {
		.session = agent->session, .on_state = on_state, .context = agent
	};
	if (net_open(agent->net, agent->number, &options, &agent->registry, &err)) {
		sim_fail("agent %d: %s", agent->number, err.msg);
		return;
	}
	registry_loop_init(&agent->driver, agent->loop, agent->registry);
	const struct cache_options cache = { .max_size_bytes = 16 << 20,
		.confirm_ms = SIM_CONFIRM_MS,
		.resync_ms = 10 * SIM_MINUTE,
		.release_rendering = release_rendering };
	agent->cache = cache_create(agent->loop, agent->registry, &cache);
	agent->scheduler = check_scheduler_create(agent->loop, 8);
	open_components(agent);
	json_decref(agent->session);
	agent->session = NULL;
	agent->replayed = json_object();
	agent->stream = (struct cache_observer){ .scope = CACHE_TREE,
		.on_ready = on_stream_ready,
		.on_event = on_stream_event,
		.context = agent };
	cache_observe(agent->cache, "/users", &agent->stream);
	agent->lookups = lookups_create(
		agent->loop, agent->cache, agent->number, sim_below(&agent->random, UINT64_MAX));
	agent->due_ms = sim_now_ms();
}

/* Everything but the registry. */
static void close_services(struct sim_agent *agent)
{
	for (int i = 0; i < SIM_COMPONENTS; i++) {
		component_destroy(agent->components[i]);
		agent->components[i] = NULL;
	}
	lookups_destroy(agent->lookups);
	cache_unobserve(&agent->stream);
	cache_destroy(agent->cache);
	agent->cache = NULL;
	check_set_destroy(agent->checks);
	agent->checks = NULL;
	check_scheduler_destroy(agent->scheduler);
	registry_loop_finish(&agent->driver);
	json_decref(agent->replayed);
	agent->replayed = NULL;
	agent->stream_ready = false;
	config_unref(agent->config);
}

static void end(struct sim_agent *agent)
{
	ev_loop_destroy(agent->loop);
	agent->registry = NULL;
	agent->phase = DOWN;
	agent->due_ms = INT64_MAX;
	agent->disturbed_ms = sim_now_ms();
}

static void close_now(struct sim_agent *agent)
{
	close_services(agent);
	registry_close(agent->registry);
	end(agent);
}

void sim_agent_kill(struct sim_agent *agent)
{
	if (agent->phase != DOWN) {
		sim_trace("agent %d is killed", agent->number);
		/* Only the saved session is left. */
		agent->session = sim_chance(&agent->random, 50) ? registry_session(agent->registry)
								: NULL;
		net_kill(agent->net, agent->number);
		close_now(agent);
	}
}

void sim_agent_upgrade(struct sim_agent *agent)
{
	if (agent->phase != RUNNING) {
		return;
	}
	sim_trace("agent %d is upgraded", agent->number);
	agent->saved_checks = check_set_save(agent->checks);
	for (int i = 0; i < SIM_COMPONENTS; i++) {
		agent->saved[i] = component_save(agent->components[i]);
	}
	close_services(agent);
	agent->session = registry_detach(agent->registry);
	end(agent);
	sim_agent_start(agent);
}

void sim_agent_stop(struct sim_agent *agent)
{
	if (agent->phase != RUNNING) {
		return;
	}
	sim_trace("agent %d stops", agent->number);
	agent->phase = STOPPING;
	agent->stop_by_ms = sim_now_ms() + STOP_WITHIN_MS;
	agent->disturbed_ms = sim_now_ms();
	for (int i = 0; i < SIM_COMPONENTS; i++) {
		component_set_gate(agent->components[i], COMPONENT_GATE_CLOSED, "stopping");
	}
}

void sim_agent_reload(struct sim_agent *agent)
{
	agent->configuration = (agent->configuration + 1) % CONFIGURATIONS;
	agent->disturbed_ms = sim_now_ms();
	if (agent->phase != RUNNING) {
		return;
	}
	sim_trace("agent %d reloads", agent->number);
	struct config *before = agent->config;
	struct component_environment environment = environment_of(agent);
	agent->config = load(agent);
	check_set_arrange(agent->checks, agent->config, NULL);
	for (int i = 0; i < SIM_COMPONENTS; i++) {
		component_reload(agent->components[i], &agent->config->components[i], &environment);
	}
	config_unref(before);
}

void sim_agent_set_health(struct sim_agent *agent, enum sim_health health)
{
	static const char *const words[] = { "works", "fails", "hangs" };
	sim_trace("the application of agent %d %s", agent->number, words[health]);
	agent->health = health;
	agent->disturbed_ms = sim_now_ms();
}

struct sim_run sim_agent_run(struct sim_agent *agent)
{
	struct sim_run run = { .takes_ms = (int64_t)sim_below(&agent->random, 900) };
	run.status = agent->health == SIM_WORKS ? 0 : 1;
	if (agent->health == SIM_HANGS) {
		run.takes_ms = SIM_HOUR;
		run.fails_to_start = sim_chance(&agent->random, 20);
	}
	return run;
}

/* ---- time ---- */

static bool is_withdrawn(const struct sim_agent *agent)
{
	for (int i = 0; i < SIM_COMPONENTS; i++) {
		if (!announce_settled(component_announce(agent->components[i]))) {
			return false;
		}
	}
	return true;
}

void sim_agent_turn(struct sim_agent *agent)
{
	int64_t sleep_ms = 0;
	if (agent->phase == STOPPING &&
		(is_withdrawn(agent) || sim_now_ms() >= agent->stop_by_ms)) {
		close_now(agent);
	}
	if (agent->phase == DOWN) {
		return;
	}
	/* Twice without sleep and at the same time: it waits for the clock to step. */
	for (int turns = 0, idle = 0; idle < 2 && sleep_ms == 0; turns++) {
		ev_run(agent->loop, EVRUN_ONCE);
		sleep_ms = sim_clock_sleep_ms();
		idle += sleep_ms == 0 && ev_pending_count(agent->loop) == 0;
		if (turns > MOST_TURNS) {
			sim_fail("agent %d never sleeps", agent->number);
			return;
		}
	}
	agent->due_ms = sleep_ms == INT64_MAX ? INT64_MAX
					      : sim_now_ms() + (sleep_ms ? sleep_ms : TICK_MS);
	if (agent->phase == STOPPING) {
		agent->due_ms = sim_now_ms() + TICK_MS;
	}
}

int64_t sim_agent_due_ms(const struct sim_agent *agent)
{
	return agent->phase == DOWN ? INT64_MAX : agent->due_ms;
}

/* ---- life ---- */

struct sim_agent *sim_agent_create(
	struct net *net, const struct world *world, int number, uint64_t seed)
{
	struct sim_agent *agent = calloc(1, sizeof(*agent));
	lookups_use_world(world);
	agent->net = net;
	agent->number = number;
	agent->due_ms = INT64_MAX;
	sim_random_init(&agent->random, seed, 100 + (uint64_t)number);
	return agent;
}

void sim_agent_destroy(struct sim_agent *agent)
{
	if (agent->phase != DOWN) {
		close_now(agent);
	}
	json_decref(agent->session);
	free(agent);
}

/* ---- for the oracle ---- */

bool sim_agent_is_running(const struct sim_agent *agent)
{
	return agent->phase == RUNNING;
}

enum sim_health sim_agent_health(const struct sim_agent *agent)
{
	return agent->health;
}

const char *sim_agent_path(const struct sim_agent *agent, enum sim_agent_component component)
{
	return component_config(agent->components[component])->path;
}

const char *sim_agent_mark(const struct sim_agent *agent)
{
	static char mark[32];
	snprintf(mark, sizeof(mark), "\"mark\":\"%c%d\"", (char)('a' + (int)agent->configuration),
		agent->number);
	return mark;
}

enum announce_state sim_agent_state(
	const struct sim_agent *agent, enum sim_agent_component component)
{
	return announce_get_state(component_announce(agent->components[component]));
}

int64_t sim_agent_disturbed_ms(const struct sim_agent *agent)
{
	return agent->disturbed_ms;
}

void sim_agent_disturb(struct sim_agent *agent)
{
	agent->disturbed_ms = sim_now_ms();
}

bool sim_agent_stream_ready(const struct sim_agent *agent)
{
	return agent->stream_ready;
}

size_t sim_agent_stream_count(const struct sim_agent *agent)
{
	return json_object_size(agent->replayed);
}

const char *sim_agent_stream_record(const struct sim_agent *agent, const char *path)
{
	return json_string_value(json_object_get(agent->replayed, path));
}
