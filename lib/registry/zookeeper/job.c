/*
 * Tasks under way. A job is a task and the request that was sent for it; the number of its slot is
 * the tag of its requests.
 *
 *   WAITING -> SENT -> handed back
 *               |
 *               |-> LOOKING -> SENT ...     absent: watch for its creation instead
 *               |-> DENIED -> handed back   no permission: is it for a wrong password?
 *               |-> MAKING -> SENT ...      a new registry: its first write makes the root node
 *               '-> UNKNOWN                 the connection broke: after the next one
 *                      '-> VERIFY -> handed back, or SENT again
 *
 *   ORPHAN: handed back already (deadline, abandoned); the slot waits for the worker's answer, so
 *       that no other task receives it.
 */
#include "lib/registry/zookeeper/zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/base/clock.h"
#include "lib/base/limits.h"

enum phase { FREE, WAITING, SENT, LOOKING, UNKNOWN, VERIFY, DENIED, MAKING, ORPHAN };

struct zk_job {
	enum phase phase;
	bool sent;   /* the write itself; before that, nothing can have happened */
	bool rooted; /* the root was made for it: not a second time */
	bool sasl;   /* the list that was sent last holds SASL accounts */
	struct registry_task *task;
	uint64_t session;   /* when it was sent */
	int64_t asked_ms;   /* when its last request was sent */
	uint32_t next_free; /* UINT32_MAX: the last */
	uint32_t made_len;  /* how much of the root is made */
};

/* task->tag of a task that has no slot. */
#define NO_SLOT UINT64_MAX

/* ---- slots ---- */

static bool grow(struct registry_zk *zk)
{
	size_t count = zk->jobs_count ? zk->jobs_count * 2 : 64;
	struct zk_job *jobs = realloc(zk->jobs, count * sizeof(*jobs));
	if (!jobs) {
		return false;
	}
	for (size_t i = zk->jobs_count; i < count; i++) {
		jobs[i] = (struct zk_job){ .next_free = i + 1 < count ? (uint32_t)i + 1
								      : zk->free_job };
	}
	zk->free_job = (uint32_t)zk->jobs_count;
	zk->jobs = jobs;
	zk->jobs_count = count;
	return true;
}

static struct zk_job *job_new(struct registry_zk *zk, struct registry_task *task)
{
	if (zk->free_job == UINT32_MAX && !grow(zk)) {
		return NULL;
	}
	struct zk_job *job = &zk->jobs[zk->free_job];
	task->tag = zk->free_job;
	zk->free_job = job->next_free;
	*job = (struct zk_job){ .phase = WAITING, .task = task };
	return job;
}

static uint32_t slot_of(const struct registry_zk *zk, const struct zk_job *job)
{
	return (uint32_t)(job - zk->jobs);
}

static void job_free(struct registry_zk *zk, struct zk_job *job)
{
	*job = (struct zk_job){ .phase = FREE, .next_free = zk->free_job };
	zk->free_job = slot_of(zk, job);
}

static bool awaits_answer(const struct zk_job *job)
{
	return job->phase != FREE && job->phase != WAITING && job->phase != UNKNOWN;
}

/* The callback may submit more, so that no job pointer is valid afterwards. */
static void complete(struct registry_zk *zk, struct registry_task *task)
{
	task->tag = NO_SLOT;
	if (zk->submitting) {
		list_append(&zk->finished, &task->link);
	} else {
		zk->backend.core.completed(zk->backend.core.core, task);
	}
}

/* Frees the slot, or leaves it to the answer that is still to come. */
static void release(struct registry_zk *zk, struct zk_job *job, bool answered)
{
	if (!answered && awaits_answer(job)) {
		*job = (struct zk_job){ .phase = ORPHAN, .asked_ms = job->asked_ms };
	} else {
		job_free(zk, job);
	}
}

/* Gives the task back when its answer has come, or never will. */
static void hand_back(struct registry_zk *zk, struct zk_job *job)
{
	struct registry_task *task = job->task;
	release(zk, job, true);
	complete(zk, task);
}

static void hand_back_early(struct registry_zk *zk, struct zk_job *job)
{
	struct registry_task *task = job->task;
	release(zk, job, false);
	complete(zk, task);
}

/* ---- asking ---- */

