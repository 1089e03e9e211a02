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

static bool component_is_done(struct opened *stage, const char *label)
{
	json_t *json = agent_drain_component_json(stage->agent, of(stage, label));
	bool done = json_is_true(json_object_get(json, "done"));
	cr_expect(json_is_boolean(json_object_get(json, "done")));
	json_decref(json);
	return done;
}

/* The last entry of the history that is about a drain: "subject from>to: why". */
static const char *last_event(const struct opened *stage)
{
	static char text[400];
	json_t *history = history_json(stage->agent->history, false);
	size_t index;
	json_t *entry;
	text[0] = '\0';
	json_array_foreach (history, index, entry) {
		const char *subject = json_string_value(json_object_get(entry, "subject"));
		if (strncmp(subject, "drain", 5) == 0) {
			snprintf(text, sizeof(text), "%s %s>%s: %s", subject,
				json_string_value(json_object_get(entry, "from")),
				json_string_value(json_object_get(entry, "to")),
				json_string_value(json_object_get(entry, "why")));
		}
	}
	json_decref(history);
	return text;
}

/* ---- orders ---- */

OPENED(drain_life, orders_are_in_the_history, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, NULL, "a new kernel", 0);
	cr_expect_str_eq(last_event(stage), "drain serving>draining: a new kernel");
	agent_drain_begin(agent, NULL, "a new disk", 0);
	cr_expect_str_eq(last_event(stage), "drain draining>draining: a new disk");
	agent_drain_begin(agent, of(stage, "b"), "too slow", 0);
	cr_expect_str_eq(last_event(stage), "drain of b serving>draining: too slow");
	agent_drain_end(agent, of(stage, "b"));
	cr_expect_str_eq(last_event(stage), "drain of b draining>serving: ended by request");
	agent_drain_end(agent, NULL);
	cr_expect_str_eq(last_event(stage), "drain draining>serving: ended by request");
	cr_expect_not(agent->drain.active);
	run_to_records(stage);
}

OPENED(drain_life, the_end_of_no_drain_is_none, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	char before[400];
	snprintf(before, sizeof(before), "%s", last_event(stage));
	seams.told[0] = '\0';
	agent_drain_end(agent, NULL);
	agent_drain_end(agent, of(stage, "a"));
	cr_expect_str_eq(last_event(stage), before);
	cr_expect_not(was_told("api"));
	cr_expect_not(agent_drain_is_being_saved(agent));
}

/* ---- saved ---- */

static void run_to_saved(struct opened *stage)
{
	cr_expect(agent_drain_is_being_saved(stage->agent));
	RUN_UNTIL(stage->agent->loop, !agent_drain_is_being_saved(stage->agent));
}

OPENED(drain_life, an_order_is_answered_when_it_is_saved, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, NULL, "a new disk", HOUR_MS);
	cr_expect_not(was_told("api drain saved; "));
	run_to_saved(stage);
	cr_expect(was_told("api drain saved; "));
	cr_expect_not(was_logged("does not know of its change"));
	json_t *document = saved_document(stage, "drain");
	cr_expect(json_is_true(json_object_get(document, "active")));
	cr_expect_str_eq(json_string_value(json_object_get(document, "reason")), "a new disk");
	cr_expect_eq(json_object_size(json_object_get(document, "components")), 0);
	json_decref(document);
	agent->api = NULL;
	agent_drain_begin(agent, NULL, "a new disk", 0);
	run_to_saved(stage);
	agent->api = NEIGHBOUR;
}

OPENED(drain_life, what_is_saved_are_the_drains_of_all, QUICK TWO COMPONENT("c"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, of(stage, "a"), "one", 0);
	agent_drain_begin(agent, of(stage, "c"), "two", 0);
	run_to_saved(stage);
	json_t *document = saved_document(stage, "drain");
	json_t *own = agent_drain_save(agent);
	cr_expect(json_equal(document, own));
	cr_expect(json_is_false(json_object_get(own, "active")));
	const json_t *components = json_object_get(own, "components");
	cr_expect_eq(json_object_size(components), 2);
	cr_expect_str_eq(
		json_string_value(json_object_get(json_object_get(components, "a"), "reason")),
		"one");
	cr_expect_str_eq(
		json_string_value(json_object_get(json_object_get(components, "c"), "reason")),
		"two");
	json_decref(own);
	json_decref(document);
	agent_drain_end(agent, of(stage, "a"));
	run_to_saved(stage);
	document = saved_document(stage, "drain");
	cr_expect_eq(json_object_size(json_object_get(document, "components")), 1);
	json_decref(document);
	agent_drain_end(agent, of(stage, "c"));
	run_to_saved(stage);
	cr_expect_null(saved_document(stage, "drain"), "none is left");
}

