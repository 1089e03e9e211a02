/* Event streams: of a path, of a tree and of the agent itself. */

#include "lib/base/array.h"
#include "tests/unit/agent/api/api_stage.h"

TestSuite(api_stream, .init = open_api, .fini = close_api);

#define NDJSON "Accept: application/x-ndjson\r\n"

/* The number of events of a type in what has come. */
static int count(const char *text, const char *type)
{
	char begin[64];
	int found = 0;
	snprintf(begin, sizeof(begin), "{\"type\":\"%s\"", type);
	for (const char *at = text; (at = strstr(at, begin)); at++) {
		found++;
	}
	return found;
}

static void expect_one(const char *text, const char *type, const char *member)
{
	cr_expect_eq(count(text, type), 1, "%s: %s", type, text);
	cr_expect(has(text, member), "%s: %s", member, text);
}

static void make_tree(void)
{
	memory_put(stage.registry, "/t", "");
	memory_put(stage.registry, "/t/a", cache_stage_record("one"));
}

static void begin_tree(void)
{
	make_tree();
	const char *text = get(stage.client, "/v1/watch/t?recursive=yes", NDJSON);
	cr_assert(has_status(text, 200), "%s", text);
	expect_one(text, "SUBSCRIBED", "\"heartbeat_interval_seconds\":10");
	cr_assert(has(text, "\"/t/a\":"), "%s", text);
}

Test(api_stream, a_snapshot_and_then_what_changes)
{
	begin_tree();
	memory_put(stage.registry, "/t/a", cache_stage_record("two"));
	expect_one(more(stage.client), "UPDATED", "\"path\":\"/t/a\"");
	memory_put(stage.registry, "/t/b", cache_stage_record("new"));
	expect_one(more(stage.client), "UPDATED", "\"path\":\"/t/b\"");
	memory_remove(stage.registry, "/t/a");
	expect_one(more(stage.client), "DELETED", "\"path\":\"/t/a\"");
	cr_expect_str_eq(more(stage.client), "");
}

Test(api_stream, it_says_when_it_is_stale_and_when_it_is_fresh_again)
{
	begin_tree();
	set_state(REGISTRY_AWAY);
	expect_one(more(stage.client), "STALE", "\"sequence\":2");
	set_state(REGISTRY_CONNECTED);
	http_stage_pass(1);
	expect_one(more(stage.client), "FRESH", "\"sequence\":3");
}

Test(api_stream, one_that_begins_stale_says_so)
{
	begin_tree();
	set_state(REGISTRY_AWAY);
	int other = http_stage_connect();
	const char *text = get(other, "/v1/watch/t?recursive=yes", NDJSON);
	expect_one(text, "SUBSCRIBED", "\"/t/a\":");
	cr_expect(has(text, ",\"stale\":true,\"snapshot\":"), "%s", text);
	expect_one(text, "STALE", "\"sequence\":2");
	close(other);
}

Test(api_stream, a_quiet_one_beats)
{
	begin_tree();
	http_stage_pass(HEARTBEAT_S - 1);
	cr_expect_str_eq(more(stage.client), "");
	http_stage_pass(2);
	expect_one(more(stage.client), "HEARTBEAT", "\"sequence\":2");
	http_stage_pass(HEARTBEAT_S + 1);
	expect_one(more(stage.client), "HEARTBEAT", "\"sequence\":3");
}

Test(api_stream, a_reader_that_fell_behind_gets_a_snapshot)
{
	enum { UPDATES = 60, DESCRIPTION_BYTES = 20000 };
	static char record[DESCRIPTION_BYTES + 200];
	begin_tree();
	for (int i = 0; i < UPDATES; i++) {
		snprintf(record, sizeof(record),
			"{\"type\":\"JSONServiceRecord\",\"description\":\"%0*d\",\"external\":[],"
			"\"internal\":[]}",
			DESCRIPTION_BYTES, i);
		memory_put(stage.registry, "/t/a", record);
		turn();
	}
	const char *text = more(stage.client);
	cr_expect(count(text, "UPDATED") > 0 && count(text, "UPDATED") < UPDATES);
	expect_one(text, "RESYNC", "00059\"");
	memory_put(stage.registry, "/t/a", cache_stage_record("last"));
	expect_one(more(stage.client), "UPDATED", "last");
}

Test(api_stream, a_client_gets_the_framing_that_it_takes)
{
	static const char *const cases[][2] = { { "", "application/recordio" },
		{ "Accept: */*\r\n", "application/recordio" },
		{ "Accept: application/*\r\n", "application/recordio" },
		{ "Accept: text/*\r\n", "text/event-stream" },
		{ "Accept: */*, application/x-ndjson\r\n", "application/x-ndjson" },
		{ "Accept: text/event-stream, application/x-ndjson\r\n", "application/x-ndjson" } };
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char content[64];
		int client = http_stage_connect();
		snprintf(content, sizeof(content), "Content-Type: %s\r\n", cases[i][1]);
		const char *text = get(client, "/v1/watch/a", cases[i][0]);
		cr_expect(has_status(text, 200) && has(text, content), "%s: %s", cases[i][0], text);
		close(client);
	}
}

