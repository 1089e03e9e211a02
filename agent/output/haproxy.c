#include "agent/output/haproxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "agent/output/haproxy_plan.h"
#include "lib/base/quote.h"

#define REST_MS 1000
#define ANSWER_WITHIN_MS 3000

enum { REPLY_BYTES = 4 << 20, ROUNDS = 2 };

enum phase { RESTING, COMPARING, CHANGING };

struct haproxy {
	struct ev_loop *loop;
	const char *socket_path;
	const char *backend;
	void (*on_done)(void *context, const struct err *err, size_t changes);
	void *context;

	enum phase phase;
	struct haproxy_servers wanted;
	bool again;    /* other servers are wanted since this comparison began */
	bool pending;  /* on_done is due in any case */
	char *failure; /* the last one reported; NULL: none */
	struct haproxy_plan plan;
	size_t next;          /* command of the plan */
	int rounds;           /* of commands, since the comparison at rest */
	size_t changes;       /* made in these */
	char *refusal;        /* HAProxy's answer to the last change; NULL */
	char *doubled;        /* of the last comparison */
	bool doubled_changed; /* since on_done */

	int fd; /* -1: no exchange is under way */
	char *command;
	size_t sent;
	struct buffer reply;
	ev_io io;
	struct timer timer; /* at rest: the next comparison; else: HAProxy does not answer */
};

static void compare(struct haproxy *haproxy);

/* ---- the end of comparing and changing ---- */

static void close_exchange(struct haproxy *haproxy)
{
	ev_io_stop(haproxy->loop, &haproxy->io);
	timer_stop(&haproxy->timer);
	if (haproxy->fd >= 0) {
		close(haproxy->fd);
		haproxy->fd = -1;
	}
	free(haproxy->command);
	haproxy->command = NULL;
}

/* Another failure than before, or none any more; another doubled server. */
static bool is_news(const struct haproxy *haproxy, const struct err *err)
{
	if (haproxy->doubled_changed) {
		return true;
	}
	return err ? !haproxy->failure || strcmp(haproxy->failure, err->msg) != 0
		   : haproxy->failure != NULL;
}

static void rest(struct haproxy *haproxy, const struct err *err)
{
	bool must_tell = haproxy->pending || is_news(haproxy, err);
	size_t changes = haproxy->changes;
	close_exchange(haproxy);
	haproxy_plan_finish(&haproxy->plan);
	haproxy->phase = RESTING;
	free(haproxy->failure);
	haproxy->failure = err ? allocate_text(err->msg) : NULL;
	haproxy->rounds = 0;
	if (haproxy->again && !err) {
		compare(haproxy);
		return;
	}
	haproxy->again = false;
	haproxy->pending = false;
	haproxy->changes = 0;
	timer_start(&haproxy->timer, REST_MS);
	if (must_tell) {
		haproxy->doubled_changed = false;
		haproxy->on_done(haproxy->context, err, changes);
	}
}

static void fail(struct haproxy *haproxy, const char *what)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_FAILED, "HAProxy's socket %s: %s", haproxy->socket_path, what);
	rest(haproxy, &err);
}

/* ---- exchanges: a connection, a command, everything that comes until HAProxy closes ---- */

static void on_reply(struct haproxy *haproxy);

static void send_more(struct haproxy *haproxy)
{
	size_t len = strlen(haproxy->command);
	ssize_t part = send(haproxy->fd, haproxy->command + haproxy->sent, len - haproxy->sent,
		MSG_DONTWAIT | MSG_NOSIGNAL);
	if (part < 0 && errno != EAGAIN && errno != EINTR) {
		fail(haproxy, strerror(errno));
		return;
	}
	haproxy->sent += part > 0 ? (size_t)part : 0;
	if (haproxy->sent == len) {
		ev_io_stop(haproxy->loop, &haproxy->io);
		ev_io_set(&haproxy->io, haproxy->fd, EV_READ);
		ev_io_start(haproxy->loop, &haproxy->io);
	}
}

