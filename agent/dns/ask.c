/* One packet to another server, over UDP or TCP, and the reply to it. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/dns/internal.h"
#include "lib/base/random_bytes.h"

#define TIMEOUT_MS 2000
#define READ_BYTES 2048 /* at once */

static void close_socket(struct dns_ask *ask)
{
	timer_stop(&ask->timer);
	if (ask->fd >= 0) {
		ev_io_stop(ask->loop, &ask->io);
		close(ask->fd);
		ask->fd = -1;
	}
}

static void end(struct dns_ask *ask, uint8_t *reply, size_t len)
{
	close_socket(ask);
	ask->on_end(ask->context, reply, len);
}

static void on_timeout(void *context)
{
	end(context, NULL, 0);
}

static void on_udp(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct dns_ask *ask = io->data;
	uint8_t reply[4096];
	ssize_t len = events & EV_ERROR /* the kernel refuses to watch it */
		? -1
		: recv(ask->fd, reply, sizeof(reply), MSG_DONTWAIT);
	if (len < 0) {
		if (events & EV_ERROR || (errno != EAGAIN && errno != EINTR)) {
			end(ask, NULL, 0); /* no server listens there */
		}
	} else if (dns_reply_matches(reply, (size_t)len, ask->id, &ask->query)) {
		end(ask, reply, (size_t)len);
	}
}

static bool send_rest(struct dns_ask *ask)
{
	while (ask->sent < ask->len + 2) {
		ssize_t sent = send(ask->fd, ask->packet + ask->sent, ask->len + 2 - ask->sent,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0) {
			return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
		}
		ask->sent += (size_t)sent;
	}
	ev_io_stop(ask->loop, &ask->io);
	ev_io_set(&ask->io, ask->fd, EV_READ);
	ev_io_start(ask->loop, &ask->io);
	return true;
}

static void on_tcp(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct dns_ask *ask = io->data;
	if (events & (EV_WRITE | EV_ERROR)) {
		if (events & EV_ERROR || !send_rest(ask)) {
			end(ask, NULL, 0);
		}
		return;
	}
	struct buffer *reply = &ask->reply;
	char *room = buffer_reserve(reply, READ_BYTES);
	ssize_t len = room ? recv(ask->fd, room, READ_BYTES, MSG_DONTWAIT) : 0;
	if (len <= 0) {
		if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
			end(ask, NULL, 0);
		}
		return;
	}
	buffer_added(reply, (size_t)len);
	size_t whole = reply->len < 2 ? 2 : ns_get16((const uint8_t *)reply->data) + 2;
	if (reply->len < 2 || reply->len < whole) {
		return;
	}
	uint8_t *message = (uint8_t *)reply->data + 2;
	bool matches = dns_reply_matches(message, whole - 2, ask->id, &ask->query);
	end(ask, matches ? message : NULL, matches ? whole - 2 : 0);
}

static bool send_to(struct dns_ask *ask, const struct sockaddr_storage *server)
{
	socklen_t len = server->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						      : sizeof(struct sockaddr_in);
	ask->fd = socket(server->ss_family,
		(ask->tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ask->fd < 0) {
		return false;
	}
	ev_io_init(&ask->io, ask->tcp ? on_tcp : on_udp, ask->fd, ask->tcp ? EV_WRITE : EV_READ);
	ask->io.data = ask;
	if (connect(ask->fd, (const struct sockaddr *)server, len) < 0 && errno != EINPROGRESS) {
		return false;
	}
	if (!random_bytes(&ask->id, sizeof(ask->id))) {
		return false;
	}
	ns_put16(ask->id, ask->packet + 2);
	ns_put16((unsigned)ask->len, ask->packet);
	ev_io_start(ask->loop, &ask->io);
	if (ask->tcp) {
		buffer_clear(&ask->reply);
		ask->sent = 0;
		return true;
	}
	return send(ask->fd, ask->packet + 2, ask->len, MSG_DONTWAIT | MSG_NOSIGNAL) ==
		(ssize_t)ask->len;
}

void dns_ask_init(struct dns_ask *ask, struct ev_loop *loop, const struct dns_query *query,
	const uint8_t *packet, size_t len, bool tcp)
{
	ask->query = *query;
	ask->loop = loop;
	ask->packet = allocate_zeroed(len + 2, 1);
	memcpy(ask->packet + 2, packet, len);
	ask->len = len;
	ask->fd = -1;
	ask->tcp = tcp;
	buffer_init(&ask->reply, DNS_TCP_BYTES + 2 + READ_BYTES);
	timer_init(&ask->timer, loop, "question to another server", on_timeout, ask);
}

void dns_ask_send(struct dns_ask *ask, const struct sockaddr_storage *server)
{
	close_socket(ask);
	timer_start(&ask->timer, send_to(ask, server) ? TIMEOUT_MS : 0);
}

void dns_ask_finish(struct dns_ask *ask)
{
	close_socket(ask);
	free(ask->packet);
	buffer_finish(&ask->reply);
}
