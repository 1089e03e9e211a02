#include "agent/registration/drain.h"

#include "agent/base/allocate.h"
#include "agent/registration/bridge.h"
#include "agent/registration/components.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/log.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

static const char DRAIN_DOCUMENT[] = "drain";
enum { CONFIRM_AGAIN_MS = 1000 };
/* How long the answer to an order waits for the disk: the drain is in force all the same. */
enum { SAVE_PATIENCE_MS = 2000 };

/* ---- begin and end ---- */

/* The drain of the component, or the agent's when `component` is NULL. */
static struct drain *drain_of(struct agent *agent, struct component *component)
{
	return component ? component_drain(component) : &agent->drain;
}

/* Of a component, of a container, or of the whole agent when both are NULL. */
static void report_of(struct agent *agent, const char *component, const char *container,
	const char *from, const char *to, const char *why)
{
	const char *name = component ? component : container;
	char subject[300] = "drain";
	if (name) {
		text_printf(subject, sizeof(subject), "drain of %s", name);
	}
	agent_event(agent,
		&(struct transition){ .component = component,
			.subject = subject,
			.from = from,
			.to = to,
			.why = why });
}

static void report(struct agent *agent, const struct component *component, const char *from,
	const char *to, const char *why)
{
	report_of(agent, component ? component_label(component) : NULL, NULL, from, to, why);
}

json_t *agent_drain_save(struct agent *agent)
{
	json_t *document = drain_json(&agent->drain);
	json_t *components = json_object();
	for (size_t i = 0; i < agent->component_count; i++) {
		struct component *component = agent->components[i];
		if (component_drain(component)->active) {
			json_object_set_new(components, component_label(component),
				drain_json(component_drain(component)));
		}
	}
	json_object_set_new(document, "components", components);
	json_object_set_new(document, "containers", drains_json(&agent->container_drains));
	return document;
}

static void end_saving(struct agent *agent)
{
	timer_stop(&agent->drain_save_timer);
	if (agent->api) {
		api_drain_saved(agent->api);
	}
}

static void on_saved(void *context, const struct err *err)
{
	if (err->code) {
		log_warn("drain", "a restart does not know of its change: %s", err->msg);
	}
	end_saving(context);
}

static void on_save_timer(void *context)
{
	log_warn("drain", "its change is not on the disk yet");
	end_saving(context);
}

/* The answer to the order waits for this: agent_drain_is_being_saved(). */
static void save(struct agent *agent)
{
	json_t *document = agent_drain_save(agent);
	bool any = agent->drain.active || agent->container_drains.count > 0 ||
		json_object_size(json_object_get(document, "components")) > 0;
	if (!timer_runs(&agent->drain_save_timer)) {
		timer_start(&agent->drain_save_timer, SAVE_PATIENCE_MS);
	}
	if (any) {
		state_dir_save(&agent->state, DRAIN_DOCUMENT, document, on_saved, agent);
	} else if (state_dir_usable(&agent->state)) {
		state_dir_remove(&agent->state, DRAIN_DOCUMENT, on_saved, agent);
	} else {
		end_saving(agent);
	}
	json_decref(document);
}

bool agent_drain_is_being_saved(const struct agent *agent)
{
	return timer_runs(&agent->drain_save_timer);
}

static double earlier_end(double end, const struct drain *drain)
{
	bool ends = drain->active && drain->until > 0;
	return ends && (end <= 0 || drain->until < end) ? drain->until : end;
}

/* By the wall clock: a drain ends in time also on a machine that was suspended. */
static void arm(struct agent *agent)
{
	double end = earlier_end(0, &agent->drain);
	for (size_t i = 0; i < agent->component_count; i++) {
		end = earlier_end(end, component_drain(agent->components[i]));
	}
	for (size_t i = 0; i < agent->container_drains.count; i++) {
		end = earlier_end(end, &agent->container_drains.items[i].drain);
	}
	ev_periodic_stop(agent->loop, &agent->drain_end_timer);
	if (end > 0) {
		ev_periodic_set(&agent->drain_end_timer, end, 0.0, NULL);
		ev_periodic_start(agent->loop, &agent->drain_end_timer);
	}
}

static void changed(struct agent *agent)
{
	if (!agent->drain.active) {
		timer_stop(&agent->drain_retry_timer);
	}
	save(agent);
	arm(agent);
	agent_wake(agent);
}

static void expire(struct agent *agent, struct component *component)
{
	if (drain_expire(drain_of(agent, component), ev_now(agent->loop))) {
		report(agent, component, "draining", "serving", "its time is over");
	}
}

static void end_of_container(struct agent *agent, struct named_drain *drain, const char *why)
{
	char *name = allocate_text(drain->name);
	drains_remove(&agent->container_drains, drain);
	report_of(agent, NULL, name, "draining", "serving", why);
	agent_bridge_review(agent, name);
	free(name);
}

