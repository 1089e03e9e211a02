/* Look-ups on an agent that shares its memory: which are answered there, and which it is asked. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/shared/map.h"
#include "lib/base/array.h"
#include "lib/berth.h"
#include "tests/support/scratch.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

enum { MAP_BYTES = 1024 * 1024, CONNECTIONS = 8 };

/* ---- an agent that counts what it is asked ---- */

struct stage {
	struct scratch_listener listener;
	pthread_t thread;
	bool stopped;
	struct berth *berth;
	struct map *map;         /* NULL: it has none */
	const char *without_map; /* the status of its answer, if so */
	const char *body;        /* of other answers */
	const char *freshness;   /* their headers */
	char request[4096];      /* the last other one */
	_Atomic int asked;       /* for anything but a map */
	_Atomic int asked_for_map;
};

static void send_map(struct stage *stage, int fd)
{
	char answer[128];
	int map_file = stage->map ? map_fd(stage->map) : STDIN_FILENO;
	union {
		struct cmsghdr aligned;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = "" };
	struct iovec part = { answer,
		(size_t)snprintf(answer, sizeof(answer),
			"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}",
			stage->map ? "200 OK" : stage->without_map) };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &map_file, sizeof(map_file));
	stage->asked_for_map++;
	(void)!sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* A request comes in one piece. False at the end of the connection. */
static bool answer(struct stage *stage, int fd)
{
	char text[4096];
	ssize_t got = recv(fd, text, sizeof(text) - 1, 0);
	if (got <= 0) {
		return false;
	}
	text[got] = '\0';
	if (strncmp(text, "GET /v1/shared ", 15) == 0) {
		send_map(stage, fd);
		return true;
	}
	strcpy(stage->request, text);
	stage->asked++;
	int len = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n%sContent-Length: %zu\r\n\r\n%s",
		stage->freshness, strlen(stage->body), stage->body);
	(void)!send(fd, text, (size_t)len, MSG_NOSIGNAL);
	return true;
}

static void *serve(void *context)
{
	struct stage *stage = context;
	struct pollfd fds[CONNECTIONS] = { { .fd = stage->listener.fd, .events = POLLIN } };
	nfds_t count = 1;
	while (poll(fds, count, -1) > 0) {
		for (nfds_t i = count - 1; i > 0; i--) {
			if (fds[i].revents && !answer(stage, fds[i].fd)) {
				close(fds[i].fd);
				fds[i] = fds[--count];
			}
		}
		if (fds[0].revents) {
			int fd = accept(stage->listener.fd, NULL, NULL);
			if (fd < 0) {
				break;
			}
			fds[count++] = (struct pollfd){ .fd = fd, .events = POLLIN };
		}
	}
	while (count > 1) {
		close(fds[--count].fd);
	}
	return NULL;
}

static struct map *new_map(void)
{
	struct map *map = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(map_create(&map, MAP_BYTES, &err), 0, "%s", err.msg);
	map_begin(map, UINT64_MAX / 2);
	return map;
}

static size_t put(struct stage *stage, const char *target, const char *value, int error)
{
	const struct map_entry entry = { target, strlen(target), "\"m\"", value, strlen(value),
		error };
	return map_put(stage->map, &entry);
}

static void stop_agent(struct stage *stage)
{
	stage->stopped = true;
	shutdown(stage->listener.fd, SHUT_RDWR);
	pthread_join(stage->thread, NULL);
}

static struct stage *open_stage(struct stage *stage)
{
	scratch_listen(&stage->listener);
	clock_stands = true;
	clock_shift_ms = 1000;
	stage->body = "{}";
	stage->freshness = "X-Cache: HIT\r\n";
	stage->map = new_map();
	put(stage, "/v1/resolve/a", "{\"in\":\"memory\"}", 0);
	cr_assert_eq(pthread_create(&stage->thread, NULL, serve, stage), 0);
	cr_assert_eq(berth_open(&stage->berth, stage->listener.address.sun_path, NULL, NULL), 0);
	berth_set_shared(stage->berth, true);
	return stage;
}

