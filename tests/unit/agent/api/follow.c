/* The stream of an agent in a container, and all else that there is on a container's socket. */
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/api/follow.h"
#include "lib/base/array.h"
#include "tests/unit/agent/api/api_stage.h"

enum { CONFIRMS = 16 };

static struct http_container *box, *other_box;
static int asker; /* the questions come by this connection */
static char id[32];

/* A listening socket with a name of its own, which needs no file. */
static int listen_somewhere(void)
{
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(fd, (const struct sockaddr *)&any, sizeof(sa_family_t)), 0);
	cr_assert_eq(listen(fd, 10), 0);
	return fd;
}

static int connect_to(const struct http_container *container)
{
	struct sockaddr_un address;
	socklen_t len = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(
		getsockname(http_container_fd(container), (struct sockaddr *)&address, &len), 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&address, len), 0);
	turn();
	return fd;
}

static void begin(void)
{
	open_api();
	stage.container = json_pack("{s:s}", "name", "box");
	memory_set_session_timeout_ms(stage.registry, 6000);
	box = http_container_open(http_stage.http, "box", listen_somewhere());
	other_box = http_container_open(http_stage.http, "other", listen_somewhere());
	close(stage.client);
	stage.client = connect_to(box);
	asker = connect_to(box);
}

static void finish(void)
{
	close(asker);
	close(stage.client);
	stage.client = http_stage_connect();
	turn();
	http_container_close(box);
	http_container_close(other_box);
	json_decref(stage.container);
	close_api();
}

TestSuite(api_follow, .init = begin, .fini = finish);

static const char *follow(int client)
{
	const char *text = get(client, "/v1/follow", "");
	const char *at = strstr(text, "\"stream_id\":\"");
	cr_assert(at && sscanf(at, "\"stream_id\":\"%31[^\"]", id) == 1, "%s", text);
	return text;
}

static int ask_of(int client, const char *stream, const char *body)
{
	char text[8192];
	int status = 0;
	snprintf(text, sizeof(text),
		"POST /v1/follow/%s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s", stream,
		strlen(body), body);
	http_stage_send(client, text);
	turn();
	const char *answer = http_stage_receive(client);
	(void)sscanf(answer, "HTTP/1.1 %d", &status);
	check_answer(answer);
	return status;
}

/* The events of the stream after this question. */
static const char *told_of(const char *body)
{
	cr_assert_eq(ask_of(asker, id, body), 204, "%s", body);
	return more(stage.client);
}

static int count(const char *text, const char *part)
{
	int found = 0;
	for (; (text = strstr(text, part)); text++) {
		found++;
	}
	return found;
}

/* ---- what it begins with ---- */

Test(api_follow, it_begins_with_the_state_of_registry_and_container)
{
	const char *text = follow(stage.client);
	cr_expect(has(text, "Content-Type: application/recordio\r\n"), "%s", text);
	cr_expect(has(text, "{\"type\":\"SUBSCRIBED\",\"sequence\":1,\"time\":"), "%s", text);
	cr_expect(has(text, "\"heartbeat_interval_seconds\":10,"), "%s", text);
	cr_expect(has(text, "\"session_timeout_ms\":6000,\"connected\":true,\"heard_ms\":"), "%s",
		text);
	cr_expect(has(text, "\"container\":{\"name\":\"box\"}}"), "%s", text);
	cr_expect_not(has(text, "\"why\""));
	cr_expect_eq(api_watchers(stage.api), 1);
}

/* ---- reads ---- */

Test(api_follow, nodes_and_lists_are_read)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	memory_put(stage.registry, "/a/b", "");
	(void)follow(stage.client);
	const char *text = told_of("{\"reads\":[{\"id\":1,\"path\":\"/a\"}]}");
	cr_expect(has(text, "\"type\":\"READ\",\"sequence\":2"), "%s", text);
	cr_expect(has(text, ",\"id\":1,\"node\":{") && has(text, "one"), "%s", text);
	text = told_of("{\"reads\":[{\"id\":2,\"path\":\"/a\",\"list\":true}]}");
	cr_expect(has(text, ",\"id\":2,\"node\":{") && has(text, "\"names\":[\"b\"]"), "%s", text);
	text = told_of("{\"reads\":[{\"id\":3,\"path\":\"/none\"},{\"id\":4,\"path\":\"/a//\"}]}");
	cr_expect(has(text, ",\"id\":3,\"node\":null}"), "%s", text);
	cr_expect(has(text, ",\"id\":4,\"error\":\"InvalidPathname\",\"why\":\""), "%s", text);
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	cr_expect_str_eq(more(stage.client), "", "nothing is watched");
}

