/*
 * The worker's process: its program, its greeting, its queue, and its end. No program is started: a
 * fork of the test plays it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/registry/zookeeper/worker_process.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"

#define INSTALLED BERTH_LIBEXECDIR "/berth-zookeeper"

enum { MOST_VARIABLES = 63, MUCH = 4 * 1024 * 1024, PATIENCE_MS = 60000, A_MOMENT_MS = 20 };

static struct zk_worker_process worker;
static char folder[SCRATCH_PATH];
static char beside[SCRATCH_PATH + 32]; /* the worker's program next to our own */
static int descriptors;

/* ---- what the kernel and libc say ---- */

static bool begun;             /* before, Criterion asks for its own program */
static char own_program[8192]; /* as /proc/self/exe has it; "": unknown */

ssize_t readlink(const char *restrict path, char *restrict out, size_t size)
{
	size_t len = strlen(own_program);
	if (!begun || strcmp(path, "/proc/self/exe") != 0) {
		return syscall(SYS_readlinkat, AT_FDCWD, path, out, size);
	}
	if (len == 0) {
		errno = EACCES;
		return -1;
	}
	len = len < size ? len : size;
	memcpy(out, own_program, len);
	return (ssize_t)len;
}

static uid_t user;

uid_t geteuid(void)
{
	return begun ? user : getuid();
}

static int other = -1; /* the worker's end of the last pair */
static int pair_error; /* or 0 */

int socketpair(int domain, int type, int protocol, int ends[2])
{
	if (pair_error) {
		errno = pair_error;
		return -1;
	}
	int code = (int)syscall(SYS_socketpair, domain, type, protocol, ends);
	other = begun && code == 0 ? fcntl(ends[1], F_DUPFD_CLOEXEC, 0) : -1;
	return code;
}

static size_t piece = SIZE_MAX; /* that a call of send() takes at most, */
static bool interrupted;        /* and not at the first time */

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	if (interrupted) {
		interrupted = false;
		errno = EINTR;
		return -1;
	}
	return sendto(fd, bytes, len < piece ? len : piece, flags, NULL, 0);
}

static bool poll_interrupted; /* the next one for the end of the worker */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" /* gcc believes that poll() only writes */
int poll(struct pollfd *files, nfds_t count, int timeout_ms)
{
	if (poll_interrupted && count == 1 && files->fd == worker.pidfd) {
		poll_interrupted = false;
		errno = EINTR;
		return -1;
	}
	const struct timespec timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
	return ppoll(files, count, timeout_ms < 0 ? NULL : &timeout, NULL);
}
#pragma GCC diagnostic pop

#ifdef __GLIBC__
/* In its place with _FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *files, nfds_t count, int timeout_ms, size_t size);

int __poll_chk(struct pollfd *files, nfds_t count, int timeout_ms, size_t size)
{
	(void)size;
	return poll(files, count, timeout_ms);
}
#endif

static size_t kills; /* by number */

int kill(pid_t pid, int number)
{
	cr_assert_neq(pid, -1, "all processes of the machine");
	kills++;
	return (int)syscall(SYS_kill, pid, number);
}

/* ---- the worker ---- */

static enum {
	NONE,     /* it cannot be started */
	DEAF,     /* it reads nothing, and goes on */
	OBEYS,    /* it ends when a frame closes its session, */
	TALKS,    /* with many words before, */
	LINGERS,  /* or takes leave and goes on, */
	CHATTERS, /* or never stops to talk */
	DIES      /* at once */
} role;

static void read_until_close(void)
{
	static char bytes[2 * MUCH];
	struct zk_frame frame = { .type = ZK_FRAME_HELLO };
	size_t len = 0;
	ssize_t got;
	while (frame.type != ZK_FRAME_CLOSE && (got = read(other, bytes + len, 4096)) > 0) {
		long used;
		len += (size_t)got;
		for (size_t at = 0; (used = zk_frame_next(&frame, bytes + at, len - at)) > 0;) {
			at += (size_t)used;
		}
	}
}