static void close_stage(struct stage *stage)
{
	berth_close(stage->berth);
	if (!stage->stopped) {
		stop_agent(stage);
	}
	map_destroy(stage->map);
	scratch_listen_end(&stage->listener);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(memory, name, struct stage *, stage,                                           \
		open_stage(&(struct stage){ .berth = NULL }), close_stage)

static bool is_in_memory(struct stage *stage)
{
	struct berth_answer answer;
	struct berth_failure failure = { .message = "" };
	cr_assert_eq(
		berth_resolve(stage->berth, "/a", &answer, &failure), 0, "%s", failure.message);
	bool found = strcmp(answer.json, "{\"in\":\"memory\"}") == 0;
	cr_expect_eq(answer.len, strlen(answer.json));
	cr_expect_str_eq(answer.tag, found ? "\"m\"" : "");
	berth_answer_finish(&answer);
	return found;
}

/* The third look-up asks for the map. */
static void open_memory(struct stage *stage)
{
	while (!is_in_memory(stage)) {
		cr_assert_lt(stage->asked, 3);
	}
	stage->asked = 0;
	stage->asked_for_map = 0;
}

/* A map is asked for this many milliseconds after the last one, and not before. */
static void expect_asked_after(struct stage *stage, int64_t pause_ms)
{
	int before = stage->asked_for_map;
	clock_shift_ms += pause_ms - 1;
	cr_expect_not(is_in_memory(stage));
	cr_expect_eq(stage->asked_for_map, before);
	clock_shift_ms++;
	cr_expect_eq(is_in_memory(stage), stage->map != NULL);
	cr_expect_eq(stage->asked_for_map, before + 1);
}

/* ---- look-ups ---- */

STAGED(the_third_look_up_and_all_that_follow_are_answered_there)
{
	cr_expect_not(is_in_memory(stage));
	cr_expect_not(is_in_memory(stage));
	cr_expect_eq(stage->asked, 2);
	cr_expect_eq(stage->asked_for_map, 0);
	cr_expect_null(strstr(stage->request, "Prefer: shared"));
	for (int i = 0; i < 100; i++) {
		cr_expect(is_in_memory(stage));
	}
	cr_expect_eq(stage->asked, 2);
	cr_expect_eq(stage->asked_for_map, 1);
	cr_expect_not(berth_last_freshness(stage->berth).stale);
}

STAGED(a_look_up_that_is_not_there_asks_the_agent_to_put_it_there)
{
	struct berth_answer answer;
	open_memory(stage);
	cr_assert_eq(berth_resolve(stage->berth, "/b", &answer, NULL), 0);
	cr_expect_str_eq(answer.json, "{}");
	berth_answer_finish(&answer);
	cr_expect_eq(stage->asked, 1);
	cr_expect_not_null(strstr(stage->request, "Prefer: shared"), "%s", stage->request);
}

STAGED(an_error_is_answered_there_too)
{
	struct berth_answer answer;
	struct berth_failure failure;
	put(stage, "/v1/resolve/none", "nothing is there", BERTH_PATH_NOT_FOUND);
	open_memory(stage);
	cr_expect_eq(berth_resolve(stage->berth, "/none", &answer, &failure), BERTH_PATH_NOT_FOUND);
	cr_expect_str_eq(failure.message, "nothing is there");
	cr_expect_eq(stage->asked, 0);
}

STAGED(an_answer_from_there_is_fresh_whatever_the_agent_answered_before)
{
	struct berth_answer answer;
	open_memory(stage);
	stage->freshness = "X-Cache: STALE\r\nAge: 7\r\n";
	cr_assert_eq(berth_resolve(stage->berth, "/b", &answer, NULL), 0);
	berth_answer_finish(&answer);
	cr_expect(berth_last_freshness(stage->berth).stale);
	cr_expect_eq(berth_last_freshness(stage->berth).age_s, 7);
	cr_expect(is_in_memory(stage));
	cr_expect_not(berth_last_freshness(stage->berth).stale);
	cr_expect_eq(berth_last_freshness(stage->berth).age_s, 0);
}

STAGED(memory_can_be_left_and_taken_again)
{
	open_memory(stage);
	berth_set_shared(stage->berth, true);
	cr_expect(is_in_memory(stage), "it was on");
	berth_set_shared(stage->berth, false);
	cr_expect_not(is_in_memory(stage));
	clock_shift_ms += 5000;
	cr_expect_not(is_in_memory(stage));
	cr_expect_eq(stage->asked, 2);
	cr_expect_eq(stage->asked_for_map, 0);
	berth_set_shared(stage->berth, true);
	cr_expect(is_in_memory(stage));
	cr_expect_eq(stage->asked_for_map, 1);
}

STAGED(a_map_that_is_retired_is_asked_for_again)
{
	open_memory(stage);
	struct map *old = stage->map;
	stage->map = new_map();
	put(stage, "/v1/resolve/a", "{\"in\":\"memory\"}", 0);
	map_destroy(old);
	expect_asked_after(stage, 100);
}

STAGED(a_map_whose_lease_has_been_over_for_a_second_is_a_dead_agents)
{
	open_memory(stage);
	map_extend(stage->map, 2000 * UINT64_C(1000000));
	clock_shift_ms = 1999;
	cr_expect(is_in_memory(stage));
	clock_shift_ms = 2000;
	cr_expect_not(is_in_memory(stage));
	cr_expect_eq(stage->asked_for_map, 0);
	clock_shift_ms = 2999;
	map_extend(stage->map, UINT64_MAX / 2);
	cr_expect(is_in_memory(stage), "the agent lives");
	cr_expect_eq(stage->asked_for_map, 0);
	map_extend(stage->map, 0);
	cr_expect_not(is_in_memory(stage));
	map_extend(stage->map, UINT64_MAX / 2);
	struct map *dead = stage->map;
	stage->map = new_map();
	put(stage, "/v1/resolve/a", "{\"in\":\"memory\"}", 0);
	map_extend(dead, 0);
	expect_asked_after(stage, 1000);
	map_destroy(dead);
}

STAGED(an_agent_without_a_map_is_asked_for_one_now_and_then_if_it_may_have_one_later)
{
	map_destroy(stage->map);
	stage->map = NULL;
	stage->without_map = "503 Service Unavailable";
	while (stage->asked < 3) {
		cr_expect_not(is_in_memory(stage));
	}
	cr_expect_eq(stage->asked_for_map, 1);
	expect_asked_after(stage, 100);
	stage->without_map = "404 Not Found";
	expect_asked_after(stage, 100);
	stage->map = new_map();
	put(stage, "/v1/resolve/a", "{\"in\":\"memory\"}", 0);
	expect_asked_after(stage, 60000);
}

/* ---- a look-up that is kept ---- */

#define ENDPOINT                                                                                   \
	"[{\"path\":\"/s\",\"scope\":\"external\",\"api\":\"x\",\"protocol\":\"tcp\","             \
	"\"addressType\":\"host/port\",\"address\":\"h:81\"}]"

static size_t endpoints_of(struct berth_lookup *lookup, bool stale, long age_s)
{
	const struct berth_endpoints *endpoints = NULL;
	cr_assert_eq(berth_lookup_get(lookup, &endpoints, NULL), 0);
	cr_expect_eq(endpoints->freshness.stale, stale);
	cr_expect_eq(endpoints->freshness.age_s, age_s);
	return endpoints->count;
}

STAGED(a_look_up_that_is_kept_follows_what_is_there)
{
	struct berth_lookup *lookup = NULL;
	size_t slot = put(stage, "/v1/endpoints/s", "[]", 0);
	open_memory(stage);
	cr_assert_eq(berth_lookup_create(&lookup, stage->berth, "/s", NULL, NULL), 0);
	cr_expect_eq(endpoints_of(lookup, false, 0), 0);
	put(stage, "/v1/endpoints/s", ENDPOINT, 0);
	cr_expect_eq(endpoints_of(lookup, false, 0), 1);
	cr_expect_eq(endpoints_of(lookup, false, 0), 1);
	cr_expect_eq(stage->asked, 0);
	/* The agent no longer knows, and does not put its answer into the map. */
	stage->body = "[]";
	map_ask(stage->map, slot);
	cr_expect_eq(endpoints_of(lookup, false, 0), 0);
	cr_expect_eq(stage->asked, 2);
	clock_shift_ms += 999;
	cr_expect_eq(endpoints_of(lookup, false, 0), 0);
	cr_expect_eq(stage->asked, 2);
	stage->freshness = "X-Cache: STALE\r\nAge: 7\r\n";
	clock_shift_ms++;
	cr_expect_eq(endpoints_of(lookup, true, 7), 0);
	cr_expect_eq(stage->asked, 4);
	berth_lookup_free(lookup);
}

STAGED(a_look_up_that_is_kept_is_asked_for_again_only_where_memory_may_help)
{
	static const struct {
		const char *status;
		int asked;
	} rows[] = { { "404 Not Found", 1 }, { "503 Service Unavailable", 2 } };
	map_destroy(stage->map);
	stage->map = NULL;
	stage->body = "[]";
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct berth_lookup *lookup = NULL;
		stage->without_map = rows[i].status;
		for (int turn = 0; turn < 3; turn++) {
			clock_shift_ms += 60000;
			cr_expect_not(is_in_memory(stage));
		}
		cr_assert_eq(berth_lookup_create(&lookup, stage->berth, "/s", NULL, NULL), 0);
		stage->asked = 0;
		cr_expect_eq(endpoints_of(lookup, false, 0), 0);
		clock_shift_ms += 1000;
		cr_expect_eq(endpoints_of(lookup, false, i == 0), 0);
		cr_expect_eq(stage->asked, rows[i].asked, "%s", rows[i].status);
		berth_lookup_free(lookup);
	}
}

