/* From the names of servers to addresses, with a name server that says what a test wants. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lib/registry/zookeeper/worker/worker.h"

/* ---- in place of libc's ---- */

enum { MOST_ADDRESSES = 128 };

static const char *no_such_host;
static int lookups;
static int found;
static unsigned randoms[MOST_ADDRESSES];
static size_t random_count;
static size_t random_next;
static bool no_randomness;

static struct addrinfo *make(const char *host, const char *port, struct addrinfo *next)
{
	struct addrinfo *made = calloc(1, sizeof(*made));
	struct sockaddr_storage *address = calloc(1, sizeof(*address));
	struct sockaddr_in *in = (struct sockaddr_in *)address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;
	cr_assert(made && address);
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)atoi(port));
		made->ai_addrlen = sizeof(*in);
	} else if (inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)atoi(port));
		made->ai_addrlen = sizeof(*in6);
	} else {
		address->ss_family = AF_UNIX; /* of no use for a server */
		made->ai_addrlen = 1;
	}
	made->ai_addr = (struct sockaddr *)address;
	made->ai_next = next;
	found++;
	return made;
}

/* "many" has more addresses than there may be servers, "odd" a useless one. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **ret_found)
{
	lookups++;
	cr_assert_eq(hints->ai_socktype, SOCK_STREAM, "or each address comes three times");
	cr_assert(hints->ai_flags & AI_NUMERICSERV, "a port is no question for a name server");
	cr_assert_eq(hints->ai_family, AF_UNSPEC);
	if (no_such_host && strcmp(host, no_such_host) == 0) {
		*ret_found = (struct addrinfo *)1; /* nobody looks at it */
		return EAI_NONAME;
	}
	*ret_found = NULL;
	if (strcmp(host, "many") == 0) {
		for (int i = MOST_ADDRESSES - 1; i >= 0; i--) {
			char text[32];
			snprintf(text, sizeof(text), "10.0.0.%d", i);
			*ret_found = make(text, port, *ret_found);
		}
	} else if (strcmp(host, "odd") == 0) {
		*ret_found = make("10.0.1.2", port, make("?", port, make("10.0.1.1", port, NULL)));
	} else if (strcmp(host, "none") != 0) {
		*ret_found = make(host, port, NULL);
	}
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	while (list) {
		struct addrinfo *next = list->ai_next;
		free(list->ai_addr);
		free(list);
		list = next;
		found--;
	}
}

ssize_t getrandom(void *out, size_t size, unsigned flags)
{
	cr_assert_eq(size, sizeof(unsigned));
	cr_assert(flags & GRND_NONBLOCK, "a machine that has just started must not wait");
	if (no_randomness) {
		return -1;
	}
	cr_assert_lt(random_next, random_count);
	memcpy(out, &randoms[random_next++], size);
	return (ssize_t)size;
}

/* ---- the tests ---- */

static char text[8192];

static int resolve(const char *servers, struct err *err)
{
	struct buffer out;
	buffer_init(&out, sizeof(text));
	*err = (struct err)ERR_INIT;
	int code = zk_worker_resolve(&out, servers, err);
	snprintf(text, sizeof(text), "%s", code ? "" : buffer_text(&out));
	buffer_finish(&out);
	cr_assert_eq(found, 0, "addresses are left");
	return code;
}

Test(resolve, an_address_is_written_as_the_client_reads_it)
{
	struct err err;
	cr_expect_eq(resolve("127.0.0.1:2181", &err), 0);
	cr_expect_str_eq(text, "127.0.0.1:2181");
	cr_expect_eq(resolve("[2001:db8::1]:2182", &err), 0);
	cr_expect_str_eq(text, "2001:db8::1:2182", "the last colon is before the port");
	cr_expect_eq(resolve("::1:2183", &err), 0);
	cr_expect_str_eq(text, "::1:2183");
	no_such_host = "[::1";
	cr_expect_neq(resolve("[::1:2183", &err), 0, "half a pair of brackets is a part of it");
	cr_expect_str_eq(err.msg, "cannot resolve '[::1': Name or service not known");
	no_such_host = "::1]";
	cr_expect_neq(resolve("::1]:2183", &err), 0);
	cr_expect_str_eq(err.msg, "cannot resolve '::1]': Name or service not known");
}

Test(resolve, an_address_counts_once_and_one_of_another_kind_not_at_all)
{
	struct err err;
	no_randomness = true;
	cr_expect_eq(resolve("10.0.1.1:1,10.0.1.1:1,10.0.1.1:1", &err), 0);
	cr_expect_str_eq(text, "10.0.1.1:1");
	cr_expect_eq(resolve("10.0.1.1:1,10.0.1.2:1,10.0.1.2:1", &err), 0);
	cr_expect_eq(strlen(text), strlen("10.0.1.1:1,10.0.1.2:1"));
	cr_expect_eq(resolve("10.0.1.1:1,odd:1", &err), 0);
	cr_expect_eq(strlen(text), strlen("10.0.1.1:1,10.0.1.2:1"));
	cr_expect(strstr(text, "10.0.1.1:1") && strstr(text, "10.0.1.2:1"), "%s", text);
	cr_expect_eq(resolve("10.0.1.1:1,10.0.1.1:2", &err), 0, "another port is another server");
	cr_expect_eq(strlen(text), strlen("10.0.1.1:1,10.0.1.1:2"));
}

Test(resolve, of_more_than_64_addresses_the_first_ones_are_taken)
{
	struct err err;
	bool seen[MOST_ADDRESSES] = { false };
	size_t count = 0;
	no_randomness = true;
	cr_assert_eq(resolve("many:2181", &err), 0);
	for (char *rest = text, *one; (one = strsep(&rest, ","));) {
		unsigned number = MOST_ADDRESSES;
		cr_assert_eq(sscanf(one, "10.0.0.%u:2181", &number), 1, "%s", one);
		cr_assert(number < 64 && !seen[number], "%s", one);
		seen[number] = true;
		count++;
	}
	cr_expect_eq(count, 64);
}

/* All that can be drawn for three servers gives each order, and each once. */
Test(resolve, each_order_is_as_likely_as_any_other)
{
	static const char *const orders[] = { "1.0.0.1:1,2.0.0.2:2,3.0.0.3:3",
		"1.0.0.1:1,3.0.0.3:3,2.0.0.2:2", "2.0.0.2:2,1.0.0.1:1,3.0.0.3:3",
		"2.0.0.2:2,3.0.0.3:3,1.0.0.1:1", "3.0.0.3:3,1.0.0.1:1,2.0.0.2:2",
		"3.0.0.3:3,2.0.0.2:2,1.0.0.1:1" };
	int times[6] = { 0 };
	struct err err;
	for (unsigned i = 0; i < 6; i++) {
		randoms[0] = 3000 + i / 2;
		randoms[1] = 2000 + i % 2;
		random_count = 2;
		random_next = 0;
		cr_assert_eq(resolve("1.0.0.1:1,2.0.0.2:2,3.0.0.3:3", &err), 0);
		cr_expect_eq(random_next, 2);
		for (size_t order = 0; order < 6; order++) {
			times[order] += strcmp(text, orders[order]) == 0;
		}
	}
	for (size_t order = 0; order < 6; order++) {
		cr_expect_eq(times[order], 1, "%s: %d", orders[order], times[order]);
	}
}