OPENED(drain_life, a_slow_disk_is_not_waited_for_long, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, NULL, "", 0);
	timer_start(&agent->drain_save_timer, HOUR_MS);
	agent_drain_begin(agent, NULL, "", 0);
	cr_expect_gt(timer_left_ms(&agent->drain_save_timer), HOUR_MS / 2,
		"the time of the first order counts");
	end_timer(&agent->drain_save_timer);
	cr_expect(was_logged("drain: its change is not on the disk yet"));
	cr_expect(was_told("api drain saved; "));
	cr_expect_not(agent_drain_is_being_saved(agent));
}

OPENED(drain_life, without_a_state_directory_orders_are_answered, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	cr_assert(file_queue_wait(agent->files, 60000));
	state_dir_finish(&agent->state);
	agent_drain_begin(agent, NULL, "", 0);
	cr_expect_not(agent_drain_is_being_saved(agent));
	cr_expect(was_logged("drain: a restart does not know of its change: "));
	cr_expect(was_told("api drain saved; "));
	agent_drain_end(agent, NULL);
	cr_expect_not(agent_drain_is_being_saved(agent));
	cr_expect(was_told("api drain saved; "));
	cr_expect_not(was_logged("does not know"), "there is nothing to know");
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
	cr_expect_eq(end_of(stage), 0);
	agent_drain_begin(agent, of(stage, "a"), "", 2 * HOUR_MS);
	cr_expect_eq(end_of(stage), drain_of(stage, "a")->until);
	double took = drain_of(stage, "a")->until - drain_of(stage, "a")->since;
	cr_expect(took > 7199 && took < 7201, "%f", took);
	agent_drain_begin(agent, NULL, "", 0);
	cr_expect_eq(end_of(stage), drain_of(stage, "a")->until, "that one has no end");
	agent_drain_begin(agent, of(stage, "b"), "", HOUR_MS);
	cr_expect_eq(end_of(stage), drain_of(stage, "b")->until);
	agent_drain_begin(agent, NULL, "", 3 * HOUR_MS);
	cr_expect_eq(end_of(stage), drain_of(stage, "b")->until);
	agent_drain_begin(agent, NULL, "", HOUR_MS / 2);
	cr_expect_eq(end_of(stage), agent->drain.until);
	agent_drain_end(agent, NULL);
	cr_expect_eq(end_of(stage), drain_of(stage, "b")->until);
	agent_drain_end(agent, of(stage, "b"));
	cr_expect_eq(end_of(stage), drain_of(stage, "a")->until);
	agent_drain_end(agent, of(stage, "a"));
	cr_expect_eq(end_of(stage), 0);
}

OPENED(drain_life, only_a_drain_whose_time_is_over_ends, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent_drain_begin(agent, of(stage, "a"), "", HOUR_MS);
	agent_drain_begin(agent, of(stage, "b"), "", 1);
	RUN_UNTIL(agent->loop, !drain_of(stage, "b")->active);
	cr_expect_str_eq(last_event(stage), "drain of b draining>serving: its time is over");
	cr_expect(drain_of(stage, "a")->active);
	cr_expect_eq(end_of(stage), drain_of(stage, "a")->until);
	run_to_saved(stage);
	json_t *document = saved_document(stage, "drain");
	cr_expect_eq(json_object_size(json_object_get(document, "components")), 1);
	json_decref(document);
	RUN_UNTIL(agent->loop, component_registered(of(stage, "b")));
	agent_drain_begin(agent, NULL, "", 1);
	RUN_UNTIL(agent->loop, !agent->drain.active);
	cr_expect_str_eq(last_event(stage), "drain draining>serving: its time is over");
	RUN_UNTIL(agent->loop, component_registered(of(stage, "b")));
}

/* ---- confirmed ---- */

