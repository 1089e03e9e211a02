#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/history.h"
#include "lib/base/array.h"

static struct history *history;

static void start(void)
{
	history = history_create();
}

static void finish(void)
{
	history_destroy(history);
}

TestSuite(history, .init = start, .fini = finish);

static unsigned add(double time, const char *from, const char *to, const char *why)
{
	return history_add(history, time,
		&(struct transition){ .subject = "web", .from = from, .to = to, .why = why });
}

static unsigned retry(double time, const char *from, const char *to, const char *why)
{
	return history_add(history, time,
		&(struct transition){
			.subject = "web", .from = from, .to = to, .why = why, .retry = true });
}

static const char *text_at(const json_t *list, size_t index, const char *name)
{
	return json_string_value(json_object_get(json_array_get(list, index), name));
}

static double number_at(const json_t *list, size_t index, const char *name)
{
	return json_number_value(json_object_get(json_array_get(list, index), name));
}

Test(history, keeps_transitions_in_order)
{
	add(1.5, "registered", "withdrawn", "check http failed");
	add(2.5, "withdrawn", "registered", "all checks are up");
	json_t *list = history_json(history, true);
	cr_assert_eq(json_array_size(list), 2);
	cr_assert_str_eq(text_at(list, 0, "to"), "withdrawn");
	cr_assert_str_eq(text_at(list, 1, "why"), "all checks are up");
	cr_assert_eq(number_at(list, 0, "time"), 1.5);
	json_decref(list);
}

Test(history, drops_the_oldest_when_full)
{
	for (int i = 0; i < HISTORY_LENGTH + 3; i++) {
		add(i, "a", "b", "");
	}
	json_t *list = history_json(history, true);
	cr_assert_eq(json_array_size(list), HISTORY_LENGTH);
	cr_assert_eq(number_at(list, 0, "time"), 3);
	cr_assert_eq(number_at(list, HISTORY_LENGTH - 1, "time"), HISTORY_LENGTH + 2);
	json_decref(list);
}

Test(history, cuts_long_texts_between_characters)
{
	char why[1001] = "";
	for (int i = 0; i < 500; i++) {
		strcat(why, "\xc3\xa9");
	}
	add(1, "a", "b", why);
	add(2, "a", "b", "\xff not UTF-8\tand\n");
	json_t *list = history_json(history, true);
	cr_assert_eq(json_array_size(list), 2);
	cr_assert_gt(strlen(text_at(list, 0, "why")), 100);
	cr_assert_str_eq(text_at(list, 1, "why"), "? not UTF-8\tand\n");
	json_decref(list);
}

Test(history, the_output_of_a_command_is_not_for_everybody)
{
	history_add(history, 1,
		&(struct transition){ .component = "c",
			.subject = "check a",
			.from = "up",
			.to = "down",
			.why = "exit status 1",
			.output = "secret" });
	json_t *all = history_json(history, true);
	json_t *some = history_json(history, false);
	cr_assert_str_eq(text_at(all, 0, "output"), "secret");
	cr_assert_null(text_at(some, 0, "output"));
	cr_assert_str_eq(text_at(some, 0, "component"), "c");
	json_decref(all);
	json_decref(some);
}

Test(history, a_repeated_retry_is_one_entry_with_a_count)
{
	for (unsigned i = 1; i <= 5; i++) {
		cr_expect_eq(retry(10 * i, "failed", "writing", "again"), i);
		cr_expect_eq(retry(10 * i + 1, "writing", "failed", "NoPathPermissions"), i);
	}
	cr_expect_eq(retry(60, "writing", "failed", "Timeout"), 1);
	json_t *list = history_json(history, true);
	cr_assert_eq(json_array_size(list), 3);
	cr_expect_eq(number_at(list, 1, "time"), 51);
	cr_expect_eq(number_at(list, 1, "first"), 11);
	cr_expect_eq(number_at(list, 1, "count"), 5);
	cr_expect_null(json_object_get(json_array_get(list, 2), "count"));
	json_decref(list);
}

Test(history, a_repeated_retry_is_new_once)
{
	retry(1, "failed", "writing", "again");
	retry(2, "writing", "failed", "Timeout");
	uint64_t seen = history_last(history);
	for (int i = 3; i < 9; i += 2) {
		retry(i, "failed", "writing", "again");
		retry(i + 1, "writing", "failed", "Timeout");
	}
	json_t *fresh = history_json_after(history, seen, true);
	cr_assert_eq(json_array_size(fresh), 2);
	cr_expect_str_eq(text_at(fresh, 0, "to"), "writing");
	cr_expect_eq(number_at(fresh, 1, "count"), 4);
	json_decref(fresh);
	fresh = history_json_after(history, history_last(history), true);
	cr_expect_eq(json_array_size(fresh), 0);
	json_decref(fresh);
}

Test(history, attempts_are_one_entry_with_the_last_reason)
{
	retry(1, "connecting", "connecting", "refused, attempt 1");
	retry(2, "connecting", "connecting", "unreachable, attempt 2");
	cr_expect_eq(retry(3, "connecting", "connecting", "refused, attempt 3"), 3);
	json_t *list = history_json(history, true);
	cr_assert_eq(json_array_size(list), 1);
	cr_expect_str_eq(text_at(list, 0, "why"), "refused, attempt 3");
	json_decref(list);
}

