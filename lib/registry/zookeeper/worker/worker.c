/* The worker's main thread: from the hello of the agent to the end of one of them. */
#include "lib/registry/zookeeper/worker/worker.h"
#include "lib/registry/zookeeper/worker/cage.h"
#include "lib/registry/zookeeper/worker/explain.h"
#include "lib/base/clock.h"
#include "lib/base/close_files.h"
#include "lib/base/forget_code.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
	RESOLVE_AGAIN_MS = 3000,
	LOG_LINES_A_SECOND = 20,
	MESSAGE_BYTES = 512,
	LOGIN_LOOK_MS = 200,
	SETTLED_MS = 1000,
};

static int agent_fd;

/* The servers' numeric addresses; they do not change once the library runs. */
static struct buffer addresses;

/* The HELLO that made the session; lives as long as the process. */
static struct buffer hello_frame;
static struct zk_hello hello;

/* As the server has granted it; 0 before that. */
static atomic_int granted_ms;

/* ---- to the agent ---- */

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

static void on_library_log(const char *line)
{
	char message[MESSAGE_BYTES];
	enum zk_log_kind kind = zk_worker_explain(
		line, zk_worker_tls_reason(), message, sizeof(message));
	if (kind && may_log()) {
		zk_worker_log(kind, message);
	}
}

/* How long the agent may say and read nothing. */
static void bear_silence(int timeout_ms)
{
	if (hello.ends_in_silence && timeout_ms > 0) {
		zk_worker_bear_silence_ms(timeout_ms);
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
		bear_silence(zoo_recv_timeout(zh));
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

/* The length of the frame behind `used` bytes, which stays there; 0 when it is not complete yet. */
static size_t peek(const struct buffer *in, size_t used, struct zk_frame *ret_frame)
{
	long len = zk_frame_next(ret_frame, in->data + used, in->len - used);
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
	while (!(len = peek(in, 0, &frame))) {
		read_more(in, -1);
	}
	if (buffer_append(&hello_frame, in->data, len) < 0) {
		abort();
	}
	explicit_bzero(in->data, len);
	buffer_consume(in, len);
	if (peek(&hello_frame, 0, &frame) != len || zk_hello_decode(&hello, &frame) < 0) {
		abort();
	}
	bear_silence((int)hello.timeout_ms);
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
		/* It may have come with the hello. */
		struct zk_frame frame;
		read_more(in, RESOLVE_AGAIN_MS);
		if (peek(in, 0, &frame) && frame.type == ZK_FRAME_CLOSE) {
			_exit(0);
		}
	}
	buffer_append_text(&addresses, hello.addresses);
}

/* From here on the process can do only what connections need. */
static void close_cage(void)
{
	char words[SANDBOX_WORDS_BYTES];
	char message[SANDBOX_WORDS_BYTES + 8];
	if (strcmp(hello.auth, "sasl") == 0) {
		zk_worker_log(
			ZK_LOG_CAGE, "cage: none, because SASL mechanisms read files of their own");
		return;
	}
	zk_worker_cage(hello.tls, buffer_text(&addresses), words);
	snprintf(message, sizeof(message), "cage: %s", words);
	zk_worker_log(ZK_LOG_CAGE, message);
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
	for (size_t len; (len = peek(in, used, &frame)) > 0; used += len) {
		handle(zh, &frame);
	}
	buffer_consume(in, used);
}

/*
 * The library says nothing when a server refuses its SASL login, and goes no further. True when
 * that has been reported, or cannot happen any more.
 */
static bool login_is_over(zhandle_t *zh)
{
	if (zoo_state(zh) != ZOO_AUTH_FAILED_STATE) {
		return atomic_load(&granted_ms) > 0;
	}
	const char *login = hello.credential[0]
		? "look at the name and the password in auth_file, and at the server's users"
		: "look at the ticket of Kerberos (klist)";
	zk_worker_say("the server refuses the SASL login: %s", login);
	send_session(zh, ZK_SESSION_AUTH_FAILED);
	return true;
}

/* False when the agent is silent for too long. */
static bool hear_agent(zhandle_t *zh, struct buffer *in)
{
	static bool logged_in;
	int left_ms = zk_worker_silence_ms();
	logged_in = logged_in || strcmp(hello.auth, "sasl") != 0;
	while (!logged_in && left_ms != 0) {
		int look_ms = left_ms < 0 || left_ms > LOGIN_LOOK_MS ? LOGIN_LOOK_MS : left_ms;
		if (read_more(in, look_ms)) {
			return true;
		}
		left_ms -= left_ms < 0 ? 0 : look_ms;
		logged_in = login_is_over(zh);
	}
	return read_more(in, left_ms);
}

static _Noreturn void serve(zhandle_t *zh, struct buffer *in)
{
	int64_t settled_ms = clock_monotonic_ms() + SETTLED_MS;
	for (;;) {
		handle_all(zh, in);
		/* With the first frame after that: the first record does not wait for it. */
		if (clock_monotonic_ms() >= settled_ms) {
			settled_ms = INT64_MAX;
			forget_code();
		}
		if (!hear_agent(zh, in)) {
			zk_worker_leave();
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
	close_files(STDERR_FILENO + 1, agent_fd - 1);
	close_files(agent_fd + 1, INT_MAX);
}

int zk_worker_main(int argc, char **argv)
{
	agent_fd = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
	if (agent_fd < 3) {
		fprintf(stderr, "%s: started by berthd and the like, not by hand\n", argv[0]);
		return 2;
	}
	zk_worker_send_to(agent_fd);
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
