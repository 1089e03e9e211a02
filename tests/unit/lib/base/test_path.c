#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"

TestSuite(path);

#define X21 "xxxxxxxxxxxxxxxxxxxxx"
#define X63 X21 X21 X21

struct example {
	char path[80];
	size_t len; /* 0: up to the NUL */
	char complaint[48];
};

static size_t length(const struct example *example)
{
	return example->len ? example->len : strlen(example->path);
}

struct valid {
	char path[80];
};

ParameterizedTestParameters(path, accepts)
{
	static struct valid paths[] = {
		{ "/" },
		{ "/a" },
		{ "/0" },
		{ "/a-b" },
		{ "/az09" },
		{ "/a--b/c" },
		{ "/xn--lzg" },
		{ "/users/devteam/org-apache-tomcat/test1/components" },
		{ "/" X63 },
		{ "/a/" X63 "/b" },
	};
	return cr_make_param_array(struct valid, paths, ARRAY_LEN(paths));
}

ParameterizedTest(struct valid *valid, path, accepts)
{
	struct err err = ERR_INIT;
	cr_assert_eq(path_check(valid->path, strlen(valid->path), &err), 0, "%s: %s", valid->path,
		err.msg);
}

ParameterizedTestParameters(path, rejects_and_says_why)
{
	static struct example examples[] = {
		{ "", 0, "does not begin with /" },
		{ "a", 0, "does not begin with /" },
		{ "a/b", 0, "does not begin with /" },
		{ "//", 0, "element 1 \"\" is empty" },
		{ "//a", 0, "element 1 \"\" is empty" },
		{ "/a//b", 0, "element 2 \"\" is empty" },
		{ "/a/", 0, "ends with /" },
		{ "/a/b/", 0, "ends with /" },
		{ "/.", 0, "element 1 \".\" holds a character" },
		{ "/a/..", 0, "element 2 \"..\" holds a character" },
		{ "/a/../b", 0, "element 2 \"..\" holds a character" },
		{ "/%2e%2e", 0, "holds a character" },
		{ "/A", 0, "element 1 \"A\" holds a character" },
		{ "/a_b", 0, "holds a character" },
		{ "/a b", 0, "holds a character" },
		{ "/a\nb", 0, "\"a\\x0ab\" holds a character" },
		{ "/a\0b", 4, "\"a\\x00b\" holds a character" },
		{ "/a\0", 3, "\"a\\x00\" holds a character" },
		{ "/\xe2\x82\xac", 0, "holds a character" },
		{ "/\xff", 0, "\"\\xff\" holds a character" },
		{ "/\xd0\x98", 0, "holds a character" },
		{ "/`", 0, "holds a character" },
		{ "/{", 0, "holds a character" },
		{ "/-a", 0, "begins or ends with -" },
		{ "/a-", 0, "begins or ends with -" },
		{ "/-", 0, "begins or ends with -" },
		{ "/a\\b", 0, "holds a character" },
		{ "/" X63 "x", 0, "is too long" },
	};
	return cr_make_param_array(struct example, examples, ARRAY_LEN(examples));
}

ParameterizedTest(struct example *example, path, rejects_and_says_why)
{
	struct err err = ERR_INIT;
	cr_assert_eq(path_check(example->path, length(example), &err), BERTH_INVALID_PATHNAME);
	cr_assert_not_null(
		strstr(err.msg, example->complaint), "%s: %s", example->complaint, err.msg);
}

/* "/xx…/xx…" of exactly `len` bytes. */
static void long_path(char *out, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		out[i] = i % 32 == 0 ? '/' : 'x';
	}
	out[len] = '\0';
}

Test(path, may_have_as_many_bytes_as_the_limit_and_no_more)
{
	char path[LIMIT_PATH_BYTES + 2];
	struct err err = ERR_INIT;
	long_path(path, LIMIT_PATH_BYTES - 1);
	cr_assert_eq(path_check(path, strlen(path), &err), 0);
	long_path(path, LIMIT_PATH_BYTES);
	cr_assert_eq(path_check(path, strlen(path), &err), 0, "%s", err.msg);
	cr_assert_eq(path_foreign_check(path, LIMIT_PATH_BYTES - 1, &err), 0, "%s", err.msg);
	cr_assert_eq(path_foreign_check(path, LIMIT_PATH_BYTES, &err), BERTH_INVALID_PATHNAME);
	cr_assert_not_null(strstr(err.msg, "1024 bytes; at most 1023"), "%s", err.msg);
	err_clear(&err);
	strcat(path, "x");
	cr_assert_eq(path_check(path, strlen(path), &err), BERTH_INVALID_PATHNAME);
	cr_assert_not_null(strstr(err.msg, "1025 bytes; at most 1024"), "%s", err.msg);
}

