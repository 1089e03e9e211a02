#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/history.h"

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
