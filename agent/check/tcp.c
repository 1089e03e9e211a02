#include "agent/check/tcp.h"

#include <string.h>

static bool judge(const struct config_check *config, const char *answer, size_t len, bool complete,
	struct check_result *result)
{
	bool found = config->expect_len == 0 ||
		memmem(answer, len, config->expect, config->expect_len);
	if (!found && !complete) {
		return false;
	}
	result->verdict = found ? CHECK_PASSING : CHECK_FAILING;
	if (config->expect_len == 0) {
		check_result_set_detail(result, "connected");
	} else {
		check_result_set_detail(result, "%s in an answer of %zu bytes",
			found ? "expected bytes found" : "expected bytes not found", len);
	}
	check_result_set_output(result, answer, len, !complete);
	return true;
}

void check_tcp_exchange(const struct config_check *config, struct check_socket_exchange *exchange)
{
	*exchange = (struct check_socket_exchange){
		.send = config->send,
		.send_len = config->send_len,
		.answer_max = CHECK_TCP_ANSWER_BYTES,
		.judge = judge,
	};
}
