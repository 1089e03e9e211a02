/* Answers: their text, their errors, and what is read for them. */

#include <criterion/criterion.h>

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/b", cache_stage_record("two"));
	return stage;
}

/* /s has the records `one` and `two` below it. */
#define STAGED(name)                                                                               \
	STAGED_TEST(cache_make, name, struct cache_stage *, stage,                                 \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

#define ENDPOINT(path, name)                                                                       \
	"{\"path\":\"" path "\",\"scope\":\"external\",\"api\":\"http://a\","                      \
	"\"protocol\":\"REST\",\"addressType\":\"uri\",\"address\":{\"uri\":\"http://" name "\"}}"

/* ---- errors ---- */

STAGED(an_absent_path_is_named)
{
	struct cache_outcome outcome;
	static const enum cache_answer_kind kinds[] = { CACHE_RESOLVE, CACHE_LIST, CACHE_RECORDS,
		CACHE_ENDPOINTS, CACHE_STAT };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		cr_assert_eq(
			cache_stage_look(stage, &outcome, "/none", kinds[i]), BERTH_PATH_NOT_FOUND);
		cr_assert_str_eq(outcome.why, "no such path: /none");
		cr_assert_str_eq(outcome.text, "");
	}
	cr_assert_eq(cache_stage_look(stage, &outcome, "/none", CACHE_TARGETS), 0);
	cr_assert_str_eq(outcome.text, "[]\n");
}

STAGED(data_without_a_record_are_named_with_their_fault)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s/a", "{\"type\":\"JSONServiceRecord\"");
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), BERTH_INVALID_RECORD);
	cr_assert_eq(strncmp(outcome.why, "/s/a: ", 6), 0, "%s", outcome.why);
	cr_assert_gt(strlen(outcome.why), 6);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RESOLVE), BERTH_NO_RECORD);
	cr_assert_eq(strncmp(outcome.why, "/s: ", 4), 0, "%s", outcome.why);
}

struct refusal {
	enum registry_operation operation;
	int code;
};

static void refuse(void *context, const struct registry_task *task, struct err *err)
{
	const struct refusal *refusal = context;
	if (task->operation == refusal->operation && strcmp(task->path, "/s") == 0) {
		err_set(err, refusal->code, "by the server's answer");
	}
}

static void refuse_with(struct cache_stage *stage, struct refusal *refusal,
	enum registry_operation operation, int code)
{
	*refusal = (struct refusal){ operation, code };
	memory_on_task(stage->registry, refuse, refusal);
}

STAGED(data_that_the_registry_would_not_give_has_a_stat_and_the_registrys_reason)
{
	static const int codes[] = { BERTH_NO_RECORD, BERTH_INVALID_RECORD };
	for (size_t i = 0; i < 2; i++) {
		struct cache_outcome outcome;
		struct refusal refusal;
		refuse_with(stage, &refusal, REGISTRY_OP_GET, codes[i]);
		cache_stage_ask(stage, &outcome, "/s", CACHE_RESOLVE, "", i > 0);
		cache_stage_turn(stage);
		cr_assert_eq(outcome.code, codes[i]);
		cr_assert_not_null(
			strstr(outcome.why, "by the server's answer"), "%s", outcome.why);
		cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_STAT), 0);
		cr_assert_eq(strncmp(outcome.text, "{\"path\":\"/s\",", 13), 0);
	}
}

STAGED(a_path_that_may_not_be_read_has_no_stat)
{
	struct cache_outcome outcome;
	struct refusal refusal;
	refuse_with(stage, &refusal, REGISTRY_OP_GET, BERTH_NO_PATH_PERMISSIONS);
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/s", CACHE_RESOLVE), BERTH_NO_PATH_PERMISSIONS);
	cr_assert_str_eq(outcome.why, "/s: NoPathPermissions");
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/s", CACHE_STAT), BERTH_NO_PATH_PERMISSIONS);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
}

