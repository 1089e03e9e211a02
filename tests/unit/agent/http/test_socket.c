/* Listening sockets: where they may be, what becomes of them when the kernel refuses a step. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/http/socket.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum { MOST_GROUPS = 64 };

static char folder[SCRATCH_PATH];
static char path[SCRATCH_PATH + 20];

static void make_folder(void)
{
	scratch_folder(folder);
	snprintf(path, sizeof(path), "%s/socket", folder);
}

/* Past the calls that fail on purpose. */
static void remove_socket(void)
{
	syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static void remove_folder(void)
{
	remove_socket();
	cr_assert_eq(rmdir(folder), 0, "something is left behind");
}

TestSuite(http_socket, .init = make_folder, .fini = remove_folder);

static int listen_here(unsigned mode)
{
	struct err err = ERR_INIT;
	int fd = http_socket_unix(path, mode, getgid(), &err);
	if (fd >= 0) {
		syscall(SYS_close, fd);
	}
	return fd < 0 ? err.code : 0;
}

/* Twice: the second finds what the first has left. */
static int listen_twice(void *context)
{
	(void)context;
	int code = listen_here(0600);
	if (code == 0) {
		code = listen_here(0600);
	}
	struct stat status;
	bool right = syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) == 0 &&
		(status.st_mode & 07777) == 0600;
	remove_socket();
	return code ? code : right ? 0 : FAILING_WRONG;
}

static int listen_on_tcp(void *context)
{
	struct err err = ERR_INIT;
	int fd = http_socket_tcp(context, &err);
	if (fd >= 0) {
		syscall(SYS_close, fd);
	}
	return fd < 0 ? err.code : 0;
}

Test(http_socket, without_a_step_there_is_an_error_and_nothing_is_left)
{
	static const struct {
		const char *kind;
		int error;
	} calls[] = { { "stat", EIO }, { "socket", EMFILE }, { "connect", EACCES },
		{ "unlink", EIO }, { "bind", ENOSPC }, { "chmod", EPERM }, { "listen", ENOMEM } };
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		failing_check("unix", calls[i].kind, calls[i].error, listen_twice, NULL);
	}
	static char address[] = "127.0.0.1:0";
	failing_check("tcp", "socket", EMFILE, listen_on_tcp, address);
	failing_check("tcp", "sockopt", ENOPROTOOPT, listen_on_tcp, address);
	failing_check("tcp", "bind", EADDRINUSE, listen_on_tcp, address);
	failing_check("tcp", "listen", EADDRINUSE, listen_on_tcp, address);
	failing_check("tcp", "lookup", EAGAIN, listen_on_tcp, address);
}

Test(http_socket, takes_no_place_of_another)
{
	struct err err = ERR_INIT;
	int first = http_socket_unix(path, 0600, (unsigned)-1, &err);
	cr_assert_geq(first, 0, "%s", err.msg);
	cr_assert_lt(http_socket_unix(path, 0600, (unsigned)-1, &err), 0);
	cr_assert(strstr(err.msg, "is served by another process"), "%s", err.msg);
	close(first);
	remove_socket();
	int file = open(path, O_WRONLY | O_CREAT, 0600);
	err_clear(&err);
	cr_assert_lt(http_socket_unix(path, 0600, (unsigned)-1, &err), 0);
	cr_assert(strstr(err.msg, "is not a socket"), "%s", err.msg);
	close(file);
}

/* The one that serves it is too busy to accept: a connection would wait for it. */
Test(http_socket, takes_no_place_of_another_that_is_busy)
{
	struct err err = ERR_INIT;
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	int first = http_socket_unix(path, 0600, (unsigned)-1, &err);
	cr_assert_eq(listen(first, 0), 0);
	cr_assert_eq(getsockname(first, (struct sockaddr *)&address, &len), 0);
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(client, (struct sockaddr *)&address, len), 0);
	cr_assert_lt(http_socket_unix(path, 0600, (unsigned)-1, &err), 0);
	cr_assert(strstr(err.msg, "is served by another process"), "%s", err.msg);
	close(client);
	close(first);
}

static int flag_of(int fd, int name)
{
	int flag = 0;
	socklen_t len = sizeof(flag);
	cr_assert_eq(getsockopt(fd, SOL_SOCKET, name, &flag, &len), 0);
	return flag;
}

