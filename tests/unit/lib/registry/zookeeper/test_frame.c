#include <criterion/criterion.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/zookeeper/frame.h"

static struct buffer out;

static void start(void)
{
	buffer_init(&out, 4096);
}

static void stop(void)
{
	buffer_finish(&out);
}

TestSuite(zk_frame, .init = start, .fini = stop);

static struct zk_frame only_frame(void)
{
	struct zk_frame frame = { .len = 0 };
	cr_assert_eq(zk_frame_next(&frame, out.data, out.len), (long)out.len);
	return frame;
}

static void encode_request(void)
{
	const struct zk_request request = { .tag = 7,
		.operation = ZK_REPLACE,
		.path = "/registry/a",
		.data = "with\0NUL",
		.len = 8,
		.version = -1,
		.exact = true,
		.czxid = 0x100000002,
		.ephemeral = true,
		.sets = 2,
		.acl = { .packed = "31:world:anyone\0"
				   "1:digest:joe:x",
			.len = 31,
			.count = 2 } };
	cr_assert_eq(zk_request_encode(&out, &request), 0);
}

Test(zk_frame, a_request_is_read_as_it_was_written)
{
	struct zk_request request;
	encode_request();
	struct zk_frame frame = only_frame();
	cr_assert_eq(zk_request_decode(&request, &frame), 0);
	cr_assert_eq(request.tag, 7);
	cr_assert_eq(request.operation, ZK_REPLACE);
	cr_assert_str_eq(request.path, "/registry/a");
	cr_assert_eq(request.len, 8);
	cr_assert_eq(memcmp(request.data, "with\0NUL", 8), 0);
	cr_assert_eq(request.version, -1);
	cr_assert(request.exact);
	cr_assert_eq(request.czxid, 0x100000002);
	cr_assert(request.ephemeral && !request.watch);
	cr_assert_eq(request.sets, 2);
	cr_assert_str_eq(zk_list_next(&request.acl), "31:world:anyone");
	cr_assert_str_eq(zk_list_next(&request.acl), "1:digest:joe:x");
	cr_assert_null(zk_list_next(&request.acl));
}

Test(zk_frame, a_result_is_read_as_it_was_written)
{
	const struct zk_result written = { .tag = 9,
		.rc = ZK_RC_NO_NODE,
		.stat = { .czxid = 0x1122334455667788,
			.owner = UINT64_MAX,
			.ctime_ms = -1,
			.version = 3,
			.children = 4 } };
	struct zk_result result;
	cr_assert_eq(zk_result_encode(&out, &written), 0);
	struct zk_frame frame = only_frame();
	cr_assert_eq(zk_result_decode(&result, &frame), 0);
	cr_assert_eq(result.tag, 9);
	cr_assert_eq(result.rc, ZK_RC_NO_NODE);
	cr_assert_eq(result.stat.czxid, 0x1122334455667788);
	cr_assert_eq(result.stat.owner, UINT64_MAX);
	cr_assert_eq(result.stat.ctime_ms, -1);
	cr_assert_eq(result.stat.version, 3);
	cr_assert_eq(result.stat.children, 4);
	cr_assert_str_eq(result.data, "");
	cr_assert_null(zk_list_next(&result.names));
}

Test(zk_frame, an_unfinished_frame_waits_for_more)
{
	struct zk_frame frame;
	encode_request();
	for (size_t len = 0; len < out.len; len++) {
		cr_assert_eq(zk_frame_next(&frame, out.data, len), 0, "%zu bytes", len);
	}
}

Test(zk_frame, each_cut_body_is_malformed)
{
	struct zk_request request;
	encode_request();
	struct zk_frame frame = only_frame();
	for (size_t len = 0; len < out.len - ZK_FRAME_HEAD_BYTES; len++) {
		frame.len = len;
		cr_assert_eq(zk_request_decode(&request, &frame), -1, "%zu bytes", len);
	}
}

Test(zk_frame, left_over_bytes_are_malformed)
{
	struct zk_log log;
	cr_assert_eq(
		zk_log_encode(&out, &(struct zk_log){ .kind = ZK_LOG_OWN, .message = "words" }), 0);
	cr_assert_eq(buffer_append(&out, "x", 1), 0);
	struct zk_frame frame;
	cr_assert_gt(zk_frame_next(&frame, out.data, out.len), 0);
	frame.len++;
	cr_assert_eq(zk_log_decode(&log, &frame), -1);
}

