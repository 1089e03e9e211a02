#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <string.h>

#include "agent/bridge/policy.h"
#include "lib/base/array.h"

struct allowed {
	const char *pattern;
	const char *path;
	bool allowed;
};

ParameterizedTestParameters(policy, allows)
{
	static struct allowed rows[] = {
		{ "/services/db", "/services/db", true },
		{ "/services/db", "/services/db2", false },
		{ "/services/db", "/services/db/x", false },
		{ "/services/*", "/services/db", true },
		{ "/services/*", "/services/db/x", false },
		{ "/services/*", "/services", false },
		{ "/services/d*", "/services/db", true },
		{ "/services/d*", "/services/x", false },
		{ "/users/joe/**", "/users/joe", false },
		{ "/users/joe/**", "/users/joe/a", true },
		{ "/users/joe/**", "/users/joe/a/b/c", true },
		{ "/users/joe/**", "/users/joey/a", false },
		{ "/users/*/web/**", "/users/joe/web/a/b", true },
		{ "/users/*/web/**", "/users/joe/x/web/a", false },
		{ "/users/*/web/**", "/users/joe/web", false },
		{ "/users/*/**", "/users/joe/a", true },
		{ "/users/*/**", "/users/joe", false },
		{ "/**", "/a", true },
		{ "/**", "/a/b", true },
	};
	return cr_make_param_array(struct allowed, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct allowed *row, policy, allows)
{
	char *pattern = (char *)(uintptr_t)row->pattern;
	const struct config_container policy = { .allow = &pattern, .allow_count = 1 };
	cr_assert_eq(bridge_policy_allows(&policy, row->path), row->allowed, "%s for %s",
		row->pattern, row->path);
}

Test(policy, any_of_several_paths_allows)
{
	char *patterns[] = { "/services/db", "/users/joe/**" };
	const struct config_container policy = { .allow = patterns, .allow_count = 2 };
	cr_assert(bridge_policy_allows(&policy, "/services/db"));
	cr_assert(bridge_policy_allows(&policy, "/users/joe/a"));
	cr_assert_not(bridge_policy_allows(&policy, "/users/a"));
}

Test(policy, nothing_is_allowed_without_a_policy)
{
	const struct config_container nothing = { .allow_count = 0 };
	cr_assert_not(bridge_policy_allows(NULL, "/a"));
	cr_assert_not(bridge_policy_allows(&nothing, "/a"));
}

Test(policy, the_first_glob_that_matches_counts)
{
	struct config_container containers[] = { { .glob = "web-?" }, { .glob = "web-*" } };
	const struct config config = { .containers = containers, .container_count = 2 };
	cr_assert_eq(bridge_policy_find(&config, "web-1"), &containers[0]);
	cr_assert_eq(bridge_policy_find(&config, "web-12"), &containers[1]);
	cr_assert_null(bridge_policy_find(&config, "db"));
}

/* 1024 bytes above the tree, and no more. */
Test(policy, a_pattern_has_a_bound)
{
	char pattern[1100];
	char path[1100];
	char *patterns[] = { pattern };
	const struct config_container policy = { .allow = patterns, .allow_count = 1 };
	for (size_t len = 1023; len < 1028; len++) {
		memset(pattern, 'a', sizeof(pattern));
		pattern[0] = '/';
		memcpy(path, pattern, sizeof(path));
		memcpy(pattern + len, "/**", 4);
		memcpy(path + len, "/x", 3);
		cr_expect_eq(bridge_policy_allows(&policy, path), len <= 1024, "%zu", len);
	}
}

Test(policy, names_of_containers)
{
	cr_assert(bridge_policy_is_name("a"));
	cr_assert(bridge_policy_is_name("web-1_A.b"));
	cr_assert(bridge_policy_is_name(
		"0123456789012345678901234567890123456789012345678901234567890123"));
	cr_assert_not(bridge_policy_is_name(
		"01234567890123456789012345678901234567890123456789012345678901234"));
	cr_assert_not(bridge_policy_is_name(""));
	cr_assert_not(bridge_policy_is_name(".hidden"));
	cr_assert_not(bridge_policy_is_name("a b"));
	cr_assert_not(bridge_policy_is_name("a\n"));
}
