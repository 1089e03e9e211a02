/* Options of a registry, and its URL. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/registry/internal.h"
#include "lib/registry/url.h"
#include "tests/support/scratch.h"

/* ---- options ---- */

/* The options of a registry: what missing ones are, and which one is at fault. */

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

static void check_display(const char *text, const char *expected)
{
	char *shown = registry_url_display(text);
	cr_assert_str_eq(shown, expected);
	free(shown);
}

Test(registry_url, servers_ports_and_root)
{
	struct registry_url url;
	struct err err = ERR_INIT;
	cr_assert_eq(registry_url_parse(
			     &url, "zookeeper://h1:2182,h-2.example.org,[::1]:2183/a/b", &err),
		0, "%s", err.msg);
	cr_assert_eq(url.kind, REGISTRY_URL_ZOOKEEPER);
	cr_assert_not(url.tls);
	cr_assert_eq(url.servers_count, 3);
	cr_assert_str_eq(url.servers[0].host, "h1");
	cr_assert_str_eq(url.servers[0].port, "2182");
	cr_assert_str_eq(url.servers[1].host, "h-2.example.org");
	cr_assert_str_eq(url.servers[1].port, "2181");
	cr_assert_str_eq(url.servers[2].host, "::1");
	cr_assert_str_eq(url.servers[2].port, "2183");
	cr_assert_str_eq(url.path, "/a/b");
}

Test(registry_url, the_root_is_any_path_of_zookeeper)
{
	static const char *const roots[] = { "/yarnRegistry", "/Prod/My App", "/a_b/...",
		"/r\xc3\xa4ume/\xef\xbc\xa1", "/a@b,c:1", "/%2F%s", "/zookeepers" };
	for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
		struct registry_url url;
		struct err err = ERR_INIT;
		char text[128];
		snprintf(text, sizeof(text), "zookeeper://h:2181%s", roots[i]);
		cr_assert_eq(registry_url_parse(&url, text, &err), 0, "%s", err.msg);
		cr_expect_str_eq(url.path, roots[i]);
		check_display(text, text);
	}
}

Test(registry_url, the_root_has_as_many_bytes_as_a_foreign_path)
{
	struct registry_url url;
	struct err err = ERR_INIT;
	char text[LIMIT_PATH_BYTES + 64] = "zookeeper://h/";
	const size_t before_root = strlen(text) - 1;
	memset(text + strlen(text), 'R', LIMIT_PATH_BYTES);
	text[before_root + LIMIT_PATH_BYTES - 1] = '\0';
	text[before_root + 500] = '/';
	cr_assert_eq(registry_url_parse(&url, text, &err), 0, "%s", err.msg);
	cr_expect_eq(strlen(url.path), LIMIT_PATH_BYTES - 1);
	strcat(text, "R");
	const char *rest = text + strlen("zookeeper://");
	cr_expect_eq(registry_url_parse_servers(&url, rest, &err), BERTH_INVALID_PATHNAME);
	cr_expect(strstr(err.msg, "1024 bytes; at most 1023"), "%s", err.msg);
}

Test(registry_url, a_directory_is_absolute)
{
	struct registry_url url;
	struct err err = ERR_INIT;
	cr_assert_eq(registry_url_parse(&url, "dir:/var/lib/berth/registry", &err), 0);
	cr_assert_eq(url.kind, REGISTRY_URL_DIR);
	cr_assert_str_eq(url.path, "/var/lib/berth/registry");
	cr_assert_eq(registry_url_parse(&url, "dir:relative", &err), BERTH_FAILED);
	cr_assert(strstr(err.msg, "dir:/path"), "%s", err.msg);
}

