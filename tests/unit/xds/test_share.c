/* The share of one client: connections, memory, work. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/program/memory.h"
#include "xds/share.h"

TestSuite(share, .timeout = 60);

enum { CONNECTIONS = 8, EACH = 6, MEBIBYTE = 1 << 20 };

static struct shares *shares;

static void begin(void)
{
	memory_init();
	shares = shares_create(CONNECTIONS);
}

static void end(void)
{
	shares_destroy(shares);
}

/* Our end of a connection whose other end is a user of this machine. */
static int of_user(void)
{
	int ends[2];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	close(ends[1]);
	return ends[0];
}

/* Our end of one whose other end has an address of the loopback network. */
static int of_address(uint32_t last)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in own = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + last) };
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	cr_assert_eq(bind(client, (struct sockaddr *)&own, sizeof(own)), 0);
	cr_assert_eq(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	close(client);
	return fd;
}

static struct share *join(int fd)
{
	struct share *share = share_join(shares, fd);
	close(fd);
	return share;
}

Test(share, connections_of_one_client_leave_others_theirs, .init = begin, .fini = end)
{
	struct share *first = join(of_user());
	for (int i = 1; i < EACH; i++) {
		cr_expect_eq(join(of_user()), first);
	}
	cr_expect_null(join(of_user()));
	cr_expect(join(of_address(0)) != NULL);
	share_leave(first);
	cr_expect_eq(join(of_user()), first);
}

Test(share, addresses_are_clients_of_their_own, .init = begin, .fini = end)
{
	struct share *first = join(of_address(0));
	struct share *second = join(of_address(1));
	cr_expect_neq(first, second);
	cr_expect_eq(join(of_address(1)), second);
	cr_expect_neq(join(of_user()), first);
}

Test(share, a_client_without_connections_is_forgotten_when_its_names_are, .init = begin,
	.fini = end)
{
	struct share *share = join(of_address(0));
	share_quota(share)->names = 1;
	share_leave(share);
	join(of_user());
	cr_expect_eq(join(of_address(0)), share);
	share_leave(share);
	share_quota(share)->names = 0;
	/* A sanitizer would report it otherwise. */
	join(of_user());
	cr_expect_eq(share_quota(join(of_address(0)))->names, 0);
}

Test(share, memory_of_one_client_is_bounded, .init = begin, .fini = end)
{
	struct share *share = join(of_user());
	cr_expect(share_hold(share, 0, SHARE_BYTES));
	cr_expect(!share_hold(share, 0, 1));
	cr_expect(share_hold(share, 2, 1), "less is always good");
	cr_expect(!share_hold(share, 0, MEBIBYTE));
	cr_expect(share_hold(join(of_address(0)), 0, MEBIBYTE), "it is not that of others");
}

Test(share, memory_of_all_clients_is_bounded, .init = begin, .fini = end)
{
	enum { CLIENTS = SHARE_ALL_BYTES / SHARE_BYTES };
	for (uint32_t i = 0; i < CLIENTS; i++) {
		cr_expect(share_hold(join(of_address(i)), 0, SHARE_BYTES));
	}
	struct share *last = join(of_address(CLIENTS));
	cr_expect(!share_hold(last, 0, 1));
	cr_expect(share_hold(last, 1, 0));
}

Test(share, work_beyond_a_burst_and_half_of_the_time_is_waited_for, .init = begin, .fini = end)
{
	struct share *share = join(of_user());
	int64_t now_us = 5000000;
	share_work(share, SHARE_BURST_US, now_us);
	cr_expect_eq(share_pause_us(share, now_us), 0);
	share_work(share, 1000, now_us);
	cr_expect_eq(share_pause_us(share, now_us), 2000);
	cr_expect_eq(share_pause_us(share, now_us + 1000), 1000);
	cr_expect_eq(share_pause_us(share, now_us + 2000), 0);
	cr_expect_eq(share_pause_us(join(of_address(0)), now_us), 0, "others do not wait");
	share_work(share, 1000 * (int64_t)SHARE_BURST_US, now_us);
	cr_expect_eq(share_pause_us(share, now_us), 2 * (SHARE_DEBT_US - SHARE_BURST_US));
	/* Work of half of the time never makes it wait. */
	now_us += 1000000000;
	for (int i = 0; i < 1000; i++) {
		now_us += 20000;
		share_work(share, 10000, now_us);
		cr_assert_eq(share_pause_us(share, now_us), 0);
	}
	/* All of the time soon does. */
	int turns = 0;
	while (share_pause_us(share, now_us) == 0) {
		now_us += 10000;
		share_work(share, 10000, now_us);
		turns++;
	}
	cr_expect_leq(turns, 2 * SHARE_BURST_US / 10000 + 2);
}
