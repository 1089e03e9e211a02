/* Values of nodes, matches of searches, times of confirmations. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/internal.h"
#include "lib/registry/search.h"
#include "lib/registry/value.h"
#include "lib/registry/window.h"

/* ---- value ---- */

static const struct registry_value *data_value(int code, const char *why, const char *data)
{
	struct registry_task task = { .ret_data = (char *)(uintptr_t)data,
		.ret_len = data ? strlen(data) : 0,
		.ret_stat = { .version = 3, .children = 2, .foreign = 1 } };
	if (code) {
		err_set(&task.ret_err, code, "%s", why);
	}
	return registry_value_of_data(&task);
}

static const struct registry_value *list_value(const char *first, const char *second)
{
	char *names[] = { (char *)(uintptr_t)first, (char *)(uintptr_t)second };
	const struct registry_task task = { .ret_children = names,
		.ret_children_count = (size_t)(first != NULL) + (second != NULL) };
	return registry_value_of_list("/t", &task);
}

Test(registry_value, holds_a_list_with_the_foreign_children_behind)
{
	const struct registry_value *value = list_value("b", "A");
	struct registry_result result;
	registry_value_result(value, "/t", &result);
	cr_assert_eq(result.children_count, 1);
	cr_assert_str_eq(result.children[0], "/t/b");
	cr_assert_eq(result.foreign_count, 1);
	cr_assert_str_eq(result.foreign[0], "/t/A");
	registry_value_release(value);
}

static bool same_and_free(const struct registry_value *a, const struct registry_value *b)
{
	bool same = registry_value_same(a, b);
	cr_assert_eq(registry_value_same(b, a), same);
	registry_value_release(a);
	registry_value_release(b);
	return same;
}

Test(registry_value, is_the_same_with_the_same_content)
{
	cr_assert(same_and_free(data_value(0, NULL, "a"), data_value(0, NULL, "a")));
	cr_assert_not(same_and_free(data_value(0, NULL, "a"), data_value(0, NULL, "b")));
	cr_assert_not(same_and_free(data_value(0, NULL, "a"), data_value(0, NULL, "ab")));
	cr_assert_not(same_and_free(
		data_value(BERTH_INVALID_RECORD, "a", "x"), data_value(0, NULL, "x")));
	cr_assert_not(same_and_free(data_value(BERTH_INVALID_RECORD, "a", "x"),
		data_value(BERTH_INVALID_RECORD, "b", "x")));
	cr_assert(same_and_free(list_value("a", "b"), list_value("b", "a")));
	cr_assert_not(same_and_free(list_value("a", "b"), list_value("a", "c")));
	cr_assert_not(same_and_free(list_value("a", NULL), list_value("a", "b")));
	cr_assert_not(same_and_free(list_value("a", "B"), list_value("a", "C")));
	cr_assert_not(same_and_free(list_value("a", "B"), list_value("a", "b")));
}

Test(registry_value, a_copy_of_a_result_is_the_same_value)
{
	const struct registry_value *values[] = { data_value(0, NULL, "text"),
		data_value(BERTH_INVALID_RECORD, "odd", "x"), list_value("b", "A"),
		list_value(NULL, NULL) };
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct registry_result result;
		registry_value_result(values[i], "/t", &result);
		const struct registry_value *copy = registry_value_copy(&result);
		cr_assert_neq(copy, values[i]);
		cr_assert_eq(copy->stat.version, values[i]->stat.version);
		cr_assert_geq(copy->bytes, sizeof(*copy) + copy->data_len + 1);
		cr_assert(same_and_free(copy, values[i]));
	}
}

/* ---- search ---- */

#define RECORD "{\"type\":\"JSONServiceRecord\"}"

/* ---- criteria ---- */

static bool matches(const struct registry_criteria *criteria, const char *text)
{
	struct record *record = NULL;
	cr_assert_eq(record_decode(&record, text, strlen(text), NULL), 0, "%s", text);
	bool found = registry_criteria_match(criteria, record);
	record_free(record);
	return found;
}