static void be_worker(void)
{
	static char words[MUCH];
	alarm(PATIENCE_MS / 1000);
	if (role == OBEYS || role == TALKS || role == LINGERS) {
		read_until_close();
	}
	if (role == TALKS) {
		(void)!write(other, words, sizeof(words));
	}
	while (role == CHATTERS && write(other, "x", 1) == 1) {
		poll(NULL, 0, 1);
	}
	if (role == LINGERS) {
		shutdown(other, SHUT_RDWR);
	}
	if (role == DEAF || role == LINGERS) {
		pause();
	}
	_exit(0);
}

static char spawned[8192];

static char given[4096]; /* its variables, each with a blank behind it */

int posix_spawn(pid_t *restrict pid, const char *restrict path,
	const posix_spawn_file_actions_t *restrict actions,
	const posix_spawnattr_t *restrict attributes, char *const arguments[restrict],
	char *const environment[restrict])
{
	cr_expect(actions && attributes && environment);
	cr_expect_str_eq(arguments[0], "berth-zookeeper");
	cr_expect_str_eq(arguments[1], "3");
	cr_expect_null(arguments[2]);
	snprintf(spawned, sizeof(spawned), "%s", path);
	given[0] = '\0';
	for (; *environment; environment++) {
		size_t used = strlen(given);
		snprintf(given + used, sizeof(given) - used, "%s ", *environment);
	}
	if (role == NONE) {
		return ENOENT;
	}
	*pid = fork();
	if (*pid == 0) {
		be_worker();
	}
	return 0;
}

static int start(struct err *err)
{
	const struct zk_hello hello = { .servers = "one:2181",
		.addresses = "",
		.auth = "digest",
		.credential = "joe:secret",
		.tls = "" };
	spawned[0] = '\0';
	return zk_worker_process_start(&worker, &hello, err);
}

static void start_as(int wanted)
{
	struct err err = ERR_INIT;
	role = wanted;
	cr_assert_eq(start(&err), 0, "%s", err.msg);
}

static void begin(void)
{
	begun = true;
	kills = 0;
	user = getuid();
	scratch_folder(folder);
	snprintf(beside, sizeof(beside), "%s/berth-zookeeper", folder);
	snprintf(own_program, sizeof(own_program), "%s/berthd", folder);
	unsetenv("BERTH_LIBEXECDIR");
	zk_worker_process_init(&worker);
	descriptors = descriptors_count();
}

static void end(void)
{
	pid_t pid = worker.pid;
	zk_worker_process_end(&worker);
	cr_expect(pid == 0 || syscall(SYS_kill, pid, 0) < 0, "it is reaped");
	if (other >= 0) {
		close(other);
	}
	cr_expect_eq(worker.pid, 0);
	cr_expect_eq(worker.pidfd, -1);
	cr_expect_eq(worker.fd, -1);
	cr_expect_eq(descriptors_count(), descriptors);
	unlink(beside);
	rmdir(beside);
	rmdir(folder);
}

TestSuite(zk_worker, .init = begin, .fini = end);

/* ---- which program it is ---- */

/* The path that is tried, in vain. */
static const char *tried(void)
{
	struct err err = ERR_INIT;
	role = NONE;
	cr_expect_eq(start(&err), BERTH_FAILED);
	cr_expect(strstr(err.msg, "cannot start the ZooKeeper worker "), "%s", err.msg);
	cr_expect(strstr(err.msg, strerror(ENOENT)), "%s", err.msg);
	cr_expect_eq(worker.fd, -1);
	cr_expect_eq(worker.pid, 0);
	close(other);
	other = -1;
	return spawned;
}

static void make_program(mode_t mode)
{
	unlink(beside);
	close(open(beside, O_WRONLY | O_CREAT | O_CLOEXEC, 0700));
	cr_assert_eq(chmod(beside, mode), 0);
}

