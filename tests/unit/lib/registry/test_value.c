/* Values: what was read of a node, shared by those who need it. */
#include "lib/base/array.h"
#include "lib/registry/value.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lib/registry/internal.h"

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