static void on_end_timer(struct ev_loop *loop, ev_periodic *timer, int events)
{
	(void)loop;
	(void)events;
	struct agent *agent = timer->data;
	expire(agent, NULL);
	for (size_t i = 0; i < agent->component_count; i++) {
		expire(agent, agent->components[i]);
	}
	for (size_t i = agent->container_drains.count; i-- > 0;) {
		struct named_drain *drain = &agent->container_drains.items[i];
		if (drain->drain.until > 0 && ev_now(agent->loop) >= drain->drain.until) {
			end_of_container(agent, drain, "its time is over");
		}
	}
	changed(agent);
}

void agent_drain_begin(
	struct agent *agent, struct component *component, const char *reason, int64_t for_ms)
{
	struct drain *drain = drain_of(agent, component);
	bool was_active = drain->active;
	if (!component && !was_active) {
		agent->drained_at = 0;
	}
	drain_begin(drain, reason, (double)for_ms / 1000.0, ev_time());
	report(agent, component, was_active ? "draining" : "serving", "draining", reason);
	changed(agent);
}

void agent_drain_end(struct agent *agent, struct component *component)
{
	struct drain *drain = drain_of(agent, component);
	if (drain->active) {
		drain_end(drain);
		report(agent, component, "draining", "serving", "ended by request");
		changed(agent);
	}
}

/* ---- containers ---- */

static int no_container(struct err *err, const char *name)
{
	return err_set(err, BERTH_PATH_NOT_FOUND,
		"no container of this host is named \"%s\": names are SOURCE/NAME, as berth bridge "
		"shows them; of a directory, dir/NAME",
		name);
}

int agent_drain_begin_container(
	struct agent *agent, const char *name, const char *reason, int64_t for_ms, struct err *err)
{
	struct named_drain *drain = drains_find(&agent->container_drains, name);
	bool was_active = drain;
	if (!drain && !agent_bridge_has(agent, name)) {
		return no_container(err, name);
	}
	drain = drains_add(&agent->container_drains, name);
	if (!drain) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "more than %d containers are drained",
			DRAINS_MAX);
	}
	drain_begin(&drain->drain, reason, (double)for_ms / 1000.0, ev_time());
	report_of(agent, NULL, name, was_active ? "draining" : "serving", "draining", reason);
	agent_bridge_review(agent, name);
	changed(agent);
	return 0;
}

int agent_drain_end_container(struct agent *agent, const char *name, struct err *err)
{
	struct named_drain *drain = drains_find(&agent->container_drains, name);
	if (!drain) {
		return agent_bridge_has(agent, name) ? 0 : no_container(err, name);
	}
	end_of_container(agent, drain, "ended by request");
	changed(agent);
	return 0;
}

static double container_left_s(const struct agent *agent, const struct named_drain *drain)
{
	double delay_s = (double)agent->config->agent.drain_delay_ms / 1000.0;
	return drain->out_at > 0 ? drain->out_at + delay_s - clock_monotonic_s() : delay_s;
}

static void on_container_timer(void *context)
{
	agent_wake(context);
}

void agent_drain_proceed_containers(struct agent *agent)
{
	double next_s = 0;
	for (size_t i = 0; i < agent->container_drains.count; i++) {
		struct named_drain *drain = &agent->container_drains.items[i];
		if (agent_bridge_records_left(agent, drain->name) > 0) {
			drain->out_at = 0;
			continue;
		}
		drain->out_at = drain->out_at > 0 ? drain->out_at : clock_monotonic_s();
		double left_s = container_left_s(agent, drain);
		next_s = left_s > 0 && (next_s <= 0 || left_s < next_s) ? left_s : next_s;
	}
	if (next_s > 0) {
		timer_start(&agent->container_drain_timer, (int64_t)(next_s * 1000.0) + 1);
	} else {
		timer_stop(&agent->container_drain_timer);
	}
}

json_t *agent_drain_containers_json(const struct agent *agent)
{
	json_t *json = drains_json(&agent->container_drains);
	for (size_t i = 0; i < agent->container_drains.count; i++) {
		const struct named_drain *drain = &agent->container_drains.items[i];
		json_t *one = json_object_get(json, drain->name);
		bool done = drain->out_at > 0 && container_left_s(agent, drain) <= 0;
		json_object_set_new(one, "records",
			json_integer((json_int_t)agent_bridge_records_left(agent, drain->name)));
		json_object_set_new(one, "done", json_boolean(done));
	}
	return json;
}

/* ---- confirmation ---- */

void agent_drain_confirm_again(struct agent *agent)
{
	agent->drained_at = 0;
	agent->drain.quiet_looks = 0;
	agent_wake(agent);
}

static void confirmed(struct agent *agent)
{
	bool out = agent->drain.active && agent_components_settled(agent);
	if (out && !agent->drain_unconfirmed) {
		agent->drained_at = clock_monotonic_s();
		agent_wake(agent);
	} else if (out) {
		timer_start(&agent->drain_retry_timer, CONFIRM_AGAIN_MS);
	}
}

static void on_confirmed(void *context, const struct registry_result *result)
{
	struct agent *agent = context;
	bool gone = result->err.code == BERTH_PATH_NOT_FOUND ||
		(result->err.code == 0 && !result->stat.own);
	agent->drain_unconfirmed = agent->drain_unconfirmed || !gone;
	if (--agent->drain_confirmations == 0) {
		confirmed(agent);
	}
}