Test(path, another_programs_path_ends_at_its_length)
{
	struct err err = ERR_INIT;
	cr_assert_eq(path_foreign_check("/zookeeper", 10, &err), BERTH_INVALID_PATHNAME);
	cr_assert_eq(path_foreign_check("/zookeeper/quota", 16, &err), BERTH_INVALID_PATHNAME);
	cr_assert_eq(path_foreign_check("/zookeepers", 11, &err), 0, "%s", err.msg);
	cr_assert_eq(path_foreign_check("/zookeeper", 9, &err), 0, "%s", err.msg);
	/* Without a NUL behind it, as AddressSanitizer sees. */
	char *bare = malloc(4);
	memcpy(bare, "/zaz", 4);
	cr_assert_eq(path_foreign_check(bare, 4, &err), 0, "%s", err.msg);
	free(bare);
	cr_assert(path_foreign_element_valid("a\xee\x80\x80", 1));
}

/* The characters that ZooKeeper itself refuses, and their neighbours. */
Test(path, another_programs_path_has_the_characters_that_zookeeper_takes)
{
	static const struct {
		const char *path;
		bool is_valid;
	} paths[] = {
		{ "", false },
		{ "a", false },
		{ "a/b", false },
		{ "/a/", false },
		{ "/a//b", false },
		{ "/.", false },
		{ "/..", false },
		{ "/.a", true },
		{ "/..a", true },
		{ "/\x1f", false },
		{ "/ ", true },
		{ "/~", true },
		{ "/\x7f", false },
		{ "/\xc2\x9f", false },     /* U+009F */
		{ "/\xc2\xa0", true },      /* U+00A0 */
		{ "/\xed\x9f\xbf", true },  /* U+D7FF */
		{ "/\xed\xa0\x80", false }, /* U+D800 */
		{ "/\xee\x80\x80", false }, /* U+E000 */
		{ "/\xef\xa3\xbf", false }, /* U+F8FF */
		{ "/\xef\xa4\x80", true },  /* U+F900 */
		{ "/\xef\xbf\xaf", true },  /* U+FFEF */
		{ "/\xef\xbf\xb0", false }, /* U+FFF0 */
		{ "/\xef\xbf\xbf", false }, /* U+FFFF */
		{ "/\xf0\x9f\x98\x80", false },
		{ "/b\xef\xa3\xbf", false },
		{ "/\xef\xa3\xbf"
		  "b",
			false },
		{ "/\xee\x80\x80"
		  "b",
			false },
	};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		size_t len = strlen(paths[i].path);
		cr_expect_eq(path_foreign_check(paths[i].path, len, NULL) == 0, paths[i].is_valid,
			"%zu", i);
		cr_expect_eq(path_root_check(paths[i].path, len, NULL) == 0, paths[i].is_valid,
			"%zu", i);
	}
	cr_expect_eq(path_root_check("/", 1, NULL), 0);
	cr_expect_eq(path_foreign_check("/", 1, NULL), BERTH_INVALID_PATHNAME);
}

Test(path, an_element_has_bounds)
{
	char element[1002];
	struct err err = ERR_INIT;
	memset(element, 'a', sizeof(element));
	cr_expect(path_foreign_element_valid(element, 1000));
	cr_expect_not(path_foreign_element_valid(element, 1001));
	cr_expect_not(path_foreign_element_valid(element, 0));
	cr_expect(path_element_valid(element, 63));
	cr_expect_not(path_element_valid(element, 64));
	cr_expect_eq(path_foreign_check("/a/..", 5, &err), BERTH_INVALID_PATHNAME);
	cr_expect_not_null(strstr(err.msg, "\"/a/..\": element \"..\" names"), "%s", err.msg);
}

Test(path, joins_below_the_root_and_below_others)
{
	char path[32];
	struct err err = ERR_INIT;
	cr_assert_eq(path_join(path, sizeof(path), "/", "users", &err), 0);
	cr_assert_str_eq(path, "/users");
	cr_assert_eq(path_join(path, sizeof(path), path, "joe", &err), 0);
	cr_assert_str_eq(path, "/users/joe");
}

