#include "agent/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/check/command.h"
#include "agent/check/linger.h"
#include "agent/check/probe.h"
#include "agent/check/prober.h"
#include "agent/check/slot.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "agent/base/random.h"
#include "agent/base/timer.h"
#include "lib/base/text.h"

/*
 * A killed process is gone in an instant. A process that is not gone after this sits in the kernel,
 * and no new run can start. A result says so: without it a stuck check would look as if it had not
 * been due for a while.
 */
enum { STUCK_MS = 5000 };

/*
 * Wide enough that the commands of many checks do not all start at once, and nothing that a start
 * has to wait for.
 */
enum { FIRST_RUNS_WITHIN_MS = 1000 };

/*
 * After the start, or that of the main process, an application is looked at so soon, besides its
 * schedule: it is announced when it is there. A failure of such a look does not count, or an
 * application that needs two seconds would be down after a tenth of one. A configuration that asks
 * for long pauses at this time has an expensive check.
 */
static const int quick_ms[] = { 0, 50, 100, 200, 400 };

enum { QUICK_LOOKS = ARRAY_LEN(quick_ms), LONG_PAUSE_MS = 1000 };

static const double PASSED_MAX_S = 86400. * 3650;

struct request {
	check_run_done *done;
	void *context;
	bool served; /* by the run under way */
	struct list link;
};

/*
 * The run under way. A command that has given its result may take a while to end, killed or not;
 * no other run starts before it has.
 *
 *   RUN_NONE --its turn--> RUN_GOING --result--> RUN_ENDING --the next one is due--> RUN_ENDING_DUE
 *     ^                                              | gone                              | gone
 *     '----------------------------------------------+-----------------------------------'
 */
enum run { RUN_NONE, RUN_GOING, RUN_ENDING, RUN_ENDING_DUE };

struct check {
	struct ev_loop *loop;
	const struct config_check *config;
	json_t *components;            /* their labels */
	char *label;                   /* these in one text */
	struct command_launch *launch; /* of a command check; NULL otherwise */
	struct check_callbacks callbacks;
	struct check_state_machine machine;
	struct check_slot slot;
	enum run run;
	struct check_probe *probe; /* of a run that goes or ends */
	struct check_linger linger;
	struct check_prober *prober; /* NULL: it does not need one */
	/*
	 * The next run; for a ttl check the time at which its silence counts; while it waits for a
	 * slot, the time at which it is overdue.
	 */
	struct timer timer;
	int64_t due_ms;         /* the next run by the schedule */
	int64_t looks_ms;       /* from when on quick looks are counted */
	int looks;              /* quick looks that were made or missed */
	int64_t wake_ms;        /* the time that the timer waits for */
	bool wakes_quickly;     /* it waits for such a look */
	bool quick;             /* the run that is due, or under way, is one */
	int64_t asked_ms;       /* when a run became due that has not begun */
	bool overdue;           /* that has lasted for an interval */
	int64_t first_delay_ms; /* of a restored check; -1: none */
	int64_t result_ms;      /* when a run that ends gave its result */
	struct list requests;
	struct check_result last;
	bool has_last;
	bool warning; /* whether the last good result was a warning */
	json_int_t counts[CHECK_VERDICT_COUNT];
	double since;
	char why[320];
};

static const char *const type_names[] = {
	[CONFIG_CHECK_COMMAND] = "command",
	[CONFIG_CHECK_TCP] = "tcp",
	[CONFIG_CHECK_HTTP] = "http",
	[CONFIG_CHECK_TTL] = "ttl",
	[CONFIG_CHECK_GRPC] = "grpc",
};

/* ---- schedule ---- */

static void wake_at(struct check *check, int64_t wake_ms)
{
	check->wake_ms = wake_ms;
	timer_start(&check->timer, wake_ms - clock_monotonic_ms());
}

/* Before the first success, and after a main process has come back. */
static bool looks_quickly(const struct check *check)
{
	return check->machine.state != CHECK_STATE_UP && check->machine.good == 0 &&
		check->config->rising_interval_ms <= LONG_PAUSE_MS &&
		check->config->type != CONFIG_CHECK_TTL;
}

/* Waits for the time that is due, or for a quick look before it. */
static void arm_timer(struct check *check, int64_t due_ms)
{
	int64_t now = clock_monotonic_ms();
	check->due_ms = due_ms;
	check->wakes_quickly = false;
	while (check->looks < QUICK_LOOKS && check->looks_ms + quick_ms[check->looks] < now) {
		check->looks++;
	}
	if (check->looks < QUICK_LOOKS && looks_quickly(check) &&
		check->looks_ms + quick_ms[check->looks] < due_ms) {
		check->wakes_quickly = true;
		due_ms = check->looks_ms + quick_ms[check->looks++];
	}
	wake_at(check, due_ms);
}

