/*
 * From the states of checks and gate to the wish of the announcement, through flap damping and the
 * last-instance guard; see enum component_condition.
 */
#include "agent/component/internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/base/allocate.h"
#include "agent/component/ramp.h"
#include "agent/component/verdict.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

static struct component_verdict verdict_of(const struct component *component)
{
	struct component_check_view views[check_set_count(component->environment.checks) + 1];
	struct check *check;
	size_t count = 0;
	size_t index = 0;
	while ((check = check_set_next_guard(
			component->environment.checks, component->config, &index)) != NULL) {
		views[count++] = (struct component_check_view){
			.name = check_config(check)->name,
			.why = check_why(check),
			.detail = check_last(check) ? check_last(check)->detail
				: check_config(check)->type == CONFIG_CHECK_TTL ? check_why(check)
										: "",
			.state = check_get_state(check),
			.warning = check_is_warning(check),
			.whole = check_config(check)->endpoint_count == 0,
		};
	}
	return component_verdict(component->gate, component->gate_why, views, count);
}

static bool wants_record(enum component_condition condition)
{
	return condition == COMPONENT_IN || condition == COMPONENT_KEPT;
}

/* Damping delays coming back: a component that is in, or kept as the last one, stays. */
static bool has_to_stay_out(const struct component *component, int64_t now)
{
	return component->config->damping && !wants_record(component->condition) &&
		damping_held(&component->damping, now);
}

static void explain_hold(const struct component *component, int64_t now, char *why, size_t size)
{
	int64_t left_ms = damping_release_ms(&component->damping, now) - now;
	time_t until = time(NULL) + (time_t)((left_ms + 999) / 1000);
	struct tm utc;
	char text[32];
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&until, &utc));
	text_printf(why, size,
		"went down too often: flap damping holds it out until its "
		"penalty has decayed to %.3g, at %s",
		component->damping.reuse, text);
}

/*
 * Reports when damping begins and ends to keep the component out, and arms the timer for its end.
 */
static void update_damped(struct component *component)
{
	int64_t now = clock_monotonic_ms();
	bool held = has_to_stay_out(component, now);
	if (held != component->damped) {
		char why[256] = "its penalty has decayed";
		if (held) {
			explain_hold(component, now, why, sizeof(why));
		}
		component->damped = held;
		component_transition(component, "damping of",
			config_component_label(component->config), held ? "free" : "held",
			held ? "held" : "free", why);
	}
	timer_stop(&component->damping_timer);
	if (held) {
		int64_t left_ms = damping_release_ms(&component->damping, now) - now;
		timer_start(&component->damping_timer, left_ms + 1);
	}
}

static void on_siblings(void *context)
{
	component_reconsider(context);
}

/*
 * Watches the siblings from the moment on at which a registered component fails, until it recovers.
 */
static enum component_siblings_answer ask_siblings(struct component *component, bool registered)
{
	if (!component->siblings && registered) {
		component->siblings = component_siblings_create(component->environment.loop,
			component->environment.lookups, component->config->path, on_siblings,
			component);
	}
	/* A component that was never registered yields to none, as if it had siblings. */
	return component->siblings ? component_siblings_answer(component->siblings)
				   : COMPONENT_SIBLINGS_SOME;
}

static void say_kept(struct component_verdict *verdict)
{
	char why[sizeof(verdict->why)];
	text_printf(why, sizeof(why), "failing, but the last one: kept; %.400s", verdict->why);
	memcpy(verdict->why, why, sizeof(why));
}

/*
 * With keep_last, a failing component that is the last one of its instance stays, marked as
 * failing.
 */
static enum component_condition condition_of_failing(
	struct component *component, struct component_verdict *verdict)
{
	if (!component->config->keep_last) {
		return COMPONENT_FAILED;
	}
	bool registered = wants_record(component->condition) ||
		announce_registered(component->announce);
	switch (ask_siblings(component, registered)) {
	case COMPONENT_SIBLINGS_UNKNOWN:
		if (registered) {
			verdict->wish = ANNOUNCE_KEEP;
			return component->condition;
		}
		break;
	case COMPONENT_SIBLINGS_NONE:
		return COMPONENT_KEPT;
	case COMPONENT_SIBLINGS_LESSER:
		return registered ? COMPONENT_KEPT : COMPONENT_FAILED;
	case COMPONENT_SIBLINGS_SOME:
		break;
	}
	return COMPONENT_FAILED;
}

