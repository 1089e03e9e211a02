/* Requests to asynchronous calls, completions to results. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/limits.h"
#include "lib/registry/zookeeper/worker/worker.h"

enum { ACL_MAX = 64, SETS_MAX = 2, OPS_MAX = 2 + SETS_MAX };

/* The contexts of all watches: just two, because the library compares them one by one. */
static const enum zk_event_kind data_watch = ZK_EVENT_DATA;
static const enum zk_event_kind children_watch = ZK_EVENT_CHILDREN;

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(ZK_RC_CONNECTION_LOSS, ZCONNECTIONLOSS);
SAME(ZK_RC_OPERATION_TIMEOUT, ZOPERATIONTIMEOUT);
SAME(ZK_RC_NO_NODE, ZNONODE);
SAME(ZK_RC_NO_AUTH, ZNOAUTH);
SAME(ZK_RC_BAD_VERSION, ZBADVERSION);
SAME(ZK_RC_NODE_EXISTS, ZNODEEXISTS);
SAME(ZK_RC_NOT_EMPTY, ZNOTEMPTY);

/* ---- completions (the library's thread) ---- */

static const void *from_tag(uint32_t tag)
{
	return (const void *)(uintptr_t)tag;
}

static uint32_t to_tag(const void *data)
{
	return (uint32_t)(uintptr_t)data;
}

/*
 * Without memory the library leaves parts out of an answer and reports success, or awaits the
 * answer of a request that it did not send. A worker in that state misleads the agent. When it
 * ends, the agent asks another one what became of the requests under way.
 */
static _Noreturn void end_without_memory(void)
{
	zk_worker_say("out of memory");
	_exit(1);
}

static void send_result(const struct zk_result *result)
{
	struct buffer frame;
	buffer_init(&frame, ZK_FRAME_MAX_BYTES + ZK_FRAME_HEAD_BYTES);
	if (zk_result_encode(&frame, result) < 0) {
		if (result->names.len == 0) {
			end_without_memory(); /* only a list can be too long */
		}
		buffer_clear(&frame);
		struct zk_result failed = { .tag = result->tag, .rc = ZMARSHALLINGERROR };
		if (zk_result_encode(&frame, &failed) < 0) {
			abort();
		}
	}
	zk_worker_send(&frame);
	buffer_finish(&frame);
}

/* A result with the packed texts, or its failure. */
static void send_list(struct zk_result *result, struct buffer *packed)
{
	result->names.packed = packed->data;
	result->names.len = packed->len;
	if (packed->failed) {
		*result = (struct zk_result){ .tag = result->tag, .rc = ZMARSHALLINGERROR };
	}
	send_result(result);
	buffer_finish(packed);
}

static struct zk_stat copy_stat(const struct Stat *stat)
{
	if (!stat) {
		return (struct zk_stat){ 0 };
	}
	return (struct zk_stat){
		.czxid = (uint64_t)stat->czxid,
		.owner = (uint64_t)stat->ephemeralOwner,
		.ctime_ms = stat->ctime,
		.mtime_ms = stat->mtime,
		.version = stat->version,
		.size = (uint32_t)stat->dataLength,
		.children = (uint32_t)stat->numChildren,
	};
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	if (rc == ZOK && !value && len >= 0) {
		end_without_memory(); /* a node without data has the length -1 */
	}
	struct zk_result result = {
		.tag = to_tag(data), .rc = rc, .stat = copy_stat(rc == ZOK ? stat : NULL)
	};
	if (rc == ZOK && value && len > 0 && len <= LIMIT_RECORD_BYTES) {
		result.data = value;
		result.len = (size_t)len;
	} else if (rc == ZOK && value && len > LIMIT_RECORD_BYTES &&
		memmem(value, (size_t)len, RECORD_TYPE, strlen(RECORD_TYPE))) {
		/* Too large to be passed on: the marker says that it is meant to be a record. */
		result.data = RECORD_TYPE;
		result.len = strlen(RECORD_TYPE);
	}
	send_result(&result);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
	send_result(&(struct zk_result){
		.tag = to_tag(data), .rc = rc, .stat = copy_stat(rc == ZOK ? stat : NULL) });
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
	if (rc == ZOK && !path) {
		end_without_memory();
	}
	send_result(&(struct zk_result){ .tag = to_tag(data),
		.rc = rc,
		.stat = copy_stat(rc == ZOK ? stat : NULL),
		.data = rc == ZOK ? path : NULL,
		.len = rc == ZOK ? strlen(path) : 0 });
}

