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

static bool is_child(const char *path, const char *parent)
{
	size_t len = path_parent_len(path);
	return strlen(parent) == len && strncmp(parent, path, len) == 0;
}

/* A path that leaves its directory is news of the path itself. */
static void take_listed(struct order *order, size_t i, bool listed, int64_t from_ms)
{
	int64_t *data_ms = &order->from_ms[i][WORLD_DATA];
	if (order->listed[i] && !listed) {
		*data_ms = later_of(*data_ms, from_ms);
	}
	order->listed[i] = listed;
}

static void take_list(struct order *order, const char *path, const char *list, int64_t from_ms)
{
	for (size_t i = 0; i < order->count; i++) {
		const char *name = path_name(order->paths[i]);
		if (is_child(order->paths[i], path)) {
			take_listed(order, i, names(list, name), from_ms);
		}
	}
}

bool order_take(struct order *order, const struct world *world, const struct claim *claim)
{
	size_t i = 0;
	while (strcmp(order->paths[i], claim->path) != 0) {
		i++;
	}
	int64_t *from_ms = &order->from_ms[i][claim->aspect];
	bool lacks = claim->in_records && !claim->value;
	int64_t least_ms = later_of(lacks ? order->lacked_ms[i] : *from_ms, claim->not_before_ms);
	int64_t at_ms = world_next_true_ms(
		world, claim->path, claim->aspect, claim->value, least_ms);
	int64_t other_ms = claim->other
		? world_next_true_ms(world, claim->path, claim->aspect, claim->other, least_ms)
		: INT64_MAX;
	at_ms = at_ms < other_ms ? at_ms : other_ms;
	if (at_ms == INT64_MAX) {
		return false;
	}
	if (claim->in_records) {
		order->lacked_ms[i] = at_ms;
		take_listed(order, i, claim->value != NULL, at_ms);
	}
	if (!lacks) {
		*from_ms = later_of(*from_ms, at_ms);
	}
	if (claim->aspect == WORLD_CHILDREN) {
		take_list(order, claim->path, claim->value, at_ms);
	}
	return true;
}
