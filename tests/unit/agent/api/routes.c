/* Which request goes where, and what every request shares. */

#include <netinet/in.h>
#include <sys/socket.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "tests/unit/agent/api/api_stage.h"

TestSuite(api_routes, .init = open_api, .fini = close_api);

Test(api_routes, a_resource_that_does_not_exist_is_not_found)
{
	static const char *const targets[] = { "/v1", "/v1/", "/v2/list/", "/v1/lists/",
		"/v1/agent/", "/v1/agents", "/lively", "/v1/resolve" };
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		cr_expect(has_status(get(stage.client, targets[i], ""), 404), "%s", targets[i]);
	}
}

Test(api_routes, a_method_that_is_not_there_names_those_that_are)
{
	static const struct {
		const char *method;
		const char *target;
		const char *allow;
	} cases[] = {
		{ "POST", "/v1/list/", "Allow: GET, HEAD, OPTIONS\r\n" },
		{ "DELETE", "/v1/agent", "Allow: GET, HEAD, OPTIONS\r\n" },
		{ "GET", "/v1/agent/drain", "Allow: POST, DELETE, OPTIONS\r\n" },
		{ "GET", "/v1/agent/reload", "Allow: POST, OPTIONS\r\n" },
		{ "POST", "/v1/agent/endpoints/rest", "Allow: PUT, DELETE, OPTIONS\r\n" },
		{ "GET", "/v1/agent/checks/alive/run", "Allow: POST, PUT, OPTIONS\r\n" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *answer = ask_as(stage.client, cases[i].method, cases[i].target, "");
		cr_expect(has_status(answer, 405) && has(answer, cases[i].allow), "%s", answer);
		answer = ask_as(stage.client, "OPTIONS", cases[i].target, "");
		cr_expect(has_status(answer, 204) && has(answer, cases[i].allow), "%s", answer);
	}
}

Test(api_routes, over_tcp_nothing_can_be_changed_and_the_host_must_be_ours)
{
	static char name[] = "berth.example";
	char *const names[] = { name };
	struct api_options options = { .version = "0", .max_watchers = MAX_WATCHERS };
	options.hosts[0].names = names;
	options.hosts[0].count = 1;
	options.zone = "evil.example";
	options.failover = names;
	options.failover_count = 1;
	api_set_options(stage.api, &options);
	http_stage_open_tcp();
	int client = http_stage_connect_remote();
	const char *answer = http_stage_ask_remote(
		client, "GET /live HTTP/1.1\r\nHost: berth.example\r\n\r\n");
	cr_expect(has_status(answer, 200), "%s", answer);
	answer = http_stage_ask_remote(client, "GET /live HTTP/1.1\r\nHost: evil.example\r\n\r\n");
	cr_expect(has_status(answer, 421) && has(answer, "listen_hosts"), "%s", answer);
	answer = http_stage_ask_remote(
		client, "POST /v1/agent/reload HTTP/1.1\r\nHost: berth.example\r\n\r\n");
	cr_expect(has_status(answer, 404), "%s", answer);
	answer = http_stage_ask_remote(client, "GET / HTTP/1.1\r\nHost: berth.example\r\n\r\n");
	cr_expect(has(answer, "/v1/watch/") && !has(answer, "/v1/agent/reload"), "%s", answer);
	close(client);
	stage.client = http_stage_connect();
	cr_expect(has(get(stage.client, "/", ""), "/v1/agent/reload"));
}

Test(api_routes, a_path_is_not_decoded)
{
	static const char *const paths[] = { "/v1/resolve/a%62", "/v1/list/a/../b", "/v1/stat/.",
		"/v1/records//", "/v1/endpoints/a/", "/v1/targets/%2e%2e" };
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const char *answer = get(stage.client, paths[i], "");
		cr_expect(has_status(answer, 400) && has(answer, "InvalidPathname"), "%s", answer);
	}
}

Test(api_routes, ready_says_why_not)
{
	cr_expect(has_status(get(stage.client, "/ready", ""), 200));
	stage.unready = "component web is not registered";
	const char *answer = get(stage.client, "/ready", "");
	cr_expect(has_status(answer, 503) && has(answer, stage.unready), "%s", answer);
	cr_expect(has(get(stage.client, "/ready?away=ok", ""), "\r\n\r\nready\n"));
	cr_expect(has_status(get(stage.client, "/ready?away=ok", ""), 200));
	cr_expect(has_status(get(stage.client, "/ready?away=", ""), 503));
	answer = get(stage.client, "/ready?away=maybe", "");
	cr_expect(has_status(answer, 400) && has(answer, "query parameter away: must be ok"));
	cr_expect(has_status(get(stage.client, "/ready?away=much-too-long", ""), 400));
	answer = get(stage.client, "/live", "");
	cr_expect(has_status(answer, 200) && has(answer, "\r\n\r\nlive\n"), "%s", answer);
	cr_expect(has(answer, "Content-Type: text/plain\r\n"), "%s", answer);
}