static bool is_sasl(const struct registry_acl_entry *entry)
{
	return strcmp(entry->scheme, "sasl") == 0;
}

/*
 * The ACL as a request carries it, in `out` (buffer_finish() it in any case); false without memory.
 */
static bool pack_acl(struct registry_zk *zk, struct zk_job *job, struct buffer *out,
	struct zk_list *ret_list, const struct registry_acl *acl)
{
	size_t count = 0;
	buffer_init(out, ZK_FRAME_MAX_BYTES);
	job->sasl = false;
	for (size_t i = 0; acl && i < acl->count; i++) {
		const struct registry_acl_entry *entry = &acl->entries[i];
		bool optional = is_sasl(entry) && !entry->required;
		if (zk->no_sasl && optional) {
			continue;
		}
		job->sasl = job->sasl || optional;
		buffer_printf(out, "%u:%s:%s", entry->permissions, entry->scheme, entry->id);
		buffer_append(out, "", 1);
		count++;
	}
	*ret_list = (struct zk_list){ .packed = out->data, .len = out->len, .count = count };
	return !out->failed;
}

/*
 * A server without SASL refuses every list that names such an account: from now on they are left
 * out, with one line.
 */
static void leave_out_sasl(struct registry_zk *zk, const struct registry_acl *acl)
{
	char message[512] = "the server knows no SASL accounts; these get no rights:";
	for (size_t i = 0; !zk->no_sasl && i < acl->count; i++) {
		if (is_sasl(&acl->entries[i]) && !acl->entries[i].required) {
			size_t used = strlen(message);
			text_printf(message + used, sizeof(message) - used, " sasl:%s",
				acl->entries[i].id);
		}
	}
	if (!zk->no_sasl && zk->backend.core.log) {
		zk->backend.core.log(zk->backend.core.core, REGISTRY_LOG_WARN, message);
	}
	zk->no_sasl = true;
}

static bool is_write(const struct registry_task *task)
{
	return task->operation == REGISTRY_OP_CREATE || task->operation == REGISTRY_OP_SET ||
		task->operation == REGISTRY_OP_DELETE || task->operation == REGISTRY_OP_REPLACE;
}

static bool send_request(
	struct registry_zk *zk, struct zk_job *job, enum phase phase, struct zk_request *request)
{
	request->tag = slot_of(zk, job);
	job->phase = phase;
	job->asked_ms = clock_monotonic_ms();
	return registry_zk_send(zk, request) == 0;
}

static void job_lost(struct registry_zk *zk, struct zk_job *job);

/* Something short about the task's path, or its first `path_len` bytes. */
static void ask(struct registry_zk *zk, struct zk_job *job, enum phase phase,
	enum zk_operation operation, size_t path_len)
{
	char part[REGISTRY_ZK_PATH_SIZE];
	char full[REGISTRY_ZK_PATH_SIZE];
	snprintf(part, sizeof(part), "%.*s", (int)path_len, job->task->path);
	struct zk_request request = {
		.operation = operation,
		.path = registry_zk_path(zk, full, part),
		.version = -1,
		.watch = phase == LOOKING,
	};
	if (!send_request(zk, job, phase, &request)) {
		job_lost(zk, job);
	}
}

static void send_task(struct registry_zk *zk, struct zk_job *job)
{
	char full[REGISTRY_ZK_PATH_SIZE];
	struct zk_request request = registry_zk_request(
		job->task, registry_zk_path(zk, full, job->task->path));
	struct buffer acl;
	bool packed = pack_acl(zk, job, &acl, &request.acl, job->task->acl);
	job->session = zk->session.id;
	if (packed && send_request(zk, job, SENT, &request)) {
		job->sent = true;
	} else {
		job_lost(zk, job);
	}
	buffer_finish(&acl);
}

/* The next element of the root, with the ACL of the whole. */
static void make_next(struct registry_zk *zk, struct zk_job *job)
{
	const char *rest = zk->root + job->made_len + 1;
	job->made_len += 1 + (uint32_t)strcspn(rest, "/");
	char path[REGISTRY_ZK_PATH_SIZE];
	snprintf(path, sizeof(path), "%.*s", (int)job->made_len, zk->root);
	struct zk_request request = { .operation = ZK_CREATE, .path = path, .version = -1 };
	struct buffer acl;
	if (!pack_acl(zk, job, &acl, &request.acl, zk->root_acl) ||
		!send_request(zk, job, MAKING, &request)) {
		job_lost(zk, job);
	}
	buffer_finish(&acl);
}

