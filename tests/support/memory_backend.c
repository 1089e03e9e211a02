#include "tests/support/memory_backend.h"

#include <assert.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/path.h"
#include "lib/registry/internal.h"

struct node {
	char *path;
	char *data;
	struct registry_stat stat;
	uint64_t session; /* the session of an ephemeral node */
	struct list children;
	struct list link; /* in the parent's children */
	struct node *parent;
};

struct armed {
	struct list link;
	bool gone;
	char *path;
	enum registry_watch_kind kind;
};

struct tree {
	struct list link; /* trees */
	char *name;
	void *by_path;
	struct list backends;
	uint64_t last_id;
};

struct memory {
	struct registry_backend base;
	struct tree *tree;
	struct list link; /* tree->backends */
	struct list submitted;
	size_t tasks;
	size_t most_tasks;
	void *armed;               /* a tree of struct armed, as tsearch() makes them */
	struct list notifications; /* armed watches that fired */
	size_t armed_count;
	int fd;
	uint64_t session;
	char session_name[32];
	enum registry_state state;
	enum registry_state next_state;
	bool keeps_session;
	bool resumable; /* a successor may continue the session */
	bool silent;
	int64_t heard_ms;
	int session_timeout_ms;
	memory_interfere *interfere;
	void *interfere_context;
	const char *late_path;      /* the next answer about it comes late; NULL: none */
	struct registry_task *late; /* such an answer */
	bool late_is_due;
};

static struct list trees = { &trees, &trees };

static struct memory *memory_of(const struct registry_backend *backend)
{
	return (struct memory *)(uintptr_t)backend;
}

static void wake(struct memory *memory)
{
	uint64_t one = 1;
	if (write(memory->fd, &one, sizeof(one)) < 0) {
		abort();
	}
}

/* ---- The tree ---- */

static int compare_nodes(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->path, ((const struct node *)b)->path);
}

static struct node *find(struct tree *tree, const char *path)
{
	struct node key = { .path = (char *)(uintptr_t)path };
	struct node **found = tfind(&key, &tree->by_path, compare_nodes);
	return found ? *found : NULL;
}

static int compare_armed(const void *a, const void *b)
{
	const struct armed *left = a, *right = b;
	return left->kind != right->kind ? (int)left->kind - (int)right->kind
					 : strcmp(left->path, right->path);
}

static struct armed *find_armed(
	struct memory *memory, const char *path, enum registry_watch_kind kind)
{
	struct armed key = { .path = (char *)(uintptr_t)path, .kind = kind };
	struct armed **found = tfind(&key, &memory->armed, compare_armed);
	return found ? *found : NULL;
}

/* Returns the watch that was armed, and makes the caller its owner; NULL if none was. */
static struct armed *disarm(struct memory *memory, const char *path, enum registry_watch_kind kind)
{
	struct armed *armed = find_armed(memory, path, kind);
	if (armed) {
		tdelete(armed, &memory->armed, compare_armed);
		memory->armed_count--;
	}
	return armed;
}

static void fire(struct tree *tree, const char *path, enum registry_watch_kind kind, bool gone)
{
	for (struct list *at = tree->backends.next; at != &tree->backends; at = at->next) {
		struct memory *memory = LIST_ITEM(at, struct memory, link);
		struct armed *armed = disarm(memory, path, kind);
		if (armed) {
			armed->gone = gone;
			list_append(&memory->notifications, &armed->link);
			wake(memory);
		}
	}
}

static struct node *parent_of(struct tree *tree, const char *path)
{
	size_t len = path_parent_len(path);
	/* "//a" is another program's node next to the root. */
	char *parent = len == 0 && path_is_foreign(path) ? strdup("/") : strndup(path, len);
	struct node *node = find(tree, parent);
	free(parent);
	return node;
}

static int64_t wall_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_data(struct tree *tree, struct node *node, const char *data, size_t len)
{
	free(node->data);
	node->data = malloc(len + 1);
	if (len) {
		memcpy(node->data, data, len);
	}
	node->data[len] = '\0';
	node->stat.size = len;
	node->stat.version = (int64_t)++tree->last_id;
	node->stat.modified_ms = wall_ms();
}

