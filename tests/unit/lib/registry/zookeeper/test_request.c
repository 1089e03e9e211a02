/*
 * Requests of the worker, with answers as the ZooKeeper client gives them: without memory it leaves
 * parts of an answer out, and the worker must not pass that on.
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/registry/zookeeper/worker/worker.h"

enum { PASSED_ON = 10, SILENT = 11, ENDED = 1 };

/* The answers of the client library. */
struct library {
	int started; /* the code of the call */
	const char *value;
	int len;
	const char *path;
	struct String_vector names;
	struct ACL_vector acl;
};

static struct library library;
static bool was_sent;

void zk_worker_send(struct buffer *frame)
{
	was_sent = true;
	buffer_clear(frame);
}

void zk_worker_say(const char *format, ...)
{
	(void)format;
}

/* ---- in place of the client library's ---- */

static const struct Stat stat_of_node;

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_context,
	data_completion_t completion, const void *data)
{
	(void)zh;
	(void)path;
	(void)watcher;
	(void)watcher_context;
	if (library.started == ZOK) {
		completion(ZOK, library.value, library.len, &stat_of_node, data);
	}
	return library.started;
}

int zoo_awget_children2(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_context,
	strings_stat_completion_t completion, const void *data)
{
	(void)zh;
	(void)path;
	(void)watcher;
	(void)watcher_context;
	completion(ZOK, &library.names, &stat_of_node, data);
	return ZOK;
}

int zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t completion, const void *data)
{
	(void)zh;
	(void)path;
	struct Stat stat = stat_of_node;
	completion(ZOK, &library.acl, &stat, data);
	return ZOK;
}

int zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int len,
	const struct ACL_vector *acl, int mode, string_stat_completion_t completion,
	const void *data)
{
	(void)zh;
	(void)path;
	(void)value;
	(void)len;
	(void)acl;
	(void)mode;
	completion(ZOK, library.path, &stat_of_node, data);
	return ZOK;
}

/* ---- the requests ---- */

/* The end of a process that starts such a request. */
static int end_of(enum zk_operation operation)
{
	const struct zk_request request = { .operation = operation, .path = "/a", .data = "" };
	pid_t child = fork();
	if (child == 0) {
		zk_worker_request(NULL, &request);
		_exit(was_sent ? PASSED_ON : SILENT);
	}
	int status;
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

Test(request, data_are_passed_on_unless_the_client_had_no_memory_for_them)
{
	library = (struct library){ .value = "data", .len = 4 };
	cr_assert_eq(end_of(ZK_GET), PASSED_ON);
	library = (struct library){ .value = NULL, .len = -1 };
	cr_assert_eq(end_of(ZK_GET), PASSED_ON, "a node may have no data");
	library = (struct library){ .value = NULL, .len = 4 };
	cr_assert_eq(end_of(ZK_GET), ENDED);
}

Test(request, a_node_that_was_made_has_a_path)
{
	library = (struct library){ .path = "/a" };
	cr_assert_eq(end_of(ZK_CREATE), PASSED_ON);
	library = (struct library){ .path = NULL };
	cr_assert_eq(end_of(ZK_CREATE), ENDED);
}

Test(request, each_child_has_a_name)
{
	char *names[] = { (char[]){ "b" }, (char[]){ "c" } };
	library = (struct library){ .names = { 2, names } };
	cr_assert_eq(end_of(ZK_CHILDREN), PASSED_ON);
	names[1] = NULL;
	cr_assert_eq(end_of(ZK_CHILDREN), ENDED);
}

Test(request, each_entry_of_an_acl_is_whole)
{
	struct ACL entry = { .perms = 31, .id = { (char[]){ "world" }, (char[]){ "anyone" } } };
	library = (struct library){ .acl = { 1, &entry } };
	cr_assert_eq(end_of(ZK_ACL), PASSED_ON);
	entry.id.id = NULL;
	cr_assert_eq(end_of(ZK_ACL), ENDED);
}

Test(request, a_request_that_the_client_may_have_queued_is_not_answered)
{
	library = (struct library){ .started = ZINVALIDSTATE };
	cr_assert_eq(end_of(ZK_GET), PASSED_ON);
	library = (struct library){ .started = ZSYSTEMERROR };
	cr_assert_eq(end_of(ZK_GET), ENDED);
	library = (struct library){ .started = ZMARSHALLINGERROR };
	cr_assert_eq(end_of(ZK_GET), ENDED);
}
