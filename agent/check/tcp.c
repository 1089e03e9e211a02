#include "agent/check/tcp.h"

#include <string.h>

enum { ANSWER_BYTES = 64 * 1024 };

static bool judge(const struct config_check *config, const char *answer, size_t len,
	bool complete_answer, struct check_result *result)
{
	bool found = config->expect_len == 0 ||
		memmem(answer, len, config->expect, config->expect_len);
	if (!found && !complete_answer) {
		return false;
	}
	result->verdict = found ? CHECK_PASSING : CHECK_FAILING;
	if (config->expect_len == 0) {
		check_result_set_detail(result, "connected");
	} else {
		check_result_set_detail(result, "%s in an answer of %zu bytes",
			found ? "expected bytes found" : "expected bytes not found", len);
	}
	/* The check looks at no more than this part of the answer, so nothing counts as cut. */
	check_result_set_output(result, answer, len, false);
	return true;
}

struct check_socket_exchange check_tcp_exchange(const struct config_check *config)
{
	return (struct check_socket_exchange){
		.send = config->send,
		.send_len = config->send_len,
		.answer_max = ANSWER_BYTES,
		.judge = judge,
	};
}