OPENED(drain_life, without_a_component_it_is_done, QUICK)
{
	agent_drain_begin(stage->agent, NULL, "", 0);
	run_a_while(stage);
	cr_expect(is_done(stage));
	cr_expect_gt(stage->agent->drained_at, 0);
}

OPENED(drain_life, each_path_is_asked_for, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	agent_drain_begin(agent, of(stage, "a"), "", 0);
	agent_drain_begin(agent, of(stage, "b"), "", 0);
	RUN_UNTIL(agent->loop, component_is_done(stage, "a") && component_is_done(stage, "b"));
	run_a_while(stage);
	cr_expect_not(was_asked(stage, "stat /app/"), "the agent is not drained");
	memory_put(stage->other, "/app/a", "");
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, is_done(stage));
	cr_expect(strstr(stage->asked, "stat /app/a; ") != NULL, "which is another client's");
	cr_expect(was_asked(stage, "stat /app/b; "));
	run_a_while(stage);
	cr_expect_not(was_asked(stage, "stat /app/"), "once is enough");
}

OPENED(drain_life, a_question_that_fails_comes_again, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	let_fail(stage, "stat /app/a", BERTH_TIMEOUT, NULL, 0);
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, timer_runs(&agent->drain_retry_timer));
	cr_expect_eq(agent->drain_confirmations, 0);
	cr_expect_not(is_done(stage));
	cr_expect_eq(agent->drained_at, 0);
	agent_drain_begin(agent, of(stage, "b"), "", 0);
	agent_drain_end(agent, of(stage, "b"));
	cr_expect(timer_runs(&agent->drain_retry_timer) || agent->drain_confirmations > 0);
	let_fail(stage, NULL, 0, NULL, 0);
	RUN_UNTIL(agent->loop, agent->drain_confirmations == 0);
	agent_wake(agent);
	RUN_UNTIL(agent->loop, is_done(stage));
}

OPENED(drain_life, its_time_asks_again, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	let_fail(stage, "stat /app/b", BERTH_NO_PATH_PERMISSIONS, NULL, 0);
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, timer_runs(&agent->drain_retry_timer));
	run_a_while(stage);
	cr_expect_not(is_done(stage));
	stage->asked[0] = '\0';
	timer_stop(&agent->drain_retry_timer);
	agent->drain_retry_timer.on_end(agent->drain_retry_timer.context);
	cr_expect_eq(agent->drain_confirmations, 2);
	RUN_UNTIL(agent->loop, agent->drain_confirmations == 0);
	cr_expect(was_asked(stage, "stat /app/a; "));
}

OPENED(drain_life, one_that_ends_is_not_confirmed_any_more, QUICK TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	let_fail(stage, "stat /app/a", BERTH_TIMEOUT, NULL, 0);
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, timer_runs(&agent->drain_retry_timer));
	agent_drain_end(agent, NULL);
	cr_expect_not(timer_runs(&agent->drain_retry_timer));
	stage->asked[0] = '\0';
	run_to_records(stage);
	run_a_while(stage);
	cr_expect_not(was_asked(stage, "stat /app/"));
	cr_expect_eq(agent->drained_at, 0);
	cr_expect_not(is_done(stage));
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

/* ---- drain_delay ---- */

OPENED(drain_life, the_delay_begins_when_it_is_confirmed, QUICK DELAY TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	cr_expect_eq(agent_drain_left_s(agent), 60);
	agent_drain_begin(agent, NULL, "", 0);
	agent->drain.quiet_looks = 2;
	cr_expect_eq(agent_drain_left_s(agent), 60, "records are still there");
	agent->drain.quiet_looks = 0;
	RUN_UNTIL(agent->loop, agent->drained_at > 0);
	run_a_while(stage);
	cr_expect_leq(agent_drain_left_s(agent), 60);
	cr_expect_geq(agent_drain_left_s(agent), 30);
	cr_expect_not(is_done(stage));
	agent->drained_at -= 60;
	cr_expect_leq(agent_drain_left_s(agent), 0);
	cr_expect(is_done(stage));
	agent->drained_at += 60;
	agent->drain.quiet_looks = 2;
	cr_expect_eq(agent_drain_left_s(agent), 0, "no connection is left");
	cr_expect(is_done(stage));
	agent_drain_end(agent, NULL);
	cr_expect_not(is_done(stage));
}

