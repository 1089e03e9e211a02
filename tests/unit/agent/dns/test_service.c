/*
 * The DNS server with names of the registry and another server behind it: questions over UDP and
 * TCP, and the replies.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/dns/dns.h"
#include "agent/dns/internal.h"
#include "lib/base/text.h"
#include "tests/support/cache_stage.h"
#include "tests/support/descriptors.h"
#include "tests/support/memory_backend.h"
#include "tests/support/run_until.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

enum { TTL_S = 5, STALE_TTL_S = 1 };

#define AT(host, attributes)                                                                       \
	"{\"type\":\"JSONServiceRecord\"," attributes "\"external\":[{\"api\":\"x\","              \
	"\"addressType\":\"host/port\",\"protocol\":\"http\",\"addresses\":[{\"host\":\"" host     \
	"\",\"port\":\"80\"}]}],\"internal\":[]}"

static const char *const nodes[][2] = {
	{ "/a", AT("10.0.0.1", "\"description\":\"d\",\"yarn:ip\":\"10.0.0.1\",") },
	{ "/six", AT("2001:db8::1", "") },
	{ "/far", AT("far.example", "") },
	{ "/near", AT("a.berth", "") },
	{ "/one", AT("10.0.0.9", "\"yarn:ip\":\"10.0.0.9\",") },
	{ "/two", AT("10.0.0.9", "\"yarn:ip\":\"10.0.0.9\",") },
	{ "/none", "" },
};

/* ---- a kernel that takes one reply at a time, or refuses the first ---- */

static bool takes_one;
static int refusals;

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	int (*real)(int, struct mmsghdr *, unsigned, int) = dlsym(RTLD_NEXT, "sendmmsg");
	if (refusals > 0) {
		refusals--;
		errno = ENOBUFS;
		return -1;
	}
	return real(fd, messages, takes_one ? 1 : count, flags);
}

/* ---- another server in the same loop ---- */

#define FAR_RECORD "\xc0\x0c\0\1\0\1\0\0\0\7\0\4\x09\x09\x09\x09"

struct upstream {
	int fd;
	ev_io io;
	unsigned questions;
	int rcode;
	bool silent;
};

static void on_question(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	struct upstream *upstream = io->data;
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	uint8_t packet[1024];
	ssize_t len = recvfrom(upstream->fd, packet, 512, MSG_DONTWAIT, (void *)&from, &from_len);
	if (len <= 0) {
		return;
	}
	upstream->questions++;
	packet[2] |= 0x80;
	packet[3] = (uint8_t)upstream->rcode;
	if (upstream->rcode == 0) {
		packet[7] = 1;
		memcpy(packet + len, FAR_RECORD, sizeof(FAR_RECORD) - 1);
		len += sizeof(FAR_RECORD) - 1;
	}
	if (!upstream->silent) {
		cr_assert_eq(
			sendto(upstream->fd, packet, (size_t)len, 0, (void *)&from, from_len), len);
	}
}

/* ---- the stage ---- */

struct stage {
	struct cache_stage cache;
	ev_idle pump;
	struct names_lookups *lookups;
	struct dns *dns;
	struct upstream upstream;
	char upstream_address[32];
	struct sockaddr_in address; /* of the server, the same over UDP and TCP */
	int clients[2];             /* over UDP and TCP */
};

static void on_pump(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)loop;
	(void)events;
	struct stage *stage = idle->data;
	registry_dispatch(stage->cache.registry, ++stage->cache.now_ms);
}

static struct sockaddr_in place_of(int fd)
{
	struct sockaddr_in place;
	socklen_t len = sizeof(place);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&place, &len), 0);
	return place;
}

static struct dns_options options_of(struct stage *stage, char *const *listen, bool forwards)
{
	static char *servers[1];
	servers[0] = stage->upstream_address;
	return (struct dns_options){ .domain = "berth",
		.listen = listen,
		.listen_count = 1,
		.ttl_s = TTL_S,
		.stale_ttl_s = STALE_TTL_S,
		.forward = servers,
		.forward_count = forwards };
}

