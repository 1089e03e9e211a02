/* The options of a registry: what missing ones are, and which one is at fault. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/registry/internal.h"
#include "tests/support/scratch.h"

/* ---- completion ---- */

Test(registry_options, that_are_missing_have_their_documented_values)
{
	const struct registry_options none = { 0 };
	struct registry_options all = registry_options_complete(&none);
	cr_assert_eq(all.session_timeout_ms, 30000);
	cr_assert_eq(all.request_timeout_ms, 10000);
	cr_assert_eq(all.close_timeout_ms, 900);
	cr_assert_str_eq(all.url, "");
	cr_assert_str_eq(all.auth, "none");
	cr_assert_str_eq(all.auth_file, "");
	cr_assert_str_eq(all.system_accounts, "");
	cr_assert_str_eq(all.write_accessors, "");
	cr_assert_str_eq(all.realm, "");
}

/* ---- URLs ---- */

Test(registry_options, a_url_is_known_by_its_beginning)
{
	cr_assert(registry_is_url("dir:/a"));
	cr_assert(registry_is_url("zookeeper://h"));
	cr_assert(registry_is_url("zookeeper+tls://h"));
	cr_assert_not(registry_is_url("/a"));
	cr_assert_not(registry_is_url("redis://h"));
}

Test(registry_options, a_url_leads_to_its_backend)
{
	const char *rest;
	cr_assert_eq(registry_backend_of("dir:/a", &rest), &registry_dir_ops);
	cr_assert_str_eq(rest, "/a");
	cr_assert_eq(registry_backend_of("zookeeper://h", &rest), &registry_zk_ops);
	cr_assert_str_eq(rest, "h");
	cr_assert_null(registry_backend_of("redis://h", &rest));
}

/* ---- checks ---- */

static void assert_good(const struct registry_options *options)
{
	struct err err = ERR_INIT;
	const char *option = "untouched";
	cr_assert_eq(registry_options_check(options, &option, &err), 0, "%s", err.msg);
	cr_assert_str_eq(option, "untouched");
}

static void assert_bad(const struct registry_options *options, const char *at_fault)
{
	struct err err = ERR_INIT;
	struct err alone = ERR_INIT;
	const char *option = NULL;
	cr_assert_lt(registry_options_check(options, &option, &err), 0, "%s", at_fault);
	cr_assert_str_eq(option, at_fault, "%s", err.msg);
	cr_assert_eq(registry_options_check(options, NULL, &alone), err.code);
	cr_assert_str_eq(alone.msg, err.msg);
}

/* A file with credentials. */
static const char *auth_file(void)
{
	static char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, "ann:secret", 10), 10);
	close(fd);
	return path;
}

Test(registry_options, that_are_good_pass)
{
	const char *file = auth_file();
	const struct registry_options good[] = {
		{ .url = "dir:/a" },
		{ .url = "zookeeper://h", .auth = "none", .auth_file = "/nowhere" },
		{ .url = "zookeeper://h", .auth = "digest", .auth_file = file },
		{ .url = "zookeeper://h", .auth = "digest", .auth_file = file, .secure = true },
		{ .url = "zookeeper://h",
			.auth = "digest",
			.auth_file = file,
			.secure = true,
			.system_accounts = "sasl:a@,digest:b:c" },
	};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_good(&good[i]);
	}
	unlink(file);
}

Test(registry_options, that_are_bad_are_named)
{
	const char *file = auth_file();
	const struct {
		const char *option;
		struct registry_options options;
	} bad[] = {
		{ "url", { .url = NULL } },
		{ "url", { .url = "zookeeper://h:0", .auth = "plain" } },
		{ "auth", { .url = "dir:/a", .auth = "plain", .secure = true } },
		{ "secure", { .url = "zookeeper://h", .secure = true } },
		{ "secure", { .url = "dir:/a", .auth = "digest", .auth_file = file, .secure = 1 } },
		{ "auth_file", { .url = "zookeeper://h", .auth = "digest" } },
		{ "auth_file", { .url = "dir:/a", .auth = "digest", .auth_file = "/nowhere" } },
		{ "system_accounts",
			{ .url = "zookeeper://h",
				.auth = "digest",
				.auth_file = file,
				.secure = true,
				.system_accounts = "yarn" } },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_bad(&bad[i].options, bad[i].option);
	}
	unlink(file);
	assert_bad(NULL, "url");
}
