/*
 * The worker's process: its program, its greeting, its queue, and its end. No program is started: a
 * fork of the test plays it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
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

enum { MOST_VARIABLES = 63, MUCH = 64 * 1024, PATIENCE_MS = 60000, A_MOMENT_MS = 20 };

static struct zk_worker_process worker;
static char folder[SCRATCH_PATH];
static char beside[SCRATCH_PATH + 32]; /* the worker's program next to our own */
static int descriptors;

/* ---- what the kernel and libc say ---- */

static bool begun;             /* before, Criterion asks for its own program */
static char own_program[8192]; /* as /proc/self/exe has it */

ssize_t readlink(const char *restrict path, char *restrict out, size_t size)
{
	size_t len = strlen(own_program);
	if (!begun || strcmp(path, "/proc/self/exe") != 0) {
		return syscall(SYS_readlinkat, AT_FDCWD, path, out, size);
	}
	len = len < size ? len : size;
	memcpy(out, own_program, len);
	return (ssize_t)len;
}

static int other = -1; /* the worker's end of the last pair */

int socketpair(int domain, int type, int protocol, int ends[2])
{
	int code = (int)syscall(SYS_socketpair, domain, type, protocol, ends);
	other = begun && code == 0 ? fcntl(ends[1], F_DUPFD_CLOEXEC, 0) : -1;
	return code;
}

static size_t kills; /* by number */

int kill(pid_t pid, int number)
{
	cr_assert_neq(pid, -1, "all processes of the machine");
	kills++;
	return (int)syscall(SYS_kill, pid, number);
}

/* ---- the worker ---- */

static enum {
	NONE,   /* it cannot be started */
	OBEYS,  /* it ends when a frame closes its session, */
	LINGERS /* or takes leave and goes on */
} role;

static void read_until_close(void)
{
	static char bytes[MUCH];
	struct zk_frame frame = { .type = ZK_FRAME_HELLO };
	size_t len = 0;
	ssize_t got;
	while (frame.type != ZK_FRAME_CLOSE &&
		(got = read(other, bytes + len, sizeof(bytes) - len)) > 0) {
		long used;
		len += (size_t)got;
		for (size_t at = 0; (used = zk_frame_next(&frame, bytes + at, len - at)) > 0;) {
			at += (size_t)used;
		}
	}
}

static void be_worker(void)
{
	alarm(PATIENCE_MS / 1000);
	read_until_close();
	if (role == LINGERS) {
		shutdown(other, SHUT_RDWR);
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

/* ---- the end ---- */

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