Test(history, a_retry_of_another_is_not_a_repetition)
{
	const struct transition other = {
		.subject = "db", .from = "a", .to = "b", .why = "again", .retry = true
	};
	cr_expect_eq(retry(1, "a", "b", "again"), 1);
	cr_expect_eq(history_add(history, 2, &other), 1);
	cr_expect_eq(history_add(history, 3, &other), 2);
	for (int i = 0; i < 3; i++) { /* transitions of others do not count as its own */
		cr_expect_eq(add(4, "x", "y", ""), 1);
		cr_expect_eq(history_add(history, 5, &other), 3 + (unsigned)i);
	}
	json_t *list = history_json(history, true);
	cr_assert_eq(json_array_size(list), 5);
	cr_expect_str_eq(text_at(list, 0, "subject"), "web");
	cr_expect_str_eq(text_at(list, 4, "subject"), "db");
	json_decref(list);
}

Test(history, a_retry_repeats_one_of_the_last_two)
{
	retry(1, "a", "b", "x");
	retry(2, "b", "c", "x");
	cr_expect_eq(retry(3, "a", "b", "x"), 2);
	retry(4, "c", "d", "x");
	cr_expect_eq(retry(5, "b", "c", "x"), 1, "two others came after it");
}

Test(history, only_retries_are_merged)
{
	for (int i = 0; i < 4; i++) {
		cr_expect_eq(add(i, "up", "down", "exit status 1"), 1);
	}
	json_t *list = history_json(history, true);
	cr_assert_eq(json_array_size(list), 4);
	json_decref(list);
}

Test(history, takes_up_what_was_saved_before_what_is_there)
{
	retry(1, "a", "b", "old");
	retry(2, "a", "b", "old");
	json_t *saved = history_json(history, true);
	json_array_append_new(saved, json_string("not a transition"));
	json_array_append_new(saved, json_pack("{s:i}", "time", 1));
	history_destroy(history);
	history = history_create();
	add(3, "", "started", "new");
	history_load(history, saved);
	json_t *list = history_json(history, true);
	cr_assert_eq(json_array_size(list), 2);
	cr_assert(json_equal(json_array_get(list, 0), json_array_get(saved, 0)));
	cr_assert_str_eq(text_at(list, 1, "why"), "new");
	char *text = history_text(history);
	cr_assert_not_null(strstr(text, "\"new\"}]"), "%s", text);
	free(text);
	json_decref(list);
	json_decref(saved);
}

static void check_text(void)
{
	json_t *list = history_json(history, true);
	char *expected = json_dumps(list, JSON_COMPACT);
	char *text = history_text(history);
	cr_expect_str_eq(text, expected);
	free(text);
	free(expected);
	json_decref(list);
}

Test(history, its_text_is_that_of_its_json_after_each_change)
{
	check_text();
	for (int i = 0; i < HISTORY_LENGTH + 2; i++) {
		add(i, "a", "b", "\"quoted\"");
		check_text();
	}
	retry(1, "b", "failed", "again");
	check_text();
	retry(2, "b", "failed", "again");
	check_text();
}

Test(history, each_text_has_a_length_at_which_it_is_cut)
{
	static const struct {
		const char *name;
		size_t len;
	} cases[] = { { "subject", 127 }, { "from", 31 }, { "to", 31 }, { "why", 319 },
		{ "component", 127 }, { "output", 255 } };
	char text[400];
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	history_add(history, 1,
		&(struct transition){ .subject = text,
			.from = text,
			.to = text,
			.why = text,
			.component = text,
			.output = text });
	json_t *list = history_json(history, true);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cr_expect_eq(
			strlen(text_at(list, 0, cases[i].name)), cases[i].len, "%s", cases[i].name);
	}
	json_decref(list);
}

Test(history, a_saved_repetition_is_one_of_more_than_once)
{
	static const struct {
		const char *members;
		double first, count; /* 0: not shown */
	} cases[] = {
		{ "", 0, 0 },
		{ ",\"count\":1,\"first\":3", 0, 0 },
		{ ",\"count\":0,\"first\":3", 0, 0 },
		{ ",\"count\":-2,\"first\":3", 0, 0 },
		{ ",\"count\":2,\"first\":3", 3, 2 },
		{ ",\"count\":2", 0, 2 },
		{ ",\"count\":4294967295,\"first\":3", 3, 4294967295. },
		{ ",\"count\":4294967296,\"first\":3", 0, 0 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[200];
		snprintf(text, sizeof(text),
			"[{\"time\":5,\"subject\":\"s\",\"from\":\"a\",\"to\":\"b\","
			"\"why\":\"\"%s}]",
			cases[i].members);
		json_t *saved = json_loads(text, 0, NULL);
		history_destroy(history);
		history = history_create();
		history_load(history, saved);
		json_t *list = history_json(history, true);
		cr_expect_eq(number_at(list, 0, "first"), cases[i].first, "%s", text);
		cr_expect_eq(number_at(list, 0, "count"), cases[i].count, "%s", text);
		cr_expect_null(json_object_get(json_array_get(list, 0), "output"));
		json_decref(list);
		json_decref(saved);
	}
}

Test(history, outputs_outlast_a_load)
{
	history_add(history, 1,
		&(struct transition){
			.subject = "s", .from = "a", .to = "b", .why = "", .output = "secret" });
	json_t *none = json_array();
	history_load(history, none);
	json_t *list = history_json(history, true);
	cr_expect_str_eq(text_at(list, 0, "output"), "secret");
	json_decref(list);
	json_decref(none);
}
