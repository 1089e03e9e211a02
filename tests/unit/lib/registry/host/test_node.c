/* The host: backend: what the host's agent answers about a node. */
#include "lib/base/array.h"
#include "lib/registry/host/node.h"
#include "tests/unit/lib/registry/host/host_stage.h"

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
