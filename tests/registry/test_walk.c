/* Requests that visit many nodes, on every backend: records, find, purge, and deleting trees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/registry_stage.h"

#define API "http://internal.example.org/restapis/one"

static void put(struct stage *stage, const char *path, const char *data)
{
	struct answer answer = { 0 };
	client_put(stage->registry, path, data, REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
}

static void put_record(
	struct stage *stage, const char *path, const char *id, const char *persistence)
{
	char record[512];
	snprintf(record, sizeof(record),
		"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"%s\",\"yarn:persistence\":\"%s\"}",
		id, persistence);
	put(stage, path, record);
}

static void put_endpoint(
	struct stage *stage, const char *path, const char *api, const char *protocol)
{
	char record[512];
	snprintf(record, sizeof(record),
		"{\"type\":\"JSONServiceRecord\",\"internal\":[{\"api\":\"%s\","
		"\"protocolType\":\"%s\",\"addressType\":\"uri\","
		"\"addresses\":[{\"uri\":\"http://h:1\"}]}]}",
		api, protocol);
	put(stage, path, record);
}

/*
 * The paths of the records in the order of the answer, which is the sorted one, separated by
 * blanks. Borrowed until the next call.
 */
static const char *paths_of(const struct answer *answer)
{
	static char text[4096];
	const char *path;
	json_t *record;
	size_t len = 0;
	text[0] = '\0';
	json_object_foreach (answer->records, path, record) {
		len += (size_t)snprintf(
			text + len, sizeof(text) - len, "%s%s", len ? " " : "", path);
	}
	return text;
}

static bool exists(struct stage *stage, const char *path)
{
	struct answer answer = { 0 };
	int code = client_stat(stage->registry, path, &answer);
	answer_clear(&answer);
	return code == 0;
}

/* ---- records ---- */

EVERY_BACKEND(records, are_those_of_direct_children)
{
	struct answer answer = { 0 };
	put_record(stage, "/services/web", "parent", "permanent");
	put_record(stage, "/services/web/a", "a", "container");
	put_record(stage, "/services/web/b", "b", "container");
	put_record(stage, "/services/web/c/below", "c", "container");
	client_records(stage->registry, "/services/web", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(paths_of(&answer), "/services/web/a /services/web/b");
	cr_assert_str_eq(json_string_value(json_object_get(
				 json_object_get(answer.records, "/services/web/b"), "yarn:id")),
		"b");
	client_records(stage->registry, "/services/web/a", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), 0);
	answer_clear(&answer);
}

/* ---- find ---- */

static void plant(struct stage *stage)
{
	put_endpoint(stage, "/services/one", API, "REST");
	put_endpoint(stage, "/services/two", API, "webui");
	put_endpoint(stage, "/services/two/below", "other", "rest");
	put_record(stage, "/users/joe/web/i/components/c1", "c1", "container");
	put_record(stage, "/users/joe/web/i/components/c2", "c1", "application");
	put(stage, "/users/joe/notes", "no record");
}

static const char *find(struct stage *stage, struct registry_criteria criteria)
{
	static char found[4096];
	struct answer answer = { 0 };
	client_find(stage->registry, &criteria, &answer);
	assert_answer(&answer, "OK");
	snprintf(found, sizeof(found), "%s", paths_of(&answer));
	answer_clear(&answer);
	return found;
}

EVERY_BACKEND(find, by_each_criterion)
{
	plant(stage);
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .api = API }),
		"/services/one /services/two");
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .protocol = "rest" }),
		"/services/one /services/two/below");
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .api = API, .protocol = "rest" }),
		"/services/one");
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .id = "c1" }),
		"/users/joe/web/i/components/c1 /users/joe/web/i/components/c2");
	cr_assert_str_eq(
		find(stage, (struct registry_criteria){ .id = "c1", .persistence = "container" }),
		"/users/joe/web/i/components/c1");
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .id = "c" }), "");
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .api = API "/" }), "");
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .type = "none" }), "");
}

EVERY_BACKEND(find, without_criteria_finds_all_records_under_a_path)
{
	plant(stage);
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .under = "/services" }),
		"/services/one /services/two /services/two/below");
	cr_assert_str_eq(find(stage, (struct registry_criteria){ .under = "/services/two" }),
		"/services/two /services/two/below");
	cr_assert_str_eq(find(stage,
				 (struct registry_criteria){
					 .under = "/users", .type = "JSONServiceRecord" }),
		"/users/joe/web/i/components/c1 /users/joe/web/i/components/c2");
}

EVERY_BACKEND(find, under_a_missing_path_is_not_found)
{
	struct answer answer = { 0 };
	const struct registry_criteria criteria = { .under = "/missing" };
	client_find(stage->registry, &criteria, &answer);
	assert_answer(&answer, "PathNotFound");
	answer_clear(&answer);
}

static size_t progress_calls;
static size_t progress_visited;

static void on_progress(void *context, size_t visited, size_t matches)
{
	(void)context;
	cr_assert_gt(visited, progress_visited);
	cr_assert_leq(matches, visited);
	progress_visited = visited;
	progress_calls++;
}