static int64_t present_interval_ms(const struct check *check)
{
	const struct config_check *config = check->config;
	bool changing = check_state_changing(&check->machine);
	switch (check->machine.state) {
	case CHECK_STATE_PENDING:
		break;
	case CHECK_STATE_UP:
		return changing ? config->falling_interval_ms : config->interval_ms;
	case CHECK_STATE_DOWN:
		return changing ? config->rising_interval_ms : config->down_interval_ms;
	}
	return config->rising_interval_ms; /* without a verdict yet it is on its way to one */
}

/*
 * The next point of the grid that starts at the last due time: the schedule does not drift, and
 * missed runs are not made up for.
 */
static void arm_next(struct check *check)
{
	int64_t interval_ms = present_interval_ms(check);
	int64_t late_ms = clock_monotonic_ms() - check->due_ms;
	/* A quick look leaves the schedule as it is. */
	int64_t missed = late_ms < 0 ? 0 : late_ms / interval_ms + 1;
	arm_timer(check, check->due_ms + missed * interval_ms);
}

static void arm_patience(struct check *check)
{
	arm_timer(check, clock_monotonic_ms() + check->config->interval_ms);
}

/* ---- results ---- */

static void explain(
	const struct check *check, const struct check_result *result, char *out, size_t size)
{
	const struct config_check *config = check->config;
	const struct check_state_machine *machine = &check->machine;
	if (machine->state == CHECK_STATE_DOWN && config->window_ms > 0) {
		text_printf(out, size, "%s (%d failures within %.9gs)", result->detail,
			config->fall, (double)config->window_ms / 1000);
	} else if (machine->state == CHECK_STATE_DOWN) {
		text_printf(out, size, "%s (%d %s)", result->detail, machine->bad,
			machine->bad == 1 ? "failure" : "failures in a row");
	} else {
		text_printf(out, size, "%s", result->detail);
	}
}

/* Reports each change of condition and, while the check has not come up yet, each new reason. */
static void report_change(
	struct check *check, const char *condition, const struct check_result *result)
{
	const char *now = check_condition_name(check);
	bool still_coming = check->machine.state == CHECK_STATE_PENDING;
	if (now == condition && !still_coming) {
		return;
	}
	char why[sizeof(check->why)];
	explain(check, result, why, sizeof(why));
	bool same = now == condition && strcmp(why, check->why) == 0;
	memcpy(check->why, why, sizeof(why));
	if (!same && check->callbacks.on_change) {
		check->callbacks.on_change(
			check->callbacks.context, check, condition, now, check->why);
	}
}

/* Answers the requests that the run under way serves; each leaves the list before its callback. */
static void answer_requests(struct check *check, const struct check_result *result, bool all)
{
	struct list *at = check->requests.next;
	while (at != &check->requests) {
		struct request *request = LIST_ITEM(at, struct request, link);
		at = at->next;
		if (request->served || all) {
			list_remove(&request->link);
			request->done(request->context, check, result);
			free(request);
			at = check->requests.next;
		}
	}
}

static void take_result(struct check *check, const struct check_result *result)
{
	enum check_state from = check->machine.state;
	const char *condition = check_condition_name(check);
	check->last = *result;
	check->has_last = true;
	check->counts[result->verdict]++;
	bool good = check_verdict_good(result->verdict);
	enum check_state to = check->quick && !good
		? from
		: check_state_step(&check->machine, good, clock_monotonic_ms());
	/* A failure does not end a warning: the check is still up, and as it was. */
	if (good) {
		check->warning = result->verdict == CHECK_WARNING;
	}
	if (check->callbacks.on_result) {
		check->callbacks.on_result(check->callbacks.context, check, result);
	}
	if (from != to) {
		check->since = ev_time();
	}
	report_change(check, condition, result);
}

/* ---- overdue ---- */

static void set_overdue(struct check *check, bool overdue)
{
	char why[sizeof(check->why)];
	if (check->overdue == overdue) {
		return;
	}
	check->overdue = overdue;
	if (check->run == RUN_ENDING_DUE) {
		text_printf(why, sizeof(why), "the run before has been killed and does not end");
	} else {
		check_slot_holders(&check->slot, why, sizeof(why));
	}
	if (check->callbacks.on_overdue) {
		double waited_s = (double)(clock_monotonic_ms() - check->asked_ms) / 1000;
		check->callbacks.on_overdue(check->callbacks.context, check, waited_s, why);
	}
}

