#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/berth_error.h"
#include "lib/registry/zookeeper/zookeeper.h"

/* A write lost its answer; these are the states in which its node may be found afterwards. */

enum { SESSION = 7, OTHER_SESSION = 8, NODE = 100, LATER_NODE = 101 };

static struct registry_task task;

static void write_record(enum registry_operation operation, bool ephemeral)
{
	task = (struct registry_task){ .operation = operation,
		.path = "/a",
		.data = "mine",
		.len = 4,
		.ephemeral = ephemeral };
}

static void expect_node(uint32_t version)
{
	task.has_expected = true;
	task.expected = (struct registry_stat){ .node_id = NODE, .version = (int32_t)version };
}

static enum registry_zk_verdict absent(void)
{
	struct zk_result found = { .rc = ZK_RC_NO_NODE };
	return registry_zk_judge(&task, &found, SESSION);
}

static enum registry_zk_verdict present(
	const char *data, uint64_t owner, int64_t node, int32_t version)
{
	struct zk_result found = { .rc = ZK_RC_OK, .data = data, .len = strlen(data) };
	found.stat.size = (uint32_t)found.len;
	found.stat.owner = owner;
	found.stat.czxid = node;
	found.stat.version = version;
	return registry_zk_judge(&task, &found, SESSION);
}

static void check_failed(enum registry_zk_verdict verdict, int code)
{
	cr_expect_eq(verdict, REGISTRY_ZK_FAILED);
	cr_expect_eq(task.ret_err.code, code);
}

Test(zk_outcome, a_creation_has_happened_when_the_node_is_as_it_makes_it)
{
	write_record(REGISTRY_OP_CREATE, false);
	cr_expect_eq(present("mine", 0, NODE, 0), REGISTRY_ZK_DONE);
	write_record(REGISTRY_OP_CREATE, true);
	cr_expect_eq(present("mine", SESSION, NODE, 0), REGISTRY_ZK_DONE);
	cr_expect_eq(absent(), REGISTRY_ZK_AGAIN);
}

Test(zk_outcome, a_session_knows_that_it_has_not_made_the_node_of_another)
{
	write_record(REGISTRY_OP_CREATE, true);
	check_failed(present("mine", OTHER_SESSION, NODE, 0), BERTH_FILE_ALREADY_EXISTS);
	write_record(REGISTRY_OP_CREATE, false);
	check_failed(present("other", OTHER_SESSION, NODE, 0), BERTH_FILE_ALREADY_EXISTS);
}

Test(zk_outcome, nobody_knows_of_a_persistent_record_that_another_client_may_have_changed)
{
	write_record(REGISTRY_OP_CREATE, false);
	check_failed(present("other", 0, NODE, 1), BERTH_TIMEOUT);
}

Test(zk_outcome, versions_say_whether_a_change_has_happened)
{
	write_record(REGISTRY_OP_SET, false);
	expect_node(3);
	cr_expect_eq(present("old", 0, NODE, 3), REGISTRY_ZK_AGAIN);
	cr_expect_eq(present("mine", 0, NODE, 4), REGISTRY_ZK_DONE);
	check_failed(present("other", 0, NODE, 4), BERTH_FILE_ALREADY_EXISTS);
	write_record(REGISTRY_OP_SET, false);
	expect_node(3);
	check_failed(present("other", 0, NODE, 5), BERTH_TIMEOUT);
	write_record(REGISTRY_OP_SET, false);
	expect_node(3);
	check_failed(present("other", 0, LATER_NODE, 0), BERTH_FILE_ALREADY_EXISTS);
}

Test(zk_outcome, a_deletion_has_happened_when_its_node_has_gone)
{
	write_record(REGISTRY_OP_DELETE, false);
	expect_node(3);
	cr_expect_eq(absent(), REGISTRY_ZK_DONE);
	cr_expect_eq(present("other", 0, LATER_NODE, 0), REGISTRY_ZK_DONE);
	cr_expect_eq(present("old", 0, NODE, 3), REGISTRY_ZK_AGAIN);
	check_failed(present("other", 0, NODE, 4), BERTH_FILE_ALREADY_EXISTS);
}

