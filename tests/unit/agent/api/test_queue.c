/* Clients that wait: for bytes of streams, how many and for how long, and to search. */
#include <ev.h>
#include <sys/time.h>

#include "agent/api/api.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/names_stage.h"
#include "tests/support/shifted_clock.h"
#include "tests/unit/agent/api/plain_http.h"

enum {
	CLIENTS = 4,
	HEARTBEAT_S = 10,
	QUEUE_BYTES = 64 * 1024,
	MOST_BYTES = 16 * 1024 * 1024,
	TEXT_BYTES = 8 * 1024 * 1024
};

static struct {
	struct ev_loop *loop;
	struct registry *registry;
	struct cache *cache;
	struct names_lookups *names;
	struct history *history;
	struct metrics *metrics;
	struct api *api;
	struct client clients[CLIENTS];
	json_t *container; /* of API_BRIDGE */
} stage;

static char text[TEXT_BYTES];

/* libev's wall clock. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	int ret = clock_gettime(CLOCK_REALTIME, &precise);
	(void)zone;
	now->tv_sec = precise.tv_sec;
	now->tv_usec = (suseconds_t)(precise.tv_nsec / 1000);
	return ret;
}

static void turn(void)
{
	for (int i = 0; i < 20; i++) {
		registry_dispatch(stage.registry, 1);
		ev_run(stage.loop, EVRUN_NOWAIT);
	}
}

static void pass(int seconds)
{
	clock_shift_ms += INT64_C(1000) * seconds;
	turn();
}

static int act(void *context, struct api_act *act, struct err *err)
{
	(void)context;
	if (act->kind == API_STATUS) {
		act->result = json_object();
	} else if (act->kind == API_BRIDGE) {
		act->result = json_pack("{s:[O]}", "containers", stage.container);
	}
	return err->code;
}

static struct check *find_check(void *context, size_t index)
{
	(void)context;
	(void)index;
	return NULL;
}

static void begin(void)
{
	static const struct api_hooks hooks = { .find_check = find_check, .act = act };
	static const struct api_options options = {
		.version = "0", .max_watchers = 100, .heartbeat_interval_ms = HEARTBEAT_S * 1000
	};
	static const struct cache_options cache_options = { .max_size_bytes = 64 * 1024 * 1024,
		.resync_ms = 600000,
		.release_rendering = api_release_rendering };
	stage.loop = ev_loop_new(EVFLAG_AUTO);
	stage.registry = memory_open("queue", &(struct registry_options){ .context = NULL });
	stage.cache = cache_create(stage.loop, stage.registry, &cache_options);
	stage.names = names_stage_create(stage.loop, stage.cache);
	stage.history = history_create();
	stage.metrics = metrics_create();
	stage.api = api_create(stage.loop, stage.cache, stage.names, stage.registry, stage.history,
		stage.metrics, &hooks, &options);
	stage.container = json_pack("{s:s}", "name", "box");
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	turn();
	cache_on_registry_state(stage.cache, REGISTRY_CONNECTED);
}

static void leave(struct client *client)
{
	if (client->stream.on_closed) {
		client->stream.on_closed(client->stream.context);
		client->stream.on_closed = NULL;
	}
}

static void finish(void)
{
	for (int i = 0; i < CLIENTS; i++) {
		leave(&stage.clients[i]);
	}
	api_destroy(stage.api);
	metrics_destroy(stage.metrics);
	history_destroy(stage.history);
	names_stage_destroy(stage.names);
	cache_destroy(stage.cache);
	registry_close(stage.registry);
	cr_expect_not(ev_run(stage.loop, EVRUN_NOWAIT), "something goes on");
	ev_loop_destroy(stage.loop);
	json_decref(stage.container);
}

TestSuite(api_queue, .init = begin, .fini = finish);

static struct client *open_stream(int number, const char *path)
{
	struct client *client = &stage.clients[number];
	client->parameter = "recursive";
	strcpy(client->value, "yes");
	client->request = (struct http_request){ .method = HTTP_GET,
		.path = path,
		.query = "",
		.accept = "application/x-ndjson",
		.local = true,
		.container = strcmp(path, "/v1/follow") == 0 ? "box" : NULL };
	api_on_request(stage.api, &client->request);
	turn();
	return client;
}

/* Takes so many bytes at most; the text of what came. */
static const char *take(struct client *client, size_t most)
{
	size_t len = client->stream.on_read(
		client->stream.context, text, most < sizeof(text) - 1 ? most : sizeof(text) - 1);
	text[len] = '\0';
	return text;
}