static int dial(const struct stage *stage, bool tcp)
{
	int fd = socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(fd, (const void *)&stage->address, sizeof(stage->address)), 0);
	return fd;
}

/* The port that the kernel gave to UDP may be taken over TCP: then another one is tried. */
static void serve(struct stage *stage)
{
	char address[32];
	char *listen[] = { address };
	struct err err = ERR_INIT;
	int code = -1;
	for (int i = 0; i < 100 && code; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		stage->address = (struct sockaddr_in){ .sin_family = AF_INET,
			.sin_addr = { htonl(INADDR_LOOPBACK) } };
		cr_assert_eq(bind(fd, (const void *)&stage->address, sizeof(stage->address)), 0);
		stage->address = place_of(fd);
		close(fd);
		text_printf(
			address, sizeof(address), "127.0.0.1:%u", ntohs(stage->address.sin_port));
		const struct dns_options options = options_of(stage, listen, true);
		err_clear(&err);
		code = dns_create(&stage->dns, stage->cache.loop, stage->lookups, &options, &err);
	}
	cr_assert_eq(code, 0, "%s", err.msg);
}

/* The clock is stopped: a slow machine costs nobody's patience. */
static struct stage *stage_begin(struct stage *stage)
{
	struct err err = ERR_INIT;
	clock_stands = true;
	clock_shift_ms = 1000000;
	cache_stage_open(&stage->cache, &(struct cache_options){ .resync_ms = 600000 });
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		memory_put(stage->cache.registry, nodes[i][0], nodes[i][1]);
	}
	ev_idle_init(&stage->pump, on_pump);
	stage->pump.data = stage;
	ev_idle_start(stage->cache.loop, &stage->pump);
	stage->lookups = names_lookups_create(stage->cache.loop, stage->cache.cache, "berth");
	stage->upstream.fd = dns_socket_open("127.0.0.1:0", false, &err);
	cr_assert_geq(stage->upstream.fd, 0, "%s", err.msg);
	ev_io_init(&stage->upstream.io, on_question, stage->upstream.fd, EV_READ);
	stage->upstream.io.data = &stage->upstream;
	ev_io_start(stage->cache.loop, &stage->upstream.io);
	text_printf(stage->upstream_address, sizeof(stage->upstream_address), "127.0.0.1:%u",
		ntohs(place_of(stage->upstream.fd).sin_port));
	serve(stage);
	stage->clients[0] = dial(stage, false);
	stage->clients[1] = dial(stage, true);
	return stage;
}

