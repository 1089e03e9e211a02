#include "xds/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/program/memory.h"
#include "xds/log.h"
#include "xds/session.h"
#include "xds/subscription.h"

enum {
	READ_BYTES = 64 * 1024,
	REST_BYTES = SHARE_BYTES, /* of output that the socket has not taken yet */
	CONNECTIONS_MAX = 4096,
	RESERVED_FILES = 64,
	FIRST_BYTES_MS = 10000, /* for a client to say what it speaks */
	IDLE_MS = 300000,       /* without a request */
	LEAVE_MS = 1000,
	STATUS_BYTES = 320,
	PAUSE_MS = 20, /* between two looks at clients that are not listened to */
	DEAD_PEER_MS = 60000
};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct listener {
	struct list link;
	struct server *server;
	ev_io io;
};

struct connection {
	struct list link;
	struct list pending; /* on server->pending: there may be output */
	struct list paused;  /* on server->paused: it is not listened to */
	struct server *server;
	ev_io io;
	const struct session_ops *ops; /* NULL until the first bytes have shown the protocol */
	void *session;
	size_t matched;     /* bytes of the preface */
	struct buffer rest; /* output that the socket did not take */
	int64_t busy_at_ms; /* when it was made, or last had a request */
	struct share *share;
	size_t held; /* memory, as the share counts it */
	bool heard;  /* since the last output: the next one is work for the client */
};

struct server {
	struct ev_loop *loop;
	struct source *source;
	struct world *world;
	int status_fd;
	char status[STATUS_BYTES];
	char trouble[sizeof(((struct err *)0)->msg)];
	ev_io agent;
	ev_timer agent_due;
	ev_prepare prepare;
	ev_timer tick;
	ev_timer leaving;
	ev_timer resume;
	struct shares *shares;
	struct list listeners;
	struct list connections;
	struct list pending;
	struct list paused;
	uint64_t pauses; /* so far */
	uint64_t ended;  /* connections whose clients took too much, so far */
	uint64_t ended_logged;
	size_t count;
	size_t most;
	bool full;
	bool is_leaving;
	bool worked; /* since the last tick */
};

#define CONNECTION(item) LIST_ITEM(item, struct connection, link)

static void accept_again(struct server *server, bool accepting)
{
	for (struct list *link = server->listeners.next; link != &server->listeners;
		link = link->next) {
		struct listener *listener = LIST_ITEM(link, struct listener, link);
		if (accepting) {
			ev_io_start(server->loop, &listener->io);
		} else {
			ev_io_stop(server->loop, &listener->io);
		}
	}
	server->full = !accepting;
}

/* ---- connections ---- */

static void on_output(void *context)
{
	struct connection *connection = context;
	if (list_empty(&connection->pending)) {
		list_append(&connection->server->pending, &connection->pending);
	}
}

static void close_connection(struct connection *connection)
{
	struct server *server = connection->server;
	ev_io_stop(server->loop, &connection->io);
	if (connection->ops) {
		connection->ops->destroy(connection->session);
	}
	list_remove(&connection->pending);
	list_remove(&connection->paused);
	list_remove(&connection->link);
	(void)share_hold(connection->share, connection->held, 0);
	share_leave(connection->share);
	close(connection->io.fd);
	buffer_finish(&connection->rest);
	free(connection);
	server->count--;
	if (server->full && !server->is_leaving) {
		accept_again(server, true);
	}
	if (server->is_leaving && server->count == 0) {
		ev_break(server->loop, EVBREAK_ALL);
	}
}

static void set_events(struct connection *connection, int events)
{
	if (!list_empty(&connection->paused)) {
		events &= ~EV_READ;
	}
	if (connection->io.events != events) {
		ev_io_stop(connection->server->loop, &connection->io);
		ev_io_set(&connection->io, connection->io.fd, events);
		if (events) {
			ev_io_start(connection->server->loop, &connection->io);
		}
	}
}