Test(registry_url, every_error_says_what_is_allowed)
{
	static const struct {
		const char *url;
		const char *hint;
	} wrong[] = {
		{ "", "dir:/path" },
		{ "http://h", "zookeeper://host:port" },
		{ "zookeeper:h", "zookeeper://host:port" },
		{ "zookeeper://", "allowed are names" },
		{ "zookeeper:///registry", "allowed are names" },
		{ "zookeeper://h,,g", "allowed are names" },
		{ "zookeeper://h,", "allowed are names" },
		{ "zookeeper://h h", "allowed are names" },
		{ "zookeeper://h:", "1 to 65535" },
		{ "zookeeper://h:0", "1 to 65535" },
		{ "zookeeper://h:65536", "1 to 65535" },
		{ "zookeeper://h:655350", "1 to 65535" },
		{ "zookeeper://h:+1", "1 to 65535" },
		{ "zookeeper://h:1x", "1 to 65535" },
		{ "zookeeper://h:99999999999999999999", "1 to 65535" },
		{ "zookeeper://[::1", "]" },
		{ "zookeeper://[::1]2181", ":port" },
		{ "zookeeper://[%1]:99", "is not a host" },
		{ "zookeeper://[1.2.3.4]:99", "is not a host" },
		{ "zookeeper://[fe80::1%]", "is not a host" },
		{ "zookeeper://[h]", "[IPv6 addresses]" },
		{ "zookeeper://::1", "[IPv6 addresses]" },
		{ "zookeeper://h/a/", "root node \"/a/\": element \"\" is empty" },
		{ "zookeeper://h//", "element \"\" is empty" },
		{ "zookeeper://h/a//b", "element \"\" is empty" },
		{ "zookeeper://h/A/../b", "element \"..\" names no node" },
		{ "zookeeper://h/.", "element \".\" names no node" },
		{ "zookeeper://h/a\tb", "holds a character that is not allowed" },
		{ "zookeeper://h/\xff", "holds a character that is not allowed" },
		{ "zookeeper://h/zookeeper/x", "is the server's own" },
		{ "zookeeper://u:secret@h", "auth_file" },
	};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct registry_url url;
		struct err err = ERR_INIT;
		cr_assert_neq(registry_url_parse(&url, wrong[i].url, &err), 0, "%s", wrong[i].url);
		cr_assert(strstr(err.msg, wrong[i].hint), "%s: %s", wrong[i].url, err.msg);
		cr_assert_not(strstr(err.msg, "secret"), "%s", err.msg);
	}
}

Test(registry_url, too_many_servers_and_too_long_names_are_refused)
{
	struct registry_url url;
	struct err err = ERR_INIT;
	char text[2048] = "zookeeper://h";
	for (size_t i = 1; i < REGISTRY_URL_MAX_SERVERS; i++) {
		strcat(text, ",h");
	}
	cr_assert_eq(registry_url_parse(&url, text, &err), 0, "%s", err.msg);
	cr_assert_eq(url.servers_count, REGISTRY_URL_MAX_SERVERS);
	strcat(text, ",h");
	cr_assert_eq(registry_url_parse(&url, text, &err), BERTH_FAILED);
	err_clear(&err);
	strcpy(text, "zookeeper://");
	memset(text + strlen(text), 'h', 256);
	cr_assert_eq(registry_url_parse(&url, text, &err), BERTH_FAILED);
	cr_assert(strstr(err.msg, "a host name has 256 bytes; at most 255 are"), "%s", err.msg);
	text[strlen(text) - 1] = '\0';
	err_clear(&err);
	cr_assert_eq(registry_url_parse(&url, text, &err), 0, "%s", err.msg);
}

Test(registry_url, is_shown_in_full_and_without_secrets)
{
	check_display("zookeeper://h1,[::1]:99", "zookeeper://h1:2181,[::1]:99/registry");
	check_display("zookeeper://[fe80::1%2]", "zookeeper://[fe80::1%2]:2181/registry");
	check_display("zookeeper+tls://h:2/x", "zookeeper+tls://h:2/x");
	check_display("dir:/a/b", "dir:/a/b");
	check_display("dir:/srv/joe@home", "dir:/srv/joe@home");
	check_display("dir://joe:secret@home/x", "dir://***@home/x");
	check_display("zookeeper://user:secret@h:1/x", "zookeeper://***@h:1/x");
	check_display("user:se@cret@h", "***@h");
}
