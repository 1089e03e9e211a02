/* Values beyond their type: what each option takes, up to its bounds. */
#include <criterion/criterion.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/value.h"
#include "agent/config/verify.h"
#include "agent/config/verify_bridge.h"
#include "agent/config/verify_dialect.h"
#include "lib/base/array.h"
#include "lib/base/limits.h"

TestSuite(config_verify);

#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define HUNDRED FIFTY FIFTY
#define TWO_HUNDRED_FIFTY HUNDRED HUNDRED FIFTY

typedef int verify(const char *value, struct err *err);

static const struct {
	const char *name;
	verify *verify;
	const char *good[12];
	const char *bad[16];
} rows[] = {
	{ "label", config_verify_label, { "a", "a-1", "0" },
		{ "A", "-a", "a-", "a.b", "a_b", FIFTY TEN "0123" } },
	{ "path", config_verify_path, { "/a", "/a/b" }, { "/", "a", "/a/", "/A", "/a//b" } },
	{ "import path", config_verify_import_path, { "/a" }, { "/", "a", "/a/" } },
	{ "warm", config_verify_warm, { "/", "/a", "/**", "/a/**" },
		{ "a", "/a**", "**", "/A/**", "/a/*", "/**/a" } },
	{ "root", config_verify_root, { "/a", "/" FIFTY "/" FIFTY "/" FIFTY "/" FIFTY "/" FIFTY },
		{ "/", "a", "/a/", "/" FIFTY "/" FIFTY "/" FIFTY "/" FIFTY "/" FIFTY "1" } },
	{ "tree", config_verify_tree, { "/**", "/a/**" }, { "/", "/a", "/A/**", "/a**" } },
	{ "host name", config_verify_host_name,
		{ "*", "a", "A", "h.example.org", "my_host-1", TWO_HUNDRED_FIFTY "012" },
		{ "", "**", "a:1", "a b", "[::1]", "*.a", TWO_HUNDRED_FIFTY "0123" } },
	{ "listen", config_verify_listen, { "a:0", "a:1", "[::1]:65535" },
		{ "a", "a:", ":1", "a:65536" } },
	{ "xds listen", config_verify_xds_listen, { "/s", "a:1", "a:0", "/" HUNDRED "012345" },
		{ "s", "/" HUNDRED "0123456", "a:65536" } },
	{ "zone", config_verify_zone,
		{ "a", "eu-west/a", "A.b_c-1/2/3", TWO_HUNDRED_FIFTY "01234" },
		{ "/a", "a/", "a//b", "/", "a b", "a:b", TWO_HUNDRED_FIFTY "012345" } },
	{ "DNS address", config_verify_dns_address, { "127.0.0.1:53", "[::1]:53", "0.0.0.0:1" },
		{ "localhost:53", "127.0.0.1:0", "127.0.0.1", "1.2.3:53", "[1.2.3.4]:53",
			"256.0.0.1:53" } },
	{ "DNS forward", config_verify_dns_forward, { "none", "system", "192.0.2.1:53" },
		{ "None", "systems", "a:53", "192.0.2.1" } },
	{ "domain", config_verify_domain, { "a", "a.b", "a-1.b2.c" },
		{ "", ".", "a.", ".a", "a..b", "A.b", "a_b.c", "a.-b" } },
	{ "registry", config_verify_registry_url, { "dir:/x", "zookeeper://h/r" },
		{ "x", "dir:x", "consul://h" } },
	{ "auth", config_verify_auth, { "none", "digest", "sasl" }, { "None", "x", "digest " } },
	{ "accounts", config_verify_accounts, { "sasl:a", "sasl:a@, x:b", "a:b:c" },
		{ "sasl", "sasl:", ":a", "sasl:a, b", "sasl:a, :" } },
	{ "scope", config_verify_scope, { "external", "internal" }, { "both", "External" } },
	{ "proxy name", config_verify_proxy_name, { "a", "A.b_c-1", HUNDRED TEN TEN "01234567" },
		{ "a b", "a/b", "a:b", HUNDRED TEN TEN "012345678" } },
	{ "address type", config_verify_address_type,
		{ "uri", "hostname", "inetaddress", "host/port", "path", "zookeeper", "zktriple",
			"x-a" },
		{ "URI", "x-", "x", "y-a", "uris", "ur" } },
	{ "URI", config_verify_uri,
		{ "http://a", "a:b", "urn:x:1", "h2+x.y-z:a", "h:80a", "localhost:", "a:1b/2" },
		{ "a", "localhost:8080", "localhost:8", "localhost:8080/x", "1a:b", "+a:b", ":a",
			"a/b:c", "-:x", "", "http//a" } },
	{ "check type", config_verify_check_type, { "http", "tcp", "x" }, { "https" } },
	{ "regex", config_verify_regex, { "^a$", "(a|b)+", "[0-9]" }, { "(", "[", "a{2" } },
	{ "method", config_verify_method, { "GET", "A", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF" },
		{ "get", "Get", "G T", "GET1", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG" } },
	{ "host", config_verify_host, { "a", "h.example.org:80", "[::1]:1", "a_b-c", "A1" },
		{ "a b", "a/b", "a@b", "\xc3\xbc" } },
	{ "attribute", config_verify_attribute_name,
		{ "a", "A.b_c-1:d", "\xc3\xbc", "\xc4\x80", "types", "externals", "yarn:ip",
			TWO_HUNDRED_FIFTY "01234" },
		{ "", "a b", "a/b", "a@b", "type", "external", "internal", "description", "yarn:id",
			"yarn:persistence", "berth:health", TWO_HUNDRED_FIFTY "012345" } },
	{ "variable", config_verify_variable_name, { "A", "_", "a1", "_1", "A_B" },
		{ "", "1", "1A", "a-b", "a.b", "a b" } },
	{ "header", config_verify_header_name,
		{ "X", "X-Y", "!#$%&'*+-.^_`|~1", "Hosts", "Content-Lengths" },
		{ "", "a b", "a:b", "a(b", "Host", "HOST", "connection", "content-length",
			"Transfer-Encoding", "\xc3\xbc" } },
	{ "name of a limit", config_verify_limit_name,
		{ "as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "stack" },
		{ "", "fd", "NOFILE", "a", "nofiles" } },
	{ "limit", config_verify_limit, { "0", "1", "64K", "unlimited" },
		{ "", "-1", "Unlimited", "1T", "x" } },
	{ "allow", config_verify_allow, { "/a", "/a/b", "/*", "/a*/b", "/**", "/a/**", "/*-x/a" },
		{ "a", "/", "/a/", "//a", "/A", "/**/a", "/a**", "/-*", "/a/../b", "" } },
	{ "owner", config_verify_owner, { "0:0", "1:2", "4294967294:4294967294", "00:0000000001" },
		{ "", "1", "1:", ":1", "a:1", "1:a", "4294967295:1", "1:4294967295", "1:2:3",
			"-1:1", "00000000001:1" } },
	{ "pinned", config_verify_pinned_name,
		{ "a", "yarn:id", "description", "yarn:ip", "types" },
		{ "", "type", "external", "internal", "yarn:persistence", "a/b", "berth:health" } },
	{ "glob", config_verify_container_glob, { "a", "*", "a?b*", "A.b_c-1", FIFTY TEN "0123" },
		{ "a b", "a/b/c", "a+b", FIFTY TEN "01234" } },
	{ "DNS name", config_verify_dns_name, { "a", "a.b", "A_1.b-2.c", FIFTY TEN "012.x" },
		{ "a.ZooKeeper", "", ".", "a.", ".a", "a..b", "a b.c", FIFTY TEN "0123.x" } },
	{ "foreign name", config_verify_foreign_name, { "a", "A b", "\xc3\xbc" },
		{ "", "a/b", "a\nb", ".", ".." } },
	{ "foreign path", config_verify_foreign_path, { "/a", "/A b/c" },
		{ "", "a", "/a/", "//a", "/a/../b" } },
	{ "host type", config_verify_host_type, { "host", "A_b-1" }, { "a b", "a.b", "a:b" } },
	{ "IPv4", config_verify_ipv4, { "1.2.3.4", "255.255.255.255" },
		{ "", "1.2.3", "::1", "256.1.1.1", "a" } },
	{ "count", config_verify_count, { "0", "1", "2147483647", "0000000001" },
		{ "", "-1", "1x", "2147483648", "00000000001", " 1", "99999999999999999999" } },
	{ "seconds", config_verify_seconds, { "0", "25", "25s", "5m", "2147483647", "1000ms" },
		{ "", "x", "1500ms", "-1", "2147483648", "2147483648s" } },
	{ "port", config_verify_port, { "1", "80", "65535" }, { "", "0", "65536", "-1", "8x" } },
	{ "JSON", config_verify_json, { "{}", "[1]", "1", "\"a\"", "null" },
		{ "", "{", "a", "{\"a\":1,\"a\":2}", "1 2" } },
	{ "section", config_verify_section_name, { "a", "A.b_c-1", FIFTY TEN "0123" },
		{ "a b", "a/b", "a:b", FIFTY TEN "01234" } },
};

Test(config_verify, each_value_is_good_or_bad_with_a_reason)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t j = 0; j < 12 && rows[i].good[j]; j++) {
			struct err err = ERR_INIT;
			cr_expect_eq(rows[i].verify(rows[i].good[j], &err), 0, "%s: %s: %s",
				rows[i].name, rows[i].good[j], err.msg);
			cr_expect_eq(err.code, 0);
		}
		for (size_t j = 0; j < 16 && rows[i].bad[j]; j++) {
			struct err err = ERR_INIT;
			int code = rows[i].verify(rows[i].bad[j], &err);
			cr_expect_lt(code, 0, "%s: %s", rows[i].name, rows[i].bad[j]);
			cr_expect_eq(err.code, code, "%s: %s", rows[i].name, rows[i].bad[j]);
			cr_expect_neq(*err.msg, '\0');
		}
	}
}

Test(config_verify, a_path_that_is_allowed_has_the_length_of_a_path)
{
	char path[LIMIT_PATH_BYTES + 2];
	for (size_t len = LIMIT_PATH_BYTES; len <= LIMIT_PATH_BYTES + 1; len++) {
		for (size_t i = 0; i < len; i++) {
			path[i] = i % 10 ? 'a' : '/';
		}
		path[len - 1] = 'a';
		path[len] = '\0';
		struct err err = ERR_INIT;
		cr_expect_eq(config_verify_allow(path, &err),
			len == LIMIT_PATH_BYTES ? 0 : BERTH_FAILED, "%zu", len);
	}
}

Test(config_verify, the_shape_of_a_record_is_the_containers_own)
{
	static const char *const names[] = { "type", "external", "internal", "yarn:persistence" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct err err = ERR_INIT;
		cr_expect_eq(config_verify_pinned_name(names[i], &err), BERTH_FAILED);
		cr_expect_not_null(strstr(err.msg, "is the container's own"), "%s", err.msg);
	}
}

Test(config_verify, a_wrong_regular_expression_has_the_reason_of_the_library)
{
	regex_t compiled;
	char reason[128];
	struct err err = ERR_INIT;
	int why = regcomp(&compiled, "(", REG_EXTENDED);
	cr_assert_neq(why, 0);
	regerror(why, &compiled, reason, sizeof(reason));
	cr_expect_eq(config_verify_regex("(", &err), BERTH_FAILED);
	cr_expect_not_null(strstr(err.msg, ": "));
	cr_expect_str_eq(strstr(err.msg, ": ") + 2, reason);
}

Test(config_verify, users_and_groups_have_names_or_numbers)
{
	static const struct {
		const char *name;
		bool good;
		unsigned id;
	} cases[] = { { "root", true, 0 }, { "0", true, 0 }, { "12345", true, 12345 },
		{ "2147483647", true, 2147483647 }, { "2147483648", false, 0 }, { "-1", false, 0 },
		{ "no-such-account-here", false, 0 }, { "1x", false, 0 }, { "", false, 0 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = ERR_INIT;
		struct err other = ERR_INIT;
		unsigned user = 77;
		unsigned group = 77;
		int codes[] = { config_find_user(cases[i].name, &user, &err),
			config_find_group(cases[i].name, &group, &other) };
		for (int j = 0; j < 2; j++) {
			cr_expect_eq(
				codes[j], cases[i].good ? 0 : BERTH_FAILED, "%s", cases[i].name);
		}
		cr_expect_eq(user, cases[i].good ? cases[i].id : 77);
		cr_expect_eq(group, cases[i].good ? cases[i].id : 77);
	}
	struct err err = ERR_INIT;
	cr_expect_eq(config_verify_user("root", &err), 0);
	cr_expect_eq(config_verify_user("0", &err), BERTH_FAILED, "its groups are not known");
}
