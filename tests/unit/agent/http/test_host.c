/* The hosts by which the TCP listener may be reached. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/http/host.h"
#include "lib/base/array.h"

static char *const names[] = { (char[]){ "localhost" }, (char[]){ "web-1.Example.org." },
	(char[]){ "web-1" } };

static bool is_own(const char *host)
{
	return http_host_is_own(host, strlen(host), names, 3);
}

Test(http_host, addresses_and_own_names_are_taken_with_and_without_a_port)
{
	static const char *const own[] = { "", "localhost", "LOCALHOST:8930", "localhost.",
		"127.0.0.1", "10.0.0.1:8930", "[::1]", "[2001:db8::1]:80", "web-1",
		"web-1.example.org", "web-1.example.org.:80" };
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		cr_expect(is_own(own[i]), "%s", own[i]);
	}
}

Test(http_host, other_names_are_not)
{
	static const char *const others[] = { "evil.example.org", "localhost.evil.example.org",
		"web-1.example.or", "web-1.example.orgs", "web", "127.0.0.1.evil.example.org",
		"1.2.3", "127.0.0.1000", ":80x", ".", "localhost%2e" };
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		cr_expect_not(is_own(others[i]), "%s", others[i]);
	}
}

Test(http_host, a_star_is_every_name)
{
	char *const all[] = { (char[]){ "*" } };
	cr_expect(http_host_is_own("evil.example.org", 16, all, 1));
	cr_expect_not(http_host_is_own("evil.example.org", 16, all, 0));
}