static void on_children(
	int rc, const struct String_vector *names, const struct Stat *stat, const void *data)
{
	struct zk_result result = {
		.tag = to_tag(data), .rc = rc, .stat = copy_stat(rc == ZOK ? stat : NULL)
	};
	struct buffer packed;
	buffer_init(&packed, ZK_FRAME_MAX_BYTES);
	for (int32_t i = 0; rc == ZOK && names && i < names->count; i++) {
		if (!names->data[i]) {
			end_without_memory();
		}
		buffer_append(&packed, names->data[i], strlen(names->data[i]) + 1);
		result.names.count++;
	}
	send_list(&result, &packed);
}

static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
	struct zk_result result = {
		.tag = to_tag(data), .rc = rc, .stat = copy_stat(rc == ZOK ? stat : NULL)
	};
	struct buffer packed;
	buffer_init(&packed, ZK_FRAME_MAX_BYTES);
	for (int32_t i = 0; rc == ZOK && acl && i < acl->count; i++) {
		const struct ACL *entry = &acl->data[i];
		if (!entry->id.scheme || !entry->id.id) {
			end_without_memory();
		}
		buffer_printf(&packed, "%d:%s:%s", entry->perms, entry->id.scheme, entry->id.id);
		buffer_append(&packed, "", 1);
		result.names.count++;
	}
	send_list(&result, &packed);
}

static void on_done(int rc, const void *data)
{
	send_result(&(struct zk_result){ .tag = to_tag(data), .rc = rc });
}

static void on_synced(int rc, const char *path, const void *data)
{
	(void)path;
	on_done(rc, data);
}

static void on_unwatched(int rc, const void *data)
{
	/* A missing watch is fine: it may have fired in the meantime. */
	(void)rc;
	(void)data;
}

static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void)zh;
	(void)state;
	if (type == ZOO_SESSION_EVENT) {
		return;
	}
	const enum zk_event_kind *kind = context;
	struct buffer frame;
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	if (zk_event_encode(&frame,
		    &(struct zk_event){
			    .kind = *kind, .gone = type == ZOO_DELETED_EVENT, .path = path }) < 0) {
		abort();
	}
	zk_worker_send(&frame);
	buffer_finish(&frame);
}

/* ---- requests (the main thread) ---- */

/* "31:world:anyone" is cut in place of its copy. */
static bool parse_acl_entry(char *text, struct ACL *ret_entry)
{
	char *scheme = strchr(text, ':');
	char *id = scheme ? strchr(scheme + 1, ':') : NULL;
	if (!id) {
		return false;
	}
	*scheme++ = '\0';
	*id++ = '\0';
	*ret_entry = (struct ACL){ .perms = (int32_t)strtol(text, NULL, 10),
		.id = { .scheme = scheme, .id = id } };
	return true;
}

struct acl {
	struct ACL_vector vector;
	struct ACL entries[ACL_MAX];
	char *texts[ACL_MAX];
};

static void acl_finish(struct acl *acl)
{
	for (size_t i = 0; i < ACL_MAX; i++) {
		free(acl->texts[i]);
	}
}

static int acl_init(struct acl *acl, struct zk_list list)
{
	*acl = (struct acl){ .vector = ZOO_OPEN_ACL_UNSAFE };
	if (list.count == 0) {
		return ZOK;
	}
	acl->vector = (struct ACL_vector){ .data = acl->entries };
	for (const char *text; (text = zk_list_next(&list));) {
		int32_t i = acl->vector.count;
		if (i == ACL_MAX) {
			return ZINVALIDACL;
		}
		acl->texts[i] = strdup(text);
		if (!acl->texts[i]) {
			return ZSYSTEMERROR;
		}
		if (!parse_acl_entry(acl->texts[i], &acl->entries[i])) {
			return ZINVALIDACL;
		}
		acl->vector.count++;
	}
	return ZOK;
}