Test(api_follow, a_watched_answer_tells_once_that_it_does_not_hold_any_more)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	(void)follow(stage.client);
	/* The second one takes the place of the first; a list is another matter. */
	const char *text = told_of("{\"reads\":[{\"id\":1,\"path\":\"/a\",\"watch\":true},"
				   "{\"id\":2,\"path\":\"/a\",\"watch\":true},"
				   "{\"id\":3,\"path\":\"/a\",\"list\":true,\"watch\":true}]}");
	cr_expect_eq(count(text, "\"node\":"), 2, "%s", text);
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	text = more(stage.client);
	cr_expect_eq(count(text, "CHANGED"), 1, "%s", text);
	cr_expect(has(text, ",\"path\":\"/a\",\"list\":false}"), "%s", text);
	memory_put(stage.registry, "/a", cache_stage_record("three"));
	memory_put(stage.registry, "/a/b", "");
	text = more(stage.client);
	cr_expect_eq(count(text, "CHANGED"), 1, "%s", text);
	cr_expect(has(text, ",\"path\":\"/a\",\"list\":true}"), "%s", text);
	hear_now();
	text = told_of("{\"confirms\":[{\"id\":5,\"max_age_ms\":60000}]}");
	cr_expect_eq(count(text, "CHANGED"), 0, "%s", text);
	cr_expect_eq(stage.api->follow_bytes, 0);
}

Test(api_follow, a_dropped_path_tells_nothing)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	(void)follow(stage.client);
	(void)told_of("{\"reads\":[{\"id\":1,\"path\":\"/a\",\"watch\":true},"
		      "{\"id\":2,\"path\":\"/a\",\"list\":true,\"watch\":true}]}");
	cr_expect_str_eq(told_of("{\"drops\":[{\"path\":\"/a\"},{\"path\":\"/b\"}]}"), "");
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	memory_put(stage.registry, "/a/b", "");
	const char *text = more(stage.client);
	cr_expect_eq(count(text, "CHANGED"), 1, "%s", text);
	cr_expect(has(text, "\"list\":true"), "the list is still watched: %s", text);
}

Test(api_follow, watches_of_containers_leave_room_in_the_cache)
{
	enum { SIZE = 400000, READS = 100 };
	static const char read[] = "{\"reads\":[{\"id\":1,\"path\":\"/p%d\",\"watch\":true}]}";
	char body[128];
	const char *text = "";
	int watched = 0;
	int other = connect_to(other_box);
	cache_set_options(stage.cache,
		&(struct cache_options){ .max_size_bytes = SIZE,
			.confirm_ms = CONFIRM_S * 1000,
			.resync_ms = 1000,
			.release_rendering = api_release_rendering });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	(void)follow(stage.client);
	for (; watched < READS && !has(text, "LimitExceeded"); watched++) {
		snprintf(body, sizeof(body), read, watched);
		text = told_of(body);
	}
	cr_assert(
		watched > 10 && watched < READS && has(text, "max_size"), "%d: %s", watched, text);
	cr_expect(has_status(get(asker, "/v1/resolve/a", ""), 200), "others are served");
	(void)told_of("{\"drops\":[{\"path\":\"/p1\"}]}");
	snprintf(body, sizeof(body), read, watched);
	cr_expect(has(told_of(body), "\"node\":null"), "there is room again");
	char own[32];
	strcpy(own, id);
	(void)follow(other);
	int foreign = connect_to(other_box);
	cr_assert_eq(ask_of(foreign, id, body), 204);
	cr_expect(has(more(other), "\"node\":null"), "another container has its share");
	strcpy(id, own);
	close(foreign);
	close(other);
	turn();
}