static void stage_end(struct stage *stage)
{
	close(stage->clients[0]);
	close(stage->clients[1]);
	dns_destroy(stage->dns);
	dns_destroy(NULL);
	names_lookups_destroy(stage->lookups);
	ev_io_stop(stage->cache.loop, &stage->upstream.io);
	close(stage->upstream.fd);
	ev_idle_stop(stage->cache.loop, &stage->pump);
	cache_stage_close(&stage->cache);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(dns_service, name, struct stage *, stage, stage_begin(&(struct stage){ 0 }),   \
		stage_end)

/* ---- questions and replies ---- */

/* With the length in front; returns the bytes of both. */
static size_t write_question(uint8_t *out, const char *name, int type, bool recursion)
{
	struct dns_query query;
	size_t len = dns_query_write(&query, out + 2, name, (uint16_t)type);
	cr_assert_gt(len, 0, "%s", name);
	out[4] = recursion ? out[4] : 0;
	ns_put16((unsigned)len, out);
	return len + 2;
}

static void add_records(struct buffer *line, ns_msg *message, ns_sect section)
{
	for (int i = 0; i < ns_msg_count(*message, section); i++) {
		ns_rr record;
		char text[INET6_ADDRSTRLEN];
		char name[NS_MAXDNAME];
		cr_assert_eq(ns_parserr(message, section, i, &record), 0);
		const uint8_t *data = ns_rr_rdata(record);
		switch ((int)ns_rr_type(record)) {
		case ns_t_a:
			buffer_printf(line, " A %s %u",
				inet_ntop(AF_INET, data, text, sizeof(text)), ns_rr_ttl(record));
			break;
		case ns_t_aaaa:
			buffer_printf(line, " AAAA %s %u",
				inet_ntop(AF_INET6, data, text, sizeof(text)), ns_rr_ttl(record));
			break;
		case ns_t_cname:
		case ns_t_ptr:
		case ns_t_ns:
			cr_assert_gt(dn_expand(ns_msg_base(*message), ns_msg_end(*message), data,
					     name, sizeof(name)),
				0);
			buffer_printf(line, " =%s %u", name, ns_rr_ttl(record));
			break;
		case ns_t_srv:
			buffer_printf(line, " SRV %u", ns_get16(data + 4));
			break;
		case ns_t_opt:
			break;
		default:
			buffer_printf(line, " type%d", (int)ns_rr_type(record));
		}
	}
}

/* "0 aa ra: answers / authority": the code and the flags that are set. */
static const char *reply_line(const uint8_t *reply, size_t len)
{
	static char text[1024];
	struct buffer line;
	ns_msg message;
	cr_assert_eq(ns_initparse(reply, (int)len, &message), 0);
	cr_assert(ns_msg_getflag(message, ns_f_qr));
	buffer_init(&line, sizeof(text) - 1);
	buffer_printf(&line, "%d%s%s:", ns_msg_getflag(message, ns_f_rcode),
		ns_msg_getflag(message, ns_f_aa) ? " aa" : "",
		ns_msg_getflag(message, ns_f_ra) ? " ra" : "");
	add_records(&line, &message, ns_s_an);
	if (ns_msg_count(message, ns_s_ns) > 0) {
		buffer_append_text(&line, " /");
		add_records(&line, &message, ns_s_ns);
	}
	strcpy(text, buffer_text(&line));
	buffer_finish(&line);
	return text;
}

static uint8_t reply[1 << 16];

/* True when there is a whole reply; it lies behind its length. */
static bool receive(int fd, bool tcp)
{
	ssize_t len = recv(
		fd, reply + (tcp ? 0 : 2), sizeof(reply) - 2, MSG_DONTWAIT | (tcp ? MSG_PEEK : 0));
	if (len > 0 && !tcp) {
		ns_put16((unsigned)len, reply);
		return true;
	}
	if (len < 2 || (size_t)len < ns_get16(reply) + 2U) {
		return false;
	}
	return recv(fd, reply, ns_get16(reply) + 2U, MSG_DONTWAIT) > 0;
}

static const char *hear(struct stage *stage, bool tcp)
{
	RUN_UNTIL(stage->cache.loop, receive(stage->clients[tcp], tcp));
	return reply_line(reply + 2, ns_get16(reply));
}

static void send_question(
	const struct stage *stage, bool tcp, const char *name, int type, bool recursion)
{
	uint8_t packet[2 + NS_PACKETSZ];
	size_t len = write_question(packet, name, type, recursion);
	size_t skip = tcp ? 0 : 2;
	cr_assert_eq(send(stage->clients[tcp], packet + skip, len - skip, MSG_NOSIGNAL),
		(ssize_t)(len - skip));
}

static const char *ask(struct stage *stage, bool tcp, const char *name, int type, bool recursion)
{
	send_question(stage, tcp, name, type, recursion);
	return hear(stage, tcp);
}

static const struct {
	const char *name;
	int type;
	bool recursion;
	const char *line;
	unsigned asked; /* questions to the other server */
} rows[] = {
	{ "a.berth", ns_t_a, true, "0 aa ra: A 10.0.0.1 5", 0 },
	{ "a.berth", ns_t_aaaa, true, "0 aa ra: / type6", 0 },
	{ "a.berth", ns_t_srv, true, "0 aa ra: SRV 80", 0 },
	{ "a.berth", ns_t_txt, true, "0 aa ra: type16 type16", 0 },
	{ "a.berth", ns_t_mx, true, "0 aa ra: / type6", 0 },
	{ "six.berth", ns_t_aaaa, true, "0 aa ra: AAAA 2001:db8::1 5", 0 },
	{ "six.berth", ns_t_a, false, "0 aa ra: / type6", 0 },
	{ "none.berth", ns_t_a, true, "0 aa ra: / type6", 0 },
	{ "nowhere.berth", ns_t_a, true, "3 aa ra: / type6", 0 },
	{ "berth", ns_t_soa, true, "0 aa ra: type6", 0 },
	{ "berth", ns_t_ns, true, "0 aa ra: =localhost 5", 0 },
	{ "1.0.0.10.in-addr.arpa", ns_t_ptr, true, "0 aa ra: =a.berth 5", 0 },
	/* With recursion, another server is asked for the addresses of an alias. */
	{ "far.berth", ns_t_a, true, "0 aa ra: =far.example 5 A 9.9.9.9 7", 1 },
	{ "far.berth", ns_t_a, false, "0 aa ra: =far.example 5", 0 },
	{ "far.berth", ns_t_txt, true, "0 aa ra: =far.example 5", 0 },
	{ "near.berth", ns_t_a, true, "0 aa ra: =a.berth 5", 0 },
	{ "www.example", ns_t_a, true, "0: A 9.9.9.9 7", 1 },
	{ "berth", ns_t_axfr, true, "5 ra:", 0 },
	{ "www.example", ns_t_axfr, true, "5 ra:", 0 },
};

STAGED(each_question_has_its_reply)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int tcp = 0; tcp < 2; tcp++) {
			/* The question to the other server is over UDP as this client's is. */
			bool is_left_out = tcp && rows[i].asked > 0;
			stage->upstream.questions = 0;
			if (!is_left_out) {
				cr_expect_str_eq(ask(stage, tcp, rows[i].name, rows[i].type,
							 rows[i].recursion),
					rows[i].line, "%s %d %s", rows[i].name, rows[i].type,
					reply_line(reply + 2, ns_get16(reply)));
				cr_expect_eq(stage->upstream.questions, rows[i].asked, "%s",
					rows[i].name);
			}
		}
	}
	const struct dns_counts *counts = dns_counts(stage->dns);
	cr_expect_eq(counts->queries[0], sizeof(rows) / sizeof(rows[0]));
	cr_expect_eq(counts->queries[1], sizeof(rows) / sizeof(rows[0]) - 2);
	cr_expect_eq(counts->replies[ns_r_nxdomain], 2);
	cr_expect_eq(counts->replies[ns_r_refused], 4);
	cr_expect_eq(counts->replies[ns_r_noerror], 2 * sizeof(rows) / sizeof(rows[0]) - 8);
	cr_expect_eq(counts->forwarded, 1);
	cr_expect_eq(counts->exchanges, 0);
	cr_expect_eq(counts->stale, 0);
	cr_expect_eq(counts->truncated, 0);
	cr_expect_eq(counts->dropped, 0);
	cr_expect_eq(counts->connections, 1);
}

