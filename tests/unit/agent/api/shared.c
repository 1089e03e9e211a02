/* The memory with ready answers: who gets it, and which answers of requests go into it. */
#include <sys/socket.h>

#include "agent/shared/shared.h"
#include "lib/base/array.h"
#include "lib/shared/read.h"
#include "tests/unit/agent/api/api_stage.h"

enum { MAP_BYTES = 1024 * 1024, NAME_BYTES = 63 };

#define READER "Prefer: shared\r\n"

static struct shared *shared;
static struct shared_map map;
static struct shared_answer found;
static char value[SHARED_VALUE_BYTES + 1];

static void begin(void)
{
	static const struct api_options options = { .version = "0",
		.max_watchers = MAX_WATCHERS,
		.names_ttl_s = 5,
		.names_stale_ttl_s = 1 };
	open_api();
	api_set_options(stage.api, &options);
	shared = shared_create(http_stage.loop, stage.cache);
	shared_set_options(
		shared, &(struct shared_options){ .enabled = true, .max_bytes = MAP_BYTES });
	api_set_shared(stage.api, shared);
}

static void finish(void)
{
	shared_map_close(&map);
	shared_destroy(shared);
	close_api();
}

TestSuite(api_shared, .init = begin, .fini = finish);

/* The answer to GET /v1/shared, and the descriptor that comes with it, or -1. */
static const char *fetch(int client, int *ret_fd)
{
	static char text[1024];
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { .iov_base = text, .iov_len = sizeof(text) - 1 };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	http_stage_send(client, "GET /v1/shared HTTP/1.1\r\nHost: a\r\n\r\n");
	turn();
	ssize_t len = recvmsg(client, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	cr_assert_gt(len, 0);
	text[len] = '\0';
	*ret_fd = -1;
	if (header) {
		memcpy(ret_fd, CMSG_DATA(header), sizeof(*ret_fd));
	}
	return text;
}

/* A client with a map of its own; the connection stays open. */
static void open_map(void)
{
	int fd;
	int client = http_stage_connect();
	const char *answer = fetch(client, &fd);
	cr_assert(has_status(answer, 200) && fd >= 0, "%s", answer);
	cr_assert(shared_map_open(&map, fd));
	close(fd);
	close(client);
	turn();
}

static bool is_in_map(const char *key)
{
	return shared_map_read(&map, key, strlen(key), value, sizeof(value), &found) ==
		SHARED_FOUND;
}

static const char *ask(const char *target)
{
	return get(stage.client, target, READER);
}

/* ---- handing it out ---- */

Test(api_shared, a_client_gets_a_descriptor_of_the_memory)
{
	int fd;
	int client = http_stage_connect();
	const char *answer = fetch(client, &fd);
	char size[32];
	cr_assert(has_status(answer, 200), "%s", answer);
	cr_assert_geq(fd, 0);
	cr_expect(has(answer, "Content-Type: application/json\r\n"), "%s", answer);
	cr_expect(has(answer, "Cache-Control: no-store\r\n"), "%s", answer);
	cr_assert(shared_map_open(&map, fd));
	snprintf(size, sizeof(size), "{\"version\":1,\"size\":%zu}\n", map.size);
	cr_expect(has(answer, size), "%s", answer);
	cr_expect(has(get(stage.client, "/metrics", ""), "\nberth_shared_maps_total 1\n"));
	close(fd);
	close(client);
}

Test(api_shared, one_descriptor_at_a_time)
{
	int fds[2];
	int client = http_stage_connect();
	int other = http_stage_connect();
	http_stage_send(client, "GET /v1/shared HTTP/1.1\r\nHost: a\r\n\r\n");
	turn();
	const char *answer = fetch(other, &fds[0]);
	cr_expect(has_status(answer, 503) && has(answer, "LimitExceeded"), "%s", answer);
	cr_expect(has(answer, "has not read the last descriptor") && fds[0] < 0, "%s", answer);
	(void)http_stage_receive(client);
	close(client);
	turn();
	answer = fetch(other, &fds[1]);
	cr_expect(has_status(answer, 200) && fds[1] >= 0, "%s", answer);
	close(fds[1]);
	close(other);
}

/* ---- what goes in ---- */

Test(api_shared, an_answer_for_a_reader_is_there_for_its_next_lookup)
{
	static const char *const targets[] = { "/v1/resolve/d/a", "/v1/list/d", "/v1/records/d",
		"/v1/endpoints/d", "/v1/endpoints/d?scope=internal", "/v1/targets/d",
		"/v1/stat/d/a" };
	memory_put(stage.registry, "/d", "");
	memory_put(stage.registry, "/d/a", cache_stage_record("one"));
	open_map();
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		cr_expect_not(is_in_map(targets[i]));
		const char *answer = ask(targets[i]);
		const char *body = strstr(answer, "\r\n\r\n");
		cr_assert(has_status(answer, 200) && body, "%s", answer);
		cr_expect(is_in_map(targets[i]), "%s", targets[i]);
		cr_expect_str_eq(value, body + 4);
		cr_expect(has(answer, found.tag) && *found.tag, "%s: %s", found.tag, answer);
		cr_expect_eq(found.error, 0);
	}
	/* The reads for one of them took others back. */
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		(void)ask(targets[i]);
	}
	cr_expect(has(get(stage.client, "/metrics", ""), "\nberth_shared_entries 7\n"));
}

