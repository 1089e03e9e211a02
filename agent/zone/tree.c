#include "agent/zone/tree.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/hash.h"
#include "lib/base/path.h"

#define BUCKETS 1024
#define LABEL_MAX 63

struct zone_tree {
	struct registry *registry;
	char *domain;
	char *path; /* of the domain's node: //com/example */
	void (*on_settled)(void *context);
	void *context;
	struct zone_node *root;
	size_t count;
	size_t max_nodes;
	size_t unread; /* data and lists that have not come yet */
	bool partial;
	struct list addresses[BUCKETS]; /* of hosts; the one that came last is first */
};

/* ---- addresses ---- */

static struct list *bucket_of(struct zone_tree *tree, const uint8_t address[4])
{
	return &tree->addresses[hash_bytes(HASH_INIT, address, 4) % BUCKETS];
}

static void note_address(struct zone_node *node)
{
	const struct zone_facts *facts = &node->facts;
	bool leads_back = facts->kind == ZONE_HOST || facts->kind == ZONE_INSTANCE;
	list_remove(&node->of_address);
	if (leads_back && facts->has_address) {
		struct list *bucket = bucket_of(node->tree, facts->address);
		list_append(bucket->next, &node->of_address);
	}
}

const struct zone_node *zone_tree_of_address(const struct zone_tree *tree, const uint8_t address[4])
{
	const struct list *bucket = &tree->addresses[hash_bytes(HASH_INIT, address, 4) % BUCKETS];
	for (const struct list *at = bucket->next; at != bucket; at = at->next) {
		const struct zone_node *node = LIST_ITEM(at, struct zone_node, of_address);
		if (memcmp(node->facts.address, address, 4) == 0) {
			return node;
		}
	}
	return NULL;
}

/* ---- nodes ---- */

static void on_data(void *context, const struct registry_result *result);
static void on_list(void *context, const struct registry_result *result);

/* For free(). */
static char *path_of(const struct zone_node *node)
{
	size_t len = strlen(node->tree->path);
	for (const struct zone_node *at = node; at->parent; at = at->parent) {
		len += 1 + strlen(at->name);
	}
	char *path = allocate_zeroed(len + 1, 1);
	for (const struct zone_node *at = node; at->parent; at = at->parent) {
		size_t name_len = strlen(at->name);
		len -= name_len;
		memcpy(path + len, at->name, name_len);
		path[--len] = '/';
	}
	memcpy(path, node->tree->path, len);
	return path;
}

static struct zone_node *add_node(
	struct zone_tree *tree, struct zone_node *parent, const char *name)
{
	struct zone_node *node = allocate_zeroed(1, sizeof(*node));
	node->tree = tree;
	node->parent = parent;
	node->name = allocate_text(name);
	node->name_len = parent ? parent->name_len + 1 + strlen(name) : strlen(tree->domain);
	list_init(&node->of_address);
	tree->count++;
	tree->unread++;
	return node;
}

static void watch_data(struct zone_node *node)
{
	char *path = path_of(node);
	node->data_watch = allocated(
		registry_watch(node->tree->registry, path, REGISTRY_WATCH_DATA, on_data, node));
	free(path);
}

static void watch_list(struct zone_node *node)
{
	char *path = path_of(node);
	node->tree->unread++;
	node->list_watch = allocated(
		registry_watch(node->tree->registry, path, REGISTRY_WATCH_CHILDREN, on_list, node));
	free(path);
}

static void remove_node(struct zone_node *node)
{
	struct zone_tree *tree = node->tree;
	for (size_t i = 0; i < node->child_count; i++) {
		remove_node(node->children[i]);
	}
	tree->unread -= node->data_known == ZONE_UNREAD;
	tree->unread -= node->list_watch && node->list_known == ZONE_UNREAD;
	tree->count--;
	registry_unwatch(node->data_watch);
	registry_unwatch(node->list_watch);
	list_remove(&node->of_address);
	zone_facts_finish(&node->facts);
	free(node->children);
	free(node->name);
	free(node);
}

