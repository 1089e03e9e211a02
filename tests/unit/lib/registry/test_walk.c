/* Walks over trees in which others write meanwhile, that lack memory or meet names too long. */
#include "tests/support/core_stage.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/limits.h"
#include "lib/registry/internal.h"

#define RECORD                                                                                     \
	"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"one\",\"yarn:persistence\":\"container\"}"

#define CONNECTED(name) CONNECTED_TO(registry_walk, name)

/* Another client acts before the first `times` tasks of this operation on this path. */
struct between {
	struct registry *registry;
	enum registry_operation operation;
	const char *path;
	size_t times;
	const char *puts;
};

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	struct between *between = context;
	(void)err;
	if (between->times > 0 && task->operation == between->operation &&
		strcmp(task->path, between->path) == 0) {
		between->times--;
		memory_put(between->registry, between->puts, "somebody else's");
	}
}

static void assert_children(struct registry *registry, const char *path, const char *children)
{
	struct answer answer = { 0 };
	client_list(registry, path, &answer);
	cr_assert_str_eq(answer_children(&answer), children);
	answer_clear(&answer);
}

/* ---- the version that a deletion expects ---- */

/* Deletes /a with its child /a/b, while another client writes the node at `path`. */
static void delete_rewritten(
	const char *path, bool expects, const char *error, enum registry_delete_mode mode)
{
	struct answer answer = { 0 };
	struct registry *registry = open_connected();
	struct between between = { registry, REGISTRY_OP_DELETE, path, 1, path };
	memory_put(registry, "/a", "x");
	memory_put(registry, "/a/b", "x");
	client_get(registry, "/a", &answer);
	struct registry_stat stat = answer.stat;
	memory_on_task(registry, on_task, &between);
	client_delete(registry, "/a", mode, expects ? &stat : NULL, &answer);
	assert_answer(&answer, error);
	cr_assert_eq(between.times, 0);
	assert_children(registry, "/", *error == 'O' ? "" : "/a");
	client_close(registry);
	answer_clear(&answer);
}

Test(registry_walk, a_deletion_expects_a_version_of_its_first_node_when_told_to)
{
	static const enum registry_delete_mode modes[] = { REGISTRY_DELETE_TREE,
		REGISTRY_DELETE_ALL };
	for (size_t i = 0; i < 2; i++) {
		delete_rewritten("/a", false, "OK", modes[i]);
		delete_rewritten("/a/b", false, "OK", modes[i]);
		delete_rewritten("/a/b", true, "OK", modes[i]);
		delete_rewritten("/a", true, "FileAlreadyExists", modes[i]);
	}
}

/* ---- nodes that come meanwhile ---- */

CONNECTED(a_deletion_below_which_others_write_for_ever_ends_and_is_named)
{
	struct answer answer = { 0 };
	struct between between = { registry, REGISTRY_OP_DELETE, "/a", SIZE_MAX, "/a/new" };
	memory_put(registry, "/a", "x");
	memory_on_task(registry, on_task, &between);
	client_delete(registry, "/a", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "Timeout");
	cr_assert_not_null(strstr(answer.err.msg, "contention"), "%s", answer.err.msg);
	cr_assert_eq(SIZE_MAX - between.times, REGISTRY_MAX_ROUNDS);
	answer_clear(&answer);
}

/* ---- failures ---- */

CONNECTED(a_refused_deletion_names_as_many_foreign_names_as_there_is_room_for)
{
	enum { NAMES = 9, NAME_BYTES = 100 };
	struct answer answer = { 0 };
	char path[NAME_BYTES + 64];
	char name[NAME_BYTES + 1];
	memset(name, 'A', NAME_BYTES);
	name[NAME_BYTES] = '\0';
	memory_put(registry, "/t", "");
	for (int i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "/t/%d%s", i, name);
		memory_put(registry, path, "");
	}
	client_delete(registry, "/t", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	const char *more = strstr(answer.err.msg, " and 1 more");
	cr_assert_not_null(more, "%s", answer.err.msg);
	cr_assert_str_eq(more, " and 1 more");
	cr_assert_gt(more - answer.err.msg, 3 * NAME_BYTES);
	cr_assert_lt(more - answer.err.msg, 5 * NAME_BYTES);
	answer_clear(&answer);
}

CONNECTED(one_foreign_name_is_enough_to_delete_nothing)
{
	struct answer answer = { 0 };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "x");
	memory_put(registry, "/t/Foo", "x");
	client_delete(registry, "/t", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	cr_assert_eq(answer.count, 0);
	assert_children(registry, "/t", "/t/a");
	answer_clear(&answer);
}

static void deny_one(void *context, const struct registry_task *task, struct err *err)
{
	const char *path = context;
	if (strcmp(task->path, path) == 0) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

CONNECTED(a_search_ignores_nodes_that_it_may_not_read_but_not_where_it_begins)
{
	const struct registry_criteria criteria = { .under = "/t", .id = "one" };
	struct answer answer = { 0 };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", RECORD);
	memory_put(registry, "/t/b", RECORD);
	memory_on_task(registry, deny_one, "/t/a");
	client_find(registry, &criteria, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), 1);
	client_records(registry, "/t", &answer);
	assert_answer(&answer, "OK");
	memory_on_task(registry, deny_one, "/t");
	client_find(registry, &criteria, &answer);
	assert_answer(&answer, "NoPathPermissions");
	answer_clear(&answer);
}

static void count_lines(void *context, enum registry_log_level level, const char *message)
{
	size_t *lines = context;
	(void)level;
	*lines += strstr(message, "passed over") != NULL;
}

enum { DEEP_BYTES = LIMIT_PATH_BYTES + LIMIT_PATH_ELEMENT_BYTES + 2 };

static size_t append_element(char *path, size_t len)
{
	path[len] = '/';
	memset(path + len + 1, 'a', LIMIT_PATH_ELEMENT_BYTES);
	len += 1 + LIMIT_PATH_ELEMENT_BYTES;
	path[len] = '\0';
	return len;
}

/* Makes nodes below each other, the last of which has no room in a path for a long child. */
static size_t put_deep(struct registry *registry, char path[static DEEP_BYTES])
{
	size_t len = 0;
	while (len + 1 + LIMIT_PATH_ELEMENT_BYTES <= LIMIT_PATH_BYTES) {
		len = append_element(path, len);
		memory_put(registry, path, RECORD);
	}
	return len;
}

Test(registry_walk, a_child_is_logged_that_a_search_leaves_out_but_none_that_ends_a_deletion)
{
	size_t lines = 0;
	const struct registry_options options = { .on_log = count_lines, .context = &lines };
	const struct registry_criteria criteria = { .id = "one" };
	struct registry *registry = memory_open("core", &options);
	struct answer answer = { 0 };
	char path[DEEP_BYTES];
	char child[DEEP_BYTES];
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	size_t len = put_deep(registry, path);
	memcpy(child, path, len);
	append_element(child, len);
	client_find(registry, &criteria, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(lines, 0);
	struct between between = { registry, REGISTRY_OP_DELETE, path, 1, child };
	memory_on_task(registry, on_task, &between);
	client_delete(registry, path, REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	cr_assert_eq(between.times, 0);
	cr_assert_eq(lines, 0);
	client_find(registry, &criteria, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(lines, 1);
	client_close(registry);
	answer_clear(&answer);
}
