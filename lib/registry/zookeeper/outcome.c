/* The meaning of ZooKeeper's answers for a task. */
#include "lib/base/array.h"
#include "lib/registry/zookeeper/zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/base/text.h"

/*
 * A replaced node's successor begins at version 0 again; each set of the data adds one, until it
 * differs.
 */
static uint8_t sets_for(const struct registry_task *task)
{
	return task->expected.version == 1 ? 2 : 1;
}

struct zk_request registry_zk_request(const struct registry_task *task, const char *path)
{
	static const enum zk_operation operations[] = {
		[REGISTRY_OP_GET] = ZK_GET,
		[REGISTRY_OP_CHILDREN] = ZK_CHILDREN,
		[REGISTRY_OP_STAT] = ZK_EXISTS,
		[REGISTRY_OP_CREATE] = ZK_CREATE,
		[REGISTRY_OP_SET] = ZK_SET,
		[REGISTRY_OP_DELETE] = ZK_DELETE,
		[REGISTRY_OP_REPLACE] = ZK_REPLACE,
	};
	bool exact = task->has_expected || task->operation == REGISTRY_OP_REPLACE;
	return (struct zk_request){
		.operation = operations[task->operation],
		.path = path,
		.data = task->data ? task->data : "",
		.len = task->data ? task->len : 0,
		.version = exact ? (int32_t)task->expected.version : -1,
		.exact = exact,
		.czxid = task->expected.node_id,
		.watch = task->watch,
		.ephemeral = task->ephemeral,
		.sequential = task->sequential,
		.container = task->container,
		.sets = task->operation == REGISTRY_OP_REPLACE ? sets_for(task) : 0,
	};
}

bool registry_zk_is_loss(int32_t rc)
{
	return rc == ZK_RC_CONNECTION_LOSS || rc == ZK_RC_OPERATION_TIMEOUT ||
		rc == ZK_RC_INVALID_STATE || rc == ZK_RC_SESSION_EXPIRED || rc == ZK_RC_CLOSING ||
		rc == ZK_RC_SESSION_MOVED;
}

/*
 * A server does not say which entry it refuses: those that every server knows, or that were left
 * out, are not the one.
 */
static void set_acl_refused(struct registry_task *task)
{
	char entries[256] = "";
	for (size_t i = 0; task->acl && i < task->acl->count; i++) {
		const struct registry_acl_entry *entry = &task->acl->entries[i];
		if (strcmp(entry->scheme, "world") != 0 && strcmp(entry->scheme, "auth") != 0 &&
			(entry->required || strcmp(entry->scheme, "sasl") != 0)) {
			size_t used = strlen(entries);
			text_printf(entries + used, sizeof(entries) - used, "%s%s:%s",
				used ? ", " : "", entry->scheme, entry->id);
		}
	}
	err_set(&task->ret_err, BERTH_FAILED,
		"%s: the server refuses the access control list%s%s (system_accounts): it does not "
		"know the scheme, or the id is malformed",
		task->path, *entries ? ", one of " : "", entries);
}

