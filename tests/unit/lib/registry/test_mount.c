/* Imports on a registry in memory: what they read, hold and watch of other programs' nodes. */
#include "lib/base/array.h"
#include "tests/support/core_stage.h"

#include <string.h>

#include "lib/base/limits.h"
#include "lib/dialect/label.h"

#define FROM "/Group"
#define GROUP "//Group"
#define AS "/services/web"
#define MASTER(ip) "{\"address\":{\"hostname\":\"m\",\"ip\":\"" ip "\",\"port\":5050},\"id\":\"u\"}"
#define NERVE(port) "{\"host\":\"10.0.0.1\",\"port\":" port "}"

static void set_imports(
	struct registry *registry, const struct registry_import *imports, size_t count)
{
	struct err err = ERR_INIT;
	cr_assert_eq(registry_set_imports(registry, imports, count, &err), 0, "%s", err.msg);
}

static void import_at(struct registry *registry, const char *as)
{
	const struct registry_import import = { DIALECT_NERVE, FROM, as };
	set_imports(registry, &import, 1);
}

/* The group and its member b, imported. */
static struct registry *open_importing(void)
{
	struct registry *registry = open_connected();
	memory_put(registry, GROUP, "");
	memory_put(registry, GROUP "/b", NERVE("1"));
	import_at(registry, AS);
	return registry;
}

#define IMPORTING(name)                                                                            \
	STAGED_TEST(                                                                               \
		registry_mount, name, struct registry *, registry, open_importing(), client_close)

static void count_tasks(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	(void)err;
	++*(size_t *)context;
}

/* ---- above it ---- */

IMPORTING(the_way_down_to_it_counts_as_a_child)
{
	struct answer answer = { 0 };
	client_stat(registry, "/services", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.stat.children, 1);
	client_list(registry, "/", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), "/services");
	memory_put(registry, "/services", "");
	memory_put(registry, "/services/own", "");
	client_list(registry, "/services", &answer);
	cr_assert_str_eq(answer_children(&answer), "/services/own " AS);
	client_list(registry, "/", &answer);
	cr_assert_str_eq(answer_children(&answer), "/services", "each once");
	client_list(registry, "/services/own", &answer);
	cr_assert_eq(answer.children_count, 0);
	answer_clear(&answer);
}

/* ---- the group ---- */

IMPORTING(the_group_is_a_node_without_data)
{
	struct answer answer = { 0 };
	memory_put(registry, GROUP, "data of the other program");
	client_get(registry, AS, &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer.data, "");
	cr_assert_eq(answer.stat.size, 0);
	client_stat(registry, AS, &answer);
	assert_answer(&answer, "OK");
	cr_assert_gt(answer.stat.created_ms, 0);
	cr_assert_eq(answer.stat.size, 0);
	client_list(registry, AS, &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), AS "/b");
	cr_assert_eq(answer.stat.size, 0);
	answer_clear(&answer);
}

/* ---- members ---- */

IMPORTING(a_member_is_one_read)
{
	struct answer answer = { 0 };
	size_t tasks = 0;
	memory_on_task(registry, count_tasks, &tasks);
	client_resolve(registry, AS "/b", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(tasks, 1);
	client_stat(registry, AS "/b", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.stat.children, 0);
	cr_assert_eq(tasks, 2);
	const struct registry_criteria criteria = { .under = AS "/b" };
	client_find(registry, &criteria, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), 1);
	cr_assert_eq(tasks, 3);
	answer_clear(&answer);
}

struct group_failure {
	int code;
	size_t members; /* how often the member itself is read */
};

static void fail_group_data(void *context, const struct registry_task *task, struct err *err)
{
	struct group_failure *failure = context;
	failure->members += strcmp(task->path, GROUP "/b") == 0;
	if (failure->code && strcmp(task->path, GROUP) == 0 && task->operation == REGISTRY_OP_GET) {
		err_set(err, failure->code, "not now");
	}
}

/* Registrar's service record has ports of its hosts: without an answer about it they would go. */
IMPORTING(a_member_is_not_read_without_an_answer_about_its_group)
{
	static const struct {
		int code;
		const char *answer;
		size_t members;
	} rows[] = { { BERTH_REGISTRY_UNAVAILABLE, "RegistryUnavailable", 0 },
		{ BERTH_TIMEOUT, "Timeout", 0 }, { BERTH_NO_PATH_PERMISSIONS, "OK", 1 } };
	const struct registry_import import = { DIALECT_REGISTRAR, FROM, AS };
	struct answer answer = { 0 };
	memory_put(registry, GROUP "/b",
		"{\"type\":\"load_balancer\",\"load_balancer\":{\"address\":\"10.0.0.1\"}}");
	set_imports(registry, &import, 1);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct group_failure failure = { .code = rows[i].code };
		memory_on_task(registry, fail_group_data, &failure);
		client_get(registry, AS "/b", &answer);
		assert_answer(&answer, rows[i].answer);
		cr_assert_eq(failure.members, rows[i].members, "%s", rows[i].answer);
	}
	answer_clear(&answer);
}

