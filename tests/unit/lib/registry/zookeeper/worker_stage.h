/*
 * The worker's main thread, in a process of its own, with the frames of an agent. The functions of
 * all else are here, and note their arguments in memory that both processes share.
 */
#ifndef TESTS_UNIT_LIB_REGISTRY_ZOOKEEPER_WORKER_STAGE_H
#define TESTS_UNIT_LIB_REGISTRY_ZOOKEEPER_WORKER_STAGE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/registry/zookeeper/worker/cage.h"
#include "lib/registry/zookeeper/worker/worker.h"
#include "tests/support/shifted_clock.h"

enum { WORKER_FD = 10, OTHER_FD = 5, LATE_FD = 12, PAUSE_MS = 3000, MOST_PAUSES = 64 };

#define FOUND "10.0.0.1:2181,10.0.0.2:2181"
#define HEAD "2026-11-23 19:06:16,545:20365(0x7f):ZOO_ERROR@f@1: "

/* Notes of the worker's process, and orders of the test. */
static struct page {
	int lookups;
	int failing_lookups; /* the first ones */
	char servers[256];
	int cages;
	char certificates[256];
	char caged_servers[256];
	char hosts[256]; /* for the client library; "" before it is started */
	bool refuses_start;
	bool is_alone;     /* from signals, debuggers and its parent's end */
	unsigned open_fds; /* of the first 32 */
	int log_level;
	bool in_order;
	int state; /* of the client library */
	int granted_ms;
	bool has_server;
	bool has_long_cage; /* as many words as there may be */
	bool closed;
	int requests;
	char path[256];    /* of the last request */
	int interruptions; /* of the next readings of the socket */
	bool time_flies;   /* a wait ends soon */
	int pauses[MOST_PAUSES];
	int pause_count;
} * page;

static zhandle_t *const handle = (zhandle_t *)&page;
static const struct zk_hello *hello_given;
static watcher_fn on_session;
static log_callback_fn on_log;

/* ---- in place of libc's ---- */

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec time = { .tv_sec = timeout_ms / 1000,
		.tv_nsec = timeout_ms % 1000 * 1000000L };
	if (!page) {
		return ppoll(fds, count, timeout_ms < 0 ? NULL : &time, NULL); /* the runner's */
	}
	if (page->pause_count < MOST_PAUSES) {
		page->pauses[page->pause_count++] = timeout_ms;
	}
	if (page->time_flies && timeout_ms > 0) {
		time = (struct timespec){ .tv_nsec = 2000000 };
	}
	return ppoll(fds, count, timeout_ms < 0 ? NULL : &time, NULL);
}

ssize_t read(int fd, void *out, size_t size)
{
	if (page && fd == WORKER_FD && page->interruptions > 0) {
		errno = page->interruptions-- % 2 ? EINTR : EAGAIN;
		return -1;
	}
	return syscall(SYS_read, fd, out, size);
}

/* ---- in place of the worker's other parts ---- */

int zk_worker_resolve(struct buffer *out, const char *servers, struct err *err)
{
	snprintf(page->servers, sizeof(page->servers), "%s", servers);
	buffer_append_text(out, FOUND);
	if (page->lookups++ < page->failing_lookups) {
		return err_set(err, BERTH_REGISTRY_UNAVAILABLE, "no name server");
	}
	return 0;
}

void zk_worker_cage(const char *certificates, const char *servers, char out[SANDBOX_WORDS_BYTES])
{
	page->cages++;
	snprintf(page->certificates, sizeof(page->certificates), "%s", certificates);
	snprintf(page->caged_servers, sizeof(page->caged_servers), "%s", servers);
	snprintf(out, SANDBOX_WORDS_BYTES, "iron");
	if (page->has_long_cage) {
		memset(out, 'i', SANDBOX_WORDS_BYTES - 1);
		out[SANDBOX_WORDS_BYTES - 1] = '\0';
	}
}

const char *zk_worker_tls_reason(void)
{
	return "no such file";
}