/* ---- what the registry says ---- */

/* Call it last: the owner may ask what the tree knows now. */
static void settle(struct zone_tree *tree, size_t unread_before)
{
	if (unread_before > 0 && tree->unread == 0) {
		tree->on_settled(tree->context);
	}
}

static bool gave_nothing(const struct registry_result *result)
{
	return result->err.code == BERTH_REGISTRY_UNAVAILABLE || result->err.code == BERTH_TIMEOUT;
}

/* The meaning of a result for its node, which stays as it was while the registry is away. */
static enum zone_known known_by(const struct registry_result *result, enum zone_known before)
{
	switch (result->err.code) {
	case 0:
		return ZONE_THERE;
	case BERTH_PATH_NOT_FOUND:
		return ZONE_ABSENT;
	default:
		return gave_nothing(result) ? before : ZONE_UNREADABLE;
	}
}

static void on_data(void *context, const struct registry_result *result)
{
	struct zone_node *node = context;
	struct zone_tree *tree = node->tree;
	size_t unread_before = tree->unread;
	enum zone_known known = known_by(result, node->data_known);
	bool is_news = known != node->data_known || (!result->err.code && result->changed);
	node->data_late = gave_nothing(result);
	if (!is_news) {
		return;
	}
	tree->unread -= node->data_known == ZONE_UNREAD;
	node->data_known = known;
	zone_facts_finish(&node->facts);
	if (known == ZONE_THERE && result->data) {
		zone_facts_read(&node->facts, result->data, result->data_len);
	}
	note_address(node);
	if (known == ZONE_THERE && !result->stat.ephemeral && !node->list_watch) {
		watch_list(node);
	}
	settle(tree, unread_before);
}

/* A label of a host name, or one with underscores, as Binder looks it up. */
static bool is_label(const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)name[i]) && !strchr("_-", name[i])) {
			return false;
		}
	}
	return len > 0 && len <= LABEL_MAX;
}

static bool has_capitals(const char *name)
{
	while (*name && !isupper((unsigned char)*name)) {
		name++;
	}
	return *name != '\0';
}

static bool may_add(struct zone_node *parent, const char *name)
{
	struct zone_tree *tree = parent->tree;
	bool fits = is_label(name) && parent->name_len + 1 + strlen(name) < ZONE_NAME_BYTES - 2;
	if (fits && tree->count >= tree->max_nodes) {
		if (!tree->partial) {
			log_warn("zone",
				"%s has more than %zu nodes: names beyond these cannot be answered",
				tree->domain, tree->max_nodes);
		}
		tree->partial = true;
		return false;
	}
	return fits;
}

/*
 * Makes the children those of the list. Both are sorted; who stays keeps its node. New nodes are
 * watched once the list is whole.
 */
static void replace_children(struct zone_node *node, char *const *paths, size_t count)
{
	struct zone_node **before = node->children;
	size_t before_count = node->child_count;
	size_t at = 0;
	node->children = allocate_zeroed(count, sizeof(*node->children));
	node->child_count = 0;
	for (size_t i = 0; i < count; i++) {
		const char *name = path_name(paths[i]);
		while (at < before_count && strcmp(before[at]->name, name) < 0) {
			remove_node(before[at++]);
		}
		if (at < before_count && strcmp(before[at]->name, name) == 0) {
			node->children[node->child_count++] = before[at++];
		} else if (may_add(node, name)) {
			node->children[node->child_count++] = add_node(node->tree, node, name);
		}
	}
	while (at < before_count) {
		remove_node(before[at++]);
	}
	free(before);
	node->has_capitals = false;
	for (size_t i = 0; i < node->child_count; i++) {
		node->has_capitals |= has_capitals(node->children[i]->name);
		if (!node->children[i]->data_watch) {
			watch_data(node->children[i]);
		}
	}
}

