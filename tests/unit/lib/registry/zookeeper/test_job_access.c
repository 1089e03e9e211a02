/* Tasks that find no root, or that the server does not permit. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "tests/support/zk_task.h"

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return zk_stage_clock(clock, now);
}

/* The lists of a task that has made a node. */
static struct registry_acl_entry entries[] = {
	{ .scheme = "sasl", .id = "joe@HOME", .permissions = 31 },
	{ .scheme = "world", .id = "anyone", .permissions = 1 },
};
static const struct registry_acl acl = { .entries = entries, .count = 2 };

static void end_stage(void)
{
	free_results(&task);
	zk_stage_detach();
}

TestSuite(zk_access, .init = zk_stage_open_connected, .fini = end_stage);
TestSuite(zk_access_secure, .fini = end_stage);

/* ---- the registry's root ---- */

Test(zk_access_secure, the_first_write_makes_each_element_of_the_root)
{
	zk_stage_open((struct registry_options){ .url = "zookeeper://one/deep/root/here" });
	zk_stage_connect();
	begin(REGISTRY_OP_CREATE, "/a");
	answer(submitted(ZK_CREATE, "/deep/root/here/a"), ZK_RC_NO_NODE);
	const struct zk_request *first = request(ZK_CREATE, "/deep");
	cr_assert_eq(first->version, -1);
	cr_assert(!first->ephemeral);
	/* Above the nodes that we may change, only the last answer decides. */
	answer(first, ZK_RC_NO_AUTH);
	answer(request(ZK_CREATE, "/deep/root"), ZK_RC_OK);
	answer(request(ZK_CREATE, "/deep/root/here"), ZK_RC_NODE_EXISTS);
	answer(request(ZK_CREATE, "/deep/root/here/a"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
}

/* ---- access ---- */

static void check_list(struct zk_list list, const char *first, const char *second)
{
	const char *words[2];
	for (int i = 0; i < 2; i++) {
		words[i] = zk_list_next(&list);
	}
	cr_assert_str_eq(words[0], first);
	cr_assert_str_eq(words[1] ? words[1] : "", second);
	cr_assert_null(zk_list_next(&list));
}

Test(zk_access, accounts_that_the_server_does_not_know_are_left_out)
{
	begin(REGISTRY_OP_CREATE, "/a/b");
	task.acl = &acl;
	const struct zk_request *create = submitted(ZK_CREATE, "/registry/a/b");
	check_list(create->acl, "31:sasl:joe@HOME", "1:world:anyone");
	answer(create, ZK_RC_INVALID_ACL);
	create = request(ZK_CREATE, "/registry/a/b");
	check_list(create->acl, "1:world:anyone", "");
	assert_words(zk_stage.log,
		"warn: the server knows no SASL accounts; these get no rights: sasl:joe@HOME\n");
	answer(create, ZK_RC_INVALID_ACL);
	check_code(&task, BERTH_FAILED);
	begin(REGISTRY_OP_CREATE, "/a/c");
	task.acl = &acl;
	create = submitted(ZK_CREATE, "/registry/a/c");
	check_list(create->acl, "1:world:anyone", "");
}

Test(zk_access, accounts_that_are_required_stay)
{
	struct registry_acl_entry required = { "sasl", "joe@HOME", 31, true };
	const struct registry_acl list = { .entries = &required, .count = 1 };
	begin(REGISTRY_OP_CREATE, "/a/b");
	task.acl = &list;
	answer(submitted(ZK_CREATE, "/registry/a/b"), ZK_RC_INVALID_ACL);
	check_code(&task, BERTH_FAILED);
	assert_words(task.ret_err.msg, "sasl:joe@HOME");
}

Test(zk_access, many_accounts_that_get_no_rights_fit_into_a_line)
{
	enum { ACCOUNTS = 30 };
	static struct registry_acl_entry many[ACCOUNTS];
	const struct registry_acl list = { .entries = many, .count = ACCOUNTS };
	for (int i = 0; i < ACCOUNTS; i++) {
		many[i] = (struct registry_acl_entry){ .scheme = "sasl",
			.id = "somebody-with-a-name-as-long-as-this@SOME.REALM" };
	}
	begin(REGISTRY_OP_CREATE, "/a/b");
	task.acl = &list;
	answer(submitted(ZK_CREATE, "/registry/a/b"), ZK_RC_INVALID_ACL);
	cr_assert_eq(request(ZK_CREATE, "/registry/a/b")->acl.count, 0);
	assert_words(
		zk_stage.log, "no rights: sasl:somebody-with-a-name-as-long-as-this@SOME.REALM");
}

static void open_with(struct registry_options options)
{
	static char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, "joe:secret", 10), 10);
	close(fd);
	options.auth = "digest";
	options.auth_file = path;
	zk_stage_open(options);
	unlink(path);
	cr_assert_str_eq(zk_stage.hello.credential, "joe:secret");
	zk_stage_connect();
}

