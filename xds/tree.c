#include "xds/tree.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/json_wide.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/share.h"
#include "lib/program/memory.h"

struct node {
	char *path;
	struct member *member; /* NULL: it holds no record */
};

struct tree {
	struct list link; /* of the trees */
	bool recursive;
	enum tree_state state;
	bool refused;
	struct trees *trees;
	struct tree_quota *quota; /* of who made it; or NULL */
	struct berth_watch *watch;
	struct node *nodes; /* sorted by path */
	size_t count;
	size_t room;
	struct list observers;
	char path[];
};

struct trees {
	struct berth *berth;
	struct list all;
	size_t count;
	size_t most;
	size_t refused;
};

#define TREE(item) LIST_ITEM(item, struct tree, link)
#define OBSERVER(item) LIST_ITEM(item, struct tree_observer, link)

/* ---- nodes ---- */

/* The index of the first node that is not before `path`. */
static size_t place_of(const struct tree *tree, const char *path)
{
	size_t from = 0;
	size_t to = tree->count;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (strcmp(tree->nodes[middle].path, path) < 0) {
			from = middle + 1;
		} else {
			to = middle;
		}
	}
	return from;
}

static bool is_at(const struct tree *tree, size_t place, const char *path)
{
	return place < tree->count && strcmp(tree->nodes[place].path, path) == 0;
}

static void make_room(struct tree *tree)
{
	if (tree->count == tree->room) {
		tree->room = tree->room ? tree->room + tree->room / 2 + 1 : 1;
		tree->nodes = memory_must(
			reallocarray(tree->nodes, tree->room, sizeof(*tree->nodes)));
	}
}

static void set_node(struct tree *tree, const char *path, struct member *member_take)
{
	size_t place = place_of(tree, path);
	if (!is_at(tree, place, path)) {
		make_room(tree);
		memmove(&tree->nodes[place + 1], &tree->nodes[place],
			(tree->count - place) * sizeof(*tree->nodes));
		tree->nodes[place] = (struct node){ .path = memory_text(path, strlen(path)) };
		tree->count++;
	}
	free(tree->nodes[place].member);
	tree->nodes[place].member = member_take;
}

static void free_node(struct node *node)
{
	free(node->path);
	free(node->member);
}

static void remove_node(struct tree *tree, const char *path)
{
	size_t place = place_of(tree, path);
	if (is_at(tree, place, path)) {
		free_node(&tree->nodes[place]);
		tree->count--;
		memmove(&tree->nodes[place], &tree->nodes[place + 1],
			(tree->count - place) * sizeof(*tree->nodes));
	}
}

static void remove_all(struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		free_node(&tree->nodes[i]);
	}
	tree->count = 0;
}

static int by_path(const void *a, const void *b)
{
	const struct node *left = a;
	const struct node *right = b;
	return strcmp(left->path, right->path);
}

static void replace_all(struct tree *tree, const char *snapshot)
{
	json_t *json = json_wide_loadb(snapshot, strlen(snapshot), 0, NULL);
	const char *path;
	json_t *record;
	remove_all(tree);
	json_object_foreach (json, path, record) {
		make_room(tree);
		tree->nodes[tree->count++] = (struct node){
			.path = memory_text(path, strlen(path)),
			.member = json_is_object(record) ? member_create(record) : NULL,
		};
	}
	if (tree->count > 0) {
		qsort(tree->nodes, tree->count, sizeof(*tree->nodes), by_path);
		/* There are many trees, and most change rarely. */
		tree->room = tree->count;
		tree->nodes = memory_must(
			reallocarray(tree->nodes, tree->room, sizeof(*tree->nodes)));
	}
	json_decref(json);
}

static struct member *read_member(const char *record)
{
	json_t *json = record ? json_wide_loadb(record, strlen(record), 0, NULL) : NULL;
	struct member *member = json ? member_create(json) : NULL;
	json_decref(json);
	return member;
}

/* ---- events ---- */

static void tell(struct tree *tree, const char *path)
{
	struct list *link = tree->observers.next;
	while (link != &tree->observers) {
		struct tree_observer *observer = OBSERVER(link);
		link = link->next;
		observer->on_change(observer->context, path);
	}
}

static void set_refused(struct tree *tree, bool refused)
{
	tree->trees->refused += refused;
	tree->trees->refused -= tree->refused;
	tree->refused = refused;
}

static void on_event(void *context, const struct berth_event *event)
{
	struct tree *tree = context;
	struct berth_failure failure;
	if (event->type == BERTH_EVENT_LOST) {
		set_refused(
			tree, berth_watch_trouble(tree->watch, &failure) == BERTH_LIMIT_EXCEEDED);
	} else if (event->type == BERTH_EVENT_SUBSCRIBED || event->type == BERTH_EVENT_RESYNC) {
		set_refused(tree, false);
	}
	switch (event->type) {
	case BERTH_EVENT_SUBSCRIBED:
	case BERTH_EVENT_RESYNC:
		replace_all(tree, event->snapshot ? event->snapshot : "{}");
		tree->state = TREE_CONFIRMED;
		break;
	case BERTH_EVENT_UPDATED:
		set_node(tree, event->path, read_member(event->record));
		break;
	case BERTH_EVENT_DELETED:
		remove_node(tree, event->path);
		break;
	case BERTH_EVENT_FRESH:
		tree->state = TREE_CONFIRMED;
		break;
	case BERTH_EVENT_STALE:
	case BERTH_EVENT_LOST:
		tree->state = tree->state == TREE_LOADING ? TREE_LOADING : TREE_DOUBTFUL;
		break;
	}
	tell(tree, event->path);
}