static const char *take_all(struct client *client)
{
	return take(client, sizeof(text));
}

static bool has(const char *answer, const char *part)
{
	return strstr(answer, part) != NULL;
}

/* A record with a description of so many bytes. */
static const char *large(size_t len)
{
	static char record[64 * 1024];
	snprintf(record, sizeof(record),
		"{\"type\":\"JSONServiceRecord\",\"description\":\"%0*d\",\"external\":[],"
		"\"internal\":[]}",
		(int)len, 7);
	return record;
}

/* Changes of /a until the stream takes no more of them; the bytes that wait for the client. */
static size_t fill(struct client *client, size_t *ret_last)
{
	size_t held = client->held;
	size_t before;
	int i = 0;
	do {
		char name[16];
		before = held;
		snprintf(name, sizeof(name), "%06d", i++);
		memory_put(stage.registry, "/a", cache_stage_record(name));
		turn();
		held = client->held;
	} while (held > before);
	*ret_last = held / (size_t)i;
	return held;
}

/* ---- how much ---- */

Test(api_queue, a_reader_may_be_64_kib_behind)
{
	size_t event;
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	struct client *client = open_stream(0, "/v1/watch/a");
	cr_assert(has(take_all(client), "SUBSCRIBED"));
	cr_expect_eq(client->held, 0);
	size_t held = fill(client, &event);
	cr_expect(held > QUEUE_BYTES && held <= QUEUE_BYTES + 2 * event, "%zu", held);
	cr_expect_eq(strlen(take_all(client)), held, "no more and no less comes");
	cr_expect_eq(client->held, 0);
	cr_expect(has(take_all(client), "{\"type\":\"RESYNC\""));
	cr_expect_str_eq(take_all(client), "");
	memory_put(stage.registry, "/a", cache_stage_record("last"));
	turn();
	cr_expect(has(take_all(client), "UPDATED"));
}

/* ---- room ---- */

Test(api_queue, a_snapshot_waits_for_room)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	plain_http_has_room = false;
	struct client *client = open_stream(0, "/v1/watch/a");
	cr_assert_str_eq(take_all(client), "");
	struct client *other = open_stream(1, "/v1/watch/a");
	cr_assert_str_eq(take_all(other), "");
	plain_http_has_room = true;
	size_t wakes = other->wakes;
	cr_assert(has(take_all(client), "SUBSCRIBED"));
	cr_expect_gt(other->wakes, wakes, "it is the next one's turn");
	cr_expect(has(take_all(other), "SUBSCRIBED"));
}

Test(api_queue, without_room_an_event_becomes_a_snapshot)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	struct client *client = open_stream(0, "/v1/watch/a");
	(void)take_all(client);
	plain_http_has_room = false;
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	turn();
	cr_expect_eq(client->held, 0);
	cr_expect_str_eq(take_all(client), "");
	plain_http_has_room = true;
	const char *came = take_all(client);
	cr_expect(has(came, "RESYNC") && has(came, "two"), "%s", came);
}

Test(api_queue, a_reader_that_leaves_bytes_unread_ends_when_others_wait_for_room)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	struct client *slow = open_stream(0, "/v1/watch/a");
	(void)take_all(slow);
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	turn();
	cr_assert_gt(slow->held, 0);
	pass(5 * HEARTBEAT_S);
	cr_expect_not(slow->ended, "nobody waits");
	(void)take_all(slow);
	memory_put(stage.registry, "/a", cache_stage_record("three"));
	turn();
	(void)take(slow, 1);
	plain_http_has_room = false;
	struct client *waiting = open_stream(1, "/v1/watch/a");
	cr_assert_str_eq(take_all(waiting), "");
	for (int i = 0; i < 2 * HEARTBEAT_S - 2; i++) {
		pass(1);
	}
	cr_expect_not(slow->ended);
	cr_expect_eq(waiting->held, 0);
	size_t wakes = waiting->wakes;
	plain_http_has_room = true;
	for (int i = 0; i < 4; i++) {
		pass(1);
	}
	cr_expect(slow->ended);
	cr_expect_eq(slow->held, 0);
	cr_expect_not(waiting->ended);
	cr_expect_gt(waiting->wakes, wakes);
	cr_expect(has(take_all(waiting), "SUBSCRIBED"));
}