/* The data of a transaction until its completion. */
struct replacement {
	uint32_t tag;
	struct Stat stat;
	zoo_op_result_t results[OPS_MAX];
	char path[LIMIT_PATH_BYTES * 2]; /* the library writes the created path here */
};

static void on_replaced(int rc, const void *data)
{
	struct replacement *replacement = (struct replacement *)(uintptr_t)data;
	for (size_t i = 0; rc == ZRUNTIMEINCONSISTENCY && i < OPS_MAX; i++) {
		if (replacement->results[i].err != ZRUNTIMEINCONSISTENCY &&
			replacement->results[i].err != ZOK) {
			rc = replacement->results[i].err;
		}
	}
	on_stat(rc, &replacement->stat, from_tag(replacement->tag));
	free(replacement);
}

static int replace(zhandle_t *zh, const struct zk_request *request, const struct ACL_vector *acl)
{
	struct replacement *replacement = calloc(1, sizeof(*replacement));
	if (!replacement) {
		return ZSYSTEMERROR;
	}
	if (strlen(request->path) >= sizeof(replacement->path)) {
		free(replacement);
		return ZBADARGUMENTS;
	}
	replacement->tag = request->tag;
	zoo_op_t ops[OPS_MAX];
	int count = 0;
	zoo_delete_op_init(&ops[count++], request->path, request->version);
	zoo_create_op_init(&ops[count++], request->path, request->data, (int)request->len, acl,
		request->ephemeral ? ZOO_EPHEMERAL : ZOO_PERSISTENT, replacement->path,
		sizeof(replacement->path));
	for (int i = 0; i < request->sets && i < SETS_MAX; i++) {
		zoo_set_op_init(&ops[count++], request->path, request->data, (int)request->len, -1,
			&replacement->stat);
	}
	int rc = zoo_amulti(zh, count, ops, replacement->results, on_replaced, replacement);
	if (rc != ZOK) {
		free(replacement);
	}
	return rc;
}

/*
 * Takes the watch out of the library's tables, so that they stay small; on the server it stays
 * until it fires once. ANY for children, because an absent path is watched for its creation.
 */
static int unwatch(zhandle_t *zh, const struct zk_request *request)
{
	bool data = request->operation == ZK_UNWATCH_DATA;
	/* Declared as a pointer to a completion, called as a completion. */
	void_completion_t *completion = (void_completion_t *)(void *)on_unwatched;
	zoo_aremove_watches(zh, request->path, data ? ZWATCHTYPE_DATA : ZWATCHTYPE_ANY, on_watch,
		(void *)(uintptr_t)(data ? &data_watch : &children_watch), 0, completion, NULL);
	return ZOK;
}

static int create_mode(const struct zk_request *request)
{
	if (request->container) {
		return ZOO_CONTAINER;
	}
	if (request->sequential) {
		return request->ephemeral ? ZOO_EPHEMERAL_SEQUENTIAL : ZOO_PERSISTENT_SEQUENTIAL;
	}
	return request->ephemeral ? ZOO_EPHEMERAL : ZOO_PERSISTENT;
}

static int write_node(zhandle_t *zh, const struct zk_request *request)
{
	struct acl acl;
	int rc = acl_init(&acl, request->acl);
	if (rc == ZOK && request->operation == ZK_REPLACE) {
		rc = replace(zh, request, &acl.vector);
	} else if (rc == ZOK) {
		rc = zoo_acreate2(zh, request->path, request->data, (int)request->len, &acl.vector,
			create_mode(request), on_created, from_tag(request->tag));
	}
	acl_finish(&acl);
	return rc;
}

