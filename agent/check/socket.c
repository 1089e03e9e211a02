#include "agent/check/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/buffer.h"
#include "agent/base/timer.h"
#include "agent/check/resolve.h"

enum { READ_BYTES = 4096 };

enum phase { RESOLVING, CONNECTING, SENDING, RECEIVING };

struct check_socket {
	struct ev_loop *loop;
	const struct config_check *config;
	enum phase phase;
	struct check_judge judge;
	struct check_linger *linger;
	bool server_closes;
	void (*on_result)(void *context, const struct check_result *result);
	void *context;
	struct timer deadline;
	struct timer attempt; /* the part of the time that the present address has to connect */
	ev_io io;
	int file; /* -1: none */
	struct check_resolve resolve;
	struct check_addresses addresses;
	int next_address;
	int connect_error; /* errno of the last address that was tried */
	struct buffer to_send;
};

static void try_next_address(struct check_socket *socket);

static void close_file(struct check_socket *socket)
{
	ev_io_stop(socket->loop, &socket->io);
	timer_stop(&socket->attempt);
	if (socket->file >= 0) {
		close(socket->file);
		socket->file = -1;
	}
}

void check_socket_abandon(struct check_socket *socket)
{
	close_file(socket);
	check_resolve_stop(&socket->resolve);
	timer_stop(&socket->deadline);
	buffer_finish(&socket->to_send);
	socket->judge.destroy(socket->judge.context);
	free(socket);
}

static void finish(struct check_socket *socket, const struct check_result *result)
{
	void (*on_result)(void *, const struct check_result *) = socket->on_result;
	void *context = socket->context;
	check_socket_abandon(socket);
	on_result(context, result);
}

static void finish_failing(struct check_socket *socket, const char *what, const char *why)
{
	struct check_result result = { .verdict = CHECK_FAILING };
	check_result_set_detail(&result, "%s: %s", what, why);
	finish(socket, &result);
}

static void give_to_linger(struct check_socket *socket)
{
	int64_t left_ms = timer_left_ms(&socket->deadline);
	ev_io_stop(socket->loop, &socket->io);
	check_linger_take(socket->linger, socket->file, !socket->server_closes, left_ms);
	socket->file = -1;
}

static void judge(struct check_socket *socket, const char *bytes, size_t len, bool complete)
{
	struct check_result result = { .verdict = CHECK_FAILING };
	if (socket->judge.take(socket->judge.context, bytes, len, complete, &result)) {
		if (!complete) {
			give_to_linger(socket);
		}
		finish(socket, &result);
	}
}

static void receive(struct check_socket *socket)
{
	char bytes[READ_BYTES];
	ssize_t got = recv(socket->file, bytes, sizeof(bytes), 0);
	if (got < 0) {
		if (errno != EAGAIN && errno != EINTR) {
			finish_failing(socket, "connection lost", strerror(errno));
		}
		return;
	}
	judge(socket, bytes, (size_t)got, got == 0);
}

static void wait_for(struct check_socket *socket, int events)
{
	ev_io_stop(socket->loop, &socket->io);
	ev_io_set(&socket->io, socket->file, events);
	ev_io_start(socket->loop, &socket->io);
}

static void transmit(struct check_socket *socket)
{
	struct buffer *data = &socket->to_send;
	if (data->len > 0) {
		ssize_t sent = send(socket->file, data->data, data->len, MSG_NOSIGNAL);
		if (sent < 0) {
			if (errno != EAGAIN && errno != EINTR) {
				finish_failing(socket, "cannot send", strerror(errno));
			}
			return;
		}
		buffer_consume(data, (size_t)sent);
	}
	if (data->len == 0) {
		socket->phase = RECEIVING;
		wait_for(socket, EV_READ);
		judge(socket, "", 0, false);
	}
}

static void connected(struct check_socket *socket)
{
	socklen_t len = sizeof(socket->connect_error);
	if (getsockopt(socket->file, SOL_SOCKET, SO_ERROR, &socket->connect_error, &len)) {
		socket->connect_error = errno;
	}
	if (socket->connect_error) {
		try_next_address(socket);
		return;
	}
	timer_stop(&socket->attempt);
	socket->phase = SENDING;
	transmit(socket);
}

