/* A handle on an agent: the request that each call of the library makes, and what it answers. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/berth.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

enum { REQUEST_BYTES = 16384 };

/* ---- an agent that notes what it is asked ---- */

struct stage {
	struct scratch_listener listener;
	pthread_t thread;
	struct berth *berth;
	struct berth_failure failure;
	const char *body;            /* of the next answer */
	const char *stat;            /* the same of a stat */
	char request[REQUEST_BYTES]; /* the last one: "GET /v1/agent", then a blank and the body */
	char head[REQUEST_BYTES];
};

/* Reads one request; false at the end of the connection. */
static bool read_request(struct stage *stage, int fd)
{
	static char text[REQUEST_BYTES];
	size_t used = 0;
	char *end = NULL;
	size_t wanted = 1;
	while (used < wanted && used < sizeof(text) - 1 && read(fd, text + used, 1) == 1) {
		text[++used] = '\0';
		end = end ? end : strstr(text, "\r\n\r\n");
		wanted = used + 1;
		if (end) {
			const char *length = strcasestr(text, "\r\ncontent-length:");
			size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
			wanted = (size_t)(end + 4 - text) + body;
		}
	}
	if (used < wanted) {
		return false;
	}
	snprintf(stage->head, sizeof(stage->head), "%.*s", (int)(end - text), text);
	snprintf(stage->request, sizeof(stage->request), "%.*s%s%s",
		(int)(strstr(text, " HTTP/1.1") - text), text, end[4] ? " " : "", end + 4);
	return true;
}

static void *serve(void *context)
{
	struct stage *stage = context;
	for (int fd; (fd = accept(stage->listener.fd, NULL, NULL)) >= 0;) {
		while (read_request(stage, fd)) {
			char answer[REQUEST_BYTES];
			bool is_stat = strncmp(stage->request, "GET /v1/stat/", 13) == 0;
			const char *body = is_stat ? stage->stat : stage->body;
			int len = snprintf(answer, sizeof(answer),
				"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
				"ETag: \"7\"\r\nContent-Length: %zu\r\n\r\n%s",
				strlen(body), body);
			(void)!send(fd, answer, (size_t)len, MSG_NOSIGNAL);
		}
		close(fd);
	}
	return NULL;
}

static struct stage *open_stage(struct stage *stage)
{
	scratch_listen(&stage->listener);
	stage->body = "{}";
	cr_assert_eq(pthread_create(&stage->thread, NULL, serve, stage), 0);
	cr_assert_eq(berth_open(&stage->berth, stage->listener.address.sun_path, NULL, NULL), 0);
	berth_set_shared(stage->berth, false);
	return stage;
}

