/* The criteria of searches, and the lists of their matches. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/search.h"
#include "tests/support/failing.h"

#define RECORD "{\"type\":\"JSONServiceRecord\"}"

enum { MANY = 100 };

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

Test(registry_search, many_matches_are_kept_and_sorted)
{
	struct registry_matches list = { 0 };
	struct err err = ERR_INIT;
	char path[32];
	for (int i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "/n%02d", (i * 37) % MANY);
		add_found(&list, path, path);
		cr_assert_eq(registry_matches_add_purged(&list, path, &err), 0);
	}
	registry_matches_sort(&list);
	cr_assert_eq(list.found_count, MANY);
	cr_assert_eq(list.purged_count, MANY);
	for (int i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "/n%02d", i);
		cr_assert_str_eq(list.found[i].path, path);
		cr_assert_str_eq(list.found[i].data, path);
		cr_assert_str_eq(list.purged[i], path);
	}
	registry_matches_finish(&list);
}

Test(registry_search, nothing_found_is_sorted_too)
{
	struct registry_matches list = { 0 };
	registry_matches_sort(&list);
	cr_assert_eq(list.found_count + list.purged_count, 0);
	registry_matches_finish(&list);
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

/* Adds many to each list; each allocation fails once, after which the item is added again. */
Test(registry_search, a_match_without_memory_is_an_error_and_can_be_added_again)
{
	struct registry_matches list = { 0 };
	while (list.found_count < MANY || list.purged_count < MANY) {
		for (uint64_t number = 1; number <= 3; number++) {
			struct err err = ERR_INIT;
			struct registry_task task = task_with("x");
			size_t before = list.found_count;
			failing_arm("alloc", number, ENOMEM);
			int code = registry_matches_add_found(&list, "/f", &task, 0, &err);
			bool failed = failing_disarm();
			cr_assert_eq(code, failed ? BERTH_FAILED : 0);
			cr_assert_eq(list.found_count, before + !failed);
			free(task.ret_data);
			before = list.purged_count;
			failing_arm("alloc", number, ENOMEM);
			code = registry_matches_add_purged(&list, "/p", &err);
			failed = failing_disarm();
			cr_assert_eq(code == 0, !failed);
			cr_assert_eq(list.purged_count, before + !failed);
		}
	}
	for (size_t i = 0; i < MANY; i++) {
		cr_assert_str_eq(list.found[i].path, "/f");
		cr_assert_str_eq(list.purged[i], "/p");
	}
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