static void on_list(void *context, const struct registry_result *result)
{
	struct zone_node *node = context;
	struct zone_tree *tree = node->tree;
	size_t unread_before = tree->unread;
	enum zone_known known = known_by(result, node->list_known);
	bool is_news = known != node->list_known || (!result->err.code && result->changed);
	node->list_late = gave_nothing(result);
	if (!is_news) {
		return;
	}
	tree->unread -= node->list_known == ZONE_UNREAD;
	node->list_known = known;
	if (known == ZONE_THERE) {
		replace_children(node, result->children, result->children_count);
	} else if (known == ZONE_ABSENT) {
		replace_children(node, NULL, 0);
	}
	settle(tree, unread_before);
}

/* ---- the tree ---- */

/* //com/example of example.com, for free(). */
static char *path_of_domain(const char *domain)
{
	size_t left = strlen(domain);
	char *path = allocate_zeroed(left + 3, 1);
	char *out = path;
	*out++ = '/';
	while (left > 0) {
		const char *dot = memrchr(domain, '.', left);
		const char *label = dot ? dot + 1 : domain;
		size_t len = left - (size_t)(label - domain);
		*out++ = '/';
		memcpy(out, label, len);
		out += len;
		left = dot ? (size_t)(dot - domain) : 0;
	}
	return path;
}

struct zone_tree *zone_tree_create(struct registry *registry, const char *domain, size_t max_nodes,
	void (*on_settled)(void *context), void *context)
{
	struct zone_tree *tree = allocate_zeroed(1, sizeof(*tree));
	tree->registry = registry;
	tree->domain = allocate_text(domain);
	tree->path = path_of_domain(domain);
	tree->max_nodes = max_nodes;
	tree->on_settled = on_settled;
	tree->context = context;
	for (size_t i = 0; i < BUCKETS; i++) {
		list_init(&tree->addresses[i]);
	}
	tree->root = add_node(tree, NULL, domain);
	watch_data(tree->root);
	return tree;
}

void zone_tree_destroy(struct zone_tree *tree)
{
	if (tree) {
		remove_node(tree->root);
		free(tree->path);
		free(tree->domain);
		free(tree);
	}
}

const char *zone_tree_domain(const struct zone_tree *tree)
{
	return tree->domain;
}

bool zone_tree_settled(const struct zone_tree *tree)
{
	return tree->unread == 0;
}

bool zone_tree_partial(const struct zone_tree *tree)
{
	return tree->partial;
}

size_t zone_tree_count(const struct zone_tree *tree)
{
	return tree->count;
}

const struct zone_node *zone_tree_root(const struct zone_tree *tree)
{
	return tree->root;
}

const struct zone_node *zone_node_child(const struct zone_node *node, const char *label, size_t len)
{
	size_t low = 0;
	size_t high = node->child_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct zone_node *child = node->children[middle];
		int order = strncmp(child->name, label, len);
		if (order == 0 && child->name[len] == '\0') {
			return child;
		}
		if (order < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	for (size_t i = 0; i < node->child_count && node->has_capitals; i++) {
		const struct zone_node *child = node->children[i];
		if (strncasecmp(child->name, label, len) == 0 && child->name[len] == '\0') {
			return child;
		}
	}
	return NULL;
}

void zone_node_name(const struct zone_node *node, char out[ZONE_NAME_BYTES])
{
	size_t len = 0;
	for (const struct zone_node *at = node; at; at = at->parent) {
		for (const char *name = at->name; *name; name++) {
			out[len++] = (char)tolower((unsigned char)*name);
		}
		out[len++] = '.';
	}
	out[len - 1] = '\0';
}

static bool holds(struct registry_watch *watch)
{
	if (!watch || registry_watch_holds(watch)) {
		return true;
	}
	registry_watch_hurry(watch);
	return false;
}

bool zone_node_holds(const struct zone_node *node, bool children)
{
	bool data_holds = holds(node->data_watch) && !node->data_late;
	return (!children || (holds(node->list_watch) && !node->list_late)) && data_holds;
}
