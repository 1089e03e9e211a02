/*
 * Forwards questions for other zones: sends the client's packet unchanged, but for an id of our
 * own, from a port that the kernel chooses for each question, to one server after another. Keeps no
 * answers.
 *
 *   ask --> UDP or TCP to the server --(no answer in time, or refused)--> the next one --> give up
 *
 * A query that came over TCP is forwarded over TCP, so that a reply of any size reaches its client.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/dns/internal.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define MAX_SERVERS 8
#define MAX_IN_FLIGHT 256
#define TIMES_THE_FREE 3 /* a client may have so many times as many questions as are free */
#define V6_NETWORK_BYTES 8
#define ROUNDS 2
#define TIMEOUT_MS 2000
#define READ_BYTES 2048 /* at once */

struct server {
	struct sockaddr_storage address;
	socklen_t len;
};

struct dns_forward {
	struct ev_loop *loop;
	bool system;
	struct timespec read_at; /* when resolv.conf was last changed */
	struct server servers[MAX_SERVERS];
	size_t count;
	struct server own[DNS_MAX_LISTENERS];
	size_t own_count;
	struct list in_flight;
	size_t in_flight_count;
};

static bool same_address(const struct server *a, const struct server *b)
{
	return a->len == b->len && memcmp(&a->address, &b->address, a->len) == 0;
}

static void add_server(struct dns_forward *forward, const char *text)
{
	struct server server;
	memset(&server, 0, sizeof(server));
	if (forward->count == MAX_SERVERS ||
		!dns_address_read(&server.address, &server.len, text)) {
		return;
	}
	for (size_t i = 0; i < forward->own_count; i++) {
		if (same_address(&forward->own[i], &server)) {
			return; /* a question to ourselves would come back for ever */
		}
	}
	forward->servers[forward->count++] = server;
}

/* The name servers of resolv.conf, read again when the file has changed. */
static void read_system(struct dns_forward *forward)
{
	struct stat status;
	if (stat(RESOLV_CONF, &status) < 0 ||
		memcmp(&status.st_mtim, &forward->read_at, sizeof(status.st_mtim)) == 0) {
		return;
	}
	forward->read_at = status.st_mtim;
	forward->count = 0;
	FILE *file = fopen(RESOLV_CONF, "re");
	char line[512];
	while (file && fgets(line, sizeof(line), file)) {
		char host[64];
		char address[80];
		if (sscanf(line, " nameserver %63s", host) == 1) {
			snprintf(address, sizeof(address), strchr(host, ':') ? "[%s]:53" : "%s:53",
				host);
			add_server(forward, address);
		}
	}
	if (file) {
		fclose(file);
	}
	if (forward->count == 0) {
		log_warn("dns", RESOLV_CONF " names no server to forward to but ourselves");
	}
}

struct dns_forward *dns_forward_create(struct ev_loop *loop)
{
	struct dns_forward *forward = allocate_zeroed(1, sizeof(*forward));
	forward->loop = loop;
	list_init(&forward->in_flight);
	return forward;
}

void dns_forward_destroy(struct dns_forward *forward)
{
	free(forward);
}

void dns_forward_set(struct dns_forward *forward, char *const *servers, size_t count,
	char *const *own, size_t own_count)
{
	forward->count = 0;
	forward->own_count = 0;
	forward->read_at = (struct timespec){ 0 };
	forward->system = count == 1 && strcmp(servers[0], "system") == 0;
	for (size_t i = 0; i < own_count && i < DNS_MAX_LISTENERS; i++) {
		struct server *server = &forward->own[forward->own_count];
		memset(server, 0, sizeof(*server));
		forward->own_count += dns_address_read(&server->address, &server->len, own[i]);
	}
	for (size_t i = 0; i < count && !forward->system; i++) {
		add_server(forward, servers[i]);
	}
}

bool dns_forward_enabled(const struct dns_forward *forward)
{
	return forward->system || forward->count > 0;
}

/* ---- one question ---- */

static void close_socket(struct dns_forwarding *forwarding)
{
	struct ev_loop *loop = forwarding->forward->loop;
	timer_stop(&forwarding->timer);
	if (forwarding->fd >= 0) {
		ev_io_stop(loop, &forwarding->io);
		close(forwarding->fd);
		forwarding->fd = -1;
	}
}

void dns_forward_cancel(struct dns_forwarding *forwarding)
{
	struct dns_forward *forward = forwarding->forward;
	if (!forward) {
		return;
	}
	close_socket(forwarding);
	list_remove(&forwarding->link);
	free(forwarding->packet);
	buffer_finish(&forwarding->reply);
	forwarding->forward = NULL;
	forward->in_flight_count -= !forwarding->given_up;
}

