/*
 * mknode and bind: writing one node, with the parents that it needs.
 *
 *     LOOK -----(absent)-----> CREATE <--> (parents, upwards until one exists, then down again)
 *       |                        |
 *       |(exists)                |(appeared meanwhile: back to LOOK)
 *       v                        v
 *     WRITE (set or replace) --> done; lost a race: back to LOOK
 *
 * Each time another client's write undoes a step the request begins a new round. The number of
 * rounds is bounded, so that a request ends.
 */
#include "lib/registry/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/path.h"

enum step { STEP_LOOK, STEP_CREATE, STEP_WRITE };

struct write_request {
	struct registry_request base;
	enum step step;
	bool parents;    /* make them */
	bool bind;       /* else mknode */
	bool going_down; /* parents: the one above was there a moment ago */
	int rounds;
	enum registry_bind_mode mode;
	bool ephemeral;
	bool sequential;
	bool container_parents;
	bool anew;
	char *data;
	size_t len;
	struct registry_stat expected; /* REPLACE: the user's */
	void (*on_parent)(void *context, const char *path, uint64_t node_id);
	char *owner;  /* mknode: of the node; or NULL */
	char *prefix; /* the path of the node being created: `path`, or a parent's */
	struct registry_acl *acl;
};

static void release(struct registry_request *base)
{
	struct write_request *request = (struct write_request *)base;
	registry_acl_free(request->acl);
	free(request->prefix);
	free(request->owner);
	free(request->data);
}

static void fail(struct write_request *request, int code, const char *message)
{
	struct err err = ERR_INIT;
	err_set(&err, code, "%s: %s", request->base.path, message);
	registry_request_fail(&request->base, &err);
}

/* Fails the request at the next dispatch: the caller may be outside of registry_dispatch(). */
static void refuse(struct write_request *request, const struct err *err)
{
	request->step = STEP_WRITE;
	registry_call_refuse(request->base.registry, &request->base.call, err);
}

static void refuse_no_memory(struct write_request *request)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_FAILED, "no memory to write %s", request->base.path);
	refuse(request, &err);
}

static struct registry_task *next_task(struct write_request *request, enum step step)
{
	request->step = step;
	registry_call_clear(&request->base.call);
	request->base.call.may_exist = false;
	return &request->base.call.task;
}

static void look(struct write_request *request)
{
	next_task(request, STEP_LOOK);
	registry_request_submit(&request->base, REGISTRY_OP_STAT);
}

/* The node itself, or a parent: those are persistent and hold nothing. */
static void create(struct write_request *request)
{
	struct registry_task *task = next_task(request, STEP_CREATE);
	bool last = strcmp(request->prefix, request->base.path) == 0;
	const char *owner = last ? request->owner : NULL;
	registry_acl_free(request->acl);
	request->acl = registry_acl_for(
		&request->base.registry->acl_policy, request->prefix, owner);
	if (!request->acl) {
		refuse_no_memory(request);
		return;
	}
	task->path = request->prefix;
	task->data = last && request->data ? request->data : "";
	task->len = last ? request->len : 0;
	task->ephemeral = last && request->ephemeral;
	task->sequential = last && request->sequential;
	task->container = !last && request->container_parents;
	task->acl = request->acl;
	task->home_of = owner;
	request->base.call.may_exist = !last || !request->bind;
	registry_request_submit(&request->base, REGISTRY_OP_CREATE);
}

/* False when there were too many rounds; in that case the request is gone. */
static bool next_round(struct write_request *request)
{
	if (++request->rounds < REGISTRY_MAX_ROUNDS) {
		return true;
	}
	fail(request, BERTH_TIMEOUT,
		"gave up: others keep changing it at the same time (contention)");
	return false;
}

/* The timeout is for each node: a slow registry may need long for all of them. */
static void renew_deadline(struct write_request *request)
{
	request->base.deadline_ms = registry_call_deadline_ms(request->base.registry);
}

static void create_parent(struct write_request *request)
{
	size_t len = path_parent_len(request->prefix);
	if (len == 0) {
		fail(request, BERTH_PATH_NOT_FOUND, "the registry's root does not exist");
		return;
	}
	if (request->going_down && !next_round(request)) {
		return;
	}
	request->going_down = false;
	request->prefix[len] = '\0';
	renew_deadline(request);
	create(request);
}