static inline bool is_alone(void)
{
	int death = 0;
	sigset_t now;
	sigprocmask(SIG_BLOCK, NULL, &now);
	prctl(PR_GET_PDEATHSIG, &death);
	return sigismember(&now, SIGTERM) && sigismember(&now, SIGHUP) &&
		prctl(PR_GET_DUMPABLE) == 0 && death == SIGKILL;
}

zhandle_t *zk_worker_connect(const struct zk_hello *hello, const char *hosts, watcher_fn watcher,
	log_callback_fn callback, struct err *err)
{
	page->is_alone = is_alone();
	for (int fd = 0; fd < 32; fd++) {
		page->open_fds |= (unsigned)(fcntl(fd, F_GETFD) >= 0) << fd;
	}
	snprintf(page->hosts, sizeof(page->hosts), "%s", hosts);
	hello_given = hello;
	on_session = watcher;
	on_log = callback;
	if (page->refuses_start) {
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "it does not start");
		return NULL;
	}
	return handle;
}

/* The path says what happens meanwhile; then a line of log answers. */
void zk_worker_request(zhandle_t *zh, const struct zk_request *request)
{
	int number = 0;
	if (zh != handle) {
		abort();
	}
	page->requests++;
	snprintf(page->path, sizeof(page->path), "%s", request->path);
	if (sscanf(request->path, "/session/%d", &number) == 1) {
		on_session(handle, ZOO_SESSION_EVENT, number, "", NULL);
	} else if (strcmp(request->path, "/event") == 0) {
		on_session(handle, ZOO_CHANGED_EVENT, ZOO_CONNECTED_STATE, "/a", NULL);
	} else if (sscanf(request->path, "/lines/%d", &number) == 1) {
		while (number-- > 0) {
			on_log(HEAD "one line");
		}
	} else if (strcmp(request->path, "/quiet") == 0) {
		on_log(HEAD "Exceeded deadline by 11ms");
	} else if (strcmp(request->path, "/tls") == 0) {
		on_log(HEAD "Failed to load CA file /ca.pem");
	} else if (strcmp(request->path, "/long") == 0) {
		char line[1024] = "";
		memset(line, 'l', sizeof(line) - 1);
		on_log(line);
	} else if (sscanf(request->path, "/later/%d", &number) == 1) {
		clock_shift_ms += number;
	} else if (strcmp(request->path, "/hello") == 0) {
		zk_worker_say("%s %s %d", hello_given->servers, hello_given->credential,
			(int)hello_given->timeout_ms);
	}
	zk_worker_say("did %s", request->path);
}

/* ---- in place of the client library's ---- */

const char *zoo_get_current_server(zhandle_t *zh)
{
	return zh == handle && page->has_server ? "10.0.0.2:2181" : NULL;
}

const clientid_t *zoo_client_id(zhandle_t *zh)
{
	static const clientid_t id = { .client_id = 77, .passwd = "0123456789abcde" };
	return zh == handle ? &id : NULL;
}

int zoo_recv_timeout(zhandle_t *zh)
{
	return zh == handle ? page->granted_ms : 0;
}

int zoo_state(zhandle_t *zh)
{
	return zh == handle ? page->state : 0;
}

int zookeeper_close(zhandle_t *zh)
{
	page->closed = zh == handle;
	return ZOK;
}

void zoo_set_debug_level(ZooLogLevel level)
{
	page->log_level = (int)level;
}

void zoo_deterministic_conn_order(int yes)
{
	page->in_order = yes;
}

/* ---- the agent ---- */

static int agent;
static pid_t worker;
static char *heard; /* of which the first frame may be incomplete */
static size_t heard_len;
static size_t heard_used; /* by the last frame */

enum { HEARD_BYTES = 256 * 1024 };

static inline void make_page(void)
{
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(page, MAP_FAILED);
}

static inline struct zk_hello hello(void)
{
	return (struct zk_hello){ .servers = "zk1:2181,zk2:2181",
		.addresses = "",
		.timeout_ms = 6000,
		.auth = "none",
		.credential = "",
		.tls = "" };
}