Test(zk_worker, is_that_of_the_environment_before_all_others)
{
	make_program(0755);
	setenv("BERTH_LIBEXECDIR", "/some/where", 1);
	cr_expect_str_eq(tried(), "/some/where/berth-zookeeper");
	setenv("BERTH_LIBEXECDIR", "", 1);
	cr_expect_str_eq(tried(), beside);
}

Test(zk_worker, gets_no_variables_but_those_of_its_libraries)
{
	static const char *const its_own[] = { "LD_OF_TEST", "KRB5_CONFIG", "SASL_PATH",
		"BERTH_NSS" };
	static const char *const of_others[] = { "SECRET_LD_", "SASL_PATHS", "BERTH_NSSX", "L" };
	for (int i = 0; i < 4; i++) {
		setenv(its_own[i], "own", 1);
		setenv(of_others[i], "secret", 1);
	}
	tried();
	for (int i = 0; i < 4; i++) {
		cr_expect(strstr(given, its_own[i]), "%s: %s", its_own[i], given);
	}
	cr_expect_null(strstr(given, "secret"), "%s", given);
	for (int i = 0; i < 100; i++) {
		char name[16];
		snprintf(name, sizeof(name), "KRB5_%d", i);
		setenv(name, "x", 1);
	}
	tried();
	int count = 0;
	for (const char *at = given; (at = strchr(at, ' ')); at++) {
		count++;
	}
	cr_expect_eq(count, MOST_VARIABLES);
}

Test(zk_worker, may_print_lines)
{
	int ends[2];
	char text[4];
	cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	worker.log_fd = ends[0];
	cr_expect_eq(zk_worker_process_read_log(&worker, text, sizeof(text)), 0);
	cr_expect_eq(write(ends[1], "line", 4), 4);
	cr_expect_eq(zk_worker_process_read_log(&worker, text, sizeof(text)), 3);
	cr_expect_str_eq(text, "lin");
	cr_expect_eq(zk_worker_process_read_log(&worker, text, sizeof(text)), 1);
	cr_expect_str_eq(text, "e");
	close(ends[1]);
	errno = EINTR; /* says nothing of a pipe at its end */
	cr_expect_eq(zk_worker_process_read_log(&worker, text, sizeof(text)), 0);
	cr_expect_eq(worker.log_fd, -1);
	cr_expect_eq(zk_worker_process_read_log(&worker, text, sizeof(text)), 0);
}

Test(zk_worker, is_the_one_beside_our_own_program_or_the_installed_one)
{
	cr_expect_str_eq(tried(), INSTALLED);
	make_program(0755);
	cr_expect_str_eq(tried(), beside);
	own_program[0] = '\0';
	cr_expect_str_eq(tried(), INSTALLED);
	/* Too long to be known whole, or with the worker's name in place of its own. */
	static const size_t lengths[] = { 4095, 4096, 5000 };
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		memset(own_program, 'x', lengths[i]);
		own_program[lengths[i]] = '\0';
		memcpy(own_program, folder, strlen(folder));
		own_program[strlen(folder)] = '/';
		cr_expect_str_eq(tried(), i == 0 ? beside : INSTALLED, "%zu", i);
		own_program[lengths[i] - 4] = '/';
		cr_expect_str_eq(tried(), INSTALLED, "%zu", i);
	}
}

Test(zk_worker, is_none_that_others_could_have_written)
{
	static const struct {
		mode_t mode;
		bool good;
	} programs[] = { { 0755, true }, { 0700, true }, { 0500, true }, { 0775, false },
		{ 0757, false }, { 0644, false } };
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		make_program(programs[i].mode);
		cr_expect_str_eq(tried(), programs[i].good ? beside : INSTALLED, "%o",
			(unsigned)programs[i].mode);
	}
	unlink(beside);
	cr_assert_eq(mkdir(beside, 0700), 0);
	cr_expect_str_eq(tried(), INSTALLED, "a folder");
}