static void on_io(struct ev_loop *loop, ev_io *watcher, int events)
{
	(void)loop;
	struct check_socket *socket = watcher->data;
	if (events & EV_ERROR) {
		finish_failing(
			socket, "cannot connect", "the kernel refuses to watch the connection");
		return;
	}
	switch (socket->phase) {
	case RESOLVING:
		break;
	case CONNECTING:
		connected(socket);
		break;
	case SENDING:
		transmit(socket);
		break;
	case RECEIVING:
		receive(socket);
		break;
	}
}

static bool connect_to(struct check_socket *check, const struct check_address *address)
{
	int family = address->address.ss_family;
	check->file = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (check->file < 0 ||
		(connect(check->file, (const struct sockaddr *)&address->address, address->len) &&
			errno != EINPROGRESS)) {
		check->connect_error = errno;
		return false;
	}
	return true;
}

/* The last address has until the deadline, which says it better. */
static void give_time(struct check_socket *socket)
{
	int others = socket->addresses.count - socket->next_address;
	if (others > 0) {
		timer_start(&socket->attempt, timer_left_ms(&socket->deadline) / (others + 1));
	}
}

static void try_next_address(struct check_socket *socket)
{
	close_file(socket);
	socket->phase = CONNECTING;
	while (socket->next_address < socket->addresses.count) {
		if (connect_to(socket, &socket->addresses.items[socket->next_address++])) {
			give_time(socket);
			wait_for(socket, EV_WRITE);
			return;
		}
		close_file(socket);
	}
	finish_failing(socket, "cannot connect", strerror(socket->connect_error));
}

static void on_resolved(void *context)
{
	struct check_socket *socket = context;
	if (socket->addresses.count == 0) {
		finish_failing(
			socket, "cannot find the address of the target", socket->addresses.problem);
		return;
	}
	try_next_address(socket);
}

static void on_attempt(void *context)
{
	struct check_socket *socket = context;
	socket->connect_error = ETIMEDOUT;
	on_resolved(socket);
}

static void on_deadline(void *context)
{
	struct check_socket *socket = context;
	struct check_result result = { .verdict = CHECK_TIMED_OUT };
	static const char *const missing[] = {
		[RESOLVING] = "address",
		[CONNECTING] = "connection",
		[SENDING] = "answer",
		[RECEIVING] = "answer",
	};
	check_result_set_detail(&result, "no %s within %.9gs", missing[socket->phase],
		(double)socket->config->timeout_ms / 1000);
	finish(socket, &result);
}

static void start_timers(struct check_socket *socket)
{
	timer_init(&socket->attempt, socket->loop, "address of a check", on_attempt, socket);
	timer_init(&socket->deadline, socket->loop, "check's deadline", on_deadline, socket);
	/*
	 * An answer that came in time counts, even if the agent was not running and finds it
	 * together with the timeout.
	 */
	ev_set_priority(&socket->attempt.timer, EV_MINPRI);
	ev_set_priority(&socket->deadline.timer, EV_MINPRI);
	timer_start(&socket->deadline, socket->config->timeout_ms);
}

struct check_socket *check_socket_start(struct ev_loop *loop, const struct config_check *config,
	const struct check_socket_exchange *exchange, struct check_linger *linger,
	void (*on_result)(void *context, const struct check_result *result), void *context)
{
	struct check_socket *socket = allocate_zeroed(1, sizeof(*socket));
	socket->loop = loop;
	socket->config = config;
	socket->judge = exchange->judge;
	socket->on_result = on_result;
	socket->context = context;
	socket->file = -1;
	socket->linger = linger;
	socket->server_closes = exchange->server_closes;
	ev_init(&socket->io, on_io);
	socket->io.data = socket;
	buffer_init(&socket->to_send, exchange->send_len);
	buffer_append(&socket->to_send, exchange->send, exchange->send_len);
	check_resolve_init(&socket->resolve, loop);
	start_timers(socket);
	if (check_resolve_start(&socket->resolve, config->target_host, config->target_port,
		    &socket->addresses, on_resolved, socket)) {
		/* Not from here: the caller does not have us yet. */
		ev_feed_event(loop, &socket->attempt.timer, EV_TIMER);
	}
	return socket;
}