Test(zk_outcome, a_write_over_anything_has_happened_when_the_data_are_there)
{
	write_record(REGISTRY_OP_SET, false);
	cr_expect_eq(present("mine", 0, NODE, 9), REGISTRY_ZK_DONE);
	cr_expect_eq(present("mind", 0, NODE, 9), REGISTRY_ZK_AGAIN);
	cr_expect_eq(present("min", 0, NODE, 9), REGISTRY_ZK_AGAIN);
	check_failed(absent(), BERTH_PATH_NOT_FOUND);
	write_record(REGISTRY_OP_SET, false);
	task.data = "x";
	task.len = 1;
	cr_expect_eq(present("y", 0, NODE, 9), REGISTRY_ZK_AGAIN);
	write_record(REGISTRY_OP_DELETE, false);
	cr_expect_eq(present("other", 0, NODE, 9), REGISTRY_ZK_AGAIN);
}

Test(zk_outcome, a_swap_has_happened_when_the_new_node_is_there)
{
	write_record(REGISTRY_OP_REPLACE, true);
	expect_node(3);
	cr_expect_eq(present("old", 0, NODE, 3), REGISTRY_ZK_AGAIN);
	cr_expect_eq(present("mine", SESSION, LATER_NODE, 1), REGISTRY_ZK_DONE);
	check_failed(present("old", 0, NODE, 4), BERTH_FILE_ALREADY_EXISTS);
	write_record(REGISTRY_OP_REPLACE, true);
	expect_node(3);
	check_failed(present("mine", OTHER_SESSION, LATER_NODE, 1), BERTH_FILE_ALREADY_EXISTS);
	write_record(REGISTRY_OP_REPLACE, true);
	expect_node(3);
	check_failed(absent(), BERTH_PATH_NOT_FOUND);
}

Test(zk_outcome, nobody_knows_which_numbered_node_was_made)
{
	write_record(REGISTRY_OP_CREATE, false);
	task.sequential = true;
	check_failed(absent(), BERTH_TIMEOUT);
	write_record(REGISTRY_OP_CREATE, false);
	task.data = "x";
	task.len = 1;
	check_failed(present("y", 0, NODE, 0), BERTH_TIMEOUT);
}

Test(zk_outcome, a_node_that_cannot_be_read_is_an_error)
{
	struct zk_result found = { .rc = ZK_RC_NO_AUTH };
	write_record(REGISTRY_OP_CREATE, false);
	check_failed(registry_zk_judge(&task, &found, SESSION), BERTH_NO_PATH_PERMISSIONS);
	task = (struct registry_task){ .operation = REGISTRY_OP_GET, .path = "/a" };
	cr_expect_eq(present("old", 0, NODE, 3), REGISTRY_ZK_AGAIN);
}

/* ---- requests ---- */

Test(zk_outcome, a_request_is_for_any_version_or_for_the_expected_node)
{
	write_record(REGISTRY_OP_SET, false);
	struct zk_request request = registry_zk_request(&task, "/root/a");
	cr_expect_eq(request.version, -1);
	cr_expect(!request.exact);
	cr_expect_eq(request.sets, 0);
	cr_expect_eq(request.len, 4);
	expect_node(3);
	request = registry_zk_request(&task, "/root/a");
	cr_expect_eq(request.version, 3);
	cr_expect(request.exact);
	cr_expect_eq(request.czxid, NODE);
	cr_expect_str_eq(request.path, "/root/a");
	task.data = NULL;
	request = registry_zk_request(&task, "/root/a");
	cr_expect_eq(request.len, 0);
	cr_expect_str_eq(request.data, "");
}

/* No version of the old node comes again: a writer that expects it must not take the new one. */
Test(zk_outcome, a_swapped_node_has_another_version_than_the_one_before)
{
	for (uint32_t version = 0; version < 4; version++) {
		write_record(REGISTRY_OP_REPLACE, true);
		expect_node(version);
		task.has_expected = false;
		struct zk_request request = registry_zk_request(&task, "/a");
		cr_expect(request.exact);
		cr_expect_gt(request.sets, 0);
		cr_expect_neq(request.sets, version, "it begins at 0, and each set adds one");
	}
}

/* ---- errors ---- */

