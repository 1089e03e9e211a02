#include "lib/base/array.h"
#include "lib/base/json_read.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static int calls;
static int failing;

static void *allocate(size_t size)
{
	return ++calls == failing ? NULL : malloc(size);
}

/* A document is read a second time only where its first reading may have lost something. */
static const struct {
	const char *text;
	int readings;
} documents[] = {
	{ "{}", 1 },
	{ "[]", 1 },
	{ "\"\"", 1 },
	{ "{\"a\":[1,-2.5e+7,true,null]}", 1 },
	{ "{\"a\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\n\\\"\\\\\":\"\xc3\xa9\"}", 1 },
	{ "[\"\\u007f\",\"\\u0080\",\"\\u07ff\",\"\\u0800\",\"\\ud7ff\",\"\\ue000\"]", 1 },
	{ "[\"\\ud800\\udc00\",\"\\udbff\\udfff\",\"#/t\"]", 1 },
	{ "[[\"a\",{\"b\":\"c\"}],\"d\"]", 1 },
	{ " { \"a long key, longer than a token\" : \"and a long text, longer than it\" } ", 1 },
	{ "{\"a\":1,\"a\":2}", 2 },
	{ "[1234567890123]", 1 },
	{ "[-1.234567e+07]", 1 },
	{ "[12345678901234]", 2 },
	{ "[123456789012345678,1]", 2 },
};

Test(json_read, documents_are_read_as_jansson_reads_them)
{
	json_set_alloc_funcs(allocate, free);
	for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
		const char *text = documents[i].text;
		calls = 0;
		json_t *wanted = json_loads(text, JSON_DECODE_ANY, NULL);
		int of_one = calls;
		json_t *found = json_read_text(text, JSON_DECODE_ANY);
		cr_assert_not_null(wanted);
		cr_expect(json_equal(wanted, found), "%s", text);
		cr_expect_eq(calls, of_one * (1 + documents[i].readings), "%s", text);
		json_decref(wanted);
		json_decref(found);
	}
}

Test(json_read, invalid_documents_are_refused_with_the_reason)
{
	json_error_t error;
	cr_expect_null(json_read_text("{\"a\":", 0));
	cr_expect_null(json_read_text("\"\\u12", JSON_DECODE_ANY));
	cr_expect_null(json_read("[1,]", 4, 0, &error));
	cr_expect_neq(error.text[0], '\0');
}

Test(json_read, an_escape_that_is_cut_off_is_not_read_beyond_its_end)
{
	static const char text[] = "\"\\u12";
	char *cut = malloc(strlen(text)); /* AddressSanitizer knows where it ends */
	json_error_t error;
	memcpy(cut, text, strlen(text));
	cr_expect_null(json_read(cut, strlen(text), JSON_DECODE_ANY, &error));
	free(cut);
}