Test(path, join_refuses_what_is_no_element)
{
	static const char *const bad[] = { "", "..", "a/b", "/a", "A", "-" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char path[32] = "untouched";
		struct err err = ERR_INIT;
		cr_assert_eq(
			path_join(path, sizeof(path), "/", bad[i], &err), BERTH_INVALID_PATHNAME);
		cr_assert_str_eq(path, "untouched");
	}
}

Test(path, join_refuses_what_does_not_fit)
{
	char path[5] = "";
	struct err err = ERR_INIT;
	cr_assert_eq(path_join(path, sizeof(path), "/a", "bc", &err), BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(err.msg, "5 bytes; at most 4 "), "%s", err.msg);
	err_clear(&err);
	cr_assert_eq(path_join(path, sizeof(path), "/a", "b", &err), 0);
	cr_assert_str_eq(path, "/a/b");

	char parent[LIMIT_PATH_BYTES + 1];
	char longer[2 * LIMIT_PATH_BYTES];
	long_path(parent, LIMIT_PATH_BYTES - 1);
	cr_assert_eq(path_join(longer, sizeof(longer), parent, "x", &err), BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(err.msg, "1025 bytes; at most 1024 "), "%s", err.msg);
	err_clear(&err);
	parent[LIMIT_PATH_BYTES - 2] = '\0';
	cr_assert_eq(path_join(longer, sizeof(longer), parent, "x", &err), 0, "%s", err.msg);
}

struct family {
	char path[16];
	size_t parent_len;
	char name[8];
	size_t depth;
};

ParameterizedTestParameters(path, knows_parent_name_and_depth)
{
	static struct family families[] = {
		{ "/", 0, "", 0 },
		{ "/a", 1, "a", 1 },
		{ "/a/b", 2, "b", 2 },
		{ "/users/joe", 6, "joe", 2 },
		{ "/a/b/c/d", 6, "d", 4 },
	};
	return cr_make_param_array(struct family, families, ARRAY_LEN(families));
}

ParameterizedTest(struct family *family, path, knows_parent_name_and_depth)
{
	cr_assert_eq(path_parent_len(family->path), family->parent_len);
	cr_assert_str_eq(path_name(family->path), family->name);
	cr_assert_eq(path_depth(family->path), family->depth);
}

Test(path, a_foreign_path_of_one_element_has_no_parent)
{
	cr_assert_eq(path_parent_len("//a"), 0);
	cr_assert_eq(path_parent_len("//a/b"), 3);
}

Test(path, a_dns_name_has_the_elements_from_the_last_to_the_first)
{
	static const struct {
		size_t bytes; /* of the path's one element */
		size_t domain_bytes;
		bool fits;
	} rows[] = { { 60, 191, true }, { 60, 192, true }, { 60, 193, false }, { 252, 0, true },
		{ 253, 0, false }, { 300, 0, false } };
	char name[PATH_DNS_NAME_BYTES];
	cr_assert(path_dns_name(name, "/users/joe/web", "berth"));
	cr_assert_str_eq(name, "web.joe.users.berth");
	cr_assert(path_dns_name(name, "/", "berth"));
	cr_assert_str_eq(name, "berth");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char path[512] = "/";
		char domain[512] = "";
		memset(path + 1, 'a', rows[i].bytes);
		memset(domain, 'd', rows[i].domain_bytes);
		cr_expect_eq(path_dns_name(name, path, domain), rows[i].fits, "%zu", i);
	}
}

Test(path, is_under_itself_and_its_ancestors_only)
{
	cr_assert(path_is_under("/", "/"));
	cr_assert(path_is_under("/a", "/"));
	cr_assert(path_is_under("/a", "/a"));
	cr_assert(path_is_under("/a/b/c", "/a/b"));
	cr_assert_not(path_is_under("/a", "/a/b"));
	cr_assert_not(path_is_under("/ab", "/a"));
	cr_assert_not(path_is_under("/", "/a"));
}

Test(path, the_dns_name_is_the_elements_reversed)
{
	char name[PATH_DNS_NAME_BYTES];
	cr_assert(path_dns_name(name, "/users/joe/web/prod/components/c1", "berth"));
	cr_assert_str_eq(name, "c1.components.prod.web.joe.users.berth");
	cr_assert(path_dns_name(name, "/", "sd.example.org"));
	cr_assert_str_eq(name, "sd.example.org");
	char path[400] = "";
	for (int i = 0; i < 60; i++) {
		strcat(path, "/abc");
	}
	cr_assert(path_dns_name(name, path, "berth"));
	strcat(path, "/abcdefgh");
	cr_assert_not(path_dns_name(name, path, "berth"));
}
