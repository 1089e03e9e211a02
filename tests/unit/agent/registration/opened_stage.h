/*
 * The registration with a registry that it opens itself, on a registry in memory, and another
 * client of the same tree. The stage decides again after each wake-up, as agent_reconsider() does.
 */
#ifndef TESTS_UNIT_AGENT_REGISTRATION_OPENED_STAGE_H
#define TESTS_UNIT_AGENT_REGISTRATION_OPENED_STAGE_H

#include "agent/registration/registry.h"
#include "tests/unit/agent/registration/seams.h"
#include "tests/unit/agent/wiring_stage.h"

struct opened {
	struct wiring wiring;
	struct agent *agent; /* in it */
	struct registry *other;
	int wakes;
	char asked[1024];    /* of the agent's registry: "stat /a; delete /a; " */
	const char *failing; /* such questions fail: "stat /a"; NULL: none */
	int failing_code;
	const char *late; /* such a question is answered late; NULL: none */
};

static inline void on_opened_reconsider(struct ev_loop *loop, ev_async *watcher, int events)
{
	(void)loop;
	(void)events;
	struct opened *stage = watcher->data;
	struct agent *agent = stage->agent;
	stage->wakes++;
	agent_components_update_gates(agent);
	agent_components_go_on(agent);
	if (agent_components_free_withdrawn(agent)) {
		agent_registry_save_session(agent);
	}
	agent_drain_proceed(agent);
}

static inline void on_asked(void *context, const struct registry_task *task, struct err *err)
{
	static const char *const names[] = { [REGISTRY_OP_GET] = "get",
		[REGISTRY_OP_CHILDREN] = "list",
		[REGISTRY_OP_STAT] = "stat",
		[REGISTRY_OP_CREATE] = "create",
		[REGISTRY_OP_SET] = "set",
		[REGISTRY_OP_DELETE] = "delete",
		[REGISTRY_OP_REPLACE] = "replace" };
	struct opened *stage = context;
	char question[300];
	size_t used = strlen(stage->asked);
	snprintf(question, sizeof(question), "%s %s", names[task->operation], task->path);
	snprintf(stage->asked + used, sizeof(stage->asked) - used, "%s; ", question);
	if (stage->late && strcmp(stage->late, question) == 0) {
		stage->late = NULL;
		memory_be_late(stage->agent->registry, task->path);
	}
	if (stage->failing && strcmp(stage->failing, question) == 0) {
		err_set(err, stage->failing_code, "the test lets it fail");
	}
}

static inline void opened_begin_agent(struct opened *stage, const json_t *left)
{
	struct agent *agent = stage->agent;
	struct err err = ERR_INIT;
	agent->state = (struct state_dir){ .lock_fd = -1 };
	agent->files = file_queue_create(agent->loop);
	cr_assert_eq(state_dir_init(&agent->state, stage->wiring.folder, -1, agent->files, &err), 0,
		"%s", err.msg);
	agent->metrics = metrics_create();
	agent_history_load(agent, NULL);
	agent_drain_load(agent, NULL);
	agent_stop_init(agent);
	cr_assert_eq(agent_registry_open(agent, left, &err), 0, "%s", err.msg);
	memory_on_task(agent->registry, on_asked, stage);
	agent_persistent_load(agent);
	agent_checks_create(agent, NULL);
	agent_components_create(agent, NULL);
	agent_drain_load_components(agent);
	agent_wake(agent);
}

static inline void opened_end_agent(struct opened *stage)
{
	struct agent *agent = stage->agent;
	agent_components_destroy(agent);
	agent_checks_destroy(agent);
	agent_history_save(agent);
	agent_registry_close(agent);
	timer_stop(&agent->session_save_timer);
	timer_stop(&agent->drain_save_timer);
	timer_stop(&agent->drain_retry_timer);
	ev_periodic_stop(agent->loop, &agent->drain_end_timer);
	history_destroy(agent->history);
	metrics_destroy(agent->metrics);
	agent_persistent_finish(agent);
	cr_assert(file_queue_wait(agent->files, 60000));
	state_dir_finish(&agent->state);
	file_queue_destroy(agent->files);
	ev_clear_pending(agent->loop, &agent->reconsider);
	agent->persistent = NULL;
	agent->persistent_is_being_saved = false;
	agent->session_saved[0] = '\0';
	agent->session_resumed = false;
	agent->leave_session = false;
	agent->registry_was = REGISTRY_CONNECTING;
	agent->drain = (struct drain){ .active = false };
	agent->drained_at = 0;
	agent->drain_confirmations = 0;
}

