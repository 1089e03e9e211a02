#include "agent/component/internal.h"

#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "agent/component/verdict.h"
#include "lib/base/text.h"

static struct component_verdict verdict_of(const struct component *component)
{
	struct component_check_view views[component->check_count + 1];
	for (size_t i = 0; i < component->check_count; i++) {
		struct check *check = component->checks[i];
		views[i] = (struct component_check_view){
			.name = check_config(check)->name,
			.why = check_why(check),
			.state = check_get_state(check),
			.warning = check_is_warning(check),
			.whole = check_config(check)->endpoint_count == 0,
		};
	}
	return component_verdict(
		component->gate, component->gate_why, views, component->check_count);
}

/* Once for each time that the checks take it down; not while it is out anyway. */
static void count_down(
	struct component *component, const struct component_verdict *verdict, int64_t now)
{
	if (verdict->failing && !component->was_down && component->was_up &&
		component->config->damping) {
		damping_down(&component->damping, now);
	}
	component->was_down = verdict->down;
	component->was_up = component->was_up || verdict->wish == ANNOUNCE_UP;
}

/* It delays coming back, so what stands (kept as the last one, say) is not its business. */
static bool has_to_stay_out(const struct component *component, int64_t now)
{
	return component->config->damping && !component->stands &&
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
		"went down too often: flap damping holds it out until its penalty has decayed to %.3g, at %s",
		component->damping.reuse, text);
}

static void apply_damping(struct component *component, struct component_verdict *verdict)
{
	int64_t now = clock_monotonic_ms();
	count_down(component, verdict, now);
	if (verdict->wish == ANNOUNCE_UP && has_to_stay_out(component, now)) {
		verdict->wish = ANNOUNCE_DOWN;
		explain_hold(component, now, verdict->why, sizeof(verdict->why));
	}
}

/* Tells when a hold begins and ends, and sees to it that it ends. */
static void update_hold(struct component *component)
{
	int64_t now = clock_monotonic_ms();
	bool held = has_to_stay_out(component, now);
	if (held != component->held) {
		char why[256] = "its penalty has decayed";
		if (held) {
			explain_hold(component, now, why, sizeof(why));
		}
		component->held = held;
		component_transition(component, "damping of", component_label(component),
			held ? "free" : "held", held ? "held" : "free", why);
	}
	ev_timer_stop(component->environment.loop, &component->damping_timer);
	if (held) {
		int64_t left_ms = damping_release_ms(&component->damping, now) - now;
		ev_timer_set(&component->damping_timer, (double)left_ms / 1000.0 + 0.001, 0.0);
		ev_timer_start(component->environment.loop, &component->damping_timer);
	}
}

static void on_siblings(void *context)
{
	component_reconsider(context);
}

/* With keep_last, a failing component that is the last one standing stays, and says that it fails. */
static bool kept_as_last(struct component *component, struct component_verdict *verdict)
{
	bool stands = component->stands || component_registered(component);
	if (!component->config->keep_last || !verdict->failing ||
		(!component->siblings && !stands)) {
		component_siblings_destroy(component->siblings);
		component->siblings = NULL;
		return false;
	}
	if (!component->siblings) {
		component->siblings = component_siblings_create(component->environment.loop,
			component->environment.registry, component->config->path, on_siblings,
			component);
	}
	enum component_siblings_answer answer = component_siblings_answer(component->siblings);
	if (answer == COMPONENT_SIBLINGS_UNKNOWN && stands) {
		verdict->wish = ANNOUNCE_KEEP;
	}
	if (answer != COMPONENT_SIBLINGS_NONE && !(answer == COMPONENT_SIBLINGS_LESSER && stands)) {
		return false;
	}
	char why[sizeof(verdict->why)];
	text_printf(why, sizeof(why), "failing, but the last one: kept; %.200s", verdict->why);
	memcpy(verdict->why, why, sizeof(why));
	verdict->wish = ANNOUNCE_UP;
	return true;
}

/* What a predecessor of this process registered stays whole until each check has had its say. */
static void leave_to_silent_checks(
	const struct component *component, struct component_verdict *verdict)
{
	if (verdict->wish == ANNOUNCE_UP && verdict->silent && !component->stands &&
		component_registered(component)) {
		verdict->wish = ANNOUNCE_KEEP;
	}
}

static const char *health_of(
	const struct component *component, const struct component_verdict *verdict, bool kept)
{
	if (kept) {
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
	if (config_record(&record, component->config, component->endpoints, health, &err) &&
		verdict->wish != ANNOUNCE_UP) {
		err_clear(
			&err); /* going needs no record: one that cannot be written is taken out too */
	}
	int code = err.code
		? err.code
		: announce_wish(component->announce, verdict->wish, record, verdict->why, &err);
	record_free(record);
	if (code) {
		announce_wish_failed(component->announce, &err);
	}
}

void component_reconsider(struct component *component)
{
	component_endpoints_update_out(component);
	struct component_verdict verdict = verdict_of(component);
	apply_damping(component, &verdict);
	leave_to_silent_checks(component, &verdict);
	bool kept = kept_as_last(component, &verdict);
	if (verdict.wish != ANNOUNCE_KEEP) {
		component->stands = verdict.wish == ANNOUNCE_UP;
	}
	update_hold(component);
	wish(component, &verdict, health_of(component, &verdict, kept));
}

static void on_damping_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	component_reconsider(timer->data);
}

void component_wish_init(struct component *component, const json_t *saved)
{
	component->was_up = json_is_true(json_object_get(saved, "was_up"));
	component->was_down = json_is_true(json_object_get(saved, "was_down"));
	component->stands = json_is_true(json_object_get(saved, "stands"));
	component->held = json_is_true(json_object_get(saved, "held"));
	damping_init(&component->damping, component->config->damping_suppress,
		component->config->damping_reuse, component->config->damping_half_life_ms);
	if (saved) {
		damping_load(&component->damping, json_object_get(saved, "damping"),
			clock_monotonic_ms());
	}
	ev_timer_init(&component->damping_timer, on_damping_timer, 0.0, 0.0);
	component->damping_timer.data = component;
}

void component_wish_finish(struct component *component)
{
	ev_timer_stop(component->environment.loop, &component->damping_timer);
	component_siblings_destroy(component->siblings);
}