STAGED(children_that_may_not_be_listed_are_no_empty_list)
{
	struct cache_outcome outcome;
	struct refusal refusal;
	refuse_with(stage, &refusal, REGISTRY_OP_CHILDREN, BERTH_NO_PATH_PERMISSIONS);
	static const enum cache_answer_kind kinds[] = { CACHE_LIST, CACHE_RECORDS, CACHE_ENDPOINTS,
		CACHE_TARGETS };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		cr_assert_eq(cache_stage_look(stage, &outcome, "/s", kinds[i]),
			BERTH_NO_PATH_PERMISSIONS);
		cr_assert_str_eq(outcome.why, "/s: NoPathPermissions");
	}
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_STAT), 0);
	cr_assert_not_null(strstr(outcome.text, "\"children\":0}"), "%s", outcome.text);
}

static void *no_memory(void *memory, size_t size)
{
	(void)memory;
	(void)size;
	return NULL;
}

STAGED(an_answer_that_fits_into_no_buffer_is_an_error)
{
	static const enum cache_answer_kind kinds[] = { CACHE_LIST, CACHE_STAT, CACHE_RECORDS,
		CACHE_ENDPOINTS, CACHE_TARGETS };
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RESOLVE), BERTH_NO_RECORD);
	memory_put(stage->registry, "/s/a", cache_stage_record("other"));
	cache_stage_turn(stage);
	buffer_set_allocator(no_memory);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		cr_assert_eq(
			cache_stage_ask(stage, &outcome, "/s", kinds[i], "", false), CACHE_READY);
		cr_assert_eq(outcome.code, BERTH_LIMIT_EXCEEDED);
		cr_assert_str_eq(outcome.why, "/s: the answer is too large");
	}
	buffer_set_allocator(realloc);
}

/* ---- while the registry is away ---- */

STAGED(away_an_answer_needs_every_part_of_it)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	static const enum cache_answer_kind kinds[] = { CACHE_RESOLVE, CACHE_RECORDS,
		CACHE_ENDPOINTS, CACHE_TARGETS, CACHE_STAT };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", kinds[i], "", false),
			CACHE_UNAVAILABLE);
		cr_assert_eq(outcome.code, BERTH_REGISTRY_UNAVAILABLE);
		cr_assert_str_eq(outcome.why, "the registry is away, and /s is not known");
	}
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/none", CACHE_RECORDS, "", false),
		CACHE_UNAVAILABLE);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_LIST, "", false), CACHE_READY);
	cr_assert_str_eq(outcome.text, "[\"/s/a\",\"/s/b\"]\n");
}

STAGED(away_a_composite_of_known_parts_is_stale)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert(outcome.live);
	memory_set_heard_ms(stage->registry, clock_monotonic_ms() - 4000);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_RECORDS, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_geq(outcome.age_ms, 4000);
	cr_assert_not_null(strstr(outcome.text, "/s/b"));
}

STAGED(away_endpoints_need_the_record_of_the_path_itself)
{
	static const enum cache_answer_kind kinds[] = { CACHE_ENDPOINTS, CACHE_TARGETS };
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s", cache_stage_record("own"));
	memory_put(stage->registry, "/s/a", cache_stage_record("child"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", kinds[i], "", false),
			CACHE_UNAVAILABLE);
		cr_assert_str_eq(outcome.why, "the registry is away, and /s is not known");
	}
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_RECORDS, "", false), CACHE_READY);
}

STAGED(an_answer_after_an_outage_holds_nothing_from_before)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s", cache_stage_record("own"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RESOLVE), 0);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_ENDPOINTS, "", false),
		CACHE_UNAVAILABLE, "the children are not known");
	memory_put(stage->registry, "/s", cache_stage_record("new"));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_ENDPOINTS), 0);
	cr_assert_eq(
		strncmp(outcome.text, "[" ENDPOINT("/s", "new"), strlen("[" ENDPOINT("/s", "new"))),
		0, "%s", outcome.text);
}

Test(cache_make, away_an_answer_older_than_max_stale_is_not_given)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	cache_stage_open(
		&stage, &(struct cache_options){ .resync_ms = 600000, .max_stale_ms = 2000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	memory_set_heard_ms(stage.registry, clock_monotonic_ms() - 4000);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/s", CACHE_RECORDS, "", false),
		CACHE_UNAVAILABLE);
	cr_assert_str_eq(outcome.why,
		"the registry is away, and /s is known no later than max_stale allows");
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/s/a", CACHE_RESOLVE, "", false),
		CACHE_UNAVAILABLE);
	cr_assert_str_eq(outcome.why,
		"the registry is away, and /s/a is known no later than max_stale allows");
	cache_stage_close(&stage);
}