/* Sends as much as the socket takes: the number of bytes, or -1 when the client is gone. */
static ssize_t send_some(int fd, const void *data, size_t len)
{
	ssize_t sent;
	do {
		sent = send(fd, data, len, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 && errno == EAGAIN ? 0 : sent;
}

/* False when the client is gone. */
static bool send_rest(struct connection *connection)
{
	struct buffer *rest = &connection->rest;
	ssize_t sent = rest->len > 0 ? send_some(connection->io.fd, rest->data, rest->len) : 0;
	if (sent > 0) {
		buffer_consume(rest, (size_t)sent);
	}
	if (rest->len == 0) {
		buffer_finish(rest);
	}
	return sent >= 0;
}

/* Lets the session write until the socket is full. False when the connection has to be closed. */
static bool flush(struct connection *connection)
{
	const uint8_t *data;
	size_t len;
	if (!send_rest(connection)) {
		return false;
	}
	while (connection->rest.len == 0 &&
		(len = connection->ops->output(connection->session, &data)) > 0) {
		ssize_t sent = send_some(connection->io.fd, data, len);
		if (sent < 0) {
			return false;
		}
		buffer_append(&connection->rest, data + sent, len - (size_t)sent);
	}
	bool written = connection->rest.len == 0;
	set_events(connection, written ? EV_READ : EV_READ | EV_WRITE);
	return !written || !connection->ops->is_over(connection->session);
}

static void on_work(void *context, int64_t us)
{
	const struct connection *connection = context;
	share_work(connection->share, us, session_now_us());
}

static void begin_session(struct connection *connection, bool http2)
{
	const struct session_host host = { .loop = connection->server->loop,
		.world = connection->server->world,
		.quota = share_quota(connection->share),
		.on_output = on_output,
		.on_work = on_work,
		.context = connection };
	connection->ops = http2 ? &session_http2 : &session_http1;
	connection->session = http2 ? session_http2_create(&host) : session_http1_create(&host);
}

/* The first bytes say what the client speaks. False when the connection cannot go on. */
static bool take_first(struct connection *connection, const char *data, size_t len)
{
	size_t left = sizeof(preface) - 1 - connection->matched;
	size_t part = len < left ? len : left;
	size_t before = connection->matched;
	bool matches = memcmp(data, preface + before, part) == 0;
	connection->matched += matches ? part : 0;
	if (matches && connection->matched < sizeof(preface) - 1) {
		return true;
	}
	begin_session(connection, matches);
	return connection->ops->receive(connection->session, (const uint8_t *)preface, before) &&
		connection->ops->receive(connection->session, (const uint8_t *)data, len);
}

static bool take(struct connection *connection, const char *data, size_t len)
{
	return connection->ops
		? connection->ops->receive(connection->session, (const uint8_t *)data, len)
		: take_first(connection, data, len);
}

/* False when the client is gone, or has to go. */
static bool receive(struct connection *connection)
{
	static char bytes[READ_BYTES];
	ssize_t len = recv(connection->io.fd, bytes, sizeof(bytes), 0);
	if (len < 0) {
		return errno == EAGAIN || errno == EINTR;
	}
	if (len == 0) {
		return false;
	}
	if (!take(connection, bytes, (size_t)len)) {
		/* Its reason, if the client reads it. */
		if (connection->ops) {
			(void)flush(connection);
		}
		return false;
	}
	return true;
}

/* ---- what a client may take ---- */

/* False when it is too much. */
static bool count_bytes(struct connection *connection)
{
	size_t held = sizeof(*connection) + connection->rest.size;
	if (connection->ops) {
		held += connection->ops->bytes(connection->session);
	}
	bool good = share_hold(connection->share, connection->held, held);
	connection->held = held;
	connection->server->ended += !good;
	return good;
}

static void count_work(struct connection *connection, int64_t began_us)
{
	on_work(connection, session_now_us() - began_us);
}

/* Lets a client wait that has made more work than is its part. */
static bool pause_reading(struct connection *connection)
{
	struct server *server = connection->server;
	if (share_pause_us(connection->share, session_now_us()) == 0) {
		return false;
	}
	list_append(&server->paused, &connection->paused);
	server->pauses++;
	set_events(connection, connection->io.events);
	if (!ev_is_active(&server->resume)) {
		ev_timer_again(server->loop, &server->resume);
	}
	return true;
}

static void on_resume(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct server *server = timer->data;
	struct list *link = server->paused.next;
	(void)events;
	while (link != &server->paused) {
		struct connection *connection = LIST_ITEM(link, struct connection, paused);
		link = link->next;
		if (share_pause_us(connection->share, session_now_us()) == 0) {
			list_remove(&connection->paused);
			set_events(connection, connection->rest.len > 0 ? EV_WRITE : EV_READ);
		}
	}
	if (list_empty(&server->paused)) {
		ev_timer_stop(loop, timer);
	}
}

/* ---- events ---- */

static bool take_events(struct connection *connection, int events)
{
	/* A client that does not read is not listened to either. */
	bool good = !(events & EV_WRITE) || flush(connection);
	if (good && (events & EV_READ) && connection->rest.len == 0) {
		connection->heard = true;
		good = receive(connection);
	} else if (good && connection->rest.len > 0) {
		set_events(connection, EV_WRITE);
	}
	return good && count_bytes(connection);
}

static void on_connection(struct ev_loop *loop, ev_io *io, int events)
{
	struct connection *connection = io->data;
	(void)loop;
	if ((events & EV_READ) && pause_reading(connection)) {
		events &= ~EV_READ;
	}
	int64_t began_us = session_now_us();
	bool good = take_events(connection, events);
	count_work(connection, began_us);
	if (!good) {
		close_connection(connection);
	} else if (connection->ops && connection->rest.len == 0) {
		on_output(connection);
	}
}

static void open_connection(struct server *server, int fd)
{
	const int yes = 1;
	const unsigned dead_ms = DEAD_PEER_MS;
	struct share *share = share_join(server->shares, fd);
	if (!share) {
		server->ended++;
		close(fd);
		return;
	}
	struct connection *connection = memory_zeroed(1, sizeof(*connection));
	connection->share = share;
	/* These fail on a Unix socket, which needs none of them. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
	connection->server = server;
	connection->busy_at_ms = clock_monotonic_ms();
	buffer_init(&connection->rest, REST_BYTES);
	list_init(&connection->pending);
	list_init(&connection->paused);
	list_append(&server->connections, &connection->link);
	ev_io_init(&connection->io, on_connection, fd, EV_READ);
	connection->io.data = connection;
	ev_io_start(server->loop, &connection->io);
	server->count++;
}

static void on_accept(struct ev_loop *loop, ev_io *io, int events)
{
	struct listener *listener = io->data;
	struct server *server = listener->server;
	(void)loop;
	(void)events;
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		open_connection(server, fd);
	}
	/* Without descriptors the next ones wait in the backlog, for the tick at the latest. */
	bool none_left = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS);
	if (server->count >= server->most || none_left) {
		accept_again(server, false);
	}
}

/* ---- the loop ---- */

static void flush_pending(struct server *server)
{
	while (!list_empty(&server->pending)) {
		struct connection *connection = LIST_ITEM(
			server->pending.next, struct connection, pending);
		list_remove(&connection->pending);
		if (connection->rest.len > 0) {
			continue;
		}
		int64_t began_us = connection->heard ? session_now_us() : 0;
		bool good = flush(connection) && count_bytes(connection);
		if (connection->heard) {
			count_work(connection, began_us);
			connection->heard = false;
		}
		if (!good) {
			close_connection(connection);
		}
	}
}

/* Answers of the agent, and questions that have come up meanwhile. */
static void drive_source(struct server *server)
{
	source_dispatch(server->source, clock_monotonic_ms());
	server->worked = true;
}

static void on_agent(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	drive_source(io->data);
}

static void on_agent_due(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	drive_source(timer->data);
}

static void arm_source(struct server *server)
{
	int64_t left_ms = source_due_ms(server->source) - clock_monotonic_ms();
	ev_timer_stop(server->loop, &server->agent_due);
	ev_timer_set(&server->agent_due, left_ms > 0 ? (double)left_ms / 1000. : 0, 0);
	ev_timer_start(server->loop, &server->agent_due);
}

static void on_prepare(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	struct server *server = prepare->data;
	(void)loop;
	(void)events;
	while (world_has_changes(server->world) || !list_empty(&server->pending)) {
		if (world_has_changes(server->world)) {
			world_update(server->world, clock_monotonic_ms());
		}
		flush_pending(server);
	}
	arm_source(server);
}

static bool is_tired(const struct connection *connection, int64_t now_ms)
{
	int64_t idle_ms = now_ms - connection->busy_at_ms;
	return idle_ms > (connection->ops ? IDLE_MS : FIRST_BYTES_MS);
}

static void close_tired(struct server *server)
{
	int64_t now_ms = clock_monotonic_ms();
	struct list *link = server->connections.next;
	while (link != &server->connections) {
		struct connection *connection = CONNECTION(link);
		link = link->next;
		if (connection->ops && !connection->ops->is_idle(connection->session)) {
			connection->busy_at_ms = now_ms;
		} else if (is_tired(connection, now_ms)) {
			close_connection(connection);
		}
	}
}

static void note_trouble(struct server *server)
{
	struct err err = ERR_INIT;
	bool troubled = world_trouble(server->world, &err) != 0;
	const char *text = troubled ? err.msg : "";
	if (strcmp(text, server->trouble) != 0) {
		log_line(troubled ? "warn" : "info", "%s",
			troubled ? text : "the agent answers again");
		strcpy(server->trouble, text);
	}
}

static void note_ended(struct server *server)
{
	if (server->ended != server->ended_logged) {
		log_line("warn",
			"%llu connections were ended: their clients had more of them, or more "
			"memory, than one may take",
			(unsigned long long)(server->ended - server->ended_logged));
		server->ended_logged = server->ended;
	}
}

static void write_status(struct server *server)
{
	char status[STATUS_BYTES];
	struct world_counts counts = world_counts(server->world);
	if (server->status_fd < 0) {
		return;
	}
	snprintf(status, sizeof(status),
		"{\"connections\":%zu,\"names\":%zu,\"encodings\":%llu,"
		"\"refusals\":%llu,\"left_out\":%zu,\"pauses\":%llu,\"ended\":%llu}\n",
		server->count, counts.names, (unsigned long long)counts.encodings,
		(unsigned long long)subscription_refusals(), counts.left_out,
		(unsigned long long)server->pauses, (unsigned long long)server->ended);
	/* A line is less than a pipe takes at once; a reader that is behind gets the next one. */
	if (strcmp(status, server->status) != 0 &&
		write(server->status_fd, status, strlen(status)) > 0) {
		strcpy(server->status, status);
	}
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct server *server = timer->data;
	(void)loop;
	(void)events;
	world_update(server->world, clock_monotonic_ms());
	close_tired(server);
	note_trouble(server);
	note_ended(server);
	write_status(server);
	if (server->worked) {
		server->worked = false;
		memory_trim();
	}
	if (server->full && server->count < server->most && !server->is_leaving) {
		accept_again(server, true);
	}
}

/* ---- life ---- */

size_t server_connections_max(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
		return RESERVED_FILES;
	}
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	size_t most = (size_t)limit.rlim_cur / 2;
	return most < CONNECTIONS_MAX ? most : CONNECTIONS_MAX;
}