Test(api_queue, a_turn_of_the_loop_writes_4_mib_of_snapshots)
{
	enum { RECORDS = 75, RECORD_BYTES = 60000 };
	memory_put(stage.registry, "/t", "");
	for (int i = 0; i < RECORDS; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/t/a%d", i);
		memory_put(stage.registry, path, large(RECORD_BYTES));
	}
	struct client *clients[3];
	for (int i = 0; i < 3; i++) {
		clients[i] = open_stream(i, "/v1/watch/t");
	}
	turn();
	cr_assert(has(take_all(clients[0]), "SUBSCRIBED"));
	cr_assert_gt(strlen(text), RECORDS * RECORD_BYTES);
	cr_expect_str_eq(take_all(clients[1]), "", "it has to wait for the next one");
	cr_expect_str_eq(take_all(clients[2]), "");
	size_t wakes = clients[1]->wakes;
	ev_run(stage.loop, EVRUN_NOWAIT);
	ev_run(stage.loop, EVRUN_NOWAIT);
	cr_expect_gt(clients[1]->wakes, wakes);
	cr_expect(has(take_all(clients[1]), "SUBSCRIBED"));
	cr_expect_str_eq(take_all(clients[2]), "");
	turn();
	cr_expect(has(take_all(clients[2]), "SUBSCRIBED"));
}

/* ---- heartbeats ---- */

Test(api_queue, a_client_with_something_to_read_gets_no_heartbeat)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	struct client *client = open_stream(0, "/v1/watch/a");
	struct client *behind = open_stream(1, "/v1/watch/a");
	(void)take_all(client);
	(void)take(behind, 1);
	size_t held = behind->held;
	cr_assert_gt(held, 0);
	pass(HEARTBEAT_S + 1);
	cr_expect(has(take_all(client), "HEARTBEAT"));
	cr_expect_eq(behind->held, held);
	cr_expect_not(has(take_all(behind), "HEARTBEAT"));
	pass(HEARTBEAT_S + 1);
	cr_expect(has(take_all(behind), "HEARTBEAT"));
}

/* ---- an agent in a container ---- */

static void ask(const char *body)
{
	struct client *client = &stage.clients[CLIENTS - 1];
	*client = (struct client){ .request = { .method = HTTP_POST,
					   .path = "/v1/follow/1",
					   .query = "",
					   .local = true,
					   .container = "box",
					   .body = body,
					   .body_len = strlen(body) } };
	api_on_request(stage.api, &client->request);
	cr_assert_eq(client->status, 204, "%d", client->status);
	turn();
}

Test(api_queue, reads_are_answered_while_less_than_64_kib_are_unread)
{
	enum { LARGE = 20000 };
	memory_put(stage.registry, "/a", large(LARGE));
	struct client *client = open_stream(0, "/v1/follow");
	cr_assert(has(take_all(client), "SUBSCRIBED"));
	int count = 0;
	size_t before;
	do {
		before = client->held;
		ask("{\"reads\":[{\"id\":1,\"path\":\"/a\"}]}");
		count++;
	} while (client->held > before);
	cr_expect_eq(count, 5, "the fourth one goes beyond: %d", count);
	cr_expect_eq(strlen(take_all(client)), before);
	turn();
	cr_expect(has(take_all(client), "\"node\":{"), "the one that was put off");
	cr_expect_str_eq(take_all(client), "");
	cr_expect_eq(client->held, 0);
}

