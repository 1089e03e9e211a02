#include "agent/check/tcp.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/buffer.h"

enum { ANSWER_BYTES = 64 * 1024 };

struct judge {
	const struct config_check *config;
	struct buffer answer;
};

static bool take(
	void *context, const char *bytes, size_t len, bool complete, struct check_result *result)
{
	struct judge *judge = context;
	const struct config_check *config = judge->config;
	struct buffer *answer = &judge->answer;
	size_t room = ANSWER_BYTES - answer->len;
	allocated(buffer_append(answer, bytes, len < room ? len : room) == 0 ? answer : NULL);
	bool found = config->expect_len == 0 ||
		memmem(buffer_text(answer), answer->len, config->expect, config->expect_len);
	if (!found && !complete && answer->len < ANSWER_BYTES) {
		return false;
	}
	result->verdict = found ? CHECK_PASSING : CHECK_FAILING;
	if (config->expect_len == 0) {
		check_result_set_detail(result, "connected");
	} else {
		check_result_set_detail(result, "%s in an answer of %zu bytes",
			found ? "expected bytes found" : "expected bytes not found", answer->len);
	}
	/* The check looks at no more than this part of the answer, so nothing counts as cut. */
	check_result_set_output(result, buffer_text(answer), answer->len, false);
	return true;
}

static void destroy(void *context)
{
	struct judge *judge = context;
	buffer_finish(&judge->answer);
	free(judge);
}

struct check_socket_exchange check_tcp_exchange(const struct config_check *config)
{
	struct judge *judge = allocate_zeroed(1, sizeof(*judge));
	judge->config = config;
	buffer_init(&judge->answer, ANSWER_BYTES);
	return (struct check_socket_exchange){
		.send = config->send,
		.send_len = config->send_len,
		.judge = { take, destroy, judge },
	};
}