Test(zk_worker, is_roots_or_our_own)
{
	struct stat status;
	make_program(0755);
	if (getuid() == 0) {
		user = 1000;
		cr_expect_str_eq(tried(), beside);
		cr_assert_eq(chown(beside, 1000, 1000), 0);
	}
	cr_assert_eq(stat(beside, &status), 0);
	user = status.st_uid;
	cr_expect_str_eq(tried(), beside);
	user++;
	cr_expect_str_eq(tried(), INSTALLED);
}

/* ---- the beginning ---- */

Test(zk_worker, is_greeted_before_it_starts)
{
	char bytes[4096];
	struct zk_frame frame;
	struct zk_hello hello;
	start_as(DEAF);
	cr_expect_gt(worker.pid, 0);
	cr_expect_geq(worker.pidfd, 0);
	cr_expect(fcntl(worker.fd, F_GETFL) & O_NONBLOCK);
	cr_expect(fcntl(worker.fd, F_GETFD) & FD_CLOEXEC);
	ssize_t len = recv(other, bytes, sizeof(bytes), MSG_DONTWAIT);
	cr_assert_gt(len, 0);
	cr_expect_eq(zk_frame_next(&frame, bytes, (size_t)len), len);
	cr_assert_eq(zk_hello_decode(&hello, &frame), 0);
	cr_expect_str_eq(hello.servers, "one:2181");
	cr_expect_str_eq(hello.credential, "joe:secret");
}

Test(zk_worker, is_not_started_when_its_greeting_is_too_long)
{
	static char credential[MUCH];
	struct err err = ERR_INIT;
	const struct zk_hello hello = { .servers = "one:2181",
		.addresses = "",
		.auth = "digest",
		.credential = credential,
		.tls = "" };
	memset(credential, 'x', sizeof(credential) - 1);
	cr_expect_eq(zk_worker_process_start(&worker, &hello, &err), BERTH_FAILED);
	cr_expect_str_eq(err.msg, "the greeting of the ZooKeeper worker is too long");
	cr_expect_str_eq(spawned, "");
}

Test(zk_worker, is_not_started_without_a_socket)
{
	struct err err = ERR_INIT;
	role = DEAF;
	pair_error = EMFILE;
	cr_expect_eq(start(&err), BERTH_FAILED);
	cr_expect(strstr(err.msg, "no socket for the ZooKeeper worker: "), "%s", err.msg);
	cr_expect_str_eq(spawned, "");
}

Test(zk_worker, may_be_talked_to_through_descriptor_0)
{
	close(STDIN_FILENO);
	descriptors--;
	start_as(OBEYS);
	close(other);
	other = -1;
	cr_expect_eq(worker.fd, 0);
	cr_expect_eq(zk_worker_process_send(
			     &worker, &(struct zk_request){ .operation = ZK_SYNC, .path = "/a" }),
		0);
	cr_expect(zk_worker_process_close(&worker, PATIENCE_MS));
}

/* ---- its queue ---- */

static void drop_greeting(void)
{
	char bytes[4096];
	cr_assert_gt(recv(other, bytes, sizeof(bytes), MSG_DONTWAIT), 0);
}

static int send_sync(const char *path)
{
	return zk_worker_process_send(
		&worker, &(struct zk_request){ .operation = ZK_SYNC, .path = path });
}