STAGED(a_look_up_that_is_kept_is_stale_where_the_agent_does_not_answer)
{
	struct berth_lookup *lookup = NULL;
	size_t slot = put(stage, "/v1/endpoints/s", ENDPOINT, 0);
	open_memory(stage);
	cr_assert_eq(berth_lookup_create(&lookup, stage->berth, "/s", NULL, NULL), 0);
	cr_expect_eq(endpoints_of(lookup, false, 0), 1);
	stop_agent(stage);
	cr_expect_eq(endpoints_of(lookup, false, 0), 1, "the map still says so");
	map_ask(stage->map, slot);
	cr_expect_eq(endpoints_of(lookup, true, 0), 1);
	clock_shift_ms += 2999;
	cr_expect_eq(endpoints_of(lookup, true, 2), 1);
	berth_lookup_free(lookup);
}

STAGED(trouble_with_a_look_up_that_is_kept_leaves_memory_out)
{
	struct berth_lookup *lookup = NULL;
	put(stage, "/v1/endpoints/s", ENDPOINT, 0);
	open_memory(stage);
	cr_assert_eq(berth_lookup_create(&lookup, stage->berth, "/s", NULL, NULL), 0);
	cr_expect_eq(endpoints_of(lookup, false, 0), 1);
	stage->body = "[]";
	berth_lookup_trouble(lookup);
	cr_expect_eq(endpoints_of(lookup, false, 0), 0);
	cr_expect_eq(stage->asked, 1);
	cr_expect_not_null(strcasestr(stage->request, "no-cache"), "%s", stage->request);
	berth_lookup_free(lookup);
}
