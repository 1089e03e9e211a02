/*
 * The operations on single nodes that every backend must carry out alike. mknode and bind are in
 * test_conformance_bind.c.
 */
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/limits.h"
#include "tests/support/registry_stage.h"

#define RECORD "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"one\"}"
#define OTHER "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"two\"}"

/* ---- confirm ---- */

EVERY_BACKEND(confirm, hears_the_server_even_where_the_root_does_not_exist)
{
	struct answer answer = { 0 };
	int64_t asked_ms = clock_monotonic_ms();
	client_confirm(stage->registry, &answer);
	assert_answer(&answer, "OK");
	int64_t heard_ms = registry_heard_ms(stage->registry, clock_monotonic_ms());
	cr_assert_geq(heard_ms, asked_ms);
	cr_assert_leq(heard_ms, clock_monotonic_ms());
	answer_clear(&answer);
}

/* ---- reading ---- */

EVERY_BACKEND(read, stat_tells_time_size_and_children)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/web", RECORD);
	stage_put(stage, "/services/web/a", RECORD);
	stage_put(stage, "/services/web/b", RECORD);
	client_stat(stage->registry, "/services/web", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.stat.size, strlen(RECORD));
	cr_assert_eq(answer.stat.children, 2);
	/* Milliseconds since 1970, and not seconds or microseconds. */
	cr_assert_gt(answer.stat.created_ms, 1500000000000LL);
	cr_assert_lt(answer.stat.created_ms, 15000000000000LL);
	cr_assert_leq(answer.stat.created_ms, answer.stat.modified_ms);
	answer_clear(&answer);
}

EVERY_BACKEND(read, list_gives_sorted_full_paths)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/b", RECORD);
	stage_put(stage, "/services/a-1", RECORD);
	stage_put(stage, "/services/a", RECORD);
	client_list(stage->registry, "/services", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), "/services/a /services/a-1 /services/b");
	cr_assert_eq(answer.stat.children, 3);
	client_list(stage->registry, "/", &answer);
	cr_assert_str_eq(answer_children(&answer), "/services");
	client_list(stage->registry, "/services/a", &answer);
	cr_assert_eq(answer.children_count, 0);
	answer_clear(&answer);
}

EVERY_BACKEND(read, a_missing_path_is_not_found_by_any_of_them)
{
	struct answer answer = { 0 };
	int (*const reads[])(struct registry *, const char *, struct answer *) = { client_get,
		client_resolve, client_stat, client_list, client_records };
	for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
		reads[i](stage->registry, "/missing", &answer);
		assert_answer(&answer, "PathNotFound");
		reads[i](stage->registry, "/missing/too", &answer);
		assert_answer(&answer, "PathNotFound");
	}
	answer_clear(&answer);
}

EVERY_BACKEND(read, an_empty_node_holds_no_record)
{
	struct answer answer = { 0 };
	client_mknode(stage->registry, "/users", false, &answer);
	client_resolve(stage->registry, "/users", &answer);
	assert_answer(&answer, "NoRecord");
	answer_clear(&answer);
}

EVERY_BACKEND(read, hostile_data_harms_only_its_own_node)
{
	struct answer answer = { 0 };
	static const struct {
		const char *path;
		const char *data;
		const char *error;
	} nodes[] = {
		{ "/services/good", RECORD, "OK" },
		{ "/services/short", "{}", "NoRecord" },
		{ "/services/text", "this is not a record at all, but long", "NoRecord" },
		{ "/services/cut", "{\"type\":\"JSONServiceRecord\",", "InvalidRecord" },
		{ "/services/other-type", "{\"type\":\"x\",\"description\":\"JSONServiceRecord\"}",
			"InvalidRecord" },
		{ "/services/array", "[\"JSONServiceRecord\"]", "InvalidRecord" },
		{ "/services/shape", "{\"type\":\"JSONServiceRecord\",\"external\":{}}",
			"InvalidRecord" },
		{ "/services/utf8", "{\"type\":\"JSONServiceRecord\",\"description\":\"\xff\xfe\"}",
			"InvalidRecord" },
	};
	size_t count = ARRAY_LEN(nodes);
	for (size_t i = 0; i < count; i++) {
		stage_put(stage, nodes[i].path, nodes[i].data);
	}
	for (size_t i = 0; i < count; i++) {
		client_resolve(stage->registry, nodes[i].path, &answer);
		assert_answer(&answer, nodes[i].error);
		cr_assert_str_eq(answer.data, nodes[i].data);
	}
	client_records(stage->registry, "/services", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), 1);
	cr_assert(json_object_get(answer.records, "/services/good"));
	answer_clear(&answer);
}