Test(zk_outcome, an_ephemeral_record_cannot_take_the_place_of_a_node_with_children)
{
	write_record(REGISTRY_OP_REPLACE, true);
	registry_zk_set_error(&task, ZK_RC_NOT_EMPTY);
	cr_expect_eq(task.ret_err.code, BERTH_NO_CHILDREN_FOR_EPHEMERALS);
	write_record(REGISTRY_OP_REPLACE, false);
	registry_zk_set_error(&task, ZK_RC_NOT_EMPTY);
	cr_expect_eq(task.ret_err.code, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY);
	write_record(REGISTRY_OP_DELETE, true);
	registry_zk_set_error(&task, ZK_RC_NOT_EMPTY);
	cr_expect_eq(task.ret_err.code, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY);
}

/* Those that every server knows, and those that are left out, are not the one that it refuses. */
Test(zk_outcome, a_refused_list_names_the_entries_in_doubt)
{
	static struct registry_acl_entry entries[] = { { "world", "anyone", 31, false },
		{ "digest", "joe:x", 31, false }, { "sasl", "jim", 31, false },
		{ "auth", "", 31, false }, { "sasl", "ann", 31, true } };
	struct registry_acl acl = { entries, 5 };
	task = (struct registry_task){ .operation = REGISTRY_OP_CREATE, .path = "/a", .acl = &acl };
	registry_zk_set_error(&task, ZK_RC_INVALID_ACL);
	cr_expect_eq(task.ret_err.code, BERTH_FAILED);
	cr_expect(strstr(task.ret_err.msg, "list, one of digest:joe:x, sasl:ann (system_accounts)"),
		"%s", task.ret_err.msg);
	acl.count = 1;
	task = (struct registry_task){ .operation = REGISTRY_OP_CREATE, .path = "/a", .acl = &acl };
	registry_zk_set_error(&task, ZK_RC_INVALID_ACL);
	cr_expect(strstr(task.ret_err.msg, "list (system_accounts)"), "%s", task.ret_err.msg);
	task = (struct registry_task){ .operation = REGISTRY_OP_CREATE, .path = "/a" };
	registry_zk_set_error(&task, ZK_RC_INVALID_ACL);
	cr_expect_eq(task.ret_err.code, BERTH_FAILED);
}

/* ---- denials ---- */

static size_t deciding(enum registry_operation operation, const char *path)
{
	task = (struct registry_task){ .operation = operation, .path = path };
	return registry_zk_acl_path_len(&task);
}

Test(zk_outcome, the_parent_decides_on_creation_and_deletion)
{
	cr_expect_eq(deciding(REGISTRY_OP_CREATE, "/a/b"), 2);
	cr_expect_eq(deciding(REGISTRY_OP_DELETE, "/a/b"), 2);
	cr_expect_eq(deciding(REGISTRY_OP_REPLACE, "/a/b"), 2);
	cr_expect_eq(deciding(REGISTRY_OP_SET, "/a/b"), 4);
	cr_expect_eq(deciding(REGISTRY_OP_GET, "/a/b"), 4);
	cr_expect_eq(deciding(REGISTRY_OP_CREATE, "/a"), 1);
	cr_expect_eq(deciding(REGISTRY_OP_CREATE, "/"), 1);
}

static bool wrong_password(enum registry_operation operation, const char *entry)
{
	const struct zk_list acl = { .packed = entry, .len = strlen(entry) + 1, .count = 1 };
	task = (struct registry_task){ .operation = operation, .path = "/a" };
	return registry_zk_password_wrong(&task, acl, "joe:secret");
}

Test(zk_outcome, each_operation_needs_its_permissions)
{
	static const struct {
		enum registry_operation operation;
		unsigned needed;
	} cases[] = { { REGISTRY_OP_GET, 1 }, { REGISTRY_OP_CHILDREN, 1 }, { REGISTRY_OP_SET, 2 },
		{ REGISTRY_OP_CREATE, 4 }, { REGISTRY_OP_DELETE, 8 }, { REGISTRY_OP_REPLACE, 12 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (unsigned given = 0; given < 32; given++) {
			char entry[64];
			snprintf(entry, sizeof(entry), "%u:digest:joe:hash", given);
			cr_expect_eq(wrong_password(cases[i].operation, entry),
				(given & cases[i].needed) == cases[i].needed, "%zu: %u", i, given);
		}
	}
	cr_expect(!wrong_password(REGISTRY_OP_GET, "31:digest:joes:hash"));
	cr_expect(!wrong_password(REGISTRY_OP_GET, "31:sasl:joe:hash"));
}