Test(api_queue, a_container_whose_agent_reads_nothing_is_cut_off_at_last)
{
	enum { LARGE = 1024 * 1024 };
	char *name = calloc(1, LARGE + 1);
	cr_assert(name);
	memset(name, 'x', LARGE);
	struct client *client = open_stream(0, "/v1/follow");
	(void)take_all(client);
	size_t held = 0;
	for (int i = 0; i < 40 && !client->ended; i++) {
		held = client->held;
		cr_assert_leq(held, MOST_BYTES, "%d: %zu", i, held);
		name[0] = (char)('a' + i);
		json_object_set_new(stage.container, "name", json_string(name));
		api_follows_changed(stage.api);
		turn();
	}
	cr_expect(client->ended);
	cr_expect_gt(held, MOST_BYTES - LARGE - 1000);
	free(name);
}

Test(api_queue, an_answer_that_comes_when_there_is_no_room_is_asked_for_again)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	struct client *client = open_stream(0, "/v1/follow");
	(void)take_all(client);
	memory_set_answering(stage.registry, false);
	ask("{\"reads\":[{\"id\":1,\"path\":\"/a\"}]}");
	plain_http_has_room = false;
	memory_set_answering(stage.registry, true);
	turn();
	cr_expect_str_eq(take_all(client), "");
	plain_http_has_room = true;
	ask("{\"confirms\":[{\"id\":5,\"max_age_ms\":60000}]}");
	(void)take_all(client);
	turn();
	cr_expect(has(take_all(client), "\"id\":1,\"node\":{"), "%s", text);
}

/* ---- searches, on a registry that does nothing between dispatches ---- */

enum { SEARCHES = 40, CHILDREN = 20, MAX_WALKS = 4 };

static struct client searches[SEARCHES];
static size_t tasks;

static void count_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	(void)err;
	tasks++;
}

static void dispatch(void)
{
	for (int i = 0; i < 5; i++) {
		turn();
	}
}

static void put_children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/n%d", i);
		memory_put(stage.registry, path, "");
	}
	memory_on_task(stage.registry, count_task, NULL);
}

/* Everybody asks for something else. */
static void search(bool local)
{
	for (int i = 0; i < SEARCHES; i++) {
		struct client *client = &searches[i];
		*client = (struct client){ .request = { .method = HTTP_GET,
						   .path = "/v1/find",
						   .query = "",
						   .local = local },
			.parameter = "api" };
		snprintf(client->value, sizeof(client->value), "urn:%d", i);
		api_on_request(stage.api, &client->request);
	}
}

static void leave_search(struct client *client)
{
	if (!client->status) {
		client->on_closed(client->on_closed_context);
	}
}

static int count_answers(int status)
{
	int count = 0;
	for (int i = 0; i < SEARCHES; i++) {
		count += searches[i].status == status;
	}
	return count;
}

Test(api_queue, only_some_walk_at_once_and_only_some_wait)
{
	put_children();
	search(true);
	cr_assert_eq(memory_tasks(stage.registry), MAX_WALKS);
	cr_assert_eq(count_answers(503), 8);
	cr_assert(searches[SEARCHES - 1].retry);
	dispatch();
	cr_assert_eq(count_answers(200), 32);
}

Test(api_queue, remote_clients_do_not_use_up_the_turns_of_local_ones)
{
	put_children();
	search(false);
	cr_assert_eq(count_answers(503), SEARCHES - 8);
	struct client local = { .request = { .path = "/v1/find", .query = "", .local = true },
		.parameter = "api",
		.value = "urn:local" };
	api_on_request(stage.api, &local.request);
	dispatch();
	cr_assert_eq(local.status, 200);
	cr_assert_eq(count_answers(200), 8);
	search(false);
	dispatch();
	cr_assert_eq(count_answers(200), 8, "there is room again");
	search(false);
	for (int i = 0; i < SEARCHES; i++) {
		leave_search(&searches[i]);
	}
	search(false);
	dispatch();
	cr_assert_eq(count_answers(200), 8, "after those that left, too");
}

Test(api_queue, a_walk_ends_when_its_last_client_leaves)
{
	put_children();
	search(true);
	for (int i = 0; i < SEARCHES; i++) {
		leave_search(&searches[i]);
	}
	dispatch();
	cr_assert_lt(tasks, CHILDREN, "%zu tasks for nobody", tasks);
	search(true);
	dispatch();
	cr_assert_eq(count_answers(200), 32, "what was left can be asked for again");
}