Test(zk_worker, gets_requests_whole_or_not_at_all)
{
	static char data[ZK_FRAME_MAX_BYTES + 1];
	char bytes[4096];
	struct zk_frame frame;
	struct zk_request request;
	cr_expect_eq(send_sync("/a"), -1, "none runs");
	cr_expect(zk_worker_process_flush(&worker));
	start_as(DEAF);
	drop_greeting();
	cr_expect_eq(send_sync("/a"), 0);
	cr_expect_eq(zk_worker_process_send(&worker,
			     &(struct zk_request){ .operation = ZK_SET,
				     .path = "/b",
				     .data = data,
				     .len = sizeof(data) }),
		-1);
	cr_expect_eq(send_sync("/c"), 0);
	cr_expect(zk_worker_process_flush(&worker));
	ssize_t len = recv(other, bytes, sizeof(bytes), MSG_DONTWAIT);
	cr_assert_gt(len, 0);
	long used = zk_frame_next(&frame, bytes, (size_t)len);
	cr_assert_eq(zk_request_decode(&request, &frame), 0);
	cr_expect_str_eq(request.path, "/a");
	cr_expect_eq(zk_frame_next(&frame, bytes + used, (size_t)(len - used)), len - used);
	cr_assert_eq(zk_request_decode(&request, &frame), 0);
	cr_expect_str_eq(request.path, "/c");
}

Test(zk_worker, gets_the_rest_when_there_is_room)
{
	static char bytes[MUCH];
	size_t got = 0;
	start_as(DEAF);
	drop_greeting();
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = (char)(i % 251);
	}
	buffer_append(&worker.out, bytes, sizeof(bytes));
	piece = 1000;
	interrupted = true;
	cr_expect_not(zk_worker_process_flush(&worker));
	cr_expect_lt(worker.out.len, sizeof(bytes) - piece, "as much as there is room for");
	while (got < sizeof(bytes)) {
		static char part[65536];
		ssize_t len = recv(other, part, sizeof(part), MSG_DONTWAIT);
		cr_assert_gt(len, 0);
		cr_assert_eq(memcmp(part, bytes + got, (size_t)len), 0);
		got += (size_t)len;
		bool all = zk_worker_process_flush(&worker);
		cr_assert_eq(all, worker.out.len == 0);
	}
	cr_expect_eq(worker.out.len, 0);
}

/* ---- what it says ---- */

Test(zk_worker, is_heard_until_it_has_gone)
{
	start_as(DEAF);
	cr_expect_eq(zk_worker_process_receive(&worker), 0);
	cr_expect_eq(worker.in.len, 0);
	cr_assert_eq(write(other, "one", 3), 3);
	cr_expect_eq(zk_worker_process_receive(&worker), 0);
	cr_assert_eq(write(other, "two", 3), 3);
	shutdown(other, SHUT_RDWR);
	cr_expect_eq(zk_worker_process_receive(&worker), -1);
	cr_assert_eq(worker.in.len, 6);
	cr_expect_eq(memcmp(worker.in.data, "onetwo", 6), 0);
}

Test(zk_worker, that_says_more_than_there_is_room_for_is_heard_later)
{
	start_as(DEAF);
	cr_assert_not_null(buffer_reserve(&worker.in, ZK_FRAME_MAX_BYTES));
	buffer_added(&worker.in, ZK_FRAME_MAX_BYTES);
	size_t len = worker.in.len;
	cr_assert_eq(write(other, "one", 3), 3);
	cr_expect_eq(zk_worker_process_receive(&worker), 0);
	cr_expect_geq(worker.in.len, len);
	cr_expect_not(worker.in.failed);
	buffer_consume(&worker.in, len);
	cr_expect_eq(zk_worker_process_receive(&worker), 0);
	cr_assert_eq(worker.in.len, 3);
}

Test(zk_worker, is_waited_for)
{
	start_as(DEAF);
	cr_expect_not(zk_worker_process_wait(&worker, A_MOMENT_MS));
	cr_assert_eq(write(other, "one", 3), 3);
	cr_expect_not(zk_worker_process_wait(&worker, 0));
	cr_expect_not(zk_worker_process_wait(&worker, -1));
	cr_expect_eq(worker.in.len, 0);
	cr_expect(zk_worker_process_wait(&worker, 1));
	cr_expect_eq(worker.in.len, 3);
	shutdown(other, SHUT_RDWR);
	cr_expect_not(zk_worker_process_wait(&worker, PATIENCE_MS), "it has gone");
}

/* ---- the end ---- */

