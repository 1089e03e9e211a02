/* The words for how true an answer is, over HTTP, on a registry that acts when a test says so. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/api/api.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/http_stage.h"
#include "tests/support/memory_backend.h"

enum { CONFIRM_S = 2, TIMEOUT_S = 5 };

static struct {
	struct registry *registry;
	struct cache *cache;
	struct names_lookups *names;
	struct history *history;
	struct metrics *metrics;
	struct api *api;
	int client;
	const char *silent_after; /* the registry reads this path, and then it falls silent */
} stage;

static void handle(struct http_request *request)
{
	api_on_request(stage.api, request);
}

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)err;
	if (stage.silent_after && task->operation == REGISTRY_OP_CHILDREN &&
		strcmp(task->path, stage.silent_after) == 0) {
		memory_set_answering(stage.registry, false);
	}
}

static void turn(void)
{
	for (int i = 0; i < 20; i++) {
		registry_dispatch(stage.registry, 1);
		http_stage_turn();
	}
}

static void open_api(void)
{
	static const struct api_hooks hooks;
	static const struct api_options options = { .version = "0", .max_watchers = 10 };
	static const struct cache_options cache_options = { .max_size_bytes = 1024 * 1024,
		.confirm_ms = CONFIRM_S * 1000,
		.resync_ms = 600000,
		.release_rendering = api_release_rendering };
	http_stage_begin();
	memset(&stage, 0, sizeof(stage));
	stage.registry = memory_open("lookup", &(struct registry_options){ .context = NULL });
	memory_on_task(stage.registry, on_task, NULL);
	stage.cache = cache_create(http_stage.loop, stage.registry, &cache_options);
	stage.names = names_lookups_create(http_stage.loop, stage.cache, "berth");
	stage.history = history_create();
	stage.metrics = metrics_create();
	stage.api = api_create(http_stage.loop, stage.cache, stage.names, stage.registry,
		stage.history, stage.metrics, &hooks, &options);
	http_stage.handle = handle;
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	turn();
	cache_on_registry_state(stage.cache, REGISTRY_CONNECTED);
	stage.client = http_stage_connect();
}

static void close_api(void)
{
	close(stage.client);
	http_stage_turn();
	api_destroy(stage.api);
	metrics_destroy(stage.metrics);
	history_destroy(stage.history);
	names_lookups_destroy(stage.names);
	cache_destroy(stage.cache);
	registry_close(stage.registry);
	http_stage_end();
}

TestSuite(api_lookup, .init = open_api, .fini = close_api);

/* The answer to a look-up that has one at once; "" while it waits. */
static const char *ask_with(int client, const char *target, const char *fields)
{
	char text[256];
	snprintf(text, sizeof(text), "GET /v1%s HTTP/1.1\r\nHost: a\r\n%s\r\n", target, fields);
	http_stage_send(client, text);
	turn();
	return http_stage_receive(client);
}

static const char *ask(const char *target)
{
	return ask_with(stage.client, target, "");
}

static bool says(const char *answer, const char *word)
{
	char header[32];
	snprintf(header, sizeof(header), "X-Cache: %s\r\n", word);
	return strstr(answer, header) != NULL;
}

static void hear_now(void)
{
	memory_set_heard_ms(stage.registry, clock_monotonic_ms());
}

/* The records of /d are known, the server is silent for longer than a HIT may be old, and asked. */
static void wait_for_confirmation(void)
{
	memory_put(stage.registry, "/d", "");
	memory_put(stage.registry, "/d/a", cache_stage_record("one"));
	cr_assert(says(ask("/records/d"), "MISS"));
	cr_assert(says(ask("/records/d"), "HIT"));
	hear_now();
	memory_set_answering(stage.registry, false);
	http_stage_pass(CONFIRM_S + 1);
	cr_assert_str_eq(ask("/records/d"), "", "the look-up waits for a sign of life");
}

/*
 * Another client wants the records read: the server answers what was asked before, and takes its
 * time for a record. So the first look-up waits for it, too.
 */
static void wait_for_a_read(int other, int seconds)
{
	cr_assert_str_eq(ask_with(other, "/records/d", "Cache-Control: no-cache\r\n"), "");
	stage.silent_after = "/d";
	memory_set_answering(stage.registry, true);
	hear_now();
	turn();
	cr_assert_str_eq(http_stage_receive(stage.client), "");
	http_stage_pass(seconds);
	stage.silent_after = NULL;
	memory_set_answering(stage.registry, true);
	turn();
}

Test(api_lookup, a_confirmed_answer_is_a_hit)
{
	wait_for_confirmation();
	memory_set_answering(stage.registry, true);
	hear_now();
	turn();
	cr_assert(says(http_stage_receive(stage.client), "HIT"));
}

Test(api_lookup, an_answer_that_a_read_has_delayed_beyond_confirm_is_no_hit)
{
	int other = http_stage_connect();
	wait_for_confirmation();
	wait_for_a_read(other, CONFIRM_S + 1);
	cr_assert(says(http_stage_receive(stage.client), "MISS"));
	cr_assert(says(http_stage_receive(other), "MISS"));
	close(other);
}

Test(api_lookup, an_answer_that_a_read_has_delayed_by_less_is_a_hit)
{
	int other = http_stage_connect();
	wait_for_confirmation();
	wait_for_a_read(other, CONFIRM_S - 1);
	cr_assert(says(http_stage_receive(stage.client), "HIT"));
	cr_assert(says(http_stage_receive(other), "MISS"));
	close(other);
}

/* ---- reads that take too long ---- */

Test(api_lookup, a_known_path_is_stale_when_the_read_for_a_lookup_takes_too_long)
{
	int other = http_stage_connect();
	wait_for_confirmation();
	cr_assert_str_eq(ask_with(other, "/records/d", "Cache-Control: no-cache\r\n"), "");
	http_stage_pass(TIMEOUT_S + 1);
	const char *answer = http_stage_receive(other);
	cr_assert(says(answer, "STALE"), "%s", answer);
	cr_assert(strstr(answer, "/d/a"), "%s", answer);
	answer = http_stage_receive(stage.client);
	cr_assert(says(answer, "STALE"), "%s", answer);
	close(other);
}

Test(api_lookup, the_read_goes_on_and_tells_the_next_lookup)
{
	wait_for_confirmation();
	memory_put(stage.registry, "/d/a", cache_stage_record("two"));
	int other = http_stage_connect();
	cr_assert_str_eq(ask_with(other, "/resolve/d/a", "Cache-Control: no-cache\r\n"), "");
	http_stage_pass(TIMEOUT_S + 1);
	cr_assert(strstr(http_stage_receive(other), "one"));
	memory_set_answering(stage.registry, true);
	hear_now();
	turn();
	const char *answer = ask_with(other, "/resolve/d/a", "");
	cr_assert(says(answer, "HIT") && strstr(answer, "two"), "%s", answer);
	close(other);
}

Test(api_lookup, a_path_that_is_not_known_gets_a_failure)
{
	memory_set_answering(stage.registry, false);
	cr_assert_str_eq(ask("/resolve/unknown"), "");
	http_stage_pass(TIMEOUT_S + 1);
	const char *answer = http_stage_receive(stage.client);
	cr_assert(strstr(answer, "HTTP/1.1 504 "), "%s", answer);
}
