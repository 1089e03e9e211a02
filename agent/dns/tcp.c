/*
 * Queries over TCP (RFC 7766): pipelined, answered in the order in which answers come.
 *
 *   accept --> reading <--> replies queued --> closed
 *
 * A connection ends when the client ends it, when it is idle for IDLE_MS, when it leaves
 * MAX_UNREAD_BYTES of replies unread, or when a newer client needs its place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/dns/internal.h"

#define MAX_CONNECTIONS 128
#define MAX_OF_A_CONNECTION 64 /* exchanges; then reading pauses */
#define MAX_UNREAD_BYTES (256 << 10)
#define PAUSE_BYTES DNS_TCP_BYTES
#define READ_BYTES 2048 /* at once */
#define IDLE_MS 10000

struct dns_connection {
	struct dns *dns;
	struct list link;
	struct list exchanges;
	struct sockaddr_storage address;
	int fd;
	ev_io read_io;
	ev_io write_io;
	struct timer idle;
	struct buffer input;  /* bytes of the next messages, lengths first */
	struct buffer output; /* replies, lengths first */
	bool ended;           /* the client sends no more */
	bool broken;
};

static void destroy(struct dns_connection *connection)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it took the one before off the list */
	struct dns *dns = connection->dns;
	while (!list_empty(&connection->exchanges)) {
		dns_exchange_drop(
			LIST_ITEM(connection->exchanges.next, struct dns_exchange, of_connection));
	}
	ev_io_stop(dns->loop, &connection->read_io);
	ev_io_stop(dns->loop, &connection->write_io);
	timer_stop(&connection->idle);
	list_remove(&connection->link);
	dns->counts.connections--;
	close(connection->fd);
	buffer_finish(&connection->input);
	buffer_finish(&connection->output);
	free(connection);
}

/* The connection that was used last is the last to go. */
static void touch(struct dns_connection *connection)
{
	list_remove(&connection->link);
	list_append(&connection->dns->connections, &connection->link);
	timer_start(&connection->idle, IDLE_MS);
}

/* ---- writing ---- */

static void flush(struct dns_connection *connection)
{
	struct buffer *output = &connection->output;
	while (output->len > 0) {
		ssize_t sent = send(
			connection->fd, output->data, output->len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0) {
			connection->broken = connection->broken ||
				(errno != EAGAIN && errno != EINTR);
			break;
		}
		buffer_consume(output, (size_t)sent);
	}
	if (output->len == 0) {
		ev_io_stop(connection->dns->loop, &connection->write_io);
	}
}

/* Queues a reply; closes the connection when the client does not read. */
static void send_reply(const struct dns_origin *origin, const uint8_t *data, size_t len)
{
	struct dns_connection *connection = origin->connection;
	uint8_t prefix[2];
	ns_put16((unsigned)len, prefix);
	buffer_append(&connection->output, prefix, sizeof(prefix));
	if (buffer_append(&connection->output, data, len) < 0) {
		connection->broken = true; /* a client that does not read */
	}
	touch(connection);
	/* The replies of a loop iteration go out together. */
	ev_io_start(connection->dns->loop, &connection->write_io);
}

/* ---- reading ---- */

static bool may_read(const struct dns_connection *connection)
{
	size_t count = 0;
	for (const struct list *at = connection->exchanges.next; at != &connection->exchanges;
		at = at->next) {
		count++;
	}
	return count < MAX_OF_A_CONNECTION && connection->output.len < PAUSE_BYTES;
}

/* Handles the whole messages of the input, as long as the client takes replies. */
static void handle_input(struct dns_connection *connection)
{
	const struct dns_origin origin = {
		.send = send_reply, .connection = connection, .address = connection->address
	};
	struct buffer *input = &connection->input;
	size_t used = 0;
	while (may_read(connection) && !connection->broken && input->len - used >= 2) {
		const uint8_t *at = (const uint8_t *)input->data + used;
		size_t len = ns_get16(at);
		if (input->len - used < len + 2) {
			break;
		}
		dns_handle(connection->dns, &origin, at + 2, len, &connection->exchanges);
		used += len + 2;
	}
	buffer_consume(input, used);
}

static bool is_over(const struct dns_connection *connection)
{
	return connection->broken ||
		(connection->ended && list_empty(&connection->exchanges) &&
			connection->output.len == 0);
}

static void update(struct dns_connection *connection)
{
	struct ev_loop *loop = connection->dns->loop;
	if (is_over(connection)) {
		destroy(connection);
		return;
	}
	if (!connection->ended && may_read(connection)) {
		ev_io_start(loop, &connection->read_io);
	} else {
		ev_io_stop(loop, &connection->read_io);
	}
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct dns_connection *connection = io->data;
	if (events & EV_ERROR) { /* the kernel refuses to watch it */
		destroy(connection);
		return;
	}
	char *room = buffer_reserve(&connection->input, READ_BYTES);
	ssize_t len = room ? recv(connection->fd, room, READ_BYTES, MSG_DONTWAIT) : 0;
	if (len > 0) {
		buffer_added(&connection->input, (size_t)len);
		touch(connection);
		handle_input(connection);
	} else if (len == 0) {
		connection->ended = true;
	} else if (errno != EAGAIN && errno != EINTR) {
		connection->broken = true;
	}
	update(connection);
}

static void on_writable(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct dns_connection *connection = io->data;
	if (events & EV_ERROR) {
		destroy(connection);
		return;
	}
	flush(connection);
	handle_input(connection); /* the messages that waited for room */
	update(connection);
}

static void on_idle(void *context)
{
	destroy(context);
}

/* ---- connections ---- */

void dns_tcp_accept(struct dns *dns, int listener_fd)
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t address_len = sizeof(address);
	int fd = accept4(listener_fd, (struct sockaddr *)&address, &address_len,
		SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		return;
	}
	if (dns->counts.connections >= MAX_CONNECTIONS) {
		destroy(LIST_ITEM(dns->connections.next, struct dns_connection, link));
	}
	struct dns_connection *connection = allocate_zeroed(1, sizeof(*connection));
	connection->dns = dns;
	connection->address = address;
	connection->fd = fd;
	buffer_init(&connection->input, DNS_TCP_BYTES + 2 + READ_BYTES);
	buffer_init(&connection->output, MAX_UNREAD_BYTES);
	list_init(&connection->exchanges);
	list_init(&connection->link);
	ev_io_init(&connection->read_io, on_readable, fd, EV_READ);
	ev_io_init(&connection->write_io, on_writable, fd, EV_WRITE);
	timer_init(&connection->idle, dns->loop, "connection for DNS", on_idle, connection);
	connection->read_io.data = connection;
	connection->write_io.data = connection;
	ev_io_start(dns->loop, &connection->read_io);
	dns->counts.connections++;
	touch(connection);
}

void dns_tcp_close_all(struct dns *dns)
{
	while (!list_empty(&dns->connections)) {
		destroy(LIST_ITEM(dns->connections.next, struct dns_connection, link));
	}
}
