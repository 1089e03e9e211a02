#include "tests/sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/list.h"
#include "lib/base/path.h"
#include "tests/sim/sim.h"

struct value {
	int64_t since_ms;
	char *text; /* NULL: no node */
	int owner;
};

struct history {
	char *path;
	size_t len;
	enum world_aspect aspect;
	struct value *values;
	size_t count;
};

struct watch {
	struct list link;
	const struct world_client *client;
	enum registry_watch_kind kind;
	char *path;
	size_t len;
};

struct session {
	uint64_t id;
	int agent;
};

struct world {
	struct world_node **nodes; /* sorted by path */
	size_t count;
	unsigned sequence; /* of names that end in digits */
	struct session *sessions;
	size_t session_count;
	struct history *histories;
	size_t history_count;
	struct list watches;
	uint64_t last_id;
	uint64_t changes;
};

static void *grow(void *array, size_t count, size_t size)
{
	bool is_full = (count & (count - 1)) == 0; /* at powers of two */
	return is_full ? realloc(array, (count ? 2 * count : 1) * size) : array;
}

/* Most paths have the same beginning. */
static bool is_path(const char *a, size_t a_len, const char *b, size_t b_len)
{
	return a_len == b_len && a[a_len - 1] == b[b_len - 1] && memcmp(a, b, a_len) == 0;
}

/* ---- nodes ---- */

