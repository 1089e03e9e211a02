#include "tests/support/zk_stage.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/registry/internal.h"
#include "tests/support/clock_call.h"

/* The workers inherit the leash: they send their socket through it, and are led by it. */
enum { LEASH_FD = 100, PATIENCE_MS = 60000, CLOSED = 'c', SOCKET = 'w' };

/* Comes with a worker's socket, and says whose it is. */
struct sender {
	char word; /* SOCKET */
	pid_t pid;
};

/* Of the worker, to the agent: its only argument, which not every libc gives to a constructor. */
enum { WORKER_FD = 3 };

struct zk_stage zk_stage = { .socket = -1 };

static int leash = -1; /* the test's end */
static struct timespec still;

static void give_up(const char *what)
{
	fprintf(stderr, "the ZooKeeper stage: %s\n", what);
	abort();
}

/* ---- the clock ---- */

static void stop_clock(void)
{
	syscall(CLOCK_CALL, CLOCK_BOOTTIME, &still);
}

int zk_stage_clock(clockid_t clock, struct timespec *now)
{
	if (clock != CLOCK_BOOTTIME || still.tv_sec == 0) {
		return (int)syscall(CLOCK_CALL, clock, now);
	}
	*now = still;
	return 0;
}

static int64_t clock_ms(void)
{
	return (int64_t)still.tv_sec * 1000 + still.tv_nsec / 1000000;
}

/* ---- in the process of the worker ---- */

static void send_socket(int fd)
{
	struct sender sender = { SOCKET, getpid() };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
			      .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec data = { &sender, sizeof(sender) };
	struct msghdr message = { .msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes) };
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	sendmsg(LEASH_FD, &message, 0);
}

static void say_connected(int fd)
{
	const struct zk_session session = { .state = ZK_SESSION_CONNECTED,
		.id = ZK_STAGE_SESSION,
		.timeout_ms = ZK_STAGE_TIMEOUT_MS,
		.server = "",
		.addresses = "" };
	struct buffer frame;
	buffer_init(&frame, 1024);
	zk_session_encode(&frame, &session);
	(void)!write(fd, frame.data, frame.len);
	buffer_finish(&frame);
}

static void read_until_close(int fd)
{
	static char bytes[1 << 20];
	size_t len = 0;
	ssize_t got;
	char word = CLOSED;
	while ((got = read(fd, bytes + len, sizeof(bytes) - len)) > 0) {
		struct zk_frame frame;
		long frame_len;
		len += (size_t)got;
		for (size_t at = 0; (frame_len = zk_frame_next(&frame, bytes + at, len - at)) > 0;
			at += (size_t)frame_len) {
			if (frame.type == ZK_FRAME_CLOSE) {
				(void)!write(LEASH_FD, &word, 1);
				return;
			}
		}
	}
}

/* Runs before main(): the program is the backend's worker, too. */
__attribute__((constructor)) static void be_the_worker(void)
{
	char word;
	if (strcmp(program_invocation_name, "berth-zookeeper") != 0) {
		return;
	}
	/* A word for the worker before, which was stopped, is for this one. */
	bool speaks = recv(LEASH_FD, &word, 1, MSG_DONTWAIT) == 1;
	if (!speaks) {
		send_socket(WORKER_FD);
		speaks = read(LEASH_FD, &word, 1) == 1;
	}
	if (speaks) {
		say_connected(WORKER_FD);
		read_until_close(WORKER_FD);
	}
	_exit(0);
}

/* ---- the worker, in the test ---- */

static void make_leash(void)
{
	int ends[2];
	if (leash >= 0) {
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
		dup2(ends[1], LEASH_FD) < 0) {
		give_up("no leash");
	}
	close(ends[1]);
	leash = ends[0];
}

static void make_program(void)
{
	char program[SCRATCH_PATH + 32];
	scratch_folder(zk_stage.folder);
	snprintf(program, sizeof(program), "%s/berth-zookeeper", zk_stage.folder);
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[len > 0 ? len : 0] = '\0';
	if (symlink(self, program) < 0) {
		give_up("no link to this program");
	}
	setenv("BERTH_LIBEXECDIR", zk_stage.folder, 1);
}

static void remove_program(void)
{
	char program[SCRATCH_PATH + 32];
	snprintf(program, sizeof(program), "%s/berth-zookeeper", zk_stage.folder);
	unlink(program);
	rmdir(zk_stage.folder);
}

