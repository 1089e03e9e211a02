/*
 * Frames of the ZooKeeper worker: a frame that decodes is encoded to the same bytes again; no other
 * frame crashes or is read beyond its end. A result that was read means one of three things for
 * each write whose answer was lost, and only a failure has a reason.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/registry/zookeeper/zookeeper.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void walk(struct zk_list list)
{
	size_t len = 0;
	for (const char *name; (name = zk_list_next(&list));) {
		len += strlen(name) + 1;
	}
	assert(list.len == 0 && list.count == 0 && len < ZK_FRAME_MAX_BYTES);
}

static void judge(const struct zk_result *found, unsigned operation, int way)
{
	static const char path[] = "/a/b";
	struct registry_task task = { .operation = (enum registry_operation)operation,
		.path = path,
		.data = way & 1 && found->data ? found->data : "x",
		.len = way & 1 ? found->len : 1,
		.sequential = way == 5,
		.ephemeral = way & 2,
		.has_expected = way & 4,
		.expected = { .node_id = found->stat.czxid + (way == 6),
			.version = (int64_t)found->stat.version - (way & 1) } };
	uint64_t session = found->stat.owner + (way == 7);
	enum registry_zk_verdict verdict = registry_zk_judge(&task, found, session);
	assert((verdict == REGISTRY_ZK_FAILED) == (task.ret_err.code != 0));
	assert(!task.ret_err.code || task.ret_err.msg[0]);
	registry_zk_set_stat(&task, &found->stat, session);
	assert(!task.ret_stat.own || task.ret_stat.ephemeral);
	assert(registry_zk_acl_path_len(&task) <= sizeof(path) - 1);
	(void)registry_zk_password_wrong(&task, found->names, "user:password");
	err_clear(&task.ret_err);
	registry_zk_set_error(&task, found->rc);
	assert(task.ret_err.code && task.ret_err.msg[0]);
}

static void judge_all(const struct zk_result *found)
{
	for (unsigned operation = REGISTRY_OP_GET; operation <= REGISTRY_OP_REPLACE; operation++) {
		for (int way = 0; way < 8; way++) {
			judge(found, operation, way);
		}
	}
}

/* 1 when the frame could be decoded and was encoded again. */
static int again(struct buffer *out, const struct zk_frame *frame)
{
	struct zk_hello hello;
	struct zk_request request;
	struct zk_session session;
	struct zk_result result;
	struct zk_event event;
	struct zk_log log;
	if (zk_hello_decode(&hello, frame) == 0) {
		bool encoded = zk_hello_encode(out, &hello) == 0;
		bool grown = encoded && out->len == ZK_FRAME_HEAD_BYTES + frame->len + 1;
		/* One of 0.1.0, and a byte: the frame says the same. */
		assert(!grown ||
			memcmp(out->data + ZK_FRAME_HEAD_BYTES, frame->body, frame->len) == 0);
		return encoded && !grown;
	}
	if (zk_request_decode(&request, frame) == 0) {
		walk(request.acl);
		return zk_request_encode(out, &request) == 0;
	}
	if (zk_session_decode(&session, frame) == 0) {
		return zk_session_encode(out, &session) == 0;
	}
	if (zk_result_decode(&result, frame) == 0) {
		walk(result.names);
		judge_all(&result);
		return zk_result_encode(out, &result) == 0;
	}
	if (zk_event_decode(&event, frame) == 0) {
		return zk_event_encode(out, &event) == 0;
	}
	return zk_log_decode(&log, frame) == 0 && zk_log_encode(out, &log) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	/* A copy of just this size, so that a sanitizer sees each byte too far. */
	char *copy = malloc(len ? len : 1);
	struct buffer out;
	struct zk_frame frame;
	size_t at = 0;
	if (!copy) {
		return 0;
	}
	memcpy(copy, data, len);
	buffer_init(&out, ZK_FRAME_MAX_BYTES);
	for (long used; (used = zk_frame_next(&frame, copy + at, len - at)) > 0;
		at += (size_t)used) {
		buffer_clear(&out);
		if (again(&out, &frame)) {
			assert(out.len == (size_t)used &&
				memcmp(out.data, copy + at, out.len) == 0);
		}
	}
	buffer_finish(&out);
	free(copy);
	return 0;
}
