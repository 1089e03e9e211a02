#include "lib/registry/zookeeper/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/linux_calls.h"
#include "lib/base/program_find.h"

#define PROGRAM "berth-zookeeper"

enum {
	WORKER_FD = 3,
	PROGRAM_PATH_BYTES = 4096,
	READ_BYTES = 64 * 1024,
	READS_AT_ONCE = 32, /* then the loop gets its turn */
	QUEUE_MAX_BYTES = 64 * 1024 * 1024,
	VARIABLES_MAX = 64,
	REAP_PAUSE_MS = 5 /* where the kernel has no descriptor for a process */
};

extern char **environ;

void zk_worker_process_init(struct zk_worker_process *worker)
{
	*worker = (struct zk_worker_process){ .pidfd = -1, .fd = -1, .log_fd = -1 };
	buffer_init(&worker->in, ZK_FRAME_MAX_BYTES + ZK_FRAME_HEAD_BYTES + READ_BYTES);
	buffer_init(&worker->out, QUEUE_MAX_BYTES);
}

/* A process group of its own keeps a terminal's ^C from it; no signal but KILL reaches it. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t all;
	sigfillset(&all);
	return posix_spawnattr_setflags(attributes,
		       POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) ||
		posix_spawnattr_setpgroup(attributes, 0) ||
		posix_spawnattr_setsigmask(attributes, &all) ||
		posix_spawnattr_setsigdefault(attributes, &all);
}

/* `log_fd` -1: its errors go where ours do. */
static int set_files(posix_spawn_file_actions_t *actions, int fd, int log_fd)
{
	return posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0) ||
		posix_spawn_file_actions_adddup2(actions, 0, 1) ||
		(log_fd >= 0 && posix_spawn_file_actions_adddup2(actions, log_fd, 2)) ||
		posix_spawn_file_actions_adddup2(actions, fd, WORKER_FD);
}

/*
 * The worker gets the variables that the loader, Kerberos and SASL read, and the variable that
 * keeps its look-ups of names from asking the agent. All others may hold secrets that are not its
 * own.
 */
static char *const *environment_of_worker(void)
{
	static const char *const beginnings[] = {
		"LD_",
		"KRB5",
		"SASL_PATH=",
		"BERTH_NSS=",
#ifdef __SANITIZE_ADDRESS__
		"ASAN_OPTIONS=",
		"UBSAN_OPTIONS=",
#endif
	};
	static char *variables[VARIABLES_MAX];
	size_t count = 0;
	for (char **at = environ; at && *at; at++) {
		for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
			if (count + 1 < VARIABLES_MAX &&
				strncmp(*at, beginnings[i], strlen(beginnings[i])) == 0) {
				variables[count++] = *at;
			}
		}
	}
	variables[count] = NULL;
	return variables;
}

static int spawn(pid_t *ret_pid, int fd, int log_fd, struct err *err)
{
	char program[PROGRAM_PATH_BYTES];
	char number[] = { '0' + WORKER_FD, '\0' };
	char *const arguments[] = { PROGRAM, number, NULL };
	posix_spawnattr_t attributes;
	posix_spawn_file_actions_t actions;
	program_find(program, sizeof(program), PROGRAM);
	if (posix_spawnattr_init(&attributes)) {
		return err_set(err, BERTH_FAILED, "no memory");
	}
	if (posix_spawn_file_actions_init(&actions)) {
		posix_spawnattr_destroy(&attributes);
		return err_set(err, BERTH_FAILED, "no memory");
	}
	int rc = set_attributes(&attributes) || set_files(&actions, fd, log_fd)
		? ENOMEM
		: posix_spawn(ret_pid, program, &actions, &attributes, arguments,
			  environment_of_worker());
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return rc ? err_set(err, BERTH_FAILED, "cannot start the ZooKeeper worker %s: %s", program,
			    linux_spawn_error(rc))
		  : 0;
}

