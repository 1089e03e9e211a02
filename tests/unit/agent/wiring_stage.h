/*
 * The agent's components, checks and drains, wired as in an agent, on a registry in memory: no
 * socket, no main process. The stage decides again after each wake-up, as agent_reconsider() does.
 */
#ifndef TESTS_UNIT_AGENT_WIRING_STAGE_H
#define TESTS_UNIT_AGENT_WIRING_STAGE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/registration/checks.h"
#include "agent/registration/components.h"
#include "agent/registration/drain.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/registration/persistent.h"
#include "agent/life/stop.h"
#include "lib/base/array.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/run_until.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

struct wiring {
	struct agent agent;
	char folder[SCRATCH_PATH];
	char deleted[512]; /* the paths of nodes that were deleted: "/a; /b; " */
	int failing_stats; /* so many questions about a node fail */
};

static inline struct config *load(struct wiring *wiring, const char *text)
{
	char path[SCRATCH_PATH + 16];
	snprintf(path, sizeof(path), "%s/berth.ini", wiring->folder);
	FILE *file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
	struct config *config = NULL;
	struct config_problems problems;
	int code = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	config_problems_finish(&problems);
	cr_assert_eq(code, 0);
	unlink(path);
	return config;
}

static inline void on_reconsider(struct ev_loop *loop, ev_async *watcher, int events)
{
	(void)loop;
	(void)events;
	struct agent *agent = watcher->data;
	agent_components_update_gates(agent);
	agent_components_go_on(agent);
	(void)agent_components_free_withdrawn(agent);
	agent_drain_proceed(agent);
	agent_stop_proceed(agent);
}

static inline void on_registry_state(void *context, enum registry_state state, const char *why)
{
	struct wiring *wiring = context;
	agent_components_on_registry_state(&wiring->agent, state, why);
	agent_wake(&wiring->agent);
}

static inline void on_task(void *context, const struct registry_task *task, struct err *err)
{
	struct wiring *wiring = context;
	size_t used = strlen(wiring->deleted);
	if (task->operation == REGISTRY_OP_DELETE) {
		snprintf(
			wiring->deleted + used, sizeof(wiring->deleted) - used, "%s; ", task->path);
	} else if (task->operation == REGISTRY_OP_STAT && wiring->failing_stats > 0) {
		wiring->failing_stats--;
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

/* An agent starts; its state directory holds the documents of a predecessor. */
static inline void agent_begin(struct wiring *wiring)
{
	struct agent *agent = &wiring->agent;
	struct err err = ERR_INIT;
	agent->state = (struct state_dir){ .lock_fd = -1 };
	agent->files = file_queue_create(agent->loop);
	cr_assert_eq(state_dir_init(&agent->state, wiring->folder, -1, agent->files, &err), 0, "%s",
		err.msg);
	agent->metrics = metrics_create();
	agent_history_load(agent, NULL);
	agent_drain_load(agent, NULL);
	agent_stop_init(agent);
	agent_persistent_load(agent);
	agent_checks_create(agent, NULL);
	agent_components_create(agent, NULL);
	agent_drain_load_components(agent);
	agent_wake(agent);
}

static inline void agent_end(struct wiring *wiring)
{
	struct agent *agent = &wiring->agent;
	agent_components_destroy(agent);
	agent_checks_destroy(agent);
	ev_periodic_stop(agent->loop, &agent->drain_end_timer);
	timer_stop(&agent->drain_retry_timer);
	timer_stop(&agent->phase_timer);
	agent_history_save(agent);
	history_destroy(agent->history);
	metrics_destroy(agent->metrics);
	agent_persistent_finish(agent);
	cr_assert(file_queue_wait(agent->files, 60000));
	state_dir_finish(&agent->state);
	file_queue_destroy(agent->files);
	ev_clear_pending(agent->loop, &agent->reconsider);
	agent->drain = (struct drain){ .active = false };
	agent->drained_at = 0;
}

static inline struct wiring *wiring_begin(struct wiring *wiring, const char *text)
{
	struct agent *agent = &wiring->agent;
	const struct registry_options registry = { .on_state = on_registry_state,
		.context = wiring };
	scratch_folder(wiring->folder);
	agent->loop = ev_loop_new(EVFLAG_AUTO);
	agent->config = load(wiring, text);
	agent->started = ev_time();
	ev_async_init(&agent->reconsider, on_reconsider);
	agent->reconsider.data = agent;
	agent->lookups = agent->registry = memory_open("wiring", &registry);
	memory_on_task(agent->registry, on_task, wiring);
	memory_put(agent->registry, "/app", "");
	agent->scheduler = check_scheduler_create(agent->loop, 4);
	agent_begin(wiring);
	registry_loop_init(&agent->registry_driver, agent->loop, agent->registry);
	return wiring;
}

static inline void wiring_end(struct wiring *wiring)
{
	static const char *const documents[] = { "drain", "history", "persistent", "lock" };
	struct agent *agent = &wiring->agent;
	agent_end(wiring);
	check_scheduler_destroy(agent->scheduler);
	registry_loop_finish(&agent->registry_driver);
	registry_close(agent->registry);
	config_unref(agent->config);
	ev_loop_destroy(agent->loop);
	for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
		char path[SCRATCH_PATH + 16];
		snprintf(path, sizeof(path), "%s/%s", wiring->folder, documents[i]);
		unlink(path);
	}
	cr_assert_eq(rmdir(wiring->folder), 0, "something is left behind");
}

/* An agent with this configuration, which has no checks: its components are to be registered. */
#define WIRED(suite, name, text)                                                                   \
	STAGED_TEST(suite, name, struct wiring *, wiring,                                          \
		wiring_begin(&(struct wiring){ 0 }, text), wiring_end)

#define NO_DELAY "[agent]\ndrain_delay = 0s\n"
#define COMPONENT(name) "[component " name "]\npath = /app/" name "\n"

static inline struct component *component_of(struct wiring *wiring, const char *label)
{
	struct component *component = agent_components_find(&wiring->agent, label);
	cr_assert_not_null(component, "%s", label);
	return component;
}

static inline bool all_registered(struct wiring *wiring)
{
	struct err why = ERR_INIT;
	return agent_components_ready(&wiring->agent, false, &why);
}

static inline void run_to_registered(struct wiring *wiring)
{
	RUN_UNTIL(wiring->agent.loop, all_registered(wiring));
}

/* Does the history have a transition of this subject to that state? */
static inline bool tells(struct wiring *wiring, const char *subject, const char *to)
{
	json_t *history = history_json(wiring->agent.history, false);
	bool found = false;
	size_t index;
	json_t *entry;
	json_array_foreach (history, index, entry) {
		found = found ||
			(strcmp(json_string_value(json_object_get(entry, "subject")), subject) ==
					0 &&
				strcmp(json_string_value(json_object_get(entry, "to")), to) == 0);
	}
	json_decref(history);
	return found;
}

#endif