static struct node *add(
	struct tree *tree, const char *path, const char *data, size_t len, uint64_t session)
{
	struct node *node = calloc(1, sizeof(*node));
	node->path = strdup(path);
	node->session = session;
	node->stat.ephemeral = session != 0;
	node->stat.node_id = ++tree->last_id;
	node->stat.created_ms = wall_ms();
	list_init(&node->children);
	list_init(&node->link);
	set_data(tree, node, data, len);
	tsearch(node, &tree->by_path, compare_nodes);
	node->parent = parent_of(tree, path);
	if (node->parent) {
		list_append(&node->parent->children, &node->link);
		node->parent->stat.children++;
		fire(tree, node->parent->path, REGISTRY_WATCH_CHILDREN, false);
	}
	fire(tree, path, REGISTRY_WATCH_DATA, false);
	fire(tree, path, REGISTRY_WATCH_CHILDREN, false);
	return node;
}

static void drop(struct tree *tree, struct node *node)
{
	tdelete(node, &tree->by_path, compare_nodes);
	if (node->parent) {
		list_remove(&node->link);
		node->parent->stat.children--;
		fire(tree, node->parent->path, REGISTRY_WATCH_CHILDREN, false);
	}
	fire(tree, node->path, REGISTRY_WATCH_DATA, true);
	fire(tree, node->path, REGISTRY_WATCH_CHILDREN, true);
	free(node->path);
	free(node->data);
	free(node);
}

static void drop_all(struct tree *tree, struct node *node)
{
	while (!list_empty(&node->children)) {
		drop_all(tree, LIST_ITEM(node->children.next, struct node, link));
	}
	drop(tree, node);
}

static void drop_session(struct tree *tree, struct node *node, uint64_t session)
{
	struct list *next;
	for (struct list *link = node->children.next; link != &node->children; link = next) {
		next = link->next;
		drop_session(tree, LIST_ITEM(link, struct node, link), session);
	}
	if (node->session == session) {
		drop_all(tree, node); /* with what memory_put() has put below it */
	}
}

static struct tree *tree_open(const char *name)
{
	for (struct list *link = trees.next; link != &trees; link = link->next) {
		struct tree *tree = LIST_ITEM(link, struct tree, link);
		if (strcmp(tree->name, name) == 0) {
			return tree;
		}
	}
	struct tree *tree = calloc(1, sizeof(*tree));
	tree->name = strdup(name);
	list_init(&tree->backends);
	list_append(&trees, &tree->link);
	add(tree, "/", "", 0, 0);
	return tree;
}

static void tree_close(struct tree *tree)
{
	if (list_empty(&tree->backends)) {
		/* Some have no parent: a test put them below nothing. */
		while (tree->by_path) {
			drop_all(tree, *(struct node **)tree->by_path);
		}
		list_remove(&tree->link);
		free(tree->name);
		free(tree);
	}
}

/* ---- Tasks ---- */

static void arm(struct memory *memory, const char *path, enum registry_watch_kind kind)
{
	if (find_armed(memory, path, kind)) {
		return;
	}
	struct armed *armed = calloc(1, sizeof(*armed));
	armed->path = strdup(path);
	armed->kind = kind;
	tsearch(armed, &memory->armed, compare_armed);
	memory->armed_count++;
}

static int missing(struct registry_task *task)
{
	return err_set(&task->ret_err, BERTH_PATH_NOT_FOUND, "%s does not exist", task->path);
}

static int unexpected(const struct node *node, struct registry_task *task)
{
	if (task->has_expected &&
		(task->expected.node_id != node->stat.node_id ||
			task->expected.version != node->stat.version)) {
		return err_set(&task->ret_err, BERTH_FILE_ALREADY_EXISTS,
			"%s is another node or version", task->path);
	}
	return 0;
}

static void create_at(struct memory *memory, struct registry_task *task, const char *path)
{
	struct tree *tree = memory->tree;
	if (find(tree, path)) {
		err_set(&task->ret_err, BERTH_FILE_ALREADY_EXISTS, "%s exists", path);
		return;
	}
	struct node *parent = parent_of(tree, path);
	if (!parent) {
		missing(task);
	} else if (parent->session) {
		err_set(&task->ret_err, BERTH_NO_CHILDREN_FOR_EPHEMERALS, "%s is ephemeral",
			parent->path);
	} else {
		struct node *node = add(
			tree, path, task->data, task->len, task->ephemeral ? memory->session : 0);
		task->ret_stat = node->stat;
		task->ret_stat.own = task->ephemeral;
	}
}

