#include "lib/base/json_read.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(json_read, documents_are_read_as_jansson_reads_them)
{
	static const char *const texts[] = { "{}", "[]", "\"\"", "{\"a\":[1,-2.5e+7,true,null]}",
		"{\"a\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\n\\\"\\\\\":\"\xc3\xa9\"}",
		"{\"a\":1,\"a\":2}", "[123456789012345678,0.1234567890123456789]",
		" { \"a long key, longer than a token\" : \"and a long text, longer than it\" } " };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *wanted = json_loads(texts[i], JSON_DECODE_ANY, NULL);
		json_t *found = json_read_text(texts[i], JSON_DECODE_ANY);
		cr_assert_not_null(wanted);
		cr_expect(json_equal(wanted, found), "%s", texts[i]);
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

static int calls;
static int failing;

static void *allocate(size_t size)
{
	return ++calls == failing ? NULL : malloc(size);
}

Test(json_read, without_memory_a_document_is_whole_or_refused)
{
	static const char text[] =
		"{\"a key of many bytes, more than thirty\":\"a text of many bytes, of even more "
		"than sixty of them in this text\",\"b\":[1234567890123456789,\"c\"]}";
	json_t *wanted = json_loads(text, 0, NULL);
	int refused = 0;
	json_set_alloc_funcs(allocate, free);
	do {
		calls = 0;
		failing++;
		json_t *found = json_read_text(text, 0);
		cr_expect(!found || json_equal(wanted, found), "allocation %d", failing);
		refused += !found;
		json_decref(found);
	} while (calls >= failing);
	cr_expect_gt(refused, 3);
	json_decref(wanted);
}
