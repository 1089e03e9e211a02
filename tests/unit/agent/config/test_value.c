#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/value.h"
#include "lib/base/array.h"

Test(config_value, durations)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = { { "0s", 0 }, { "1ms", 1 }, { "500ms", 500 }, { "30s", 30000 },
		{ "2m", 120000 }, { "1h", 3600000 }, { "90s", 90000 }, { "7d", 604800000 } };
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		int64_t ms = -1;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_duration(good[i].text, 0, INT64_MAX, &ms, &err), 0);
		cr_expect_eq(ms, good[i].ms, "%s", good[i].text);
		char *text = config_format_duration(ms);
		cr_expect_eq(config_parse_duration(text, 0, INT64_MAX, &ms, &err), 0);
		cr_expect_eq(ms, good[i].ms, "%s", text);
		free(text);
	}
	static const char *const bad[] = { "", "5", "s", "-1s", "+1s", "1.5s", "1 s", "1S", "1w",
		"1ss", "99999999999999999999s", "9223372036854775807h", "0x1s" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int64_t ms = -1;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_duration(bad[i], 0, INT64_MAX, &ms, &err), BERTH_FAILED,
			"%s", bad[i]);
		cr_expect_eq(ms, -1);
	}
	int64_t ms = -1;
	struct err err = ERR_INIT;
	cr_expect_eq(config_parse_duration("11s", 1000, 10000, &ms, &err), BERTH_FAILED);
	cr_expect_str_eq(err.msg, "allowed are 1s to 10s");
	static const struct {
		const char *text;
		bool good;
	} bounds[] = { { "999ms", false }, { "1s", true }, { "10s", true }, { "10001ms", false } };
	for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
		struct err why = ERR_INIT;
		cr_expect_eq(config_parse_duration(bounds[i].text, 1000, 10000, &ms, &why) == 0,
			bounds[i].good, "%s", bounds[i].text);
	}
}

Test(config_value, whole_numbers_have_bounds)
{
	static const struct {
		const char *text;
		bool good;
		int64_t value;
	} cases[] = { { "3", false, 0 }, { "4", true, 4 }, { "10", true, 10 }, { "0010", true, 10 },
		{ "11", false, 0 }, { "", false, 0 }, { "5x", false, 0 }, { "x5", false, 0 },
		{ " 5", false, 0 }, { "-5", false, 0 }, { "18446744073709551621", false, 0 },
		{ "9223372036854775808", false, 0 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t value = 0;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_integer(cases[i].text, 4, 10, &value, &err),
			cases[i].good ? 0 : BERTH_FAILED, "%s", cases[i].text);
		cr_expect_eq(value, cases[i].value, "%s", cases[i].text);
		cr_expect_str_eq(
			err.msg, cases[i].good ? "" : "write a whole number between 4 and 10");
	}
	int64_t most = 0;
	struct err err = ERR_INIT;
	cr_expect_eq(config_parse_integer("9223372036854775807", 0, INT64_MAX, &most, &err), 0);
	cr_expect_eq(most, INT64_MAX);
}

Test(config_value, a_limit_may_be_none)
{
	static const struct {
		const char *text;
		bool good;
		uint64_t limit;
	} cases[] = { { "unlimited", true, UINT64_MAX }, { "0", true, 0 }, { "2K", true, 2048 },
		{ "unlimite", false, 7 }, { "", false, 7 }, { "K", false, 7 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t limit = 7;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_limit(cases[i].text, &limit, &err),
			cases[i].good ? 0 : BERTH_FAILED, "%s", cases[i].text);
		cr_expect_eq(limit, cases[i].limit, "%s", cases[i].text);
	}
}

Test(config_value, words_are_named_in_the_error)
{
	static const char *const words[] = { "one", "two", "three", NULL };
	static const char *const single[] = { "one", NULL };
	unsigned index = 9;
	struct err err = ERR_INIT;
	cr_expect_eq(config_parse_word("three", words, &index, &err), 0);
	cr_expect_eq(index, 2);
	cr_expect_eq(config_parse_word("four", words, &index, &err), BERTH_FAILED);
	cr_expect_str_eq(err.msg, "write one, two or three");
	err_clear(&err);
	cr_expect_eq(config_parse_word("", single, &index, &err), BERTH_FAILED);
	cr_expect_str_eq(err.msg, "write one");
	cr_expect_eq(index, 2);
}