Test(api_routes, parameters_of_the_history)
{
	for (int i = 1; i <= 3; i++) {
		char subject[16];
		snprintf(subject, sizeof(subject), "check c%d", i);
		(void)history_add(stage.history, i,
			&(struct transition){ .subject = subject, .from = "up", .to = "down" });
	}
	const char *answer = get(stage.client, "/v1/agent/history?n=2", "");
	cr_expect_not(has(answer, "check c1"), "%s", answer);
	cr_expect(has(answer, "check c2") && has(answer, "check c3"), "%s", answer);
	answer = get(stage.client, "/v1/agent/history?since=2", "");
	cr_expect(!has(answer, "check c2") && has(answer, "check c3"), "%s", answer);
	answer = get(stage.client, "/v1/agent/history?n=0", "");
	cr_expect(has(answer, "\r\n\r\n[]"), "%s", answer);
	cr_expect(has_status(get(stage.client, "/v1/agent/history?n=x", ""), 400));
	cr_expect(has_status(get(stage.client, "/v1/agent/history?since=-1", ""), 400));
	cr_expect(has_status(get(stage.client, "/v1/agent/history?n=1x", ""), 400));
}

Test(api_routes, tags_of_views_are_weak)
{
	const char *answer = get(stage.client, "/v1/agent", "");
	char tag[80];
	char fields[128];
	cr_assert(has(answer, "ETag: W/"), "%s", answer);
	cr_assert_eq(sscanf(strstr(answer, "ETag: "), "ETag: %79[^\r]", tag), 1);
	snprintf(fields, sizeof(fields), "If-None-Match: %s\r\n", tag + 2);
	cr_expect(has_status(get(stage.client, "/v1/agent", fields), 304), "weak comparison");
	snprintf(fields, sizeof(fields), "If-Match: %s\r\n", tag);
	cr_expect(has_status(get(stage.client, "/v1/agent", fields), 412), "no strong one holds");
}

Test(api_routes, the_metrics_count_what_is_there)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	(void)get(stage.client, "/v1/resolve/a", "");
	int other = http_stage_connect();
	(void)get(other, "/v1/watch/a", "");
	const char *answer = get(stage.client, "/metrics", "");
	cr_expect(has(answer, "\nberth_watchers 1\n"), "%s", answer);
	cr_expect(has(answer, "\nberth_registry_connected 1\n"));
	cr_expect(has(answer, "\nberth_build_info{version=\"0\"} 1\n"));
	cr_expect(has(answer, "\nberth_clients 0\n"), "of no server");
	cr_expect(has(answer, "\nberth_registry_session_expirations_total 0\n"));
	cr_expect(has(answer, "\nberth_cache_stale_seconds 0\n"));
	cr_expect(has(answer, "\nberth_cache_evictions_total 0\n"));
	cr_expect(has(answer, "\nberth_cache_refusals_total 0\n"));
	cr_expect(has(answer, "\nberth_cache_entries 1\n"), "%s", answer);
	cr_expect_not(has(answer, "\nberth_cache_bytes 0\n"));
	cr_expect(has(answer, "\nberth_lookups_total{result=\"miss\"} 1\n"), "%s", answer);
	double seconds = -1;
	const char *sum = strstr(answer, "\nberth_lookup_duration_seconds_sum ");
	cr_expect(sum && sscanf(sum, "\nberth_lookup_duration_seconds_sum %lf", &seconds) == 1 &&
			seconds > 0 && seconds < 60,
		"%f", seconds);
	cr_expect(has(answer, "Content-Type: text/plain; version=0.0.4\r\n"));
	cr_expect(has(answer, "\nberth_shared_bytes 0\n"));
	cr_expect(has(answer, "\nberth_shared_entries 0\n"));
	cr_expect(has(answer, "\nberth_shared_maps_total 0\n"));
	api_set_http(stage.api, http_stage.http);
	cr_expect(has(get(stage.client, "/metrics", ""), "\nberth_clients 2\n"));
	answer = get(stage.client, "/metrics", "Accept: application/openmetrics-text\r\n");
	cr_expect(has(answer, "Content-Type: application/openmetrics-text;"));
	cr_expect(has(answer, "\n# EOF\n"));
	close(other);
}