struct server *server_create(const struct server_options *options)
{
	struct server *server = memory_zeroed(1, sizeof(*server));
	server->loop = options->loop;
	server->source = options->source;
	server->world = options->world;
	server->status_fd = options->status_fd;
	server->worked = true; /* the start has left something, too */
	server->shares = options->shares;
	server->most = server_connections_max();
	list_init(&server->listeners);
	list_init(&server->connections);
	list_init(&server->pending);
	list_init(&server->paused);
	ev_timer_init(&server->resume, on_resume, 0, PAUSE_MS / 1000.0);
	server->resume.data = server;
	ev_io_init(&server->agent, on_agent, source_fd(server->source), EV_READ);
	server->agent.data = server;
	ev_io_start(server->loop, &server->agent);
	ev_timer_init(&server->agent_due, on_agent_due, 0, 0);
	server->agent_due.data = server;
	ev_prepare_init(&server->prepare, on_prepare);
	server->prepare.data = server;
	ev_prepare_start(server->loop, &server->prepare);
	ev_timer_init(&server->tick, on_tick, 1, 1);
	server->tick.data = server;
	ev_timer_start(server->loop, &server->tick);
	return server;
}

void server_listen_take(struct server *server, int fd)
{
	struct listener *listener = memory_zeroed(1, sizeof(*listener));
	listener->server = server;
	list_append(&server->listeners, &listener->link);
	ev_io_init(&listener->io, on_accept, fd, EV_READ);
	listener->io.data = listener;
	ev_io_start(server->loop, &listener->io);
}