static void make_root(struct registry_zk *zk, struct zk_job *job)
{
	job->sent = false; /* it has come to nothing */
	job->made_len = 0;
	make_next(zk, job);
}

/* Nothing can be made at the top of a tree but for want of the tree. */
static bool lacks_root(const struct registry_zk *zk, const struct zk_job *job)
{
	return job->task->operation == REGISTRY_OP_CREATE && !job->rooted && *zk->root != '\0' &&
		path_parent_len(job->task->path) <= 1;
}

/*
 * The connection broke before the answer. Reads fail at once; writes are looked after when it is
 * back.
 */
static void job_lost(struct registry_zk *zk, struct zk_job *job)
{
	if (job->phase == ORPHAN) {
		job_free(zk, job);
	} else if (job->phase == DENIED) {
		registry_zk_set_error(job->task, ZK_RC_NO_AUTH);
		hand_back(zk, job);
	} else if (is_write(job->task)) {
		job->phase = job->sent ? UNKNOWN : WAITING;
	} else {
		registry_zk_set_error(job->task, ZK_RC_CONNECTION_LOSS);
		hand_back(zk, job);
	}
}

/* ---- answers ---- */

/* Nothing was learnt of the node: a watch must not take that for a state, and reads again. */
static void no_memory_for(struct registry_task *task, const char *what)
{
	err_set(&task->ret_err, task->watch ? BERTH_REGISTRY_UNAVAILABLE : BERTH_FAILED,
		"%s: no memory for its %s", task->path, what);
}

static void copy_children(struct registry_task *task, struct zk_list names)
{
	size_t wanted = names.count;
	if (!registry_list_fits(task->path, wanted, names.len, &task->ret_err)) {
		return;
	}
	char **children = calloc(wanted ? wanted : 1, sizeof(*children));
	size_t count = 0;
	for (const char *name;
		children && (name = zk_list_next(&names)) && (children[count] = strdup(name));) {
		count++;
	}
	if (!children || count < wanted) {
		no_memory_for(task, "children");
	}
	task->ret_children = children;
	task->ret_children_count = count;
}

static void copy_data(struct registry_task *task, const struct zk_result *result)
{
	if (result->stat.size > LIMIT_RECORD_BYTES) {
		/* The worker passes on no more of it than the marker, if it is there. */
		err_set(&task->ret_err, result->len > 0 ? BERTH_INVALID_RECORD : BERTH_NO_RECORD,
			"%s: it holds %u bytes, a record has %d at most", task->path,
			(unsigned)result->stat.size, LIMIT_RECORD_BYTES);
		return;
	}
	task->ret_data = malloc(result->len + 1);
	if (!task->ret_data) {
		no_memory_for(task, "data");
		return;
	}
	memcpy(task->ret_data, result->data, result->len);
	task->ret_data[result->len] = '\0';
	task->ret_len = result->len;
}

static void job_done(struct registry_zk *zk, struct zk_job *job, const struct zk_result *result)
{
	struct registry_task *task = job->task;
	registry_zk_set_stat(task, &result->stat, zk->session.id);
	if (task->operation == REGISTRY_OP_GET || task->sequential) {
		copy_data(task, result);
		task->ret_childless = result->stat.children == 0;
	} else if (task->operation == REGISTRY_OP_CHILDREN) {
		copy_children(task, result->names);
	}
	hand_back(zk, job);
}

static void job_failed(struct registry_zk *zk, struct zk_job *job, int32_t rc)
{
	registry_zk_set_error(job->task, rc);
	hand_back(zk, job);
}

static void on_answer(struct registry_zk *zk, struct zk_job *job, const struct zk_result *result)
{
	struct registry_task *task = job->task;
	if (result->rc == ZK_RC_OK) {
		job_done(zk, job, result);
	} else if (result->rc == ZK_RC_NO_NODE && task->watch) {
		ask(zk, job, LOOKING,
			task->operation == REGISTRY_OP_CHILDREN ? ZK_EXISTS_FOR_CHILDREN
								: ZK_EXISTS,
			strlen(task->path));
	} else if (result->rc == ZK_RC_NO_NODE && lacks_root(zk, job)) {
		make_root(zk, job);
	} else if (result->rc == ZK_RC_INVALID_ACL && job->sasl) {
		leave_out_sasl(zk, task->acl);
		send_task(zk, job);
	} else if (result->rc == ZK_RC_NO_AUTH && strcmp(zk->auth, "digest") == 0) {
		ask(zk, job, DENIED, ZK_ACL, registry_zk_acl_path_len(task));
	} else {
		job_failed(zk, job, result->rc);
	}
}

