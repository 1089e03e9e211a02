#include <criterion/criterion.h>
#include <string.h>

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