Test(api_follow, answers_wait_until_the_agent_reads)
{
	enum { READS = 40, DESCRIPTION_BYTES = 60000 };
	static char record[DESCRIPTION_BYTES + 200];
	char body[64];
	snprintf(record, sizeof(record),
		"{\"type\":\"JSONServiceRecord\",\"description\":\"%0*d\",\"external\":[],"
		"\"internal\":[]}",
		DESCRIPTION_BYTES, 7);
	memory_put(stage.registry, "/large", record);
	(void)follow(stage.client);
	for (int i = 0; i < READS; i++) {
		snprintf(body, sizeof(body), "{\"reads\":[{\"id\":%d,\"path\":\"/large\"}]}", i);
		cr_assert_eq(ask_of(asker, id, body), 204);
	}
	memory_put(stage.registry, "/large", cache_stage_record("new"));
	turn();
	int old = 0;
	int all = 0;
	for (int i = 0; i < READS && all < READS; i++) {
		const char *text = more(stage.client);
		old += count(text, "00007");
		all += count(text, "\"node\":");
	}
	cr_expect_eq(all, READS);
	cr_expect(old > 0 && old < READS, "those that waited are asked anew: %d", old);
}

/* ---- confirmations ---- */

Test(api_follow, a_confirmation_comes_behind_all_that_changed_before)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	(void)follow(stage.client);
	(void)told_of("{\"reads\":[{\"id\":1,\"path\":\"/a\",\"watch\":true}]}");
	hear_now();
	const char *text = told_of("{\"confirms\":[{\"id\":5,\"max_age_ms\":60000}]}");
	cr_expect(has(text, "\"type\":\"CONFIRMED\"") && has(text, "\"id\":5,\"heard_ms\":"), "%s",
		text);
	memory_set_answering(stage.registry, false);
	http_stage_pass(CONFIRM_S + 1);
	cr_assert_str_eq(told_of("{\"confirms\":[{\"id\":6,\"max_age_ms\":0}]}"), "");
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	memory_set_answering(stage.registry, true);
	hear_now();
	text = more(stage.client);
	const char *changed = strstr(text, "CHANGED");
	const char *confirmed = strstr(text, "\"id\":6,\"heard_ms\":");
	cr_expect(changed && confirmed && changed < confirmed, "%s", text);
}

Test(api_follow, a_confirmation_comes_behind_what_the_containers_records_were)
{
	(void)follow(stage.client);
	hear_now();
	json_object_set_new(stage.container, "state", json_string("served"));
	const char *text = told_of("{\"confirms\":[{\"id\":5,\"max_age_ms\":60000}]}");
	const char *container = strstr(text, "\"type\":\"CONTAINER\"");
	const char *confirmed = strstr(text, "\"type\":\"CONFIRMED\"");
	cr_expect(container && confirmed && container < confirmed, "%s", text);
}

/* ---- news ---- */

Test(api_follow, it_tells_of_the_registry_and_of_the_container)
{
	(void)follow(stage.client);
	api_follows_changed(stage.api);
	cr_expect_str_eq(more(stage.client), "", "nothing has changed");
	set_state(REGISTRY_AWAY);
	api_follows_changed(stage.api);
	const char *text = more(stage.client);
	cr_expect(has(text, "\"type\":\"STALE\"") && has(text, ",\"why\":\"the registry"), "%s",
		text);
	set_state(REGISTRY_CONNECTED);
	api_follows_changed(stage.api);
	text = more(stage.client);
	cr_expect(has(text, "\"type\":\"FRESH\"") && !has(text, "why"), "%s", text);
	json_object_set_new(stage.container, "state", json_string("served"));
	api_follows_changed(stage.api);
	text = more(stage.client);
	cr_expect(has(text, "\"type\":\"CONTAINER\"") &&
			has(text, ",\"container\":{\"name\":\"box\",\"state\":\"served\"}}"),
		"%s", text);
	api_follows_changed(stage.api);
	cr_expect_str_eq(more(stage.client), "");
}

