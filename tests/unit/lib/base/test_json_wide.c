#include "lib/base/array.h"
#include "lib/base/json_wide.h"

#include <criterion/criterion.h>
#include <string.h>

#define LARGEST "1.7976931348623e308"

/* From memory that ends with the text, as AddressSanitizer knows. */
static json_t *read_text(const char *text, json_error_t *error)
{
	size_t len = strlen(text);
	char *exact = malloc(len);
	memcpy(exact, text, len);
	json_t *json = json_wide_loadb(exact, len, JSON_DECODE_ANY, error);
	free(exact);
	return json;
}

Test(json_wide, numbers_that_do_not_fit_become_the_nearest_that_do)
{
	static const struct {
		const char *text;
		const char *wanted;
	} rows[] = {
		{ "[1,-2.5e+7,\"1e309\"]", "[1,-2.5e+7,\"1e309\"]" },
		{ "[9223372036854775807]", "[9223372036854775807]" },
		{ "[9223372036854775808]", "[9223372036854775808.0]" },
		{ "[-9223372036854775809,0]", "[-9223372036854775809.0,0]" },
		{ "1e309", LARGEST },
		{ "[1e309,-1e309,9]", "[" LARGEST ",-" LARGEST ",9]" },
		{ "[1E309,1e+309,10.50e308,1e-9,1E-400]",
			"[" LARGEST "," LARGEST "," LARGEST ",1e-9,0.0]" },
		{ "{\"a\\\"-1e309\" : \"\\\\\", \"b\":1e309}",
			"{\"a\\\"-1e309\" : \"\\\\\", \"b\":" LARGEST "}" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *wanted = json_loads(rows[i].wanted, JSON_DECODE_ANY, NULL);
		json_t *found = read_text(rows[i].text, NULL);
		cr_assert_not_null(wanted);
		cr_expect(json_equal(wanted, found), "%s", rows[i].text);
		json_decref(wanted);
		json_decref(found);
	}
}

Test(json_wide, a_number_of_any_length_has_room)
{
	char text[2000] = "[1";
	memset(text + 2, '0', 1000);
	strcpy(text + 1002, ",1e309,1e309,1e309]");
	json_t *found = read_text(text, NULL);
	cr_assert_eq(json_array_size(found), 4);
	cr_expect_eq(json_real_value(json_array_get(found, 0)), strtod(LARGEST, NULL));
	json_decref(found);
}

Test(json_wide, invalid_documents_stay_invalid)
{
	static const char *const texts[] = { "[", "[1e309", "[1e309,]", "[1e309,-]", "[1e309,1.]",
		"[1e309,01]", "[1e309,1e]", "[1e309,\"a", "[1e309,\"a\\", "[1e309.5]",
		"[1e309e1]" };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		json_error_t error;
		cr_expect_null(read_text(texts[i], &error), "%s", texts[i]);
		cr_expect_eq(json_error_code(&error) == json_error_numeric_overflow, false, "%s",
			texts[i]);
	}
}
