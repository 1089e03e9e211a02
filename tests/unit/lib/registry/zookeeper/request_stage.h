/*
 * The ZooKeeper client's functions for requests, which note what they are asked for and answer at
 * once with what a test says.
 */
#ifndef TESTS_UNIT_LIB_REGISTRY_ZOOKEEPER_REQUEST_STAGE_H
#define TESTS_UNIT_LIB_REGISTRY_ZOOKEEPER_REQUEST_STAGE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/limits.h"
#include "lib/registry/zookeeper/worker/worker.h"
#include "tests/support/failing.h"

enum { PASSED_ON = 10, SILENT = 11, ENDED = 1, TAG = 77, CALL_BYTES = 16 * 1024 };

/* The answers of the client library. */
struct library {
	int started; /* the code of the call */
	int rc;      /* that of the answer */
	const char *value;
	int len;
	const char *path;
	struct String_vector names;
	struct ACL_vector acl;
	int results[4]; /* of the parts of a transaction */
	struct Stat condition;
};

static struct library library;

/* Its calls in words, and the last watch. */
static char call[CALL_BYTES];
static watcher_fn watch;
static void *watch_context;

static bool was_sent;
static struct buffer sent;

void zk_worker_send(struct buffer *frame)
{
	failing_pause();
	was_sent = true;
	buffer_init(&sent, 2 * ZK_FRAME_MAX_BYTES);
	cr_assert_eq(buffer_append(&sent, frame->data, frame->len), 0);
	buffer_clear(frame);
	failing_resume();
}

static int said = -1;

void zk_worker_say(const char *format, ...)
{
	(void)!write(said, format, strlen(format));
}

/* ---- in place of the client library's ---- */

static const struct Stat stat_of_node = { .czxid = 101,
	.ephemeralOwner = 102,
	.ctime = 103,
	.mtime = 104,
	.version = 105,
	.dataLength = 106,
	.numChildren = 107 };

__attribute__((format(printf, 1, 2))) static inline void note(const char *format, ...)
{
	size_t len = strlen(call);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(call + len, sizeof(call) - len, format, arguments);
	va_end(arguments);
}

static inline void note_read(const char *name, const char *path, watcher_fn watcher, void *context)
{
	note("%s %s%s", name, path, watcher ? " watched" : "");
	watch = watcher;
	watch_context = context;
}

static inline void note_acl(const struct ACL_vector *acl)
{
	for (int32_t i = 0; i < acl->count; i++) {
		const struct ACL *entry = &acl->data[i];
		note(" %d:%s:%s", entry->perms, entry->id.scheme, entry->id.id);
	}
}

static inline const char *mode_name(int mode)
{
	return mode == ZOO_EPHEMERAL                ? "ephemeral"
		: mode == ZOO_EPHEMERAL_SEQUENTIAL  ? "ephemeral sequential"
		: mode == ZOO_PERSISTENT            ? "persistent"
		: mode == ZOO_PERSISTENT_SEQUENTIAL ? "persistent sequential"
		: mode == ZOO_CONTAINER             ? "container"
						    : "?";
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_context,
	data_completion_t completion, const void *data)
{
	(void)zh;
	note_read("get", path, watcher, watcher_context);
	if (library.started == ZOK) {
		completion(library.rc, library.value, library.len, &stat_of_node, data);
	}
	return library.started;
}

int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_context,
	stat_completion_t completion, const void *data)
{
	(void)zh;
	note_read("exists", path, watcher, watcher_context);
	completion(library.rc, &stat_of_node, data);
	return ZOK;
}

int zoo_aexists(zhandle_t *zh, const char *path, int watched, stat_completion_t completion,
	const void *data)
{
	(void)zh;
	note("look at %s%s, then ", path, watched ? " watched" : "");
	if (library.started == ZOK) {
		completion(library.rc, library.rc == ZOK ? &library.condition : NULL, data);
	}
	return library.started;
}

int zoo_awget_children2(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcher_context,
	strings_stat_completion_t completion, const void *data)
{
	(void)zh;
	note_read("children", path, watcher, watcher_context);
	completion(library.rc, &library.names, &stat_of_node, data);
	return ZOK;
}

int zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t completion, const void *data)
{
	(void)zh;
	note("acl %s", path);
	struct Stat stat = stat_of_node;
	completion(library.rc, &library.acl, &stat, data);
	return ZOK;
}

int zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int len,
	const struct ACL_vector *acl, int mode, string_stat_completion_t completion,
	const void *data)
{
	(void)zh;
	note("create %s '%.*s' %s", path, len, value, mode_name(mode));
	note_acl(acl);
	completion(library.rc, library.path, &stat_of_node, data);
	return ZOK;
}

int zoo_aset(zhandle_t *zh, const char *path, const char *value, int len, int version,
	stat_completion_t completion, const void *data)
{
	(void)zh;
	note("set %s '%.*s' of version %d", path, len, value, version);
	completion(library.rc, &stat_of_node, data);
	return ZOK;
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion,
	const void *data)
{
	(void)zh;
	note("delete %s of version %d", path, version);
	completion(library.rc, data);
	return ZOK;
}

int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data)
{
	(void)zh;
	note("sync %s", path);
	completion(library.rc, path, data);
	return ZOK;
}

int zoo_aremove_watches(zhandle_t *zh, const char *path, ZooWatcherType type, watcher_fn watcher,
	void *watcher_context, int local, void_completion_t *completion, const void *data)
{
	(void)zh;
	note("unwatch %s of %s%s", type == ZWATCHTYPE_DATA ? "data" : "anything", path,
		local ? " locally" : "");
	watch = watcher;
	watch_context = watcher_context;
	((void_completion_t)(void *)completion)(library.rc, data);
	return ZOK;
}

void zoo_delete_op_init(zoo_op_t *op, const char *path, int version)
{
	(void)op;
	note("delete %s of version %d", path, version);
}

void zoo_create_op_init(zoo_op_t *op, const char *path, const char *value, int len,
	const struct ACL_vector *acl, int mode, char *created, int size)
{
	(void)op;
	note(", create %.10s '%.*s' %s", path, len, value, mode_name(mode));
	note_acl(acl);
	memset(created, 'x', (size_t)size);
}

static struct Stat *set_stats[4];
static size_t set_count;

void zoo_set_op_init(
	zoo_op_t *op, const char *path, const char *value, int len, int version, struct Stat *stat)
{
	(void)op;
	note(", set %s '%.*s' of version %d", path, len, value, version);
	set_stats[set_count++] = stat;
}

int zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results,
	void_completion_t completion, const void *data)
{
	(void)zh;
	(void)ops;
	note(": %d", count);
	if (library.started == ZOK) {
		for (int i = 0; i < 4; i++) {
			results[i].err = library.results[i];
		}
		for (size_t i = 0; i < set_count; i++) {
			*set_stats[i] = stat_of_node;
		}
		completion(library.rc, data);
	}
	return library.started;
}

#endif