static void on_looked(struct registry_zk *zk, struct zk_job *job, const struct zk_result *result)
{
	if (result->rc == ZK_RC_OK) {
		send_task(zk, job); /* it appeared in between */
	} else {
		job_failed(zk, job, result->rc);
	}
}

/*
 * A failure to make an element may mean that it exists above the nodes that we may change: the
 * answer for the last one decides.
 */
static void on_made(struct registry_zk *zk, struct zk_job *job, const struct zk_result *result)
{
	if (result->rc == ZK_RC_INVALID_ACL && job->sasl) {
		leave_out_sasl(zk, zk->root_acl);
		make_root(zk, job);
	} else if (zk->root[job->made_len] != '\0') {
		make_next(zk, job);
	} else if (result->rc == ZK_RC_OK || result->rc == ZK_RC_NODE_EXISTS) {
		job->rooted = true;
		send_task(zk, job);
	} else {
		registry_zk_set_error(job->task, result->rc);
		err_wrap(&job->task->ret_err, "making the registry's root node %s", zk->root);
		hand_back(zk, job);
	}
}

static void on_verified(struct registry_zk *zk, struct zk_job *job, const struct zk_result *found)
{
	switch (registry_zk_judge(job->task, found, job->session)) {
	case REGISTRY_ZK_DONE:
		job_done(zk, job, found);
		break;
	case REGISTRY_ZK_AGAIN:
		send_task(zk, job);
		break;
	case REGISTRY_ZK_FAILED:
		hand_back(zk, job);
		break;
	}
}

static void on_denied(struct registry_zk *zk, struct zk_job *job, const struct zk_result *result)
{
	struct registry_task *task = job->task;
	if (result->rc == ZK_RC_OK &&
		registry_zk_password_wrong(task, result->names, zk->credential)) {
		err_set(&task->ret_err, BERTH_AUTHENTICATION_FAILED,
			"%s: user '%.*s' may do this, but has another password", task->path,
			(int)strcspn(zk->credential, ":"), zk->credential);
	}
	registry_zk_set_error(task, ZK_RC_NO_AUTH);
	hand_back(zk, job);
}

void registry_zk_on_result(struct registry_zk *zk, const struct zk_result *result)
{
	if (result->tag >= zk->jobs_count || !awaits_answer(&zk->jobs[result->tag])) {
		return;
	}
	struct zk_job *job = &zk->jobs[result->tag];
	registry_zk_heard(zk, result->rc, job->asked_ms);
	if (registry_zk_is_loss(result->rc)) {
		job_lost(zk, job);
		return;
	}
	switch (job->phase) {
	case SENT:
		on_answer(zk, job, result);
		break;
	case LOOKING:
		on_looked(zk, job, result);
		break;
	case VERIFY:
		on_verified(zk, job, result);
		break;
	case DENIED:
		on_denied(zk, job, result);
		break;
	case MAKING:
		on_made(zk, job, result);
		break;
	default:
		job_free(zk, job);
		break;
	}
}

/* ---- from the core ---- */

static void refuse(struct registry_zk *zk, struct registry_task *task, int code, const char *why)
{
	err_set(&task->ret_err, code, "%s: %s", task->path, why);
	task->tag = NO_SLOT;
	list_append(&zk->finished, &task->link);
}