static size_t place_of(const struct world *world, const char *path)
{
	size_t low = 0;
	size_t high = world->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(world->nodes[middle]->path, path) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static struct world_node *find(const struct world *world, const char *path)
{
	size_t place = place_of(world, path);
	bool found = place < world->count && strcmp(world->nodes[place]->path, path) == 0;
	return found ? world->nodes[place] : NULL;
}

/*
 * The length of the parent's path; 0: a root has none. Paths of other naming schemes begin with two
 * slashes and lie below a root of their own.
 */
static size_t parent_len(const char *path)
{
	if (strncmp(path, "//", 2) != 0) {
		return path_parent_len(path);
	}
	size_t len = (size_t)(path_name(path) - path);
	return path[2] == '\0' ? 0 : len > 2 ? len - 1 : len;
}

static bool is_child(const char *path, const char *parent)
{
	size_t len = parent_len(path);
	return len > 0 && strlen(parent) == len && strncmp(path, parent, len) == 0;
}

static struct world_node *parent_of(const struct world *world, const char *path)
{
	char parent[1024];
	snprintf(parent, sizeof(parent), "%.*s", (int)parent_len(path), path);
	return find(world, parent);
}

/* ---- history ---- */

static struct history *history_of(
	const struct world *world, const char *path, enum world_aspect aspect)
{
	size_t len = strlen(path);
	for (size_t i = 0; i < world->history_count; i++) {
		struct history *history = &world->histories[i];
		if (history->aspect == aspect && is_path(history->path, history->len, path, len)) {
			return history;
		}
	}
	return NULL;
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static char *children_text(const struct world *world, const char *path)
{
	size_t used = 0;
	char *text = calloc(1, 64 * (world->count + 1));
	for (size_t i = 0; i < world->count; i++) {
		if (is_child(world->nodes[i]->path, path)) {
			used += (size_t)sprintf(
				text + used, "%s\n", path_name(world->nodes[i]->path));
		}
	}
	return text;
}

static void remember(struct world *world, const char *path, enum world_aspect aspect)
{
	const struct world_node *node = find(world, path);
	struct history *history = history_of(world, path, aspect);
	world->changes++;
	if (!history) {
		world->histories = grow(
			world->histories, world->history_count, sizeof(*world->histories));
		history = &world->histories[world->history_count++];
		*history = (struct history){ strdup(path), strlen(path), aspect, NULL, 0 };
	}
	history->values = grow(history->values, history->count, sizeof(*history->values));
	history->values[history->count++] = (struct value){ sim_now_ms(),
		!node                          ? NULL
			: aspect == WORLD_DATA ? strdup(node->data)
					       : children_text(world, path),
		node ? node->owner : WORLD_STRANGER };
}

static void remember_change(struct world *world, const char *path)
{
	char parent[1024];
	snprintf(parent, sizeof(parent), "%.*s", (int)parent_len(path), path);
	remember(world, path, WORLD_DATA);
	remember(world, path, WORLD_CHILDREN);
	if (*parent) {
		remember(world, parent, WORLD_CHILDREN);
	}
}

int64_t world_last_true_ms(
	const struct world *world, const char *path, enum world_aspect aspect, const char *value)
{
	const struct history *history = history_of(world, path, aspect);
	if (!history) {
		return value ? INT64_MIN : sim_now_ms();
	}
	int64_t until_ms = sim_now_ms();
	for (size_t i = history->count; i-- > 0;) {
		if (same(history->values[i].text, value)) {
			return until_ms;
		}
		until_ms = history->values[i].since_ms;
	}
	return value ? INT64_MIN : until_ms;
}

/* Records are compared as they are stored, which is without blanks. */
int64_t world_last_record_ms(const struct world *world, const char *path, const json_t *record)
{
	if (!record) {
		return world_last_true_ms(world, path, WORLD_DATA, NULL);
	}
	if (json_is_null(record)) {
		int64_t empty_ms = world_last_true_ms(world, path, WORLD_DATA, "");
		int64_t garbage_ms = world_last_true_ms(world, path, WORLD_DATA, SIM_GARBAGE);
		return empty_ms > garbage_ms ? empty_ms : garbage_ms;
	}
	char *text = json_dumps(record, JSON_COMPACT);
	int64_t at_ms = world_last_true_ms(world, path, WORLD_DATA, text);
	free(text);
	return at_ms;
}

int64_t world_next_true_ms(const struct world *world, const char *path, enum world_aspect aspect,
	const char *value, int64_t from_ms)
{
	const struct history *history = history_of(world, path, aspect);
	int64_t until_ms = sim_now_ms();
	int64_t found_ms = INT64_MAX;
	for (size_t i = history ? history->count : 0; i-- > 0 && until_ms >= from_ms;) {
		if (same(history->values[i].text, value)) {
			found_ms = history->values[i].since_ms;
		}
		until_ms = history->values[i].since_ms;
	}
	if (!value && until_ms >= from_ms) {
		return from_ms; /* there was no node yet */
	}
	return found_ms < from_ms ? from_ms : found_ms;
}

int64_t world_next_record_ms(
	const struct world *world, const char *path, const json_t *record, int64_t from_ms)
{
	char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
	int64_t at_ms = world_next_true_ms(world, path, WORLD_DATA, text, from_ms);
	free(text);
	return at_ms;
}

int64_t world_last_held_ms(
	const struct world *world, const char *path, const char *text, bool holds)
{
	const struct history *history = history_of(world, path, WORLD_DATA);
	int64_t until_ms = sim_now_ms();
	for (size_t i = history ? history->count : 0; i-- > 0;) {
		const char *data = history->values[i].text;
		if ((data && strstr(data, text)) == holds) {
			return until_ms;
		}
		until_ms = history->values[i].since_ms;
	}
	return holds ? INT64_MIN : until_ms; /* there was no node yet */
}

int64_t world_changed_ms(const struct world *world, const char *path, enum world_aspect aspect)
{
	const struct history *history = history_of(world, path, aspect);
	return history ? history->values[history->count - 1].since_ms : INT64_MIN;
}

int64_t world_last_owned_ms(const struct world *world, const char *path, int agent)
{
	const struct history *history = history_of(world, path, WORLD_DATA);
	int64_t until_ms = sim_now_ms();
	for (size_t i = history ? history->count : 0; i-- > 0;) {
		if (history->values[i].text && history->values[i].owner == agent) {
			return until_ms;
		}
		until_ms = history->values[i].since_ms;
	}
	return INT64_MIN;
}

/* ---- watches ---- */

static void fire(struct world *world, const char *path, enum registry_watch_kind kind, bool gone)
{
	size_t len = strlen(path);
	for (struct list *at = world->watches.next, *next; at != &world->watches; at = next) {
		struct watch *watch = LIST_ITEM(at, struct watch, link);
		next = at->next;
		if (watch->kind == kind && is_path(watch->path, watch->len, path, len)) {
			list_remove(&watch->link);
			watch->client->on_fired(watch->client->context, path, kind, gone);
			free(watch->path);
			free(watch);
		}
	}
}

/* NULL: all of the client. */
static void drop_watches(struct world *world, const struct world_client *client, const char *path,
	enum registry_watch_kind kind)
{
	size_t len = path ? strlen(path) : 0;
	for (struct list *at = world->watches.next, *next; at != &world->watches; at = next) {
		struct watch *watch = LIST_ITEM(at, struct watch, link);
		next = at->next;
		if (watch->client == client &&
			(!path ||
				(watch->kind == kind &&
					is_path(watch->path, watch->len, path, len)))) {
			list_remove(&watch->link);
			free(watch->path);
			free(watch);
		}
	}
}

void world_unwatch(struct world *world, const struct world_client *client, const char *path,
	enum registry_watch_kind kind)
{
	drop_watches(world, client, path, kind);
}

void world_unwatch_all(struct world *world, const struct world_client *client)
{
	drop_watches(world, client, NULL, REGISTRY_WATCH_DATA);
}

static void arm(struct world *world, const struct world_client *client, const char *path,
	enum registry_watch_kind kind)
{
	drop_watches(world, client, path, kind);
	struct watch *watch = calloc(1, sizeof(*watch));
	watch->client = client;
	watch->kind = kind;
	watch->path = strdup(path);
	watch->len = strlen(path);
	list_append(&world->watches, &watch->link);
}

/* ---- changes ---- */

static void fire_parent(struct world *world, const char *path, int change)
{
	struct world_node *parent = parent_of(world, path);
	if (parent) {
		parent->stat.children += (size_t)change;
		fire(world, parent->path, REGISTRY_WATCH_CHILDREN, false);
	}
}

static void set_data(struct world *world, struct world_node *node, const char *data, size_t len)
{
	json_decref(node->record);
	node->record = NULL;
	free(node->data);
	node->data = len ? strndup(data, len) : strdup("");
	node->stat.size = len;
	node->stat.version = (int64_t)++world->last_id;
}

static struct world_node *add(struct world *world, const struct world_client *client,
	const char *path, const char *data, size_t len, bool ephemeral)
{
	struct world_node *node = calloc(1, sizeof(*node));
	size_t place = place_of(world, path);
	node->path = strdup(path);
	node->session = ephemeral ? client->session : 0;
	node->owner = client->agent;
	node->writer = client->agent;
	node->stat.ephemeral = ephemeral;
	node->stat.node_id = ++world->last_id;
	set_data(world, node, data, len);
	world->nodes = grow(world->nodes, world->count, sizeof(struct world_node *));
	memmove(&world->nodes[place + 1], &world->nodes[place],
		(world->count++ - place) * sizeof(struct world_node *));
	world->nodes[place] = node;
	remember_change(world, path);
	fire_parent(world, path, 1);
	fire(world, path, REGISTRY_WATCH_DATA, false);
	fire(world, path, REGISTRY_WATCH_CHILDREN, false);
	return node;
}

static void free_node(struct world_node *node)
{
	json_decref(node->record);
	free(node->path);
	free(node->data);
	free(node);
}

static void drop(struct world *world, struct world_node *node)
{
	size_t place = place_of(world, node->path);
	memmove(&world->nodes[place], &world->nodes[place + 1],
		(--world->count - place) * sizeof(struct world_node *));
	remember_change(world, node->path);
	fire_parent(world, node->path, -1);
	fire(world, node->path, REGISTRY_WATCH_DATA, true);
	fire(world, node->path, REGISTRY_WATCH_CHILDREN, true);
	free_node(node);
}

/* ---- operations ---- */

static int missing(struct registry_task *task)
{
	return err_set(&task->ret_err, BERTH_PATH_NOT_FOUND, "%s does not exist", task->path);
}

static bool is_unexpected(const struct world_node *node, struct registry_task *task)
{
	bool other = task->has_expected &&
		(task->expected.node_id != node->stat.node_id ||
			task->expected.version != node->stat.version);
	if (other) {
		err_set(&task->ret_err, BERTH_FILE_ALREADY_EXISTS, "%s is another node or version",
			task->path);
	}
	return other;
}

static void create(
	struct world *world, const struct world_client *client, struct registry_task *task)
{
	const struct world_node *parent = parent_of(world, task->path);
	if (!task->sequential && find(world, task->path)) {
		err_set(&task->ret_err, BERTH_FILE_ALREADY_EXISTS, "%s exists", task->path);
	} else if (!parent) {
		missing(task);
	} else if (parent->session) {
		err_set(&task->ret_err, BERTH_NO_CHILDREN_FOR_EPHEMERALS, "%s is ephemeral",
			parent->path);
	} else {
		char path[1024];
		snprintf(path, sizeof(path), task->sequential ? "%s%010u" : "%s", task->path,
			task->sequential ? world->sequence++ : 0);
		const struct world_node *node = add(
			world, client, path, task->data, task->len, task->ephemeral);
		task->ret_data = task->sequential ? strdup(path) : NULL;
		task->ret_len = task->sequential ? strlen(path) : 0;
		task->ret_stat = node->stat;
		task->ret_stat.own = task->ephemeral;
	}
}

static void remove_or_replace(struct world *world, const struct world_client *client,
	struct world_node *node, struct registry_task *task)
{
	if (is_unexpected(node, task)) {
		return;
	}
	if (node->stat.children > 0) {
		err_set(&task->ret_err, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY, "%s has children",
			task->path);
		return;
	}
	drop(world, node);
	if (task->operation == REGISTRY_OP_REPLACE) {
		create(world, client, task);
	}
}

static void list_children(
	const struct world *world, const struct world_node *node, struct registry_task *task)
{
	task->ret_children = calloc(node->stat.children + 1, sizeof(char *));
	for (size_t i = 0; i < world->count; i++) {
		if (is_child(world->nodes[i]->path, node->path)) {
			task->ret_children[task->ret_children_count++] = strdup(
				path_name(world->nodes[i]->path));
		}
	}
}

/* True when the operation is a change other than setting data, which is done. */
static bool apply_change(struct world *world, const struct world_client *client,
	struct world_node *node, struct registry_task *task)
{
	switch (task->operation) {
	case REGISTRY_OP_CREATE:
		create(world, client, task);
		return true;
	case REGISTRY_OP_DELETE:
	case REGISTRY_OP_REPLACE:
		if (node) {
			remove_or_replace(world, client, node, task);
		} else {
			missing(task);
		}
		return true;
	default:
		return false;
	}
}

void world_apply(struct world *world, const struct world_client *client, struct registry_task *task)
{
	struct world_node *node = find(world, task->path);
	if (task->watch) {
		arm(world, client, task->path,
			task->operation == REGISTRY_OP_GET ? REGISTRY_WATCH_DATA
							   : REGISTRY_WATCH_CHILDREN);
	}
	if (apply_change(world, client, node, task)) {
		return;
	}
	if (!node) {
		missing(task);
		return;
	}
	if (task->operation == REGISTRY_OP_SET && !is_unexpected(node, task)) {
		set_data(world, node, task->data, task->len);
		node->writer = client->agent;
		remember(world, node->path, WORLD_DATA);
		fire(world, node->path, REGISTRY_WATCH_DATA, false);
	} else if (task->operation == REGISTRY_OP_GET) {
		task->ret_data = strdup(node->data);
		task->ret_len = node->stat.size;
	} else if (task->operation == REGISTRY_OP_CHILDREN) {
		list_children(world, node, task);
	}
	task->ret_stat = node->stat;
	task->ret_stat.own = node->session != 0 && node->session == client->session;
}

/* ---- sessions ---- */

uint64_t world_session_begin(struct world *world, int agent)
{
	world->sessions = grow(world->sessions, world->session_count, sizeof(*world->sessions));
	world->sessions[world->session_count++] = (struct session){ ++world->last_id, agent };
	return world->last_id;
}

bool world_session_lives(const struct world *world, uint64_t session)
{
	for (size_t i = 0; i < world->session_count; i++) {
		if (world->sessions[i].id == session) {
			return world->sessions[i].agent != WORLD_STRANGER;
		}
	}
	return false;
}

void world_session_end(struct world *world, uint64_t session)
{
	for (size_t i = 0; i < world->session_count; i++) {
		if (world->sessions[i].id == session) {
			world->sessions[i].agent = WORLD_STRANGER;
		}
	}
	for (size_t i = world->count; i-- > 0;) {
		if (session && world->nodes[i]->session == session) {
			drop(world, world->nodes[i]);
		}
	}
}

/* ---- the whole ---- */

struct world *world_create(void)
{
	struct world *world = calloc(1, sizeof(*world));
	const struct world_client nobody = { .agent = WORLD_STRANGER };
	list_init(&world->watches);
	add(world, &nobody, "/", "", 0, false);
	add(world, &nobody, "//", "", 0, false);
	return world;
}

void world_destroy(struct world *world)
{
	for (size_t i = 0; i < world->count; i++) {
		free_node(world->nodes[i]);
	}
	for (size_t i = 0; i < world->history_count; i++) {
		struct history *history = &world->histories[i];
		for (size_t j = 0; j < history->count; j++) {
			free(history->values[j].text);
		}
		free(history->values);
		free(history->path);
	}
	while (!list_empty(&world->watches)) {
		struct watch *watch = LIST_ITEM(world->watches.next, struct watch, link);
		list_remove(&watch->link);
		free(watch->path);
		free(watch);
	}
	free(world->nodes);
	free(world->sessions);
	free(world->histories);
	free(world);
}

const struct world_node *world_node(const struct world *world, const char *path)
{
	return find(world, path);
}

const json_t *world_record(const struct world_node *node)
{
	struct world_node *known = (struct world_node *)(uintptr_t)node;
	if (!known->record) {
		known->record = strstr(node->data, "JSONServiceRecord")
			? json_loads(node->data, 0, NULL)
			: json_null();
	}
	return known->record;
}

uint64_t world_changes(const struct world *world)
{
	return world->changes;
}

size_t world_count(const struct world *world)
{
	return world->count;
}

const struct world_node *world_node_at(const struct world *world, size_t index)
{
	return world->nodes[index];
}
