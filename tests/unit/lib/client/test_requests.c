/* A handle on an agent: the request that each call of the library makes, and what it answers. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/berth.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

enum { REQUEST_BYTES = 16384 };

/* ---- an agent that notes what it is asked ---- */

struct stage {
	char folder[SCRATCH_PATH];
	struct sockaddr_un address;
	int listener;
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
	for (int fd; (fd = accept(stage->listener, NULL, NULL)) >= 0;) {
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
	scratch_folder(stage->folder);
	stage->address.sun_family = AF_UNIX;
	snprintf(stage->address.sun_path, sizeof(stage->address.sun_path), "%.90s/socket",
		stage->folder);
	stage->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(
		bind(stage->listener, (struct sockaddr *)&stage->address, sizeof(stage->address)),
		0);
	cr_assert_eq(listen(stage->listener, 5), 0);
	stage->body = "{}";
	cr_assert_eq(pthread_create(&stage->thread, NULL, serve, stage), 0);
	cr_assert_eq(berth_open(&stage->berth, stage->address.sun_path, NULL, NULL), 0);
	return stage;
}

static void close_stage(struct stage *stage)
{
	berth_close(stage->berth);
	shutdown(stage->listener, SHUT_RDWR);
	pthread_join(stage->thread, NULL);
	close(stage->listener);
	unlink(stage->address.sun_path);
	rmdir(stage->folder);
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

STAGED(look_ups_name_their_path)
{
	struct berth_answer answer;
	int code = berth_resolve(stage->berth, "/s/a", &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/resolve/s/a");
	code = berth_records(stage->berth, "/s", &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/records/s");
	cr_expect_eq(berth_resolve(stage->berth, "s", &answer, NULL), BERTH_INVALID_PATHNAME);
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
	berth_endpoints_finish(&endpoints);
	code = berth_endpoints(stage->berth, "/s", &all, &endpoints, &stage->failure);
	expect(stage, code,
		"GET /v1/endpoints/s?api=http%3A//x/a%20b%26c&protocol=REST&scope=external");
	berth_endpoints_finish(&endpoints);
	code = berth_endpoints(stage->berth, "/s", &one, &endpoints, &stage->failure);
	expect(stage, code, "GET /v1/endpoints/s?scope=internal");
	berth_endpoints_finish(&endpoints);
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

STAGED(a_look_up_that_is_kept_asks_the_registry_after_trouble)
{
	struct berth_lookup *lookup = NULL;
	const struct berth_endpoints *endpoints;
	stage->body = "[]";
	cr_assert_eq(berth_lookup_create(&lookup, stage->berth, "/s", NULL, NULL), 0);
	cr_assert_eq(berth_lookup_get(lookup, &endpoints, &stage->failure), 0);
	cr_expect_null(strcasestr(stage->head, "no-cache"), "%s", stage->head);
	berth_lookup_trouble(lookup);
	cr_assert_eq(berth_lookup_get(lookup, &endpoints, &stage->failure), 0);
	cr_expect_not_null(strcasestr(stage->head, "no-cache"), "%s", stage->head);
	berth_lookup_free(lookup);
}

STAGED(names_have_a_type_or_all)
{
	struct berth_answer answer;
	int code = berth_name(stage->berth, "a.berth", NULL, &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/names/a.berth");
	code = berth_name(stage->berth, "a.berth", "SRV", &answer, &stage->failure);
	expect_answer(stage, code, &answer, "GET /v1/names/a.berth?type=SRV");
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
