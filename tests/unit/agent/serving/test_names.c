/* Names of the agent: the options of look-ups and of the DNS server, its sockets, its metrics. */

#include <arpa/nameser.h>
#include <resolv.h>

#include "tests/unit/agent/serving/serving_stage.h"

/* The sockets are those of a predecessor, whatever their ports. */
#define DNS "[dns]\nlisten = 127.0.0.1:53\n"
#define IN_ZONE(zone, host)                                                                        \
	"{\"type\":\"JSONServiceRecord\",\"berth:zone\":\"" zone                                   \
	"\",\"external\":[{\"api\":\"x\",\"addressType\":\"host/port\",\"protocol\":\"http\","     \
	"\"addresses\":[{\"host\":\"" host "\",\"port\":\"80\"}]}],\"internal\":[]}"

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

/* ---- look-ups ---- */

SERVED(serving_names, names_are_answered_below_the_domain, "[dns]\ndomain = example\n")
{
	put(serving, "/a", AT_HOST("10.0.0.1"));
	cr_expect(has(get(serving, "/v1/names/a.example"), "\"10.0.0.1\""), "%s", serving->answer);
	cr_expect(has(get(serving, "/v1/names/a.berth"), "HTTP/1.1 404"), "%s", serving->answer);
}

SERVED(serving_names, a_name_is_looked_up_in_another_registry_where_the_own_one_has_nothing,
	"failover = /net/east\n[registry east]\nurl = dir:@/east\n")
{
	put_east(serving, "/a", AT_HOST("10.0.0.7"));
	put(serving, "/b", AT_HOST("10.0.0.1"));
	cr_expect(has(get(serving, "/v1/names/a.berth"), "\"10.0.0.7\""), "%s", serving->answer);
	cr_expect(has(get(serving, "/v1/names/b.berth"), "\"10.0.0.1\""), "%s", serving->answer);
}

SERVED(serving_names, without_an_address_nothing_listens, "")
{
	struct upgrade passed = { 0 };
	cr_expect_null(serving->agent.dns);
	agent_names_apply_options(&serving->agent);
	agent_names_pass(&serving->agent, &passed);
	cr_expect_eq(passed.dns_count, 0);
	cr_expect(has_metric(serving, "berth_dns_queries_total{transport=\"udp\"} 0"));
	cr_expect(has_metric(serving, "berth_dns_replies_total{code=\"noerror\"} 0"));
}

/* ---- the server ---- */

PREPARED(serving_names, questions_are_answered_with_the_time_to_live, DNS "ttl = 7s\n")
{
	int fd = serve_names(serving);
	question(serving, fd, "a.berth", ns_t_a);
	cr_expect_eq(reply.code, ns_r_noerror);
	cr_expect_eq(reply.answers, 1);
	cr_expect_eq(reply.ttl, 7);
	reload(serving, DNS "ttl = 9s\nstale_ttl = 11s\n");
	question(serving, fd, "a.berth", ns_t_a);
	cr_expect_eq(reply.ttl, 9);
	change_registry(serving, REGISTRY_AWAY);
	question(serving, fd, "a.berth", ns_t_a);
	cr_expect_eq(reply.ttl, 11);
	cr_expect(has_metric(serving, "berth_dns_stale_total 1"));
}

PREPARED(serving_names, near_targets_come_first_where_they_are_preferred,
	"zone = eu/a\n" DNS "prefer = zone\n")
{
	int fd = serve_names(serving);
	put(serving, "/users", "");
	put(serving, "/users/joe", "");
	put(serving, "/users/joe/web", "");
	put(serving, "/users/joe/web/prod", "");
	put(serving, "/users/joe/web/prod/components", "");
	put(serving, "/users/joe/web/prod/components/a", IN_ZONE("eu/a", "10.0.0.2"));
	put(serving, "/users/joe/web/prod/components/b", IN_ZONE("us/b", "10.0.0.3"));
	question(serving, fd, "_http._tcp.prod.web.joe.berth", ns_t_srv);
	cr_expect_eq(reply.answers, 2);
	cr_expect_gt(reply.priority, 0);
	reload(serving, "zone = eu/a\n" DNS);
	question(serving, fd, "_http._tcp.prod.web.joe.berth", ns_t_srv);
	cr_expect_eq(reply.answers, 2);
	cr_expect_eq(reply.priority, 0);
}