Test(api_stream, events_say_how_long_ago_the_registry_was_heard)
{
	begin_tree();
	hear_now();
	set_state(REGISTRY_AWAY);
	http_stage_pass(3);
	cr_expect(has(more(stage.client), "\"heard_ms\":"));
	http_stage_pass(HEARTBEAT_S);
	int heard_ms = 0;
	const char *text = more(stage.client);
	expect_one(text, "HEARTBEAT", "\"heard_ms\":");
	cr_assert_eq(sscanf(strstr(text, "\"heard_ms\":"), "\"heard_ms\":%d", &heard_ms), 1);
	cr_expect(heard_ms >= 13000 && heard_ms < 60000, "%d", heard_ms);
}

Test(api_stream, a_stream_whose_registry_ends_is_broken_off)
{
	struct err err = ERR_INIT;
	int client = http_stage_connect();
	begin_tree();
	memory_set_answering(stage.registry, false);
	cr_assert_str_eq(get(client, "/v1/watch/new", NDJSON), "");
	err_set(&err, BERTH_PATH_NOT_FOUND, "no further registry has this name any more");
	cache_refuse_all(stage.cache, &err);
	turn();
	cr_expect(http_stage_has_ended(stage.client));
	const char *text = more(client);
	cr_expect(has_status(text, 503) && has(text, "no further registry has this name"), "%s",
		text);
	close(client);
	turn();
	cr_expect_eq(api_watchers(stage.api), 0);
	connect_again();
}

/* ---- clients that come again ---- */

static char stream_id[64];

/* A stream of the tree, whose client then leaves; `stream_id` is its name. */
static void begin_and_leave(const char *target)
{
	int client = http_stage_connect();
	const char *text = get(client, target, NDJSON);
	const char *id = strstr(text, "\"stream_id\":\"");
	cr_assert(id && sscanf(id, "\"stream_id\":\"%63[^\"]", stream_id) == 1, "%s", text);
	close(client);
	turn();
	cr_assert_eq(api_watchers(stage.api), 0, "a stream without a client is no watcher");
}

static int come_again(const char *parameters, unsigned sequence, const char **ret_text)
{
	char target[256];
	int client = http_stage_connect();
	snprintf(target, sizeof(target), "/v1/watch/t?%s&after=%s-%u", parameters, stream_id,
		sequence);
	*ret_text = get(client, target, NDJSON);
	return client;
}

Test(api_stream, a_client_that_comes_again_gets_the_events_that_it_missed)
{
	const char *text;
	make_tree();
	begin_and_leave("/v1/watch/t?recursive=yes");
	memory_put(stage.registry, "/t/a", cache_stage_record("two"));
	turn();
	memory_put(stage.registry, "/t/b", cache_stage_record("new"));
	turn();
	int client = come_again("recursive=yes", 1, &text);
	cr_expect(has_status(text, 200));
	cr_expect_eq(count(text, "SUBSCRIBED") + count(text, "RESYNC"), 0, "%s", text);
	cr_expect_eq(count(text, "UPDATED"), 2, "%s", text);
	cr_expect(has(text, "\"sequence\":2") && has(text, "\"sequence\":3"), "%s", text);
	cr_expect_eq(api_watchers(stage.api), 1);
	memory_remove(stage.registry, "/t/b");
	expect_one(more(client), "DELETED", "\"sequence\":4");
	/* It leaves once more, having seen all but the last one. */
	close(client);
	turn();
	client = come_again("recursive=yes", 3, &text);
	expect_one(text, "DELETED", "\"sequence\":4");
	close(client);
	turn();
	client = come_again("recursive=yes", 4, &text);
	cr_expect_eq(count(text, "DELETED") + count(text, "RESYNC"), 0, "%s", text);
	http_stage_pass(HEARTBEAT_S + 1);
	expect_one(more(client), "HEARTBEAT", "\"sequence\":5");
	close(client);
}

Test(api_stream, heartbeats_have_numbers_and_nothing_to_tell_again)
{
	const char *text;
	make_tree();
	begin_and_leave("/v1/watch/t?recursive=yes");
	int first = come_again("recursive=yes", 1, &text);
	http_stage_pass(HEARTBEAT_S + 1);
	expect_one(more(first), "HEARTBEAT", "\"sequence\":2");
	memory_put(stage.registry, "/t/a", cache_stage_record("two"));
	expect_one(more(first), "UPDATED", "\"sequence\":3");
	close(first);
	turn();
	int client = come_again("recursive=yes", 1, &text);
	expect_one(text, "UPDATED", "\"sequence\":2");
	close(client);
}

Test(api_stream, a_browser_goes_on_by_the_number_of_its_last_event)
{
	char id[64];
	char fields[128];
	make_tree();
	int client = http_stage_connect();
	const char *text = get(client, "/v1/watch/t/a", "Accept: text/event-stream\r\n");
	const char *line = strstr(text, "\nid: ");
	cr_assert(line && sscanf(line, "\nid: %63s", id) == 1, "%s", text);
	close(client);
	turn();
	memory_put(stage.registry, "/t/a", cache_stage_record("two"));
	turn();
	client = http_stage_connect();
	snprintf(fields, sizeof(fields), "Accept: text/event-stream\r\nLast-Event-ID: %s\r\n", id);
	text = get(client, "/v1/watch/t/a", fields);
	cr_expect(has(text, "event: UPDATED\nid: ") && !has(text, "SUBSCRIBED"), "%s", text);
	close(client);
}