EVERY_BACKEND(read, data_is_bytes)
{
	struct answer answer = { 0 };
	static const char data[] = "a\0b\xff\r\n";
	const struct registry_bind bind = { .data = data, .len = sizeof(data) };
	client_bind(stage->registry, "/bytes", &bind, &answer);
	assert_answer(&answer, "OK");
	client_get(stage->registry, "/bytes", &answer);
	cr_assert_eq(answer.data_len, sizeof(data));
	cr_assert_arr_eq(answer.data, data, sizeof(data));
	answer_clear(&answer);
}

EVERY_BACKEND(read, a_write_of_another_client_is_seen)
{
	struct answer answer = { 0 };
	struct registry *other = stage_client(stage);
	client_put(other, "/services/web", RECORD, REGISTRY_BIND_CREATE, false, &answer);
	client_resolve(stage->registry, "/services/web", &answer);
	assert_answer(&answer, "OK");
	client_close(other);
	answer_clear(&answer);
}

/* ---- delete ---- */

EVERY_BACKEND(delete, of_nothing_is_no_error)
{
	struct answer answer = { 0 };
	client_delete(stage->registry, "/missing", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 0);
	client_delete(stage->registry, "/missing/too", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 0);
	answer_clear(&answer);
}

EVERY_BACKEND(delete, takes_a_node_away)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/web", RECORD);
	client_delete(stage->registry, "/services/web", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 1);
	cr_assert_not(stage_has(stage->registry, "/services/web"));
	cr_assert(stage_has(stage->registry, "/services"));
	answer_clear(&answer);
}

EVERY_BACKEND(delete, of_a_node_with_children_is_refused)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/web", RECORD);
	client_delete(stage->registry, "/services", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	cr_assert(stage_has(stage->registry, "/services/web"));
	answer_clear(&answer);
}

EVERY_BACKEND(delete, recursively_takes_all_below)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/a/one", RECORD);
	stage_put(stage, "/services/a/two", RECORD);
	stage_put(stage, "/services/b", RECORD);
	stage_put(stage, "/others", RECORD);
	client_delete(stage->registry, "/services", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 5);
	client_list(stage->registry, "/", &answer);
	cr_assert_str_eq(answer_children(&answer), "/others");
	answer_clear(&answer);
}

EVERY_BACKEND(delete, only_of_the_expected_version)
{
	struct answer answer = { 0 };
	for (int recursive = 0; recursive <= 1; recursive++) {
		struct registry_stat old = stage_put(stage, "/services/web", RECORD);
		struct registry_stat now = stage_put(stage, "/services/web", OTHER);
		client_delete(stage->registry, "/services/web", recursive, &old, &answer);
		assert_answer(&answer, "FileAlreadyExists");
		cr_assert(stage_has(stage->registry, "/services/web"));
		client_delete(stage->registry, "/services/web", recursive, &now, &answer);
		assert_answer(&answer, "OK");
		cr_assert_not(stage_has(stage->registry, "/services/web"));
		/* Gone is gone, in whatever version. */
		client_delete(stage->registry, "/services/web", recursive, &now, &answer);
		assert_answer(&answer, "OK");
		/* A new node, even with the same data, is not meant. */
		stage_put(stage, "/services/web", OTHER);
		client_delete(stage->registry, "/services/web", recursive, &now, &answer);
		assert_answer(&answer, "FileAlreadyExists");
		client_delete(stage->registry, "/services/web", recursive, NULL, &answer);
	}
	answer_clear(&answer);
}

