/* Names of the agent: the sockets of its DNS server. */

#include "tests/unit/agent/serving/serving_stage.h"

/* The sockets are those of a predecessor, whatever their ports. */
#define DNS "[dns]\nlisten = 127.0.0.1:53\n"

static int inherit(struct serving *serving, const char *address, bool tcp)
{
	struct err err = ERR_INIT;
	int fd = dns_socket_open("127.0.0.1:0", tcp, &err);
	cr_assert_geq(fd, 0, "%s", err.msg);
	upgrade_add_dns_socket(&serving->received, address, tcp, fd);
	return fd;
}

/* Which file it is; 0: it is closed. */
static ino_t file_of(int fd)
{
	struct stat info;
	return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

PREPARED(serving_names, sockets_of_addresses_that_are_configured_no_more_are_closed, DNS)
{
	int other = inherit(serving, "127.0.0.2:53", false);
	int another = inherit(serving, "127.0.0.3:53", true);
	ino_t file = file_of(other), last = file_of(another);
	int fd = inherit(serving, "127.0.0.1:53", false);
	inherit(serving, "127.0.0.1:53", true);
	serve(serving);
	cr_expect_neq(file_of(other), file);
	cr_expect_neq(file_of(another), last);
	cr_expect_eq(serving->received.dns_count, 0);
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	cr_assert_eq(dns_sockets(serving->agent.dns, sockets), 2);
	cr_expect_eq(sockets[0].fd, fd);
}