/* ---- the text of answers ---- */

/* The answer for /s without the time, which it returns. */
static long long stat_of(struct cache_stage *stage, char *rest, size_t size)
{
	struct cache_outcome outcome;
	long long time_ms = 0;
	int at = 0;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_STAT), 0);
	sscanf(outcome.text, "{\"path\":\"/s\",\"time\":%lld%n", &time_ms, &at);
	cr_assert_gt(at, 0, "%s", outcome.text);
	snprintf(rest, size, "%s", outcome.text + at);
	return time_ms;
}

STAGED(a_stat_tells_the_size_the_children_and_foreign_names)
{
	char rest[200];
	cr_assert_gt(stat_of(stage, rest, sizeof(rest)), 1000000000000);
	cr_assert_str_eq(rest, ",\"size\":0,\"children\":2}\n");
	memory_put(stage->registry, "/s", "abcd");
	memory_put(stage->registry, "/s/A b", "");
	cache_stage_turn(stage);
	stat_of(stage, rest, sizeof(rest));
	cr_assert_str_eq(rest, ",\"size\":4,\"children\":2,\"foreign\":[\"/s/A%20b\"]}\n");
	memory_put(stage->registry, "/s/C", "");
	cache_stage_turn(stage);
	stat_of(stage, rest, sizeof(rest));
	cr_assert_str_eq(rest, ",\"size\":4,\"children\":2,\"foreign\":[\"/s/A%20b\",\"/s/C\"]}\n");
}

STAGED(endpoints_are_the_addresses_of_a_record_and_of_its_children)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_ENDPOINTS), 0);
	cr_assert_str_eq(
		outcome.text, "[" ENDPOINT("/s/a", "one") "," ENDPOINT("/s/b", "two") "]\n");
	memory_put(stage->registry, "/s", cache_stage_record("own"));
	memory_put(stage->registry, "/s/a", "host:1");
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_ENDPOINTS), 0);
	cr_assert_str_eq(outcome.text, "[" ENDPOINT("/s", "own") "," ENDPOINT("/s/b", "two") "]\n");
	memory_remove(stage->registry, "/s/a");
	memory_remove(stage->registry, "/s/b");
	memory_put(stage->registry, "/s", "");
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_ENDPOINTS), 0);
	cr_assert_str_eq(outcome.text, "[]\n");
}

STAGED(endpoints_are_all_those_of_a_record_external_ones_first)
{
	struct cache_outcome outcome;
#define TO(address) "{\"uri\":\"http://" address "\"}"
#define OF(protocol, addresses)                                                                    \
	"{\"api\":\"\",\"addressType\":\"uri\",\"protocol\":\"" protocol                           \
	"\",\"addresses\":[" addresses "]}"
	memory_put(stage->registry, "/t",
		"{\"type\":\"JSONServiceRecord\",\"internal\":[" OF(
			"p", TO("in")) "],\"external\":[" OF("p", TO("1") "," TO("2")) "," OF("q",
			TO("3")) "]}");
	const struct cache_filter text = { .text = true };
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/t", CACHE_ENDPOINTS, &text), 0);
	cr_expect_str_eq(outcome.text, "http://1\nhttp://2\nhttp://3\nhttp://in\n");
	const struct cache_filter internal = { .text = true, .scope = "internal" };
	cr_assert_eq(
		cache_stage_look_filtered(stage, &outcome, "/t", CACHE_ENDPOINTS, &internal), 0);
	cr_expect_str_eq(outcome.text, "http://in\n");
}