EVERY_BACKEND(delete, of_the_root_is_refused)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/web", RECORD);
	for (int recursive = 0; recursive <= 1; recursive++) {
		client_delete(stage->registry, "/", recursive, NULL, &answer);
		assert_answer(&answer, "InvalidPathname");
	}
	cr_assert(stage_has(stage->registry, "/services/web"));
	answer_clear(&answer);
}

EVERY_BACKEND(delete, another_clients_ephemeral_node_can_be_deleted)
{
	struct answer answer = { 0 };
	struct registry *other = stage_client(stage);
	client_put(other, "/services/web", RECORD, REGISTRY_BIND_CREATE, true, &answer);
	client_delete(stage->registry, "/services/web", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_not(stage_has(other, "/services/web"));
	client_put(other, "/services/web", RECORD, REGISTRY_BIND_CREATE, true, &answer);
	assert_answer(&answer, "OK");
	client_close(other);
	answer_clear(&answer);
}

/* ---- withdraw ---- */

EVERY_BACKEND(withdraw, deletes_a_node_without_children)
{
	struct answer answer = { 0 };
	struct registry_stat stat = stage_put(stage, "/services/web", RECORD);
	client_withdraw(stage->registry, "/services/web", &stat, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 1);
	cr_assert_not(answer.emptied);
	cr_assert_not(stage_has(stage->registry, "/services/web"));
	client_withdraw(stage->registry, "/services/web", &stat, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 0);
	cr_assert_not(answer.emptied);
	answer_clear(&answer);
}

EVERY_BACKEND(withdraw, empties_a_node_with_children_in_place)
{
	struct answer answer = { 0 };
	struct registry_stat stat = stage_put(stage, "/services/web", RECORD);
	stage_put(stage, "/services/web/below/one", OTHER);
	client_withdraw(stage->registry, "/services/web", &stat, &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.emptied);
	cr_assert_eq(answer.count, 0);
	cr_assert_eq(answer.stat.node_id, stat.node_id);
	cr_assert_neq(answer.stat.version, stat.version);
	client_resolve(stage->registry, "/services/web", &answer);
	assert_answer(&answer, "NoRecord");
	cr_assert_eq(answer.data_len, 0);
	client_resolve(stage->registry, "/services/web/below/one", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer.data, OTHER);
	answer_clear(&answer);
}

EVERY_BACKEND(withdraw, deletes_an_emptied_node_once_its_children_are_gone)
{
	struct answer answer = { 0 };
	struct registry_stat stat = stage_put(stage, "/services/web", RECORD);
	stage_put(stage, "/services/web/below", OTHER);
	client_withdraw(stage->registry, "/services/web", &stat, &answer);
	stat = answer.stat;
	client_withdraw(stage->registry, "/services/web", &stat, &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.emptied);
	cr_assert_eq(answer.stat.version, stat.version, "a node that was empty was written");
	client_delete(stage->registry, "/services/web/below", REGISTRY_DELETE_NODE, NULL, &answer);
	client_withdraw(stage->registry, "/services/web", &stat, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 1);
	cr_assert_not(stage_has(stage->registry, "/services/web"));
	answer_clear(&answer);
}

EVERY_BACKEND(withdraw, touches_no_other_node_or_version)
{
	struct answer answer = { 0 };
	struct registry_stat old = stage_put(stage, "/services/web", RECORD);
	stage_put(stage, "/services/web", OTHER);
	client_withdraw(stage->registry, "/services/web", &old, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	stage_put(stage, "/services/web/below", RECORD);
	client_withdraw(stage->registry, "/services/web", &old, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	client_get(stage->registry, "/services/web", &answer);
	cr_assert_str_eq(answer.data, OTHER);
	answer_clear(&answer);
}

EVERY_BACKEND(withdraw, ends_an_own_ephemeral_node)
{
	struct answer answer = { 0 };
	struct registry *other = stage_client(stage);
	client_put(stage->registry, "/services/web", RECORD, REGISTRY_BIND_CREATE, true, &answer);
	struct registry_stat stat = answer.stat;
	client_withdraw(stage->registry, "/services/web", &stat, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 1);
	cr_assert_not(stage_has(other, "/services/web"));
	client_close(other);
	answer_clear(&answer);
}

EVERY_BACKEND(withdraw, never_takes_the_root)
{
	struct answer answer = { 0 };
	const struct registry_stat any = { 0 };
	client_withdraw(stage->registry, "/", &any, &answer);
	assert_answer(&answer, "InvalidPathname");
	answer_clear(&answer);
}

/* ---- paths ---- */

EVERY_BACKEND(paths, odd_ones_are_refused_by_every_operation)
{
	struct answer answer = { 0 };
	static const char *const odd[] = { "", "services", "/services/", "//services", "/a//b",
		"/a/../b", "/.", "/Services", "/%2e", "/a b", "/a\x01", "/-a", "/a-", "/_record",
		"/\xe2\x82\xac" };
	int (*const reads[])(struct registry *, const char *, struct answer *) = { client_get,
		client_resolve, client_stat, client_list, client_records };
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		for (size_t r = 0; r < ARRAY_LEN(reads); r++) {
			reads[r](stage->registry, odd[i], &answer);
			assert_answer(&answer, "InvalidPathname");
		}
		client_mknode(stage->registry, odd[i], true, &answer);
		assert_answer(&answer, "InvalidPathname");
		client_put(
			stage->registry, odd[i], RECORD, REGISTRY_BIND_OVERWRITE, false, &answer);
		assert_answer(&answer, "InvalidPathname");
		client_delete(stage->registry, odd[i], REGISTRY_DELETE_NODE, NULL, &answer);
		assert_answer(&answer, "InvalidPathname");
		client_delete(stage->registry, odd[i], REGISTRY_DELETE_TREE, NULL, &answer);
		assert_answer(&answer, "InvalidPathname");
		client_withdraw(
			stage->registry, odd[i], &(const struct registry_stat){ 0 }, &answer);
		assert_answer(&answer, "InvalidPathname");
		const struct registry_criteria criteria = {
			.under = odd[i], .id = "a", .persistence = "container"
		};
		client_find(stage->registry, &criteria, &answer);
		assert_answer(&answer, "InvalidPathname");
		client_purge(stage->registry, &criteria, REGISTRY_PURGE_ALL, &answer);
		assert_answer(&answer, "InvalidPathname");
	}
	client_list(stage->registry, "/", &answer);
	cr_assert_eq(answer.children_count, 0);
	answer_clear(&answer);
}

EVERY_BACKEND(paths, encoded_user_names_are_nodes_like_others)
{
	struct answer answer = { 0 };
	static const char *const homes[] = { "/users/xn--lzg", "/users/hbase-site",
		"/users/xn--b1akcweg3a", "/users/0", "/users/a-b-c" };
	for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
		client_mknode(stage->registry, homes[i], true, &answer);
		assert_answer(&answer, "OK");
		cr_assert(stage_has(stage->registry, homes[i]));
	}
	client_list(stage->registry, "/users", &answer);
	cr_assert_eq(answer.children_count, ARRAY_LEN(homes));
	answer_clear(&answer);
}

EVERY_BACKEND(paths, an_element_may_have_63_characters)
{
	struct answer answer = { 0 };
	char path[80] = "/";
	memset(path + 1, 'a', LIMIT_PATH_ELEMENT_BYTES);
	client_mknode(stage->registry, path, false, &answer);
	assert_answer(&answer, "OK");
	path[1 + LIMIT_PATH_ELEMENT_BYTES] = 'a';
	client_mknode(stage->registry, path, false, &answer);
	assert_answer(&answer, "InvalidPathname");
	answer_clear(&answer);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
