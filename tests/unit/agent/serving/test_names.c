/* Names of the agent: the options of look-ups and of the DNS server, its sockets, its metrics. */

#include <arpa/nameser.h>
#include <resolv.h>

#include "tests/unit/agent/serving/serving_stage.h"

/* The sockets are those of a predecessor, whatever their ports. */
#define DNS "[dns]\nlisten = 127.0.0.1:53\n"

/* The last reply. */
static struct {
	int code; /* -1: none came */
	unsigned answers;
	unsigned ttl;      /* of the first answer */
	unsigned priority; /* the highest of its SRV records */
} reply;

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

static void read_reply(const unsigned char *packet, size_t len)
{
	ns_msg message;
	ns_rr record;
	cr_assert_eq(ns_initparse(packet, (int)len, &message), 0);
	reply.code = (int)ns_msg_getflag(message, ns_f_rcode);
	reply.answers = ns_msg_count(message, ns_s_an);
	reply.ttl = reply.priority = 0;
	for (unsigned i = 0; i < reply.answers; i++) {
		cr_assert_eq(ns_parserr(&message, ns_s_an, (int)i, &record), 0);
		unsigned priority = ns_rr_type(record) == ns_t_srv ? ns_get16(ns_rr_rdata(record))
								   : 0;
		reply.ttl = i == 0 ? ns_rr_ttl(record) : reply.ttl;
		reply.priority = priority > reply.priority ? priority : reply.priority;
	}
}

static int dial(int listen_fd, bool tcp)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	cr_assert_eq(getsockname(listen_fd, (void *)&address, &len), 0);
	int fd = socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(fd, (void *)&address, sizeof(address)), 0);
	return fd;
}

/* Sends the packet to the listener, and reads the reply. */
static void exchange(
	struct serving *serving, int listen_fd, const unsigned char *packet, size_t len)
{
	unsigned char answer[1024];
	ssize_t got = -1;
	ev_io io;
	int fd = dial(listen_fd, false);
	cr_assert_eq(send(fd, packet, len, 0), (ssize_t)len);
	ev_io_init(&io, on_bytes, fd, EV_READ);
	ev_io_start(serving->agent.loop, &io);
	RUN_UNTIL(serving->agent.loop, (got = recv(fd, answer, sizeof(answer), MSG_DONTWAIT)) >= 0);
	ev_io_stop(serving->agent.loop, &io);
	close(fd);
	read_reply(answer, (size_t)got);
}

static size_t make_question(unsigned char *packet, size_t size, const char *name, int type)
{
	int len = res_mkquery(ns_o_query, name, ns_c_in, type, NULL, 0, NULL, packet, (int)size);
	cr_assert_gt(len, 0);
	return (size_t)len;
}

static void question(struct serving *serving, int listen_fd, const char *name, int type)
{
	unsigned char packet[512];
	size_t len = make_question(packet, sizeof(packet), name, type);
	exchange(serving, listen_fd, packet, len);
}

/* A server with the records a and b, over inherited sockets; the one over UDP. */
static int serve_names(struct serving *serving)
{
	int fd = inherit(serving, "127.0.0.1:53", false);
	inherit(serving, "127.0.0.1:53", true);
	serve(serving);
	connect_registry(serving);
	put(serving, "/a", AT_HOST("10.0.0.1"));
	put(serving, "/b", AT_HOST("10.0.0.2"));
	return fd;
}

/* ---- the server ---- */

PREPARED(serving_names, a_zone_says_of_an_unknown_name_what_it_is_to_say,
	DNS "[zone a.example]\nunknown = nxdomain\n[zone b.example]\n")
{
	int fd = serve_names(serving);
	put(serving, "//example", "");
	put(serving, "//example/a", "");
	put(serving, "//example/b", "");
	question(serving, fd, "none.a.example", ns_t_a);
	cr_expect_eq(reply.code, ns_r_nxdomain);
	question(serving, fd, "none.b.example", ns_t_a);
	cr_expect_eq(reply.code, ns_r_refused);
	reload(serving, DNS "[zone b.example]\nunknown = nxdomain\n");
	question(serving, fd, "none.b.example", ns_t_a);
	cr_expect_eq(reply.code, ns_r_nxdomain);
	question(serving, fd, "none.a.example", ns_t_a);
	cr_expect_eq(reply.code, ns_r_refused, "it is a name like any other");
	json_t *zones = zones_report(serving->agent.zones);
	cr_expect_eq(json_array_size(zones), 1);
	json_decref(zones);
}

/* ---- sockets ---- */

PREPARED(serving_names, sockets_of_addresses_that_are_configured_no_more_are_closed, DNS)
{
	int other = inherit(serving, "127.0.0.2:53", false);
	int another = inherit(serving, "127.0.0.3:53", true);
	ino_t file = file_of(other), last = file_of(another);
	int fd = serve_names(serving);
	question(serving, fd, "a.berth", ns_t_a);
	cr_expect_neq(file_of(other), file);
	cr_expect_neq(file_of(another), last);
	cr_expect_eq(serving->received.dns_count, 0);
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	cr_assert_eq(dns_sockets(serving->agent.dns, sockets), 2);
	cr_expect_eq(sockets[0].fd, fd);
}

PREPARED(serving_names, a_successor_gets_them_as_they_are, DNS)
{
	struct upgrade passed = { 0 };
	int fd = serve_names(serving);
	agent_names_pass(&serving->agent, &passed);
	cr_assert_eq(passed.dns_count, 2);
	cr_expect_str_eq(passed.dns[0].address, "127.0.0.1:53");
	cr_expect_eq(passed.dns[0].fd, fd);
	cr_expect_neq(passed.dns[0].tcp, passed.dns[1].tcp);
	agent_outputs_close(&serving->agent);
	agent_api_close(&serving->agent);
	serving->agent.http = NULL;
	agent_names_close(&serving->agent);
	cr_expect_null(serving->agent.dns);
	cr_expect_null(serving->agent.names);
	cr_expect_null(serving->agent.zones);
	cr_expect_null(serving->agent.domain);
	for (size_t i = 0; i < passed.dns_count; i++) {
		cr_expect_neq(file_of(passed.dns[i].fd), 0);
		close(passed.dns[i].fd);
	}
	free(passed.dns);
}

/* ---- metrics ---- */
