#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/http/target.h"

/* Bytes are looked at in groups: each byte at each place of a group, and behind the last one. */
Test(http_target, is_visible_at_every_place)
{
	for (size_t place = 1; place < 20; place++) {
		for (int byte = 0; byte <= 0xff; byte++) {
			char target[20];
			memset(target, 'a', sizeof(target));
			target[0] = '/';
			target[place] = (char)byte;
			bool good = byte > ' ' && byte < 0x7f && byte != '#';
			cr_expect_eq(http_is_target("GET", 3, target, sizeof(target)), good,
				"%d at %zu", byte, place);
			cr_expect_eq(http_is_target("GET", 3, target, place + 1), good,
				"%d at the end, %zu", byte, place);
		}
	}
}

Test(http_target, a_host_has_the_characters_of_a_name)
{
	static const char others[] = "!$%&'()*+-.;=_~";
	for (int byte = 1; byte <= 0xff; byte++) {
		bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
			(byte >= '0' && byte <= '9');
		char host[] = { 'a', (char)byte, 'b' };
		cr_expect_eq(http_is_authority(host, sizeof(host), false),
			letter || strchr(others, byte) != NULL, "%d", byte);
	}
}

/* Bytes that follow a text in a request, and those that could belong to one. */
static const char behind[] = "a0:[]/?#* \r";

struct authority {
	const char *text;
	bool good;
	bool good_without_host;
};

Test(http_target, a_host_is_a_name_or_an_address_in_brackets_with_a_port)
{
	static const struct authority table[] = {
		{ "a", true, true },
		{ "a:", true, true },
		{ "a:0", true, true },
		{ "a:9", true, true },
		{ "a:8090", true, true },
		{ "a:/", false, false },
		{ "a::", false, false },
		{ "a:8a", false, false },
		{ "a/b", false, false },
		{ "a[1]", false, false },
		{ "", false, true },
		{ ":", false, true },
		{ ":80", false, true },
		{ "[", false, false },
		{ "[1", false, false },
		{ "[]", false, false },
		{ "[]:80", false, false },
		{ "[1]", true, true },
		{ "[::]", true, true },
		{ "[::1]:80", true, true },
		{ "[::1]80", false, false },
		{ "[::1]]", false, false },
		{ "[::ffff:192.0.2.1]", true, true },
		{ "[v1.a]", true, true },
		{ "[zz]", false, false },
		{ "[1z]", false, false },
		{ "[1 ]", false, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		const struct authority *row = &table[i];
		size_t len = strlen(row->text);
		for (const char *next = behind; *next; next++) {
			char text[32];
			memset(text, *next, sizeof(text));
			memcpy(text, row->text, len);
			cr_expect_eq(http_is_authority(text, len, false), row->good,
				"'%s' before '%c'", row->text, *next);
			cr_expect_eq(http_is_authority(text, len, true), row->good_without_host,
				"optional '%s' before '%c'", row->text, *next);
		}
	}
}

Test(http_target, an_address_in_brackets_has_its_characters_alone)
{
	static const char good[] = "0123456789abcdefABCDEFvV:.";
	for (int byte = 0; byte <= 0xff; byte++) {
		char host[] = { '[', (char)byte, ']' };
		cr_expect_eq(http_is_authority(host, sizeof(host), false),
			byte && strchr(good, byte) != NULL, "%d", byte);
	}
}

struct target {
	const char *method;
	const char *text;
	bool good;
};

Test(http_target, a_target_has_one_of_four_forms_that_fits_the_method)
{
	static const struct target table[] = {
		/* the path */
		{ "GET", "/", true },
		{ "GET", "/a", true },
		{ "GET", "a/", false },
		{ "GET", "a", false },
		{ "OPTIONS", "/a", true },
		{ "CONNECX", "/a", true },
		{ "CONNECTX", "/a", true },
		{ "GET", "/1234567", true },
		{ "GET", "/12345678", true },
		{ "GET", "/123456789abcdef", true },
		{ "GET", "/12345#", false },
		{ "GET", "/12345\x01", false },
		{ "GET", "/123456\x01", false },
		/* the host of a tunnel */
		{ "CONNECT", "a:80", true },
		{ "CONNECT", "[::1]:80", true },
		{ "CONNECT", "a", false },
		{ "CONNECT", ":80", false },
		{ "CONNECT", "a:80/", false },
		{ "CONNECT", "/a", false },
		{ "CONNECT", "http://a/", false },
		{ "CONNECX", "a:80", false },
		{ "CONNECTX", "a:80", false },
		{ "GET", "a:80", false },
		/* the server */
		{ "OPTIONS", "*", true },
		{ "OPTIONS", "**", false },
		{ "OPTIONS", "a", false },
		{ "OPTIONX", "*", false },
		{ "OPTIONSX", "*", false },
		{ "CONNECT", "*", false },
		{ "GET", "*", false },
		/* the whole URI */
		{ "GET", "x://a", true },
		{ "GET", "http://a", true },
		{ "GET", "http://a/", true },
		{ "GET", "http://a/b?c", true },
		{ "GET", "http://a?c", true },
		{ "GET", "http://a.b:80/c", true },
		{ "GET", "http://[::1]:80/c", true },
		{ "GET", "http:/a", false },
		{ "GET", "http:a", false },
		{ "GET", "://a", false },
		{ "GET", "http://", false },
		{ "GET", "http:///a", false },
		{ "GET", "http://?a", false },
		{ "GET", "http://:80/", false },
		{ "GET", "http://a@b/", false },
		{ "GET", "http://a.b]/", false },
		{ "GET", "http://a[/", false },
		/* a first byte that is not visible */
		{ "GET", " ://a", false },
		{ "GET", " ://a567", false },
		{ "GET", " ://a5678", false },
		{ "GET", "\x7f://a", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		const struct target *row = &table[i];
		size_t method_len = strlen(row->method);
		size_t len = strlen(row->text);
		for (const char *next = behind; *next; next++) {
			char method[16];
			char text[32];
			memset(method, ' ', sizeof(method));
			memcpy(method, row->method, method_len);
			memset(text, *next, sizeof(text));
			memcpy(text, row->text, len);
			cr_expect_eq(http_is_target(method, method_len, text, len), row->good,
				"%s '%s' before '%c'", row->method, row->text, *next);
		}
	}
}