/*
 * The record of a predecessor stays whole until each check that guards endpoints has had a result.
 */
static bool waits_for_silent_checks(
	const struct component *component, const struct component_verdict *verdict)
{
	return verdict->silent && !wants_record(component->condition) &&
		announce_registered(component->announce);
}

/* The next condition; it may turn the verdict into KEEP, and then the condition stays. */
static enum component_condition next_condition(
	struct component *component, struct component_verdict *verdict, int64_t now)
{
	if (verdict->failing) {
		return condition_of_failing(component, verdict);
	}
	if (verdict->wish == ANNOUNCE_DOWN) {
		return COMPONENT_CLOSED;
	}
	if (verdict->wish == ANNOUNCE_UP && has_to_stay_out(component, now)) {
		explain_hold(component, now, verdict->why, sizeof(verdict->why));
		return COMPONENT_HELD;
	}
	if (verdict->wish == ANNOUNCE_UP && waits_for_silent_checks(component, verdict)) {
		verdict->wish = ANNOUNCE_KEEP;
	}
	return verdict->wish == ANNOUNCE_KEEP ? component->condition : COMPONENT_IN;
}

/*
 * A component that its checks take down gets one penalty; not while it is out for another reason.
 */
static void count_failure(
	struct component *component, const struct component_verdict *verdict, int64_t now)
{
	bool was_good = component->condition == COMPONENT_IN ||
		component->condition == COMPONENT_HELD;
	if (verdict->failing && was_good && component->config->damping) {
		damping_down(&component->damping, now);
	}
}

/* ---- slow_start ---- */

static void begin_ramp(struct component *component, int64_t now)
{
	bool is_first = component->condition == COMPONENT_NEW;
	if (component->config->slow_start_ms > 0 &&
		!(is_first && announce_registered(component->announce))) {
		component->ramp_began_ms = now;
		component->ramp_is_first = is_first;
	}
}

/* Into the record; and the timer waits for the next step. */
static int set_weight(struct component *component, struct record *record)
{
	char text[16];
	int64_t next_ms;
	int64_t passed_ms = clock_monotonic_ms() - component->ramp_began_ms;
	timer_stop(&component->ramp_timer);
	if (component->ramp_began_ms == 0) {
		return 0;
	}
	int weight = ramp_weight(config_component_weight(component->config),
		component->config->slow_start_ms, passed_ms, &next_ms);
	if (next_ms < 0) {
		component->ramp_began_ms = 0;
		return 0;
	}
	timer_start(&component->ramp_timer, next_ms - passed_ms);
	snprintf(text, sizeof(text), "%d", weight);
	return record_set_text(record, "weight", text);
}

bool component_ramp_yields(struct component *component)
{
	if (component->ramp_began_ms == 0 || !component->ramp_is_first) {
		return false;
	}
	component->ramp_is_first = false;
	if (!announce_writes_over_own(component->announce)) {
		return false;
	}
	/* Not from here: the announcement is about to write. */
	component->ramp_began_ms = 0;
	component->ramp_yielded = true;
	timer_start(&component->ramp_timer, 0);
	return true;
}

static void on_ramp_timer(void *context)
{
	struct component *component = context;
	bool yielded = component->ramp_yielded;
	component->ramp_yielded = false;
	component_reconsider(component);
	if (yielded) {
		announce_noted(component->announce);
	}
}

static void decide(struct component *component, struct component_verdict *verdict)
{
	int64_t now = clock_monotonic_ms();
	enum component_condition next = next_condition(component, verdict, now);
	if (verdict->wish == ANNOUNCE_KEEP) {
		return;
	}
	count_failure(component, verdict, now);
	if (!verdict->failing || !component->config->keep_last) {
		component_siblings_destroy(component->siblings);
		component->siblings = NULL;
	}
	if (next == COMPONENT_KEPT) {
		say_kept(verdict);
	}
	/* A new component that fails has never been in, and its failure is not flapping. */
	if (component->condition != COMPONENT_NEW || next != COMPONENT_FAILED) {
		if (next == COMPONENT_IN && !wants_record(component->condition)) {
			begin_ramp(component, now);
		}
		component->condition = next;
	}
	if (!wants_record(next)) {
		component->ramp_began_ms = 0;
	}
	verdict->wish = wants_record(next) ? ANNOUNCE_UP : ANNOUNCE_DOWN;
}

