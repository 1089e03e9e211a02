#include "agent/bridge/parents.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/by_text.h"
#include "agent/base/timer.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"

enum { AGAIN_MS = 1000, MOST_REQUESTS = 64 };

struct parent {
	char *path;
	struct list link; /* account->parents */
	struct list due;  /* parents->due; or on no list */
	struct bridge_parents *parents;
	struct bridge_account *account;
	uint64_t node_id;
	struct registry_request *request;
	bool again; /* something below it has gone since it was asked */
};

struct bridge_parents {
	struct registry *registry;
	struct bridge_book *book;
	struct bridge_accounts *accounts;
	void *by_path; /* by_text.h */
	struct list due;
	size_t requests;
	struct timer again;
	void (*on_change)(void *context);
	void *context;
};

static struct parent *find(const struct bridge_parents *parents, const char *path)
{
	return by_text_find(&parents->by_path, path);
}

static struct parent *add(
	struct bridge_parents *parents, const char *container, const char *path, uint64_t node_id)
{
	struct parent *parent = allocate_zeroed(1, sizeof(*parent));
	parent->parents = parents;
	parent->account = bridge_accounts_refer(parents->accounts, container);
	parent->path = allocate_text(path);
	parent->node_id = node_id;
	list_init(&parent->due);
	list_append(&parent->account->parents, &parent->link);
	by_text_add(&parents->by_path, parent);
	return parent;
}

static void free_parent(struct parent *parent)
{
	struct bridge_parents *parents = parent->parents;
	if (parent->request) {
		parents->requests--;
		registry_cancel(parents->registry, parent->request);
	}
	by_text_remove(&parents->by_path, parent);
	list_remove(&parent->link);
	list_remove(&parent->due);
	bridge_accounts_release(parents->accounts, parent->account);
	free(parent->path);
	free(parent);
}

/* ---- removing ---- */

static void ask_next(struct bridge_parents *parents);

static void forget(struct parent *parent)
{
	struct bridge_parents *parents = parent->parents;
	char path[LIMIT_PATH_BYTES + 1];
	strcpy(path, parent->path);
	free_parent(parent);
	bridge_book_change_later(parents->book);
	bridge_parents_left(parents, path);
}

/* An answer has come: it is asked again, or another one is. */
static void settle(struct parent *parent, bool asks_again)
{
	struct bridge_parents *parents = parent->parents;
	if (asks_again || parent->again) {
		list_append(&parents->due, &parent->due);
	}
	ask_next(parents);
	parents->on_change(parents->context);
}

static bool is_away(const struct err *err)
{
	return err->code == BERTH_REGISTRY_UNAVAILABLE || err->code == BERTH_TIMEOUT;
}

static struct parent *answered(void *context, const struct registry_result *result)
{
	struct parent *parent = context;
	parent->request = NULL;
	parent->parents->requests--;
	if (is_away(&result->err) && !timer_runs(&parent->parents->again)) {
		timer_start(&parent->parents->again, AGAIN_MS);
	}
	return parent;
}

static void on_deleted(void *context, const struct registry_result *result)
{
	struct parent *parent = answered(context, result);
	struct bridge_parents *parents = parent->parents;
	if (result->err.code == 0) {
		forget(parent);
		ask_next(parents);
		parents->on_change(parents->context);
	} else {
		settle(parent, is_away(&result->err));
	}
}

/* It is as we made it, and nothing is below it. */
static bool is_spent(const struct parent *parent, const struct registry_stat *stat)
{
	return stat->children == 0 && stat->foreign == 0 && stat->size == 0 &&
		stat->node_id == parent->node_id;
}

static void on_stat(void *context, const struct registry_result *result)
{
	struct parent *parent = answered(context, result);
	struct bridge_parents *parents = parent->parents;
	bool there = result->err.code == 0 && result->stat.node_id == parent->node_id;
	if (there && is_spent(parent, &result->stat)) {
		parents->requests++;
		parent->request = allocated(registry_delete(parents->registry, parent->path,
			REGISTRY_DELETE_NODE, &result->stat, NULL, on_deleted, parent));
	} else if (there || (result->err.code && result->err.code != BERTH_PATH_NOT_FOUND)) {
		settle(parent, is_away(&result->err));
	} else { /* it has gone, or is another one */
		forget(parent);
		ask_next(parents);
		parents->on_change(parents->context);
	}
}

