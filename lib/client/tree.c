#include "lib/client/tree.h"

#include <stdlib.h>
#include <string.h>

#include "lib/record/record.h"

/* One watch of a node, and the round of reading in which it was last confirmed. */
struct part {
	struct registry_watch *watch;
	unsigned round;
};

struct node {
	struct client_tree *tree;
	char *path;
	struct part data;
	struct part children;
	json_t *record;     /* NULL: no node; null: a node without a record */
	struct node **kids; /* sorted by path */
	size_t kid_count;
};

struct client_tree {
	struct registry *registry;
	bool recursive;
	client_emit_take *emit;
	void *context;
	struct node *root;
	bool subscribed;
	bool stale;
	unsigned round;     /* grows with each reconnect: everything is read again in each */
	size_t unconfirmed; /* watches that have not reported in this round */
	size_t read;        /* so many have reported */
};

static struct node *node_create(struct client_tree *tree, const char *path);

/* ---- events ---- */

static void emit_state(struct client_tree *tree, const char *type)
{
	tree->emit(tree->context, json_pack("{s:s}", "type", type));
}

static void emit_node(const struct node *node)
{
	struct client_tree *tree = node->tree;
	if (!tree->subscribed) {
		return;
	}
	tree->emit(tree->context,
		node->record ? json_pack("{s:s, s:s, s:O}", "type", "UPDATED", "path", node->path,
				       "record", node->record)
			     : json_pack("{s:s, s:s}", "type", "DELETED", "path", node->path));
}

/* False without memory. */
static bool add_to_snapshot(json_t *snapshot, const struct node *node)
{
	bool good = !node->record || json_object_set(snapshot, node->path, node->record) == 0;
	for (size_t i = 0; good && i < node->kid_count; i++) {
		good = add_to_snapshot(snapshot, node->kids[i]);
	}
	return good;
}

/* Without memory its state was not taken: it is read again. */
static void doubt(struct client_tree *tree, struct part *part)
{
	if (part->round == tree->round) {
		part->round--;
		tree->unconfirmed++;
	}
	registry_watch_refresh(part->watch);
}

/* NULL without memory. */
static json_t *make_snapshot(const struct client_tree *tree)
{
	json_t *snapshot = json_object();
	if (snapshot && !add_to_snapshot(snapshot, tree->root)) {
		json_decref(snapshot);
		return NULL;
	}
	return snapshot ? json_pack("{s:s, s:o}", "type", "SUBSCRIBED", "snapshot", snapshot)
			: NULL;
}

/* Everything has been read in this round: the known state is true. */
static void round_complete(struct client_tree *tree)
{
	if (!tree->subscribed) {
		json_t *event = make_snapshot(tree);
		if (!event) {
			doubt(tree, &tree->root->data);
			return;
		}
		tree->subscribed = true;
		tree->emit(tree->context, event);
	} else if (tree->stale) {
		tree->stale = false;
		emit_state(tree, "FRESH");
	}
}

static void confirm(struct client_tree *tree, struct part *part)
{
	if (part->round != tree->round) {
		part->round = tree->round;
		tree->unconfirmed--;
		tree->read++;
	}
}

/* ---- nodes ---- */

static void node_free(struct node *node)
{
	struct client_tree *tree = node->tree;
	for (size_t i = 0; i < node->kid_count; i++) {
		node_free(node->kids[i]);
	}
	confirm(tree, &node->data);
	if (tree->recursive) {
		confirm(tree, &node->children);
	}
	registry_unwatch(node->data.watch);
	registry_unwatch(node->children.watch);
	json_decref(node->record);
	free(node->kids);
	free(node->path);
	free(node);
}

/* The node is no longer in its parent's list: it and all below it are gone. */
static void node_vanished(struct node *node)
{
	for (size_t i = 0; i < node->kid_count; i++) {
		node_vanished(node->kids[i]);
	}
	node->kid_count = 0;
	if (node->record) {
		json_decref(node->record);
		node->record = NULL;
		emit_node(node);
	}
	node_free(node);
}

/*
 * Takes over the new list, creating and dropping nodes; both lists are sorted. False without
 * memory.
 */
static bool follow_children(struct node *node, char *const *paths, size_t count)
{
	struct node **kids = calloc(count ? count : 1, sizeof(*kids));
	size_t old = 0;
	size_t made = 0;
	if (!kids) {
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		int order = 1;
		while (old < node->kid_count &&
			(order = strcmp(node->kids[old]->path, paths[i])) < 0) {
			node_vanished(node->kids[old++]);
		}
		bool known = old < node->kid_count && order == 0;
		kids[made] = known ? node->kids[old++] : node_create(node->tree, paths[i]);
		made += kids[made] != NULL;
	}
	while (old < node->kid_count) {
		node_vanished(node->kids[old++]);
	}
	free(node->kids);
	node->kids = kids;
	node->kid_count = made;
	return made == count;
}