/* Another server, which hears a question and answers nothing. */
static bool is_asked(struct serving *serving, int upstream_fd, int listen_fd)
{
	static unsigned number;
	unsigned char packet[512];
	char name[64];
	ssize_t got = -1;
	ev_io io;
	int fd = dial(listen_fd, false);
	text_printf(name, sizeof(name), "www%u.example.org", number++);
	size_t len = make_question(packet, sizeof(packet), name, ns_t_a);
	cr_assert_eq(send(fd, packet, len, 0), (ssize_t)len);
	ev_io_init(&io, on_bytes, upstream_fd, EV_READ);
	ev_io_start(serving->agent.loop, &io);
	for (int i = 0; i < 200 && got < 0; i++) {
		ev_run(serving->agent.loop, EVRUN_NOWAIT);
		got = recv(upstream_fd, packet, sizeof(packet), MSG_DONTWAIT);
		if (got > 4 && ns_get16(packet + got - 4) == ns_t_hinfo) {
			got = -1; /* the search for a loop */
		}
		if (got < 0 && recv(fd, packet, sizeof(packet), MSG_DONTWAIT) > 0) {
			break; /* the question is answered already */
		}
	}
	ev_io_stop(serving->agent.loop, &io);
	close(fd);
	return got > 0;
}

PREPARED(serving_names, other_names_are_refused_or_asked_elsewhere, DNS "forward = none\n")
{
	struct err err = ERR_INIT;
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	char text[128];
	int upstream = dns_socket_open("127.0.0.1:0", false, &err);
	cr_assert_eq(getsockname(upstream, (void *)&address, &len), 0);
	int fd = serve_names(serving);
	question(serving, fd, "www.example.org", ns_t_a);
	cr_expect_eq(reply.code, ns_r_refused);
	cr_expect(has_metric(serving, "berth_dns_forwarded_total 0"));
	text_printf(text, sizeof(text), DNS "forward = 127.0.0.1:%u\n", ntohs(address.sin_port));
	reload(serving, text);
	cr_expect(is_asked(serving, upstream, fd));
	cr_expect(has_metric(serving, "berth_dns_forwarded_total 1"));
	text_printf(text, sizeof(text), DNS "forward = 127.0.0.1:%u, 127.0.0.1:%u\n",
		ntohs(address.sin_port), ntohs(address.sin_port));
	reload(serving, text);
	cr_expect(is_asked(serving, upstream, fd));
	close(upstream);
}

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

#define FOUR(host) host "1:53, " host "2:53, " host "3:53, " host "4:53"
#define MANY(one, two) FOUR(one) ", " FOUR(two)

PREPARED(serving_names, there_may_be_sixteen_addresses,
	"[dns]\nlisten = " MANY("127.0.0.", "127.0.1.") ", " MANY("127.0.2.", "127.0.3.") "\n")
{
	struct upgrade passed = { 0 };
	const struct config_dns *config = &serving->agent.config->dns;
	cr_assert_eq(config->listen_count, DNS_MAX_LISTENERS);
	for (size_t i = 0; i < DNS_MAX_LISTENERS; i++) {
		inherit(serving, config->listen[i], false);
		inherit(serving, config->listen[i], true);
	}
	int last = serving->received.dns[2 * DNS_MAX_LISTENERS - 1].fd;
	ino_t file = file_of(last);
	serve(serving);
	cr_expect_eq(file_of(last), file);
	agent_names_pass(&serving->agent, &passed);
	cr_expect_eq(passed.dns_count, 2 * DNS_MAX_LISTENERS);
	agent_outputs_close(&serving->agent);
	agent_api_close(&serving->agent);
	serving->agent.http = NULL;
	agent_names_close(&serving->agent);
	for (size_t i = 0; i < passed.dns_count; i++) {
		cr_expect_neq(file_of(passed.dns[i].fd), 0);
		close(passed.dns[i].fd);
	}
	free(passed.dns);
}