/* The callback may free the forwarding. */
static void end(struct dns_forwarding *forwarding, uint8_t *reply, size_t len)
{
	uint8_t copy[DNS_EDNS_BYTES];
	uint8_t *data = reply;
	if (reply && len <= sizeof(copy)) {
		data = memcpy(copy, reply, len);
	} else if (reply) {
		data = memcpy(allocate_zeroed(len, 1), reply, len);
	}
	if (data) {
		ns_put16(forwarding->query->id, data);
	}
	dns_forward_cancel(forwarding);
	forwarding->on_reply(forwarding->context, data, len);
	if (data != copy) {
		free(data);
	}
}

static void try_next(struct dns_forwarding *forwarding);

static void on_timeout(void *context)
{
	try_next(context);
}

static bool is_useful(const uint8_t *reply)
{
	unsigned rcode = reply[3] & 15;
	return rcode != ns_r_servfail && rcode != ns_r_refused && rcode != ns_r_notimpl;
}

/* A reply: the end, unless another server may do better. */
static void take_reply(struct dns_forwarding *forwarding, uint8_t *reply, size_t len)
{
	if (!dns_reply_matches(reply, len, forwarding->id, forwarding->query)) {
		return;
	}
	bool is_last = forwarding->attempt >= ROUNDS * forwarding->forward->count;
	if (is_useful(reply) || is_last) {
		end(forwarding, reply, len);
	} else {
		try_next(forwarding);
	}
}

static void on_udp(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct dns_forwarding *forwarding = io->data;
	uint8_t reply[4096];
	if (events & EV_ERROR) { /* the kernel refuses to watch it */
		try_next(forwarding);
		return;
	}
	ssize_t len = recv(forwarding->fd, reply, sizeof(reply), MSG_DONTWAIT);
	if (len >= 0) {
		take_reply(forwarding, reply, (size_t)len);
	} else if (errno != EAGAIN && errno != EINTR) {
		try_next(forwarding); /* no server listens there */
	}
}

static bool send_rest(struct dns_forwarding *forwarding)
{
	while (forwarding->sent < forwarding->len + 2) {
		ssize_t sent = send(forwarding->fd, forwarding->packet + forwarding->sent,
			forwarding->len + 2 - forwarding->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0) {
			return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
		}
		forwarding->sent += (size_t)sent;
	}
	ev_io_stop(forwarding->forward->loop, &forwarding->io);
	ev_io_set(&forwarding->io, forwarding->fd, EV_READ);
	ev_io_start(forwarding->forward->loop, &forwarding->io);
	return true;
}

static void on_tcp(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct dns_forwarding *forwarding = io->data;
	if (events & (EV_WRITE | EV_ERROR)) {
		if (events & EV_ERROR || !send_rest(forwarding)) {
			try_next(forwarding);
		}
		return;
	}
	struct buffer *reply = &forwarding->reply;
	char *room = buffer_reserve(reply, READ_BYTES);
	ssize_t len = room ? recv(forwarding->fd, room, READ_BYTES, MSG_DONTWAIT) : 0;
	if (len <= 0) {
		if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
			try_next(forwarding);
		}
		return;
	}
	buffer_added(reply, (size_t)len);
	size_t whole = reply->len < 2 ? 2 : ns_get16((const uint8_t *)reply->data) + 2;
	if (reply->len < 2 || reply->len < whole) {
		return;
	}
	uint8_t *message = (uint8_t *)reply->data + 2;
	if (dns_reply_matches(message, whole - 2, forwarding->id, forwarding->query)) {
		take_reply(forwarding, message, whole - 2);
	} else {
		try_next(forwarding);
	}
}