static void count_progress(void *context, size_t visited, size_t matches)
{
	(void)context;
	(void)visited;
	(void)matches;
	progress_calls++;
}

EVERY_BACKEND(find, tells_progress_now_and_then)
{
	struct answer answer = { 0 };
	const struct registry_criteria criteria = { .id = "x" };
	char path[64];
	for (size_t i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "/services/s%zu", i);
		put_record(stage, path, i % 2 ? "x" : "y", "container");
	}
	registry_find(stage->registry, &criteria, on_progress, answer_take, &answer);
	client_wait_calls(&answer, 1);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), 100);
	cr_assert_geq(progress_calls, 2);
	cr_assert_leq(progress_calls, 202 / 64);
	answer_clear(&answer);
}

EVERY_BACKEND(trees, deleting_one_tells_progress_while_it_goes_on)
{
	struct answer answer = { 0 };
	char path[64];
	for (size_t i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "/tree/t%zu", i);
		put(stage, path, "x");
	}
	progress_calls = 0;
	registry_delete(stage->registry, "/tree", REGISTRY_DELETE_TREE, NULL, count_progress,
		answer_take, &answer);
	client_wait_calls(&answer, 1);
	assert_answer(&answer, "OK");
	/* Each node is visited and deleted. */
	cr_assert_geq(progress_calls, 4);
	answer_clear(&answer);
}

EVERY_BACKEND(records, tell_progress)
{
	struct answer answer = { 0 };
	char path[64];
	for (size_t i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "/services/s%zu", i);
		put_record(stage, path, "x", "container");
	}
	progress_calls = 0;
	registry_records(stage->registry, "/services", count_progress, answer_take, &answer);
	client_wait_calls(&answer, 1);
	assert_answer(&answer, "OK");
	cr_assert_geq(progress_calls, 2);
	answer_clear(&answer);
}

struct cancelling {
	struct registry *registry;
	struct registry_request *request;
	bool cancelled;
	size_t done;
};

static void cancel_at_once(void *context, size_t visited, size_t matches)
{
	(void)visited;
	(void)matches;
	struct cancelling *cancelling = context;
	registry_cancel(cancelling->registry, cancelling->request);
	cancelling->cancelled = true;
}

static void count_done(void *context, const struct registry_result *result)
{
	(void)result;
	((struct cancelling *)context)->done++;
}

static bool is_cancelled(void *context)
{
	return ((struct cancelling *)context)->cancelled;
}

