#include "agent/bridge/guards.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/bridge/policy.h"
#include "lib/base/text.h"

struct guard {
	struct list link;
	char *path; /* of the service */
	struct check *check;
};

void bridge_guards_end(struct list *guards)
{
	while (!list_empty(guards)) {
		struct guard *guard = LIST_ITEM(guards->next, struct guard, link);
		list_remove(&guard->link);
		check_destroy(guard->check);
		free(guard->path);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
		free(guard);
	}
}

static struct guard *find(
	const struct list *guards, const char *path, const struct config_check *config)
{
	for (struct list *at = guards->next; at != guards; at = at->next) {
		struct guard *guard = LIST_ITEM(at, struct guard, link);
		if (strcmp(guard->path, path) == 0 &&
			strcmp(check_config(guard->check)->name, config->name) == 0 &&
			config_check_equal(check_config(guard->check), config)) {
			return guard;
		}
	}
	return NULL;
}

static struct guard *begin(const struct bridge_guards_owner *owner, const char *path,
	const struct config_check *config)
{
	const struct check_component component = { .label = owner->name, .path = path };
	struct guard *guard = allocate_zeroed(1, sizeof(*guard));
	guard->path = allocate_text(path);
	guard->check = check_create(
		owner->scheduler, config, &component, 1, &owner->callbacks, NULL);
	check_start(guard->check, false);
	return guard;
}

/* No check runs for what cannot be registered, whatever it answers. */
static bool is_wanted(const struct bridge_guards_owner *owner, const struct bridge_service *service)
{
	return !service->mistake && owner->policy &&
		bridge_policy_allows(owner->policy, service->config->components[0].path);
}

void bridge_guards_arrange(struct list *guards, const struct bridge_guards_owner *owner,
	const struct bridge_services *services)
{
	struct list before;
	list_init(&before);
	list_move_all(&before, guards);
	for (size_t i = 0; services && i < services->count; i++) {
		const struct config *config = services->items[i].config;
		size_t count = is_wanted(owner, &services->items[i]) ? config->check_count : 0;
		for (size_t j = 0; j < count; j++) {
			const char *path = config->components[0].path;
			struct guard *guard = find(&before, path, &config->checks[j]);
			if (guard) {
				list_remove(&guard->link);
			} else {
				guard = begin(owner, path, &config->checks[j]);
			}
			list_append(guards, &guard->link);
		}
	}
	bridge_guards_end(&before);
}

enum bridge_hold bridge_guards_hold(
	const struct list *guards, const char *path, char *ret_why, size_t size)
{
	enum bridge_hold hold = BRIDGE_HOLD_IN;
	for (const struct list *at = guards->next; at != guards; at = at->next) {
		const struct guard *guard = LIST_ITEM(at, struct guard, link);
		enum check_state state = check_get_state(guard->check);
		if (strcmp(guard->path, path) != 0 || state == CHECK_STATE_UP) {
			continue;
		}
		text_printf(ret_why, size, "check %s: %s", check_config(guard->check)->name,
			check_why(guard->check));
		if (state == CHECK_STATE_DOWN) {
			return BRIDGE_HOLD_OUT;
		}
		hold = BRIDGE_HOLD_AS_IT_IS;
	}
	return hold;
}

json_t *bridge_guards_json(const struct list *guards)
{
	json_t *checks = json_array();
	for (const struct list *at = guards->next; at != guards; at = at->next) {
		json_array_append_new(checks, check_json(LIST_ITEM(at, struct guard, link)->check));
	}
	return checks;
}
