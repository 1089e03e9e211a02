#include "tests/sim/order.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"

void order_init(struct order *order, const char *const *paths, size_t count)
{
	*order = (struct order){ .paths = paths, .count = count };
}

void order_forget(struct order *order)
{
	for (size_t i = 0; i < order->count; i++) {
		free(order->names[i]);
	}
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

static bool is_child(const char *path, const char *parent)
{
	size_t len = path_parent_len(path);
	return strlen(parent) == len && strncmp(parent, path, len) == 0;
}

static void take_list(struct order *order, const char *path, const char *before, const char *after,
	int64_t from_ms)
{
	for (size_t i = 0; i < order->count; i++) {
		const char *name = path_name(order->paths[i]);
		int64_t *data_ms = &order->from_ms[i][WORLD_DATA];
		if (is_child(order->paths[i], path) && names(before, name) && !names(after, name) &&
			*data_ms < from_ms) {
			*data_ms = from_ms;
		}
	}
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool order_take(struct order *order, const struct world *world, const struct claim *claim)
{
	size_t i = 0;
	while (strcmp(order->paths[i], claim->path) != 0) {
		i++;
	}
	int64_t *from_ms = &order->from_ms[i][claim->aspect];
	int64_t at_ms = world_next_true_ms(
		world, claim->path, claim->aspect, claim->value, *from_ms);
	int64_t other_ms = claim->other
		? world_next_true_ms(world, claim->path, claim->aspect, claim->other, *from_ms)
		: INT64_MAX;
	at_ms = at_ms < other_ms ? at_ms : other_ms;
	if (at_ms == INT64_MAX) {
		return false;
	}
	*from_ms = at_ms;
	if (claim->aspect == WORLD_CHILDREN && !same(order->names[i], claim->value)) {
		take_list(order, claim->path, order->names[i], claim->value, at_ms);
		free(order->names[i]);
		order->names[i] = claim->value ? strdup(claim->value) : NULL;
	}
	return true;
}
