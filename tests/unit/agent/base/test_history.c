#include <criterion/criterion.h>

#include <string.h>

#include "agent/base/history.h"

static const char *text_at(const json_t *list, size_t index, const char *name)
{
	return json_string_value(json_object_get(json_array_get(list, index), name));
}

Test(history, keeps_transitions_in_order)
{
	struct history *history = history_create();
	history_add(history, 1.5, "web", "registered", "withdrawn", "check http failed");
	history_add(history, 2.5, "web", "withdrawn", "registered", "all checks are up");
	json_t *list = history_json(history);
	cr_assert_eq(json_array_size(list), 2);
	cr_assert_str_eq(text_at(list, 0, "to"), "withdrawn");
	cr_assert_str_eq(text_at(list, 1, "why"), "all checks are up");
	cr_assert_eq(json_real_value(json_object_get(json_array_get(list, 0), "time")), 1.5);
	json_decref(list);
	history_destroy(history);
}

Test(history, drops_the_oldest_when_full)
{
	struct history *history = history_create();
	for (int i = 0; i < HISTORY_LENGTH + 3; i++) {
		history_add(history, i, "web", "a", "b", "");
	}
	json_t *list = history_json(history);
	cr_assert_eq(json_array_size(list), HISTORY_LENGTH);
	cr_assert_eq(json_real_value(json_object_get(json_array_get(list, 0), "time")), 3);
	json_decref(list);
	history_destroy(history);
}

Test(history, cuts_long_texts_between_characters)
{
	char why[1001] = "";
	for (int i = 0; i < 500; i++) {
		strcat(why, "\xc3\xa9");
	}
	struct history *history = history_create();
	history_add(history, 1, "web", "a", "b", why);
	history_add(history, 2, "web", "a", "b", "\xff not UTF-8");
	json_t *list = history_json(history);
	cr_assert_eq(json_array_size(list), 2);
	cr_assert_gt(strlen(text_at(list, 0, "why")), 100);
	cr_assert_not_null(text_at(list, 1, "why"));
	json_decref(list);
	history_destroy(history);
}

Test(history, takes_up_what_was_saved_before_what_is_there)
{
	struct history *before = history_create();
	history_add(before, 1, "web", "a", "b", "old");
	json_t *saved = history_json(before);
	json_array_append_new(saved, json_string("not a transition"));
	struct history *after = history_create();
	history_add(after, 2, "agent", "", "started", "new");
	history_load(after, saved);
	json_t *list = history_json(after);
	cr_assert_eq(json_array_size(list), 2);
	cr_assert_str_eq(text_at(list, 0, "why"), "old");
	cr_assert_str_eq(text_at(list, 1, "why"), "new");
	json_decref(list);
	json_decref(saved);
	history_destroy(before);
	history_destroy(after);
}