static const char *health_of(
	const struct component *component, const struct component_verdict *verdict)
{
	if (component->condition == COMPONENT_KEPT) {
		return "failing";
	}
	if (component->config->publish_health) {
		return verdict->warning ? "warning" : "passing";
	}
	return NULL;
}

static void wish(
	struct component *component, const struct component_verdict *verdict, const char *health)
{
	struct err err = ERR_INIT;
	struct record *record = NULL;
	if (config_record(&record, component->config, component->endpoints, health,
		    &component->mark, &err) &&
		verdict->wish != ANNOUNCE_UP) {
		/*
		 * Removing needs no record: a component whose record cannot be made is taken out
		 * too.
		 */
		err_clear(&err);
	}
	struct dialect_nodes nodes = { 0 };
	if (record) {
		(void)!allocated_code(set_weight(component, record));
		const struct dialect_instance instance = {
			.type = DIALECT_YARN,
			.name = config_component_label(component->config),
			.record = record,
			.ephemeral = component->config->ephemeral,
			.path = component->config->path,
		};
		(void)!allocated_code(dialect_write(&nodes, &instance, &err));
	}
	if (err.code) {
		announce_wish_failed(component->announce, &err);
	} else {
		announce_wish(component->announce, verdict->wish, nodes.count ? nodes.items : NULL,
			verdict->why);
	}
	dialect_nodes_finish(&nodes);
	record_free(record);
	component_dialects_wish(component, verdict->wish, verdict->why);
}

void component_reconsider(struct component *component)
{
	component_endpoints_update_out(component);
	struct component_verdict verdict = verdict_of(component);
	decide(component, &verdict);
	update_damped(component);
	wish(component, &verdict, health_of(component, &verdict));
}

static void on_damping_timer(void *context)
{
	component_reconsider(context);
}

static const char *const condition_names[] = { "new", "in", "kept", "failed", "held", "closed" };

static enum component_condition condition_from_name(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_LEN(condition_names); i++) {
		if (strcmp(condition_names[i], name) == 0) {
			return (enum component_condition)i;
		}
	}
	return COMPONENT_NEW;
}

void component_wish_save(const struct component *component, json_t *saved)
{
	json_object_set_new(saved, "condition", json_string(condition_names[component->condition]));
	json_object_set_new(saved, "damped", json_boolean(component->damped));
	if (component->ramp_began_ms > 0) {
		json_object_set_new(saved, "slow_start_ms",
			json_integer(clock_monotonic_ms() - component->ramp_began_ms));
	}
	json_object_set_new(
		saved, "damping", damping_save(&component->damping, clock_monotonic_ms()));
}

void component_wish_init(struct component *component, const json_t *saved)
{
	component->condition = condition_from_name(
		json_string_value(json_object_get(saved, "condition")));
	component->damped = json_is_true(json_object_get(saved, "damped"));
	damping_init(&component->damping, component->config->damping_suppress,
		component->config->damping_reuse, component->config->damping_half_life_ms);
	if (saved) {
		damping_load(&component->damping, json_object_get(saved, "damping"),
			clock_monotonic_ms());
	}
	timer_init(&component->damping_timer, component->environment.loop, "damping",
		on_damping_timer, component);
	timer_init(&component->ramp_timer, component->environment.loop, "slow_start", on_ramp_timer,
		component);
	const json_t *passed_ms = json_object_get(saved, "slow_start_ms");
	if (json_is_integer(passed_ms) && component->config->slow_start_ms > 0) {
		component->ramp_began_ms = clock_monotonic_ms() - json_integer_value(passed_ms);
	}
}

void component_wish_finish(struct component *component)
{
	timer_stop(&component->damping_timer);
	timer_stop(&component->ramp_timer);
	component_siblings_destroy(component->siblings);
}
