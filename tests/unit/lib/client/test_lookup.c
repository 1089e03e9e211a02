/* Look-ups and watches on an agent: what they give, and what they say when something is missing. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/berth.h"
#include "tests/support/failing.h"
#include "tests/support/scripted_agent.h"

TestSuite(lookup, .timeout = 120);

/* ---- what the agent answers ---- */

static const char children[] = "[\"/a/b\",\"/a/c\"]";

/* Returns its length. */
static size_t make_answer(char *out, size_t size, const char *body)
{
	return (size_t)snprintf(out, size,
		"HTTP/1.1 200 OK\r\nETag: \"t\"\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		strlen(body), body);
}

/* The next two connections get one of these each, and all that follow the second. */
static void let_it_answer(const char *first, const char *second)
{
	char answers[2][1024];
	size_t first_len = make_answer(answers[0], sizeof(answers[0]), first);
	size_t second_len = make_answer(answers[1], sizeof(answers[1]), second);
	scripted_agent_set_two(
		(const uint8_t *)answers[0], first_len, (const uint8_t *)answers[1], second_len);
}

/* ---- the calls ---- */

typedef int call(struct berth *berth, struct berth_failure *failure);

Test(lookup, an_answer_of_another_form_is_a_failure)
{
	static const char *const others[] = { "7", "[{}]", "[7", "{\"foreign\":7}" };
	struct berth_failure failure;
	struct berth *berth = NULL;
	let_it_answer("7", "7");
	cr_assert_eq(berth_open(&berth, scripted_agent_path(), NULL, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct berth_paths paths;
		struct berth_stat stat;
		struct berth_endpoints found;
		let_it_answer(others[i], others[i]);
		cr_expect_eq(berth_list(berth, "/a", &paths, &failure), BERTH_FAILED);
		let_it_answer(children, "{\"foreign\":7}");
		cr_expect_eq(berth_list(berth, "/a", &paths, &failure), BERTH_FAILED);
		let_it_answer(i == 3 ? "7" : others[i], "7");
		cr_expect_eq(berth_stat(berth, "/a", &stat, &failure), BERTH_FAILED);
		let_it_answer(i == 1 ? "7" : others[i], "7");
		cr_expect_eq(berth_endpoints(berth, "/a", NULL, &found, &failure), BERTH_FAILED);
	}
	berth_close(berth);
}

/* ---- a stream ---- */

/* Two events, and then the agent goes. */
#define STREAM                                                                                     \
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"                                    \
	"73\r\n67\n{\"type\":\"SUBSCRIBED\",\"heartbeat_interval_seconds\":60,\"snapshot\":{}}"    \
	"42\n{\"type\":\"UPDATED\",\"path\":\"/a\",\"record\":{}}\r\n"

struct seen {
	char types[64];
	bool lost;
};

static void on_event(void *context, const struct berth_event *event)
{
	struct seen *seen = context;
	size_t used = strlen(seen->types);
	snprintf(seen->types + used, sizeof(seen->types) - used, "%.1s",
		berth_event_name(event->type));
	seen->lost = event->type == BERTH_EVENT_LOST;
}

/* A shorter sequence of events ends with LOST, too. */
static int follow(void *context)
{
	static const char *const good[] = { "SUL", "SL", "L" };
	struct seen seen = { .types = "" };
	struct berth_failure failure = { 0 };
	struct berth_watch *watch = NULL;
	struct berth *berth = NULL;
	(void)context;
	int code = berth_open(&berth, scripted_agent_path(), NULL, &failure);
	if (code == 0) {
		code = berth_watch(berth, "/a", true, on_event, &seen, &watch, &failure);
	}
	while (code == 0 && !seen.lost) {
		code = berth_dispatch(berth, -1, &failure);
	}
	bool told = code == 0 ? berth_watch_trouble(watch, NULL) < 0 : *failure.message != '\0';
	berth_close(berth);
	for (size_t i = 0; code == 0 && i < ARRAY_LEN(good); i++) {
		if (strcmp(seen.types, good[i]) == 0) {
			return !told ? FAILING_WRONG : i == 0 ? 0 : BERTH_FAILED;
		}
	}
	return told ? code : FAILING_WRONG;
}

Test(lookup, a_watch_that_misses_an_event_says_that_it_is_lost)
{
	scripted_agent_set((const uint8_t *)STREAM, strlen(STREAM));
	failing_check_memory("watch", follow, NULL);
	failing_check("watch", "socket", EMFILE, follow, NULL);
	failing_check("watch", "epoll", ENOMEM, follow, NULL);
}
