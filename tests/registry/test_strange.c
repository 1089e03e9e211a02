/* Nodes of other programs, by foreign paths; sequential nodes; container nodes. */
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/path.h"
#include "tests/support/registry_stage.h"

static struct registry *foreigner(struct stage *stage)
{
	return stage_client_with(stage, (struct registry_options){ .foreign_paths = true });
}

/* One server holds the trees of all tests: each has its own group. */
static const char *group_of(const struct stage *stage)
{
	static char path[300];
	const char *name = strrchr(stage->url, '/') + 1;
	snprintf(path, sizeof(path), "//foreign-%s/My Group", name);
	return path;
}

static const char *below(const char *path, const char *name)
{
	static char texts[4][400];
	static unsigned next;
	char *text = texts[next++ % 4];
	snprintf(text, sizeof(texts[0]), "%s/%s", path, name);
	return text;
}

static int put(struct registry *registry, const char *path, struct registry_bind bind,
	struct answer *answer)
{
	bind.parents = true;
	bind.len = strlen(bind.data);
	return client_bind(registry, path, &bind, answer);
}

static bool is_listed(void *context)
{
	const struct answer *answer = context;
	return answer->err.code == 0 && answer->children_count == 1;
}

static bool is_empty(void *context)
{
	const struct answer *answer = context;
	return answer->err.code == BERTH_PATH_NOT_FOUND || answer->children_count == 0;
}

SHARED_BACKENDS(strange, a_registry_takes_no_foreign_path_unasked)
{
	struct answer answer = { 0 };
	client_get(stage->registry, group_of(stage), &answer);
	assert_answer(&answer, "InvalidPathname");
	answer_clear(&answer);
}

SHARED_BACKENDS(strange, a_foreign_node_is_written_read_and_listed)
{
	struct registry *registry = foreigner(stage);
	const char *group = group_of(stage);
	struct answer answer = { 0 };
	put(registry, below(group, "Host_1"),
		(struct registry_bind){ .data = "{}", .ephemeral = true }, &answer);
	assert_answer(&answer, "OK");
	client_get(registry, below(group, "Host_1"), &answer);
	cr_assert_str_eq(answer.data, "{}");
	cr_assert(answer.stat.own);
	client_list(registry, group, &answer);
	cr_assert_str_eq(answer_children(&answer), below(group, "Host_1"));
	client_delete(registry, below(group, "Host_1"), REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "OK");
	client_close(registry);
	answer_clear(&answer);
}

SHARED_BACKENDS(strange, foreign_paths_have_rules_of_their_own)
{
	static const char *const bad[] = { "//", "//a/", "//a//b", "//a/../b", "//a/./b",
		"//zookeeper/x", "//a\nb", "//a\xff", "///a" };
	struct registry *registry = foreigner(stage);
	struct answer answer = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put(registry, bad[i], (struct registry_bind){ .data = "x" }, &answer);
		cr_assert_str_eq(answer_name(&answer), "InvalidPathname", "%s", bad[i]);
	}
	client_close(registry);
	answer_clear(&answer);
}

SHARED_BACKENDS(strange, sequential_nodes_have_numbers_that_grow)
{
	struct registry *registry = foreigner(stage);
	const char *group = group_of(stage);
	struct answer answer = { 0 };
	char first[400];
	char second[400];
	struct registry_bind bind = { .data = "one", .ephemeral = true, .sequential = true };
	put(registry, below(group, "member_"), bind, &answer);
	assert_answer(&answer, "OK");
	snprintf(first, sizeof(first), "%s", answer.data);
	cr_assert_eq(strlen(first), strlen(below(group, "member_")) + 10);
	client_get(registry, first, &answer);
	cr_assert_str_eq(answer.data, "one");
	client_delete(registry, first, REGISTRY_DELETE_NODE, NULL, &answer);
	put(registry, below(group, "member_"), bind, &answer);
	snprintf(second, sizeof(second), "%s", answer.data);
	cr_assert_gt(strcmp(second, first), 0, "%s, %s", first, second);
	client_list(registry, group, &answer);
	cr_assert_str_eq(answer_children(&answer), second);
	client_close(registry);
	answer_clear(&answer);
}

SHARED_BACKENDS(strange, a_watch_tells_of_members_that_come_and_go_with_their_session)
{
	struct registry *watching = foreigner(stage);
	struct registry *registry = foreigner(stage);
	const char *group = group_of(stage);
	struct answer seen = { 0 };
	struct answer answer = { 0 };
	struct registry_watch *watch = registry_watch(
		watching, group, REGISTRY_WATCH_CHILDREN, answer_take, &seen);
	client_wait_calls(&seen, 1);
	assert_answer(&seen, "PathNotFound");
	put(registry, below(group, "member_"),
		(struct registry_bind){ .data = "x", .ephemeral = true, .sequential = true },
		&answer);
	client_wait(is_listed, &seen);
	client_close(registry);
	client_wait(is_empty, &seen);
	registry_unwatch(watch);
	client_close(watching);
	answer_clear(&seen);
	answer_clear(&answer);
}

SHARED_BACKENDS(strange, both_paths_of_a_node_are_told_of_its_changes)
{
	struct registry *registry = foreigner(stage);
	struct answer by_path = { 0 };
	struct answer by_foreign = { 0 };
	struct answer answer = { 0 };
	char twin[600] = "//node";
	if (stage->backend == STAGE_ZOOKEEPER) {
		/* The path on the server, from its root. */
		const char *root = strchr(stage->url + strlen("zookeeper://"), '/');
		snprintf(twin, sizeof(twin), "/%s/node", root);
	}
	client_put(registry, "/node", "one", REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "OK");
	struct registry_watch *first = registry_watch(
		registry, "/node", REGISTRY_WATCH_DATA, answer_take, &by_path);
	struct registry_watch *second = registry_watch(
		registry, twin, REGISTRY_WATCH_DATA, answer_take, &by_foreign);
	client_wait_calls(&by_path, 1);
	client_wait_calls(&by_foreign, 1);
	cr_assert_str_eq(by_foreign.data, "one", "%s", twin);
	registry_unwatch(first);
	client_put(registry, "/node", "other", REGISTRY_BIND_OVERWRITE, false, &answer);
	client_wait_calls(&by_foreign, 2);
	cr_assert_str_eq(by_foreign.data, "other");
	registry_unwatch(second);
	client_close(registry);
	answer_clear(&by_path);
	answer_clear(&by_foreign);
	answer_clear(&answer);
}

static void container_goes(struct stage *stage)
{
	struct registry *registry = foreigner(stage);
	const char *group = group_of(stage);
	struct answer answer = { 0 };
	struct registry_bind bind = { .data = "x", .ephemeral = true, .container_parents = true };
	put(registry, below(group, "one"), bind, &answer);
	put(registry, below(group, "two"), bind, &answer);
	client_delete(registry, below(group, "one"), REGISTRY_DELETE_NODE, NULL, &answer);
	client_stat(registry, group, &answer);
	assert_answer(&answer, "OK");
	client_delete(registry, below(group, "two"), REGISTRY_DELETE_NODE, NULL, &answer);
	client_stat(registry, group, &answer);
	assert_answer(&answer, "PathNotFound");
	client_close(registry);
	answer_clear(&answer);
}

/* ZooKeeper's server looks for empty containers once a minute; a directory has no server. */
Test(strange_dir, a_container_goes_with_its_last_child)
{
	stage_run(STAGE_DIR, container_goes);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
