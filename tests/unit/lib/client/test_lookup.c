/* Look-ups and watches on an agent: what they give, and what they say when something is missing. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/berth.h"
#include "tests/support/failing.h"
#include "tests/support/scripted_agent.h"

TestSuite(lookup, .timeout = 120);

/* ---- what the agent answers ---- */

static const char endpoints[] =
	"[{\"path\":\"/a\",\"scope\":\"external\",\"api\":\"x\",\"protocol\":\"tcp\","
	"\"addressType\":\"inetaddress\",\"address\":{\"hostname\":\"::1\","
	"\"port\":\"80\"}},{\"path\":\"/a/b\","
	"\"scope\":\"internal\",\"api\":\"x\",\"protocol\":\"tcp\",\"addressType\":\"host/port\","
	"\"address\":\"h:81\"}]";
static const char near_endpoints[] =
	"[{\"path\":\"/a\",\"scope\":\"external\",\"api\":\"x\",\"protocol\":\"tcp\",\"tier\":0,"
	"\"addressType\":\"inetaddress\",\"address\":{\"hostname\":\"::1\","
	"\"port\":\"80\"}},{\"path\":\"/a/b\",\"tier\":2,"
	"\"scope\":\"internal\",\"api\":\"x\",\"protocol\":\"tcp\",\"addressType\":\"host/port\","
	"\"address\":\"h:81\"}]";
static const char children[] = "[\"/a/b\",\"/a/c\"]";
static const char stat_of_node[] =
	"{\"time\":7,\"size\":2,\"children\":2,\"foreign\":[\"X%2f\",\"Y\"]}";

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

static int call_resolve(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	int code = berth_resolve(berth, "/a", &answer, failure);
	if (code == 0) {
		code = strcmp(answer.json, "{}") == 0 && strcmp(answer.tag, "\"t\"") == 0
			? 0
			: FAILING_WRONG;
		berth_answer_finish(&answer);
	}
	return code;
}

static int call_find(struct berth *berth, struct berth_failure *failure)
{
	const struct berth_criteria criteria = { "/a", "x y", "tcp", "t", "i", "container" };
	struct berth_answer answer;
	int code = berth_find(berth, &criteria, NULL, NULL, &answer, failure);
	if (code == 0) {
		code = strcmp(answer.json, "{}") == 0 ? 0 : FAILING_WRONG;
		berth_answer_finish(&answer);
	}
	return code;
}

static int call_list(struct berth *berth, struct berth_failure *failure)
{
	struct berth_paths paths;
	int code = berth_list(berth, "/a", &paths, failure);
	if (code == 0) {
		bool right = paths.count == 2 && strcmp(paths.items[1], "/a/c") == 0 &&
			paths.foreign_count == 2 && strcmp(paths.foreign[0], "X%2f") == 0;
		code = right ? 0 : FAILING_WRONG;
		berth_paths_finish(&paths);
	}
	return code;
}

static int call_stat(struct berth *berth, struct berth_failure *failure)
{
	struct berth_stat stat;
	int code = berth_stat(berth, "/a", &stat, failure);
	bool right = code ||
		(stat.time_ms == 7 && stat.size == 2 && stat.children == 2 && stat.foreign == 2);
	return right ? code : FAILING_WRONG;
}

static int call_exists(struct berth *berth, struct berth_failure *failure)
{
	int code = berth_exists(berth, "/a", failure);
	return code < 0 ? code : code == 1 ? 0 : FAILING_WRONG;
}

static bool are_right(const struct berth_endpoints *found)
{
	return found->count == 2 && strcmp(found->items[0].address, "[::1]:80") == 0 &&
		strcmp(found->items[0].host, "::1") == 0 && found->items[0].port == 80 &&
		strcmp(found->items[0].address_json, "{\"hostname\":\"::1\",\"port\":\"80\"}") ==
		0 &&
		strcmp(found->items[1].address, "h:81") == 0 &&
		strcmp(found->items[1].path, "/a/b") == 0 && found->items[1].port == 81;
}

static const struct berth_endpoint_filter filter = { "x", "tcp", "external" };

static int call_endpoints(struct berth *berth, struct berth_failure *failure)
{
	struct berth_endpoints found;
	int code = berth_endpoints(berth, "/a", &filter, &found, failure);
	if (code == 0) {
		code = are_right(&found) ? 0 : FAILING_WRONG;
		berth_endpoints_finish(&found);
	}
	return code;
}

static int call_near(struct berth *berth, struct berth_failure *failure)
{
	struct berth_endpoints found;
	unsigned *tiers = NULL;
	int code = berth_endpoints_near(berth, "/a", &filter, "eu/a", &found, &tiers, failure);
	if (code == 0) {
		code = are_right(&found) && tiers[0] == 0 && tiers[1] == 2 ? 0 : FAILING_WRONG;
		free(tiers);
		berth_endpoints_finish(&found);
	}
	return code;
}

static int call_records(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	int code = berth_records(berth, "/a", &answer, failure);
	if (code == 0) {
		code = answer.len == 0 && strcmp(answer.json, "") == 0 ? 0 : FAILING_WRONG;
		berth_answer_finish(&answer);
	}
	return code;
}

static int call_lookup(struct berth *berth, struct berth_failure *failure)
{
	struct berth_lookup *lookup = NULL;
	const struct berth_endpoints *found;
	int code = berth_lookup_create(&lookup, berth, "/a", &filter, failure);
	if (code == 0) {
		code = berth_lookup_get(lookup, &found, failure);
		code = code ? code : are_right(found) ? 0 : FAILING_WRONG;
	}
	berth_lookup_free(lookup);
	return code;
}

static const struct {
	const char *name;
	const char *answer;
	call *make;
} calls[] = {
	{ "resolve", "{}", call_resolve },
	{ "find", "{}", call_find },
	{ "stat", stat_of_node, call_stat },
	{ "exists", stat_of_node, call_exists },
	{ "endpoints", endpoints, call_endpoints },
	{ "lookup", endpoints, call_lookup },
	{ "endpoints by nearness", near_endpoints, call_near },
	{ "an empty answer", "", call_records },
};

enum { CALLS = ARRAY_LEN(calls) };

static int make_call(void *context)
{
	call *const *make = context;
	struct berth_failure failure = { 0 };
	struct berth *berth = NULL;
	int code = berth_open(&berth, scripted_agent_path(), NULL, &failure);
	if (code == 0) {
		code = (*make)(berth, &failure);
	}
	bool told = code >= 0 || (failure.code == code && *failure.message);
	berth_close(berth);
	return told ? code : FAILING_WRONG;
}

Test(lookup, without_memory_an_answer_is_given_whole_or_not_at_all)
{
	for (size_t i = 0; i < CALLS; i++) {
		let_it_answer(calls[i].answer, calls[i].answer);
		failing_check_memory(calls[i].name, make_call, (void *)&calls[i].make);
	}
}

/* It asks twice, for two answers. */
Test(lookup, without_memory_a_list_is_given_whole_or_not_at_all)
{
	call *const make = call_list;
	bool fired = true;
	let_it_answer(children, stat_of_node);
	cr_assert_eq(make_call((void *)&make), 0); /* the agent's thread has begun */
	for (uint64_t number = 1; fired; number++) {
		let_it_answer(children, stat_of_node);
		failing_arm("alloc", number, ENOMEM);
		int code = make_call((void *)&make);
		fired = failing_disarm();
		cr_assert(
			code == 0 || (fired && code < 0), "%d without alloc %d", code, (int)number);
	}
}

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
