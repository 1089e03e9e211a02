/*
 * The DNS server with names of the registry and another server behind it, a client of it over UDP
 * and one over TCP.
 */
#ifndef TESTS_UNIT_AGENT_DNS_SERVICE_STAGE_H
#define TESTS_UNIT_AGENT_DNS_SERVICE_STAGE_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <resolv.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/dns/dns.h"
#include "agent/dns/internal.h"
#include "lib/base/array.h"
#include "lib/base/text.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/names_stage.h"
#include "tests/support/run_until.h"
#include "tests/support/shifted_clock.h"

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

/* ---- another server in the same loop ---- */

#define FAR_RECORD "\xc0\x0c\0\1\0\1\0\0\0\7\0\4\x09\x09\x09\x09"

struct upstream {
	int fd;
	ev_io io;
	unsigned questions;
	int rcode;
	bool silent;
};

static inline void on_question(struct ev_loop *loop, ev_io *io, int events)
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
	/* The server looks for loops with questions of this type. */
	bool is_probe = ns_get16(packet + len - 4) == ns_t_hinfo;
	upstream->questions += !is_probe;
	packet[2] |= 0x80;
	packet[3] = (uint8_t)upstream->rcode;
	if (upstream->rcode == 0 && !is_probe) {
		packet[7] = 1;
		memcpy(packet + len, FAR_RECORD, sizeof(FAR_RECORD) - 1);
		len += sizeof(FAR_RECORD) - 1;
	}
	if (!upstream->silent || is_probe) {
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

static inline void on_pump(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)loop;
	(void)events;
	struct stage *stage = idle->data;
	registry_dispatch(stage->cache.registry, ++stage->cache.now_ms);
}

static inline struct sockaddr_in place_of(int fd)
{
	struct sockaddr_in place;
	socklen_t len = sizeof(place);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&place, &len), 0);
	return place;
}

static inline struct dns_options options_of(struct stage *stage, char *const *listen, bool forwards)
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

static inline int dial(const struct stage *stage, bool tcp)
{
	int fd = socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(fd, (const void *)&stage->address, sizeof(stage->address)), 0);
	return fd;
}

/* The port that the kernel gave to UDP may be taken over TCP: then another one is tried. */
static inline void serve(struct stage *stage)
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
static inline struct stage *stage_begin(struct stage *stage)
{
	struct err err = ERR_INIT;
	clock_stands = true;
	clock_shift_ms = 1000000;
	cache_stage_open(&stage->cache, &(struct cache_options){ .resync_ms = 600000 });
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		memory_put(stage->cache.registry, nodes[i][0], nodes[i][1]);
	}
	ev_idle_init(&stage->pump, on_pump);
	stage->pump.data = stage;
	ev_idle_start(stage->cache.loop, &stage->pump);
	stage->lookups = names_stage_create(stage->cache.loop, stage->cache.cache);
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

static inline void stage_end(struct stage *stage)
{
	close(stage->clients[0]);
	close(stage->clients[1]);
	dns_destroy(stage->dns);
	dns_destroy(NULL);
	names_stage_destroy(stage->lookups);
	ev_io_stop(stage->cache.loop, &stage->upstream.io);
	close(stage->upstream.fd);
	ev_idle_stop(stage->cache.loop, &stage->pump);
	cache_stage_close(&stage->cache);
}

/* ---- questions and replies ---- */

/* With the length in front; returns the bytes of both. */
static inline size_t write_question(uint8_t *out, const char *name, int type, bool recursion)
{
	struct dns_query query;
	size_t len = dns_query_write(&query, out + 2, name, (uint16_t)type);
	cr_assert_gt(len, 0, "%s", name);
	out[4] = recursion ? out[4] : 0;
	ns_put16((unsigned)len, out);
	return len + 2;
}

static inline void add_records(struct buffer *line, ns_msg *message, ns_sect section)
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
static inline bool receive(int fd, bool tcp)
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

static inline void send_question(
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

#endif
