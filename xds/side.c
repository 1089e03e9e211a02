#include "xds/side.h"

#include <stdlib.h>
#include <string.h>

#include "lib/program/memory.h"
#include "xds/log.h"

/* The observers of a place that a name may mean. */
struct place {
	struct tree_observer guard;
	/* With a guard: observed only while the guard exists, or did. */
	struct tree_observer self;
};

static void observe(
	struct side *side, struct tree_observer *observer, const char *path, enum name_shape shape)
{
	struct berth_failure failure;
	int code = tree_observe(
		side->trees, observer, path, shape != NAME_NODE, side->quota, &failure);
	if (code != 0 && code != BERTH_LIMIT_EXCEEDED) {
		log_line("error", "%s: %s", path, failure.message);
	}
}

static void observe_guard(struct side *side, size_t index)
{
	const struct name_place *place = &side->meaning.places[index];
	char *guard = memory_text(place->path, place->guard_len);
	observe(side, &side->places[index].guard, guard, NAME_NODE);
	free(guard);
}

static bool guard_stands(const struct side *side, size_t index)
{
	const struct name_place *place = &side->meaning.places[index];
	char *guard = memory_text(place->path, place->guard_len);
	bool stands = tree_find(side->places[index].guard.tree, guard, NULL);
	free(guard);
	return stands;
}

/* The observer that says whether the other one is needed. */
static const struct tree_observer *first_observer(const struct side *side, size_t index)
{
	return side->meaning.places[index].guard_len > 0 ? &side->places[index].guard
							 : &side->places[index].self;
}

static void observe_first(struct side *side, size_t index)
{
	const struct name_place *place = &side->meaning.places[index];
	if (place->guard_len > 0) {
		observe_guard(side, index);
	} else {
		observe(side, &side->places[index].self, place->path, place->shape);
	}
}

void side_init(struct side *side, struct trees *trees, struct tree_quota *quota, const char *name,
	const char *domain, const char *root, const struct tree_observer *observer)
{
	*side = (struct side){ .trees = trees, .quota = quota };
	name_read(&side->meaning, name, domain);
	name_meaning_below(&side->meaning, root);
	side->places = memory_zeroed(side->meaning.count, sizeof(*side->places));
	for (size_t i = 0; i < side->meaning.count; i++) {
		side->places[i].guard = *observer;
		side->places[i].self = *observer;
		list_init(&side->places[i].guard.link);
		list_init(&side->places[i].self.link);
		observe_first(side, i);
	}
}

void side_finish(struct side *side)
{
	for (size_t i = 0; i < side->meaning.count; i++) {
		tree_unobserve(&side->places[i].guard);
		tree_unobserve(&side->places[i].self);
	}
	free(side->places);
	name_meaning_finish(&side->meaning);
}

static bool is_refused(const struct tree_observer *observer)
{
	return !observer->tree || tree_is_refused(observer->tree);
}

bool side_is_full(const struct side *side)
{
	bool full = false;
	for (size_t i = 0; i < side->meaning.count && !full; i++) {
		const struct tree_observer *first = first_observer(side, i);
		const struct tree_observer *self = &side->places[i].self;
		full = is_refused(first) ||
			(first != self && tree_state(first->tree) != TREE_LOADING &&
				guard_stands(side, i) && is_refused(self));
	}
	return full;
}

bool side_concerns(const struct side *side, const char *path)
{
	for (size_t i = 0; i < side->meaning.count; i++) {
		const char *place = side->meaning.places[i].path;
		if (path_is_under(path, place) || path_is_under(place, path)) {
			return true;
		}
	}
	return false;
}

/* ---- reading ---- */

static void read_place(
	const struct name_place *place, const struct tree *tree, tree_visit *visit, void *context)
{
	char components[NAME_TEXT_BYTES];
	const struct member *own;
	if (tree_find(tree, place->path, &own) && own) {
		visit(context, place->path, own);
	}
	if (place->shape == NAME_CHILDREN) {
		tree_each(tree, place->path, true, visit, context);
	} else if (place->shape == NAME_INSTANCE &&
		path_join(components, sizeof(components), place->path, "components", NULL) == 0) {
		tree_each(tree, components, true, visit, context);
	}
}

/* Whether an observer's tree is loaded, for a decision that needs all of them. */
static bool is_loaded(const struct tree_observer *observer, bool *confirmed)
{
	if (!observer->tree || tree_state(observer->tree) == TREE_LOADING) {
		return false;
	}
	*confirmed = *confirmed && tree_state(observer->tree) == TREE_CONFIRMED;
	return true;
}

/* Whether a place is known; *ret_tree is NULL when its guard does not exist. */
static bool place_loaded(
	struct side *side, size_t index, const struct tree **ret_tree, bool *confirmed)
{
	const struct name_place *place = &side->meaning.places[index];
	*ret_tree = NULL;
	if (!first_observer(side, index)->tree) {
		observe_first(side, index);
	}
	if (place->guard_len > 0) {
		if (!is_loaded(&side->places[index].guard, confirmed)) {
			return false;
		}
		if (!guard_stands(side, index)) {
			return true;
		}
		if (!side->places[index].self.tree) {
			observe(side, &side->places[index].self, place->path, place->shape);
		}
	}
	*ret_tree = side->places[index].self.tree;
	return is_loaded(&side->places[index].self, confirmed);
}

bool side_read(struct side *side, bool *ret_confirmed, tree_visit *visit, void *context)
{
	const struct name_meaning *meaning = &side->meaning;
	const struct tree *trees[NAME_PLACES];
	bool loaded = true;
	bool found = false;
	*ret_confirmed = true;
	for (size_t i = 0; i < meaning->count; i++) {
		loaded = place_loaded(side, i, &trees[i], ret_confirmed) && loaded;
	}
	for (size_t i = 0; loaded && !found && i < meaning->count; i++) {
		found = trees[i] && tree_find(trees[i], meaning->places[i].path, NULL);
		if (found) {
			read_place(&meaning->places[i], trees[i], visit, context);
		}
	}
	return loaded;
}