Test(http_socket, listens_without_waiting_and_for_this_process_alone)
{
	struct err err = ERR_INIT;
	mode_t mask = umask(022);
	int fds[] = { http_socket_unix(path, 0600, (unsigned)-1, &err),
		http_socket_tcp("127.0.0.1:0", &err) };
	cr_expect_eq(umask(mask), 022, "other files are made as before");
	for (int i = 0; i < 2; i++) {
		cr_assert_geq(fds[i], 0, "%s", err.msg);
		cr_expect(flag_of(fds[i], SO_ACCEPTCONN));
		cr_expect(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
		cr_expect(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
	}
	cr_expect(flag_of(fds[1], SO_REUSEADDR), "it listens again after a restart");
	close(fds[0]);
	close(fds[1]);
}

Test(http_socket, a_place_is_its_file_and_no_other)
{
	struct err err = ERR_INIT;
	struct http_place none = http_socket_find(path);
	cr_assert_eq(none.inode, 0);
	cr_assert_not(http_socket_stands(path, &none));
	int fd = http_socket_unix(path, 0600, (unsigned)-1, &err);
	struct http_place place = http_socket_find(path);
	cr_assert(http_socket_stands(path, &place));
	struct http_place elsewhere = { .device = place.device + 1, .inode = place.inode };
	struct http_place another = { .device = place.device, .inode = place.inode + 1 };
	http_socket_unlink(path, &elsewhere);
	http_socket_unlink(path, &another);
	cr_assert(http_socket_stands(path, &place));
	http_socket_unlink(path, &place);
	cr_assert_eq(http_socket_find(path).inode, 0);
	close(fd);
}

Test(http_socket, an_address_is_a_host_and_a_port)
{
	static const char *const good[] = { "127.0.0.1:0", "*:0", ":0", "[127.0.0.1]:0" };
	static const char *const bad[] = { "", "127.0.0.1", "127.0.0.1:", "[]:0", "127.0.0.1:port",
		"[127.0.0.1:0", "127.0.0.1]:0" };
	char too_long[400] = "127.0.0.1:";
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_expect_eq(listen_on_tcp((void *)(uintptr_t)good[i]), 0, "%s", good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(listen_on_tcp((void *)(uintptr_t)bad[i]), BERTH_FAILED, "%s", bad[i]);
	}
	memset(too_long + strlen(too_long), '0', sizeof(too_long) - strlen(too_long) - 1);
	cr_expect_eq(listen_on_tcp(too_long), BERTH_FAILED);
	memset(path, 'x', sizeof(path) - 1);
	cr_expect_eq(listen_here(0600), BERTH_FAILED);
	path[0] = '\0';
	cr_expect_eq(listen_here(0600), BERTH_FAILED);
}

Test(http_socket, adopts_what_listens)
{
	struct err err = ERR_INIT;
	int ends[2];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	int listener = http_socket_unix(path, 0600, (unsigned)-1, &err);
	cr_assert_eq(fcntl(listener, F_SETFL, O_APPEND), 0);
	cr_assert_eq(fcntl(listener, F_SETFD, 0), 0);
	cr_assert_eq(http_socket_adopt(listener, &err), 0, "%s", err.msg);
	cr_assert(fcntl(listener, F_GETFL) & O_APPEND);
	cr_assert(fcntl(listener, F_GETFD) & FD_CLOEXEC);
	cr_assert(fcntl(listener, F_GETFL) & O_NONBLOCK);
	cr_assert_eq(http_socket_adopt(ends[0], &err), BERTH_FAILED);
	cr_assert(strstr(err.msg, "not a listening socket"), "%s", err.msg);
	err_clear(&err);
	cr_assert_eq(http_socket_adopt(-1, &err), BERTH_FAILED);
	close(listener);
	close(ends[0]);
	close(ends[1]);
}

Test(http_socket, a_peer_is_known_by_its_user)
{
	struct http_peer peer;
	int ends[2];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	http_socket_peer(ends[0], &peer);
	cr_assert(peer.known);
	cr_assert_eq(peer.uid, geteuid());
	cr_assert_eq(peer.gid, getegid());
	cr_assert_eq(peer.pid, getpid());
	gid_t groups[MOST_GROUPS];
	cr_assert_eq(peer.group_count, (size_t)getgroups(MOST_GROUPS, groups));
	cr_assert_eq(memcmp(peer.groups, groups, peer.group_count * sizeof(groups[0])), 0);
	/* A kernel that does not know the groups. */
	failing_arm("sockopt", 2, ENOPROTOOPT);
	http_socket_peer(ends[0], &peer);
	cr_assert(failing_disarm());
	cr_assert(peer.known);
	int count = MOST_GROUPS;
	const struct passwd *entry = getpwuid(geteuid());
	if (!entry || getgrouplist(entry->pw_name, getegid(), groups, &count) < 0) {
		count = 0;
	}
	cr_assert_eq(peer.group_count, (size_t)count);
	cr_assert_eq(memcmp(peer.groups, groups, peer.group_count * sizeof(groups[0])), 0);
	/* One that does not know the user. */
	failing_arm("sockopt", 1, ENOPROTOOPT);
	http_socket_peer(ends[0], &peer);
	cr_assert(failing_disarm());
	cr_assert_not(peer.known);
	close(ends[0]);
	close(ends[1]);
}