/* The greeting holds secrets: it must fit into the empty socket at once, and it is wiped. */
static int greet(int fd, const struct zk_hello *hello, struct err *err)
{
	struct buffer greeting;
	buffer_init(&greeting, QUEUE_MAX_BYTES);
	int rc = zk_hello_encode(&greeting, hello);
	if (rc == 0) {
		ssize_t sent = send(fd, greeting.data, greeting.len, MSG_NOSIGNAL);
		rc = sent == (ssize_t)greeting.len ? 0 : -1;
	}
	if (greeting.data) {
		explicit_bzero(greeting.data, greeting.size);
	}
	buffer_finish(&greeting);
	return rc ? err_set(err, BERTH_FAILED, "the greeting of the ZooKeeper worker is too long")
		  : 0;
}

static void stop_talking(struct zk_worker_process *worker)
{
	if (worker->fd >= 0) {
		close(worker->fd);
		worker->fd = -1;
	}
	if (worker->log_fd >= 0) {
		close(worker->log_fd);
		worker->log_fd = -1;
	}
}

int zk_worker_process_start(
	struct zk_worker_process *worker, const struct zk_hello *hello, struct err *err)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "no socket for the ZooKeeper worker");
	}
	int log_ends[2] = { -1, -1 };
	/* Without a pipe its errors go where ours go. */
	(void)!pipe2(log_ends, O_CLOEXEC);
	worker->fd = ends[0];
	worker->log_fd = log_ends[0];
	/* A worker that ends at once has been greeted, and its reason can be read. */
	int rc = fcntl(worker->fd, F_SETFL, O_NONBLOCK) < 0
		? err_set_errno(err, BERTH_FAILED, errno, "the ZooKeeper worker's socket")
		: greet(worker->fd, hello, err);
	pid_t pid = -1;
	if (rc == 0) {
		rc = spawn(&pid, ends[1], log_ends[1], err);
	}
	close(ends[1]);
	if (log_ends[1] >= 0) {
		close(log_ends[1]);
	}
	if (rc < 0) {
		stop_talking(worker);
		return rc;
	}
	worker->pid = pid;
	worker->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

int zk_worker_process_send(struct zk_worker_process *worker, const struct zk_request *request)
{
	if (worker->fd < 0) {
		return -1;
	}
	int rc = zk_request_encode(&worker->out, request);
	/* The encoder took the half-written frame back; those before it are whole. */
	worker->out.failed = false;
	return rc;
}

void zk_worker_process_say_alive(struct zk_worker_process *worker)
{
	/* Without memory for it nothing is lost: the next one comes soon. */
	(void)zk_alive_encode(&worker->out);
	worker->out.failed = false;
}

bool zk_worker_process_flush(struct zk_worker_process *worker)
{
	size_t sent = 0;
	while (worker->fd >= 0 && sent < worker->out.len) {
		ssize_t n = send(
			worker->fd, worker->out.data + sent, worker->out.len - sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			break;
		}
		sent += (size_t)n;
	}
	buffer_consume(&worker->out, sent);
	return worker->out.len == 0;
}

int zk_worker_process_receive(struct zk_worker_process *worker)
{
	for (int i = 0; i < READS_AT_ONCE; i++) {
		char *place = buffer_reserve(&worker->in, READ_BYTES);
		if (!place) {
			/* No frame is that long: handle what there is first. */
			worker->in.failed = false;
			return 0;
		}
		ssize_t n = read(worker->fd, place, READ_BYTES);
		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			return 0;
		}
		if (n <= 0) {
			return -1;
		}
		buffer_added(&worker->in, (size_t)n);
	}
	return 0;
}

size_t zk_worker_process_read_log(struct zk_worker_process *worker, char *out, size_t size)
{
	struct pollfd pollfd = { .fd = worker->log_fd, .events = POLLIN };
	if (worker->log_fd < 0 || poll(&pollfd, 1, 0) <= 0) {
		return 0;
	}
	ssize_t len = read(worker->log_fd, out, size - 1);
	if (len < 0 && errno == EINTR) {
		return 0;
	}
	if (len <= 0) { /* the worker has closed it */
		close(worker->log_fd);
		worker->log_fd = -1;
		return 0;
	}
	out[len] = '\0';
	return (size_t)len;
}

