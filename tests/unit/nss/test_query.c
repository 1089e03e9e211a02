/* LINK: nss/query.o nss/memory.o */
/* The NSS module's question: which names it asks for and gives, and what a dead agent costs. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "nss/query.h"
#include "tests/support/shifted_clock.h"

/* The agent: it is asked when the module waits. */
static struct {
	int listener;
	int client;         /* -1: nothing was accepted */
	int reads_at;       /* the wait in which it reads the question; 0: never */
	int answers_at;     /* the wait in which it answers; 0: never */
	const char *answer; /* its body */
	int waits;
	int waited_ms; /* in all, at most */
} agent;

static char domains[64]; /* the file with the module's domains */

int open(const char *path, int flags, ...)
{
	static const char name[] = "/nss-domains";
	size_t len = strlen(path);
	bool is_domains = len > sizeof(name) - 1 &&
		strcmp(path + len - (sizeof(name) - 1), name) == 0;
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	va_list more;
	va_start(more, flags);
	int mode = flags & O_CREAT ? va_arg(more, int) : 0;
	va_end(more);
	return real(is_domains ? domains : path, flags, mode);
}

static void read_question(void)
{
	char question[1024];
	agent.client = accept(agent.listener, NULL, NULL);
	cr_assert_gt(read(agent.client, question, sizeof(question)), 0);
}

static void answer_question(void)
{
	dprintf(agent.client, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
		strlen(agent.answer), agent.answer);
}

/* Criterion waits too, for others. */
static bool is_ours(int fd)
{
	struct sockaddr_un peer = { .sun_family = AF_UNSPEC };
	socklen_t len = sizeof(peer);
	const char *own = getenv("BERTH_SOCKET");
	return own && getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
		peer.sun_family == AF_UNIX && strcmp(peer.sun_path, own) == 0;
}

int poll(struct pollfd *descriptors, nfds_t count, int timeout_ms)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" /* gcc believes that poll() only writes */
	int fd = descriptors[0].fd;
#pragma GCC diagnostic pop
	if (count != 1 || !is_ours(fd)) {
		int (*real)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
		return real(descriptors, count, timeout_ms);
	}
	agent.waits++;
	if (agent.waits == agent.reads_at) {
		read_question();
	}
	if (agent.waits == agent.answers_at) {
		answer_question();
		return 1;
	}
	agent.waited_ms += timeout_ms;
	clock_shift_ms += timeout_ms;
	return 0;
}

static void begin(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/berth-nss-%d", (int)getpid());
	snprintf(domains, sizeof(domains), "%s.domains", address.sun_path);
	setenv("BERTH_SOCKET", address.sun_path, 1);
	setenv("BERTH_SHARED", "off", 1); /* it would ask one more question */
	agent.client = -1;
	agent.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(agent.listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(agent.listener, 16), 0);
	clock_stands = true;
	clock_shift_ms = 1000;
}

static void end(void)
{
	unlink(getenv("BERTH_SOCKET"));
	unlink(domains);
	close(agent.listener);
	close(agent.client);
}

TestSuite(nss_query, .init = begin, .fini = end);

static enum nss_query_status ask_name(struct nss_answer *answer, const char *name)
{
	agent.waits = 0;
	agent.waited_ms = 0;
	return nss_query_name(answer, name);
}

Test(nss_query, a_frozen_agent_costs_half_a_second_once)
{
	struct nss_answer answer;
	cr_expect_eq(ask_name(&answer, "db.services.berth"), NSS_QUERY_LATER);
	cr_expect_leq(agent.waited_ms, 500);
	for (int i = 0; i < 5; i++) {
		cr_expect_eq(ask_name(&answer, "db.services.berth"), NSS_QUERY_LATER);
		cr_expect_eq(agent.waits, 0);
	}
	/* It is asked again in the end. */
	clock_shift_ms += 60000;
	cr_expect_eq(ask_name(&answer, "db.services.berth"), NSS_QUERY_LATER);
	cr_expect_gt(agent.waits, 0);
	cr_expect_leq(agent.waited_ms, 500);
}

Test(nss_query, an_agent_that_reads_its_registry_has_the_time_for_that)
{
	struct nss_answer answer;
	agent.reads_at = 1;
	agent.answers_at = 2;
	agent.answer = "A 10.0.0.1\n";
	cr_expect_eq(ask_name(&answer, "db.services.berth"), NSS_QUERY_FOUND);
	cr_expect_eq(answer.count, 1);
}

Test(nss_query, an_agent_that_freezes_behind_the_question_is_left_alone_too)
{
	struct nss_answer answer;
	agent.reads_at = 1;
	cr_expect_eq(ask_name(&answer, "db.services.berth"), NSS_QUERY_LATER);
	cr_expect_leq(agent.waited_ms, 3000);
	cr_expect_eq(ask_name(&answer, "db.services.berth"), NSS_QUERY_LATER);
	cr_expect_eq(agent.waits, 0);
}

/* The outcome of a name for which an agent has an address. */
static enum nss_query_status ask_answered(const char *name)
{
	struct nss_answer answer;
	agent.reads_at = 1;
	agent.answers_at = 1;
	agent.answer = "A 10.0.0.1\n";
	return ask_name(&answer, name);
}

Test(nss_query, only_names_below_the_domain_are_asked_for)
{
	static const char *const others[] = { "www.example.org", "berth", ".berth", "berth.",
		"localhost", "notberth.example", "a.notberth", "a.berth.example.org", "" };
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		cr_expect_eq(ask_answered(others[i]), NSS_QUERY_ABSENT, "%s", others[i]);
		cr_expect_eq(agent.waits, 0, "%s", others[i]);
	}
	cr_expect_eq(ask_answered("db.services.berth"), NSS_QUERY_FOUND);
	cr_expect_eq(ask_answered("Db.Services.Berth."), NSS_QUERY_FOUND);
}

Test(nss_query, the_domains_are_those_of_the_file)
{
	FILE *file = fopen(domains, "w");
	fputs("svc.example.org\n\tother \n", file);
	fclose(file);
	cr_expect_eq(ask_answered("db.services.berth"), NSS_QUERY_ABSENT);
	cr_expect_eq(ask_answered("db.svc.example.org"), NSS_QUERY_FOUND);
	cr_expect_eq(ask_answered("db.other"), NSS_QUERY_FOUND);
	cr_expect_eq(ask_answered("db.example.org"), NSS_QUERY_ABSENT);
}

static const char *name_of_address(const char *line)
{
	static struct nss_answer answer;
	const struct in_addr address = { htonl(0x0a000001) };
	agent.waits = 0;
	agent.reads_at = 1;
	agent.answers_at = 1;
	agent.answer = line;
	cr_assert_eq(nss_query_address(&answer, AF_INET, &address), NSS_QUERY_FOUND);
	return answer.name;
}

Test(nss_query, an_address_has_a_plain_name_below_the_domain_or_none)
{
	cr_expect_str_eq(name_of_address("PTR c1.web-2.berth\n"), "c1.web-2.berth");
	cr_expect_str_eq(name_of_address("PTR www.example.org\n"), "");
	cr_expect_str_eq(name_of_address("PTR berth\n"), "");
	cr_expect_str_eq(name_of_address("PTR a;b.berth\n"), "");
	cr_expect_str_eq(name_of_address("PTR a\x1b[1m.berth\n"), "");
	cr_expect_str_eq(name_of_address("PTR a_b.berth\n"), "");
	cr_expect_str_eq(name_of_address("PTR a b.berth\nPTR c1.berth\n"), "c1.berth");
}