EVERY_BACKEND(find, can_be_cancelled_from_its_progress)
{
	struct answer answer = { 0 };
	struct cancelling cancelling = { .registry = stage->registry };
	const struct registry_criteria criteria = { 0 };
	char path[64];
	for (size_t i = 0; i < 150; i++) {
		snprintf(path, sizeof(path), "/services/s%zu", i);
		put_record(stage, path, "x", "container");
	}
	cancelling.request = registry_find(
		stage->registry, &criteria, cancel_at_once, count_done, &cancelling);
	client_wait(is_cancelled, &cancelling);
	/* Everything else goes on. */
	client_stat(stage->registry, "/services/s1", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(cancelling.done, 0);
	answer_clear(&answer);
}

/* ---- purge ---- */

static const struct registry_criteria container_c1 = { .id = "c1", .persistence = "container" };

EVERY_BACKEND(purge, deletes_what_matches_in_id_and_persistence)
{
	struct answer answer = { 0 };
	put_record(stage, "/services/a", "c1", "container");
	put_record(stage, "/services/b", "c2", "container");
	put_record(stage, "/services/c", "c1", "application");
	put_record(stage, "/services/d/e", "c1", "container");
	client_purge(stage->registry, &container_c1, REGISTRY_PURGE_FAIL_ON_CHILDREN, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 2);
	cr_assert_str_eq(paths_of(&answer), "/services/a /services/d/e");
	client_list(stage->registry, "/services", &answer);
	cr_assert_str_eq(answer_children(&answer), "/services/b /services/c /services/d");
	answer_clear(&answer);
}

EVERY_BACKEND(purge, of_a_wrong_id_deletes_nothing)
{
	struct answer answer = { 0 };
	put_record(stage, "/services/a", "c1", "container");
	const struct registry_criteria criteria = { .id = "c", .persistence = "container" };
	client_purge(stage->registry, &criteria, REGISTRY_PURGE_ALL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 0);
	cr_assert(exists(stage, "/services/a"));
	answer_clear(&answer);
}

EVERY_BACKEND(purge, stays_under_its_path)
{
	struct answer answer = { 0 };
	put_record(stage, "/services/a", "c1", "container");
	put_record(stage, "/others/a", "c1", "container");
	struct registry_criteria criteria = container_c1;
	criteria.under = "/services";
	client_purge(stage->registry, &criteria, REGISTRY_PURGE_ALL, &answer);
	cr_assert_eq(answer.count, 1);
	cr_assert(exists(stage, "/others/a"));
	criteria.under = "/missing";
	client_purge(stage->registry, &criteria, REGISTRY_PURGE_ALL, &answer);
	assert_answer(&answer, "PathNotFound");
	answer_clear(&answer);
}

/* A match with a child that does not match, and a match with a child that does. */
static void plant_parents(struct stage *stage)
{
	put_record(stage, "/services/a", "c1", "container");
	put_record(stage, "/services/a/live", "c2", "container");
	put_record(stage, "/services/b", "c1", "container");
	put_record(stage, "/services/b/dead", "c1", "container");
}

EVERY_BACKEND(purge, all_takes_matches_with_everything_below)
{
	struct answer answer = { 0 };
	plant_parents(stage);
	client_purge(stage->registry, &container_c1, REGISTRY_PURGE_ALL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 4);
	cr_assert_str_eq(answer_children(&answer),
		"/services/a /services/a/live /services/b /services/b/dead");
	client_list(stage->registry, "/services", &answer);
	cr_assert_eq(answer.children_count, 0);
	answer_clear(&answer);
}

EVERY_BACKEND(purge, skip_on_children_leaves_matches_that_have_some)
{
	struct answer answer = { 0 };
	plant_parents(stage);
	client_purge(stage->registry, &container_c1, REGISTRY_PURGE_SKIP_ON_CHILDREN, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 1);
	cr_assert(exists(stage, "/services/a/live"));
	cr_assert(exists(stage, "/services/b"));
	cr_assert_not(exists(stage, "/services/b/dead"));
	answer_clear(&answer);
}

EVERY_BACKEND(purge, fail_on_children_ends_at_a_match_that_has_some)
{
	struct answer answer = { 0 };
	put_record(stage, "/services/a", "c1", "container");
	put_record(stage, "/services/a/live", "c2", "container");
	client_purge(stage->registry, &container_c1, REGISTRY_PURGE_FAIL_ON_CHILDREN, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	cr_assert(exists(stage, "/services/a"));
	cr_assert(exists(stage, "/services/a/live"));
	answer_clear(&answer);
}

static void plan_purge(
	struct stage *stage, enum registry_purge_policy policy, struct answer *answer)
{
	answer_clear(answer);
	registry_purge(stage->registry, &container_c1, policy, true, NULL, answer_take, answer);
	client_wait_calls(answer, 1);
	cr_assert_eq(answer->count, 0);
}

EVERY_BACKEND(purge, a_dry_run_only_tells_what_would_be_deleted)
{
	struct answer answer = { 0 };
	plant_parents(stage);
	plan_purge(stage, REGISTRY_PURGE_ALL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(paths_of(&answer), "/services/a /services/b /services/b/dead");
	cr_assert_str_eq(answer_children(&answer),
		"/services/a /services/a/live /services/b /services/b/dead");
	plan_purge(stage, REGISTRY_PURGE_SKIP_ON_CHILDREN, &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), "/services/b/dead");
	plan_purge(stage, REGISTRY_PURGE_FAIL_ON_CHILDREN, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	cr_assert(exists(stage, "/services/a/live"));
	cr_assert(exists(stage, "/services/b/dead"));
	answer_clear(&answer);
}

EVERY_BACKEND(purge, needs_both_id_and_persistence)
{
	struct answer answer = { 0 };
	put_record(stage, "/services/a", "c1", "container");
	const struct registry_criteria criteria = { .id = "c1" };
	client_purge(stage->registry, &criteria, REGISTRY_PURGE_ALL, &answer);
	assert_answer(&answer, "Failed");
	cr_assert(exists(stage, "/services/a"));
	answer_clear(&answer);
}

EVERY_BACKEND(purge, of_one_container_among_many_takes_exactly_its_own)
{
	enum { RECORDS = 500, EVERY = 100 };
	struct answer answer = { 0 };
	char path[64];
	for (size_t i = 0; i < RECORDS; i++) {
		snprintf(path, sizeof(path), "/services/g%zu/s%zu", i % 7, i);
		put_record(stage, path, i % EVERY ? "c2" : "c1", "container");
	}
	client_purge(stage->registry, &container_c1, REGISTRY_PURGE_ALL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, RECORDS / EVERY);
	const struct registry_criteria rest = { .id = "c2" };
	client_find(stage->registry, &rest, &answer);
	cr_assert_eq(json_object_size(answer.records), RECORDS - RECORDS / EVERY);
	answer_clear(&answer);
}

/* ---- deleting trees ---- */

EVERY_BACKEND(trees, wide_and_deep_ones_are_deleted)
{
	enum { WIDE = 200, DEEP = 30 };
	struct answer answer = { 0 };
	char path[256];
	for (size_t i = 0; i < WIDE; i++) {
		snprintf(path, sizeof(path), "/tree/wide/w%zu", i);
		put(stage, path, "x");
	}
	size_t len = (size_t)snprintf(path, sizeof(path), "/tree/deep");
	for (size_t i = 0; i < DEEP; i++) {
		len += (size_t)snprintf(path + len, sizeof(path) - len, "/d%zu", i);
	}
	put(stage, path, "x");
	client_delete(stage->registry, "/tree", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 1 + 1 + WIDE + 1 + DEEP);
	cr_assert_not(exists(stage, "/tree"));
	answer_clear(&answer);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