static void ask_next(struct bridge_parents *parents)
{
	while (!list_empty(&parents->due) && parents->requests < MOST_REQUESTS &&
		!timer_runs(&parents->again) &&
		registry_state(parents->registry) == REGISTRY_CONNECTED) {
		struct parent *parent = LIST_ITEM(parents->due.next, struct parent, due);
		list_remove(&parent->due);
		parent->again = false;
		parents->requests++;
		parent->request = allocated(
			registry_stat(parents->registry, parent->path, on_stat, parent));
	}
}

static void on_again(void *context)
{
	ask_next(context);
}

void bridge_parents_left(struct bridge_parents *parents, const char *path)
{
	char above[LIMIT_PATH_BYTES + 1];
	size_t len = path_parent_len(path);
	memcpy(above, path, len);
	above[len] = '\0';
	struct parent *parent = find(parents, above);
	if (!parent) {
		return;
	}
	parent->again = true;
	if (!parent->request && list_empty(&parent->due)) {
		list_append(&parents->due, &parent->due);
	}
	ask_next(parents);
}

void bridge_parents_proceed(struct bridge_parents *parents)
{
	ask_next(parents);
}

/* ---- life ---- */

struct bridge_parents *bridge_parents_create(struct ev_loop *loop, struct registry *registry,
	struct bridge_book *book, const json_t *left, struct bridge_accounts *accounts,
	void (*on_change)(void *context), void *context)
{
	struct bridge_parents *parents = allocate_zeroed(1, sizeof(*parents));
	const char *path;
	json_t *made;
	parents->registry = registry;
	parents->book = book;
	parents->accounts = accounts;
	parents->on_change = on_change;
	parents->context = context;
	list_init(&parents->due);
	timer_init(&parents->again, loop, "parents of records", on_again, parents);
	json_object_foreach ((json_t *)(uintptr_t)left, path, made) {
		const char *container;
		json_int_t node_id;
		if (json_unpack(made, "[s, I]", &container, &node_id) == 0) {
			struct parent *parent = add(parents, container, path, (uint64_t)node_id);
			list_append(&parents->due, &parent->due);
		}
	}
	return parents;
}

void bridge_parents_destroy(struct bridge_parents *parents)
{
	if (!parents) {
		return;
	}
	while (parents->by_path) {
		free_parent(by_text_any(&parents->by_path));
	}
	timer_stop(&parents->again);
	free(parents);
}

void bridge_parents_made(
	struct bridge_parents *parents, const char *container, const char *path, uint64_t node_id)
{
	struct parent *parent = find(parents, path);
	if (strcmp(path, "/") == 0) {
		return; /* the registry's root stays */
	}
	if (parent) {
		parent->node_id = node_id;
	} else {
		(void)add(parents, container, path, node_id);
	}
	bridge_book_change_later(parents->book);
}

void bridge_parents_add(const struct bridge_account *account, json_t *paths)
{
	for (const struct list *at = account->parents.next; at != &account->parents;
		at = at->next) {
		json_object_set_new(
			paths, LIST_ITEM(at, struct parent, link)->path, allocated(json_true()));
	}
}

void bridge_parents_describe(const struct bridge_account *account, json_t *document)
{
	for (const struct list *at = account->parents.next; at != &account->parents;
		at = at->next) {
		const struct parent *parent = LIST_ITEM(at, struct parent, link);
		json_object_set_new(document, parent->path,
			allocated(json_pack(
				"[s, I]", account->container, (json_int_t)parent->node_id)));
	}
}

bool bridge_parents_are_due(const struct bridge_account *account)
{
	for (const struct list *at = account->parents.next; at != &account->parents;
		at = at->next) {
		const struct parent *parent = LIST_ITEM(at, struct parent, link);
		if (parent->request || !list_empty(&parent->due)) {
			return true;
		}
	}
	return false;
}