static void receive_more(struct haproxy *haproxy)
{
	char bytes[16384];
	ssize_t part = recv(haproxy->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (part > 0 && buffer_append(&haproxy->reply, bytes, (size_t)part) < 0) {
		fail(haproxy, "an answer of more than 4 MiB");
	} else if (part == 0) {
		on_reply(haproxy);
	} else if (part < 0 && errno != EAGAIN && errno != EINTR) {
		fail(haproxy, strerror(errno));
	}
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	struct haproxy *haproxy = io->data;
	if (events & EV_ERROR) {
		fail(haproxy, "the kernel refuses to watch the connection");
	} else if (events & EV_WRITE) {
		send_more(haproxy);
	} else {
		receive_more(haproxy);
	}
}

static void exchange(struct haproxy *haproxy, char *command_take)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", haproxy->socket_path);
	close_exchange(haproxy);
	haproxy->command = command_take;
	haproxy->sent = 0;
	buffer_clear(&haproxy->reply);
	haproxy->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (haproxy->fd < 0 ||
		connect(haproxy->fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		fail(haproxy, strerror(errno));
		return;
	}
	ev_io_set(&haproxy->io, haproxy->fd, EV_WRITE);
	ev_io_start(haproxy->loop, &haproxy->io);
	timer_start(&haproxy->timer, ANSWER_WITHIN_MS);
}

/* ---- rounds ---- */

static void compare(struct haproxy *haproxy)
{
	haproxy->phase = COMPARING;
	haproxy->again = false;
	exchange(haproxy, allocate_format("show servers state %s\n", haproxy->backend));
}

static void change_next(struct haproxy *haproxy)
{
	if (haproxy->next < haproxy->plan.count) {
		exchange(haproxy, allocate_text(haproxy->plan.commands[haproxy->next]));
	} else if (haproxy->plan.change_count > 0) {
		compare(haproxy);
	} else {
		rest(haproxy, NULL);
	}
}

static bool is_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void take_doubled(struct haproxy *haproxy)
{
	haproxy->doubled_changed = haproxy->doubled_changed ||
		!is_equal(haproxy->doubled, haproxy->plan.doubled);
	free(haproxy->doubled);
	haproxy->doubled = haproxy->plan.doubled;
	haproxy->plan.doubled = NULL;
}

static void on_compared(struct haproxy *haproxy)
{
	struct err err = ERR_INIT;
	haproxy_plan_finish(&haproxy->plan);
	if (haproxy_plan_make(&haproxy->plan, haproxy->backend, &haproxy->wanted,
		    haproxy->reply.data ? haproxy->reply.data : (char[]){ "" }, &err)) {
		fail(haproxy, err.msg);
		return;
	}
	take_doubled(haproxy);
	if (haproxy->plan.change_count > 0 && haproxy->rounds == ROUNDS) {
		fail(haproxy, haproxy->refusal ? haproxy->refusal : "a command has no effect");
	} else if (haproxy->plan.change_count > 0 || haproxy->rounds == 0) {
		haproxy->rounds += haproxy->plan.change_count > 0;
		haproxy->phase = CHANGING;
		haproxy->next = 0;
		change_next(haproxy);
	} else {
		rest(haproxy, NULL);
	}
}

static void on_changed(struct haproxy *haproxy)
{
	if (haproxy->next++ < haproxy->plan.change_count) {
		const char *reply = buffer_text(&haproxy->reply);
		haproxy->changes++;
		free(haproxy->refusal);
		haproxy->refusal = *reply && *reply != '\n' ? allocate_text(quote_text(reply).text)
							    : NULL;
	}
	change_next(haproxy);
}

static void on_reply(struct haproxy *haproxy)
{
	if (haproxy->phase == COMPARING) {
		on_compared(haproxy);
	} else {
		on_changed(haproxy);
	}
}

static void on_timer(void *context)
{
	struct haproxy *haproxy = context;
	if (haproxy->phase == RESTING) {
		compare(haproxy);
	} else {
		fail(haproxy, "no answer");
	}
}

/* ---- the wanted servers ---- */

void haproxy_want(struct haproxy *haproxy, const struct render_picture *picture,
	const struct render_filter *filter, struct render_result *ret_result)
{
	haproxy_servers_finish(&haproxy->wanted);
	haproxy_servers_read(&haproxy->wanted, picture, filter, ret_result);
	haproxy->pending = true;
	if (haproxy->phase == RESTING) {
		compare(haproxy);
	} else {
		haproxy->again = true;
	}
}

const char *haproxy_doubled(const struct haproxy *haproxy)
{
	return haproxy->doubled;
}

struct haproxy *haproxy_create(struct ev_loop *loop, const char *socket_path, const char *backend,
	void (*on_done)(void *context, const struct err *err, size_t changes), void *context)
{
	struct haproxy *haproxy = allocate_zeroed(1, sizeof(*haproxy));
	haproxy->loop = loop;
	haproxy->socket_path = socket_path;
	haproxy->backend = backend;
	haproxy->on_done = on_done;
	haproxy->context = context;
	haproxy->fd = -1;
	buffer_init(&haproxy->reply, REPLY_BYTES);
	ev_init(&haproxy->io, on_io);
	timer_init(&haproxy->timer, loop, "haproxy", on_timer, haproxy);
	haproxy->io.data = haproxy;
	return haproxy;
}

void haproxy_destroy(struct haproxy *haproxy)
{
	if (!haproxy) {
		return;
	}
	close_exchange(haproxy);
	haproxy_plan_finish(&haproxy->plan);
	haproxy_servers_finish(&haproxy->wanted);
	buffer_finish(&haproxy->reply);
	free(haproxy->refusal);
	free(haproxy->failure);
	free(haproxy->doubled);
	free(haproxy);
}