/* The longest path that a member can have. */
Test(registry_mount, a_member_with_the_longest_path_is_watched)
{
	struct registry *registry = open_connected();
	struct answer seen = { 0 };
	char as[LIMIT_PATH_BYTES + 1] = "";
	char path[LIMIT_PATH_BYTES + 1];
	const size_t len = LIMIT_PATH_BYTES - strlen("/b");
	for (size_t i = 0; i < len; i++) {
		as[i] = i % (1 + LIMIT_PATH_ELEMENT_BYTES) == 0 ? '/' : 'a';
	}
	memcpy(path, as, len);
	strcpy(path + len, "/b");
	memory_put(registry, GROUP, "");
	memory_put(registry, GROUP "/b", NERVE("1"));
	import_at(registry, as);
	registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	assert_answer(&seen, "OK");
	memory_put(registry, GROUP "/b", NERVE("2"));
	client_wait_calls(&seen, 2);
	assert_answer(&seen, "OK");
	client_close(registry);
	answer_clear(&seen);
}

/* ---- watches ---- */

IMPORTING(an_import_that_goes_leaves_no_watch)
{
	struct answer data = { 0 };
	struct answer list = { 0 };
	registry_watch(registry, AS, REGISTRY_WATCH_DATA, answer_take, &data);
	registry_watch(registry, AS, REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&data, 1);
	client_wait_calls(&list, 1);
	cr_assert_str_eq(answer_children(&list), AS "/b");
	cr_assert_eq(memory_armed_watches(registry), 2);
	memory_set_answering(registry, false);
	set_imports(registry, NULL, 0);
	cr_assert_eq(memory_armed_watches(registry), 0);
	memory_set_answering(registry, true);
	client_wait(is_absent, &list);
	client_wait(is_absent, &data);
	answer_clear(&data);
	answer_clear(&list);
}

/* For Mesos all members tell the meaning of a label: a change has each watch read once. */
IMPORTING(a_change_of_one_that_ranks_is_read_once_by_each)
{
	const struct registry_import import = { DIALECT_MESOS, FROM, AS };
	struct answer leader = { 0 };
	struct answer other = { 0 };
	char path[LIMIT_PATH_BYTES] = AS "/";
	size_t tasks = 0;
	dialect_label(path + strlen(path), "json.info_0000000001");
	memory_put(registry, GROUP "/json.info_0000000001", MASTER("10.0.0.1"));
	set_imports(registry, &import, 1);
	registry_watch(registry, AS "/leader", REGISTRY_WATCH_DATA, answer_take, &leader);
	registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &other);
	client_wait_calls(&leader, 1);
	client_wait_calls(&other, 1);
	assert_answer(&leader, "OK");
	assert_answer(&other, "PathNotFound");
	memory_on_task(registry, count_tasks, &tasks);
	memory_put(registry, GROUP "/json.info_0000000001", MASTER("10.0.0.2"));
	client_wait_calls(&leader, 2);
	cr_assert_not_null(strstr(leader.data, "10.0.0.2"), "%s", leader.data);
	cr_assert_eq(tasks, 3, "two lists and the leader's node");
	answer_clear(&leader);
	answer_clear(&other);
}

/* ---- other imports ---- */

static bool is_told_twice(void *context)
{
	const struct answer *pair = context;
	return pair[0].calls > 1 && pair[1].calls > 1;
}

IMPORTING(each_of_several_imports_tells_of_its_coming_and_going)
{
	const struct registry_import imports[] = {
		{ DIALECT_NERVE, FROM, AS },
		{ DIALECT_NERVE, FROM, "/x/one" },
		{ DIALECT_NERVE, FROM, "/y/two" },
	};
	struct answer pair[2] = { 0 };
	registry_watch(registry, "/x/one/b", REGISTRY_WATCH_DATA, answer_take, &pair[0]);
	registry_watch(registry, "/y/two/b", REGISTRY_WATCH_DATA, answer_take, &pair[1]);
	client_wait_calls(&pair[0], 1);
	client_wait_calls(&pair[1], 1);
	set_imports(registry, imports, 3);
	client_wait(is_told_twice, pair);
	assert_answer(&pair[0], "OK");
	assert_answer(&pair[1], "OK");
	set_imports(registry, imports + 1, 0);
	client_wait(is_absent, &pair[0]);
	client_wait(is_absent, &pair[1]);
	answer_clear(&pair[0]);
	answer_clear(&pair[1]);
}