static void on_leave_time(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)timer;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

void server_leave(struct server *server)
{
	if (server->is_leaving) {
		return;
	}
	server->is_leaving = true;
	accept_again(server, false);
	struct list *link = server->connections.next;
	while (link != &server->connections) {
		struct connection *connection = CONNECTION(link);
		link = link->next;
		if (connection->ops) {
			connection->ops->leave(connection->session);
		} else {
			close_connection(connection);
		}
	}
	ev_timer_init(
		&server->leaving, on_leave_time, server->count > 0 ? LEAVE_MS / 1000.0 : 0, 0);
	ev_timer_start(server->loop, &server->leaving);
}

void server_destroy(struct server *server)
{
	server->is_leaving = true;
	ev_io_stop(server->loop, &server->agent);
	ev_timer_stop(server->loop, &server->agent_due);
	ev_prepare_stop(server->loop, &server->prepare);
	ev_timer_stop(server->loop, &server->tick);
	ev_timer_stop(server->loop, &server->leaving);
	ev_timer_stop(server->loop, &server->resume);
	while (!list_empty(&server->connections)) {
		close_connection(CONNECTION(server->connections.next));
	}
	while (!list_empty(&server->listeners)) {
		struct listener *listener = LIST_ITEM(
			server->listeners.next, struct listener, link);
		ev_io_stop(server->loop, &listener->io);
		list_remove(&listener->link);
		close(listener->io.fd);
		free(listener);
	}
	free(server);
}