/* As a terminal would not show them. */
STAGED(texts_that_would_play_tricks_on_a_terminal_are_escaped_in_answers)
{
	static const char hidden[] =
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"a\u202e\","
		"\"addressType\":\"uri\",\"protocol\":\"p\",\"addresses\":"
		"[{\"uri\":\"http://h\"}]}]}";
	struct cache_outcome outcome;
	memory_put(stage->registry, "/t", hidden);
	memory_put(stage->registry, "/t/a", hidden);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/t", CACHE_ENDPOINTS), 0);
#define ESCAPED(path)                                                                              \
	"{\"path\":\"" path "\",\"scope\":\"external\",\"api\":\"a\\u202e\",\"protocol\":\"p\","   \
	"\"addressType\":\"uri\",\"address\":{\"uri\":\"http://h\"}}"
	cr_expect_str_eq(outcome.text, "[" ESCAPED("/t") "," ESCAPED("/t/a") "]\n");
	for (int kind = CACHE_RESOLVE; kind <= CACHE_RECORDS; kind += CACHE_RECORDS) {
		cr_assert_eq(
			cache_stage_look(stage, &outcome, "/t", (enum cache_answer_kind)kind), 0);
		cr_expect_not_null(strstr(outcome.text, "\"a\\u202e\""), "%s", outcome.text);
		cr_expect_null(strstr(outcome.text, "\u202e"), "%s", outcome.text);
	}
}

STAGED(endpoints_as_text_are_addresses_line_by_line)
{
	struct cache_outcome outcome;
	const struct cache_filter text = { .text = true };
	memory_put(stage->registry, "/s/c",
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"\",\"addressType\":"
		"\"host/port\",\"protocol\":\"tcp\",\"addresses\":[{\"host\":\"h\",\"port\":\"1\"},"
		"{\"host\":\"i\",\"port\":\"2\"}]},{\"api\":\"\",\"addressType\":\"uri\","
		"\"protocol\":\"tcp\",\"addresses\":[{\"uri\":\"a\\nb\"},{\"uri\":\"\"}]}]}");
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s", CACHE_ENDPOINTS, &text), 0);
	cr_assert_str_eq(outcome.text, "http://one\nhttp://two\nh:1\ni:2\n");
	const struct cache_filter tcp = { .text = true, .protocol = "tcp" };
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s", CACHE_ENDPOINTS, &tcp), 0);
	cr_assert_str_eq(outcome.text, "h:1\ni:2\n");
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s/b", CACHE_ENDPOINTS, &text), 0);
	cr_assert_str_eq(outcome.text, "http://two\n");
}

STAGED(targets_are_the_addresses_of_a_path_and_its_children_in_groups)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s/c", "");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_TARGETS), 0);
	const char *first = strstr(outcome.text, "\"targets\":[\"one:80\"]");
	const char *second = strstr(outcome.text, "\"targets\":[\"two:80\"]");
	cr_assert(first && second && first < second, "%s", outcome.text);
	cr_assert_eq(outcome.text[0], '[');
	cr_assert_str_eq(outcome.text + strlen(outcome.text) - 3, "}]\n");
	json_t *groups = json_loads(outcome.text, 0, NULL);
	cr_assert_eq(json_array_size(groups), 2);
	json_decref(groups);
	memory_put(stage->registry, "/s", cache_stage_record("own"));
	cache_stage_turn(stage);
	const struct cache_filter other = { .protocol = "other" };
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_TARGETS), 0);
	groups = json_loads(outcome.text, 0, NULL);
	cr_assert_eq(json_array_size(groups), 3);
	json_decref(groups);
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s", CACHE_TARGETS, &other), 0);
	cr_assert_str_eq(outcome.text, "[]\n");
}

STAGED(records_that_are_made_again_are_whole_again)
{
	struct cache_outcome outcome;
	char expected[1024];
	snprintf(expected, sizeof(expected), "{\"/s/a\":%s,", cache_stage_record("one"));
	size_t len = strlen(expected);
	snprintf(expected + len, sizeof(expected) - len, "\"/s/b\":%s}\n",
		cache_stage_record("two"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_str_eq(outcome.text, expected);
	memory_put(stage->registry, "/s/c", "");
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_RECORDS, "", false),
		CACHE_WAITING, "the new child is not read yet");
	cr_assert_eq(outcome.calls, 0);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_str_eq(outcome.text, expected);
	memory_remove(stage->registry, "/s/a");
	memory_remove(stage->registry, "/s/b");
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_str_eq(outcome.text, "{}\n");
}

/* ---- what is read ---- */

static void note_read(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	struct buffer *log = context;
	buffer_printf(
		log, "%s%s;", task->operation == REGISTRY_OP_CHILDREN ? "list " : "", task->path);
}