Test(zk_worker, is_killed_where_the_kernel_has_no_descriptor_for_it)
{
	start_as(DEAF);
	close(worker.pidfd);
	worker.pidfd = -1;
	zk_worker_process_end(&worker);
	cr_expect_eq(kills, 1);
}

Test(zk_worker, may_be_reaped_by_others)
{
	start_as(DIES);
	cr_expect_eq(waitpid(worker.pid, NULL, 0), worker.pid);
	zk_worker_process_end(&worker);
	cr_expect_eq(kills, 0, "its number may be another process's now");
}

Test(zk_worker, ends_more_than_once)
{
	start_as(DEAF);
	zk_worker_process_end(&worker);
	start_as(DEAF);
	zk_worker_process_end(&worker);
	zk_worker_process_end(&worker);
	close(other);
	other = -1;
	descriptors++; /* the first one's end */
}

static bool close_as(int wanted, int timeout_ms)
{
	start_as(wanted);
	close(other);
	other = -1;
	bool closed = zk_worker_process_close(&worker, timeout_ms);
	cr_expect_eq(worker.fd, -1);
	cr_expect_eq(worker.pid, 0);
	return closed;
}

Test(zk_worker, ends_by_itself_when_its_session_is_closed)
{
	cr_expect(close_as(OBEYS, PATIENCE_MS));
}

Test(zk_worker, ends_by_itself_though_it_talks)
{
	cr_expect(close_as(TALKS, PATIENCE_MS));
}

Test(zk_worker, gets_its_queue_before_it_is_closed)
{
	start_as(OBEYS);
	close(other);
	other = -1;
	static char data[MUCH];
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(zk_worker_process_send(&worker,
				     &(struct zk_request){ .operation = ZK_SET,
					     .path = "/a",
					     .data = data,
					     .len = sizeof(data) / 4 }),
			0);
	}
	cr_expect(zk_worker_process_close(&worker, PATIENCE_MS));
}

Test(zk_worker, that_takes_leave_and_goes_on_is_killed)
{
	cr_expect_not(close_as(LINGERS, A_MOMENT_MS));
}

Test(zk_worker, that_takes_leave_is_waited_for_though_a_signal_comes)
{
	poll_interrupted = true;
	cr_expect_not(close_as(LINGERS, A_MOMENT_MS));
	cr_expect_not(poll_interrupted);
}

Test(zk_worker, that_takes_leave_is_waited_for_without_a_descriptor_for_it)
{
	static const struct {
		int role;
		int timeout_ms;
		bool ends;
	} rows[] = { { LINGERS, A_MOMENT_MS, false }, { OBEYS, PATIENCE_MS, true } };
	for (int i = 0; i < 2; i++) {
		start_as(rows[i].role);
		close(other);
		other = -1;
		close(worker.pidfd);
		worker.pidfd = -1;
		kills = 0;
		cr_expect_eq(zk_worker_process_close(&worker, rows[i].timeout_ms), rows[i].ends);
		cr_expect_eq(kills, rows[i].ends ? 0 : 1);
		cr_expect_eq(worker.pid, 0);
	}
}

Test(zk_worker, that_never_stops_to_talk_is_killed)
{
	cr_expect_not(close_as(CHATTERS, A_MOMENT_MS));
}

Test(zk_worker, that_reads_nothing_is_killed)
{
	cr_expect_not(close_as(DEAF, A_MOMENT_MS));
}

Test(zk_worker, that_reads_nothing_is_killed_though_its_queue_is_long)
{
	static char data[MUCH];
	start_as(DEAF);
	cr_assert_eq(zk_worker_process_send(&worker,
			     &(struct zk_request){ .operation = ZK_SET,
				     .path = "/a",
				     .data = data,
				     .len = sizeof(data) }),
		0);
	cr_expect_not(zk_worker_process_close(&worker, A_MOMENT_MS));
}

Test(zk_worker, of_which_none_runs_has_nothing_to_close)
{
	cr_expect_not(zk_worker_process_close(&worker, PATIENCE_MS));
}