Test(api_stream, a_client_that_cannot_go_on_gets_a_snapshot)
{
	static const struct {
		const char *parameters;
		unsigned sequence;
	} others[] = { { "recursive=no", 1 }, { "recursive=yes", 0 }, { "recursive=yes", 7 } };
	char target[256];
	const char *text;
	int client;
	make_tree();
	begin_and_leave("/v1/watch/t?recursive=yes");
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		client = come_again(others[i].parameters, others[i].sequence, &text);
		expect_one(text, "RESYNC", "\"stream_id\":");
		cr_expect(has(text, "\"heartbeat_interval_seconds\""), "%s", text);
		close(client);
		turn();
	}
	snprintf(target, sizeof(target), "/v1/watch/t/a?recursive=yes&after=%s-1", stream_id);
	client = http_stage_connect();
	expect_one(get(client, target, NDJSON), "RESYNC", "\"stream_id\":");
	close(client);
	turn();
	/* A stream of another agent may have the same number. */
	char own = stream_id[0];
	stream_id[0] = own == '1' ? '2' : '1';
	client = come_again("recursive=yes", 1, &text);
	expect_one(text, "RESYNC", "\"stream_id\":");
	stream_id[0] = own;
	close(client);
	turn();
	client = come_again("recursive=yes", 1, &text);
	cr_expect_eq(count(text, "RESYNC"), 0, "the others did not take it: %s", text);
	close(client);
	turn();
	http_stage_pass(31);
	client = come_again("recursive=yes", 1, &text);
	expect_one(text, "RESYNC", "\"sequence\":1");
	close(client);
	client = http_stage_connect();
	text = get(client, "/v1/watch/t?after=1-2", NDJSON);
	cr_expect(has_status(text, 400) && has(text, "the stream_id of a stream"), "%s", text);
	static const char *const bad[] = {
		"1-2-3-and-much-more-than-any-id-has-in-all-of-the-world-there-is", "-1-2-3",
		"+1-2-3", "%201-2-3", "%2B1-2-3", "1-2-3x", "1-2-", "1-2", "x"
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		snprintf(target, sizeof(target), "/v1/watch/t?after=%s", bad[i]);
		cr_expect(has_status(get(client, target, NDJSON), 400), "%s", target);
	}
	text = get(client, "/v1/watch/t", NDJSON "Last-Event-ID: of another server\r\n");
	expect_one(text, "RESYNC", "\"snapshot\"");
	close(client);
}

Test(api_stream, a_stream_waits_half_a_minute_for_its_client)
{
	const char *text;
	char first[64];
	make_tree();
	begin_and_leave("/v1/watch/t?recursive=yes");
	strcpy(first, stream_id);
	http_stage_pass(10);
	begin_and_leave("/v1/watch/t?recursive=yes");
	http_stage_pass(18);
	char second[64];
	strcpy(second, stream_id);
	strcpy(stream_id, first);
	int client = come_again("recursive=yes", 1, &text);
	cr_expect_eq(count(text, "RESYNC"), 0, "%s", text);
	close(client);
	turn();
	strcpy(stream_id, second);
	http_stage_pass(10);
	client = come_again("recursive=yes", 1, &text);
	cr_expect_eq(count(text, "RESYNC"), 0, "it has been 28 seconds: %s", text);
	close(client);
	turn();
	http_stage_pass(21);
	strcpy(stream_id, first);
	client = come_again("recursive=yes", 1, &text);
	expect_one(text, "RESYNC", "\"snapshot\"");
	close(client);
	strcpy(stream_id, second);
	client = come_again("recursive=yes", 1, &text);
	cr_expect_eq(count(text, "RESYNC"), 0, "the other one is still there: %s", text);
	close(client);
}

/* ---- the agent ---- */

Test(api_stream, the_agent_itself)
{
	int other = http_stage_connect();
	const char *text = get(other, "/v1/agent/watch", NDJSON);
	expect_one(text, "SUBSCRIBED", "\"checks\":[]");
	cr_expect(has(text, "\"state\":\"running\""), "%s", text);
	api_agent_changed(stage.api);
	cr_expect_str_eq(more(other), "", "time alone is not an event");
	stage.state = "draining";
	(void)history_add(stage.history, 1e9,
		&(struct transition){ .subject = "agent", .from = "running", .to = "draining" });
	api_agent_changed(stage.api);
	text = more(other);
	expect_one(text, "TRANSITION", "\"subject\":\"agent\"");
	expect_one(text, "AGENT", "\"state\":\"draining\"");
	http_stage_pass(HEARTBEAT_S + 1);
	expect_one(more(other), "HEARTBEAT", "");
	close(other);
	turn();
	api_agent_changed(stage.api);
	turn();
}