/* False when this server cannot be asked now. */
static bool send_to(struct dns_forwarding *forwarding, const struct server *server)
{
	int type = forwarding->tcp ? SOCK_STREAM : SOCK_DGRAM;
	forwarding->fd = socket(server->address.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (forwarding->fd < 0) {
		return false;
	}
	int ret = connect(forwarding->fd, (const struct sockaddr *)&server->address, server->len);
	if (ret < 0 && errno != EINPROGRESS) {
		return false;
	}
	if (getrandom(&forwarding->id, sizeof(forwarding->id), 0) != sizeof(forwarding->id)) {
		return false;
	}
	ns_put16(forwarding->id, forwarding->packet + 2);
	ns_put16((unsigned)forwarding->len, forwarding->packet);
	ev_io_init(&forwarding->io, forwarding->tcp ? on_tcp : on_udp, forwarding->fd,
		forwarding->tcp ? EV_WRITE : EV_READ);
	forwarding->io.data = forwarding;
	ev_io_start(forwarding->forward->loop, &forwarding->io);
	if (forwarding->tcp) {
		buffer_clear(&forwarding->reply);
		forwarding->sent = 0;
		return true;
	}
	return send(forwarding->fd, forwarding->packet + 2, forwarding->len,
		       MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)forwarding->len;
}

/* Asks the next server; at the end of the last round the question has no answer. */
static void try_next(struct dns_forwarding *forwarding)
{
	struct dns_forward *forward = forwarding->forward;
	while (forwarding->attempt < ROUNDS * forward->count) {
		close_socket(forwarding);
		const struct server *server =
			&forward->servers[forwarding->attempt++ % forward->count];
		if (send_to(forwarding, server)) {
			timer_start(&forwarding->timer, TIMEOUT_MS);
			return;
		}
	}
	end(forwarding, NULL, 0);
}

/* ---- the share of a client ---- */

static struct dns_client client_of(const struct sockaddr_storage *address)
{
	struct dns_client client = { .family = address->ss_family };
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	if (address->ss_family == AF_INET) {
		memcpy(client.bytes, &v4->sin_addr, sizeof(v4->sin_addr));
	} else if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		client.family = AF_INET;
		memcpy(client.bytes, v6->sin6_addr.s6_addr + 12, sizeof(v4->sin_addr));
	} else if (address->ss_family == AF_INET6) {
		memcpy(client.bytes, v6->sin6_addr.s6_addr, V6_NETWORK_BYTES);
	}
	return client;
}

static bool is_same_client(const struct dns_client *a, const struct dns_client *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* Its end is reported in the next turn of the loop: the caller is in the middle of another one. */
static void give_up(struct dns_forwarding *forwarding)
{
	struct dns_forward *forward = forwarding->forward;
	close_socket(forwarding);
	forwarding->given_up = true;
	forwarding->attempt = (unsigned)(ROUNDS * forward->count);
	forward->in_flight_count--;
	timer_start(&forwarding->timer, 0);
}

/*
 * Questions that no server answers stay for seconds. They must neither keep those of other clients
 * out, nor, among the processes behind one address, those that would be answered at once.
 */
static void make_room(struct dns_forward *forward, const struct dns_client *client)
{
	struct dns_forwarding *oldest = NULL;
	size_t used = 0;
	for (struct list *at = forward->in_flight.next; at != &forward->in_flight; at = at->next) {
		struct dns_forwarding *other = LIST_ITEM(at, struct dns_forwarding, link);
		if (!other->given_up && is_same_client(&other->client, client)) {
			oldest = oldest ? oldest : other;
			used++;
		}
	}
	if (oldest && used >= TIMES_THE_FREE * (MAX_IN_FLIGHT - forward->in_flight_count)) {
		give_up(oldest);
	}
}

bool dns_forward_ask(struct dns_forward *forward, struct dns_forwarding *forwarding,
	const struct sockaddr_storage *client, const struct dns_query *query, const uint8_t *packet,
	size_t len, bool tcp)
{
	if (forward->system) {
		read_system(forward);
	}
	forwarding->client = client_of(client);
	make_room(forward, &forwarding->client);
	if (forward->count == 0 || forward->in_flight_count >= MAX_IN_FLIGHT) {
		return false;
	}
	forwarding->given_up = false;
	forwarding->forward = forward;
	forwarding->query = query;
	forwarding->tcp = tcp;
	forwarding->fd = -1;
	forwarding->attempt = 0;
	forwarding->len = len;
	forwarding->packet = allocate_zeroed(len + 2, 1);
	memcpy(forwarding->packet + 2, packet, len);
	buffer_init(&forwarding->reply, DNS_TCP_BYTES + 2 + READ_BYTES);
	timer_init(&forwarding->timer, forward->loop, "forwarded question", on_timeout, forwarding);
	list_append(&forward->in_flight, &forwarding->link);
	forward->in_flight_count++;
	const struct server *server = &forward->servers[forwarding->attempt++];
	/*
	 * The caller must not learn of a failure before this function returns: a timer that is due
	 * reports it.
	 */
	timer_start(&forwarding->timer, send_to(forwarding, server) ? TIMEOUT_MS : 0);
	return true;
}
