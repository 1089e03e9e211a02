#include "agent/check/set.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

struct check_set {
	struct check_scheduler *scheduler;
	struct check_callbacks callbacks;
	struct check **checks;
	size_t count;
};

struct check_set *check_set_create(
	struct check_scheduler *scheduler, const struct check_callbacks *callbacks)
{
	struct check_set *set = allocate_zeroed(1, sizeof(*set));
	set->scheduler = scheduler;
	set->callbacks = *callbacks;
	return set;
}

static void destroy_checks(struct check **checks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		check_destroy(checks[i]);
	}
	free(checks);
}

void check_set_destroy(struct check_set *set)
{
	if (set) {
		destroy_checks(set->checks, set->count);
		free(set);
	}
}

static struct check *create(
	const struct check_set *set, const struct config_check *config, const json_t *saved)
{
	struct check_component components[config->component_count];
	for (size_t i = 0; i < config->component_count; i++) {
		const struct config_component *component = config_check_component(config, i);
		components[i].label = config_component_label(component);
		components[i].path = component->path;
	}
	return check_create(set->scheduler, config, components, config->component_count,
		&set->callbacks, saved);
}

/* A command has labels and paths in its environment: with others it needs another one. */
static bool same_components(const struct config_check *a, const struct config_check *b)
{
	bool same = a->component_count == b->component_count;
	for (size_t i = 0; same && i < a->component_count; i++) {
		const struct config_component *one = config_check_component(a, i);
		const struct config_component *other = config_check_component(b, i);
		same = strcmp(one->name, other->name) == 0 && strcmp(one->path, other->path) == 0 &&
			strcmp(config_component_label(one), config_component_label(other)) == 0;
	}
	return same;
}

/* The check of this name leaves `checks`; NULL when there is none. */
static struct check *take(struct check **checks, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (checks[i] && strcmp(check_config(checks[i])->name, name) == 0) {
			struct check *check = checks[i];
			checks[i] = NULL;
			return check;
		}
	}
	return NULL;
}

/* `before`: the check of this name until now, or NULL. It is kept or destroyed. */
static struct check *arrange(const struct check_set *set, struct check *before_take,
	const struct config_check *config, bool jitter, const json_t *saved)
{
	bool equal = before_take && config_check_equal(check_config(before_take), config);
	if (equal && same_components(check_config(before_take), config)) {
		return before_take;
	}
	json_t *state = equal ? check_save(before_take)
			      : json_incref(json_object_get(saved, config->name));
	struct check *check = create(set, config, state);
	if (!config->awaits) {
		check_start(check, jitter);
	}
	json_decref(state);
	check_destroy(before_take);
	return check;
}

void check_set_arrange(struct check_set *set, const struct config *config, const json_t *saved)
{
	struct check **before = set->checks;
	size_t before_count = set->count;
	struct check **checks = allocate_zeroed(config->check_count, sizeof(*checks));
	for (size_t i = 0; i < config->check_count; i++) {
		const struct config_check *check = &config->checks[i];
		checks[i] = arrange(set, take(before, before_count, check->name), check,
			config->check_count > 1, saved);
	}
	set->checks = checks;
	set->count = config->check_count;
	destroy_checks(before, before_count);
}

json_t *check_set_save(const struct check_set *set)
{
	json_t *saved = json_object();
	for (size_t i = 0; i < set->count; i++) {
		json_object_set_new(
			saved, check_config(set->checks[i])->name, check_save(set->checks[i]));
	}
	return saved;
}

void check_set_look_again(struct check_set *set)
{
	for (size_t i = 0; set && i < set->count; i++) {
		check_look_again(set->checks[i]);
	}
}

size_t check_set_count(const struct check_set *set)
{
	return set ? set->count : 0;
}

struct check *check_set_at(const struct check_set *set, size_t index)
{
	return index < set->count ? set->checks[index] : NULL;
}

struct check *check_set_next_guard(
	const struct check_set *set, const struct config_component *component, size_t *index)
{
	struct check *check;
	while (set && (check = check_set_at(set, (*index)++)) != NULL) {
		if (config_check_guards(check_config(check), component)) {
			return check;
		}
	}
	return NULL;
}

struct check *check_set_find(const struct check_set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++) {
		if (strcmp(check_config(set->checks[i])->name, name) == 0) {
			return set->checks[i];
		}
	}
	return NULL;
}
