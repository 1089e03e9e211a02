#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "agent/config/label.h"
#include "lib/base/array.h"
#include "lib/base/path.h"

TestSuite(label);

struct example {
	char name[80];
	char label[64]; /* or a part of the message for a refused name */
};

ParameterizedTestParameters(label, from_user)
{
	static struct example examples[] = {
		{ "joe", "joe" },
		{ "Joe", "joe" },
		{ "joe@EXAMPLE.COM", "joe" },
		{ "yarn/rm.example.com@EXAMPLE.COM", "yarn" },
		{ "yarn/rm.example.com", "yarn" },
		{ "dev_team", "dev-team" },
		{ "dev--team", "dev--team" },
		{ "ab--c", "ab--c" },
		{ "a0z9A_Z", "a0z9a-z" },
		{ "\xe2\x82\xac", "xn--lzg" },
		{ "\xc3\x9c"
		  "BER",
			"xn--ber-goa" },
		{ "stra\xc3\x9f"
		  "e",
			"strasse" },
		{ "\xd0\x98\xd0\xb2\xd0\xb0\xd0\xbd@\xd0\xa0\xd0\xa4", "xn--80adrw" },
		{ "u\xcc\x88"
		  "ber",
			"xn--ber-goa" }, /* decomposed */
		{ "a_\xc3\xbc", "xn--a--yka" },
	};
	return cr_make_param_array(struct example, examples, ARRAY_LEN(examples));
}

ParameterizedTest(struct example *example, label, from_user)
{
	char label[LABEL_SIZE];
	struct err err = ERR_INIT;
	cr_assert_eq(
		label_from_user(label, example->name, &err), 0, "%s: %s", example->name, err.msg);
	cr_assert_str_eq(label, example->label);
}

ParameterizedTestParameters(label, refuses_users)
{
	static struct example examples[] = {
		{ "", "user \"\" gives \"\"" },
		{ "@EXAMPLE.COM", "user \"\"" },
		{ "/host", "user \"\"" },
		{ "\xff\xfe", "\"\\xff\\xfe\" has no form as a DNS label" },
	};
	return cr_make_param_array(struct example, examples, ARRAY_LEN(examples));
}

ParameterizedTest(struct example *example, label, refuses_users)
{
	char label[LABEL_SIZE] = "untouched";
	struct err err = ERR_INIT;
	cr_assert_eq(label_from_user(label, example->name, &err), BERTH_INVALID_PATHNAME);
	cr_assert_not_null(strstr(err.msg, example->label), "%s", err.msg);
	cr_assert_str_eq(label, "untouched");
}

Test(label, of_odd_user_names_tells_them_apart)
{
	static const char *const names[] = { "joe.smith", "joe smith", "Joe Smith", "joe..smith",
		"_joe", "-joe", "joe-", "...", "joe+smith", "a\xe3\x80\x82\xc3\xbc",
		"jos\xc3\xa9 m\xc3\xbcller",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
		"\xc3\xbc"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
	enum { COUNT = ARRAY_LEN(names) };
	char labels[COUNT][LABEL_SIZE];
	for (size_t i = 0; i < COUNT; i++) {
		struct err err = ERR_INIT;
		cr_assert_eq(
			label_from_user(labels[i], names[i], &err), 0, "%s: %s", names[i], err.msg);
		cr_assert_eq(err.code, 0);
		cr_assert(path_element_valid(labels[i], strlen(labels[i])), "%s", labels[i]);
		for (size_t j = 0; j < i; j++) {
			cr_assert_str_neq(labels[i], labels[j], "%s, %s", names[i], names[j]);
		}
	}
	cr_assert_eq(strncmp(labels[0], "joe-smith-", 10), 0, "%s", labels[0]);
	cr_assert_eq(strlen(labels[0]), 18);
	char digits[LABEL_SIZE];
	struct err unused = ERR_INIT;
	cr_assert_eq(label_from_user(digits, "a0z9.AZ_[", &unused), 0);
	cr_assert_eq(strncmp(digits, "a0z9-az---", 10), 0, "%s", digits);
	cr_assert_eq(label_from_user(digits, "a`b{c[d\x7f", &unused), 0);
	cr_assert_eq(strncmp(digits, "a-b-c-d--", 9), 0, "%s", digits);
	cr_assert_eq(label_from_user(digits, "\xc4\x80.b", &unused), 0);
	cr_assert_eq(strncmp(digits, "xn--", 4), 0, "%s", digits);
	/* Every machine makes the same of it. */
	cr_assert_str_eq(labels[2], "joe-smith-0953a823");
	char again[LABEL_SIZE];
	struct err err = ERR_INIT;
	cr_assert_eq(label_from_user(again, "joe.smith@EXAMPLE.COM", &err), 0);
	cr_assert_str_eq(again, labels[0], "the realm is not part of the name");
}

Test(label, from_container_id)
{
	char label[LABEL_SIZE];
	struct err err = ERR_INIT;
	cr_assert_eq(
		label_from_container_id(label, "container_1408631738011_0001_01_000002", &err), 0);
	cr_assert_str_eq(label, "container-1408631738011-0001-01-000002");
	cr_assert_eq(label_from_container_id(label, "Container_E50", &err), 0);
	cr_assert_str_eq(label, "container-e50");
}

Test(label, refuses_container_ids)
{
	static const char *const bad[] = { "", "_", "a/b", "a.b", "container_\xe2\x82\xac", "a@b" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char label[LABEL_SIZE];
		struct err err = ERR_INIT;
		cr_assert_eq(label_from_container_id(label, bad[i], &err), BERTH_INVALID_PATHNAME,
			"%s", bad[i]);
		cr_assert_not_null(strstr(err.msg, "a DNS label has"), "%s", err.msg);
	}
}

Test(label, says_why_there_is_none)
{
	static const struct {
		const char *id;
		const char *part;
	} ids[] = { { "a@b", "gives \"a@b\"" }, { "a[b", "gives \"a[b\"" },
		{ "a\x7f", "container ID \"a\\x7f\" gives" },
		{ "a\x80", "container ID \"a\\x80\" is not ASCII" } };
	char label[LABEL_SIZE];
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		struct err err = ERR_INIT;
		cr_expect_eq(
			label_from_container_id(label, ids[i].id, &err), BERTH_INVALID_PATHNAME);
		cr_expect_not_null(strstr(err.msg, ids[i].part), "%s", err.msg);
	}
	/* No part of a character is tried: that would not even be UTF-8. */
	struct err err = ERR_INIT;
	struct err of_bytes = ERR_INIT;
	cr_expect_eq(label_from_user(label, "\xef\xbf\xbd", &err), BERTH_INVALID_PATHNAME);
	cr_expect_eq(label_from_user(label, "\xef", &of_bytes), BERTH_INVALID_PATHNAME);
	cr_assert(strrchr(err.msg, ':') && strrchr(of_bytes.msg, ':'));
	cr_expect_str_neq(strrchr(err.msg, ':'), strrchr(of_bytes.msg, ':'));
}
