#include "tests/sim/order.h"

#include <string.h>

#include "lib/base/path.h"

void order_init(struct order *order, const char *const *paths, size_t count)
{
	*order = (struct order){ .paths = paths, .count = count };
}

void order_forget(struct order *order)
{
	order_init(order, order->paths, order->count);
}

static size_t index_of(const struct order *order, const char *path)
{
	size_t its = 0;
	while (strcmp(order->paths[its], path) != 0) {
		its++;
	}
	return its;
}

/* `list`: names, each with a newline; NULL: none. */
static bool names(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = list; at && *at; at = strchr(at, '\n') + 1) {
		if (strncmp(at, name, len) == 0 && at[len] == '\n') {
			return true;
		}
	}
	return false;
}

static int64_t later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The list, or the absence of one, is an answer about each child that it lacks. */
static bool lacks(const struct order *order, size_t i, const struct claim *claim)
{
	return claim->aspect == WORLD_CHILDREN && path_is_child(order->paths[i], claim->path) &&
		!names(claim->value, path_name(order->paths[i]));
}

static int64_t least_ms(const struct order *order, const struct claim *claim, size_t its)
{
	int64_t least_ms = later_of(order->from_ms[its][claim->aspect], claim->not_before_ms);
	for (size_t i = 0; i < order->count; i++) {
		if (lacks(order, i, claim)) {
			least_ms = later_of(least_ms, order->from_ms[i][WORLD_DATA]);
		}
	}
	return least_ms;
}

void order_hear(
	struct order *order, const struct world *world, const char *path, const json_t *record)
{
	size_t its = index_of(order, path);
	int64_t at_ms = world_next_record_ms(world, path, record, order->from_ms[its][WORLD_DATA]);
	if (at_ms != INT64_MAX) {
		order->from_ms[its][WORLD_DATA] = at_ms;
	}
}

bool order_take(struct order *order, const struct world *world, const struct claim *claim)
{
	size_t its = index_of(order, claim->path);
	int64_t from_ms = least_ms(order, claim, its);
	int64_t at_ms = world_next_true_ms(
		world, claim->path, claim->aspect, claim->value, from_ms);
	int64_t other_ms = claim->other
		? world_next_true_ms(world, claim->path, claim->aspect, claim->other, from_ms)
		: INT64_MAX;
	at_ms = at_ms < other_ms ? at_ms : other_ms;
	if (at_ms == INT64_MAX) {
		return false;
	}
	order->from_ms[its][claim->aspect] = at_ms;
	for (size_t i = 0; i < order->count; i++) {
		if (lacks(order, i, claim)) {
			order->from_ms[i][WORLD_DATA] = at_ms;
		}
	}
	return true;
}