static void ask_for_turn(struct check *check)
{
	check->asked_ms = clock_monotonic_ms();
	wake_at(check, check->asked_ms + present_interval_ms(check));
	check_slot_ask(&check->slot);
}

/* ---- one run ---- */

static void on_run_result(void *context, const struct check_result *result)
{
	struct check *check = context;
	check->run = RUN_ENDING;
	check->result_ms = clock_monotonic_ms();
	take_result(check, result);
	/* Done before the answers, because they contain the next run. */
	arm_next(check);
	answer_requests(check, result, false);
}

static void on_run_gone(void *context)
{
	struct check *check = context;
	bool due = check->run == RUN_ENDING_DUE;
	check->run = RUN_NONE;
	check->probe = NULL;
	check_slot_release(&check->slot);
	if (due || !list_empty(&check->requests)) {
		ask_for_turn(check);
	}
}

static void on_turn(void *context)
{
	struct check *check = context;
	timer_stop(&check->timer);
	set_overdue(check, false);
	check->run = RUN_GOING;
	for (struct list *at = check->requests.next; at != &check->requests; at = at->next) {
		LIST_ITEM(at, struct request, link)->served = true;
	}
	struct check_run_callbacks callbacks = { on_run_result, on_run_gone, check };
	struct check_result result = { .verdict = CHECK_COULD_NOT_RUN };
	check->probe = check_probe_start(check->loop, check->config, check->launch, &check->linger,
		check->prober, &callbacks, &result);
	if (!check->probe) {
		on_run_result(check, &result);
		on_run_gone(check);
	}
}

static void due_while_ending(struct check *check)
{
	if (check->run == RUN_ENDING) {
		check->run = RUN_ENDING_DUE;
		check->asked_ms = clock_monotonic_ms();
	} else if (clock_monotonic_ms() - check->asked_ms >= present_interval_ms(check)) {
		set_overdue(check, true);
	}
	if (clock_monotonic_ms() - check->result_ms > STUCK_MS) {
		struct check_result result = { .verdict = CHECK_COULD_NOT_RUN,
			.started = ev_time() };
		check_result_set_detail(&result, "the run before has been killed and does not end");
		take_result(check, &result);
	}
	arm_next(check);
}

static void ttl_silent(struct check *check)
{
	struct check_result result = { .verdict = CHECK_FAILING, .started = ev_time() };
	check_result_set_detail(
		&result, "no report within %.9gs", (double)check->config->interval_ms / 1000);
	take_result(check, &result);
	arm_patience(check);
}

static void on_timer(void *context)
{
	struct check *check = context;
	if (check->config->type == CONFIG_CHECK_TTL) {
		ttl_silent(check);
	} else if (check->slot.state == CHECK_SLOT_WAITING) {
		set_overdue(check, true);
	} else {
		check->quick = check->wakes_quickly;
		if (check->run != RUN_NONE) {
			due_while_ending(check);
		} else {
			ask_for_turn(check);
		}
	}
}

/* ---- life ---- */

static bool restore(struct check *check, const json_t *saved)
{
	json_t *machine, *last, *counts;
	double saved_at, since;
	const char *why;
	json_int_t next_in_ms;
	int warning;
	if (json_unpack((json_t *)saved, "{s:F, s:o, s:o, s:o, s:b, s:F, s:s, s:I}", "saved",
		    &saved_at, "machine", &machine, "last", &last, "counts", &counts, "warning",
		    &warning, "since", &since, "why", &why, "next_in_ms", &next_in_ms)) {
		return false;
	}
	double passed_s = ev_time() - saved_at;
	/*
	 * A clock that was set, or a damaged document, must not lead beyond what an integer holds.
	 */
	int64_t passed_ms = passed_s > 0 ? (int64_t)(fmin(passed_s, PASSED_MAX_S) * 1000) : 0;
	if (!check_state_restore(&check->machine, machine, clock_monotonic_ms() - passed_ms)) {
		return false;
	}
	check->has_last = check_result_from_json(&check->last, last);
	for (int i = 0; i < CHECK_VERDICT_COUNT; i++) {
		check->counts[i] = json_integer_value(
			json_object_get(counts, check_verdict_name(i)));
	}
	check->warning = warning != 0;
	check->since = since;
	snprintf(check->why, sizeof(check->why), "%s", why);
	check->first_delay_ms = next_in_ms > passed_ms ? next_in_ms - passed_ms : 0;
	return true;
}

