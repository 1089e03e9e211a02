/*
 * Another server's replies to a question that the agent forwarded. No bytes crash the reader; a
 * reply that is passed on answers the client's question under the client's id, and the question
 * ends in any case, whatever came.
 * The first byte: bit 0, over TCP; bit 1, the id of the question is put into each reply; bit 2, the
 * client's packet with the flag of a reply is put in front. Each reply has its length before it, in
 * one byte; over TCP the rest is the stream.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/dns/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { TCP = 1, WITH_ID = 2, QUESTION_FIRST = 4, REPLIES = 6 };

static struct ev_loop *loop;
static int udp = -1;
static int tcp = -1;
static char server[32];

struct question {
	struct dns_query query;
	uint8_t packet[NS_PACKETSZ];
	size_t len;
	bool ended;
};

static void listen_on(uint16_t port_n)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = port_n };
	socklen_t len = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert(bind(udp, (struct sockaddr *)&address, sizeof(address)) == 0);
	assert(getsockname(udp, (struct sockaddr *)&address, &len) == 0);
	tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (bind(tcp, (struct sockaddr *)&address, sizeof(address)) || listen(tcp, 8)) {
		/* The port is another's for TCP. */
		close(udp);
		close(tcp);
		listen_on(0);
		return;
	}
	snprintf(server, sizeof(server), "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
}

static void on_reply(void *context, const uint8_t *data, size_t len)
{
	struct question *question = context;
	assert(!question->ended);
	question->ended = true;
	assert(!data || dns_reply_matches(data, len, question->query.id, &question->query));
}

/* ---- the server ---- */

static void reply_by_udp(
	const struct dns_forwarding *forwarding, unsigned flags, const uint8_t *data, size_t len)
{
	struct sockaddr_in client;
	socklen_t client_len = sizeof(client);
	uint8_t query[NS_PACKETSZ];
	ssize_t got = recvfrom(
		udp, query, sizeof(query), 0, (struct sockaddr *)&client, &client_len);
	if (got < 2) {
		return;
	}
	if (flags & QUESTION_FIRST) {
		query[2] |= 0x80;
		query[3] = len > 0 ? data[0] : 0;
		(void)!sendto(udp, query, (size_t)got, 0, (struct sockaddr *)&client, client_len);
	}
	for (int i = 0; i < REPLIES && len > 0 && !((struct question *)forwarding->context)->ended;
		i++) {
		uint8_t reply[UINT8_MAX];
		size_t reply_len = data[0] < len - 1 ? data[0] : len - 1;
		memcpy(reply, data + 1, reply_len);
		if (flags & WITH_ID && reply_len >= 2) {
			memcpy(reply, query, 2);
		}
		(void)!sendto(udp, reply, reply_len, 0, (struct sockaddr *)&client, client_len);
		ev_run(loop, EVRUN_NOWAIT);
		data += 1 + reply_len;
		len -= 1 + reply_len;
	}
}

static void reply_by_tcp(unsigned flags, const uint8_t *data, size_t len)
{
	uint8_t query[NS_PACKETSZ + 2];
	int fd = accept4(tcp, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0) {
		return;
	}
	/* No port may wait for the end of connections that nobody needs. */
	const struct linger at_once = { .l_onoff = 1 };
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	ev_run(loop, EVRUN_NOWAIT); /* it sends */
	ssize_t got = recv(fd, query, sizeof(query), MSG_DONTWAIT);
	if (got > 4 && flags & QUESTION_FIRST) {
		query[4] |= 0x80;
		query[5] = len > 0 ? data[0] : 0;
		(void)!send(fd, query, (size_t)got, MSG_NOSIGNAL);
	} else if (got > 4 && flags & WITH_ID && len >= 4) {
		(void)!send(fd, data, 2, MSG_NOSIGNAL);
		(void)!send(fd, query + 2, 2, MSG_NOSIGNAL);
		(void)!send(fd, data + 4, len - 4, MSG_NOSIGNAL);
	} else {
		(void)!send(fd, data, len, MSG_NOSIGNAL);
	}
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 6; i++) { /* it reads in pieces */
		ev_run(loop, EVRUN_NOWAIT);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct dns_forward *forward;
	char *servers[] = { server };
	char *own[] = { (char[]){ "127.0.0.1:1" } };
	if (len == 0) {
		return 0;
	}
	if (!forward) {
		log_set(LOG_LEVEL_ERROR, false);
		loop = ev_loop_new(EVFLAG_AUTO);
		listen_on(0);
		forward = dns_forward_create(loop);
		dns_forward_set(forward, servers, 1, own, 1);
	}
	struct question question = { .ended = false };
	struct dns_forwarding forwarding = { .on_reply = on_reply, .context = &question };
	question.len = dns_query_write(&question.query, question.packet, "a.example.org", ns_t_a);
	const struct sockaddr_storage client = { .ss_family = AF_UNSPEC };
	assert(dns_forward_ask(forward, &forwarding, &client, &question.query, question.packet,
		question.len, data[0] & TCP));
	for (int i = 0; i < 2 && !question.ended; i++) { /* as many rounds as it asks */
		if (data[0] & TCP) {
			reply_by_tcp(data[0], data + 1, len - 1);
		} else {
			reply_by_udp(&forwarding, data[0], data + 1, len - 1);
		}
		ev_run(loop, EVRUN_NOWAIT);
	}
	if (!question.ended) {
		dns_forward_cancel(&forwarding); /* it would wait for its time to end */
	}
	return 0;
}