/* ---- further listeners ---- */

#define RECORD(name, scope)                                                                        \
	"\"" scope "\":[{\"api\":\"" name "\",\"addressType\":\"uri\",\"protocolType\":\"x\","     \
	"\"addresses\":[{\"uri\":\"http://" name "\"}]}]"

static int connect_further(const char *name)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	size_t before = http_connections(http_stage.http);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(getsockname(http_further_fd(http_stage.http, name),
			     (struct sockaddr *)&address, &len),
		0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&address, len), 0);
	while (http_connections(http_stage.http) == before) {
		http_stage_turn();
	}
	return fd;
}

Test(api_routes, a_further_listener_shows_its_part_of_the_registry)
{
	enum { GUESTS, PARTNERS, LISTENERS };
	static char *const trees[] = { "/pub/**", "/x/**" };
	static const struct http_listen listens[] = { { "guests", "127.0.0.1:0", -1 },
		{ "partners", "127.0.0.1:0", -1 } };
	static const struct api_published published[] = { { "guests", trees, 1, true },
		{ "partners", trees, 2, false } };
	static const struct {
		const char *target;
		int status[LISTENERS];
		bool secret[LISTENERS];
	} cases[] = {
		{ "/v1/resolve/pub/a", { 200, 200 }, { false, true } },
		{ "/v1/records/pub", { 200, 200 }, { false, true } },
		{ "/v1/endpoints/pub", { 200, 200 }, { false, true } },
		{ "/v1/endpoints/pub?scope=external", { 200, 200 }, { false, false } },
		{ "/v1/endpoints/pub?scope=internal", { 400, 200 }, { false, true } },
		{ "/v1/targets/pub", { 200, 200 }, { false, true } },
		{ "/v1/list/pub", { 200, 200 }, { false, false } },
		{ "/v1/stat/pub/a", { 200, 200 }, { false, false } },
		{ "/v1/resolve/x/a", { 404, 200 }, { false, true } },
		{ "/v1/resolve/public/a", { 404, 404 }, { false, false } },
		{ "/v1/list/", { 404, 404 }, { false, false } },
		{ "/v1/find?under=/pub", { 404, 200 }, { false, true } },
		{ "/v1/find?under=/", { 404, 404 }, { false, false } },
		{ "/v1/find", { 404, 404 }, { false, false } },
		{ "/v1/agent", { 404, 404 }, { false, false } },
		{ "/live", { 404, 404 }, { false, false } },
		{ "/", { 404, 404 }, { false, false } },
	};
	static const char *const folders[] = { "/pub", "/x", "/public" };
	static const char *const paths[] = { "/pub/a", "/x/a", "/public/a" };
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		memory_put(stage.registry, folders[i], "");
	}
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		memory_put(stage.registry, paths[i],
			"{\"type\":\"JSONServiceRecord\"," RECORD("open", "external") "," RECORD(
				"secret", "internal") "}");
	}
	const struct api_options options = { .version = "0",
		.max_watchers = MAX_WATCHERS,
		.published = published,
		.published_count = LISTENERS };
	api_set_options(stage.api, &options);
	http_stage.options.further = listens;
	http_stage.options.further_count = LISTENERS;
	close(stage.client);
	http_stage_open_again();
	stage.client = http_stage_connect();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (int j = 0; j < LISTENERS; j++) {
			char text[200];
			int client = connect_further(listens[j].name);
			snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
				cases[i].target);
			http_stage_send(client, text);
			turn();
			const char *answer = http_stage_ask_remote(client, "");
			cr_expect(has_status(answer, cases[i].status[j]), "%s, %s: %s",
				listens[j].name, cases[i].target, answer);
			cr_expect_eq(has(answer, "secret"), cases[i].secret[j], "%s, %s: %s",
				listens[j].name, cases[i].target, answer);
			close(client);
			turn();
		}
	}
	static const char *const targets[] = { "/v1/resolve/pub/a", "/v1/records/pub",
		"/v1/find?under=/pub" };
	connect_again();
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		cr_expect(has(get(stage.client, targets[i], ""), "secret"), "the socket has all");
	}
}
