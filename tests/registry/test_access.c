/*
 * Write accessors on a real ZooKeeper: the ACLs that the registry writes for them, their rights,
 * and the end of these rights.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/registry_client.h"
#include "lib/registry/digest.h"
#include "tests/support/scratch.h"
#include "tests/support/zookeeper.h"

static struct zookeeper_server *server;
static struct answer answer;

static void start(void)
{
	server = zookeeper_server_share();
}

static void stop(void)
{
	answer_clear(&answer);
	zookeeper_server_stop(server);
}

TestSuite(access, .init = start, .fini = stop, .timeout = 300);

static struct registry *open_with(const char *credential, struct registry_options options)
{
	char file[SCRATCH_PATH];
	int fd = scratch_file(file);
	cr_assert_eq(write(fd, credential, strlen(credential)), (ssize_t)strlen(credential));
	close(fd);
	options.url = zookeeper_server_url(server);
	options.auth = "digest";
	options.auth_file = file;
	options.secure = true;
	struct registry *registry = client_open_with(&options);
	unlink(file);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

static struct registry *open_as(const char *credential)
{
	return open_with(
		credential, (struct registry_options){ .system_accounts = "digest:ops:abc=" });
}

static void add_accessor(struct registry *registry, const char *user, const char *password)
{
	struct err err = ERR_INIT;
	cr_assert_eq(registry_add_write_accessor(registry, user, password, &err), 0, "%s", err.msg);
}

static const char *put(struct registry *registry, const char *path, enum registry_bind_mode mode)
{
	client_put(registry, path, "{\"type\":\"JSONServiceRecord\"}", mode, false, &answer);
	return answer_name(&answer);
}

/* True when the node's list, as joe reads it, holds the entry. */
static bool lists(const char *node, const char *permissions, const char *user, const char *password)
{
	char digest[REGISTRY_DIGEST_SIZE];
	char entry[128];
	char out[1024];
	cr_assert_eq(registry_digest(digest, user, password), 0);
	snprintf(entry, sizeof(entry), "%s digest:%s:%s", permissions, user, digest);
	cr_assert_eq(zookeeper_probe_as(server, "joe:secret", out, sizeof(out), "acl", node, NULL),
		0, "%s", out);
	return strstr(out, entry) != NULL;
}

Test(access, accessors_have_all_rights_on_what_is_written_from_then_on)
{
	struct registry *joe = open_as("joe:secret");
	struct registry *ann = open_as("ann:hers");
	cr_assert_str_eq(put(joe, "/services/before", REGISTRY_BIND_CREATE), "OK");
	add_accessor(joe, "ann", "hers");
	cr_assert_str_eq(put(joe, "/services/shared", REGISTRY_BIND_CREATE), "OK");
	cr_assert(lists("/registry/services/shared", "rwcda", "joe", "secret"));
	cr_assert(lists("/registry/services/shared", "rwcda", "ann", "hers"));
	cr_assert_not(lists("/registry/services/before", "rwcda", "ann", "hers"));
	cr_assert_str_eq(put(ann, "/services/shared", REGISTRY_BIND_OVERWRITE), "OK");
	cr_assert_str_eq(put(ann, "/services/shared/below", REGISTRY_BIND_CREATE), "OK");
	cr_assert_str_eq(
		put(ann, "/services/before", REGISTRY_BIND_OVERWRITE), "NoPathPermissions");
	client_close(joe);
	client_close(ann);
}

Test(access, cleared_accessors_get_nothing_more_and_keep_what_they_have)
{
	struct registry *joe = open_as("joe:secret");
	struct registry *ann = open_as("ann:hers");
	add_accessor(joe, "ann", "hers");
	add_accessor(joe, "bob", "his");
	cr_assert_str_eq(put(joe, "/services/shared", REGISTRY_BIND_CREATE), "OK");
	registry_clear_write_accessors(joe);
	cr_assert_str_eq(put(joe, "/services/mine", REGISTRY_BIND_CREATE), "OK");
	cr_assert(lists("/registry/services/shared", "rwcda", "bob", "his"));
	cr_assert_not(lists("/registry/services/mine", "rwcda", "ann", "hers"));
	cr_assert_str_eq(put(ann, "/services/mine", REGISTRY_BIND_OVERWRITE), "NoPathPermissions");
	cr_assert_str_eq(put(ann, "/services/shared", REGISTRY_BIND_OVERWRITE), "OK");
	client_close(joe);
	client_close(ann);
}

Test(access, a_swap_of_the_node_keeps_accessors)
{
	struct registry *joe = open_as("joe:secret");
	add_accessor(joe, "ann", "hers");
	cr_assert_str_eq(put(joe, "/services/shared", REGISTRY_BIND_CREATE), "OK");
	client_put(joe, "/services/shared", "{\"type\":\"JSONServiceRecord\"}",
		REGISTRY_BIND_OVERWRITE, true, &answer);
	cr_assert_str_eq(answer_name(&answer), "OK");
	cr_assert(lists("/registry/services/shared", "rwcda", "ann", "hers"));
	client_close(joe);
}

