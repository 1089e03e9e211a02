#include <criterion/criterion.h>
#include <string.h>

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

Test(zk_outcome, a_node_without_content_exists_whatever_another_client_wrote_to_it)
{
	write_record(REGISTRY_OP_CREATE, false);
	task.len = 0;
	check_failed(present("other", 0, NODE, 1), BERTH_FILE_ALREADY_EXISTS);
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
