/*
 * The worker's main program: berth-zookeeper FD, where FD is its end of the socketpair. Started by
 * lib/registry/zookeeper/worker_process.c.
 */
#include "lib/registry/zookeeper/worker/worker.h"
#include "lib/registry/zookeeper/worker/cage.h"
#include "lib/base/clock.h"
#include "lib/base/linux_calls.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RESOLVE_AGAIN_MS = 3000, LOG_LINES_A_SECOND = 20, MESSAGE_BYTES = 512 };

static int agent_fd;
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;

/* The servers' numeric addresses; they do not change once the library runs. */
static struct buffer addresses;

/* The HELLO that made the session; lives as long as the process. */
static struct buffer hello_frame;
static struct zk_hello hello;

/* As the server has granted it; 0 before that. */
static atomic_int granted_ms;

/* ---- to the agent ---- */

/* How long the agent may say and read nothing; -1: for ever. */
static int silence_ms(void)
{
	int timeout_ms = atomic_load(&granted_ms);
	if (!hello.ends_in_silence) {
		return -1;
	}
	return timeout_ms > 0 ? timeout_ms : (int)hello.timeout_ms;
}

/*
 * The agent is frozen: nobody repairs its records. Without this process its session ends by itself;
 * an agent that wakes up before goes on with it.
 */
static _Noreturn void leave_session(void)
{
	_exit(0);
}

static void wait_for_room(void)
{
	struct pollfd pollfd = { .fd = agent_fd, .events = POLLOUT };
	if (poll(&pollfd, 1, silence_ms()) == 0) {
		leave_session();
	}
}

void zk_worker_send(struct buffer *frame)
{
	pthread_mutex_lock(&sending);
	for (size_t sent = 0; sent < frame->len;) {
		ssize_t n = send(agent_fd, frame->data + sent, frame->len - sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			wait_for_room();
		} else if (n < 0 && errno != EINTR) {
			_exit(0);
		}
		sent += n > 0 ? (size_t)n : 0;
	}
	pthread_mutex_unlock(&sending);
	buffer_clear(frame);
}

static void send_log(enum zk_log_kind kind, const char *message)
{
	struct buffer frame;
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	if (zk_log_encode(&frame, &(struct zk_log){ .kind = kind, .message = message }) == 0) {
		zk_worker_send(&frame);
	}
	buffer_finish(&frame);
}

void zk_worker_say(const char *format, ...)
{
	char message[MESSAGE_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	send_log(ZK_LOG_OWN, message);
}

/* The library repeats itself without end while a server is away. */
static bool may_log(void)
{
	static _Atomic long second;
	static atomic_int lines;
	long now = (long)(clock_monotonic_ms() / 1000);
	if (atomic_exchange(&second, now) != now) {
		atomic_store(&lines, 0);
	}
	return atomic_fetch_add(&lines, 1) < LOG_LINES_A_SECOND;
}

/*
 * "Socket HOST:PORT zk retcode=-4, errno=111(Connection refused): words" without its numbers. The
 * library sets EHOSTDOWN when the server has closed the connection, which the words say better.
 * LIBRARY for another line, which stays as it is.
 */
static enum zk_log_kind read_socket_line(const char *line, char *out, size_t size)
{
	char server[256];
	char reason[128];
	int number;
	int words = 0;
	if (sscanf(line, "Socket %255s zk retcode=%*d, errno=%d(%127[^)]): %n", server, &number,
		    reason, &words) != 3 ||
		words == 0) {
		snprintf(out, size, "%s", line);
		return ZK_LOG_LIBRARY;
	}
	bool closed = number == EHOSTDOWN || number == 0;
	snprintf(out, size, "%s: %s%s%s", server, line + words, closed ? "" : ": ",
		closed ? "" : reason);
	return closed ? ZK_LOG_CLOSED : ZK_LOG_LIBRARY;
}

/* A line is "date:pid(thread):LEVEL@function@line: words"; only the words help a person. */
static void on_library_log(const char *line)
{
	char message[512];
	const char *words = strchr(line, '@');
	words = words ? strchr(words + 1, '@') : NULL;
	words = words ? strstr(words, ": ") : NULL;
	words = words ? words + 2 : line;
	/* The lines before them say why; these would hide them. */
	bool news = strncmp(words, "Delaying connection", strlen("Delaying connection")) != 0 &&
		strncmp(words, "Exceeded deadline", strlen("Exceeded deadline")) != 0;
	if (news && may_log()) {
		send_log(read_socket_line(words, message, sizeof(message)), message);
	}
}

static void server_name(zhandle_t *zh, char *out, size_t size)
{
	const char *name = zoo_get_current_server(zh);
	snprintf(out, size, "%s", name ? name : "");
}

/* `zh` is NULL before the first attempt. */
static void send_session(zhandle_t *zh, enum zk_session_state state)
{
	char server[128];
	bool connected = state == ZK_SESSION_CONNECTED;
	struct zk_session session = { .state = state,
		.server = "",
		.addresses = connected || !zh ? buffer_text(&addresses) : "" };
	if (connected) {
		const clientid_t *id = zoo_client_id(zh);
		server_name(zh, server, sizeof(server));
		session.id = (uint64_t)id->client_id;
		session.timeout_ms = (uint32_t)zoo_recv_timeout(zh);
		atomic_store(&granted_ms, zoo_recv_timeout(zh));
		session.server = server;
		memcpy(session.password, id->passwd, sizeof(session.password));
	}
	struct buffer frame;
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	if (zk_session_encode(&frame, &session) < 0) {
		abort();
	}
	zk_worker_send(&frame);
	buffer_finish(&frame);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void)path;
	(void)context;
	if (type != ZOO_SESSION_EVENT) {
		return;
	}
	if (state == ZOO_CONNECTED_STATE) {
		send_session(zh, ZK_SESSION_CONNECTED);
	} else if (state == ZOO_EXPIRED_SESSION_STATE) {
		send_session(zh, ZK_SESSION_EXPIRED);
	} else if (state == ZOO_AUTH_FAILED_STATE) {
		send_session(zh, ZK_SESSION_AUTH_FAILED);
	} else {
		send_session(zh, ZK_SESSION_CONNECTING);
	}
}

