#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/zookeeper/zookeeper.h"

static char *list(const char *addresses)
{
	char *copy = strdup(addresses);
	cr_assert(ne(ptr, copy, NULL));
	return copy;
}

static void assert_list(char *addresses, const char *wanted)
{
	cr_assert(eq(str, addresses, (char *)wanted));
	free(addresses);
}

Test(zk_servers, are_counted)
{
	cr_assert(eq(sz, registry_zk_servers_count(NULL), 0));
	cr_assert(eq(sz, registry_zk_servers_count(""), 0));
	cr_assert(eq(sz, registry_zk_servers_count("::1:2181"), 1));
	cr_assert(eq(sz, registry_zk_servers_count("127.0.0.1:1,::1:2,127.0.0.1:3"), 3));
}

Test(zk_servers, each_is_the_first_once_in_a_pass)
{
	char *addresses = list("a:1,b:22,c:333");
	registry_zk_servers_rotate(&addresses);
	cr_assert(eq(str, addresses, "b:22,c:333,a:1"));
	registry_zk_servers_rotate(&addresses);
	cr_assert(eq(str, addresses, "c:333,a:1,b:22"));
	registry_zk_servers_rotate(&addresses);
	assert_list(addresses, "a:1,b:22,c:333");
}

Test(zk_servers, one_or_none_has_no_order)
{
	char *addresses = NULL;
	registry_zk_servers_rotate(&addresses);
	registry_zk_servers_put_last(&addresses, "a:1");
	cr_assert(eq(ptr, addresses, NULL));
	addresses = list("a:1");
	registry_zk_servers_rotate(&addresses);
	registry_zk_servers_put_last(&addresses, "a:1");
	assert_list(addresses, "a:1");
}

Test(zk_servers, the_lost_one_is_tried_last)
{
	static const struct {
		const char *server, *wanted;
	} cases[] = {
		{ "a:1", "a:11,b:2,a:1" },
		{ "a:11", "b:2,a:1,a:11" },
		{ "b:2", "a:1,a:11,b:2" },
		{ "a:111", "a:1,a:11,b:2" },
		{ "", "a:1,a:11,b:2" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *addresses = list("a:1,a:11,b:2");
		registry_zk_servers_put_last(&addresses, cases[i].server);
		assert_list(addresses, cases[i].wanted);
	}
}

Test(zk_servers, a_pass_takes_half_the_timeout_and_the_next_ones_longer)
{
	static const struct {
		int timeout_ms;
		size_t count;
		unsigned tries;
		int64_t wanted_ms;
	} cases[] = {
		{ 30000, 3, 0, 5000 },
		{ 30000, 3, 2, 5000 },
		{ 30000, 3, 3, 10000 },
		{ 30000, 3, 6, 20000 },
		{ 30000, 3, 4000000000U, 20000 },
		{ 6000, 3, 0, 1000 },
		{ 6000, 5, 0, 1000 },
		{ 6000, 5, 5, 2000 },
		{ 4000, 2, 6, 3000 },
		{ 30000, 1, 0, 5000 },
		{ 30000, 1, 1, 10000 },
		{ 30000, 1, 2, 20000 },
		{ 30000, 0, 7, 20000 },
		{ 3600000, 2, 0, 600000 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t ms = registry_zk_try_ms(
			cases[i].timeout_ms, cases[i].count, cases[i].tries);
		cr_expect(eq(i64, ms, cases[i].wanted_ms), "case %zu", i);
	}
}