static inline struct opened *opened_begin(struct opened *stage, const char *text)
{
	struct agent *agent = stage->agent = &stage->wiring.agent;
	keep_log();
	scratch_folder(stage->wiring.folder);
	agent->loop = ev_loop_new(EVFLAG_AUTO);
	agent->config = load(&stage->wiring, text);
	agent->started = ev_time();
	ev_async_init(&agent->reconsider, on_opened_reconsider);
	agent->reconsider.data = stage;
	agent->scheduler = check_scheduler_create(agent->loop, 4);
	agent->api = NEIGHBOUR;
	stage->other = memory_open("registry", &(struct registry_options){ .context = NULL });
	memory_put(stage->other, "/app", "");
	client_add(stage->other);
	opened_begin_agent(stage, NULL);
	return stage;
}

static inline void opened_end(struct opened *stage)
{
	struct agent *agent = stage->agent;
	char command[SCRATCH_PATH + 16];
	opened_end_agent(stage);
	check_scheduler_destroy(agent->scheduler);
	client_close(stage->other);
	config_unref(agent->config);
	ev_loop_destroy(agent->loop);
	snprintf(command, sizeof(command), "rm -r %s", stage->wiring.folder);
	cr_assert_eq(system(command), 0);
}

/* An agent with this configuration, which has just started. */
#define OPENED(suite, name, text)                                                                  \
	STAGED_TEST(suite, name, struct opened *, stage,                                           \
		opened_begin(&(struct opened){ 0 }, text), opened_end)

static inline void run_to_records(struct opened *stage)
{
	RUN_UNTIL(stage->agent->loop, all_registered(&stage->wiring));
}

/* From now on this question fails; NULL: none. */
static inline void let_fail(struct opened *stage, const char *question, int code)
{
	stage->failing = question;
	stage->failing_code = code;
}

static inline void reconnect(struct opened *stage)
{
	memory_set_state(stage->agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage->agent->loop, registry_state(stage->agent->registry) == REGISTRY_AWAY);
	stage->asked[0] = '\0';
	memory_set_state(stage->agent->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage->agent->loop, registry_state(stage->agent->registry) == REGISTRY_CONNECTED);
}

/* Lets everything happen that is due. */
static inline void run_a_while(struct opened *stage)
{
	for (int i = 0; i < 30; i++) {
		ev_run(stage->agent->loop, EVRUN_NOWAIT);
	}
}

/* The document that a successor finds on the disk; a new reference, or NULL. */
static inline json_t *saved_document(const struct opened *stage, const char *name)
{
	struct err err = ERR_INIT;
	cr_assert(file_queue_wait(stage->agent->files, 60000));
	return state_dir_load(&stage->agent->state, name, &err);
}

static inline void on_left(void *context, const struct err *err)
{
	(void)context;
	cr_expect_eq(err->code, 0, "%s", err->msg);
}

/* The agent ends; its successor finds this on the disk. */
static inline void leave_document(struct opened *stage, const char *name, json_t *document_take)
{
	cr_assert_not_null(document_take);
	state_dir_save(&stage->agent->state, name, document_take, on_left, NULL);
	json_decref(document_take);
	stage->agent->leave_session = true;
	opened_end_agent(stage);
	(void)was_logged("");
}

/* Is there a node, as another client sees it? */
static inline bool other_sees(const struct opened *stage, const char *path)
{
	struct answer answer = { 0 };
	int code = client_get(stage->other, path, &answer);
	answer_clear(&answer);
	return code == 0;
}

#endif