static void close_stage(struct stage *stage)
{
	berth_close(stage->berth);
	shutdown(stage->listener.fd, SHUT_RDWR);
	pthread_join(stage->thread, NULL);
	scratch_listen_end(&stage->listener);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(requests, name, struct stage *, stage,                                         \
		open_stage(&(struct stage){ .berth = NULL }), close_stage)

static void expect(struct stage *stage, int code, const char *request)
{
	cr_expect_eq(code, 0, "%s: %s", request, stage->failure.message);
	cr_expect_str_eq(stage->request, request);
}

/* The same for a call with an answer, which is the body. */
static void expect_answer(
	struct stage *stage, int code, struct berth_answer *answer, const char *request)
{
	expect(stage, code, request);
	if (code == 0) {
		cr_expect_str_eq(answer->json, stage->body);
		cr_expect_eq(answer->len, strlen(stage->body));
		bool has_tag = strncmp(request, "GET ", 4) == 0;
		cr_expect_str_eq(answer->tag, has_tag ? "\"7\"" : "");
		berth_answer_finish(answer);
	}
}

STAGED(lists_and_stats_are_read)
{
	struct berth_paths paths;
	struct berth_stat stat;
	stage->body = "[\"/s/a\",\"/s/b\"]";
	stage->stat =
		"{\"time\":1600000000000,\"size\":12,\"children\":3,\"foreign\":[\"/s/%20\"]}";
	expect(stage, berth_list(stage->berth, "/s", &paths, &stage->failure), "GET /v1/stat/s");
	cr_assert_eq(paths.count, 2);
	cr_expect_str_eq(paths.items[1], "/s/b");
	cr_assert_eq(paths.foreign_count, 1);
	cr_expect_str_eq(paths.foreign[0], "/s/%20");
	berth_paths_finish(&paths);
	expect(stage, berth_stat(stage->berth, "/s", &stat, &stage->failure), "GET /v1/stat/s");
	cr_expect_eq(stat.time_ms, INT64_C(1600000000000));
	cr_expect_eq(stat.foreign, 1);
	cr_expect_eq(stat.children, 3);
	cr_expect_eq(stat.size, 12);
}

STAGED(a_filter_goes_into_the_query)
{
	struct berth_endpoints endpoints;
	const struct berth_endpoint_filter all = {
		.api = "http://x/a b&c", .protocol = "REST", .scope = "external"
	};
	const struct berth_endpoint_filter one = { .scope = "internal" };
	stage->body = "[]";
	int code = berth_endpoints(stage->berth, "/s", NULL, &endpoints, &stage->failure);
	expect(stage, code, "GET /v1/endpoints/s");
	cr_expect_null(strcasestr(stage->head, "no-cache"), "%s", stage->head);
	berth_endpoints_finish(&endpoints);
	code = berth_endpoints(stage->berth, "/s", &all, &endpoints, &stage->failure);
	expect(stage, code,
		"GET /v1/endpoints/s?api=http%3A//x/a%20b%26c&protocol=REST&scope=external");
	berth_endpoints_finish(&endpoints);
	code = berth_endpoints(stage->berth, "/s", &one, &endpoints, &stage->failure);
	expect(stage, code, "GET /v1/endpoints/s?scope=internal");
	berth_endpoints_finish(&endpoints);
}

STAGED(bytes_with_a_meaning_in_a_query_are_encoded)
{
	struct berth_endpoints endpoints;
	const struct berth_endpoint_filter filter = { .api = "azAZ09-._~/`{@[:\xff" };
	stage->body = "[]";
	int code = berth_endpoints(stage->berth, "/s", &filter, &endpoints, &stage->failure);
	expect(stage, code, "GET /v1/endpoints/s?api=azAZ09-._~/%60%7B%40%5B%3A%FF");
	berth_endpoints_finish(&endpoints);
}

/* The agent's bound for a target is 5119 bytes. */
STAGED(a_request_that_is_too_long_is_not_sent)
{
	char path[1001];
	char api[5121];
	struct berth_endpoints endpoints;
	struct berth_watch *watch;
	const struct berth_endpoint_filter filter = { .api = api };
	stage->body = "[]";
	for (size_t i = 0; i < sizeof(path) - 1; i++) {
		path[i] = i % 50 == 0 ? '/' : 'x';
	}
	path[sizeof(path) - 1] = '\0';
	memset(api, 'a', sizeof(api));
	api[sizeof(api) - 1] = '\0';
	cr_expect_eq(berth_endpoints(stage->berth, "/s", &filter, &endpoints, NULL),
		BERTH_LIMIT_EXCEEDED);
	api[5120 - strlen("/v1/endpoints?api=") - strlen(path)] = '\0';
	cr_expect_eq(berth_endpoints(stage->berth, path, &filter, &endpoints, NULL),
		BERTH_LIMIT_EXCEEDED);
	const struct berth_criteria criteria = {
		.api = path, .type = path, .id = path, .under = api
	};
	struct berth_answer answer;
	cr_expect_eq(berth_find(stage->berth, &criteria, NULL, NULL, &answer, NULL),
		BERTH_LIMIT_EXCEEDED);
	cr_expect_eq(
		berth_endpoints(stage->berth, "s", NULL, &endpoints, NULL), BERTH_INVALID_PATHNAME);
	cr_expect_str_empty(stage->request);
	api[strlen(api) - 1] = '\0';
	cr_assert_eq(berth_endpoints(stage->berth, path, &filter, &endpoints, NULL), 0);
	cr_expect_eq(strlen(stage->request), strlen("GET ") + 5119);
	berth_endpoints_finish(&endpoints);
	cr_expect_eq(berth_watch(stage->berth, path, true, NULL, NULL, &watch, NULL), 0);
}

STAGED(the_agent_is_found_by_an_argument_or_by_the_environment)
{
	char url[256];
	snprintf(url, sizeof(url), "unix:%s", stage->listener.address.sun_path);
	setenv("BERTH_SHARED", "off", 1);
	setenv("BERTH_SOCKET", stage->listener.address.sun_path, 1);
	const char *const arguments[] = { NULL, "", stage->listener.address.sun_path, url };
	for (size_t i = 0; i < ARRAY_LEN(arguments); i++) {
		struct berth *berth;
		struct berth_answer answer;
		cr_assert_eq(berth_open(&berth, arguments[i], NULL, &stage->failure), 0);
		for (int turn = 0; turn < 4; turn++) {
			expect_answer(stage, berth_resolve(berth, "/s", &answer, &stage->failure),
				&answer, "GET /v1/resolve/s");
			cr_expect_null(strstr(stage->head, "Prefer: shared"));
		}
		berth_close(berth);
		setenv("BERTH_SOCKET", stage->listener.address.sun_path, 1);
	}
	struct berth *berth;
	setenv("BERTH_SOCKET", "", 1);
	cr_assert_eq(berth_open(&berth, NULL, NULL, NULL), 0);
	cr_expect_eq(berth_live(berth, &stage->failure), BERTH_AGENT_UNAVAILABLE);
	cr_expect_not_null(
		strstr(stage->failure.message, "/berth/berth.sock"), "%s", stage->failure.message);
	berth_close(berth);
}

STAGED(criteria_go_into_the_query)
{
	struct berth_answer answer;
	const struct berth_criteria all = { .under = "/s",
		.api = "a",
		.protocol = "p",
		.type = "t",
		.id = "i",
		.persistence = "container" };
	int code = berth_find(stage->berth, &all, NULL, NULL, &answer, &stage->failure);
	expect_answer(stage, code, &answer,
		"GET /v1/find?under=/s&api=a&protocol=p&type=t&id=i&persistence=container");
	code = berth_find(stage->berth, &(struct berth_criteria){ .under = NULL }, NULL, NULL,
		&answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/find");
}

STAGED(look_ups_by_nearness_name_a_zone)
{
	struct berth_answer answer;
	int code = berth_name_near(stage->berth, "a.berth", NULL, "self", &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/names/a.berth?near=self");
	code = berth_name_near(stage->berth, "a.berth", "SRV", "eu/a b", &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/names/a.berth?type=SRV&near=eu/a%20b");
	char zone[1024];
	memset(zone, ' ', sizeof(zone));
	zone[sizeof(zone) - 1] = '\0';
	cr_expect_eq(berth_name_near(stage->berth, "a.berth", NULL, zone, &answer, NULL),
		BERTH_LIMIT_EXCEEDED);
}

STAGED(endpoints_by_nearness_have_tiers)
{
	struct berth_endpoints endpoints;
	unsigned *tiers = NULL;
	const struct berth_endpoint_filter filter = { .scope = "internal" };
	stage->body = "[{\"addressType\":\"host/port\",\"address\":\"h:1\",\"tier\":0},"
		      "{\"addressType\":\"host/port\",\"address\":\"h:2\",\"tier\":3}]";
	int code = berth_endpoints_near(
		stage->berth, "/s", &filter, "eu/a", &endpoints, &tiers, &stage->failure);
	expect(stage, code, "GET /v1/endpoints/s?scope=internal&near=eu/a");
	cr_assert_eq(endpoints.count, 2);
	cr_expect_str_eq(endpoints.items[1].address, "h:2");
	cr_expect_eq(tiers[0], 0);
	cr_expect_eq(tiers[1], 3);
	free(tiers);
	berth_endpoints_finish(&endpoints);
	stage->body = "[]";
	code = berth_endpoints_near(stage->berth, "/s", NULL, "self", &endpoints, &tiers, NULL);
	expect(stage, code, "GET /v1/endpoints/s?near=self");
	free(tiers);
	berth_endpoints_finish(&endpoints);
}

/* An agent of a version without zones lets the parameter be. */
STAGED(an_answer_without_tiers_is_not_by_nearness)
{
	struct berth_endpoints endpoints;
	unsigned *tiers;
	stage->body = "[{\"addressType\":\"host/port\",\"address\":\"h:1\"}]";
	int code = berth_endpoints_near(
		stage->berth, "/s", NULL, "self", &endpoints, &tiers, &stage->failure);
	cr_expect_eq(code, BERTH_FAILED);
	cr_expect_not_null(
		strstr(stage->failure.message, "no tiers"), "%s", stage->failure.message);
}

STAGED(the_agent_s_own_documents_are_asked_for)
{
	struct berth_answer answer;
	int code = berth_status(stage->berth, &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/agent");
	code = berth_checks(stage->berth, &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/agent/checks");
	code = berth_history(stage->berth, &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/agent/history");
	code = berth_await(stage->berth, BERTH_CHECKS, "\"6\"", 5, &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/agent/checks");
	cr_expect_not_null(strcasestr(stage->head, "If-None-Match: \"6\""), "%s", stage->head);
	cr_expect_not_null(strcasestr(stage->head, "Prefer: wait=5"), "%s", stage->head);
	code = berth_bridge(stage->berth, &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/bridge");
	code = berth_run_check(stage->berth, "web", &answer, &stage->failure);
	expect_answer(stage, code, &answer, "POST /v1/agent/checks/web/run");
	stage->body = "{\"reloaded\":true,\"problems\":[]}";
	code = berth_reload(stage->berth, &answer, &stage->failure);
	expect_answer(stage, code, &answer, "POST /v1/agent/reload");
	code = berth_try_reload(stage->berth, &answer, &stage->failure);
	expect_answer(stage, code, &answer, "POST /v1/agent/reload?dry_run=yes");
}

STAGED(orders_carry_what_was_ordered)
{
	static const char *const addresses[] = { "http://127.0.0.1:80/", "http://[::1]:80/" };
	struct berth *berth = stage->berth;
	struct berth_failure *failure = &stage->failure;
	expect(stage, berth_drain(berth, "a reason", 60, failure),
		"POST /v1/agent/drain {\"reason\":\"a reason\",\"for\":60}");
	expect(stage, berth_undrain(berth, failure), "DELETE /v1/agent/drain");
	expect(stage, berth_undrain_component(berth, "web", failure),
		"DELETE /v1/agent/components/web/drain");
	expect(stage, berth_undamp(berth, "web", failure), "POST /v1/agent/components/web/undamp");
	expect(stage, berth_supply(berth, "web", addresses, 2, failure),
		"PUT /v1/agent/endpoints/web "
		"{\"addresses\":[\"http://127.0.0.1:80/\",\"http://[::1]:80/\"]}");
	expect(stage, berth_withdraw(berth, "web", failure), "DELETE /v1/agent/endpoints/web");
	expect(stage, berth_report(berth, "web", BERTH_WARNING, "slow", failure),
		"PUT /v1/agent/checks/web {\"status\":\"warning\",\"output\":\"slow\"}");
	expect(stage, berth_ready(berth, false, failure), "GET /ready");
	expect(stage, berth_live(berth, failure), "GET /live");
}

STAGED(writes_are_refused_on_an_agent)
{
	const struct berth_purge purge = { .criteria = { .id = "x" } };
	struct berth *berth = stage->berth;
	struct berth_failure failures[7] = { { .code = 0 } };
	berth_bind(berth, "/s", "{\"type\":\"JSONServiceRecord\"}", 0, &failures[0]);
	berth_mknode(berth, "/s", true, NULL, &failures[1]);
	berth_make_home(berth, "/s", "joe", true, NULL, &failures[2]);
	berth_delete(berth, "/s", 0, &failures[3]);
	berth_purge(berth, &purge, NULL, NULL, &failures[4]);
	berth_add_write_accessor(berth, "joe", "secret", &failures[5]);
	berth_clear_write_accessors(berth, &failures[6]);
	for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
		cr_expect_eq(failures[i].code, BERTH_FAILED, "call %zu", i);
		cr_expect_not_null(strstr(failures[i].message, "is for a registry"), "call %zu: %s",
			i, failures[i].message);
	}
	cr_expect_str_empty(stage->request, "nothing is sent");
}