/* The labels and the paths, each in one text, separated by blanks, which neither contains. */
static void name_components(struct check *check, const struct check_component *components,
	size_t count, char **ret_paths)
{
	char *labels = allocate_text(components[0].label);
	char *paths = allocate_text(components[0].path);
	check->components = json_pack("[s]", components[0].label);
	for (size_t i = 1; i < count; i++) {
		char *shorter_labels = labels;
		char *shorter_paths = paths;
		labels = allocate_format("%s %s", labels, components[i].label);
		paths = allocate_format("%s %s", paths, components[i].path);
		free(shorter_labels);
		free(shorter_paths);
		json_array_append_new(check->components, json_string(components[i].label));
	}
	check->label = labels;
	*ret_paths = paths;
}

struct check *check_create(struct check_scheduler *scheduler, const struct config_check *config,
	const struct check_component *components, size_t component_count,
	const struct check_callbacks *callbacks, const json_t *saved)
{
	char *paths;
	struct check *check = allocate_zeroed(1, sizeof(*check));
	check->loop = check_scheduler_loop(scheduler);
	config_ref(config->whole);
	check->config = config;
	name_components(check, components, component_count, &paths);
	if (config->type == CONFIG_CHECK_COMMAND) {
		check->launch = check_command_launch(config, check->label, paths);
	}
	free(paths);
	check->callbacks = *callbacks;
	check->first_delay_ms = -1;
	check->looks = QUICK_LOOKS;
	check->since = ev_time();
	if (config->initial_passing) {
		snprintf(check->why, sizeof(check->why), "up from the start");
	} else if (config->type == CONFIG_CHECK_TTL) {
		snprintf(check->why, sizeof(check->why), "no report yet: berth report %s passing",
			config->name);
	} else {
		snprintf(check->why, sizeof(check->why), "no success yet");
	}
	struct check_state_rules rules = {
		.rise = config->rise,
		.fall = config->fall,
		.window_ms = config->window_ms,
		.start_grace_ms = config->start_grace_ms,
		.initial_passing = config->initial_passing,
	};
	check_state_init(&check->machine, &rules, clock_monotonic_ms());
	check_slot_init(
		&check->slot, scheduler, check->launch ? check->label : NULL, on_turn, check);
	check_linger_init(&check->linger, check->loop);
	if (config_check_is_probed(config)) {
		check->prober = check_scheduler_prober(scheduler);
		check_prober_use(check->prober);
	}
	timer_init(&check->timer, check->loop, "check", on_timer, check);
	list_init(&check->requests);
	if (saved) {
		(void)restore(check, saved);
	}
	return check;
}

static void begin_quick_looks(struct check *check)
{
	check->looks = 0;
	check->looks_ms = clock_monotonic_ms();
}

static int64_t random_first_delay_ms(const struct check *check)
{
	int64_t interval_ms = present_interval_ms(check);
	double most_ms = interval_ms < FIRST_RUNS_WITHIN_MS ? (double)interval_ms
							    : FIRST_RUNS_WITHIN_MS;
	return (int64_t)(random_unit() * most_ms);
}

void check_start(struct check *check, bool jitter)
{
	int64_t delay_ms = check->first_delay_ms;
	if (delay_ms < 0 && check->config->type == CONFIG_CHECK_TTL) {
		delay_ms = check->config->interval_ms;
	} else if (delay_ms < 0) {
		delay_ms = jitter ? random_first_delay_ms(check) : 0;
		begin_quick_looks(check);
	}
	arm_timer(check, clock_monotonic_ms() + delay_ms);
}

void check_look_again(struct check *check)
{
	bool idle = check->run == RUN_NONE && check->slot.state == CHECK_SLOT_IDLE;
	begin_quick_looks(check);
	if (idle && looks_quickly(check)) {
		arm_timer(check, check->due_ms);
	}
}

void check_destroy(struct check *check)
{
	if (!check) {
		return;
	}
	timer_stop(&check->timer);
	check_probe_abandon(check->probe);
	if (check->prober) {
		check_prober_unuse(check->prober);
	}
	check_linger_stop(&check->linger);
	check_slot_finish(&check->slot);
	answer_requests(check, NULL, true);
	check_state_finish(&check->machine);
	free(check->label);
	json_decref(check->components);
	command_launch_destroy(check->launch);
	config_unref(check->config->whole);
	free(check);
}

/* ---- views and requests ---- */

const struct config_check *check_config(const struct check *check)
{
	return check->config;
}