Test(api_shared, the_answer_that_is_there_changes_with_its_path)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	open_map();
	(void)ask("/v1/resolve/a");
	cr_assert(is_in_map("/v1/resolve/a"));
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	turn();
	cr_expect_not(is_in_map("/v1/resolve/a"));
	(void)ask("/v1/resolve/a");
	cr_expect(is_in_map("/v1/resolve/a") && strstr(value, "two"));
}

Test(api_shared, only_what_a_reader_asks_for_goes_in)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	open_map();
	(void)get(stage.client, "/v1/resolve/a", "");
	cr_expect_not(is_in_map("/v1/resolve/a"));
	(void)get(stage.client, "/v1/resolve/a", "Prefer: wait=1\r\n");
	cr_expect_not(is_in_map("/v1/resolve/a"));
	(void)ask_as(stage.client, "HEAD", "/v1/resolve/a", READER);
	cr_expect_not(is_in_map("/v1/resolve/a"));
	(void)ask("/v1/find?under=/");
	cr_expect_not(is_in_map("/v1/find?under=/"), "a search is no look-up");
	http_stage_open_tcp();
	int client = http_stage_connect_remote();
	const char *answer = http_stage_ask_remote(
		client, "GET /v1/resolve/a HTTP/1.1\r\nHost: 127.0.0.1\r\n" READER "\r\n");
	cr_assert(has_status(answer, 200), "%s", answer);
	cr_expect_not(is_in_map("/v1/resolve/a"), "over TCP nobody reads it");
	close(client);
	connect_again();
	(void)ask("/v1/resolve/a");
	cr_expect(is_in_map("/v1/resolve/a"));
}

Test(api_shared, a_stale_answer_does_not_go_in)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cr_assert(has_status(get(stage.client, "/v1/resolve/a", ""), 200));
	open_map();
	set_state(REGISTRY_AWAY);
	shared_on_registry_state(shared, REGISTRY_AWAY);
	const char *answer = ask("/v1/resolve/a");
	cr_assert(has(answer, "X-Cache: STALE\r\n"), "%s", answer);
	set_state(REGISTRY_CONNECTED);
	cr_expect_not(is_in_map("/v1/resolve/a"));
}

Test(api_shared, names_go_in_with_their_type_and_form)
{
	memory_put(stage.registry, "/services", "");
	memory_put(stage.registry, "/services/db",
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"sql\",\"addressType\":"
		"\"host/port\",\"protocolType\":\"tcp\",\"addresses\":[{\"host\":\"10.1.2.3\","
		"\"port\":\"5432\"}]}],\"internal\":[]}");
	(void)get(stage.client, "/v1/names/db.services.berth", "");
	open_map();
	(void)get(stage.client, "/v1/names/db.services.berth", "");
	cr_expect_not(is_in_map("/v1/names/db.services.berth"), "nobody reads that one");
	const char *answer = ask("/v1/names/db.services.berth?type=A");
	const char *body = strstr(answer, "\r\n\r\n");
	cr_assert(has_status(answer, 200) && body, "%s", answer);
	cr_assert(is_in_map("/v1/names/db.services.berth?type=A"));
	cr_expect_str_eq(value, body + 4);
	(void)get(stage.client, "/v1/names/db.services.berth", READER "Accept: text/plain\r\n");
	cr_assert(is_in_map("/v1/names/db.services.berth text/plain"));
	cr_expect(strncmp(value, "A 10.1.2.3\n", 11) == 0, "%s", value);
	(void)ask("/v1/names/none.services.berth");
	cr_assert(has_status(ask("/v1/names/none.services.berth"), 404));
	cr_assert(is_in_map("/v1/names/none.services.berth"));
	cr_expect_eq(found.error, BERTH_PATH_NOT_FOUND);
	cr_expect(strstr(value, "no record has the name none"), "%s", value);
	cr_assert(has_status(ask("/v1/names/db.example"), 404));
	cr_expect_not(is_in_map("/v1/names/db.example"), "an agent may serve that later");
}