STAGED(a_reply_has_the_code_of_another_server_s_reply_about_the_alias)
{
	stage->upstream.rcode = ns_r_nxdomain;
	cr_expect_str_eq(ask(stage, false, "far.berth", ns_t_a, true), "3 aa ra: =far.example 5");
	cr_expect_str_eq(ask(stage, false, "www.example", ns_t_a, true), "3:");
}

STAGED(another_server_that_fails_or_is_silent_is_a_failure)
{
	stage->upstream.rcode = ns_r_servfail;
	cr_expect_str_eq(ask(stage, false, "far.berth", ns_t_a, true), "2 aa ra: =far.example 5");
	stage->upstream.silent = true;
	send_question(stage, false, "www.example", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 1);
	clock_shift_ms += 2001;
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	clock_shift_ms += 2001;
	cr_expect_str_eq(hear(stage, false), "2 ra:");
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
}

/* The alias may be another one when the answer comes: what it says is of another name. */
STAGED(an_alias_that_changed_meanwhile_has_no_answer)
{
	stage->upstream.silent = true;
	send_question(stage, false, "far.berth", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, stage->upstream.questions == 1);
	memory_put(stage->cache.registry, "/far", AT("other.example", ""));
	cache_stage_turn(&stage->cache);
	stage->upstream.silent = false;
	clock_shift_ms += 2001; /* it is asked again */
	cr_expect_str_eq(hear(stage, false), "2 ra:");
	cr_expect_str_eq(ask(stage, false, "far.berth", ns_t_a, true),
		"0 aa ra: =other.example 5 A 9.9.9.9 7");
}

