/* The host: backend: what the host's agent answers about a node. */
#include "lib/base/array.h"
#include "lib/registry/host/node.h"
#include "tests/support/failing.h"
#include "tests/unit/lib/registry/host/host_stage.h"

static int code_of_read(const char *rest)
{
	struct answer answer = { 0 };
	char event[1024];
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	take_question();
	snprintf(event, sizeof(event), "{\"type\":\"READ\",\"id\":2%s}", rest);
	tell(event);
	cr_assert_eq(answer.calls, 1);
	int code = answer.err.code;
	answer_clear(&answer);
	close_stage();
	return code;
}

Test(registry_host_node, answers_that_hold_no_node)
{
	cr_assert_eq(code_of_read(",\"node\":null"), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(code_of_read(",\"error\":\"LimitExceeded\",\"why\":\"too many\""),
		BERTH_LIMIT_EXCEEDED);
	cr_assert_eq(code_of_read(",\"error\":\"of a later version\""), BERTH_FAILED);
	cr_assert_eq(code_of_read(",\"node\":[]"), BERTH_FAILED);
	cr_assert_eq(code_of_read(""), BERTH_FAILED);
	cr_assert_eq(code_of_read(",\"node\":{}"), 0);
}

Test(registry_host_node, a_list_has_names_and_foreign_ones)
{
	struct answer answer = { 0 };
	begin();
	registry_list(stage.registry, "/a", answer_take, &answer);
	take_question();
	cr_assert(asks("\"list\":true"));
	tell("{\"type\":\"READ\",\"id\":2,\"node\":{" STAT ",\"names\":[\"c\",\"b\",7,\"\"],"
	     "\"foreign\":[\"%41%20x\",\"%\",\"%01\",\"%00\"]}}");
	cr_assert_eq(answer.calls, 1);
	cr_assert_eq(answer.children_count, 2);
	cr_assert_str_eq(answer.children[0], "/a/b");
	cr_assert_eq(answer.stat.foreign, 4);
	cr_assert_str_eq(answer_children(&answer), "/a/b /a/c");
	cr_assert_str_eq(answer_foreign(&answer), "/a/%01 /a/%25 /a/%2500 /a/A%20x");
	answer_clear(&answer);
	close_stage();
}

static struct registry_stat stat_of(const char *node)
{
	struct registry_task task = { .operation = REGISTRY_OP_STAT, .path = "/a" };
	json_t *event = json_pack("{s:o}", "node", json_loads(node, 0, NULL));
	host_node_take(&task, event);
	json_decref(event);
	cr_assert_eq(task.ret_err.code, 0, "%s", task.ret_err.msg);
	return task.ret_stat;
}

Test(registry_host_node, a_stat_is_what_the_hosts_agent_says)
{
	struct registry_stat stat = stat_of("{" STAT "}");
	cr_expect_eq(stat.created_ms, 7);
	cr_expect_eq(stat.modified_ms, 8);
	cr_expect_eq(stat.node_id, 9);
	cr_expect_eq(stat.version, 3);
	cr_expect_eq(stat.size, 21);
	cr_expect_not(stat.ephemeral);
	cr_expect_eq(stat.children, 1, "it may have some");
	cr_expect_eq(stat_of("{\"ephemeral\":true}").children, 0);
	cr_expect_eq(stat_of("{\"size\":1}").size, 1);
	cr_expect_eq(stat_of("{\"size\":0}").size, 0);
	cr_expect_eq(stat_of("{\"size\":-1}").size, 0);
	cr_expect_eq(stat_of("{\"ephemeral\":false}").size, 0);
}

Test(registry_host_node, an_error_has_its_reason_or_its_name)
{
	static const struct {
		const char *rest;
		int code;
		const char *message;
	} rows[] = {
		{ "\"error\":\"LimitExceeded\",\"why\":\"too many\"", BERTH_LIMIT_EXCEEDED,
			"too many" },
		{ "\"error\":\"LimitExceeded\",\"why\":\"\"", BERTH_LIMIT_EXCEEDED,
			"LimitExceeded" },
		{ "\"error\":\"Timeout\"", BERTH_TIMEOUT, "Timeout" },
		{ "\"error\":\"OK\"", BERTH_FAILED, "OK" },
		{ "\"node\":null", BERTH_PATH_NOT_FOUND, "/a does not exist" },
		{ "\"node\":7", BERTH_FAILED, "/a that this agent understands" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct answer answer = { 0 };
		char event[256];
		begin();
		registry_get(stage.registry, "/a", answer_take, &answer);
		take_question();
		snprintf(event, sizeof(event), "{\"type\":\"READ\",\"id\":2,%s}", rows[i].rest);
		tell(event);
		cr_expect_eq(answer.err.code, rows[i].code, "%s", rows[i].rest);
		cr_expect(strstr(answer.err.msg, rows[i].message) != NULL, "%s", answer.err.msg);
		answer_clear(&answer);
		close_stage();
	}
}

/* Its registry has larger limits than this agent. */
Test(registry_host_node, a_list_that_nobody_could_hold_is_refused)
{
	enum { NAMES = 9000 };
	char path[2000];
	struct registry_task task = { .operation = REGISTRY_OP_CHILDREN, .path = path };
	json_t *names = json_array();
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	for (int i = 0; i < NAMES; i++) {
		json_array_append_new(names, json_string("n"));
	}
	json_t *event = json_pack("{s:{s:o}}", "node", "names", names);
	host_node_take(&task, event);
	cr_expect_eq(task.ret_err.code, BERTH_LIMIT_EXCEEDED, "%d", task.ret_err.code);
	cr_expect_null(task.ret_children);
	json_decref(event);
}

Test(registry_host_node, names_that_nobody_could_hold_are_refused)
{
	enum { NAMES = 18, EACH = 1024 * 1024 };
	struct registry_task task = { .operation = REGISTRY_OP_CHILDREN, .path = "/a" };
	json_t *foreign = json_array();
	char *name = malloc(EACH + 1);
	memset(name, 'n', EACH);
	name[EACH] = '\0';
	for (int i = 0; i < NAMES; i++) {
		json_array_append_new(foreign, json_string(name));
	}
	json_t *event = json_pack("{s:{s:o}}", "node", "foreign", foreign);
	host_node_take(&task, event);
	cr_expect_eq(task.ret_err.code, BERTH_LIMIT_EXCEEDED, "%d", task.ret_err.code);
	json_decref(event);
	free(name);
}

static int take_list(void *context)
{
	struct registry_task task = { .operation = REGISTRY_OP_CHILDREN, .path = "/a" };
	host_node_take(&task, context);
	bool right = task.ret_err.code ||
		(task.ret_children_count == 2 && strcmp(task.ret_children[0], "b") == 0 &&
			task.ret_foreign_count == 2 && strcmp(task.ret_foreign[0], "A x") == 0 &&
			strcmp(task.ret_foreign[1], "%4") == 0);
	for (size_t i = 0; i < task.ret_children_count; i++) {
		free(task.ret_children[i]);
	}
	for (size_t i = 0; i < task.ret_foreign_count; i++) {
		free(task.ret_foreign[i]);
	}
	free(task.ret_children);
	free(task.ret_foreign);
	return right ? task.ret_err.code : FAILING_WRONG;
}

static int take_data(void *context)
{
	struct registry_task task = { .operation = REGISTRY_OP_GET, .path = "/a" };
	host_node_take(&task, context);
	bool right = task.ret_err.code || (task.ret_len == 2 && strcmp(task.ret_data, "{}") == 0);
	free(task.ret_data);
	return right ? task.ret_err.code : FAILING_WRONG;
}

Test(registry_host_node, without_memory_a_node_is_taken_whole_or_not_at_all)
{
	json_t *node = json_loads("{\"node\":{\"data\":\"{}\",\"names\":[\"b\",\"c\"],"
				  "\"foreign\":[\"%41%20x\",\"%4\"]}}",
		0, NULL);
	cr_assert_not_null(node);
	failing_check_memory("a list", take_list, node);
	failing_check_memory("data", take_data, node);
	json_decref(node);
}