static void create(struct memory *memory, struct registry_task *task)
{
	if (!task->sequential) {
		create_at(memory, task, task->path);
		return;
	}
	size_t size = strlen(task->path) + 11;
	char *path = malloc(size);
	snprintf(path, size, "%s%010u", task->path, (unsigned)memory->tree->last_id);
	create_at(memory, task, path);
	task->ret_data = path;
	task->ret_len = size - 1;
}

static void list_children(const struct node *node, struct registry_task *task)
{
	task->ret_children = calloc(node->stat.children + 1, sizeof(char *));
	for (struct list *link = node->children.next; link != &node->children; link = link->next) {
		const struct node *child = LIST_ITEM(link, struct node, link);
		task->ret_children[task->ret_children_count++] = strdup(path_name(child->path));
	}
}

static void remove_or_replace(struct memory *memory, struct node *node, struct registry_task *task)
{
	if (unexpected(node, task)) {
		return;
	}
	if (node->stat.children) {
		err_set(&task->ret_err, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY, "%s has children",
			task->path);
		return;
	}
	drop(memory->tree, node);
	if (task->operation == REGISTRY_OP_REPLACE) {
		create(memory, task);
	}
}

static void carry_out(struct memory *memory, struct registry_task *task)
{
	struct node *node = find(memory->tree, task->path);
	if (task->watch) {
		arm(memory, task->path,
			task->operation == REGISTRY_OP_GET ? REGISTRY_WATCH_DATA
							   : REGISTRY_WATCH_CHILDREN);
	}
	if (task->operation == REGISTRY_OP_CREATE) {
		create(memory, task);
		return;
	}
	if (!node) {
		missing(task);
		return;
	}
	if (task->operation == REGISTRY_OP_DELETE || task->operation == REGISTRY_OP_REPLACE) {
		remove_or_replace(memory, node, task);
		return;
	}
	if (task->operation == REGISTRY_OP_SET && !unexpected(node, task)) {
		set_data(memory->tree, node, task->data, task->len);
		fire(memory->tree, task->path, REGISTRY_WATCH_DATA, false);
	} else if (task->operation == REGISTRY_OP_GET) {
		task->ret_data = malloc(node->stat.size + 1);
		memcpy(task->ret_data, node->data, node->stat.size + 1);
		task->ret_len = node->stat.size;
	} else if (task->operation == REGISTRY_OP_CHILDREN) {
		list_children(node, task);
	}
	task->ret_stat = node->stat;
	task->ret_stat.own = node->session == memory->session;
}

static void forget(struct memory *memory, struct registry_task *task)
{
	list_remove(&task->link);
	memory->tasks--;
}

static void complete_next(struct memory *memory)
{
	struct registry_task *task = LIST_ITEM(memory->submitted.next, struct registry_task, link);
	forget(memory, task);
	if (memory->state != REGISTRY_CONNECTED) {
		err_set(&task->ret_err, BERTH_REGISTRY_UNAVAILABLE, "the registry is away");
	} else {
		if (memory->interfere) {
			memory->interfere(memory->interfere_context, task, &task->ret_err);
		}
		if (!task->ret_err.code) {
			carry_out(memory, task);
		}
		if (memory->late_path && strcmp(task->path, memory->late_path) == 0) {
			memory->late_path = NULL;
			memory->late = task;
			return;
		}
	}
	memory->base.core.completed(memory->base.core.core, task);
}

static void complete_late(struct memory *memory)
{
	struct registry_task *task = memory->late;
	memory->late = NULL;
	memory->late_is_due = false;
	if (task) {
		memory->base.core.completed(memory->base.core.core, task);
	}
}

/* ---- The backend ---- */

static void set_session(struct memory *memory, uint64_t session)
{
	memory->session = session;
	snprintf(memory->session_name, sizeof(memory->session_name), "memory %llu",
		(unsigned long long)session);
}

