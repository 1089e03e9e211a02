/* The addresses of a target, and the process that asks for them. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/check/resolve.h"
#include "tests/support/check_support.h"
#include "tests/support/descriptors.h"

/* ---- the resolver, in place of the C library's ---- */

enum resolver {
	KNOWS,        /* so many addresses: 10.0.0.1, 10.0.0.2 … */
	SAYS_NO,      /* with this error */
	SAYS_NOTHING, /* for ever */
};

static enum resolver resolver;
static int known;
static int problem;
static bool *asked; /* in memory that the processes share */

typedef int look_up(
	const char *, const char *, const struct addrinfo *restrict, struct addrinfo **restrict);

static struct addrinfo *make_addresses(look_up *real, const struct addrinfo *hints)
{
	struct addrinfo *list = NULL;
	for (int i = known; i >= 1; i--) {
		char text[32];
		struct addrinfo *item;
		snprintf(text, sizeof(text), "10.0.0.%d", i);
		if (real(text, "80", hints, &item)) {
			_exit(1);
		}
		item->ai_next = list;
		list = item;
	}
	return list;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **found)
{
	look_up *real = (look_up *)dlsym(RTLD_NEXT, "getaddrinfo");
	if (hints->ai_flags & AI_NUMERICHOST) {
		return real(host, service, hints, found);
	}
	*asked = true;
	switch (resolver) {
	case KNOWS:
		*found = make_addresses(real, hints);
		return 0;
	case SAYS_NO:
		errno = EMFILE;
		return problem;
	case SAYS_NOTHING:
		pause();
		break;
	}
	_exit(1);
}

/* ---- a look-up ---- */

static struct ev_loop *loop;
static struct check_resolve resolve;
static struct check_addresses addresses;
static bool done;
static int descriptors;

static void on_done(void *context)
{
	cr_expect_eq(context, &resolve);
	done = true;
}

static void begin(void)
{
	loop = ev_default_loop(0);
	ev_run(loop, EVRUN_NOWAIT);
	asked = mmap(
		NULL, sizeof(*asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check_resolve_init(&resolve, loop);
	descriptors = descriptors_count();
}

static void end(void)
{
	cr_expect(check_support_run_until_childless());
	cr_expect_eq(descriptors_count(), descriptors, "a descriptor is left");
}

TestSuite(check_resolve, .init = begin, .fini = end);

/* True when the answer is there at once. */
static bool start(const char *host)
{
	return check_resolve_start(&resolve, host, "80", &addresses, on_done, &resolve);
}

static void expect_asked(const char *host)
{
	cr_assert_not(start(host));
	cr_assert_not(done, "the caller hears of it from the loop");
	cr_assert(check_support_run_until_true(&done));
}

static const char *address_at(int index)
{
	static char text[INET6_ADDRSTRLEN];
	const struct check_address *address = &addresses.items[index];
	char service[8];
	cr_assert_lt(index, addresses.count);
	cr_assert_eq(
		getnameinfo((const struct sockaddr *)&address->address, address->len, text,
			sizeof(text), service, sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV),
		0);
	cr_expect_str_eq(service, "80");
	return text;
}

Test(check_resolve, an_address_needs_no_resolver)
{
	cr_assert(start("10.9.8.7"));
	cr_expect_eq(addresses.count, 1);
	cr_expect_str_eq(address_at(0), "10.9.8.7");
	cr_assert(start("2001:db8::1"));
	cr_expect_str_eq(address_at(0), "2001:db8::1");
	cr_expect_not(*asked);
}

Test(check_resolve, localhost_is_two_addresses_on_every_machine)
{
	cr_assert(start("LocalHost"));
	cr_expect_eq(addresses.count, 2);
	cr_expect_str_eq(address_at(0), "127.0.0.1");
	cr_expect_str_eq(address_at(1), "::1");
	cr_expect_not(*asked);
}

Test(check_resolve, a_path_is_a_unix_socket)
{
	cr_assert(start("/run/web.sock"));
	cr_expect_eq(addresses.count, 1);
	const struct sockaddr_un *address = (void *)&addresses.items[0].address;
	cr_expect_eq(address->sun_family, AF_UNIX);
	cr_expect_str_eq(address->sun_path, "/run/web.sock");
	cr_expect_eq(addresses.items[0].len, sizeof(*address));
}

Test(check_resolve, a_name_is_looked_up_by_a_process)
{
	known = 2;
	expect_asked("www.example.org");
	cr_expect_eq(addresses.count, 2);
	cr_expect_str_eq(address_at(0), "10.0.0.1");
	cr_expect_str_eq(address_at(1), "10.0.0.2");
	cr_expect(*asked);
}

Test(check_resolve, of_many_addresses_the_first_eight_count)
{
	known = 9;
	expect_asked("www.example.org");
	cr_expect_eq(addresses.count, 8);
	cr_expect_str_eq(address_at(7), "10.0.0.8");
}

Test(check_resolve, a_name_without_address_says_why)
{
	resolver = SAYS_NO;
	problem = EAI_NONAME;
	expect_asked("www.example.org");
	cr_expect_eq(addresses.count, 0);
	cr_expect_str_eq(addresses.problem, gai_strerror(EAI_NONAME));
	done = false;
	problem = EAI_SYSTEM;
	expect_asked("www.example.org");
	cr_expect_eq(addresses.count, 0);
	cr_expect_str_eq(addresses.problem, strerror(EMFILE));
}

Test(check_resolve, a_look_up_that_is_given_up_leaves_nothing)
{
	resolver = SAYS_NOTHING;
	cr_assert_not(start("www.example.org"));
	check_resolve_stop(&resolve);
	check_resolve_stop(&resolve);
	cr_expect(check_support_run_until_childless());
	cr_expect_not(done);
}
