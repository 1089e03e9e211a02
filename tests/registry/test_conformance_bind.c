/* mknode and bind, which every backend must carry out alike. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "tests/support/registry_stage.h"

#define RECORD "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"one\"}"
#define OTHER "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"two\"}"

/* ---- mknode ---- */

EVERY_BACKEND(mknode, makes_a_node_without_record)
{
	struct answer answer = { 0 };
	client_mknode(stage->registry, "/users", false, &answer);
	assert_answer(&answer, "OK");
	client_get(stage->registry, "/users", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.data_len, 0);
	answer_clear(&answer);
}

EVERY_BACKEND(mknode, twice_is_no_error)
{
	struct answer answer = { 0 };
	stage_put(stage, "/users", RECORD);
	client_mknode(stage->registry, "/users", false, &answer);
	assert_answer(&answer, "OK");
	client_get(stage->registry, "/users", &answer);
	cr_assert_str_eq(answer.data, RECORD);
	answer_clear(&answer);
}

EVERY_BACKEND(mknode, twice_with_parents_is_no_error)
{
	struct answer answer = { 0 };
	client_mknode(stage->registry, "/users/joe", true, &answer);
	assert_answer(&answer, "OK");
	client_mknode(stage->registry, "/users/joe", true, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
}

EVERY_BACKEND(mknode, without_parent_is_refused)
{
	struct answer answer = { 0 };
	client_mknode(stage->registry, "/users/joe", false, &answer);
	assert_answer(&answer, "PathNotFound");
	cr_assert_not(stage_has(stage->registry, "/users"));
	answer_clear(&answer);
}

EVERY_BACKEND(mknode, with_parents_makes_all_of_them)
{
	struct answer answer = { 0 };
	client_mknode(stage->registry, "/users/joe/web/one/components", true, &answer);
	assert_answer(&answer, "OK");
	client_list(stage->registry, "/users/joe/web/one", &answer);
	cr_assert_str_eq(answer_children(&answer), "/users/joe/web/one/components");
	answer_clear(&answer);
}

EVERY_BACKEND(mknode, the_root_is_there)
{
	struct answer answer = { 0 };
	client_mknode(stage->registry, "/", true, &answer);
	assert_answer(&answer, "OK");
	client_mknode(stage->registry, "/", false, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
}

/* ---- bind ---- */

EVERY_BACKEND(bind, needs_its_parent)
{
	struct answer answer = { 0 };
	static const enum registry_bind_mode modes[] = { REGISTRY_BIND_CREATE,
		REGISTRY_BIND_OVERWRITE };
	for (size_t i = 0; i < 2 * ARRAY_LEN(modes); i++) {
		const struct registry_bind bind = { .data = RECORD,
			.len = strlen(RECORD),
			.mode = modes[i / 2],
			.ephemeral = i % 2 };
		client_bind(stage->registry, "/users/joe", &bind, &answer);
		assert_answer(&answer, "PathNotFound");
		cr_assert_str_eq(answer.err.msg, "/users/joe: its parent does not exist");
		cr_assert_not(stage_has(stage->registry, "/users"));
	}
	answer_clear(&answer);
}

EVERY_BACKEND(bind, makes_missing_parents_when_asked)
{
	struct answer answer = { 0 };
	client_put(stage->registry, "/users/joe/web/one/components/c1", RECORD,
		REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "OK");
	client_resolve(stage->registry, "/users/joe/web/one/components/c1", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer.data, RECORD);
	client_stat(stage->registry, "/users/joe", &answer);
	cr_assert_not(answer.stat.ephemeral);
	answer_clear(&answer);
}

EVERY_BACKEND(bind, create_refuses_an_existing_node_and_leaves_it)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/web", RECORD);
	client_put(stage->registry, "/services/web", OTHER, REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	client_get(stage->registry, "/services/web", &answer);
	cr_assert_str_eq(answer.data, RECORD);
	answer_clear(&answer);
}

EVERY_BACKEND(bind, overwrite_sets_the_data_in_place)
{
	struct answer answer = { 0 };
	struct registry_stat before = stage_put(stage, "/services/web", RECORD);
	client_put(
		stage->registry, "/services/web", OTHER, REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.stat.node_id, before.node_id);
	cr_assert_neq(answer.stat.version, before.version);
	client_get(stage->registry, "/services/web", &answer);
	cr_assert_str_eq(answer.data, OTHER);
	answer_clear(&answer);
}

EVERY_BACKEND(bind, overwrite_keeps_children)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/web/below", RECORD);
	stage_put(stage, "/services/web", OTHER);
	client_list(stage->registry, "/services/web", &answer);
	cr_assert_str_eq(answer_children(&answer), "/services/web/below");
	answer_clear(&answer);
}

EVERY_BACKEND(bind, the_answer_tells_the_node_as_written)
{
	struct answer answer = { 0 };
	client_put(stage->registry, "/services/web", RECORD, REGISTRY_BIND_CREATE, true, &answer);
	struct registry_stat written = answer.stat;
	client_stat(stage->registry, "/services/web", &answer);
	cr_assert_eq(written.node_id, answer.stat.node_id);
	cr_assert_eq(written.version, answer.stat.version);
	cr_assert(written.ephemeral && written.own);
	cr_assert_eq(written.size, strlen(RECORD));
	client_put(stage->registry, "/services/web", OTHER, REGISTRY_BIND_OVERWRITE, true, &answer);
	written = answer.stat;
	client_stat(stage->registry, "/services/web", &answer);
	cr_assert_eq(written.node_id, answer.stat.node_id);
	cr_assert_eq(written.version, answer.stat.version);
	answer_clear(&answer);
}

EVERY_BACKEND(bind, the_root_is_refused)
{
	struct answer answer = { 0 };
	client_put(stage->registry, "/", RECORD, REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "InvalidPathname");
	answer_clear(&answer);
}

EVERY_BACKEND(bind, an_ephemeral_node_vanishes_with_its_session)
{
	struct answer answer = { 0 };
	struct registry *other = stage_client(stage);
	client_put(other, "/services/web", RECORD, REGISTRY_BIND_CREATE, true, &answer);
	assert_answer(&answer, "OK");
	client_stat(stage->registry, "/services/web", &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.stat.ephemeral);
	cr_assert_not(answer.stat.own);
	stage_client_end(stage, other);
	cr_assert_not(stage_has(stage->registry, "/services/web"));
	cr_assert(stage_has(stage->registry, "/services"));
	answer_clear(&answer);
}

EVERY_BACKEND(bind, a_persistent_node_outlives_its_session)
{
	struct answer answer = { 0 };
	struct registry *other = stage_client(stage);
	client_put(other, "/services/web", RECORD, REGISTRY_BIND_CREATE, false, &answer);
	stage_client_end(stage, other);
	cr_assert(stage_has(stage->registry, "/services/web"));
	answer_clear(&answer);
}

EVERY_BACKEND(bind, an_ephemeral_node_has_no_children)
{
	struct answer answer = { 0 };
	client_put(stage->registry, "/services/web", RECORD, REGISTRY_BIND_CREATE, true, &answer);
	client_put(stage->registry, "/services/web/below", RECORD, REGISTRY_BIND_CREATE, false,
		&answer);
	assert_answer(&answer, "NoChildrenForEphemerals");
	client_mknode(stage->registry, "/services/web/a/b", true, &answer);
	assert_answer(&answer, "NoChildrenForEphemerals");
	answer_clear(&answer);
}

EVERY_BACKEND(bind, an_ephemeral_record_replaces_no_node_with_children)
{
	struct answer answer = { 0 };
	stage_put(stage, "/services/web/below", RECORD);
	client_put(
		stage->registry, "/services/web", RECORD, REGISTRY_BIND_OVERWRITE, true, &answer);
	assert_answer(&answer, "NoChildrenForEphemerals");
	cr_assert(stage_has(stage->registry, "/services/web/below"));
	answer_clear(&answer);
}

EVERY_BACKEND(bind, overwriting_changes_the_kind_of_a_node)
{
	struct answer answer = { 0 };
	struct registry *other = stage_client(stage);
	struct registry_stat before = stage_put(stage, "/services/web", RECORD);
	client_put(other, "/services/web", OTHER, REGISTRY_BIND_OVERWRITE, true, &answer);
	assert_answer(&answer, "OK");
	cr_assert_neq(answer.stat.node_id, before.node_id);
	client_get(stage->registry, "/services/web", &answer);
	cr_assert_str_eq(answer.data, OTHER);
	cr_assert(answer.stat.ephemeral && !answer.stat.own);
	/* Takes it over: it now lives as long as this session. */
	client_put(
		stage->registry, "/services/web", RECORD, REGISTRY_BIND_OVERWRITE, true, &answer);
	assert_answer(&answer, "OK");
	stage_client_end(stage, other);
	client_get(stage->registry, "/services/web", &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.stat.own);
	stage_put(stage, "/services/web", OTHER);
	client_get(stage->registry, "/services/web", &answer);
	cr_assert_not(answer.stat.ephemeral);
	answer_clear(&answer);
}

static void replace(struct registry *registry, const struct registry_stat *expected, bool ephemeral,
	struct answer *answer)
{
	const struct registry_bind bind = { .data = OTHER,
		.len = strlen(OTHER),
		.mode = REGISTRY_BIND_REPLACE,
		.ephemeral = ephemeral,
		.expected = *expected };
	client_bind(registry, "/services/web", &bind, answer);
}

EVERY_BACKEND(bind, replace_writes_only_over_the_expected_version)
{
	struct answer answer = { 0 };
	struct registry_stat old = stage_put(stage, "/services/web", RECORD);
	struct registry_stat now = stage_put(stage, "/services/web", RECORD " ");
	replace(stage->registry, &old, false, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	replace(stage->registry, &old, true, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	replace(stage->registry, &now, false, &answer);
	assert_answer(&answer, "OK");
	now = answer.stat;
	replace(stage->registry, &now, true, &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.stat.own);
	answer_clear(&answer);
}

EVERY_BACKEND(bind, replace_of_nothing_is_refused)
{
	struct answer answer = { 0 };
	struct registry_stat gone = stage_put(stage, "/services/web", RECORD);
	client_delete(stage->registry, "/services/web", REGISTRY_DELETE_NODE, NULL, &answer);
	replace(stage->registry, &gone, false, &answer);
	assert_answer(&answer, "PathNotFound");
	cr_assert_not(stage_has(stage->registry, "/services/web"));
	/* A new node at the same path is another node. */
	stage_put(stage, "/services/web", RECORD);
	replace(stage->registry, &gone, false, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	answer_clear(&answer);
}

static void bind_sized(struct stage *stage, size_t len, struct answer *answer)
{
	char *data = malloc(len + 1);
	memset(data, 'x', len);
	data[len] = '\0';
	const struct registry_bind bind = { .data = data, .len = len };
	client_bind(stage->registry, "/large", &bind, answer);
	free(data);
}

EVERY_BACKEND(bind, a_record_as_large_as_allowed_is_written)
{
	struct answer answer = { 0 };
	bind_sized(stage, LIMIT_RECORD_BYTES, &answer);
	assert_answer(&answer, "OK");
	client_get(stage->registry, "/large", &answer);
	cr_assert_eq(answer.data_len, LIMIT_RECORD_BYTES);
	answer_clear(&answer);
}

EVERY_BACKEND(bind, a_larger_record_is_refused_without_sending_it)
{
	struct answer answer = { 0 };
	bind_sized(stage, LIMIT_RECORD_BYTES + 1, &answer);
	assert_answer(&answer, "LimitExceeded");
	bind_sized(stage, 8 * 1024 * 1024, &answer);
	assert_answer(&answer, "LimitExceeded");
	cr_assert_not(stage_has(stage->registry, "/large"));
	answer_clear(&answer);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