static int left_ms(int64_t until_ms)
{
	int64_t left = until_ms - clock_monotonic_ms();
	return left > 0 ? (int)left : 0;
}

static void reap(pid_t pid)
{
	int rc;
	do {
		rc = waitpid(pid, NULL, 0);
	} while (rc < 0 && errno == EINTR);
}

static bool wait_with_descriptor(const struct zk_worker_process *worker, int64_t until_ms)
{
	struct pollfd pollfd = { .fd = worker->pidfd, .events = POLLIN };
	int rc;
	do {
		rc = poll(&pollfd, 1, left_ms(until_ms));
	} while (rc < 0 && errno == EINTR);
	return rc != 0;
}

/* True when the process has ended, reaped by us or by others. */
static bool wait_for_end(struct zk_worker_process *worker, int64_t until_ms)
{
	if (worker->pidfd >= 0) {
		if (!wait_with_descriptor(worker, until_ms)) {
			return false;
		}
		reap(worker->pid);
		return true;
	}
	while (waitpid(worker->pid, NULL, WNOHANG) == 0) {
		if (left_ms(until_ms) == 0) {
			return false;
		}
		poll(NULL, 0, REAP_PAUSE_MS);
	}
	return true;
}

static void forget(struct zk_worker_process *worker)
{
	if (worker->pidfd >= 0) {
		close(worker->pidfd);
	}
	buffer_finish(&worker->in);
	buffer_finish(&worker->out);
	worker->pid = 0;
	worker->pidfd = -1;
}

void zk_worker_process_end(struct zk_worker_process *worker)
{
	stop_talking(worker);
	if (worker->pid == 0) {
		return;
	}
	/* ESRCH: another reaper was faster, and the number may be another process's now. */
	if (worker->pidfd < 0 ||
		(syscall(SYS_pidfd_send_signal, worker->pidfd, SIGKILL, NULL, 0) != 0 &&
			errno != ESRCH)) {
		kill(worker->pid, SIGKILL);
	}
	reap(worker->pid);
	forget(worker);
}

/*
 * The queue first, so that the CLOSE is not lost behind it; then the worker's end. Its last frames
 * are read and dropped all the while, because it would wait for a reader otherwise.
 */
static bool talk_until_end(struct zk_worker_process *worker, int64_t until_ms)
{
	static char waste[READ_BYTES];
	bool all_sent = false;
	while (left_ms(until_ms) > 0) {
		all_sent = all_sent || zk_worker_process_flush(worker);
		struct pollfd pollfd = { .fd = worker->fd,
			.events = all_sent ? POLLIN : POLLIN | POLLOUT };
		int ready = poll(&pollfd, 1, left_ms(until_ms));
		if (ready == 0) {
			break;
		}
		if (ready > 0 && (pollfd.revents & ~POLLOUT)) {
			ssize_t len = read(worker->fd, waste, sizeof(waste));
			if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) {
				return all_sent && wait_for_end(worker, until_ms);
			}
		}
	}
	return false;
}

bool zk_worker_process_close(struct zk_worker_process *worker, int timeout_ms)
{
	int64_t until_ms = clock_monotonic_ms() + timeout_ms;
	if (worker->fd >= 0 && zk_close_encode(&worker->out) == 0 &&
		talk_until_end(worker, until_ms)) {
		stop_talking(worker);
		forget(worker);
		return true;
	}
	zk_worker_process_end(worker);
	return false;
}

bool zk_worker_process_wait(struct zk_worker_process *worker, int timeout_ms)
{
	struct pollfd pollfd = { .fd = worker->fd, .events = POLLIN };
	return timeout_ms > 0 && poll(&pollfd, 1, timeout_ms) > 0 &&
		zk_worker_process_receive(worker) == 0;
}