static void open_with_password(void)
{
	open_with((struct registry_options){ 0 });
}

Test(zk_access_secure, the_root_is_made_without_accounts_that_the_server_does_not_know)
{
	open_with((struct registry_options){ .secure = true, .system_accounts = "sasl:yarn@HOME" });
	begin(REGISTRY_OP_CREATE, "/a");
	answer(submitted(ZK_CREATE, "/registry/a"), ZK_RC_NO_NODE);
	const struct zk_request *root = request(ZK_CREATE, "/registry");
	size_t accounts = root->acl.count;
	answer(root, ZK_RC_INVALID_ACL);
	assert_words(zk_stage.log, "these get no rights: sasl:yarn@HOME\n");
	root = request(ZK_CREATE, "/registry");
	cr_assert_eq(root->acl.count, accounts - 1);
	answer(root, ZK_RC_OK);
	answer(request(ZK_CREATE, "/registry/a"), ZK_RC_OK);
	check_code(&task, 0);
}

/* The meaning of a refusal when the node has this list. */
static void check_denial(
	enum registry_operation operation, const char *node, struct zk_list list, int code)
{
	static const enum zk_operation operations[] = { [REGISTRY_OP_GET] = ZK_GET,
		[REGISTRY_OP_CREATE] = ZK_CREATE,
		[REGISTRY_OP_SET] = ZK_SET };
	begin(operation, "/a/b");
	answer(submitted(operations[operation], "/registry/a/b"), ZK_RC_NO_AUTH);
	cr_assert(!zk_stage_is_done(&task));
	const struct zk_request *ask = request(ZK_ACL, node);
	cr_assert(!ask->watch);
	zk_stage_result(&(struct zk_result){ .tag = ask->tag, .names = list });
	check_code(&task, code);
}

Test(zk_access_secure, a_refusal_of_a_known_user_is_for_a_wrong_password)
{
	const struct zk_list ours = { .packed = "6:digest:joe:hash", .len = 18, .count = 1 };
	const struct zk_list other = { .packed = "6:digest:jim:hash", .len = 18, .count = 1 };
	open_with_password();
	check_denial(REGISTRY_OP_CREATE, "/registry/a", ours, BERTH_AUTHENTICATION_FAILED);
	assert_words(task.ret_err.msg, "user 'joe' may do this");
	check_denial(REGISTRY_OP_SET, "/registry/a/b", other, BERTH_NO_PATH_PERMISSIONS);
	check_denial(REGISTRY_OP_GET, "/registry/a/b", ours, BERTH_NO_PATH_PERMISSIONS);
}

Test(zk_access_secure, a_refusal_stays_one_when_the_list_cannot_be_read)
{
	open_with_password();
	begin(REGISTRY_OP_SET, "/a/b");
	answer(submitted(ZK_SET, "/registry/a/b"), ZK_RC_NO_AUTH);
	answer(request(ZK_ACL, "/registry/a/b"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_NO_PATH_PERMISSIONS);
	begin(REGISTRY_OP_SET, "/a/b");
	answer(submitted(ZK_SET, "/registry/a/b"), ZK_RC_NO_AUTH);
	answer(request(ZK_ACL, "/registry/a/b"), ZK_RC_CONNECTION_LOSS);
	check_code(&task, BERTH_NO_PATH_PERMISSIONS);
}
