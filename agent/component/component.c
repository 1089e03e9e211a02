#include "agent/component/internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

const struct config_component *component_config(const struct component *component)
{
	return component->config;
}

const char *component_label(const struct component *component)
{
	return config_component_label(component->config);
}

struct announce *component_announce(const struct component *component)
{
	return component->announce;
}

enum announce_state component_state(const struct component *component)
{
	return component->outcome.hosted ? component->outcome.shown
					 : announce_get_state(component->announce);
}

const char *component_why(const struct component *component)
{
	return component->outcome.hosted ? component->outcome.shown_why
					 : announce_why(component->announce);
}

double component_since(const struct component *component)
{
	return component->outcome.hosted ? component->outcome.shown_since
					 : announce_since(component->announce);
}

bool component_registered(const struct component *component)
{
	return announce_state_is_in(component_state(component));
}

bool component_outlasts_outage(const struct component *component)
{
	bool kept = announce_registered(component->announce) && component->outcome.has &&
		component->outcome.shown == ANNOUNCE_WAITING;
	return component->outcome.hosted ? kept : announce_outlasts_outage(component->announce);
}

/* The host's agent has made of the announcement what it is to make of it. */
static bool is_carried_out(const struct component *component)
{
	return !component->outcome.hosted ||
		(announce_registered(component->announce)
				? component_registered(component)
				: component_state(component) != ANNOUNCE_WITHDRAWING);
}

bool component_settled(const struct component *component)
{
	return announce_settled(component->announce) && is_carried_out(component) &&
		component_dialects_settled(component);
}

bool component_untold(const struct component *component)
{
	return component_hook_pending(component->hook);
}

bool component_finished(const struct component *component)
{
	/* A command that fails does not keep a component that is no longer configured. */
	bool told = !component_untold(component) || component_hook_failed(component->hook);
	return announce_finished(component->announce) && is_carried_out(component) &&
		component_dialects_settled(component) && told;
}

bool component_damped(const struct component *component)
{
	return component->damped;
}

double component_penalty(const struct component *component)
{
	return damping_penalty(&component->damping, clock_monotonic_ms());
}

void component_undamp(struct component *component)
{
	damping_clear(&component->damping);
	component_reconsider(component);
}

struct drain *component_drain(struct component *component)
{
	return &component->drain;
}

/* ---- events ---- */

void component_check_changed(struct component *component, const struct check *check)
{
	if (config_check_guards(check_config(check), component->config)) {
		component_reconsider(component);
	}
}

void component_retire(struct component *component)
{
	component->environment.checks = NULL;
	component_set_gate(component, COMPONENT_GATE_CLOSED, "no longer configured");
}

static void report_state(struct component *component, enum announce_state from,
	enum announce_state to, const char *why)
{
	bool going = to == ANNOUNCE_WITHDRAWING || to == ANNOUNCE_WITHDRAWN;
	bool on_purpose = component->condition == COMPONENT_CLOSED ||
		component->condition == COMPONENT_NEW;
	component_report(component, "component", component_label(component),
		&(struct transition){ .from = announce_state_name(from),
			.to = announce_state_name(to),
			.why = why,
			.trouble = going && !on_purpose });
	component->environment.on_announced(component->environment.context, component);
	component_hook_tell(component->hook, to, why);
}

static void on_hook_run(void *context, bool succeeded)
{
	struct component *component = context;
	component->environment.on_hook_run(component->environment.context, component, succeeded);
}

static void ask_host(struct component *component, enum announce_state own);

static void show(struct component *component, enum announce_state own, const char *why)
{
	struct component_outcome *outcome = &component->outcome;
	enum announce_state from = outcome->shown;
	if (component_outcome_show(outcome, own, why, clock_wall_s())) {
		report_state(component, from, outcome->shown, outcome->shown_why);
	}
	ask_host(component, own);
}

static void show_present(struct component *component)
{
	show(component, announce_get_state(component->announce), announce_why(component->announce));
}