static void create_child(struct write_request *request)
{
	const char *path = request->base.path;
	size_t len = strcmp(request->prefix, "/") == 0 ? 0 : strlen(request->prefix);
	size_t longer = len + 1 + strcspn(path + len + 1, "/");
	memcpy(request->prefix, path, longer);
	request->prefix[longer] = '\0';
	request->going_down = true;
	renew_deadline(request);
	create(request);
}

static void look_again(struct write_request *request)
{
	if (next_round(request)) {
		strcpy(request->prefix, request->base.path);
		request->going_down = false;
		look(request);
	}
}

static void succeed_numbered(struct write_request *request)
{
	enum { DIGITS = 10 };
	const struct registry_task *task = &request->base.call.task;
	char path[LIMIT_PATH_BYTES + DIGITS + 1];
	if (task->ret_len < DIGITS) {
		fail(request, BERTH_FAILED, "the registry did not tell the number of the new node");
		return;
	}
	snprintf(path, sizeof(path), "%s%s", request->base.path,
		task->ret_data + task->ret_len - DIGITS);
	struct registry_result result = {
		.stat = task->ret_stat, .data = path, .data_len = strlen(path), .count = 1
	};
	registry_request_complete(&request->base, &result);
}

static void on_created(struct write_request *request)
{
	struct registry_task *task = &request->base.call.task;
	bool last = strcmp(request->prefix, request->base.path) == 0;
	int code = task->ret_err.code;
	if (code == BERTH_PATH_NOT_FOUND && request->parents) {
		create_parent(request);
	} else if (code == BERTH_PATH_NOT_FOUND) {
		fail(request, code, "its parent does not exist");
	} else if (!last && (code == 0 || code == BERTH_FILE_ALREADY_EXISTS)) {
		if (code == 0 && request->on_parent) {
			request->on_parent(
				request->base.context, request->prefix, task->ret_stat.node_id);
		}
		create_child(request);
	} else if (code == 0 && request->sequential) {
		succeed_numbered(request);
	} else if (code == 0 || (code == BERTH_FILE_ALREADY_EXISTS && !request->bind)) {
		struct registry_result result = { .stat = task->ret_stat, .count = code == 0 };
		registry_request_complete(&request->base, &result);
	} else if (code == BERTH_FILE_ALREADY_EXISTS && request->mode == REGISTRY_BIND_OVERWRITE) {
		look_again(request);
	} else {
		struct err err = task->ret_err;
		if (!last) {
			err_wrap(&err, "making the parents of %s", request->base.path);
		}
		registry_request_fail(&request->base, &err);
	}
}

static void write_over(struct write_request *request, const struct registry_stat *present)
{
	if (request->ephemeral && present->children > 0) {
		fail(request, BERTH_NO_CHILDREN_FOR_EPHEMERALS,
			"an ephemeral record cannot replace a node that has children");
		return;
	}
	bool same_kind = request->ephemeral ? present->own : !present->ephemeral;
	bool in_place = same_kind && !request->anew;
	struct registry_stat expected = *present;
	struct registry_task *task = next_task(request, STEP_WRITE);
	if (!in_place && !request->acl) {
		request->acl = registry_acl_for(
			&request->base.registry->acl_policy, request->base.path, NULL);
		if (!request->acl) {
			refuse_no_memory(request);
			return;
		}
	}
	task->data = request->data;
	task->len = request->len;
	task->ephemeral = request->ephemeral;
	task->acl = request->acl;
	task->has_expected = true;
	task->expected = expected;
	registry_request_submit(&request->base, in_place ? REGISTRY_OP_SET : REGISTRY_OP_REPLACE);
}

static void on_looked(struct write_request *request)
{
	struct registry_task *task = &request->base.call.task;
	const struct registry_stat *present = &task->ret_stat;
	bool replace = request->mode == REGISTRY_BIND_REPLACE;
	if (task->ret_err.code == BERTH_PATH_NOT_FOUND && !replace) {
		create(request);
	} else if (task->ret_err.code) {
		registry_request_fail(&request->base, &task->ret_err);
	} else if (replace &&
		(present->node_id != request->expected.node_id ||
			present->version != request->expected.version)) {
		fail(request, BERTH_FILE_ALREADY_EXISTS, "the node or its version is another one");
	} else {
		write_over(request, present);
	}
}