Test(config_value, lists_have_blanks_or_commas_between_their_items)
{
	static const struct {
		const char *text;
		const char *formatted;
		size_t count;
	} cases[] = { { "", "", 0 }, { " ,\t", "", 0 }, { "a", "a", 1 }, { "a,b", "a, b", 2 },
		{ ", a\tb ,c,", "a, b, c", 3 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char **items;
		size_t count;
		config_parse_list(cases[i].text, &items, &count);
		cr_expect_eq(count, cases[i].count, "%s", cases[i].text);
		char *text = config_format_list(items, count);
		cr_expect_str_eq(text, cases[i].formatted);
		free(text);
		config_free_list(items, count);
	}
}

Test(config_value, signals_have_names_with_and_without_SIG)
{
	int number = 0;
	struct err err = ERR_INIT;
	cr_expect_eq(config_parse_signal("TERM", &number, &err), 0);
	cr_expect_eq(number, SIGTERM);
	cr_expect_eq(config_parse_signal("SIGQUIT", &number, &err), 0);
	cr_expect_eq(number, SIGQUIT);
	static const char *const bad[] = { "", "SIG", "term", "15", "SIGSIGTERM", "FOO" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err why = ERR_INIT;
		cr_expect_eq(
			config_parse_signal(bad[i], &number, &why), BERTH_FAILED, "%s", bad[i]);
	}
	cr_expect_eq(number, SIGQUIT);
}

Test(config_value, sizes)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} good[] = { { "0", 0 }, { "1", 1 }, { "64K", 65536 }, { "16M", 16777216 },
		{ "2G", 2147483648 } };
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		int64_t bytes = -1;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_size(good[i].text, 0, INT64_MAX, &bytes, &err), 0);
		cr_expect_eq(bytes, good[i].bytes);
		char *text = config_format_size(bytes);
		cr_expect_str_eq(text, good[i].text);
		free(text);
	}
	int64_t bytes = -1;
	struct err why = ERR_INIT;
	cr_expect_eq(config_parse_size("1023", 1024, 2048, &bytes, &why), BERTH_FAILED);
	cr_expect_str_eq(why.msg, "allowed are 1K to 2K");
	cr_expect_eq(config_parse_size("1K", 1024, 2048, &bytes, &why), 0);
	cr_expect_eq(config_parse_size("2K", 1024, 2048, &bytes, &why), 0);
	cr_expect_eq(config_parse_size("2049", 1024, 2048, &bytes, &why), BERTH_FAILED);
	cr_expect_eq(bytes, 2048);
	static const char *const bad[] = { "", "K", "1k", "1KB", "-1", "1.5M",
		"9223372036854775807K" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int64_t none = -1;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_size(bad[i], 0, INT64_MAX, &none, &err), BERTH_FAILED,
			"%s", bad[i]);
	}
}

Test(config_value, booleans_and_modes_and_numbers)
{
	static const char *const yes[] = { "yes", "true", "on", "Yes", "TRUE" };
	static const char *const no[] = { "no", "false", "off", "No" };
	struct err err = ERR_INIT;
	bool value = false;
	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		cr_expect_eq(config_parse_boolean(yes[i], &value, &err), 0);
		cr_expect(value);
	}
	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		cr_expect_eq(config_parse_boolean(no[i], &value, &err), 0);
		cr_expect_not(value);
	}
	cr_expect_eq(config_parse_boolean("1", &value, &err), BERTH_FAILED);

	unsigned mode = 0;
	cr_expect_eq(config_parse_mode("0660", &mode, &err), 0);
	cr_expect_eq(mode, 0660);
	cr_expect_eq(config_parse_mode("777", &mode, &err), 0);
	cr_expect_eq(mode, 0777);
	cr_expect_eq(config_parse_mode("0000", &mode, &err), 0);
	cr_expect_eq(mode, 0);
	static const char *const bad_modes[] = { "", "66", "0880", "1777", "00660", "rw", "66a",
		"06660" };
	for (size_t i = 0; i < ARRAY_LEN(bad_modes); i++) {
		cr_expect_eq(config_parse_mode(bad_modes[i], &mode, &err), BERTH_FAILED, "%s",
			bad_modes[i]);
	}

	double number = 0;
	cr_expect_eq(config_parse_number("1.5", &number, &err), 0);
	cr_expect_eq(number, 1.5);
	static const struct {
		const char *text;
		double value;
	} edges[] = { { "0.001", 0.001 }, { "1000000", 1000000 }, { ".5", 0.5 } };
	for (size_t i = 0; i < ARRAY_LEN(edges); i++) {
		cr_expect_eq(config_parse_number(edges[i].text, &number, &err), 0);
		cr_expect_eq(number, edges[i].value);
	}
	static const char *const bad_numbers[] = { "", ".", "0", "-1", "1e3", "inf", "nan", "0x1",
		"1.2.3", "0.0009", "1000000.5" };
	for (size_t i = 0; i < ARRAY_LEN(bad_numbers); i++) {
		cr_expect_eq(config_parse_number(bad_numbers[i], &number, &err), BERTH_FAILED, "%s",
			bad_numbers[i]);
	}
}

