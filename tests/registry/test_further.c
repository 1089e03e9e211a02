/* Registries whose root is another path here, that hide one, and in memory; on every backend. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/registry_fixed.h"
#include "tests/support/registry_stage.h"

#define AT "/net/other"
#define RECORD "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"one\"}"
#define OTHER "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"two\"}"

static bool holds_other(void *context)
{
	const struct answer *seen = context;
	return seen->data && strcmp(seen->data, OTHER) == 0;
}

static bool is_absent(void *context)
{
	const struct answer *seen = context;
	return seen->calls > 0 && seen->err.code == BERTH_PATH_NOT_FOUND;
}

static bool has_two(void *context)
{
	const struct answer *seen = context;
	return seen->children_count == 2;
}

/* ---- at ---- */

EVERY_BACKEND(further, paths_begin_with_that_of_the_root)
{
	struct registry *other = stage_client_with(stage, (struct registry_options){ .at = AT });
	struct answer answer = { 0 };
	stage_put(stage, "/services", "");
	stage_put(stage, "/services/a", RECORD);
	client_list(other, AT, &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), AT "/services");
	client_stat(other, AT, &answer);
	cr_assert_eq(answer.stat.children, 1);
	client_resolve(other, AT "/services/a", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer.data, RECORD);
	client_records(other, AT "/services", &answer);
	cr_assert(json_object_get(answer.records, AT "/services/a"));
	const struct registry_criteria one = { .under = AT, .id = "one" };
	client_find(other, &one, &answer);
	cr_assert_eq(json_object_size(answer.records), 1);
	cr_assert(json_object_get(answer.records, AT "/services/a"));
	client_get(other, AT "/services/b", &answer);
	assert_answer(&answer, "PathNotFound");
	client_confirm(other, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
	client_close(other);
}

EVERY_BACKEND(further, no_path_is_outside_of_it)
{
	struct registry *other = stage_client_with(stage, (struct registry_options){ .at = AT });
	static const char *const outside[] = { "/", "/net", "/services", "/net/others",
		"/net/oth" };
	struct answer answer = { 0 };
	stage_put(stage, "/services", RECORD);
	for (size_t i = 0; i < ARRAY_LEN(outside); i++) {
		client_get(other, outside[i], &answer);
		assert_answer(&answer, "PathNotFound");
		struct answer seen = { 0 };
		struct registry_watch *watch = registry_watch(
			other, outside[i], REGISTRY_WATCH_DATA, answer_take, &seen);
		client_wait_calls(&seen, 1);
		assert_answer(&seen, "PathNotFound");
		registry_unwatch(watch);
		answer_clear(&seen);
	}
	answer_clear(&answer);
	client_close(other);
}

EVERY_BACKEND(further, its_watches_hear_of_changes)
{
	struct registry *other = stage_client_with(stage, (struct registry_options){ .at = AT });
	struct answer top = { 0 };
	struct answer data = { 0 };
	stage_put(stage, "/services", RECORD);
	struct registry_watch *list = registry_watch(
		other, AT, REGISTRY_WATCH_CHILDREN, answer_take, &top);
	struct registry_watch *watch = registry_watch(
		other, AT "/services", REGISTRY_WATCH_DATA, answer_take, &data);
	client_wait_calls(&top, 1);
	client_wait_calls(&data, 1);
	cr_assert_str_eq(answer_children(&top), AT "/services");
	stage_put(stage, "/services", OTHER);
	client_wait(holds_other, &data);
	stage_put(stage, "/users", "");
	client_wait(has_two, &top);
	cr_assert_str_eq(answer_children(&top), AT "/services " AT "/users");
	struct answer answer = { 0 };
	client_delete(stage->registry, "/services", REGISTRY_DELETE_NODE, NULL, &answer);
	client_wait(is_absent, &data);
	registry_unwatch(watch);
	registry_unwatch(list);
	answer_clear(&top);
	answer_clear(&data);
	answer_clear(&answer);
	client_close(other);
}

static struct registry *with_import(struct stage *stage)
{
	struct registry *other = stage_client_with(
		stage, (struct registry_options){ .at = AT, .foreign_paths = true });
	const struct registry_import import = {
		.type = DIALECT_NERVE, .from = "/further-group", .as = AT "/imported/web"
	};
	struct err err = ERR_INIT;
	cr_assert_eq(registry_set_imports(other, &import, 1, &err), 0, "%s", err.msg);
	return other;
}

