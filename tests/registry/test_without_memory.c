/*
 * Each operation on a directory, once for each of its allocations, which fails: the operation ends
 * with an error or does its whole work, and no memory and no descriptor is left.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/registry/registry.h"
#include "tests/support/dir_client.h"
#include "tests/support/failing.h"

#define RECORD                                                                                     \
	"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"one\",\"yarn:persistence\":\"container\"}"

enum { PATIENCE_MS = 60000 };

/* The result of a request, so far as these tests ask. */
struct found {
	size_t calls;
	int code;
	size_t children;
	size_t count;
	size_t records;
	size_t len;
	struct registry_stat stat;
};

static struct registry *registry;
static struct found found;
/* A tree that no run before has used. */
static char tree[64];

static void take(void *context, const struct registry_result *result)
{
	struct found *into = context;
	into->calls++;
	into->code = result->err.code;
	into->children = result->children_count;
	into->count = result->count;
	into->records = result->found_count;
	into->len = result->data_len;
	into->stat = result->stat;
}

/* Until the condition holds; false when it never does. */
static bool drive(bool (*condition)(void))
{
	int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS;
	for (int64_t now_ms = 0; !condition() && now_ms < until_ms;) {
		struct pollfd pollfd = { .fd = registry_fd(registry), .events = POLLIN };
		int64_t due_ms = registry_deadline_ms(registry) - clock_monotonic_ms();
		poll(&pollfd, 1, due_ms < 0 ? 0 : due_ms < 100 ? (int)due_ms : 100);
		now_ms = clock_monotonic_ms();
		registry_dispatch(registry, now_ms);
	}
	return condition();
}

static bool has_answer(void)
{
	return found.calls > 0;
}

static bool is_connected(void)
{
	return registry_state(registry) == REGISTRY_CONNECTED;
}

/* The result of a request that was just made. */
static int result_of(const struct registry_request *request)
{
	if (!request) {
		return BERTH_FAILED;
	}
	return drive(has_answer) ? found.code : FAILING_WRONG;
}

static const char *node(const char *name)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s%s", tree, name);
	return path;
}

static int put(const char *name, enum registry_bind_mode mode, bool ephemeral)
{
	const struct registry_bind bind = { .data = RECORD,
		.len = sizeof(RECORD) - 1,
		.parents = true,
		.mode = mode,
		.ephemeral = ephemeral };
	found = (struct found){ 0 };
	return result_of(registry_bind(registry, node(name), &bind, take, &found));
}

typedef int operation(void);

static char root[512];

/* Opens the registry, does the operation in a new tree, closes. */
static int work(void *context)
{
	static unsigned trees;
	operation *const *it = context;
	const struct registry_options options = { .url = root };
	struct err err = ERR_INIT;
	snprintf(tree, sizeof(tree), "/t%u", trees++);
	if (registry_open(&registry, &options, &err)) {
		return err.code;
	}
	int code = drive(is_connected) ? (*it)() : FAILING_WRONG;
	registry_close(registry);
	return code;
}

static void check(operation *it, const char *name)
{
	const char *directory = dir_root_make();
	snprintf(root, sizeof(root), "dir:%s", directory);
	failing_check_memory(name, work, &it);
	dir_root_remove(root + strlen("dir:"));
}