PREPARED(serving_names, without_a_server_all_of_them_are, "")
{
	int fd = inherit(serving, "127.0.0.1:53", false);
	ino_t file = file_of(fd);
	serve(serving);
	cr_expect_neq(file_of(fd), file);
	cr_expect_eq(serving->received.dns_count, 0);
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

PREPARED(serving_names, an_address_that_cannot_be_had_is_named, "[dns]\nlisten = 192.0.2.1:53\n")
{
	struct err err = ERR_INIT;
	int fd = inherit(serving, "127.0.0.1:53", false);
	ino_t file = file_of(fd);
	base_open(serving);
	cr_expect_eq(try_serve(serving, &err), BERTH_FAILED);
	cr_expect(has(err.msg, "192.0.2.1:53"), "%s", err.msg);
	cr_expect_neq(file_of(fd), file);
}

/* ---- metrics ---- */

PREPARED(serving_names, replies_are_counted_by_their_code, DNS)
{
	unsigned char packet[512];
	int fd = serve_names(serving);
	question(serving, fd, "a.berth", ns_t_a);
	question(serving, fd, "b.berth", ns_t_a);
	question(serving, fd, "none.berth", ns_t_a);
	cr_expect_eq(reply.code, ns_r_nxdomain);
	question(serving, fd, "www.example.org", ns_t_a);
	size_t len = make_question(packet, sizeof(packet), "a.berth", ns_t_a);
	packet[2] |= ns_o_notify << 3;
	exchange(serving, fd, packet, len);
	cr_expect_eq(reply.code, ns_r_notimpl);
	len = make_question(packet, sizeof(packet), "a.berth", ns_t_a);
	exchange(serving, fd, packet, len - 3);
	cr_expect_eq(reply.code, ns_r_formerr);
	change_registry(serving, REGISTRY_AWAY);
	question(serving, fd, "later.berth", ns_t_a);
	cr_expect_eq(reply.code, ns_r_servfail);
	cr_expect(has_metric(serving, "berth_dns_queries_total{transport=\"udp\"} 7"));
	cr_expect(has_metric(serving, "berth_dns_queries_total{transport=\"tcp\"} 0"));
	cr_expect(has_metric(serving, "berth_dns_replies_total{code=\"noerror\"} 2"));
	cr_expect(has_metric(serving, "berth_dns_replies_total{code=\"nxdomain\"} 1"));
	cr_expect(has_metric(serving, "berth_dns_replies_total{code=\"refused\"} 1"));
	cr_expect(has_metric(serving, "berth_dns_replies_total{code=\"notimp\"} 1"));
	cr_expect(has_metric(serving, "berth_dns_replies_total{code=\"formerr\"} 1"));
	cr_expect(has_metric(serving, "berth_dns_replies_total{code=\"servfail\"} 1"));
	cr_expect(has_metric(serving, "berth_dns_truncated_total 0"));
	cr_expect(has_metric(serving, "berth_dns_limited_total 0"));
	cr_expect(has_metric(serving, "berth_dns_dropped_total 0"));
}

PREPARED(serving_names, a_packet_that_is_no_query_is_counted, DNS)
{
	unsigned char packet[512];
	int udp = serve_names(serving);
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	cr_assert_eq(dns_sockets(serving->agent.dns, sockets), 2);
	int fd = dial(udp, false);
	cr_assert_eq(send(fd, "?", 1, 0), 1);
	RUN_UNTIL(serving->agent.loop, dns_counts(serving->agent.dns)->dropped == 1);
	close(fd);
	cr_expect(has_metric(serving, "berth_dns_dropped_total 1"));
	fd = dial(sockets[1].fd, true);
	size_t len = make_question(packet + 2, sizeof(packet) - 2, "a.berth", ns_t_a);
	packet[0] = 0;
	packet[1] = (unsigned char)len;
	cr_assert_eq(send(fd, packet, len + 2, 0), (ssize_t)len + 2);
	RUN_UNTIL(serving->agent.loop, dns_counts(serving->agent.dns)->queries[1] == 1);
	close(fd);
	cr_expect(has_metric(serving, "berth_dns_queries_total{transport=\"tcp\"} 1"));
	go_on(serving);
}
