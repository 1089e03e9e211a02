/*
 * Frames of the ZooKeeper worker: a frame that decodes is encoded to the same bytes again; no other
 * frame crashes or is read beyond its end.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/registry/zookeeper/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void walk(struct zk_list list)
{
	size_t len = 0;
	for (const char *name; (name = zk_list_next(&list));) {
		len += strlen(name) + 1;
	}
	assert(list.len == 0 && list.count == 0 && len < ZK_FRAME_MAX_BYTES);
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
		return zk_hello_encode(out, &hello) == 0;
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
