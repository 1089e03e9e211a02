/* The servers of resolv.conf, of which this program has its own. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/dns/internal.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

#define RESOLV_CONF "/etc/resolv.conf"

static char file[SCRATCH_PATH]; /* in its place */
static bool is_unreadable;
static char asked[1024]; /* the servers that were connected to, each of which refuses */

int stat(const char *path, struct stat *status)
{
	int (*real)(const char *, struct stat *) = dlsym(RTLD_NEXT, "stat");
	return real(strcmp(path, RESOLV_CONF) == 0 ? file : path, status);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	if (is_unreadable && strcmp(path, RESOLV_CONF) == 0) {
		errno = EACCES;
		return NULL;
	}
	return real(strcmp(path, RESOLV_CONF) == 0 ? file : path, mode);
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	char host[INET6_ADDRSTRLEN];
	const struct sockaddr_in *ipv4 = (const void *)address;
	const struct sockaddr_in6 *ipv6 = (const void *)address;
	bool is_ipv4 = address->sa_family == AF_INET;
	size_t used = strlen(asked);
	(void)fd;
	(void)len;
	inet_ntop(address->sa_family, is_ipv4 ? (const void *)&ipv4->sin_addr : &ipv6->sin6_addr,
		host, sizeof(host));
	snprintf(asked + used, sizeof(asked) - used, "%s#%u ", host,
		ntohs(is_ipv4 ? ipv4->sin_port : ipv6->sin6_port));
	errno = ENETUNREACH;
	return -1;
}

struct stage {
	struct ev_loop *loop;
	struct dns_forward *forward;
	struct dns_forwarding forwarding;
	unsigned ends;
};

static void write_file(const char *text, long seconds)
{
	const struct timespec times[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };
	FILE *stream = fopen(RESOLV_CONF, "w");
	cr_assert_not_null(stream);
	fputs(text, stream);
	fclose(stream);
	cr_assert_eq(utimensat(AT_FDCWD, file, times, 0), 0);
}

static struct stage *stage_begin(struct stage *stage)
{
	static char *servers[] = { "system" };
	static char *own[] = { "192.0.2.9:53" };
	close(scratch_file(file));
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	stage->forward = dns_forward_create(stage->loop);
	dns_forward_set(stage->forward, servers, 1, own, 1);
	return stage;
}

static void stage_end(struct stage *stage)
{
	dns_forward_destroy(stage->forward);
	ev_loop_destroy(stage->loop);
	unlink(file);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(dns_system, name, struct stage *, stage, stage_begin(&(struct stage){ 0 }),    \
		stage_end)

static void on_reply(void *context, const uint8_t *data, size_t len)
{
	struct stage *stage = context;
	stage->ends++;
	cr_expect(!data && len == 0);
}

/* Those that are asked, in their order; "" when none can be. */
static const char *servers_asked(struct stage *stage, bool tcp)
{
	uint8_t packet[NS_PACKETSZ];
	struct dns_query query;
	struct sockaddr_storage client = { .ss_family = AF_INET };
	size_t len = dns_query_write(&query, packet, "a.example", ns_t_a);
	int before = descriptors_count();
	*asked = '\0';
	stage->ends = 0;
	stage->forwarding = (struct dns_forwarding){ .on_reply = on_reply, .context = stage };
	if (dns_forward_ask(
		    stage->forward, &stage->forwarding, &client, &query, packet, len, tcp)) {
		cr_expect_eq(stage->ends, 0, "not from inside the call");
		ev_run(stage->loop, 0); /* nothing is waited for */
		cr_expect_eq(stage->ends, 1);
	}
	cr_expect_eq(descriptors_count(), before);
	return asked;
}

STAGED(each_server_is_asked_twice_in_its_order)
{
	write_file("nameserver 192.0.2.1\nnameserver 2001:db8::1\n", 1000);
	cr_expect(dns_forward_enabled(stage->forward));
	for (int tcp = 0; tcp < 2; tcp++) {
		cr_expect_str_eq(servers_asked(stage, tcp),
			"192.0.2.1#53 2001:db8::1#53 192.0.2.1#53 2001:db8::1#53 ");
	}
}

STAGED(other_lines_and_our_own_address_name_no_server)
{
	write_file("# nameserver 192.0.2.1\nsearch a b\n  nameserver   192.0.2.2 # one\n"
		   "nameserver ns.example\nnameserver\nnameserver 192.0.2.9\n"
		   "nameservers 192.0.2.3\n; x\nnameserver 192.0.2.4",
		1000);
	cr_expect_str_eq(servers_asked(stage, false),
		"192.0.2.2#53 192.0.2.4#53 192.0.2.2#53 192.0.2.4#53 ");
}

STAGED(so_many_servers_are_asked_and_no_more)
{
	char text[1000] = "";
	char expected[1000] = "";
	for (int i = 1; i <= 9; i++) {
		size_t used = strlen(text);
		snprintf(text + used, sizeof(text) - used, "nameserver 198.51.100.%d\n", i);
	}
	for (int i = 0; i < 16; i++) {
		size_t used = strlen(expected);
		snprintf(expected + used, sizeof(expected) - used, "198.51.100.%d#53 ", 1 + i % 8);
	}
	write_file(text, 1000);
	cr_expect_str_eq(servers_asked(stage, false), expected);
}

STAGED(the_file_is_read_again_when_it_has_changed)
{
	write_file("nameserver 192.0.2.1\n", 1000);
	cr_expect_str_eq(servers_asked(stage, false), "192.0.2.1#53 192.0.2.1#53 ");
	write_file("nameserver 192.0.2.2\n", 1000); /* of the same time: it seems unchanged */
	cr_expect_str_eq(servers_asked(stage, false), "192.0.2.1#53 192.0.2.1#53 ");
	write_file("nameserver 192.0.2.3\n", 1001);
	cr_expect_str_eq(servers_asked(stage, false), "192.0.2.3#53 192.0.2.3#53 ");
	cr_assert_eq(unlink(file), 0);
	cr_expect_str_eq(
		servers_asked(stage, false), "192.0.2.3#53 192.0.2.3#53 ", "while it is away");
	write_file("search a\n", 1002);
	cr_expect_str_eq(servers_asked(stage, false), "");
	cr_expect(dns_forward_enabled(stage->forward));
}

/* The log while a question looks for the servers. */
static const char *log_of(struct stage *stage)
{
	static char log[4096];
	FILE *kept = tmpfile();
	int before = dup(STDERR_FILENO);
	cr_assert(kept && dup2(fileno(kept), STDERR_FILENO) >= 0);
	servers_asked(stage, false);
	dup2(before, STDERR_FILENO);
	close(before);
	ssize_t len = pread(fileno(kept), log, sizeof(log) - 1, 0);
	cr_assert_geq(len, 0);
	log[len] = '\0';
	fclose(kept);
	return log;
}

STAGED(a_file_that_names_no_server_is_warned_of_once)
{
	write_file("nameserver 192.0.2.1\n", 1000);
	cr_expect_str_eq(log_of(stage), "");
	write_file("nameserver 192.0.2.1\nnameserver 192.0.2.2\n", 1001);
	cr_expect_str_eq(log_of(stage), "");
	write_file("nameserver 192.0.2.9\n", 1002);
	cr_expect_not_null(strstr(log_of(stage), "names no server to forward to but ourselves"));
	cr_expect_str_eq(log_of(stage), "");
}

STAGED(a_file_that_cannot_be_read_names_no_server)
{
	write_file("nameserver 192.0.2.1\n", 1000);
	is_unreadable = true;
	cr_expect_str_eq(servers_asked(stage, false), "");
	is_unreadable = false;
}
