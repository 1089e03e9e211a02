#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/value.h"

Test(config_value, durations)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = { { "0s", 0 }, { "1ms", 1 }, { "500ms", 500 }, { "30s", 30000 },
		{ "2m", 120000 }, { "1h", 3600000 }, { "90s", 90000 }, { "7d", 604800000 } };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
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
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
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
}

Test(config_value, sizes)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} good[] = { { "0", 0 }, { "1", 1 }, { "64K", 65536 }, { "16M", 16777216 },
		{ "2G", 2147483648 } };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		int64_t bytes = -1;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_size(good[i].text, 0, INT64_MAX, &bytes, &err), 0);
		cr_expect_eq(bytes, good[i].bytes);
		char *text = config_format_size(bytes);
		cr_expect_str_eq(text, good[i].text);
		free(text);
	}
	static const char *const bad[] = { "", "K", "1k", "1KB", "-1", "1.5M",
		"9223372036854775807K" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int64_t bytes = -1;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_size(bad[i], 0, INT64_MAX, &bytes, &err), BERTH_FAILED,
			"%s", bad[i]);
	}
}

Test(config_value, booleans_and_modes_and_numbers)
{
	static const char *const yes[] = { "yes", "true", "on", "Yes", "TRUE" };
	static const char *const no[] = { "no", "false", "off", "No" };
	struct err err = ERR_INIT;
	bool value = false;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		cr_expect_eq(config_parse_boolean(yes[i], &value, &err), 0);
		cr_expect(value);
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		cr_expect_eq(config_parse_boolean(no[i], &value, &err), 0);
		cr_expect_not(value);
	}
	cr_expect_eq(config_parse_boolean("1", &value, &err), BERTH_FAILED);

	unsigned mode = 0;
	cr_expect_eq(config_parse_mode("0660", &mode, &err), 0);
	cr_expect_eq(mode, 0660);
	cr_expect_eq(config_parse_mode("777", &mode, &err), 0);
	cr_expect_eq(mode, 0777);
	static const char *const bad_modes[] = { "", "66", "0880", "1777", "00660", "rw" };
	for (size_t i = 0; i < sizeof(bad_modes) / sizeof(bad_modes[0]); i++) {
		cr_expect_eq(config_parse_mode(bad_modes[i], &mode, &err), BERTH_FAILED, "%s",
			bad_modes[i]);
	}

	double number = 0;
	cr_expect_eq(config_parse_number("1.5", &number, &err), 0);
	cr_expect_eq(number, 1.5);
	static const char *const bad_numbers[] = { "", ".", "0", "-1", "1e3", "inf", "nan", "0x1",
		"1.2.3" };
	for (size_t i = 0; i < sizeof(bad_numbers) / sizeof(bad_numbers[0]); i++) {
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
		{ "[fe80::1%eth0]:8", "fe80::1%eth0", "8" } };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
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
		"a/b:80" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
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
		{ "http://[::1]:9", "::1", "9", "/" }, { "http://a?q", "a", "80", "/?q" } };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char *host;
		char *port;
		char *path;
		struct err err = ERR_INIT;
		cr_assert_eq(config_parse_http_url(good[i].text, &host, &port, &path, &err), 0,
			"%s", good[i].text);
		cr_expect_str_eq(host, good[i].host);
		cr_expect_str_eq(port, good[i].port);
		cr_expect_str_eq(path, good[i].path);
		free(host);
		free(port);
		free(path);
	}
	static const char *const bad[] = { "", "a", "https://a", "ftp://a", "http://", "http://:80",
		"http://a:x", "http://u:p@a/", "http://a/b c", "http://a/#f" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *host;
		char *port;
		char *path;
		struct err err = ERR_INIT;
		cr_expect_eq(config_parse_http_url(bad[i], &host, &port, &path, &err), BERTH_FAILED,
			"%s", bad[i]);
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
	static const char *const bad[] = { "\\", "\\q", "\\x", "\\x1", "\\xg0" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
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
	cr_expect_not(config_status_in_ranges(ranges, 0, 200));
	free(text);
	free(ranges);
	static const char *const bad[] = { "", ",", "99", "600", "300-200", "200-", "2xx",
		"200-299-300" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err why = ERR_INIT;
		cr_expect_eq(config_parse_status_ranges(bad[i], 100, 599, &ranges, &count, &why),
			BERTH_FAILED, "%s", bad[i]);
	}
}

Test(config_value, plain_text_is_UTF8_without_controls)
{
	cr_expect(config_is_plain_text("a\tb \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", 15));
	static const char *const bad[] = { "\x01", "\x7f", "\n", "\xff", "\xc3", "\xc0\x80",
		"\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_not(config_is_plain_text(bad[i], strlen(bad[i])), "%zu", i);
	}
	cr_expect_not(config_is_plain_text("a\0b", 3));
}