void agent_drain_proceed(struct agent *agent)
{
	bool wanted = agent->drain.active && agent->drained_at <= 0 &&
		agent->drain_confirmations == 0;
	if (!wanted || !agent_components_settled(agent)) {
		return;
	}
	agent->drain_unconfirmed = false;
	if (agent->component_count == 0) {
		confirmed(agent);
	}
	for (size_t i = 0; i < agent->component_count; i++) {
		const char *path = component_config(agent->components[i])->path;
		if (registry_stat(agent->registry, path, on_confirmed, agent)) {
			agent->drain_confirmations++;
		}
	}
}

static void on_retry_timer(void *context)
{
	agent_drain_proceed(context);
}

double agent_drain_left_s(const struct agent *agent)
{
	double delay_s = (double)agent->config->agent.drain_delay_ms / 1000.0;
	if (agent->drained_at > 0 && drain_is_quiet(&agent->drain)) {
		return 0;
	}
	return agent->drained_at > 0 ? agent->drained_at + delay_s - clock_monotonic_s() : delay_s;
}

json_t *agent_drain_json(const struct agent *agent)
{
	json_t *json = drain_json(&agent->drain);
	bool done = agent->drain.active && agent->drained_at > 0 && agent_drain_left_s(agent) <= 0;
	json_object_set_new(json, "done", json_boolean(done));
	return json;
}

static bool component_is_out(struct component *component)
{
	return component_drain(component)->active && !component_registered(component) &&
		component_settled(component);
}

static bool delay_is_over(const struct agent *agent, struct component *component)
{
	double delay_s = (double)agent->config->agent.drain_delay_ms / 1000.0;
	double passed_s = clock_wall_s() - component_since(component);
	/* Before it: the wall clock was set back. */
	return drain_is_quiet(component_drain(component)) || passed_s < 0 || passed_s >= delay_s;
}

bool agent_drain_component_waits(const struct agent *agent, struct component *component)
{
	return component_is_out(component) && !delay_is_over(agent, component);
}

json_t *agent_drain_component_json(const struct agent *agent, struct component *component)
{
	const struct drain *drain = component_drain(component);
	if (!drain->active) {
		return NULL;
	}
	bool done = component_is_out(component) && delay_is_over(agent, component);
	json_t *json = drain_json(drain);
	json_object_set_new(json, "done", json_boolean(done));
	return json;
}

/* ---- life ---- */

void agent_drain_load(struct agent *agent, const json_t *passed)
{
	ev_init(&agent->drain_end_timer, on_end_timer);
	agent->drain_end_timer.data = agent;
	timer_init(&agent->drain_retry_timer, agent->loop, "end of a drain", on_retry_timer, agent);
	timer_init(
		&agent->drain_save_timer, agent->loop, "saving of a drain", on_save_timer, agent);
	timer_init(&agent->container_drain_timer, agent->loop, "drain_delay of a container",
		on_container_timer, agent);
	struct err err = ERR_INIT;
	json_t *document = passed ? json_incref((json_t *)passed)
				  : state_dir_load(&agent->state, DRAIN_DOCUMENT, &err);
	if (err.code) {
		log_warn("drain", "the saved drain cannot be read and is ignored: %s", err.msg);
	}
	if (document && !drain_from_json(&agent->drain, document, ev_time())) {
		log_warn("drain", "the saved drain has an unknown shape and is ignored");
	}
	if (!drains_load(
		    &agent->container_drains, json_object_get(document, "containers"), ev_time())) {
		log_warn("drain",
			"a saved drain of a container has an unknown shape and is ignored");
	}
	agent->saved_drains = document;
}

static void load_component(struct component *component, const json_t *saved)
{
	const json_t *json = json_object_get(saved, component_label(component));
	if (json && !drain_from_json(component_drain(component), json, ev_time())) {
		log_warn("drain", "the saved drain of %s has an unknown shape and is ignored",
			component_label(component));
	}
}

static void log_still(const struct drain *drain, const char *subject)
{
	if (drain->active) {
		char what[sizeof(drain->reason) + 16];
		drain_describe(drain, what, sizeof(what));
		log_info(subject, "still %s", what);
	}
}

void agent_drain_load_components(struct agent *agent)
{
	const json_t *saved = json_object_get(agent->saved_drains, "components");
	log_still(&agent->drain, "drain");
	for (size_t i = 0; i < agent->component_count; i++) {
		load_component(agent->components[i], saved);
		log_still(component_drain(agent->components[i]),
			component_label(agent->components[i]));
	}
	for (size_t i = 0; i < agent->container_drains.count; i++) {
		const struct named_drain *drain = &agent->container_drains.items[i];
		log_still(&drain->drain, drain->name);
	}
	if (agent->saved_drains) {
		save(agent);
	}
	json_decref(agent->saved_drains);
	agent->saved_drains = NULL;
	arm(agent);
}