void registry_zk_submit(struct registry_zk *zk, struct registry_task *task)
{
	if (zk->state == REGISTRY_DENIED) {
		refuse(zk, task, BERTH_AUTHENTICATION_FAILED, "the server refuses our credentials");
		return;
	}
	if (zk->state == REGISTRY_AWAY || zk->state == REGISTRY_LOST) {
		refuse(zk, task, BERTH_REGISTRY_UNAVAILABLE, "ZooKeeper is away");
		return;
	}
	if (zk->no_worker) {
		refuse(zk, task, BERTH_REGISTRY_UNAVAILABLE, zk->trouble);
		return;
	}
	struct zk_job *job = job_new(zk, task);
	if (!job) {
		refuse(zk, task, BERTH_FAILED, "no memory");
		return;
	}
	if (task->deadline_ms < zk->next_deadline_ms) {
		zk->next_deadline_ms = task->deadline_ms;
	}
	if (zk->state == REGISTRY_CONNECTED) {
		zk->submitting = true;
		send_task(zk, job);
		zk->submitting = false;
	}
}

void registry_zk_abandon(struct registry_zk *zk, struct registry_task *task)
{
	if (task->tag != NO_SLOT) {
		release(zk, &zk->jobs[task->tag], false);
	} else {
		list_remove(&task->link);
	}
}

void registry_zk_jobs_deliver(struct registry_zk *zk)
{
	/* Callbacks submit and abandon: take one after the other off the list. */
	while (!list_empty(&zk->finished)) {
		struct registry_task *task = LIST_ITEM(
			zk->finished.next, struct registry_task, link);
		list_remove(&task->link);
		zk->backend.core.completed(zk->backend.core.core, task);
	}
}

/* ---- all of them ---- */

void registry_zk_jobs_connected(struct registry_zk *zk)
{
	for (size_t i = 0; i < zk->jobs_count; i++) {
		struct zk_job *job = &zk->jobs[i];
		if (job->phase == WAITING) {
			send_task(zk, job);
		} else if (job->phase == UNKNOWN) {
			bool deleting = job->task->operation == REGISTRY_OP_DELETE;
			ask(zk, job, VERIFY, deleting ? ZK_EXISTS : ZK_GET,
				strlen(job->task->path));
		}
	}
}

void registry_zk_jobs_worker_lost(struct registry_zk *zk)
{
	for (size_t i = 0; i < zk->jobs_count; i++) {
		if (awaits_answer(&zk->jobs[i])) {
			job_lost(zk, &zk->jobs[i]);
		}
	}
}

static bool has_task(const struct zk_job *job)
{
	return job->phase != FREE && job->phase != ORPHAN;
}

static void job_fail(struct registry_zk *zk, struct zk_job *job, int code, const char *why)
{
	err_set(&job->task->ret_err, code, "%s: %s", job->task->path, why);
	hand_back_early(zk, job);
}

void registry_zk_jobs_fail(struct registry_zk *zk, int code, const char *why)
{
	for (size_t i = 0; i < zk->jobs_count; i++) {
		if (has_task(&zk->jobs[i])) {
			job_fail(zk, &zk->jobs[i], code, why);
		}
	}
}

void registry_zk_jobs_fail_unsent(struct registry_zk *zk, int code, const char *why)
{
	for (size_t i = 0; i < zk->jobs_count; i++) {
		if (zk->jobs[i].phase == WAITING) {
			job_fail(zk, &zk->jobs[i], code, why);
		}
	}
}

static void job_timed_out(struct registry_zk *zk, struct zk_job *job)
{
	struct registry_task *task = job->task;
	if (job->sent) {
		err_set(&task->ret_err, BERTH_TIMEOUT, "%s: no answer in time", task->path);
	} else {
		err_set(&task->ret_err, BERTH_REGISTRY_UNAVAILABLE, "%s: no connection in time%s%s",
			task->path, zk->trouble[0] ? ": " : "", zk->trouble);
	}
	hand_back_early(zk, job);
}

void registry_zk_jobs_deadlines(struct registry_zk *zk)
{
	if (zk->now_ms < zk->next_deadline_ms) {
		return;
	}
	/* First, because callbacks submit new tasks, which lower it again. */
	zk->next_deadline_ms = INT64_MAX;
	for (size_t i = 0; i < zk->jobs_count; i++) {
		struct zk_job *job = &zk->jobs[i];
		if (has_task(job) && job->task->deadline_ms <= zk->now_ms) {
			job_timed_out(zk, job);
		} else if (has_task(job) && job->task->deadline_ms < zk->next_deadline_ms) {
			zk->next_deadline_ms = job->task->deadline_ms;
		}
	}
}

void registry_zk_jobs_finish(struct registry_zk *zk)
{
	free(zk->jobs);
}
