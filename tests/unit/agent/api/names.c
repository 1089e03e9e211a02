/* Names over HTTP: the forms of their answers, their age, and those that nobody has. */

#include "lib/base/array.h"
#include "tests/unit/agent/api/api_stage.h"

enum { TTL_S = 5, STALE_TTL_S = 1 };

static void begin(void)
{
	static const struct api_options options = { .version = "0",
		.max_watchers = MAX_WATCHERS,
		.names_ttl_s = TTL_S,
		.names_stale_ttl_s = STALE_TTL_S };
	open_api();
	api_set_options(stage.api, &options);
	memory_put(stage.registry, "/services", "");
	memory_put(stage.registry, "/services/db",
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"sql\",\"addressType\":"
		"\"host/port\",\"protocolType\":\"tcp\",\"addresses\":[{\"host\":\"10.1.2.3\","
		"\"port\":\"5432\"}]}],\"internal\":[]}");
}

TestSuite(api_names, .init = begin, .fini = close_api);

static const char *ask(const char *target)
{
	return get(stage.client, target, "");
}

Test(api_names, a_name_is_answered_as_json_or_as_lines)
{
	const char *answer = ask("/v1/names/db.services.berth");
	cr_expect(has_status(answer, 200), "%s", answer);
	cr_expect(has(answer, "Content-Type: application/json\r\n"));
	cr_expect(
		has(answer, "\r\nX-Cache: HIT\r\n") && has(answer, "\r\nAge: 0\r\n"), "%s", answer);
	cr_expect(has(answer, "\r\nCache-Control: no-cache\r\n"));
	cr_expect(has(answer, "\"name\":\"db.services.berth\",\"ttl\":5,"), "%s", answer);
	cr_expect(has(answer, "\"10.1.2.3\"") && has(answer, "\"port\":5432"), "%s", answer);
	answer = get(stage.client, "/v1/names/db.services.berth", "Accept: text/plain\r\n");
	cr_expect(has(answer, "Content-Type: text/plain; charset=utf-8\r\n"), "%s", answer);
	cr_expect(has(answer, "\r\nX-Cache: HIT\r\n") && has(answer, "\r\nAge: 0\r\n"));
	cr_expect(has(answer, "\r\nCache-Control: no-cache\r\n"));
	cr_expect(has(answer, "10.1.2.3\n") && !has(answer, "{"), "%s", answer);
	answer = get(stage.client, "/v1/names/db.services.berth", "Accept: image/png\r\n");
	cr_expect(has_status(answer, 406) && has(answer, "application/json or text/plain"), "%s",
		answer);
}

Test(api_names, a_name_that_is_not_there_says_why)
{
	char target[400];
	const char *answer = ask("/v1/names/none.services.berth");
	cr_expect(has_status(answer, 404) && has(answer, "no record has the name none"), "%s",
		answer);
	answer = ask("/v1/names/db.example");
	cr_expect(has_status(answer, 404) && has(answer, "is not below the domain berth"), "%s",
		answer);
	memset(target, 'a', sizeof(target));
	memcpy(target, "/v1/names/", 10);
	target[10 + NAMES_NAME_BYTES - 1] = '\0';
	cr_expect(has_status(ask(target), 404), "of the greatest length");
	target[10 + NAMES_NAME_BYTES - 1] = 'a';
	target[10 + NAMES_NAME_BYTES] = '\0';
	answer = ask(target);
	cr_expect(has_status(answer, 400) && has(answer, "at most 253 bytes"), "%s", answer);
}

Test(api_names, without_a_registry_known_names_are_stale_and_others_not_known)
{
	cr_assert(has_status(ask("/v1/names/db.services.berth"), 200));
	set_state(REGISTRY_AWAY);
	http_stage_pass(3);
	const char *answer = ask("/v1/names/db.services.berth");
	cr_expect(has(answer, "X-Cache: STALE\r\n") && has(answer, "\"ttl\":1,"), "%s", answer);
	cr_expect(has(answer, "\r\nAge: 4\r\n") || has(answer, "\r\nAge: 3\r\n"), "%s", answer);
	answer = get(stage.client, "/v1/names/db.services.berth", "Accept: text/plain\r\n");
	cr_expect(has(answer, "X-Cache: STALE\r\n"), "%s", answer);
	http_stage_pass(4997);
	connect_again();
	answer = ask("/v1/names/db.services.berth");
	cr_expect(
		has(answer, "\r\nAge: 5000\r\n") || has(answer, "\r\nAge: 5001\r\n"), "%s", answer);
	answer = ask("/v1/names/other.services.berth");
	cr_expect(has_status(answer, 503) && has(answer, "other.services.berth is not known"), "%s",
		answer);
}

static void put_in_zone(const char *path, const char *host, const char *zone)
{
	char record[400];
	snprintf(record, sizeof(record),
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"x\",\"addressType\":"
		"\"host/port\",\"protocolType\":\"tcp\",\"addresses\":[{\"host\":\"%s\","
		"\"port\":\"80\"}]}],\"internal\":[],\"berth:zone\":\"%s\"}",
		host, zone);
	memory_put(stage.registry, path, record);
}

static void put_instances(void)
{
	static const char *const folders[] = { "/users", "/users/joe", "/users/joe/web",
		"/users/joe/web/prod", "/users/joe/web/prod/components" };
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		memory_put(stage.registry, folders[i], "");
	}
	put_in_zone("/users/joe/web/prod/components/a", "10.0.0.1", "us/a");
	put_in_zone("/users/joe/web/prod/components/b", "10.0.0.2", "eu/a");
}

/* The addresses are in this order. */
static void expect_order(const char *answer, const char *first, const char *second)
{
	const char *at = strstr(answer, "\"addresses\":[");
	const char *one = at ? strstr(at, first) : NULL;
	const char *other = at ? strstr(at, second) : NULL;
	cr_expect(one && other && one < other, "%s", answer);
}

Test(api_names, near_addresses_come_first)
{
	static const struct api_options options = { .version = "0",
		.max_watchers = MAX_WATCHERS,
		.zone = "eu/a",
		.names_ttl_s = TTL_S,
		.names_stale_ttl_s = STALE_TTL_S };
	put_instances();
	const char *answer = ask("/v1/names/prod.web.joe.berth?near=us/a");
	expect_order(answer, "10.0.0.1", "10.0.0.2");
	cr_expect(has(answer, "\"tiers\":[0,2]"), "%s", answer);
	answer = ask("/v1/names/prod.web.joe.berth?near=self");
	cr_expect(has(answer, "\"tiers\":[0,0]"), "no zone of its own: %s", answer);
	api_set_options(stage.api, &options);
	answer = ask("/v1/names/prod.web.joe.berth?near=self");
	expect_order(answer, "10.0.0.2", "10.0.0.1");
	cr_expect(has(answer, "\"tiers\":[0,2]"), "%s", answer);
	cr_expect_not(has(ask("/v1/names/prod.web.joe.berth"), "tiers"));
	cr_expect_not(has(ask("/v1/names/prod.web.joe.berth?near="), "tiers"));
	char target[400];
	memset(target, 'a', sizeof(target));
	memcpy(target, "/v1/names/db.berth?near=", 24);
	target[24 + 256] = '\0';
	cr_expect(has_status(ask(target), 400));
	cr_expect(has_status(ask("/v1/names/prod.web.joe.berth?near=%20"), 400));
	cr_expect(has_status(ask("/v1/names/prod.web.joe.berth?near=x//y"), 400));
}