OPENED(drain_life, a_component_has_the_delay_too, QUICK DELAY TWO)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	cr_expect_not(agent_drain_component_waits(agent, of(stage, "a")));
	stage->late = "delete /app/a";
	agent_drain_begin(agent, of(stage, "a"), "", 0);
	run_a_while(stage);
	cr_expect_not(agent_drain_component_waits(agent, of(stage, "a")), "it is not out yet");
	cr_expect_not(component_is_done(stage, "a"));
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, component_state(of(stage, "a")) == ANNOUNCE_WITHDRAWN);
	cr_expect(agent_drain_component_waits(agent, of(stage, "a")));
	cr_expect_not(component_is_done(stage, "a"));
	cr_expect_not(agent_drain_component_waits(agent, of(stage, "b")));
	drain_of(stage, "a")->quiet_looks = 2;
	cr_expect(component_is_done(stage, "a"));
	cr_expect_not(agent_drain_component_waits(agent, of(stage, "a")));
	drain_of(stage, "a")->quiet_looks = 0;
	agent_components_reload(agent, load(&stage->wiring, QUICK TWO));
	cr_expect(component_is_done(stage, "a"), "the delay is 0 now");
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

OPENED(drain_life, a_long_reason_is_logged_whole, QUICK TWO)
{
	char reason[256];
	memset(reason, 'x', sizeof(reason) - 1);
	reason[254] = '!';
	reason[255] = '\0';
	restart_with(stage, drain_for(reason, 0));
	cr_expect(was_logged("xxx!\n"));
}

OPENED(drain_life, a_saved_drain_whose_time_is_over_has_ended, QUICK TWO)
{
	restart_with(stage, drain_for("a new disk", ev_time() - 10));
	cr_expect_not(stage->agent->drain.active);
	cr_expect_eq(end_of(stage), 0);
	run_to_saved(stage);
	cr_expect_null(saved_document(stage, "drain"));
}

OPENED(drain_life, without_a_saved_drain_nothing_is_saved, QUICK TWO)
{
	cr_expect_not(agent_drain_is_being_saved(stage->agent));
	cr_expect_not(was_logged("drain"));
	run_to_records(stage);
}

OPENED(drain_life, what_is_not_a_drain_is_ignored, QUICK TWO)
{
	json_t *document = json_pack("{s:s}", "active", "perhaps");
	restart_with(stage, document);
	cr_expect(was_logged("drain: the saved drain has an unknown shape and is ignored"));
	cr_expect_not(stage->agent->drain.active);
	document = json_pack("{s:b, s:{s:{s:s}, s:{s:b}}}", "active", 0, "components", "a",
		"active", "perhaps", "b", "active", 1);
	restart_with(stage, document);
	cr_expect_not(drain_of(stage, "a")->active);
	cr_expect(drain_of(stage, "b")->active);
	char lines[2000];
	ssize_t len = pread(STDERR_FILENO, lines, sizeof(lines) - 1, 0);
	lines[len > 0 ? len : 0] = '\0';
	cr_expect_not_null(strstr(lines, "the saved drain of a has an unknown shape"), "%s", lines);
	cr_expect_null(strstr(lines, "the saved drain of b has"), "%s", lines);
	cr_expect_null(strstr(lines, "the saved drain has"), "%s", lines);
}

OPENED(drain_life, a_damaged_file_is_ignored, QUICK TWO)
{
	char path[SCRATCH_PATH + 16];
	leave_document(stage, "drain", drain_for("a new disk", 0));
	snprintf(path, sizeof(path), "%s/drain", stage->wiring.folder);
	cr_assert_eq(truncate(path, 5), 0);
	opened_begin_agent(stage, NULL);
	cr_expect(was_logged("drain: the saved drain cannot be read and is ignored: "));
	cr_expect_not(stage->agent->drain.active);
}

OPENED(drain_life, a_drain_goes_from_hand_to_hand_in_an_upgrade, QUICK TWO)
{
	struct agent *agent = stage->agent;
	json_t *passed = drain_for("a new disk", 0);
	json_object_set_new(passed, "components", json_pack("{s:o}", "a", drain_for("slow", 0)));
	agent_drain_load(agent, passed);
	agent_drain_load_components(agent);
	json_decref(passed);
	cr_expect_str_eq(agent->drain.reason, "a new disk");
	cr_expect_str_eq(drain_of(stage, "a")->reason, "slow");
	run_to_saved(stage);
}