STAGED(without_another_server_names_outside_are_refused)
{
	const struct dns_options options = options_of(stage, NULL, false);
	dns_set_options(stage->dns, &options);
	for (int tcp = 0; tcp < 2; tcp++) {
		cr_expect_str_eq(ask(stage, tcp, "www.example", ns_t_a, true), "5:");
		cr_expect_str_eq(
			ask(stage, tcp, "far.berth", ns_t_a, true), "0 aa: =far.example 5");
	}
	cr_expect_eq(stage->upstream.questions, 0);
}

STAGED(while_the_registry_is_away_answers_are_stale_and_others_fail)
{
	ask(stage, false, "a.berth", ns_t_a, true);
	memory_set_state(stage->cache.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage->cache);
	cr_expect_str_eq(ask(stage, false, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 1");
	cr_expect_str_eq(ask(stage, false, "other.berth", ns_t_a, true), "2 ra:");
	cr_expect_eq(dns_counts(stage->dns)->stale, 1);
}

/* ---- over UDP ---- */

enum { MANY = 150 };

static void send_many(struct stage *stage)
{
	ask(stage, false, "a.berth", ns_t_a, true);
	for (int i = 0; i < MANY; i++) {
		send_question(stage, false, "a.berth", ns_t_a, true);
	}
}

STAGED(a_burst_of_questions_is_answered_whole)
{
	for (int round = 0; round < 2; round++) {
		int replies = 0;
		takes_one = round == 1;
		send_many(stage);
		RUN_UNTIL(
			stage->cache.loop, (replies += receive(stage->clients[0], false)) == MANY);
		cr_expect_eq(
			dns_counts(stage->dns)->replies[0], (uint64_t)(MANY + 1) * (round + 1));
	}
}

STAGED(a_burst_does_not_have_an_iteration_of_the_loop_to_itself)
{
	send_many(stage);
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	cr_expect_lt(dns_counts(stage->dns)->queries[0], MANY);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->queries[0] == MANY + 1);
}

STAGED(a_reply_that_the_kernel_refuses_is_lost_alone)
{
	int replies = 0;
	send_many(stage);
	refusals = 1;
	RUN_UNTIL(stage->cache.loop, (replies += receive(stage->clients[0], false)) == MANY - 1);
	cr_expect_eq(dns_counts(stage->dns)->queries[0], MANY + 1);
}

STAGED(an_address_of_several_components_has_all_their_names)
{
	ask(stage, false, "one.berth", ns_t_a, true);
	ask(stage, false, "two.berth", ns_t_a, true);
	const char *line = ask(stage, false, "9.0.0.10.in-addr.arpa", ns_t_ptr, true);
	cr_expect_not_null(strstr(line, " =one.berth 5"), "%s", line);
	cr_expect_not_null(strstr(line, " =two.berth 5"), "%s", line);
}

STAGED(packets_that_are_no_questions_are_dropped_and_counted)
{
	static uint8_t junk[4000];
	static const size_t lens[] = { 0, 1, NS_HFIXEDSZ - 1, 2049, sizeof(junk) };
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		cr_assert_geq(send(stage->clients[0], junk, lens[i], 0), 0);
	}
	RUN_UNTIL(stage->cache.loop,
		dns_counts(stage->dns)->dropped == sizeof(lens) / sizeof(lens[0]));
	cr_expect_eq(dns_counts(stage->dns)->queries[0], 0);
	cr_expect_str_eq(ask(stage, false, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
}

/* A reply comes from the address that was asked, also where the server listens on all. */
STAGED(a_wildcard_answers_from_the_address_that_was_asked)
{
	static const char *const asked[] = { "127.0.0.1", "127.0.0.2" };
	char any[] = "0.0.0.0:0";
	char *listen[] = { any };
	struct dns_socket sockets[2];
	struct dns *dns;
	struct err err = ERR_INIT;
	const struct dns_options options = options_of(stage, listen, true);
	cr_assert_eq(dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), 0, "%s",
		err.msg);
	cr_assert_eq(dns_sockets(dns, sockets), 2);
	struct sockaddr_in place = place_of(sockets[sockets[0].tcp].fd);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(inet_pton(AF_INET, asked[i], &place.sin_addr), 1);
		close(stage->clients[0]);
		stage->clients[0] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		cr_assert_eq(connect(stage->clients[0], (const void *)&place, sizeof(place)), 0);
		cr_expect_str_eq(
			ask(stage, false, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
	}
	dns_destroy(dns);
}

/* ---- over TCP ---- */

STAGED(questions_of_a_connection_may_come_together_and_in_pieces)
{
	uint8_t packet[3 * NS_PACKETSZ];
	size_t first = write_question(packet, "a.berth", ns_t_a, true);
	size_t len = first + write_question(packet + first, "six.berth", ns_t_aaaa, true);
	cr_assert_eq(send(stage->clients[1], packet, len, 0), (ssize_t)len);
	cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
	cr_expect_str_eq(hear(stage, true), "0 aa ra: AAAA 2001:db8::1 5");
	for (size_t i = 0; i < first; i++) {
		uint64_t before = dns_counts(stage->dns)->queries[1];
		cr_assert_eq(send(stage->clients[1], packet + i, 1, 0), 1);
		ev_run(stage->cache.loop, EVRUN_ONCE);
		cr_expect(i == first - 1 || dns_counts(stage->dns)->queries[1] == before);
	}
	cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
}

static bool is_closed(int fd)
{
	uint8_t byte;
	ssize_t len = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
	return len == 0 || (len < 0 && errno == ECONNRESET);
}

STAGED(a_client_that_sends_no_more_gets_its_replies)
{
	stage->upstream.questions = 0;
	send_question(stage, true, "a.berth", ns_t_a, true);
	send_question(stage, true, "six.berth", ns_t_aaaa, true);
	cr_assert_eq(shutdown(stage->clients[1], SHUT_WR), 0);
	cr_expect_str_eq(hear(stage, true), "0 aa ra: A 10.0.0.1 5");
	cr_expect_str_eq(hear(stage, true), "0 aa ra: AAAA 2001:db8::1 5");
	RUN_UNTIL(stage->cache.loop, is_closed(stage->clients[1]));
	cr_expect_eq(dns_counts(stage->dns)->connections, 0);
	clock_shift_ms += 20000; /* no timer of it is left */
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
}

STAGED(a_client_that_goes_takes_its_questions_with_it)
{
	int before = descriptors_count();
	memory_set_answering(stage->cache.registry, false);
	send_question(stage, true, "a.berth", ns_t_a, true);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->exchanges == 1);
	const struct linger at_once = { .l_onoff = 1 };
	setsockopt(stage->clients[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(stage->clients[1]);
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 0);
	cr_expect_eq(dns_counts(stage->dns)->exchanges, 0);
	memory_set_answering(stage->cache.registry, true);
	cache_stage_turn(&stage->cache);
	stage->clients[1] = dial(stage, true);
	cr_expect_str_eq(ask(stage, true, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
	cr_expect_eq(descriptors_count(), before + 1, "the server's end of it");
}

STAGED(a_connection_ends_when_it_is_idle)
{
	for (int i = 0; i < 3; i++) { /* a question makes it anything but idle */
		ask(stage, true, "a.berth", ns_t_a, true);
		clock_shift_ms += 9000;
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
		cr_assert_eq(dns_counts(stage->dns)->connections, 1);
	}
	clock_shift_ms += 2000;
	RUN_UNTIL(stage->cache.loop, is_closed(stage->clients[1]));
	cr_expect_eq(dns_counts(stage->dns)->connections, 0);
}

STAGED(the_connection_that_was_used_longest_ago_makes_room)
{
	enum { MOST = 128 };
	static int others[MOST];
	RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == 1);
	for (size_t i = 0; i < MOST - 1; i++) {
		others[i] = dial(stage, true);
		RUN_UNTIL(stage->cache.loop, dns_counts(stage->dns)->connections == i + 2);
	}
	ask(stage, true, "a.berth", ns_t_a, true);
	cr_assert_not(is_closed(others[0]));
	others[MOST - 1] = dial(stage, true);
	RUN_UNTIL(stage->cache.loop, is_closed(others[0]));
	cr_expect_eq(dns_counts(stage->dns)->connections, MOST);
	cr_expect_not(is_closed(stage->clients[1]));
	cr_expect_not(is_closed(others[1]));
	for (size_t i = 0; i < MOST; i++) {
		close(others[i]);
	}
}

/* ---- listening ---- */

STAGED(an_address_that_cannot_be_had_is_named_and_leaves_nothing)
{
	char taken[32];
	char free_address[] = "127.0.0.1:0";
	char *addresses[] = { free_address, taken };
	char *many[DNS_MAX_LISTENERS + 1];
	struct dns_options options = options_of(stage, addresses, false);
	struct dns *dns = NULL;
	struct err err = ERR_INIT;
	int before = descriptors_count();
	text_printf(taken, sizeof(taken), "127.0.0.1:%u", ntohs(stage->address.sin_port));
	options.listen_count = 2;
	cr_assert_eq(
		dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), BERTH_FAILED);
	cr_expect_null(dns);
	cr_expect_not_null(strstr(err.msg, taken), "%s", err.msg);
	for (size_t i = 0; i <= DNS_MAX_LISTENERS; i++) {
		many[i] = free_address;
	}
	options.listen = many;
	options.listen_count = DNS_MAX_LISTENERS + 1;
	err_clear(&err);
	cr_assert_eq(
		dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), BERTH_FAILED);
	cr_expect_not_null(strstr(err.msg, "at most 16 addresses"), "%s", err.msg);
	cr_expect_eq(descriptors_count(), before);
	options.listen_count = DNS_MAX_LISTENERS;
	cr_assert_eq(dns_create(&dns, stage->cache.loop, stage->lookups, &options, &err), 0);
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	cr_expect_eq(dns_sockets(dns, sockets), 2 * DNS_MAX_LISTENERS);
	dns_destroy(dns);
	cr_expect_eq(descriptors_count(), before);
}

STAGED(a_successor_takes_the_sockets_over)
{
	struct dns_socket sockets[2];
	char address[64];
	char *listen[] = { address };
	struct err err = ERR_INIT;
	cr_assert_eq(dns_pass_sockets(stage->dns, sockets), 2);
	cr_assert_str_eq(sockets[0].address, sockets[1].address);
	strcpy(address, sockets[0].address);
	dns_destroy(stage->dns);
	struct dns_options options = options_of(stage, listen, true);
	options.inherited = sockets;
	options.inherited_count = 2;
	cr_assert_eq(dns_create(&stage->dns, stage->cache.loop, stage->lookups, &options, &err), 0,
		"%s", err.msg);
	for (int tcp = 0; tcp < 2; tcp++) {
		cr_expect_str_eq(ask(stage, tcp, "a.berth", ns_t_a, true), "0 aa ra: A 10.0.0.1 5");
	}
}