EVERY_BACKEND(further, an_import_can_be_in_it)
{
	struct registry *other = with_import(stage);
	struct registry *writer = stage_client_with(
		stage, (struct registry_options){ .foreign_paths = true });
	struct answer answer = { 0 };
	struct answer seen = { 0 };
	client_delete(writer, "//further-group", REGISTRY_DELETE_TREE, NULL, &answer);
	struct registry_watch *watch = registry_watch(
		other, AT "/imported/web/m1", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait(is_absent, &seen);
	client_mknode(writer, "//further-group", true, &answer);
	assert_answer(&answer, "OK");
	client_put(writer, "//further-group/m1", "{\"host\":\"10.0.0.1\",\"port\":80}",
		REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "OK");
	client_wait_calls(&seen, seen.calls + 1);
	client_list(other, AT, &answer);
	cr_assert_not_null(strstr(answer_children(&answer), AT "/imported"));
	client_list(other, AT "/imported/web", &answer);
	cr_assert_str_eq(answer_children(&answer), AT "/imported/web/m1");
	client_resolve(other, AT "/imported/web/m1", &answer);
	assert_answer(&answer, "OK");
	client_delete(writer, "//further-group", REGISTRY_DELETE_TREE, NULL, &answer);
	registry_unwatch(watch);
	answer_clear(&answer);
	answer_clear(&seen);
	client_close(writer);
	client_close(other);
}

/* ---- hidden ---- */

EVERY_BACKEND(further, what_is_hidden_is_not_there)
{
	struct registry *blind = stage_client_with(
		stage, (struct registry_options){ .hidden = "/net" });
	struct answer answer = { 0 };
	stage_put(stage, "/net", RECORD);
	stage_put(stage, "/net/a", RECORD);
	stage_put(stage, "/network", RECORD);
	client_list(blind, "/", &answer);
	cr_assert_str_eq(answer_children(&answer), "/network");
	client_stat(blind, "/", &answer);
	cr_assert_eq(answer.stat.children, 1);
	client_get(blind, "/net", &answer);
	assert_answer(&answer, "PathNotFound");
	client_get(blind, "/net/a", &answer);
	assert_answer(&answer, "PathNotFound");
	const struct registry_criteria all = { .under = "/" };
	client_find(blind, &all, &answer);
	cr_assert_eq(json_object_size(answer.records), 1);
	client_put(blind, "/net/b", RECORD, REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "NoPathPermissions");
	client_delete(blind, "/net/a", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "NoPathPermissions");
	cr_assert(stage_has(stage->registry, "/net/a"));
	answer_clear(&answer);
	client_close(blind);
}

EVERY_BACKEND(further, a_hidden_node_that_comes_is_not_seen)
{
	struct registry *blind = stage_client_with(
		stage, (struct registry_options){ .hidden = "/net" });
	struct answer top = { 0 };
	struct registry_watch *watch = registry_watch(
		blind, "/", REGISTRY_WATCH_CHILDREN, answer_take, &top);
	client_wait_calls(&top, 1);
	stage_put(stage, "/net", RECORD);
	stage_put(stage, "/a", RECORD);
	stage_put(stage, "/b", RECORD);
	client_wait(has_two, &top);
	cr_assert_str_eq(answer_children(&top), "/a /b");
	registry_unwatch(watch);
	answer_clear(&top);
	client_close(blind);
}

/* ---- in memory ---- */

static struct registry *open_fixed(void)
{
	struct registry *registry = NULL;
	struct err err = ERR_INIT;
	const struct registry_options options = { .at = "/net" };
	cr_assert_eq(registry_open_fixed(&registry, &options, &err), 0, "%s", err.msg);
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

static void set(struct registry *registry, const char *first, const char *second)
{
	const char *const names[] = { first, second };
	struct err err = ERR_INIT;
	size_t count = (first ? 1 : 0) + (second ? 1 : 0);
	cr_assert_eq(registry_fixed_set(registry, names, count, &err), 0, "%s", err.msg);
}

Test(further_fixed, its_nodes_are_those_that_were_named)
{
	struct registry *registry = open_fixed();
	struct answer answer = { 0 };
	client_list(registry, "/net", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.children_count, 0);
	set(registry, "east", "west");
	client_list(registry, "/net", &answer);
	cr_assert_str_eq(answer_children(&answer), "/net/east /net/west");
	client_stat(registry, "/net", &answer);
	cr_assert_eq(answer.stat.children, 2);
	client_resolve(registry, "/net/east", &answer);
	assert_answer(&answer, "NoRecord");
	client_list(registry, "/net/east", &answer);
	cr_assert_eq(answer.children_count, 0);
	client_get(registry, "/net/north", &answer);
	assert_answer(&answer, "PathNotFound");
	client_get(registry, "/net/east/a", &answer);
	assert_answer(&answer, "PathNotFound");
	client_put(registry, "/net/north", RECORD, REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "NoPathPermissions");
	client_confirm(registry, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
	client_close(registry);
}

Test(further_fixed, watches_hear_of_names_that_come_and_go)
{
	struct registry *registry = open_fixed();
	struct answer top = { 0 };
	struct answer east = { 0 };
	struct registry_watch *list = registry_watch(
		registry, "/net", REGISTRY_WATCH_CHILDREN, answer_take, &top);
	struct registry_watch *data = registry_watch(
		registry, "/net/east", REGISTRY_WATCH_DATA, answer_take, &east);
	client_wait(is_absent, &east);
	set(registry, "north", NULL);
	set(registry, "east", "west"); /* before anybody has heard of the first */
	client_wait(has_two, &top);
	cr_assert_str_eq(answer_children(&top), "/net/east /net/west");
	client_wait_calls(&east, 2);
	assert_answer(&east, "OK");
	set(registry, NULL, NULL);
	client_wait(is_absent, &east);
	registry_unwatch(data);
	registry_unwatch(list);
	answer_clear(&top);
	answer_clear(&east);
	client_close(registry);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