const char *check_components(const struct check *check)
{
	return check->label;
}

enum check_state check_get_state(const struct check *check)
{
	return check->machine.state;
}

bool check_is_warning(const struct check *check)
{
	return check->machine.state == CHECK_STATE_UP && check->warning;
}

bool check_overdue(const struct check *check)
{
	return check->overdue;
}

const char *check_condition_name(const struct check *check)
{
	bool pending = check->machine.state == CHECK_STATE_PENDING;
	if (pending && check->has_last && !check_verdict_good(check->last.verdict)) {
		return "failing";
	}
	return check_is_warning(check) ? "warning" : check_state_name(check->machine.state);
}

void check_last_line(const struct check *check, char *out, size_t size)
{
	bool prints = check->config->type == CONFIG_CHECK_COMMAND ||
		check->config->type == CONFIG_CHECK_TTL;
	*out = '\0';
	if (check->has_last && prints) {
		check_result_last_line(&check->last, out, size);
	}
}

const struct check_result *check_last(const struct check *check)
{
	return check->has_last ? &check->last : NULL;
}

const char *check_why(const struct check *check)
{
	return check->why;
}

int check_run_now(struct check *check, check_run_done *done, void *context, struct err *err)
{
	if (check->config->type == CONFIG_CHECK_TTL) {
		return err_set(err, BERTH_FAILED,
			"check %s is of type ttl: its application reports it", check->config->name);
	}
	struct request *request = allocate_zeroed(1, sizeof(*request));
	request->done = done;
	request->context = context;
	list_append(&check->requests, &request->link);
	if (check->slot.state == CHECK_SLOT_IDLE) {
		check->quick = false;
		check->due_ms = clock_monotonic_ms();
		ask_for_turn(check);
	}
	return 0;
}

void check_run_forget(struct check *check, void *context)
{
	struct list *next;
	for (struct list *at = check->requests.next; at != &check->requests; at = next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		next = at->next;
		if (request->context == context) {
			list_remove(&request->link);
			free(request);
		}
	}
}

int check_report(
	struct check *check, enum check_verdict verdict, const char *output, struct err *err)
{
	if (check->config->type != CONFIG_CHECK_TTL) {
		return err_set(err, BERTH_FAILED,
			"check %s is of type %s: only a ttl check is reported", check->config->name,
			type_names[check->config->type]);
	}
	struct check_result result = { .verdict = verdict, .started = ev_time() };
	check_result_set_detail(&result, "reported %s", check_verdict_name(verdict));
	check_result_set_output(&result, output, strlen(output), false);
	take_result(check, &result);
	arm_patience(check);
	return 0;
}

static json_t *counts_json(const struct check *check)
{
	json_t *counts = json_object();
	for (int i = 0; i < CHECK_VERDICT_COUNT; i++) {
		json_object_set_new(counts, check_verdict_name(i), json_integer(check->counts[i]));
	}
	return counts;
}

static json_t *last_json(const struct check *check)
{
	return check->has_last ? check_result_json(&check->last) : json_null();
}

static json_t *next_run_json(const struct check *check)
{
	if (!timer_runs(&check->timer) || check->slot.state == CHECK_SLOT_WAITING) {
		return json_null();
	}
	return json_real(ev_time() + (double)(check->wake_ms - clock_monotonic_ms()) / 1000);
}

json_t *check_json(const struct check *check)
{
	return json_pack(
		"{s:s, s:s, s:O, s:s, s:s, s:b, s:f, s:s, s:o, s:o, s:{s:i, s:i}, s:b, s:b, s:o}",
		"name", check->config->name, "component", check->label, "components",
		check->components, "type", type_names[check->config->type], "state",
		check_state_name(check->machine.state), "warning", check_is_warning(check), "since",
		check->since, "why", check->why, "last", last_json(check), "counts",
		counts_json(check), "consecutive", "good", check->machine.good, "bad",
		check->machine.bad, "running", check->run == RUN_GOING, "overdue", check->overdue,
		"next_run", next_run_json(check));
}

json_t *check_save(const struct check *check)
{
	int64_t now = clock_monotonic_ms();
	int64_t next_in_ms = timer_runs(&check->timer) ? check->due_ms - now : 0;
	return json_pack("{s:f, s:o, s:o, s:o, s:b, s:f, s:s, s:I}", "saved", ev_time(), "machine",
		check_state_save(&check->machine, now), "last", last_json(check), "counts",
		counts_json(check), "warning", check->warning, "since", check->since, "why",
		check->why, "next_in_ms", (json_int_t)next_in_ms);
}