static size_t reads_of(const struct buffer *log, const char *read)
{
	size_t count = 0;
	for (const char *at = buffer_text(log); (at = strstr(at, read)); at++) {
		count += at == buffer_text(log) || at[-1] == ';';
	}
	return count;
}

STAGED(a_list_is_one_read_and_a_record_is_one)
{
	struct cache_outcome outcome;
	struct buffer log;
	buffer_init(&log, 4096);
	memory_on_task(stage->registry, note_read, &log);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_str_eq(buffer_text(&log), "list /s;");
	buffer_clear(&log);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(buffer_text(&log), "/s/a;");
	memory_on_task(stage->registry, NULL, NULL);
	buffer_finish(&log);
}

/* Every part is read once more, with a child that came since. */
static void refresh(struct cache_stage *stage, enum cache_answer_kind kind, size_t own_reads)
{
	struct cache_outcome outcome;
	struct buffer log;
	buffer_init(&log, 4096);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", kind), 0);
	memory_put(stage->registry, "/s/c", cache_stage_record("three"));
	memory_on_task(stage->registry, note_read, &log);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", kind, "", true), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert(outcome.live);
	cr_assert_not_null(strstr(outcome.text, "three"));
	cr_assert_geq(reads_of(&log, "list /s;"), 1);
	cr_assert_eq(reads_of(&log, "/s;"), own_reads);
	cr_assert_eq(reads_of(&log, "/s/a;"), 1, "%s", buffer_text(&log));
	cr_assert_eq(reads_of(&log, "/s/b;"), 1, "%s", buffer_text(&log));
	cr_assert_eq(reads_of(&log, "/s/c;"), 1, "%s", buffer_text(&log));
	memory_on_task(stage->registry, NULL, NULL);
	buffer_finish(&log);
}

STAGED(records_are_refreshed_with_their_list)
{
	refresh(stage, CACHE_RECORDS, 0);
}

STAGED(endpoints_are_refreshed_with_their_list_and_the_record_above)
{
	refresh(stage, CACHE_ENDPOINTS, 1);
}

/* ---- nodes and lists for an agent in a container ---- */

/* The answer as JSON: a new reference. */
static json_t *look_at(struct cache_stage *stage, const char *path, enum cache_answer_kind kind)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, path, kind), 0, "%s", outcome.why);
	json_t *json = json_loads(outcome.text, 0, NULL);
	cr_assert_not_null(json, "%s", outcome.text);
	return json;
}

STAGED(a_node_shows_its_stat_and_the_text_of_a_record_alone)
{
	static const struct {
		const char *path;
		const char *data;
		const char *shown; /* NULL: nothing */
	} cases[] = {
		{ "/s/record", "{\"type\":\"JSONServiceRecord\"}",
			"{\"type\":\"JSONServiceRecord\"}" },
		{ "/s/damaged", "\xffJSONServiceRecord", "JSONServiceRecord" },
		{ "/s/foreign", "a secret of another program", NULL },
		{ "/s/empty", "", NULL },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		memory_put(stage->registry, cases[i].path, cases[i].data);
		json_t *node = look_at(stage, cases[i].path, CACHE_NODE);
		const char *data = json_string_value(json_object_get(node, "data"));
		cr_expect_eq(data != NULL, cases[i].shown != NULL, "%s", cases[i].path);
		cr_expect(!data || strcmp(data, cases[i].shown) == 0, "%s", data);
		cr_expect_eq(json_integer_value(json_object_get(node, "size")),
			(json_int_t)strlen(cases[i].data));
		cr_expect(json_is_false(json_object_get(node, "ephemeral")));
		cr_expect_eq(json_object_size(node), cases[i].shown ? 7 : 6);
		json_decref(node);
	}
	struct cache_outcome outcome;
	cr_expect_eq(cache_stage_look(stage, &outcome, "/none", CACHE_NODE), BERTH_PATH_NOT_FOUND);
	cr_expect_eq(
		cache_stage_look(stage, &outcome, "/none", CACHE_NODE_LIST), BERTH_PATH_NOT_FOUND);
}

static json_int_t number_of(const json_t *json, const char *key)
{
	cr_assert(json_is_integer(json_object_get(json, key)), "%s", key);
	return json_integer_value(json_object_get(json, key));
}

