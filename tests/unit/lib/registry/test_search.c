/* The criteria of searches, and the lists of their matches. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/search.h"

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
