/* The component's nodes in other naming schemes. */
#include "agent/component/internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

static void on_set_change(void *context, struct dialect_set *set, enum announce_state from)
{
	struct component *component = context;
	component_transition(component, "dialect", dialect_set_config(set)->name,
		announce_state_name(from), announce_state_name(dialect_set_state(set)),
		dialect_set_why(set));
	component->environment.on_announced(component->environment.context, component);
}

static bool is_former(void *context, uint64_t session)
{
	const struct component *component = context;
	return announce_former_session(component->announce) == session;
}

static struct dialect_set_options options_of(
	struct component *component, const struct config_component *config)
{
	const struct component_environment *environment = &component->environment;
	return (struct dialect_set_options){
		.loop = environment->loop,
		.registry = environment->registry,
		.takeover = config->takeover,
		.session_resumed = environment->session_resumed,
		.update_interval_ms = environment->update_interval_ms,
		.is_former = is_former,
		.on_change = on_set_change,
		.context = component,
	};
}

/* Takes the set of that name and type out of `sets`. */
static struct dialect_set *take_set(
	struct dialect_set **sets, size_t count, const struct config_dialect *config)
{
	for (size_t i = 0; i < count; i++) {
		struct dialect_set *set = sets[i];
		if (set && strcmp(dialect_set_config(set)->name, config->name) == 0 &&
			dialect_set_config(set)->type == config->type) {
			sets[i] = NULL;
			return set;
		}
	}
	return NULL;
}

static void retire(struct component *component, struct dialect_set *set)
{
	component->retired = allocate_grow(
		component->retired, component->retired_count, sizeof(*component->retired));
	config_ref(component->config->whole);
	component->retired[component->retired_count++] = (struct dialect_retired){
		.set = set,
		.whole = component->config->whole,
	};
}

static void free_retired(struct component *component, size_t index)
{
	struct dialect_retired *retired = &component->retired[index];
	dialect_set_destroy(retired->set);
	config_unref(retired->whole);
	*retired = component->retired[--component->retired_count];
}

void component_dialects_arrange(
	struct component *component, const struct config_component *config, const json_t *saved)
{
	const struct dialect_set_options options = options_of(component, config);
	struct dialect_set **before = component->dialects;
	size_t before_count = component->dialect_count;
	struct dialect_set **sets = allocate_zeroed(config->dialect_count, sizeof(*sets));
	for (size_t i = 0; i < config->dialect_count; i++) {
		const struct config_dialect *dialect = &config->dialects[i];
		struct dialect_set_options own = options;
		own.registered_ms = (int64_t)json_integer_value(
			json_object_get(saved, dialect->name));
		sets[i] = take_set(before, before_count, dialect);
		if (sets[i]) {
			dialect_set_configure(sets[i], dialect, &own);
		} else {
			sets[i] = dialect_set_create(dialect, &own);
		}
	}
	component->dialects = sets;
	component->dialect_count = config->dialect_count;
	for (size_t i = 0; i < before_count; i++) {
		if (before[i]) {
			retire(component, before[i]);
		}
	}
	free(before);
}

void component_dialects_free(struct component *component)
{
	for (size_t i = 0; i < component->dialect_count; i++) {
		dialect_set_destroy(component->dialects[i]);
	}
	free(component->dialects);
	while (component->retired_count) {
		free_retired(component, 0);
	}
	free(component->retired);
}

void component_dialects_wish(struct component *component, enum announce_wish wish, const char *why)
{
	for (size_t i = 0; i < component->dialect_count; i++) {
		dialect_set_wish(
			component->dialects[i], wish, component->config, component->endpoints, why);
	}
	for (size_t i = component->retired_count; i-- > 0;) {
		struct dialect_set *set = component->retired[i].set;
		if (dialect_set_settled(set) && dialect_set_state(set) == ANNOUNCE_WITHDRAWN) {
			free_retired(component, i);
		} else {
			dialect_set_wish(set, ANNOUNCE_DOWN, component->config,
				component->endpoints, "the configuration no longer has it");
		}
	}
}

void component_dialects_reconsider(struct component *component)
{
	for (size_t i = 0; i < component->dialect_count; i++) {
		dialect_set_reconsider(component->dialects[i]);
	}
}

void component_dialects_on_registry_state(
	struct component *component, enum registry_state state, const char *why)
{
	for (size_t i = 0; i < component->dialect_count; i++) {
		dialect_set_on_registry_state(component->dialects[i], state, why);
	}
	for (size_t i = 0; i < component->retired_count; i++) {
		dialect_set_on_registry_state(component->retired[i].set, state, why);
	}
}

bool component_dialects_settled(const struct component *component)
{
	bool settled = true;
	for (size_t i = 0; i < component->dialect_count; i++) {
		settled = settled && dialect_set_settled(component->dialects[i]);
	}
	for (size_t i = 0; i < component->retired_count; i++) {
		settled = settled && dialect_set_settled(component->retired[i].set);
	}
	return settled;
}

size_t component_dialect_count(const struct component *component)
{
	return component->dialect_count;
}

const char *component_dialect(const struct component *component, size_t index, bool *ret_registered)
{
	const struct dialect_set *set = component->dialects[index];
	*ret_registered = announce_state_is_in(dialect_set_state(set));
	return dialect_set_config(set)->name;
}

json_t *component_dialects_json(const struct component *component)
{
	json_t *dialects = json_array();
	for (size_t i = 0; i < component->dialect_count; i++) {
		json_array_append_new(dialects, dialect_set_json(component->dialects[i]));
	}
	return dialects;
}

json_t *component_dialects_save(const struct component *component)
{
	json_t *saved = json_object();
	for (size_t i = 0; i < component->dialect_count; i++) {
		json_object_set_new(saved, dialect_set_config(component->dialects[i])->name,
			json_integer(
				(json_int_t)dialect_set_registered_ms(component->dialects[i])));
	}
	return saved;
}