Test(access, everybody_reads_and_walks)
{
	struct registry *joe = open_as("joe:secret");
	struct registry *anybody = client_open(zookeeper_server_url(server));
	const struct registry_criteria all = { .under = "/" };
	cr_assert_str_eq(put(joe, "/services/mine", REGISTRY_BIND_CREATE), "OK");
	cr_assert_eq(client_resolve(anybody, "/services/mine", &answer), 0);
	cr_assert_eq(client_list(anybody, "/services", &answer), 0);
	cr_assert_eq(client_find(anybody, &all, &answer), 0);
	cr_assert_eq(json_object_size(answer.records), 1);
	cr_assert_eq(client_delete(anybody, "/services/mine", REGISTRY_DELETE_NODE, NULL, &answer),
		BERTH_NO_PATH_PERMISSIONS);
	cr_assert_eq(client_delete(anybody, "/services", REGISTRY_DELETE_TREE, NULL, &answer),
		BERTH_NO_PATH_PERMISSIONS);
	cr_assert_eq(client_resolve(joe, "/services/mine", &answer), 0);
	client_close(joe);
	client_close(anybody);
}

Test(access, a_purge_without_rights_deletes_nothing_and_says_so)
{
	struct registry *joe = open_as("joe:secret");
	struct registry *anybody = client_open(zookeeper_server_url(server));
	const struct registry_criteria dead = { .id = "c1", .persistence = "container" };
	client_put(joe, "/services/c1",
		"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c1\",\"yarn:persistence\":"
		"\"container\"}",
		REGISTRY_BIND_CREATE, false, &answer);
	cr_assert_eq(client_purge(anybody, &dead, REGISTRY_PURGE_ALL, &answer),
		BERTH_NO_PATH_PERMISSIONS);
	cr_assert_eq(client_purge(joe, &dead, REGISTRY_PURGE_ALL, &answer), 0);
	cr_assert_eq(answer.count, 1);
	client_close(joe);
	client_close(anybody);
}

static unsigned warnings;
static char warning[512];

static void on_log(void *context, enum registry_log_level level, const char *message)
{
	(void)context;
	if (level == REGISTRY_LOG_WARN) {
		warnings++;
		snprintf(warning, sizeof(warning), "%s", message);
	}
}

Test(access, sasl_accounts_are_left_out_with_one_line_where_the_server_knows_none)
{
	char out[1024];
	struct registry *joe = open_with("joe:secret",
		(struct registry_options){ .system_accounts = REGISTRY_SYSTEM_ACCOUNTS,
			.realm = "EXAMPLE.COM",
			.on_log = on_log });
	cr_assert_str_eq(put(joe, "/users/joe/one", REGISTRY_BIND_CREATE), "OK");
	cr_assert_str_eq(put(joe, "/users/joe/two", REGISTRY_BIND_CREATE), "OK");
	cr_assert_eq(warnings, 1);
	cr_assert(strstr(warning, "sasl:yarn@EXAMPLE.COM sasl:mapred@EXAMPLE.COM"), "%s", warning);
	cr_assert(lists("/registry/users/joe/two", "rwcda", "joe", "secret"));
	cr_assert_eq(zookeeper_probe_as(server, "joe:secret", out, sizeof(out), "acl",
			     "/registry/users/joe", NULL),
		0);
	cr_assert_not(strstr(out, "sasl"), "%s", out);
	client_close(joe);
}

Test(access, accessors_can_be_given_from_the_start)
{
	char digest[REGISTRY_DIGEST_SIZE];
	char account[128];
	cr_assert_eq(registry_digest(digest, "ann", "hers"), 0);
	snprintf(account, sizeof(account), "digest:ann:%s", digest);
	struct registry *joe = open_with(
		"joe:secret", (struct registry_options){ .write_accessors = account });
	struct registry *ann = open_as("ann:hers");
	cr_assert_str_eq(put(joe, "/services/shared", REGISTRY_BIND_CREATE), "OK");
	cr_assert_str_eq(put(ann, "/services/shared", REGISTRY_BIND_OVERWRITE), "OK");
	client_close(joe);
	client_close(ann);
	const struct registry_options insecure = {
		.url = zookeeper_server_url(server), .write_accessors = account, .on_log = on_log
	};
	struct registry *anybody = client_open_with(&insecure);
	client_wait_state(anybody, REGISTRY_CONNECTED);
	cr_assert_eq(warnings, 1);
	cr_assert(strstr(warning, "do nothing"), "%s", warning);
	client_close(anybody);
}

Test(access, an_account_that_no_server_knows_is_named)
{
	struct registry *joe = open_with(
		"joe:secret", (struct registry_options){ .system_accounts = "frobnicate:me" });
	cr_assert_str_eq(put(joe, "/services/one", REGISTRY_BIND_CREATE), "Failed");
	cr_assert(strstr(answer.err.msg, "one of frobnicate:me (system_accounts)"), "%s",
		answer.err.msg);
	client_close(joe);
}

Test(access, an_accessor_without_secure_says_that_it_does_nothing)
{
	struct err err = ERR_INIT;
	struct registry *anybody = client_open(zookeeper_server_url(server));
	cr_assert_eq(registry_add_write_accessor(anybody, "ann", "hers", &err), BERTH_FAILED);
	cr_assert(strstr(err.msg, "does nothing"), "%s", err.msg);
	client_close(anybody);
}