static void new_session(struct memory *memory)
{
	set_session(memory, ++memory->tree->last_id);
}

static int memory_backend_open(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core, struct err *err)
{
	(void)err;
	struct memory *memory = calloc(1, sizeof(*memory));
	memory->base.ops = &memory_ops;
	memory->base.core = *core;
	memory->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert(memory->fd >= 0);
	memory->tree = tree_open(rest);
	list_init(&memory->submitted);
	list_init(&memory->notifications);
	list_append(&memory->tree->backends, &memory->link);
	new_session(memory);
	const json_t *resumed = json_object_get(options->session, "number");
	if (resumed) {
		set_session(memory, (uint64_t)json_integer_value(resumed));
	}
	memory->heard_ms = INT64_MAX;
	memory->next_state = REGISTRY_CONNECTED;
	wake(memory);
	*ret_backend = &memory->base;
	return 0;
}

static void free_armed(void *armed)
{
	free(((struct armed *)armed)->path);
	free(armed);
}

static void free_watches(struct memory *memory)
{
	tdestroy(memory->armed, free_armed);
	memory->armed = NULL;
	memory->armed_count = 0;
	while (!list_empty(&memory->notifications)) {
		struct armed *fired = LIST_ITEM(memory->notifications.next, struct armed, link);
		list_remove(&fired->link);
		free_armed(fired);
	}
}

static void leave(struct memory *memory)
{
	assert(list_empty(&memory->submitted));
	list_remove(&memory->link);
	free_watches(memory);
	tree_close(memory->tree);
	close(memory->fd);
	free(memory);
}

static void memory_close(struct registry_backend *backend)
{
	struct memory *memory = memory_of(backend);
	drop_session(memory->tree, find(memory->tree, "/"), memory->session);
	leave(memory);
}

static json_t *memory_session(const struct registry_backend *backend)
{
	const struct memory *memory = memory_of(backend);
	return memory->resumable ? json_pack("{s:s, s:I}", "id", memory->session_name, "number",
					   (json_int_t)memory->session)
				 : NULL;
}

static json_t *memory_detach(struct registry_backend *backend)
{
	json_t *session = memory_session(backend);
	if (session) {
		leave(memory_of(backend));
	} else {
		memory_close(backend);
	}
	return session;
}

static int memory_fd(const struct registry_backend *backend)
{
	return memory_of(backend)->fd;
}

static int64_t memory_deadline_ms(const struct registry_backend *backend)
{
	const struct memory *memory = memory_of(backend);
	bool due = (memory->tasks > 0 && !memory->silent) || memory->next_state != memory->state;
	return due ? 0 : INT64_MAX;
}

static void change_state(struct memory *memory)
{
	if (memory->state == memory->next_state) {
		return;
	}
	memory->state = memory->next_state;
	if (memory->state == REGISTRY_LOST && !memory->keeps_session) {
		drop_session(memory->tree, find(memory->tree, "/"), memory->session);
		new_session(memory);
	}
	if (memory->state != REGISTRY_CONNECTED) {
		free_watches(memory);
	}
	memory->base.core.state(memory->base.core.core, memory->state, "the test wants it");
}

static void memory_dispatch(struct registry_backend *backend, int64_t now_ms)
{
	(void)now_ms;
	struct memory *memory = memory_of(backend);
	uint64_t count;
	while (read(memory->fd, &count, sizeof(count)) > 0) {
	}
	change_state(memory);
	if (memory->silent) {
		return;
	}
	while (!list_empty(&memory->notifications)) {
		struct armed *armed = LIST_ITEM(memory->notifications.next, struct armed, link);
		list_remove(&armed->link);
		backend->core.notified(backend->core.core, armed->path, armed->kind, armed->gone);
		free_armed(armed);
	}
	for (size_t due = memory->tasks; due > 0 && memory->tasks > 0; due--) {
		complete_next(memory);
	}
	if (memory->late_is_due) {
		complete_late(memory);
	}
}

static void memory_submit(struct registry_backend *backend, struct registry_task *task)
{
	struct memory *memory = memory_of(backend);
	list_append(&memory->submitted, &task->link);
	if (++memory->tasks > memory->most_tasks) {
		memory->most_tasks = memory->tasks;
	}
}