/*
 * The record in the data; null for anything else, and NULL for a node that does not exist. False
 * without memory.
 */
static bool read_value(json_t **ret_record, const struct registry_result *result)
{
	struct err err = ERR_INIT;
	struct record *record = NULL;
	*ret_record = NULL;
	if (result->err.code == BERTH_PATH_NOT_FOUND) {
		return true;
	}
	int code = result->data ? record_decode(&record, result->data, result->data_len, &err)
				: BERTH_NO_RECORD;
	if (code != BERTH_FAILED) {
		*ret_record = code ? json_null() : json_deep_copy(record_json(record));
	}
	record_free(record);
	return *ret_record != NULL;
}

/* A read that failed gives no state: the registry makes it again. */
static bool has_failed(const struct registry_result *result)
{
	int code = result->err.code;
	return code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_TIMEOUT || code == BERTH_FAILED;
}

static void on_data(void *context, const struct registry_result *result)
{
	struct node *node = context;
	struct client_tree *tree = node->tree;
	if (has_failed(result)) {
		return;
	}
	json_t *record;
	if (!read_value(&record, result)) {
		doubt(tree, &node->data);
		return;
	}
	/* A picture never has a record below a path that has gone. */
	if (!record && node->record && !follow_children(node, NULL, 0)) {
		doubt(tree, &node->data);
		return;
	}
	bool same = (!record && !node->record) ||
		(record && node->record && json_equal(record, node->record));
	json_decref(node->record);
	node->record = record;
	if (!same) {
		emit_node(node);
	}
	confirm(tree, &node->data);
	if (tree->unconfirmed == 0) {
		round_complete(tree);
	}
}

static void on_children(void *context, const struct registry_result *result)
{
	struct node *node = context;
	struct client_tree *tree = node->tree;
	if (has_failed(result)) {
		return;
	}
	if (!follow_children(
		    node, result->children, result->err.code ? 0 : result->children_count)) {
		doubt(tree, &node->children);
		return;
	}
	confirm(tree, &node->children);
	if (tree->unconfirmed == 0) {
		round_complete(tree);
	}
}

static struct node *node_create(struct client_tree *tree, const char *path)
{
	struct node *node = calloc(1, sizeof(*node));
	if (!node) {
		return NULL;
	}
	node->tree = tree;
	node->data.round = tree->round - 1;
	node->children.round = tree->round - 1;
	tree->unconfirmed += tree->recursive ? 2 : 1;
	node->path = strdup(path);
	bool good = node->path != NULL;
	if (good) {
		node->data.watch = registry_watch(
			tree->registry, path, REGISTRY_WATCH_DATA, on_data, node);
		good = node->data.watch != NULL;
	}
	if (good && tree->recursive) {
		node->children.watch = registry_watch(
			tree->registry, path, REGISTRY_WATCH_CHILDREN, on_children, node);
		good = node->children.watch != NULL;
	}
	if (!good) {
		node_free(node);
		return NULL;
	}
	return node;
}

/* ---- the tree ---- */

int client_tree_create(struct client_tree **ret_tree, struct registry *registry, const char *path,
	bool recursive, client_emit_take *emit, void *context, struct err *err)
{
	struct client_tree *tree = calloc(1, sizeof(*tree));
	if (!tree) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	tree->registry = registry;
	tree->recursive = recursive;
	tree->emit = emit;
	tree->context = context;
	tree->round = 1;
	tree->root = node_create(tree, path);
	if (!tree->root) {
		free(tree);
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	*ret_tree = tree;
	return 0;
}

void client_tree_free(struct client_tree *tree)
{
	if (!tree) {
		return;
	}
	node_free(tree->root);
	free(tree);
}

static size_t count_watches(const struct node *node)
{
	size_t count = node->tree->recursive ? 2 : 1;
	for (size_t i = 0; i < node->kid_count; i++) {
		count += count_watches(node->kids[i]);
	}
	return count;
}

void client_tree_state(struct client_tree *tree, enum registry_state state)
{
	if (!tree->subscribed) {
		return;
	}
	if (state == REGISTRY_CONNECTED && tree->stale) {
		tree->round++;
		tree->unconfirmed = count_watches(tree->root);
	} else if (state != REGISTRY_CONNECTED && !tree->stale) {
		tree->stale = true;
		emit_state(tree, "STALE");
	}
}

int client_tree_trouble(const struct client_tree *tree, struct err *err)
{
	return tree->subscribed ? 0
				: err_set(err, BERTH_TIMEOUT,
					  "it is loaded: %zu nodes and lists so far", tree->read);
}