Test(api_follow, a_quiet_one_beats)
{
	(void)follow(stage.client);
	http_stage_pass(HEARTBEAT_S - 1);
	cr_expect_str_eq(more(stage.client), "");
	for (int i = 2; i < 4; i++) {
		char part[64];
		snprintf(part, sizeof(part), "{\"type\":\"HEARTBEAT\",\"sequence\":%d,", i);
		http_stage_pass(HEARTBEAT_S);
		const char *text = more(stage.client);
		cr_expect(has(text, part) && has(text, "\"heard_ms\":"), "%s", text);
	}
}

/* ---- streams ---- */

Test(api_follow, the_third_stream_of_a_container_ends_its_first)
{
	int second = connect_to(box);
	int third = connect_to(box);
	int foreign = connect_to(other_box);
	char first_id[32];
	(void)follow(stage.client);
	strcpy(first_id, id);
	(void)follow(foreign);
	(void)follow(second);
	cr_expect_not(http_stage_has_ended(stage.client), "another container's does not count");
	(void)follow(third);
	cr_expect(http_stage_has_ended(stage.client));
	cr_expect_not(http_stage_has_ended(second));
	cr_expect_eq(ask_of(asker, first_id, "{}"), 404);
	cr_expect_eq(ask_of(asker, id, "{}"), 204);
	cr_expect(stage.wanted_body);
	close(second);
	close(third);
	close(foreign);
	turn();
}

Test(api_follow, a_question_is_for_a_stream_of_the_same_container)
{
	int foreign = connect_to(other_box);
	(void)follow(stage.client);
	cr_expect_eq(ask_of(foreign, id, "{}"), 404);
	cr_expect_eq(ask_of(asker, "77", "{}"), 404);
	cr_expect_eq(ask_of(asker, id, "[]"), 400);
	cr_expect_eq(ask_of(asker, id, "{"), 400);
	cr_expect_str_eq(told_of("{\"reads\":[{\"id\":1},1],\"drops\":[{}],\"later\":[1]}"), "",
		"members of a newer agent");
	close(foreign);
}

Test(api_follow, an_agent_that_leaves_takes_all_along)
{
	(void)follow(stage.client);
	hear_now();
	memory_set_answering(stage.registry, false);
	http_stage_pass(CONFIRM_S + 1);
	cr_assert_str_eq(told_of("{\"reads\":[{\"id\":1,\"path\":\"/a\",\"watch\":true}],"
				 "\"confirms\":[{\"id\":2,\"max_age_ms\":0},"
				 "{\"id\":3,\"max_age_ms\":0}]}"),
		"");
	cr_assert_eq(list_count(&stage.cache->heard.waits), 2);
	close(stage.client);
	turn();
	cr_assert(list_empty(&stage.cache->heard.waits));
	turn();
	cr_expect_eq(api_watchers(stage.api), 0);
	memory_set_answering(stage.registry, true);
	turn();
	http_stage_pass(HEARTBEAT_S + 1);
	stage.client = connect_to(box);
}

/* ---- a container's socket ---- */

Test(api_follow, a_container_looks_up_and_nothing_else)
{
	static const struct {
		const char *method;
		const char *target;
		int status;
	} cases[] = {
		{ "GET", "/v1/resolve/a", 200 },
		{ "GET", "/v1/find?under=/", 200 },
		{ "GET", "/v1/names/a.services.berth", 404 },
		{ "GET", "/v1/shared", 404 },
		{ "GET", "/v1/agent", 404 },
		{ "GET", "/live", 404 },
		{ "GET", "/", 404 },
		{ "POST", "/v1/agent/drain", 404 },
		{ "OPTIONS", "/v1/agent/drain", 404 },
	};
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *answer = ask_as(asker, cases[i].method, cases[i].target, "");
		cr_expect(has_status(answer, cases[i].status), "%s: %s", cases[i].target, answer);
	}
	cr_expect_str_empty(stage.acts);
	const char *answer = get(asker, "/v1/bridge", "");
	cr_expect(has(answer, "\"for\":\"box\"") && has(answer, "\"name\":\"box\""), "%s", answer);
	int host = http_stage_connect();
	cr_expect(has(get(host, "/v1/bridge", ""), "\"for\":\"everybody\""));
	close(host);
}
