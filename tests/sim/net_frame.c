/* Requests of the agent become calls of the registry, and results frames, as in the real worker. */
#include "tests/sim/net_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"

#define ROOT "/registry"
/* Every server has it, and the registry's paths lie elsewhere. */
#define TOP "/"

enum { ROOT_LEN = sizeof(ROOT) - 1 };

/* ---- paths ---- */

static char *join(const char *head, const char *path)
{
	char *joined = malloc(strlen(head) + strlen(path) + 1);
	return strcat(strcpy(joined, head), path);
}

char *frame_world_path(const char *path)
{
	bool ours = strncmp(path, ROOT, ROOT_LEN) == 0 &&
		(path[ROOT_LEN] == '/' || path[ROOT_LEN] == '\0');
	if (!ours) {
		return join("/", path);
	}
	return join(path[ROOT_LEN] ? path + ROOT_LEN : "/", "");
}

static char *server_path(const char *path)
{
	return path_is_foreign(path) ? join("", path + 1)
				     : join(ROOT, strcmp(path, "/") == 0 ? "" : path);
}

/* ---- requests ---- */

static enum registry_operation operation_of(const struct zk_request *request)
{
	switch (request->operation) {
	case ZK_GET:
		return REGISTRY_OP_GET;
	case ZK_EXISTS: /* a watch of it is one of data */
		return request->watch ? REGISTRY_OP_GET : REGISTRY_OP_STAT;
	case ZK_EXISTS_FOR_CHILDREN:
	case ZK_CHILDREN:
		return REGISTRY_OP_CHILDREN;
	case ZK_CREATE:
		return REGISTRY_OP_CREATE;
	case ZK_SET:
		return REGISTRY_OP_SET;
	case ZK_DELETE:
		return REGISTRY_OP_DELETE;
	case ZK_REPLACE:
		return REGISTRY_OP_REPLACE;
	default: /* a sync, or for an access control list */
		return REGISTRY_OP_STAT;
	}
}

void frame_read_request(struct request *request, const struct zk_request *sent)
{
	char *data = malloc(sent->len + 1);
	memcpy(data, sent->data, sent->len);
	data[sent->len] = '\0';
	request->tag = sent->tag;
	request->operation = sent->operation;
	request->task = (struct registry_task){ .operation = operation_of(sent),
		.path = frame_world_path(sent->path),
		.data = data,
		.len = sent->len,
		.has_expected = sent->exact,
		.watch = sent->watch,
		.ephemeral = sent->ephemeral,
		.sequential = sent->sequential,
		.container = sent->container };
	request->task.expected.node_id = sent->czxid;
	request->task.expected.version = sent->version;
}

/* ---- results ---- */

static int32_t code_of(const struct registry_task *task)
{
	switch (task->ret_err.code) {
	case 0:
		return ZK_RC_OK;
	case BERTH_PATH_NOT_FOUND:
		return ZK_RC_NO_NODE;
	case BERTH_FILE_ALREADY_EXISTS:
		return task->operation == REGISTRY_OP_CREATE ? ZK_RC_NODE_EXISTS
							     : ZK_RC_BAD_VERSION;
	case BERTH_NO_CHILDREN_FOR_EPHEMERALS:
		return ZK_RC_NO_CHILDREN_FOR_EPHEMERALS;
	case BERTH_PATH_IS_NOT_EMPTY_DIRECTORY:
		return ZK_RC_NOT_EMPTY;
	case BERTH_NO_PATH_PERMISSIONS:
		return ZK_RC_NO_AUTH;
	default:
		return ZK_RC_QUOTA_EXCEEDED;
	}
}

static struct zk_stat stat_of(const struct registry_task *task, const struct world_node *node)
{
	const struct registry_stat *stat = &task->ret_stat;
	return (struct zk_stat){ .czxid = stat->node_id,
		.owner = node ? node->session : 0,
		.version = (int32_t)stat->version,
		.size = (uint32_t)stat->size,
		.children = (uint32_t)stat->children };
}

static void add_names(struct buffer *names, const struct registry_task *task)
{
	for (size_t i = 0; i < task->ret_children_count; i++) {
		buffer_append(names, task->ret_children[i], strlen(task->ret_children[i]) + 1);
	}
}

static void encode_result(
	const struct request *request, const struct world *world, struct buffer *out)
{
	const struct registry_task *task = &request->task;
	bool created = task->operation == REGISTRY_OP_CREATE && !task->ret_err.code;
	const char *path = created && task->sequential ? task->ret_data : task->path;
	char *name = created ? server_path(path) : NULL;
	struct buffer names;
	struct zk_result result = { .tag = request->tag, .rc = code_of(task) };
	buffer_init(&names, ZK_FRAME_MAX_BYTES);
	if (result.rc == ZK_RC_OK) {
		result.stat = stat_of(task, world_node(world, path));
	}
	if (request->operation == ZK_GET && task->ret_data) {
		result.data = task->ret_data;
		result.len = task->ret_len;
	} else if (created) {
		result.data = name;
		result.len = strlen(name);
	} else if (request->operation == ZK_CHILDREN) {
		add_names(&names, task);
		result.names = (struct zk_list){ names.data, names.len, task->ret_children_count };
	}
	zk_result_encode(out, &result);
	buffer_finish(&names);
	free(name);
}

/* An absent node is watched by the question for its existence alone. */
static bool leaves_no_watch(const struct request *request, const struct world *world)
{
	bool reads = request->operation == ZK_GET || request->operation == ZK_CHILDREN;
	return reads && !world_node(world, request->task.path);
}

void frame_apply(struct request *request, struct buffer *out)
{
	const struct end *end = request->end;
	struct world *world = end->net->world;
	struct registry_task *task = &request->task;
	bool top = strcmp(task->path, "/" TOP) == 0;
	if (top || request->operation == ZK_SYNC || request->operation == ZK_ACL) {
		zk_result_encode(out, &(struct zk_result){ .tag = request->tag });
		return;
	}
	task->watch = task->watch && !leaves_no_watch(request, world);
	if (!task->ret_err.code) {
		world_apply(world, &end->client, task);
	}
	encode_result(request, world, out);
}

void frame_event(struct buffer *out, const char *path, enum registry_watch_kind kind, bool gone)
{
	char *name = server_path(path);
	zk_event_encode(out,
		&(struct zk_event){ .path = name,
			.gone = gone,
			.kind = kind == REGISTRY_WATCH_DATA ? ZK_EVENT_DATA : ZK_EVENT_CHILDREN });
	free(name);
}