Test(registry_search, one_endpoint_has_both_api_and_protocol)
{
	static const char text[] =
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"one\","
		"\"protocolType\":\"rest\",\"addressType\":\"uri\",\"addresses\":[]}],"
		"\"internal\":[{\"api\":\"two\",\"protocolType\":\"webui\","
		"\"addressType\":\"uri\",\"addresses\":[]}]}";
	static const struct {
		struct registry_criteria criteria;
		bool matches;
	} cases[] = {
		{ { .api = "one" }, true },
		{ { .api = "two" }, true },
		{ { .api = "three" }, false },
		{ { .protocol = "webui" }, true },
		{ { .api = "one", .protocol = "rest" }, true },
		{ { .api = "one", .protocol = "webui" }, false },
		{ { .api = "one", .type = "JSONServiceRecord" }, true },
		{ { .api = "one", .id = "x" }, false },
		{ { .type = "another" }, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cr_assert_eq(matches(&cases[i].criteria, text), cases[i].matches, "%zu", i);
	}
	cr_assert_not(matches(&(struct registry_criteria){ .api = "one" }, RECORD));
}

Test(registry_search, a_copy_of_criteria_has_all_of_them)
{
	const struct registry_criteria criteria = { .under = "/a",
		.api = "b",
		.protocol = "c",
		.type = "d",
		.id = "e",
		.persistence = "f",
		.max_bytes = 7 };
	struct registry_criteria copy = { 0 };
	cr_assert_eq(registry_criteria_copy(&copy, &criteria), 0);
	cr_assert(strcmp(copy.under, "/a") == 0 && strcmp(copy.api, "b") == 0 &&
		strcmp(copy.protocol, "c") == 0 && strcmp(copy.type, "d") == 0 &&
		strcmp(copy.id, "e") == 0 && strcmp(copy.persistence, "f") == 0);
	cr_assert_eq(copy.max_bytes, 7);
	registry_criteria_finish(&copy);
	cr_assert_null(copy.under);
	cr_assert_eq(registry_criteria_copy(&copy, &(struct registry_criteria){ 0 }), 0);
	cr_assert_null(copy.id);
	registry_criteria_finish(&copy);
}

/* ---- matches ---- */

static struct registry_task task_with(const char *data)
{
	return (struct registry_task){ .ret_data = strdup(data), .ret_len = strlen(data) };
}

static void add_found(struct registry_matches *found, const char *path, const char *data)
{
	struct err err = ERR_INIT;
	struct registry_task task = task_with(data);
	cr_assert_eq(registry_matches_add_found(found, path, &task, 0, &err), 0, "%s", err.msg);
	cr_assert_null(task.ret_data);
}

Test(registry_search, more_bytes_than_allowed_are_an_error)
{
	struct registry_matches list = { 0 };
	struct err err = ERR_INIT;
	struct registry_task task = task_with("12345");
	cr_assert_eq(registry_matches_add_found(&list, "/a", &task, 10, &err), 0);
	task = task_with("67890");
	cr_assert_eq(registry_matches_add_found(&list, "/b", &task, 10, &err), 0);
	task = task_with("x");
	cr_assert_eq(
		registry_matches_add_found(&list, "/c", &task, 10, &err), BERTH_LIMIT_EXCEEDED);
	free(task.ret_data);
	registry_matches_finish(&list);
}

/* ---- as JSON ---- */

Test(registry_search, found_records_are_an_object)
{
	struct registry_matches list = { 0 };
	add_found(&list, "/a", RECORD);
	add_found(&list, "/b", RECORD);
	struct registry_result result = { .found = list.found, .found_count = 2 };
	json_t *json = registry_found_json(&result);
	cr_assert_eq(json_object_size(json), 2);
	cr_assert_not_null(json_object_get(json_object_get(json, "/b"), "type"));
	json_decref(json);
	list.found[1].data[0] = 'x';
	cr_assert_null(registry_found_json(&result));
	registry_matches_finish(&list);
}

enum { START_MS = 1000000 };

Test(registry_window, is_due_at_once_without_confirmations)
{
	struct registry_window window;
	registry_window_open(&window, 0, START_MS, 30000);
	cr_assert_eq(registry_window_due(&window, START_MS), 0);
}

Test(registry_window, spreads_confirmations_evenly)
{
	struct registry_window window;
	registry_window_open(&window, 100, START_MS, 30000);
	cr_assert_eq(window.length_ms, 2000);
	cr_assert_eq(registry_window_due(&window, START_MS), 1, "the first begins at once");
	cr_assert_eq(registry_window_due(&window, START_MS + 1000), 51);
	cr_assert_eq(registry_window_due(&window, START_MS + 2000), 100);
	cr_assert_eq(registry_window_due(&window, START_MS + 60000), 100);
}

Test(registry_window, names_the_time_at_which_the_next_one_is_due)
{
	struct registry_window window;
	registry_window_open(&window, 1000, START_MS, 10000);
	for (window.begun = 1; window.begun < window.count; window.begun++) {
		int64_t next_ms = registry_window_next_ms(&window);
		cr_assert_gt(registry_window_due(&window, next_ms), window.begun);
		cr_assert_lt(next_ms, START_MS + window.length_ms + 10);
	}
}

Test(registry_window, is_no_longer_than_half_of_a_session)
{
	struct registry_window window;
	registry_window_open(&window, 100000, START_MS, 6000);
	cr_assert_eq(window.length_ms, 3000);
	registry_window_open(&window, 100000, START_MS, 600000);
	cr_assert_eq(window.length_ms, 15000);
	registry_window_open(&window, 100000, START_MS, 0);
	cr_assert_eq(window.length_ms, 15000, "a registry without sessions");
}