Test(config_value, hosts_and_ports)
{
	static const struct {
		const char *text;
		const char *host;
		const char *port;
	} good[] = { { "localhost:80", "localhost", "80" },
		{ "127.0.0.1:65535", "127.0.0.1", "65535" }, { "[::1]:1", "::1", "1" },
		{ "[fe80::1%eth0]:8", "fe80::1%eth0", "8" }, { "a:1", "a", "1" },
		{ "my_host-1.x:00080", "my_host-1.x", "00080" } };
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		char *host;
		char *port;
		struct err err = ERR_INIT;
		cr_assert_eq(config_parse_host_port(good[i].text, 1, &host, &port, &err), 0, "%s",
			good[i].text);
		cr_expect_str_eq(host, good[i].host);
		cr_expect_str_eq(port, good[i].port);
		free(host);
		free(port);
	}
	static const char *const bad[] = { "", "a", ":80", "a:", "a:0", "a:65536", "a:8x",
		"a:999999999999", "::1:80", "[::1]", "[::1]80", "[::1:80", "[]:80", "a b:80",
		"a/b:80", "a:000080", "a:/", "a::", "a:1:", "[::1]x:80", "[" };
	char name[300];
	for (size_t len = 255; len <= 256; len++) {
		char *host = NULL;
		char *port = NULL;
		struct err err = ERR_INIT;
		memset(name, 'a', len);
		strcpy(name + len, ":80");
		cr_expect_eq(config_parse_host_port(name, 1, &host, &port, &err),
			len == 255 ? 0 : BERTH_FAILED);
		free(host);
		free(port);
	}
	char *any_host;
	char *any_port;
	struct err any = ERR_INIT;
	cr_assert_eq(config_parse_host_port("a:0", 0, &any_host, &any_port, &any), 0);
	free(any_host);
	free(any_port);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char *host;
		char *port;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_host_port(bad[i], 1, &host, &port, &err), BERTH_FAILED,
			"%s", bad[i]);
	}
}

Test(config_value, http_urls)
{
	static const struct {
		const char *text;
		const char *host;
		const char *port;
		const char *path;
	} good[] = { { "http://a", "a", "80", "/" },
		{ "HTTP://a:8080/x/y?z=1", "a", "8080", "/x/y?z=1" },
		{ "http://[::1]:9", "::1", "9", "/" }, { "http://a?q", "a", "80", "/?q" },
		{ "http://[::1]", "::1", "80", "/" }, { "http://a/@", "a", "80", "/@" },
		{ "http://a:1", "a", "1", "/" }, { "http://a:65535/", "a", "65535", "/" },
		{ "https://a", "a", "443", "/" }, { "HTTPS://[::1]:8443/x", "::1", "8443", "/x" } };
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		char *host;
		char *port;
		char *path;
		bool tls;
		struct err err = ERR_INIT;
		cr_assert_eq(config_parse_http_url(good[i].text, &host, &port, &path, &tls, &err),
			0, "%s", good[i].text);
		cr_expect_eq(tls, strncasecmp(good[i].text, "https", 5) == 0);
		cr_expect_str_eq(host, good[i].host);
		cr_expect_str_eq(port, good[i].port);
		cr_expect_str_eq(path, good[i].path);
		free(host);
		free(port);
		free(path);
	}
	static const char *const bad[] = { "", "a", "https://", "ftp://a", "http://", "http://:80",
		"http://a:x", "http://u:p@a/", "http://a/b c", "http://a/#f", "http://a:0/",
		"http://a:65536/", "http://a:/", "http://[::1/", "http://a\t/", "http://a#f",
		"HTTPS://u@a/", "https://unix:/s:/", "http:/a" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char *host;
		char *port;
		char *path;
		bool tls;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_http_url(bad[i], &host, &port, &path, &tls, &err),
			BERTH_FAILED, "%s", bad[i]);
	}
}

