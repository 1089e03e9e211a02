#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/registry/url.h"

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