static int receive_any_socket(pid_t *ret_sender)
{
	struct sender sender;
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec data = { &sender, sizeof(sender) };
	struct msghdr message = { .msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	struct pollfd until_sent = { .fd = leash, .events = POLLIN };
	if (poll(&until_sent, 1, PATIENCE_MS) <= 0 ||
		recvmsg(leash, &message, MSG_CMSG_CLOEXEC) != sizeof(sender) ||
		!CMSG_FIRSTHDR(&message)) {
		give_up("the worker does not hand over its socket");
	}
	int fd;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	*ret_sender = sender.pid;
	return fd;
}

/* A worker that was killed in its first moments may have left its socket on the leash. */
static int receive_socket(pid_t worker)
{
	pid_t sender;
	int fd = receive_any_socket(&sender);
	while (sender != worker) {
		close(fd);
		fd = receive_any_socket(&sender);
	}
	return fd;
}

static void read_all(void)
{
	char *place;
	ssize_t got;
	while ((place = buffer_reserve(&zk_stage.in, 65536)) &&
		(got = recv(zk_stage.socket, place, 65536, MSG_DONTWAIT)) > 0) {
		buffer_added(&zk_stage.in, (size_t)got);
	}
}

static void read_hello(void)
{
	struct zk_frame frame;
	read_all();
	long len = zk_frame_next(&frame, zk_stage.in.data, zk_stage.in.len);
	buffer_clear(&zk_stage.greeting);
	if (len <= 0 || buffer_append(&zk_stage.greeting, zk_stage.in.data, (size_t)len) < 0 ||
		zk_frame_next(&frame, zk_stage.greeting.data, zk_stage.greeting.len) != len ||
		zk_hello_decode(&zk_stage.hello, &frame) < 0) {
		give_up("the worker was not greeted");
	}
	buffer_consume(&zk_stage.in, (size_t)len);
}

static void forget_worker(void)
{
	if (zk_stage.socket >= 0) {
		close(zk_stage.socket);
	}
	zk_stage.socket = -1;
	zk_stage.worker = 0;
	zk_stage.used = 0;
	buffer_clear(&zk_stage.in);
}

static void attend_worker(void)
{
	pid_t pid = ((struct registry_zk *)zk_stage.backend)->worker.pid;
	if (pid == zk_stage.worker) {
		return;
	}
	forget_worker();
	if (pid != 0) {
		zk_stage.worker = pid;
		zk_stage.workers++;
		zk_stage.socket = receive_socket(pid);
		read_hello();
	}
}

void zk_stage_kill_worker(void)
{
	siginfo_t info;
	if (zk_stage.worker == 0) {
		give_up("no worker runs");
	}
	kill(zk_stage.worker, SIGKILL);
	waitid(P_PID, (id_t)zk_stage.worker, &info, WEXITED | WNOWAIT);
	close(zk_stage.socket);
	zk_stage.socket = -1;
	zk_stage_dispatch();
}

void zk_stage_freeze_worker(void)
{
	siginfo_t info;
	kill(zk_stage.worker, SIGSTOP);
	/* Until it is stopped, it could take a word that is for the next one. */
	if (waitid(P_PID, (id_t)zk_stage.worker, &info, WSTOPPED) < 0) {
		give_up("the worker is not frozen");
	}
}

void zk_stage_leave_worker(void)
{
	char word = 'r';
	close(zk_stage.socket);
	zk_stage.socket = -1;
	if (write(leash, &word, 1) != 1) {
		give_up("the worker is not on its leash");
	}
}

bool zk_stage_was_closed(void)
{
	char word = '\0';
	/* Another worker may have handed over its socket before. */
	while (word != CLOSED && recv(leash, &word, 1, MSG_DONTWAIT) == 1) {
	}
	return word == CLOSED;
}

/* ---- the core ---- */

__attribute__((format(printf, 3, 4))) static void note(
	char *out, size_t size, const char *format, ...)
{
	size_t used = strlen(out);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(out + used, size - used, format, arguments);
	va_end(arguments);
}

static void on_completed(void *core, struct registry_task *task)
{
	task->owner = core;
}

static void on_notified(void *core, const char *path, enum registry_watch_kind kind, bool gone)
{
	struct zk_stage *stage = core;
	const char *word = gone ? "gone" : kind == REGISTRY_WATCH_DATA ? "data" : "children";
	note(stage->changes, sizeof(stage->changes), "%s %s\n", word, path);
}

static void on_state(void *core, enum registry_state state, const char *why)
{
	struct zk_stage *stage = core;
	note(stage->states, sizeof(stage->states), "%s: %s\n", registry_state_name(state), why);
}

static void on_log(void *core, enum registry_log_level level, const char *message)
{
	static const char *const names[] = { [REGISTRY_LOG_ERROR] = "error",
		[REGISTRY_LOG_WARN] = "warn",
		[REGISTRY_LOG_INFO] = "info",
		[REGISTRY_LOG_DEBUG] = "debug" };
	struct zk_stage *stage = core;
	note(stage->log, sizeof(stage->log), "%s: %s\n", names[level], message);
}

static void on_attempt(void *core, const char *why, unsigned count)
{
	struct zk_stage *stage = core;
	snprintf(stage->trouble, sizeof(stage->trouble), "%s", why);
	stage->attempts = count;
}

/* ---- the backend ---- */

void zk_stage_open(struct registry_options options)
{
	const struct registry_core core = { .core = &zk_stage,
		.completed = on_completed,
		.notified = on_notified,
		.state = on_state,
		.log = on_log,
		.attempt = on_attempt };
	struct err err = ERR_INIT;
	options.url = options.url ? options.url : "zookeeper://one,two,three/registry";
	if (options.session_timeout_ms == 0) {
		options.session_timeout_ms = ZK_STAGE_TIMEOUT_MS;
	}
	options = registry_options_complete(&options);
	buffer_init(&zk_stage.in, 1 << 24);
	buffer_init(&zk_stage.greeting, 1 << 16);
	make_leash();
	make_program();
	stop_clock();
	zk_stage.now_ms = clock_ms();
	const char *rest = strstr(options.url, "//") + 2;
	if (registry_zk_ops.open(&zk_stage.backend, rest, &options, &core, &err)) {
		give_up(err.msg);
	}
	zk_stage_dispatch();
}

void zk_stage_open_connected(void)
{
	zk_stage_open((struct registry_options){ 0 });
	zk_stage_connect();
}

void zk_stage_clear(void)
{
	forget_worker();
	buffer_finish(&zk_stage.in);
	buffer_finish(&zk_stage.greeting);
	remove_program();
	zk_stage.backend = NULL;
	still.tv_sec = 0;
}

void zk_stage_detach(void)
{
	json_decref(registry_zk_ops.detach(zk_stage.backend));
	zk_stage_clear();
}

void zk_stage_dispatch(void)
{
	registry_zk_ops.dispatch(zk_stage.backend, zk_stage.now_ms);
	attend_worker();
}

void zk_stage_spend_ms(int64_t ms)
{
	zk_stage.now_ms += ms;
	still.tv_sec = (time_t)(zk_stage.now_ms / 1000);
	still.tv_nsec = (long)(zk_stage.now_ms % 1000) * 1000000;
}

void zk_stage_pass_ms(int64_t ms)
{
	zk_stage_spend_ms(ms);
	zk_stage_dispatch();
}

void zk_stage_submit(struct registry_task *task)
{
	task->owner = NULL;
	task->deadline_ms = task->deadline_ms ? task->deadline_ms : INT64_MAX;
	registry_zk_ops.submit(zk_stage.backend, task);
}

bool zk_stage_is_done(const struct registry_task *task)
{
	return task->owner == &zk_stage;
}

/* ---- the dialogue ---- */

const struct zk_request *zk_stage_request(void)
{
	static struct zk_request request;
	struct zk_frame frame;
	buffer_consume(&zk_stage.in, zk_stage.used);
	read_all();
	long len = zk_frame_next(&frame, zk_stage.in.data, zk_stage.in.len);
	zk_stage.used = len > 0 ? (size_t)len : 0;
	if (len < 0 || (len > 0 && zk_request_decode(&request, &frame) < 0)) {
		give_up("the worker does not understand the backend");
	}
	return len > 0 ? &request : NULL;
}

void zk_stage_say(const char *bytes, size_t len)
{
	if (send(zk_stage.socket, bytes, len, MSG_NOSIGNAL) != (ssize_t)len) {
		give_up("the worker cannot speak");
	}
	zk_stage_dispatch();
}

static void say(struct buffer *frame)
{
	zk_stage_say(frame->data, frame->len);
	buffer_finish(frame);
}

void zk_stage_session(const struct zk_session *session)
{
	struct buffer frame;
	buffer_init(&frame, 1 << 16);
	zk_session_encode(&frame, session);
	say(&frame);
}

void zk_stage_result(const struct zk_result *result)
{
	struct buffer frame;
	buffer_init(&frame, 1 << 24);
	zk_result_encode(&frame, result);
	say(&frame);
}

void zk_stage_event(enum zk_event_kind kind, const char *path, bool gone)
{
	struct buffer frame;
	buffer_init(&frame, 1 << 16);
	zk_event_encode(&frame, &(struct zk_event){ .kind = kind, .path = path, .gone = gone });
	say(&frame);
}

void zk_stage_log(enum zk_log_kind kind, const char *message)
{
	struct buffer frame;
	buffer_init(&frame, 1 << 16);
	zk_log_encode(&frame, &(struct zk_log){ .kind = kind, .message = message });
	say(&frame);
}

void zk_stage_connect(void)
{
	struct zk_session session = { .state = ZK_SESSION_CONNECTED,
		.id = ZK_STAGE_SESSION,
		.timeout_ms = ZK_STAGE_TIMEOUT_MS,
		.server = "10.0.0.1:2181",
		.addresses = ZK_STAGE_ADDRESSES };
	memcpy(session.password, ZK_STAGE_PASSWORD, ZK_PASSWORD_BYTES);
	zk_stage_session(&session);
	const struct zk_request *sync = zk_stage_request();
	if (!sync || sync->operation != ZK_SYNC) {
		give_up("the backend does not sync first");
	}
	zk_stage_answer(sync, ZK_RC_OK);
}

void zk_stage_lose_connection(void)
{
	zk_stage_session(&(struct zk_session){
		.state = ZK_SESSION_CONNECTING, .server = "", .addresses = "" });
}

void zk_stage_answer(const struct zk_request *request, int32_t rc)
{
	zk_stage_result(&(struct zk_result){ .tag = request->tag, .rc = rc });
}