static int start(zhandle_t *zh, const struct zk_request *request)
{
	const void *data = from_tag(request->tag);
	watcher_fn watcher = request->watch ? on_watch : NULL;
	void *data_context = (void *)(uintptr_t)&data_watch;
	void *children_context = (void *)(uintptr_t)&children_watch;
	switch (request->operation) {
	case ZK_GET:
		return zoo_awget(zh, request->path, watcher, data_context, on_data, data);
	case ZK_EXISTS:
		return zoo_awexists(zh, request->path, watcher, data_context, on_stat, data);
	case ZK_EXISTS_FOR_CHILDREN:
		return zoo_awexists(zh, request->path, watcher, children_context, on_stat, data);
	case ZK_CHILDREN:
		return zoo_awget_children2(
			zh, request->path, watcher, children_context, on_children, data);
	case ZK_ACL:
		return zoo_aget_acl(zh, request->path, on_acl, data);
	case ZK_CREATE:
	case ZK_REPLACE:
		return write_node(zh, request);
	case ZK_SET:
		return zoo_aset(zh, request->path, request->data, (int)request->len,
			request->version, on_stat, data);
	case ZK_DELETE:
		return zoo_adelete(zh, request->path, request->version, on_done, data);
	case ZK_SYNC:
		return zoo_async(zh, request->path, on_synced, data);
	case ZK_UNWATCH_DATA:
	case ZK_UNWATCH_CHILDREN:
		return unwatch(zh, request);
	}
	return ZBADARGUMENTS;
}

/* Answers a request that could not be started. These two codes mean that there was no memory. */
static void answer_failure(const struct zk_request *request, int rc)
{
	if (rc == ZSYSTEMERROR || rc == ZMARSHALLINGERROR) {
		end_without_memory();
	}
	if (rc != ZOK) {
		send_result(&(struct zk_result){ .tag = request->tag, .rc = rc });
	}
}

static void start_or_fail(zhandle_t *zh, const struct zk_request *request)
{
	answer_failure(request, start(zh, request));
}

/* ---- writes over one node only ---- */

/*
 * ZooKeeper compares versions, and a node that was deleted and made again begins at the same one.
 * So the worker reads the node first, and sends the write from the completion of the read: the time
 * between is one round trip to the server.
 */
struct conditional {
	zhandle_t *zh;
	struct buffer frame; /* the request */
};

static void conditional_free(struct conditional *conditional)
{
	buffer_finish(&conditional->frame);
	free(conditional);
}

static void on_condition(int rc, const struct Stat *stat, const void *data)
{
	struct conditional *conditional = (struct conditional *)(uintptr_t)data;
	struct zk_frame frame;
	struct zk_request request;
	if (zk_frame_next(&frame, conditional->frame.data, conditional->frame.len) <= 0 ||
		zk_request_decode(&request, &frame) < 0) {
		abort();
	}
	if (rc == ZOK &&
		((uint64_t)stat->czxid != request.czxid || stat->version != request.version)) {
		rc = ZBADVERSION;
	}
	if (rc == ZOK) {
		start_or_fail(conditional->zh, &request);
	} else {
		send_result(&(struct zk_result){ .tag = request.tag, .rc = rc });
	}
	conditional_free(conditional);
}

static int guard(zhandle_t *zh, const struct zk_request *request)
{
	struct conditional *conditional = calloc(1, sizeof(*conditional));
	if (!conditional) {
		return ZSYSTEMERROR;
	}
	conditional->zh = zh;
	buffer_init(&conditional->frame, ZK_FRAME_MAX_BYTES + ZK_FRAME_HEAD_BYTES);
	int rc = zk_request_encode(&conditional->frame, request) == 0
		? zoo_aexists(zh, request->path, 0, on_condition, conditional)
		: ZSYSTEMERROR;
	if (rc != ZOK) {
		conditional_free(conditional);
	}
	return rc;
}

void zk_worker_request(zhandle_t *zh, const struct zk_request *request)
{
	if (request->exact) {
		answer_failure(request, guard(zh, request));
	} else {
		start_or_fail(zh, request);
	}
}