void registry_zk_set_error(struct registry_task *task, int32_t rc)
{
	static const struct {
		int32_t rc;
		int code;
		const char *words;
	} errors[] = {
		{ ZK_RC_NO_NODE, BERTH_PATH_NOT_FOUND, "no such path" },
		{ ZK_RC_NODE_EXISTS, BERTH_FILE_ALREADY_EXISTS, "the path exists already" },
		{ ZK_RC_BAD_VERSION, BERTH_FILE_ALREADY_EXISTS, "the version is another one" },
		{ ZK_RC_NOT_EMPTY, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY, "it has children" },
		{ ZK_RC_NO_AUTH, BERTH_NO_PATH_PERMISSIONS, "permission denied" },
		{ ZK_RC_NO_CHILDREN_FOR_EPHEMERALS, BERTH_NO_CHILDREN_FOR_EPHEMERALS,
			"its parent is ephemeral and can have no children" },
		{ ZK_RC_AUTH_FAILED, BERTH_AUTHENTICATION_FAILED,
			"the server refuses our credentials" },
		{ ZK_RC_BAD_ARGUMENTS, BERTH_FAILED, "ZooKeeper takes this for a bad request" },
		{ ZK_RC_QUOTA_EXCEEDED, BERTH_LIMIT_EXCEEDED,
			"the server refuses it: the quota of this part of its tree is used up" },
		{ ZK_RC_THROTTLED, BERTH_REGISTRY_UNAVAILABLE,
			"the server is overloaded and did nothing" },
	};
	if (rc == ZK_RC_INVALID_ACL) {
		set_acl_refused(task);
		return;
	}
	if (rc == ZK_RC_NOT_EMPTY && task->operation == REGISTRY_OP_REPLACE && task->ephemeral) {
		rc = ZK_RC_NO_CHILDREN_FOR_EPHEMERALS;
	}
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		if (errors[i].rc == rc) {
			err_set(&task->ret_err, errors[i].code, "%s: %s", task->path,
				errors[i].words);
			return;
		}
	}
	if (registry_zk_is_loss(rc)) {
		err_set(&task->ret_err, BERTH_REGISTRY_UNAVAILABLE, "%s: the connection is lost",
			task->path);
	} else {
		err_set(&task->ret_err, BERTH_FAILED, "%s: ZooKeeper error %d", task->path,
			(int)rc);
	}
}

void registry_zk_set_stat(struct registry_task *task, const struct zk_stat *stat, uint64_t session)
{
	task->ret_stat = (struct registry_stat){
		.created_ms = stat->ctime_ms,
		.modified_ms = stat->mtime_ms,
		.node_id = stat->czxid,
		.version = stat->version,
		.size = stat->size,
		.children = stat->children,
		.ephemeral = stat->owner != 0,
		.own = stat->owner != 0 && stat->owner == session,
		.session = stat->owner,
	};
}

/* ---- after a lost answer ---- */

static bool same_data(const struct registry_task *task, const struct zk_result *found)
{
	return found->len == task->len && found->stat.size == task->len &&
		(task->len == 0 || memcmp(found->data, task->data, task->len) == 0);
}

/*
 * A node as this task would have made it. Another client's persistent node with the same data
 * passes too, which does no harm.
 */
static bool is_as_created(
	const struct registry_task *task, const struct zk_result *found, uint64_t session)
{
	uint64_t owner = task->ephemeral ? session : 0;
	return found->stat.owner == owner && same_data(task, found);
}

static enum registry_zk_verdict failed(struct registry_task *task, int32_t rc)
{
	registry_zk_set_error(task, rc);
	return REGISTRY_ZK_FAILED;
}

static enum registry_zk_verdict fail_unknown(struct registry_task *task)
{
	err_set(&task->ret_err, BERTH_TIMEOUT,
		"%s: the connection broke, and later writes hide whether this write happened",
		task->path);
	return REGISTRY_ZK_FAILED;
}

static enum registry_zk_verdict judge_create(
	struct registry_task *task, const struct zk_result *found, uint64_t session)
{
	if (task->sequential) {
		return fail_unknown(task);
	}
	if (found->rc == ZK_RC_NO_NODE) {
		return REGISTRY_ZK_AGAIN;
	}
	if (is_as_created(task, found, session)) {
		return REGISTRY_ZK_DONE;
	}
	/* Another client may have written over a persistent record since it was made. */
	bool may_be_ours = !task->ephemeral && task->len > 0 && found->stat.owner == 0;
	return may_be_ours ? fail_unknown(task) : failed(task, ZK_RC_NODE_EXISTS);
}