Test(config_value, bytes_survive_being_written_and_read)
{
	char all[256];
	for (size_t i = 0; i < sizeof(all); i++) {
		all[i] = (char)i;
	}
	char *text = config_format_bytes(all, sizeof(all));
	cr_expect(config_is_plain_text(text, strlen(text)));
	char *bytes;
	size_t len;
	struct err err = ERR_INIT;
	cr_assert_eq(config_parse_bytes(text, &bytes, &len, &err), 0);
	cr_assert_eq(len, sizeof(all));
	cr_expect_eq(memcmp(bytes, all, len), 0);
	free(bytes);
	free(text);
	static const struct {
		const char *bytes;
		const char *text;
	} forms[] = { { " a b ", "\\x20a b\\x20" }, { " ", "\\x20" },
		{ "\x1f\x7f\xff", "\\x1f\\x7f\\xff" }, { "~\\", "~\\\\" }, { "", "" } };
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		text = config_format_bytes(forms[i].bytes, strlen(forms[i].bytes));
		cr_expect_str_eq(text, forms[i].text);
		free(text);
	}
	cr_assert_eq(config_parse_bytes("a\\r\\n\\t\\\\\\x41\\x0ab", &bytes, &len, &err), 0);
	cr_expect_str_eq(bytes, "a\r\n\t\\A\nb");
	cr_expect_eq(len, 8);
	free(bytes);
	static const char *const bad[] = { "\\", "\\q", "\\x", "\\x1", "\\xg0" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err why = ERR_INIT;
		cr_expect_eq(
			config_parse_bytes(bad[i], &bytes, &len, &why), BERTH_FAILED, "%s", bad[i]);
	}
}

Test(config_value, status_ranges)
{
	struct config_status_range *ranges;
	size_t count;
	struct err err = ERR_INIT;
	cr_assert_eq(
		config_parse_status_ranges("200-299, 404", 100, 599, &ranges, &count, &err), 0);
	cr_assert_eq(count, 2);
	char *text = config_format_status_ranges(ranges, count);
	cr_expect_str_eq(text, "200-299, 404");
	cr_expect(config_status_in_ranges(ranges, count, 200));
	cr_expect(config_status_in_ranges(ranges, count, 299));
	cr_expect(config_status_in_ranges(ranges, count, 404));
	cr_expect_not(config_status_in_ranges(ranges, count, 300));
	cr_expect_not(config_status_in_ranges(ranges, count, 199));
	cr_expect_not(config_status_in_ranges(ranges, count, 403));
	cr_expect_not(config_status_in_ranges(ranges, count, 405));
	cr_expect_not(config_status_in_ranges(ranges, 0, 200));
	free(text);
	free(ranges);
	static const char *const bad[] = { "", ",", "99", "600", "300-200", "200-", "2xx",
		"200-299-300", "200, 99", "200-600", "-200", "200 -300" };
	struct config_status_range *edges;
	cr_assert_eq(
		config_parse_status_ranges("100, 599, 300-300", 100, 599, &edges, &count, &err), 0);
	cr_expect_eq(count, 3);
	text = config_format_status_ranges(edges, count);
	cr_expect_str_eq(text, "100, 599, 300");
	free(text);
	free(edges);
	struct err shown = ERR_INIT;
	(void)!config_parse_status_ranges("x", 100, 599, &edges, &count, &shown);
	cr_expect_str_eq(
		shown.msg, "write numbers from 100 to 599 and ranges of them: 200-299, 404");
	err_clear(&shown);
	(void)!config_parse_status_ranges("x", 1, 255, &edges, &count, &shown);
	cr_expect_str_eq(shown.msg, "write numbers from 1 to 255 and ranges of them: 1, 3-5");
	static const char *const without_a_number[] = { "-", "-5", "0-", "0, -5", "0-x" };
	for (size_t i = 0; i < ARRAY_LEN(without_a_number); i++) {
		struct err why = ERR_INIT;
		cr_expect_eq(config_parse_status_ranges(
				     without_a_number[i], 0, 255, &ranges, &count, &why),
			BERTH_FAILED, "%s", without_a_number[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err why = ERR_INIT;
		cr_expect_eq(config_parse_status_ranges(bad[i], 100, 599, &ranges, &count, &why),
			BERTH_FAILED, "%s", bad[i]);
	}
}

Test(config_value, plain_text_is_UTF8_without_controls)
{
	cr_expect(config_is_plain_text(" ~", 2));
	cr_expect(config_is_plain_text("", 0));
	cr_expect(config_is_plain_text("a\tb \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", 15));
	static const char *const bad[] = { "\x01", "\x1f", "\x7f", "\n", "\xff", "\xc3", "\xc0\x80",
		"\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cr_expect_not(config_is_plain_text(bad[i], strlen(bad[i])), "%zu", i);
	}
	cr_expect_not(config_is_plain_text("a\0b", 3));
}