static void on_written(struct write_request *request)
{
	struct registry_task *task = &request->base.call.task;
	int code = task->ret_err.code;
	bool lost_race = code == BERTH_FILE_ALREADY_EXISTS || code == BERTH_PATH_NOT_FOUND;
	if (code == 0) {
		registry_request_succeed(&request->base, &task->ret_stat);
	} else if (lost_race && request->mode == REGISTRY_BIND_OVERWRITE) {
		look_again(request);
	} else if (code == BERTH_PATH_IS_NOT_EMPTY_DIRECTORY) {
		/* A child appeared between the look and the swap. */
		fail(request, BERTH_NO_CHILDREN_FOR_EPHEMERALS,
			"an ephemeral record cannot replace a node that has children");
	} else {
		registry_request_fail(&request->base, &task->ret_err);
	}
}

static void on_step(struct registry_call *call)
{
	struct write_request *request = call->owner;
	switch (request->step) {
	case STEP_LOOK:
		on_looked(request);
		break;
	case STEP_CREATE:
		on_created(request);
		break;
	case STEP_WRITE:
		on_written(request);
		break;
	}
}

static struct write_request *write_request_create(
	struct registry *registry, const char *path, registry_done *done, void *context)
{
	struct write_request *request = registry_request_create(
		registry, sizeof(*request), path, done, context);
	if (!request) {
		return NULL;
	}
	request->base.release = release;
	request->base.call.completed = on_step;
	/* A request that fails before its first step completes in the way of a failed read. */
	request->step = STEP_WRITE;
	request->prefix = strdup(path);
	if (!request->prefix) {
		registry_request_free(&request->base);
		return NULL;
	}
	return request;
}

struct registry_request *registry_mknode(struct registry *registry, const char *path,
	const char *owner, bool parents, registry_done *done, void *context)
{
	struct write_request *request = write_request_create(registry, path, done, context);
	if (!request) {
		return NULL;
	}
	request->parents = parents;
	if (owner && !(request->owner = strdup(owner))) {
		registry_request_free(&request->base);
		return NULL;
	}
	struct err err = ERR_INIT;
	if (registry_request_refuse_path(&request->base)) {
		return &request->base;
	}
	if (owner && !registry->ops->owns &&
		registry_acl_check_owner(&registry->acl_policy, owner, &err)) {
		refuse(request, &err);
	} else {
		create(request);
	}
	return &request->base;
}

/* Finds mistakes in a bind before anything is sent; 0 when there are none. */
static int check_bind(const char *path, const struct registry_bind *bind, struct err *err)
{
	if (strcmp(path, "/") == 0) {
		return err_set(err, BERTH_INVALID_PATHNAME, "the root / cannot hold a record");
	}
	if (bind->len > LIMIT_RECORD_BYTES) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"%s: the record has %zu bytes; at most %d are allowed", path, bind->len,
			LIMIT_RECORD_BYTES);
	}
	return 0;
}

struct registry_request *registry_bind(struct registry *registry, const char *path,
	const struct registry_bind *bind, registry_done *done, void *context)
{
	struct write_request *request = write_request_create(registry, path, done, context);
	if (!request) {
		return NULL;
	}
	request->bind = true;
	request->parents = bind->parents;
	request->mode = bind->mode;
	request->ephemeral = bind->ephemeral;
	request->sequential = bind->sequential;
	request->container_parents = bind->container_parents;
	request->anew = bind->anew;
	request->expected = bind->expected;
	request->on_parent = bind->on_parent;
	if (registry_request_refuse_path(&request->base)) {
		return &request->base;
	}
	struct err err = ERR_INIT;
	if (check_bind(path, bind, &err)) {
		refuse(request, &err);
		return &request->base;
	}
	request->len = bind->len;
	request->data = malloc(bind->len + 1);
	if (!request->data) {
		registry_request_free(&request->base);
		return NULL;
	}
	if (bind->len) {
		memcpy(request->data, bind->data, bind->len);
	}
	request->data[bind->len] = '\0';
	if (bind->mode == REGISTRY_BIND_CREATE) {
		create(request);
	} else {
		look(request);
	}
	return &request->base;
}
