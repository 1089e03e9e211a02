#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "agent/component/siblings.h"

/* The component is b. The nodes beside it, and their meaning for it. */
struct row {
	char records[192];
	enum component_siblings_answer answer;
};

#define FAILING "{\"berth:health\":\"failing\"}"

static struct row rows[] = {
	{ "{}", COMPONENT_SIBLINGS_NONE },
	{ "{\"/c/b\":{}}", COMPONENT_SIBLINGS_NONE },
	{ "{\"/c/b\":" FAILING "}", COMPONENT_SIBLINGS_NONE },
	{ "{\"/c/a\":{}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/d\":{}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/d\":{\"berth:health\":\"warning\"}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/d\":{\"berth:health\":1}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/a\":" FAILING ",\"/c/b\":" FAILING "}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/b\":" FAILING ",\"/c/d\":" FAILING "}", COMPONENT_SIBLINGS_LESSER },
	{ "{\"/c/d\":" FAILING ",\"/c/e\":{}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/a\":" FAILING ",\"/c/d\":" FAILING "}", COMPONENT_SIBLINGS_SOME },
};

ParameterizedTestParameters(component_siblings, means)
{
	return cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct row *row, component_siblings, means)
{
	json_t *records = json_loads(row->records, 0, NULL);
	cr_assert_not_null(records);
	cr_expect_eq(component_siblings_judge(records, "/c/b"), row->answer, "%s", row->records);
	json_decref(records);
}

Test(component_siblings, no_records_at_all_is_nobody)
{
	cr_expect_eq(component_siblings_judge(NULL, "/c/b"), COMPONENT_SIBLINGS_NONE);
}