#define WITHOUT_MEMORY(name)                                                                       \
	static int name(void);                                                                     \
	Test(without_memory, name, .timeout = 120)                                                 \
	{                                                                                          \
		check(name, #name);                                                                \
	}                                                                                          \
	static int name(void)

WITHOUT_MEMORY(a_record_is_written_and_read)
{
	int code = put("/a", REGISTRY_BIND_CREATE, false);
	if (code == 0) {
		found = (struct found){ 0 };
		code = result_of(registry_resolve(registry, node("/a"), take, &found));
	}
	return code == 0 && found.len != sizeof(RECORD) - 1 ? FAILING_WRONG : code;
}

WITHOUT_MEMORY(a_record_is_written_over)
{
	int code = put("/a", REGISTRY_BIND_CREATE, false);
	code = code ? code : put("/a", REGISTRY_BIND_OVERWRITE, false);
	code = code ? code : put("/a", REGISTRY_BIND_OVERWRITE, true);
	return code == 0 && !found.stat.own ? FAILING_WRONG : code;
}

WITHOUT_MEMORY(nodes_are_made)
{
	found = (struct found){ 0 };
	int code = result_of(registry_mknode(registry, node("/a/b"), NULL, true, take, &found));
	return code == 0 && found.count != 1 ? FAILING_WRONG : code;
}

WITHOUT_MEMORY(children_are_listed)
{
	int code = put("/a", REGISTRY_BIND_CREATE, false);
	code = code ? code : put("/b", REGISTRY_BIND_CREATE, false);
	if (code == 0) {
		found = (struct found){ 0 };
		code = result_of(registry_list(registry, tree, take, &found));
	}
	return code == 0 && found.children != 2 ? FAILING_WRONG : code;
}

WITHOUT_MEMORY(records_are_read_together)
{
	int code = put("/a", REGISTRY_BIND_CREATE, false);
	code = code ? code : put("/b", REGISTRY_BIND_CREATE, false);
	if (code == 0) {
		found = (struct found){ 0 };
		code = result_of(registry_records(registry, tree, NULL, take, &found));
	}
	return code == 0 && found.records != 2 ? FAILING_WRONG : code;
}

WITHOUT_MEMORY(records_are_found)
{
	const struct registry_criteria criteria = {
		.under = tree, .id = "one", .persistence = "container"
	};
	int code = put("/a/b", REGISTRY_BIND_CREATE, false);
	code = code ? code : put("/a/c", REGISTRY_BIND_CREATE, false);
	if (code == 0) {
		found = (struct found){ 0 };
		code = result_of(registry_find(registry, &criteria, NULL, take, &found));
	}
	return code == 0 && found.records != 2 ? FAILING_WRONG : code;
}

WITHOUT_MEMORY(records_are_purged)
{
	const struct registry_criteria criteria = {
		.under = tree, .id = "one", .persistence = "container"
	};
	int code = put("/a/b", REGISTRY_BIND_CREATE, false);
	code = code ? code : put("/c", REGISTRY_BIND_CREATE, false);
	if (code == 0) {
		found = (struct found){ 0 };
		code = result_of(registry_purge(
			registry, &criteria, REGISTRY_PURGE_ALL, false, NULL, take, &found));
	}
	return code == 0 && found.count != 2 ? FAILING_WRONG : code;
}

WITHOUT_MEMORY(a_tree_is_deleted)
{
	int code = put("/a/b", REGISTRY_BIND_CREATE, false);
	code = code ? code : put("/c", REGISTRY_BIND_CREATE, true);
	if (code == 0) {
		found = (struct found){ 0 };
		code = result_of(registry_delete(
			registry, tree, REGISTRY_DELETE_TREE, NULL, NULL, take, &found));
	}
	return code == 0 && found.count != 4 ? FAILING_WRONG : code;
}

WITHOUT_MEMORY(a_record_is_withdrawn)
{
	int code = put("/a/b", REGISTRY_BIND_CREATE, false);
	code = code ? code : put("/a", REGISTRY_BIND_OVERWRITE, false);
	if (code == 0) {
		struct registry_stat written = found.stat;
		found = (struct found){ 0 };
		code = result_of(registry_withdraw(registry, node("/a"), &written, take, &found));
	}
	return code;
}

static struct found lists;

static bool is_listed(void)
{
	return found.code < 0 || lists.code == BERTH_FAILED || lists.children == 2;
}

static bool is_known(void)
{
	return (found.calls > 0 && lists.calls > 0) || lists.code == BERTH_FAILED ||
		found.code == BERTH_FAILED;
}

static int change_what_is_watched(void)
{
	int code = put("/a", REGISTRY_BIND_CREATE, false);
	code = code ? code : put("/b", REGISTRY_BIND_CREATE, true);
	if (code) {
		return code;
	}
	if (!drive(is_listed)) {
		return FAILING_WRONG;
	}
	return lists.code;
}

WITHOUT_MEMORY(changes_are_seen_by_watches)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/a", tree);
	found = lists = (struct found){ 0 };
	struct registry_watch *data = registry_watch(
		registry, path, REGISTRY_WATCH_DATA, take, &found);
	struct registry_watch *list = registry_watch(
		registry, tree, REGISTRY_WATCH_CHILDREN, take, &lists);
	int code = !data || !list ? BERTH_FAILED : drive(is_known) ? 0 : FAILING_WRONG;
	registry_unwatch(data);
	if (code == 0) {
		code = change_what_is_watched();
	}
	registry_unwatch(list);
	return code;
}
