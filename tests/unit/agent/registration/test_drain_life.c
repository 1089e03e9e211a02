/* How drains are saved, confirmed by the registry, delayed, ended by their time, and taken up. */
#include "tests/unit/agent/registration/opened_stage.h"

#define QUICK "[registry]\nupdate_interval = 0s\n"
#define DELAY "[agent]\ndrain_delay = 1m\n"
#define TWO COMPONENT("a") COMPONENT("b")

enum { HOUR_MS = 3600000 };

static struct component *of(struct opened *stage, const char *label)
{
	return component_of(&stage->wiring, label);
}

static struct drain *drain_of(struct opened *stage, const char *label)
{
	return component_drain(of(stage, label));
}

static bool is_done(const struct opened *stage)
{
	json_t *json = agent_drain_json(stage->agent);
	bool done = json_is_true(json_object_get(json, "done"));
	cr_expect(json_is_boolean(json_object_get(json, "done")));
	json_decref(json);
	return done;
}

/* ---- saved ---- */

static void run_to_saved(struct opened *stage)
{
	cr_expect(agent_drain_is_being_saved(stage->agent));
	RUN_UNTIL(stage->agent->loop, !agent_drain_is_being_saved(stage->agent));
}

OPENED(drain_life, a_slow_disk_is_not_waited_for_long, QUICK TWO)
{
	struct agent *agent = stage->agent;
	agent_drain_begin(agent, NULL, "", 0);
	timer_start(&agent->drain_save_timer, HOUR_MS);
	agent_drain_begin(agent, NULL, "", 0);
	cr_expect_gt(timer_left_ms(&agent->drain_save_timer), HOUR_MS / 2,
		"the time of the first order counts");
}

/* ---- ended by their time ---- */

static double end_of(const struct opened *stage)
{
	const ev_periodic *timer = &stage->agent->drain_end_timer;
	return ev_is_active(timer) ? timer->offset : 0;
}

OPENED(drain_life, the_drain_that_ends_first_sets_the_time, QUICK TWO)
{
	struct agent *agent = stage->agent;
	agent_drain_begin(agent, of(stage, "a"), "", 2 * HOUR_MS);
	agent_drain_begin(agent, NULL, "", 0);
	cr_expect_eq(end_of(stage), drain_of(stage, "a")->until, "that one has no end");
	agent_drain_begin(agent, of(stage, "b"), "", HOUR_MS);
	agent_drain_begin(agent, NULL, "", 3 * HOUR_MS);
	cr_expect_eq(end_of(stage), drain_of(stage, "b")->until);
	agent_drain_begin(agent, NULL, "", HOUR_MS / 2);
	cr_expect_eq(end_of(stage), agent->drain.until);
	agent_drain_end(agent, NULL);
	agent_drain_end(agent, of(stage, "b"));
	cr_expect_eq(end_of(stage), drain_of(stage, "a")->until);
}

/* ---- confirmed ---- */

OPENED(drain_life, a_question_that_fails_comes_again, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	let_fail(stage, "stat /app/a", BERTH_TIMEOUT);
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, timer_runs(&agent->drain_retry_timer));
	cr_expect_eq(agent->drain_confirmations, 0);
	cr_expect_not(is_done(stage));
	cr_expect_eq(agent->drained_at, 0);
	agent_drain_begin(agent, of(stage, "b"), "", 0);
	agent_drain_end(agent, of(stage, "b"));
	cr_expect(timer_runs(&agent->drain_retry_timer) || agent->drain_confirmations > 0);
	let_fail(stage, NULL, 0);
	RUN_UNTIL(agent->loop, agent->drain_confirmations == 0);
	agent_wake(agent);
	RUN_UNTIL(agent->loop, is_done(stage));
}

OPENED(drain_life, an_answer_behind_its_end_counts_no_more, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	stage->late = "stat /app/a";
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, stage->late == NULL);
	RUN_UNTIL(agent->loop, agent->drain_confirmations == 1);
	agent_drain_end(agent, NULL);
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, agent->drain_confirmations == 0);
	cr_expect_eq(agent->drained_at, 0);
	cr_expect_not(timer_runs(&agent->drain_retry_timer));
	run_to_records(stage);
}

OPENED(drain_life, a_drain_begun_anew_is_confirmed_anew, QUICK DELAY TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, agent->drained_at > 0);
	double drained_at = agent->drained_at;
	agent_drain_begin(agent, NULL, "for another reason", 0);
	cr_expect_eq(agent->drained_at, drained_at);
	agent_drain_begin(agent, of(stage, "a"), "", 0);
	cr_expect_eq(agent->drained_at, drained_at);
	agent->drain.quiet_looks = 2;
	agent_drain_confirm_again(agent);
	cr_expect_eq(agent->drained_at, 0);
	cr_expect_eq(agent->drain.quiet_looks, 0);
	RUN_UNTIL(agent->loop, agent->drained_at > 0);
	agent_drain_end(agent, NULL);
	agent_drain_begin(agent, NULL, "", 0);
	cr_expect_eq(agent->drained_at, 0);
}

/* ---- taken up ---- */

static json_t *drain_for(const char *reason, double until)
{
	return json_pack("{s:b, s:s, s:f, s:f}", "active", 1, "reason", reason, "since",
		ev_time() - 100, "until", until);
}

/* An agent whose predecessor left this on the disk. */
static void restart_with(struct opened *stage, json_t *document_take)
{
	leave_document(stage, "drain", document_take);
	opened_begin_agent(stage, NULL);
	cr_expect_null(stage->agent->saved_drains);
}

OPENED(drain_life, saved_drains_go_on, QUICK TWO)
{
	struct agent *agent = stage->agent;
	double until = ev_time() + 7200;
	json_t *document = drain_for("a new disk", until);
	json_object_set_new(document, "components", json_pack("{s:o}", "b", drain_for("slow", 0)));
	restart_with(stage, document);
	cr_expect_str_eq(agent->drain.reason, "a new disk");
	cr_expect_str_eq(drain_of(stage, "b")->reason, "slow");
	cr_expect_not(drain_of(stage, "a")->active);
	cr_expect_eq(end_of(stage), agent->drain.until);
	char lines[2000];
	ssize_t len = pread(STDERR_FILENO, lines, sizeof(lines) - 1, 0);
	lines[len > 0 ? len : 0] = '\0';
	cr_expect_not_null(strstr(lines, "drain: still draining: a new disk\n"), "%s", lines);
	cr_expect_not_null(strstr(lines, "b: still draining: slow\n"), "%s", lines);
	cr_expect_null(strstr(lines, "a: still"), "%s", lines);
	cr_expect_null(strstr(lines, "is ignored"), "%s", lines);
	run_to_saved(stage);
	json_t *again = saved_document(stage, "drain");
	cr_expect_str_eq(json_string_value(json_object_get(again, "reason")), "a new disk");
	json_decref(again);
}