static enum registry_zk_verdict judge_set(struct registry_task *task, const struct zk_result *found)
{
	if (found->rc == ZK_RC_NO_NODE) {
		return failed(task, ZK_RC_NO_NODE);
	}
	if (!task->has_expected) {
		return same_data(task, found) ? REGISTRY_ZK_DONE : REGISTRY_ZK_AGAIN;
	}
	int64_t written = task->expected.version + 1;
	if (found->stat.czxid != task->expected.node_id) {
		return failed(task, ZK_RC_BAD_VERSION);
	}
	if (found->stat.version == written) {
		return same_data(task, found) ? REGISTRY_ZK_DONE : failed(task, ZK_RC_BAD_VERSION);
	}
	if (found->stat.version == task->expected.version) {
		return REGISTRY_ZK_AGAIN;
	}
	return found->stat.version > written ? fail_unknown(task) : failed(task, ZK_RC_BAD_VERSION);
}

static enum registry_zk_verdict judge_delete(
	struct registry_task *task, const struct zk_result *found)
{
	if (found->rc == ZK_RC_NO_NODE) {
		return REGISTRY_ZK_DONE;
	}
	if (!task->has_expected) {
		return REGISTRY_ZK_AGAIN;
	}
	/* The expected node is gone: that is the wanted result. */
	if (found->stat.czxid != task->expected.node_id) {
		return REGISTRY_ZK_DONE;
	}
	return found->stat.version == task->expected.version ? REGISTRY_ZK_AGAIN
							     : failed(task, ZK_RC_BAD_VERSION);
}

static enum registry_zk_verdict judge_replace(
	struct registry_task *task, const struct zk_result *found, uint64_t session)
{
	if (found->rc == ZK_RC_NO_NODE) {
		return failed(task, ZK_RC_NO_NODE);
	}
	if (found->stat.czxid == task->expected.node_id) {
		return found->stat.version == task->expected.version
			? REGISTRY_ZK_AGAIN
			: failed(task, ZK_RC_BAD_VERSION);
	}
	return is_as_created(task, found, session) ? REGISTRY_ZK_DONE
						   : failed(task, ZK_RC_BAD_VERSION);
}

enum registry_zk_verdict registry_zk_judge(
	struct registry_task *task, const struct zk_result *found, uint64_t session)
{
	if (found->rc != ZK_RC_OK && found->rc != ZK_RC_NO_NODE) {
		return failed(task, found->rc);
	}
	switch (task->operation) {
	case REGISTRY_OP_CREATE:
		return judge_create(task, found, session);
	case REGISTRY_OP_SET:
		return judge_set(task, found);
	case REGISTRY_OP_DELETE:
		return judge_delete(task, found);
	case REGISTRY_OP_REPLACE:
		return judge_replace(task, found, session);
	default:
		return REGISTRY_ZK_AGAIN;
	}
}

/* ---- after a denial ---- */

static bool about_parent(const struct registry_task *task)
{
	return task->operation == REGISTRY_OP_CREATE || task->operation == REGISTRY_OP_DELETE ||
		task->operation == REGISTRY_OP_REPLACE;
}

size_t registry_zk_acl_path_len(const struct registry_task *task)
{
	size_t parent_len = path_parent_len(task->path);
	return about_parent(task) && parent_len > 0 ? parent_len : strlen(task->path);
}

static unsigned needed_permissions(const struct registry_task *task)
{
	enum { READ = 1, WRITE = 2, CREATE = 4, DELETE = 8 };
	switch (task->operation) {
	case REGISTRY_OP_CREATE:
		return CREATE;
	case REGISTRY_OP_SET:
		return WRITE;
	case REGISTRY_OP_DELETE:
		return DELETE;
	case REGISTRY_OP_REPLACE:
		return CREATE | DELETE;
	default:
		return READ;
	}
}

bool registry_zk_password_wrong(
	const struct registry_task *task, struct zk_list acl, const char *credential)
{
	unsigned needed = needed_permissions(task);
	int user_len = (int)strcspn(credential, ":");
	char user[1100]; /* a credential has less than 1024 bytes */
	snprintf(user, sizeof(user), ":digest:%.*s:", user_len, credential);
	for (const char *entry; (entry = zk_list_next(&acl));) {
		char *identity;
		unsigned long permissions = strtoul(entry, &identity, 10);
		if ((permissions & needed) == needed &&
			strncmp(identity, user, strlen(user)) == 0) {
			return true;
		}
	}
	return false;
}