static void on_bound(void *context, const struct registry_result *result)
{
	(void)context;
	cr_assert_eq(result->err.code, 0, "%s", result->err.msg);
}

/* The node of a session, which was written anew a while after it had been made. */
STAGED(the_stat_of_a_node_is_the_registrys)
{
	static const struct registry_bind bind = { .data = "ab", .len = 2, .ephemeral = true };
	static const enum cache_answer_kind kinds[] = { CACHE_NODE, CACHE_NODE_LIST };
	(void)registry_bind(stage->registry, "/s/own", &bind, on_bound, NULL);
	cache_stage_turn(stage);
	clock_shift_ms += 5000;
	memory_put(stage->registry, "/s/own", "abc");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		json_t *node = look_at(stage, "/s/own", kinds[i]);
		const struct registry_stat *stat = kinds[i] == CACHE_NODE
			? &cache_stage_data(stage, "/s/own")->stat
			: &cache_stage_list(stage, "/s/own")->stat;
		cr_assert_gt(stat->modified_ms, stat->created_ms);
		cr_expect_eq(number_of(node, "created_ms"), stat->created_ms);
		cr_expect_eq(number_of(node, "modified_ms"), stat->modified_ms);
		cr_expect_eq(number_of(node, "node_id"), stat->node_id);
		cr_expect_eq(number_of(node, "version"), stat->version);
		cr_expect_eq(number_of(node, "size"), 3);
		cr_expect(json_is_true(json_object_get(node, "ephemeral")));
		json_decref(node);
	}
}

STAGED(a_list_of_a_node_has_the_names_and_apart_those_of_other_programs)
{
	static const struct {
		const char *path;
		const char *names;
	} cases[] = {
		{ "/s", "{\"names\":[\"a\",\"b\"],\"foreign\":[\"A%20b\",\"C\"]}" },
		{ "/", "{\"names\":[\"s\"],\"foreign\":[]}" },
		{ "/s/a", "{\"names\":[],\"foreign\":[]}" },
	};
	memory_put(stage->registry, "/s/A b", "");
	memory_put(stage->registry, "/s/C", "");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *list = look_at(stage, cases[i].path, CACHE_NODE_LIST);
		json_t *names = json_loads(cases[i].names, 0, NULL);
		cr_expect_eq(json_object_size(list), 8);
		cr_expect(json_equal(
			json_object_get(list, "names"), json_object_get(names, "names")));
		cr_expect(json_equal(
			json_object_get(list, "foreign"), json_object_get(names, "foreign")));
		json_decref(names);
		json_decref(list);
	}
}

/* ---- records as those outside see them ---- */

STAGED(outside_a_record_has_no_internal_endpoints)
{
	static const struct cache_filter outside = { .outside = true };
	static const char with[] = "{\"type\":\"JSONServiceRecord\",\"description\":\"d\\u202E\","
				   "\"external\":[],\"internal\":[{\"api\":\"secret\","
				   "\"addressType\":\"uri\",\"protocolType\":\"x\","
				   "\"addresses\":[{\"uri\":\"http://in\"}]}]}";
	static const char without[] = "{\"type\":\"JSONServiceRecord\"}";
	static const char shown[] = "{\"type\":\"JSONServiceRecord\",\"description\":\"d\\u202e\","
				    "\"external\":[],\"internal\":[]}";
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s/a", with);
	memory_put(stage->registry, "/s/b", without);
	memory_put(stage->registry, "/s/c", "{\"type\":\"JSONServiceRecord\"");
	cr_assert_eq(
		cache_stage_look_filtered(stage, &outcome, "/s/a", CACHE_RESOLVE, &outside), 0);
	cr_expect_eq(strncmp(outcome.text, shown, strlen(shown)), 0, "%s", outcome.text);
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s", CACHE_RECORDS, &outside), 0);
	char expected[1024];
	snprintf(expected, sizeof(expected),
		"{\"/s/a\":%s,\"/s/b\":{\"type\":"
		"\"JSONServiceRecord\",\"external\":[],\"internal\":[]}}\n",
		shown);
	cr_expect_str_eq(outcome.text, expected);
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s/c", CACHE_RESOLVE, &outside),
		BERTH_INVALID_RECORD);
}