static void memory_abandon(struct registry_backend *backend, struct registry_task *task)
{
	struct memory *memory = memory_of(backend);
	if (task == memory->late) {
		memory->late = NULL;
	} else {
		forget(memory, task);
	}
}

static void memory_unwatch(
	struct registry_backend *backend, const char *path, enum registry_watch_kind kind)
{
	struct memory *memory = memory_of(backend);
	struct armed *armed = disarm(memory, path, kind);
	if (armed) {
		free_armed(armed);
	}
}

static const char *memory_session_name(const struct registry_backend *backend)
{
	return memory_of(backend)->session_name;
}

static int memory_session_timeout_ms(const struct registry_backend *backend)
{
	return memory_of(backend)->session_timeout_ms;
}

static int64_t memory_heard_ms(const struct registry_backend *backend)
{
	const struct memory *memory = memory_of(backend);
	return memory->heard_ms == INT64_MAX ? clock_monotonic_ms() : memory->heard_ms;
}

const struct registry_backend_ops memory_ops = {
	.scheme = "memory",
	.open = memory_backend_open,
	.close = memory_close,
	.detach = memory_detach,
	.session = memory_session,
	.fd = memory_fd,
	.deadline_ms = memory_deadline_ms,
	.dispatch = memory_dispatch,
	.submit = memory_submit,
	.abandon = memory_abandon,
	.unwatch = memory_unwatch,
	.session_name = memory_session_name,
	.session_timeout_ms = memory_session_timeout_ms,
	.heard_ms = memory_heard_ms,
};

/* ---- For tests ---- */

struct registry *memory_open(const char *name, const struct registry_options *options)
{
	struct registry *registry = NULL;
	struct err err = ERR_INIT;
	if (registry_open_backend(&registry, &memory_ops, name, options, &err)) {
		fprintf(stderr, "memory registry: %s\n", err.msg);
		abort();
	}
	return registry;
}

void memory_set_state(struct registry *registry, enum registry_state state)
{
	struct memory *memory = memory_of(registry->backend);
	memory->next_state = state;
	wake(memory);
}

void memory_keep_session(struct registry *registry)
{
	memory_of(registry->backend)->keeps_session = true;
}

void memory_let_resume(struct registry *registry)
{
	memory_of(registry->backend)->resumable = true;
}

void memory_set_answering(struct registry *registry, bool answering)
{
	struct memory *memory = memory_of(registry->backend);
	memory->silent = !answering;
	wake(memory);
}

void memory_set_heard_ms(struct registry *registry, int64_t heard_ms)
{
	memory_of(registry->backend)->heard_ms = heard_ms;
}

void memory_set_session_timeout_ms(struct registry *registry, int timeout_ms)
{
	memory_of(registry->backend)->session_timeout_ms = timeout_ms;
}

void memory_be_late(struct registry *registry, const char *path)
{
	memory_of(registry->backend)->late_path = path;
}

void memory_answer_late(struct registry *registry)
{
	struct memory *memory = memory_of(registry->backend);
	memory->late_is_due = true;
	wake(memory);
}

void memory_on_task(struct registry *registry, memory_interfere *interfere, void *context)
{
	struct memory *memory = memory_of(registry->backend);
	memory->interfere = interfere;
	memory->interfere_context = context;
}

void memory_put(struct registry *registry, const char *path, const char *data)
{
	struct tree *tree = memory_of(registry->backend)->tree;
	struct node *node = find(tree, path);
	if (node) {
		set_data(tree, node, data, strlen(data));
		fire(tree, path, REGISTRY_WATCH_DATA, false);
	} else {
		add(tree, path, data, strlen(data), 0);
	}
}

void memory_remove(struct registry *registry, const char *path)
{
	struct tree *tree = memory_of(registry->backend)->tree;
	struct node *node = find(tree, path);
	if (node) {
		drop_all(tree, node);
	}
}

size_t memory_tasks(const struct registry *registry)
{
	return memory_of(registry->backend)->tasks;
}

size_t memory_most_tasks(const struct registry *registry)
{
	return memory_of(registry->backend)->most_tasks;
}

size_t memory_armed_watches(const struct registry *registry)
{
	return memory_of(registry->backend)->armed_count;
}