static inline void begin_at(int fd)
{
	int ends[2];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	agent = fcntl(ends[0], F_DUPFD_CLOEXEC, 20);
	page->granted_ms = 40000;
	page->has_server = true;
	clock_stands = true;
	clock_shift_ms = 5000;
	worker = fork();
	if (worker == 0) {
		char number[12];
		char *words[] = { (char[]){ "berth-zookeeper" }, number, NULL };
		snprintf(number, sizeof(number), "%d", fd);
		dup2(ends[1], 15);
		dup2(15, 3);
		dup2(15, OTHER_FD);
		dup2(15, LATE_FD);
		dup2(15, fd);
		_exit(zk_worker_main(2, words));
	}
	close(ends[0]);
	close(ends[1]);
	heard = malloc(HEARD_BYTES);
	heard_len = heard_used = 0;
}

static inline void say(struct buffer *frames)
{
	cr_assert_eq(send(agent, frames->data, frames->len, MSG_NOSIGNAL), (ssize_t)frames->len);
	buffer_finish(frames);
}

static inline void begin(const struct zk_hello *words)
{
	struct buffer frame;
	begin_at(WORKER_FD);
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	cr_assert_eq(zk_hello_encode(&frame, words), 0);
	say(&frame);
}

static inline void append_request(struct buffer *frames, const char *path)
{
	cr_assert_eq(
		zk_request_encode(frames,
			&(struct zk_request){ .operation = ZK_SYNC, .path = path, .data = "" }),
		0);
}

static inline void request(const char *path)
{
	struct buffer frame;
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	append_request(&frame, path);
	say(&frame);
}

static inline void close_session(void)
{
	struct buffer frame;
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	cr_assert_eq(zk_close_encode(&frame), 0);
	say(&frame);
}

/* The next frame of the worker, borrowed until the next call. */
static inline struct zk_frame hear(void)
{
	struct zk_frame frame;
	long len;
	memmove(heard, heard + heard_used, heard_len - heard_used);
	heard_len -= heard_used;
	while ((len = zk_frame_next(&frame, heard, heard_len)) == 0) {
		ssize_t more = recv(agent, heard + heard_len, HEARD_BYTES - heard_len, 0);
		cr_assert_gt(more, 0, "the worker has gone");
		heard_len += (size_t)more;
	}
	cr_assert_gt(len, 0);
	heard_used = (size_t)len;
	return frame;
}

static inline const char *hear_log(enum zk_log_kind kind)
{
	const struct zk_frame frame = hear();
	struct zk_log log;
	cr_assert_eq(frame.type, ZK_FRAME_LOG);
	cr_assert_eq(zk_log_decode(&log, &frame), 0);
	cr_assert_eq(log.kind, kind, "%s", log.message);
	return log.message;
}

static inline struct zk_session hear_session(enum zk_session_state state)
{
	const struct zk_frame frame = hear();
	struct zk_session session;
	cr_assert_eq(frame.type, ZK_FRAME_SESSION);
	cr_assert_eq(zk_session_decode(&session, &frame), 0);
	cr_assert_eq(session.state, state);
	return session;
}

/* To the end of its beginning. */
static inline struct zk_session hear_beginning(void)
{
	cr_expect_str_eq(hear_log(ZK_LOG_CAGE), "cage: iron");
	return hear_session(ZK_SESSION_CONNECTING);
}

static inline void hear_done(const char *path)
{
	char expected[64];
	snprintf(expected, sizeof(expected), "did %s", path);
	cr_expect_str_eq(hear_log(ZK_LOG_OWN), expected);
}

/* The status of the worker's end, or the signal's number and 1000. */
static inline int end_of(pid_t child)
{
	int status;
	cr_assert_eq(waitpid(child, &status, 0), child);
	free(heard);
	heard = NULL;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static inline void end(void)
{
	close(agent);
	cr_expect_eq(end_of(worker), 0);
}

#endif
