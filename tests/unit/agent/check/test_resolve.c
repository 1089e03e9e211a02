/* The addresses of a target, and the process that asks for them. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/check/resolve.h"
#include "lib/base/array.h"
#include "tests/support/check_support.h"
#include "tests/support/descriptors.h"

/* ---- the resolver and the kernel, in place of the C library's ---- */

enum resolver {
	KNOWS,            /* so many addresses: 10.0.0.1, 10.0.0.2 … */
	COUNTS,           /* the descriptors of its process are the last number of the address */
	SAYS_NO,          /* with this error */
	SAYS_NOTHING,     /* for ever */
	DIES,             /* without an answer */
	ANSWERS_NONSENSE, /* so many addresses, and a text without an end */
};

static enum resolver resolver;
static int known;
static int problem;
static bool *asked; /* in memory that the processes share */
static bool no_processes;
static bool no_watches;

typedef int look_up(
	const char *, const char *, const struct addrinfo *restrict, struct addrinfo **restrict);

static struct addrinfo *make_addresses(look_up *real, const struct addrinfo *hints, int first)
{
	struct addrinfo *list = NULL;
	for (int i = known; i >= 1; i--) {
		char text[32];
		struct addrinfo *item;
		snprintf(text, sizeof(text), "10.0.0.%d", first + i - 1);
		if (real(text, "80", hints, &item)) {
			_exit(1);
		}
		item->ai_next = list;
		list = item;
	}
	return list;
}

static _Noreturn void answer_nonsense(void)
{
	struct check_addresses answer = { .count = known };
	memset(answer.problem, 'x', sizeof(answer.problem));
	(void)!write(STDIN_FILENO, &answer, sizeof(answer));
	_exit(0);
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
		*found = make_addresses(real, hints, 1);
		return 0;
	case COUNTS:
		*found = make_addresses(real, hints, descriptors_count());
		return 0;
	case SAYS_NO:
		errno = EMFILE;
		return problem;
	case SAYS_NOTHING:
		pause();
		break;
	case DIES:
		break;
	case ANSWERS_NONSENSE:
		answer_nonsense();
	}
	_exit(1);
}

pid_t fork(void)
{
	pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
	if (no_processes) {
		errno = EAGAIN;
		return -1;
	}
	return real();
}

int epoll_ctl(int set, int operation, int file, struct epoll_event *event)
{
	int (*real)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl");
	if (no_watches && operation == EPOLL_CTL_ADD) {
		no_watches = false;
		errno = ENOSPC;
		return -1;
	}
	return real(set, operation, file, event);
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

Test(check_resolve, a_process_that_dies_is_a_problem)
{
	resolver = DIES;
	expect_asked("www.example.org");
	cr_expect_eq(addresses.count, 0);
	cr_expect_str_eq(addresses.problem, "the resolver process ended without an answer");
}

Test(check_resolve, a_process_that_answers_nonsense_harms_nobody)
{
	static const int counts[] = { -1, CHECK_ADDRESSES_MAX + 1 };
	resolver = ANSWERS_NONSENSE;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		known = counts[i];
		done = false;
		expect_asked("www.example.org");
		cr_expect_eq(addresses.count, 0);
		cr_expect_str_eq(addresses.problem, "the resolver process ended without an answer");
	}
	known = 0;
	done = false;
	expect_asked("www.example.org");
	cr_expect_eq(strnlen(addresses.problem, sizeof(addresses.problem)),
		sizeof(addresses.problem) - 1);
}

/* Among the agent's descriptors are locks. */
Test(check_resolve, the_process_has_none_of_the_agents_descriptors)
{
	int open_in_agent = dup(STDERR_FILENO);
	resolver = COUNTS;
	known = 1;
	expect_asked("www.example.org");
	/* Its own three, as descriptors_count() counts them. */
	cr_expect_str_eq(address_at(0), "10.0.0.6");
	close(open_in_agent);
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

static bool has_asked(void *context)
{
	(void)context;
	return *asked;
}

Test(check_resolve, the_process_ends_with_the_agent)
{
	check_support_be_subreaper();
	resolver = SAYS_NOTHING;
	pid_t agent = fork();
	if (agent == 0) {
		(void)start("www.example.org");
		pause();
	}
	cr_assert(check_support_run_until(has_asked, NULL));
	kill(agent, SIGKILL);
	cr_expect(check_support_run_until_childless());
}

Test(check_resolve, without_processes_there_is_no_address)
{
	no_processes = true;
	cr_assert(start("www.example.org"));
	cr_expect_eq(addresses.count, 0);
	cr_expect_str_eq(addresses.problem, strerror(EAGAIN));
}

Test(check_resolve, without_descriptors_there_is_no_address)
{
	struct rlimit before, none;
	int probe = dup(STDERR_FILENO);
	close(probe);
	getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit){ (rlim_t)probe, before.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	bool at_once = start("www.example.org");
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert(at_once);
	cr_expect_eq(addresses.count, 0);
	cr_expect_str_eq(addresses.problem, strerror(EMFILE));
}

Test(check_resolve, a_process_that_cannot_be_watched_is_a_problem)
{
	resolver = SAYS_NOTHING;
	cr_assert_not(start("www.example.org"));
	no_watches = true;
	cr_assert(check_support_run_until_true(&done));
	cr_expect_eq(addresses.count, 0);
	cr_expect_str_eq(addresses.problem, "the kernel refuses to watch the resolver process");
}