Test(zk_frame, a_frame_beyond_the_maximum_or_of_no_type_is_invalid)
{
	struct zk_frame frame;
	cr_assert_eq(zk_frame_next(&frame, "\x02\x00\x00\x01\x02", 5), -1);
	cr_assert_eq(zk_frame_next(&frame, "\x00\x00\x00\x00\x02", 5), -1);
	cr_assert_eq(zk_frame_next(&frame, "\x00\x00\x00\x01\x00", 5), -1);
	cr_assert_eq(zk_frame_next(&frame, "\x00\x00\x00\x01\x63", 5), -1);
}

Test(zk_frame, a_frame_of_another_type_is_not_decoded)
{
	struct zk_result result;
	encode_request();
	struct zk_frame frame = only_frame();
	cr_assert_eq(zk_result_decode(&result, &frame), -1);
}

Test(zk_frame, a_string_with_a_nul_inside_is_malformed)
{
	struct zk_event event;
	cr_assert_eq(
		zk_event_encode(&out, &(struct zk_event){ .kind = ZK_EVENT_DATA, .path = "/a/b" }),
		0);
	struct zk_frame frame = only_frame();
	out.data[out.len - 3] = '\0';
	cr_assert_eq(zk_event_decode(&event, &frame), -1);
}

Test(zk_frame, a_list_that_miscounts_is_malformed)
{
	static const struct zk_list bad[] = {
		{ .packed = "a\0b", .len = 4, .count = 3 },
		{ .packed = "a\0b", .len = 3, .count = 1 },
		{ .packed = "", .len = 0, .count = 1 },
		{ .packed = "a", .len = 1, .count = 0 },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct zk_result result;
		buffer_clear(&out);
		cr_assert_eq(zk_result_encode(&out, &(struct zk_result){ .names = bad[i] }), 0);
		struct zk_frame frame = only_frame();
		cr_assert_eq(zk_result_decode(&result, &frame), -1, "list %zu", i);
	}
}

Test(zk_frame, a_frame_that_does_not_fit_leaves_those_before_it_whole)
{
	static const char large[8192];
	struct zk_event event;
	cr_assert_eq(zk_event_encode(
			     &out, &(struct zk_event){ .kind = ZK_EVENT_CHILDREN, .path = "/a" }),
		0);
	size_t len = out.len;
	cr_assert_eq(
		zk_result_encode(&out, &(struct zk_result){ .data = large, .len = sizeof(large) }),
		-1);
	cr_assert_eq(out.len, len);
	cr_assert(out.failed);
	struct zk_frame frame = only_frame();
	cr_assert_eq(zk_event_decode(&event, &frame), 0);
	cr_assert_str_eq(event.path, "/a");
}

/* An agent that runs on while its package goes back to 0.1.0 starts the old worker. */
Test(zk_frame, a_hello_that_asks_for_no_end_in_silence_is_one_of_the_first_version)
{
	struct zk_hello hello = {
		.servers = "a:1", .addresses = "", .auth = "none", .credential = "", .tls = ""
	};
	cr_assert_eq(zk_hello_encode(&out, &hello), 0);
	size_t len = only_frame().len;
	buffer_consume(&out, out.len);
	hello.ends_in_silence = true;
	cr_assert_eq(zk_hello_encode(&out, &hello), 0);
	cr_assert_eq(only_frame().len, len + 1);
}

/* An agent that runs on while its package is upgraded starts the new worker. */
Test(zk_frame, a_hello_of_the_first_version_asks_for_no_end_in_silence)
{
	struct zk_hello hello = { .servers = "a:1",
		.addresses = "",
		.auth = "none",
		.credential = "",
		.tls = "",
		.ends_in_silence = true };
	cr_assert_eq(zk_hello_encode(&out, &hello), 0);
	struct zk_frame frame = only_frame();
	cr_assert_eq(zk_hello_decode(&hello, &frame), 0);
	cr_assert(hello.ends_in_silence);
	frame.len--;
	cr_assert_eq(zk_hello_decode(&hello, &frame), 0);
	cr_assert(!hello.ends_in_silence);
	cr_assert_str_eq(hello.servers, "a:1");
	frame.len--;
	cr_assert_eq(zk_hello_decode(&hello, &frame), -1, "all else has to be there");
	out.data[out.len - 1] = 2;
	frame = only_frame();
	cr_assert_eq(zk_hello_decode(&hello, &frame), -1);
}
