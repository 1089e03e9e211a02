/* An answer as JSON and as lines, part by part. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>

#include "agent/names/write.h"

static struct names_address addresses[2];
static const struct names_answer answer = {
	.status = NAMES_FOUND, .addresses = addresses, .address_count = 2
};
static const struct names_view view = { &answer, false, 0 };

static void fill(void)
{
	addresses[0].family = AF_INET;
	inet_pton(AF_INET, "10.0.0.1", addresses[0].bytes);
	addresses[1].family = AF_INET6;
	inet_pton(AF_INET6, "2001:db8::1", addresses[1].bytes);
}

static void expect_parts(unsigned parts, const char *addresses_json, const char *lines)
{
	struct buffer out;
	buffer_init(&out, 1024);
	names_write_lines(&view, parts, &out);
	cr_expect_str_eq(buffer_text(&out), lines);
	buffer_finish(&out);
	json_t *json = names_json(&view, "a.berth", parts, 1);
	char *text = json_dumps(json_object_get(json, "addresses"), JSON_COMPACT);
	cr_expect_str_eq(text ? text : "", addresses_json);
	free(text);
	json_decref(json);
}

Test(names_write, each_family_is_a_part_of_its_own, .init = fill)
{
	expect_parts(NAMES_PART_A, "[\"10.0.0.1\"]", "A 10.0.0.1\n");
	expect_parts(NAMES_PART_AAAA, "[\"2001:db8::1\"]", "AAAA 2001:db8::1\n");
	expect_parts(
		NAMES_PART_ALL, "[\"10.0.0.1\",\"2001:db8::1\"]", "A 10.0.0.1\nAAAA 2001:db8::1\n");
	expect_parts(NAMES_PART_TXT, "", "");
}
