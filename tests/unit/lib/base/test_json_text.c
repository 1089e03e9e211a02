#include "lib/base/json_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(json_text, text_is_that_of_the_json)
{
	json_t *json = json_pack("{s:[i, s], s:{}}", "a", 1, "b\n", "c");
	char *text = json_text(json, JSON_COMPACT);
	cr_assert_str_eq(text, "{\"a\":[1,\"b\\n\"],\"c\":{}}");
	free(text);
	json_decref(json);
}

Test(json_text, json_that_cannot_be_written_has_no_text)
{
	cr_assert_null(json_text(NULL, JSON_COMPACT));
	cr_assert_null(json_text(json_true(), JSON_COMPACT)); /* without JSON_ENCODE_ANY */
}

Test(json_text, text_stands_behind_the_content_of_a_buffer)
{
	struct buffer out;
	buffer_init(&out, 100);
	buffer_append_text(&out, "x=");
	cr_assert_eq(json_text_append(&out, json_true(), JSON_ENCODE_ANY), 0);
	cr_assert_str_eq(buffer_text(&out), "x=true");
	buffer_finish(&out);
}

Test(json_text, text_that_does_not_fit_at_any_place_is_a_failure)
{
	json_t *json = json_pack("{s:s, s:{s:s}}", "first", "1", "second", "third", "4");
	char *whole = json_text(json, JSON_COMPACT | JSON_SORT_KEYS);
	size_t len = strlen(whole);
	for (size_t room = 0; room <= len; room++) {
		struct buffer out;
		buffer_init(&out, room);
		int code = json_text_append(&out, json, JSON_COMPACT | JSON_SORT_KEYS);
		cr_assert_eq(code, room == len ? 0 : -1);
		cr_assert_eq(out.failed, room < len);
		buffer_finish(&out);
	}
	free(whole);
	json_decref(json);
}