/* Its list has come before the answer. Without an answer the last list is the best there is. */
static void on_host_answered(void *context, const struct registry_result *result)
{
	struct component *component = context;
	(void)result;
	component->question = NULL;
	component_outcome_asked(&component->outcome);
	show_present(component);
}

static void ask_host(struct component *component, enum announce_state own)
{
	if (component->question || !component_outcome_is_unseen(&component->outcome, own)) {
		return;
	}
	component->question = registry_confirm(
		component->environment.lookups, clock_monotonic_ms(), on_host_answered, component);
}

static void on_announce_change(
	void *context, enum announce_state from, enum announce_state to, const char *why)
{
	struct component *component = context;
	if (component->outcome.hosted) {
		show(component, to, why);
	} else {
		report_state(component, from, to, why);
	}
}

void component_set_outcome(struct component *component, bool known, const json_t *record)
{
	component_outcome_take(&component->outcome, known, record);
	show_present(component);
}

static void on_gone(void *context)
{
	const struct component *component = context;
	if (component->environment.on_gone) {
		component->environment.on_gone(component->environment.context);
	}
}

static bool on_write(void *context)
{
	struct component *component = context;
	if (component_ramp_yields(component)) {
		return false;
	}
	return component->environment.on_write(component->environment.context, component);
}

void component_set_gate(struct component *component, enum component_gate gate, const char *why)
{
	if (component->gate == gate && strcmp(component->gate_why, why) == 0) {
		return;
	}
	component->gate = gate;
	text_printf(component->gate_why, sizeof(component->gate_why), "%s", why);
	component_reconsider(component);
}

/* ---- addresses that local processes supply ---- */

static void start_linger_timer(struct component *component)
{
	int64_t left_ms = component_endpoints_expire_in_ms(component);
	timer_stop(&component->linger_timer);
	if (left_ms >= 0) {
		timer_start(&component->linger_timer, left_ms);
	}
}

static void on_linger_end(void *context)
{
	struct component *component = context;
	if (component_endpoints_expire(component)) {
		component_reconsider(component);
	}
	start_linger_timer(component);
}

int component_set_addresses(struct component *component, const char *name, const json_t *addresses,
	uint64_t connection, struct err *err)
{
	if (component_endpoints_supply(component, name, addresses, connection, err)) {
		return err->code;
	}
	start_linger_timer(component);
	component_reconsider(component);
	return 0;
}

void component_connection_closed(struct component *component, uint64_t connection)
{
	if (component_endpoints_drop(component, connection)) {
		component_reconsider(component);
	}
	start_linger_timer(component);
}

/* ---- events of the registry ---- */

void component_on_registry_state(
	struct component *component, enum registry_state state, const char *why)
{
	announce_on_registry_state(component->announce, state, why);
	component_dialects_on_registry_state(component, state, why);
}

/* ---- the mark of its record ---- */

/* An ephemeral record that ends with its process has no successor. */
static enum holder_use use_of_mark(const struct component *component)
{
	if (component->environment.hosted) {
		return component->config->ephemeral ? HOLDER_FOR_HOST : HOLDER_UNUSED;
	}
	return component->environment.session_outlives || !component->config->ephemeral
		? HOLDER_FOR_ALL
		: HOLDER_UNUSED;
}

static void set_mark(struct component *component)
{
	holder_attribute_make(&component->mark, component->environment.holder,
		component->config->path, use_of_mark(component));
}

/* ---- life and reload ---- */

static void on_former(void *context)
{
	component_dialects_reconsider(context);
}