/* ---- trees ---- */

struct trees *trees_create(struct berth *berth, size_t most)
{
	struct trees *trees = memory_zeroed(1, sizeof(*trees));
	trees->berth = berth;
	trees->most = most;
	list_init(&trees->all);
	return trees;
}

void trees_destroy(struct trees *trees)
{
	free(trees);
}

size_t trees_count(const struct trees *trees)
{
	return trees->count;
}

static size_t granted(const struct trees *trees)
{
	size_t flowing = trees->count - trees->refused;
	return trees->refused > 0 && flowing < trees->most ? flowing : trees->most;
}

bool trees_are_full(const struct trees *trees)
{
	return trees->count >= granted(trees);
}

int trees_trouble(const struct trees *trees, struct berth_failure *ret_failure)
{
	int code = 0;
	for (const struct list *link = trees->all.next; code == 0 && link != &trees->all;
		link = link->next) {
		const struct tree *tree = LIST_ITEM(link, const struct tree, link);
		code = berth_watch_trouble(tree->watch, ret_failure);
	}
	return code;
}

static struct tree *find_tree(struct trees *trees, const char *path, bool recursive)
{
	for (struct list *link = trees->all.next; link != &trees->all; link = link->next) {
		struct tree *tree = TREE(link);
		if (tree->recursive ? path_is_under(path, tree->path)
				    : !recursive && strcmp(path, tree->path) == 0) {
			return tree;
		}
	}
	return NULL;
}

static void destroy_tree(struct tree *tree)
{
	berth_unwatch(tree->watch);
	set_refused(tree, false);
	tree->trees->count--;
	if (tree->quota) {
		tree->quota->streams--;
	}
	list_remove(&tree->link);
	remove_all(tree);
	free(tree->nodes);
	free(tree);
}

static bool may_create(const struct trees *trees, const struct tree_quota *quota)
{
	return !quota || share_allows(quota->streams, trees->count, granted(trees));
}

static struct tree *create_tree(struct trees *trees, const char *path, bool recursive,
	struct tree_quota *quota, struct berth_failure *failure)
{
	if (!may_create(trees, quota)) {
		*failure = (struct berth_failure){ .code = BERTH_LIMIT_EXCEEDED,
			.message = "no stream of the agent is left for this client" };
		return NULL;
	}
	struct tree *tree = memory_zeroed(1, sizeof(*tree) + strlen(path) + 1);
	strcpy(tree->path, path);
	tree->recursive = recursive;
	tree->trees = trees;
	tree->quota = quota;
	if (quota) {
		quota->streams++;
	}
	trees->count++;
	list_init(&tree->observers);
	list_append(&trees->all, &tree->link);
	if (berth_watch(trees->berth, path, recursive, on_event, tree, &tree->watch, failure)) {
		destroy_tree(tree);
		return NULL;
	}
	return tree;
}

int tree_observe(struct trees *trees, struct tree_observer *observer, const char *path,
	bool recursive, struct tree_quota *quota, struct berth_failure *failure)
{
	struct tree *tree = find_tree(trees, path, recursive);
	if (!tree) {
		tree = create_tree(trees, path, recursive, quota, failure);
	}
	observer->tree = tree;
	if (!tree) {
		return failure->code;
	}
	list_append(&tree->observers, &observer->link);
	return 0;
}

void tree_unobserve(struct tree_observer *observer)
{
	struct tree *tree = observer->tree;
	if (!tree) {
		return;
	}
	observer->tree = NULL;
	list_remove(&observer->link);
	if (list_empty(&tree->observers)) {
		destroy_tree(tree);
	}
}

enum tree_state tree_state(const struct tree *tree)
{
	return tree->state;
}

bool tree_is_refused(const struct tree *tree)
{
	return tree->refused;
}

bool tree_find(const struct tree *tree, const char *path, const struct member **ret_member)
{
	size_t place = place_of(tree, path);
	bool found = is_at(tree, place, path);
	if (ret_member) {
		*ret_member = found ? tree->nodes[place].member : NULL;
	}
	return found;
}

void tree_each(
	const struct tree *tree, const char *path, bool direct, tree_visit *visit, void *context)
{
	size_t len = strcmp(path, "/") == 0 ? 0 : strlen(path);
	char from[LIMIT_PATH_BYTES + 2];
	if (len + 2 > sizeof(from)) {
		return;
	}
	memcpy(from, path, len);
	memcpy(from + len, "/", 2);
	for (size_t i = place_of(tree, from); i < tree->count; i++) {
		const struct node *node = &tree->nodes[i];
		if (strncmp(node->path, from, len + 1) != 0) {
			break;
		}
		bool child = node->path[len + 1] && !strchr(node->path + len + 1, '/');
		if (node->member && (child || !direct)) {
			visit(context, node->path, node->member);
		}
	}
}
