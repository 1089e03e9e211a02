/*
 * A server's answer to an http check. No bytes crash its reader; at the latest at its end there is
 * a verdict with a reason, and how the answer comes in pieces makes no difference to the verdict.
 * The first byte chooses the check and the size of the pieces.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/check/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { PATTERN = 1, INVERTED = 2, HEAD = 4, OWN_HEADER = 8, EXPECTING = 16 };

static char get[] = "GET";
static char head[] = "HEAD";
static char nothing[] = "";
static char target[] = "/health?x";
static char port[] = "8080";
static char port_80[] = "80";
static char hosts[][16] = { "::1", "/run/x.sock", "h", "127.0.0.1" };
static char virtual_host[] = "example.org";
static char pattern[] = "^(OK|up)$";
static char header_name[] = "accept";
static struct config_status_range range = { 200, 299 };
static struct config_name_value header = { header_name, nothing };
static struct config_name_value expected = { header_name, pattern };

static struct config_check check_of(unsigned flags)
{
	return (struct config_check){ .method = flags & HEAD ? head : get,
		.target_path = target,
		.target_host = hosts[flags >> 6],
		.target_port = flags >> 6 == 2 ? port_80 : port,
		.host = flags >> 6 == 3 ? virtual_host : nothing,
		.body = nothing,
		.expect_headers = &expected,
		.expect_header_count = flags & EXPECTING ? 1 : 0,
		.headers = &header,
		.header_count = flags & OWN_HEADER ? 1 : 0,
		.expect_status = &range,
		.expect_status_count = 1,
		.match = flags & PATTERN ? pattern : nothing,
		.match_invert = flags & INVERTED };
}

/* The answer comes in pieces of this size, and then its end. */
static enum check_verdict judge(
	const struct config_check *config, const char *answer, size_t len, size_t piece)
{
	struct check_socket_exchange exchange;
	struct check_result result = { .verdict = CHECK_FAILING };
	struct buffer request;
	buffer_init(&request, CHECK_HTTP_REQUEST_BYTES);
	assert(check_http_exchange(config, &request, &exchange));
	const struct check_judge *judge = &exchange.judge;
	bool done = judge->take(judge->context, "", 0, false, &result);
	for (size_t at = 0; !done && at < len; at += piece) {
		size_t next = len - at < piece ? len - at : piece;
		done = judge->take(judge->context, answer + at, next, false, &result);
	}
	if (!done) {
		assert(judge->take(judge->context, "", 0, true, &result));
	}
	judge->destroy(judge->context);
	buffer_finish(&request);
	assert(result.verdict == CHECK_PASSING || result.verdict == CHECK_FAILING);
	assert(result.detail[0] && strlen(result.output) <= CHECK_OUTPUT_BYTES);
	return result.verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len == 0) {
		return 0;
	}
	struct config_check config = check_of(data[0]);
	size_t answer_len = len - 1;
	/* Of just this size, so that a sanitizer sees each byte too far. */
	char *answer = malloc(answer_len + (answer_len == 0));
	assert(answer);
	memcpy(answer, data + 1, answer_len);
	enum check_verdict whole = judge(&config, answer, answer_len, answer_len + 1);
	assert(judge(&config, answer, answer_len, 1 + data[0] / 16 * 7U) == whole);
	free(answer);
	return 0;
}