static struct announce *create_announcement(struct component *component, const json_t *saved)
{
	const struct component_environment *environment = &component->environment;
	struct announce_options options = {
		.type = DIALECT_YARN,
		.kind = component->config->ephemeral ? DIALECT_NODE_EPHEMERAL
						     : DIALECT_NODE_PERSISTENT,
		.path = component->config->path,
		.ephemeral = component->config->ephemeral,
		.takeover = component->config->takeover,
		.may_be_registered = environment->session_resumed,
		.persistent = json_object_get(environment->persistent, component->config->path),
		.update_interval_ms = environment->update_interval_ms,
		.on_former = on_former,
		.on_change = on_announce_change,
		.on_gone = on_gone,
		.on_write = on_write,
		.context = component,
	};
	const char *state = json_string_value(json_object_get(saved, "state"));
	for (int i = 0; state && i < ANNOUNCE_STATE_COUNT; i++) {
		if (strcmp(announce_state_name((enum announce_state)i), state) == 0) {
			options.saved_state = (enum announce_state)i;
			options.saved_since = json_number_value(json_object_get(saved, "since"));
		}
	}
	return announce_create(environment->loop, environment->registry, &options);
}

struct component *component_create(const struct component_environment *environment,
	const struct config_component *config, const json_t *saved)
{
	struct component *component = allocate_zeroed(1, sizeof(*component));
	component->environment = *environment;
	config_ref(config->whole);
	component->config = config;
	set_mark(component);
	component->gate = COMPONENT_GATE_UNDECIDED;
	component->outcome.hosted = environment->hosted;
	component->outcome.shown_since = clock_wall_s();
	component_wish_init(component, saved);
	component->hook = component_hook_create(
		&(struct component_hook_options){ .loop = environment->loop,
			.config = config,
			.saved = json_object_get(saved, "on_change"),
			.on_run = on_hook_run,
			.context = component });
	component->announce = create_announcement(component, saved);
	component_endpoints_arrange(component, config, json_object_get(saved, "addresses"));
	timer_init(&component->linger_timer, environment->loop, "linger", on_linger_end, component);
	start_linger_timer(component);
	component_dialects_arrange(component, config, json_object_get(saved, "dialects"));
	return component;
}

void component_destroy(struct component *component)
{
	if (!component) {
		return;
	}
	component_wish_finish(component);
	timer_stop(&component->linger_timer);
	if (component->question) {
		registry_cancel(component->environment.lookups, component->question);
	}
	announce_destroy(component->announce);
	component_hook_destroy(component->hook);
	component_dialects_free(component);
	component_endpoints_free(component);
	config_unref(component->config->whole);
	free(component);
}

void component_reload(struct component *component, const struct config_component *config,
	const struct component_environment *environment)
{
	component->environment = *environment;
	component_endpoints_arrange(component, config, NULL);
	start_linger_timer(component);
	component_dialects_arrange(component, config, NULL);
	component_hook_reload(component->hook, config);
	config_ref(config->whole);
	config_unref(component->config->whole);
	component->config = config;
	set_mark(component);
	component->damping.suppress = config->damping_suppress;
	component->damping.reuse = config->damping_reuse;
	component->damping.half_life_ms = config->damping_half_life_ms;
	announce_set_takeover(component->announce, config->takeover);
	announce_set_ephemeral(component->announce, config->ephemeral);
	announce_set_update_interval(component->announce, environment->update_interval_ms);
	component_reconsider(component);
}

/* ---- for people and successors ---- */

json_t *component_json(const struct component *component)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:f, s:b, s:b, s:f, s:o, s:o, s:o, s:o}",
		"name", component_label(component), "path", component->config->path, "state",
		announce_state_name(component_state(component)), "reason", component_why(component),
		"registered", component_registered(component), "since", component_since(component),
		"settled", announce_settled(component->announce) && is_carried_out(component),
		"damped", component->damped, "penalty", component_penalty(component), "endpoints",
		component_endpoints_json(component), "addresses",
		component_addresses_json(component), "dialects", component_dialects_json(component),
		"on_change", component_hook_json(component->hook));
}

json_t *component_save(const struct component *component)
{
	json_t *saved = json_pack("{s:o, s:s, s:f}", "addresses",
		component_endpoints_save(component), "state",
		announce_state_name(component_state(component)), "since",
		component_since(component));
	json_object_set_new(saved, "dialects", component_dialects_save(component));
	json_object_set_new(saved, "on_change", component_hook_save(component->hook));
	component_wish_save(component, saved);
	return saved;
}