/* ---- from the agent ---- */

/*
 * False when `timeout_ms` is over first. The agent's end ends this process and leaves the session
 * to whoever comes next.
 */
static bool read_more(struct buffer *in, int timeout_ms)
{
	enum { CHUNK = 64 * 1024 };
	struct pollfd pollfd = { .fd = agent_fd, .events = POLLIN };
	if (poll(&pollfd, 1, timeout_ms) == 0) {
		return false;
	}
	char *place = buffer_reserve(in, CHUNK);
	ssize_t n = place ? read(agent_fd, place, CHUNK) : 0;
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
		_exit(0);
	}
	buffer_added(in, n > 0 ? (size_t)n : 0);
	return true;
}

/* The length of the first frame, which stays in the buffer; 0 when it is not complete yet. */
static size_t peek(const struct buffer *in, struct zk_frame *ret_frame)
{
	long len = zk_frame_next(ret_frame, in->data, in->len);
	if (len < 0) {
		abort();
	}
	return (size_t)len;
}

static void read_hello(struct buffer *in)
{
	struct zk_frame frame;
	size_t len;
	buffer_init(&hello_frame, ZK_FRAME_MAX_BYTES);
	while (!(len = peek(in, &frame))) {
		read_more(in, -1);
	}
	if (buffer_append(&hello_frame, in->data, len) < 0) {
		abort();
	}
	explicit_bzero(in->data, len);
	buffer_consume(in, len);
	if (peek(&hello_frame, &frame) != len || zk_hello_decode(&hello, &frame) < 0) {
		abort();
	}
}

/*
 * A worker that goes on with a session uses the addresses of its predecessor at once, because a
 * name server may be away too. The first worker looks the names up until one has an address; the
 * agent may close meanwhile.
 */
static void find_servers(struct buffer *in)
{
	bool look_up = hello.look_up || !hello.addresses[0];
	while (look_up) {
		struct err err = ERR_INIT;
		if (zk_worker_resolve(&addresses, hello.servers, &err) == 0) {
			return;
		}
		zk_worker_say("%s", err.msg);
		buffer_clear(&addresses);
		if (hello.addresses[0]) {
			break;
		}
		if (read_more(in, RESOLVE_AGAIN_MS)) {
			struct zk_frame frame;
			if (peek(in, &frame) && frame.type == ZK_FRAME_CLOSE) {
				_exit(0);
			}
		}
	}
	buffer_append_text(&addresses, hello.addresses);
}

/* From here on the process can do only what connections need. */
static void close_cage(void)
{
	char words[140];
	char message[160];
	if (strcmp(hello.auth, "sasl") == 0) {
		send_log(
			ZK_LOG_CAGE, "cage: none, because SASL mechanisms read files of their own");
		return;
	}
	zk_worker_cage(hello.tls, buffer_text(&addresses), words, sizeof(words));
	snprintf(message, sizeof(message), "cage: %s", words);
	send_log(ZK_LOG_CAGE, message);
}

static void handle(zhandle_t *zh, const struct zk_frame *frame)
{
	struct zk_request request;
	if (frame->type == ZK_FRAME_CLOSE) {
		zookeeper_close(zh);
		_exit(0);
	}
	if (frame->type == ZK_FRAME_ALIVE) {
		return;
	}
	if (zk_request_decode(&request, frame) < 0) {
		abort();
	}
	zk_worker_request(zh, &request);
}

static void handle_all(zhandle_t *zh, struct buffer *in)
{
	struct zk_frame frame;
	size_t used = 0;
	for (;;) {
		long len = zk_frame_next(&frame, in->data + used, in->len - used);
		if (len < 0) {
			abort();
		}
		if (len == 0) {
			break;
		}
		handle(zh, &frame);
		used += (size_t)len;
	}
	buffer_consume(in, used);
}

static void serve(zhandle_t *zh, struct buffer *in)
{
	for (;;) {
		handle_all(zh, in);
		if (!read_more(in, silence_ms())) {
			leave_session();
		}
	}
}

/*
 * Alone with its socket: no signal, no inherited descriptor, no core dump with secrets, no life
 * without the agent.
 */
static void seclude(void)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 0);
	if (agent_fd > 3) {
		linux_close_range(3, (unsigned)agent_fd - 1);
	}
	linux_close_range(agent_fd + 1, ~0U);
}

int main(int argc, char **argv)
{
	agent_fd = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
	if (agent_fd < 3) {
		fprintf(stderr, "%s: started by berthd and the like, not by hand\n", argv[0]);
		return 2;
	}
	seclude();
	struct err err = ERR_INIT;
	struct buffer in;
	buffer_init(&in, ZK_FRAME_MAX_BYTES + ZK_FRAME_HEAD_BYTES + 64 * 1024);
	buffer_init(&addresses, 64 * 1024);
	read_hello(&in);
	find_servers(&in);
	close_cage();
	/* From now on the agent's patience is for a server that answers. */
	send_session(NULL, ZK_SESSION_CONNECTING);
	zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
	zoo_deterministic_conn_order(true);
	zhandle_t *zh = zk_worker_connect(
		&hello, buffer_text(&addresses), on_session, on_library_log, &err);
	if (!zh) {
		zk_worker_say("%s", err.msg);
		return 1;
	}
	serve(zh, &in);
}
