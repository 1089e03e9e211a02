/* Listening sockets: where they may be, what becomes of them when the kernel refuses a step. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/http/socket.h"
#include "lib/base/array.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

enum { MOST_GROUPS = 64 };

static char folder[SCRATCH_PATH];
static char path[SCRATCH_PATH + 100];

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

/* Past the calls that fail on purpose. */
static int close_listener(int fd, const struct err *err)
{
	int listening = 0;
	socklen_t len = sizeof(listening);
	if (fd < 0) {
		return err->code ? err->code : FAILING_WRONG;
	}
	syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len);
	syscall(SYS_close, fd);
	return listening ? 0 : FAILING_WRONG;
}

static int listen_here(unsigned mode)
{
	struct err err = ERR_INIT;
	return close_listener(http_socket_unix(path, mode, getgid(), &err), &err);
}

/* Twice: the second finds what the first has left. */
static int listen_twice(void *context)
{
	(void)context;
	int code = listen_here(0660);
	if (code == 0) {
		code = listen_here(0660);
	}
	struct statx status;
	bool right = syscall(SYS_statx, AT_FDCWD, path, 0, STATX_MODE, &status) == 0 &&
		(status.stx_mode & 07777) == 0660;
	remove_socket();
	return code ? code : right ? 0 : FAILING_WRONG;
}

static int listen_on_tcp(void *context)
{
	struct err err = ERR_INIT;
	return close_listener(http_socket_tcp(context, &err), &err);
}

Test(http_socket, without_a_step_there_is_an_error_and_nothing_is_left)
{
	static const struct {
		const char *kind;
		int error;
	} calls[] = { { "stat", EIO }, { "socket", EMFILE }, { "connect", EACCES },
		{ "unlink", EIO }, { "bind", ENOSPC }, { "listen", ENOMEM } };
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		failing_check("unix", calls[i].kind, calls[i].error, listen_twice, NULL);
	}
	static char address[] = "127.0.0.1:0";
	failing_check("tcp", "socket", EMFILE, listen_on_tcp, address);
	failing_check("tcp", "sockopt", ENOPROTOOPT, listen_on_tcp, address);
	failing_check("tcp", "bind", EADDRINUSE, listen_on_tcp, address);
	failing_check("tcp", "listen", EADDRINUSE, listen_on_tcp, address);
	failing_check("tcp", "lookup", EAGAIN, listen_on_tcp, address);
}

struct failing_step {
	const char *kind;
	uint64_t number;
	int error;
	const char *words;
};

static void expect_words(const struct failing_step *step, int fd, const struct err *err)
{
	cr_expect(failing_disarm(), "%s", step->kind);
	cr_expect_lt(fd, 0);
	cr_expect(strstr(err->msg, step->words), "%s: %s", step->kind, err->msg);
	cr_expect(strstr(err->msg, strerror(step->error)), "%s: %s", step->kind, err->msg);
}

Test(http_socket, an_error_names_the_step_and_its_cause)
{
	static const struct failing_step at_unix[] = {
		{ "stat", 1, EIO, "/socket: " },
		{ "socket", 1, EMFILE, "socket: " },
		{ "unlink", 1, EIO, "cannot remove the stale socket " },
		{ "socket", 2, EMFILE, "socket: " },
		{ "bind", 1, ENOSPC, "cannot make the socket " },
		{ "open", 1, EMFILE, "/socket: " },
		{ "stat", 2, EIO, "/socket: " },
		{ "listen", 1, ENOMEM, "cannot listen on " },
	};
	static const struct failing_step at_tcp[] = {
		{ "socket", 1, EMFILE, "cannot listen on 127.0.0.1:0" },
		{ "bind", 1, EACCES, "cannot listen on 127.0.0.1:0" },
		{ "listen", 1, EADDRINUSE, "cannot listen on 127.0.0.1:0" },
	};
	for (size_t i = 0; i < ARRAY_LEN(at_unix); i++) {
		struct err err = ERR_INIT;
		cr_assert_eq(listen_here(0600), 0); /* leaves a stale socket */
		failing_arm(at_unix[i].kind, at_unix[i].number, at_unix[i].error);
		int fd = http_socket_unix(path, 0600, getgid(), &err);
		expect_words(&at_unix[i], fd, &err);
		remove_socket();
	}
	for (size_t i = 0; i < ARRAY_LEN(at_tcp); i++) {
		struct err err = ERR_INIT;
		failing_arm(at_tcp[i].kind, at_tcp[i].number, at_tcp[i].error);
		int fd = http_socket_tcp("127.0.0.1:0", &err);
		expect_words(&at_tcp[i], fd, &err);
	}
}

/* As far as the kernel lets it: only some users may give a file away. */
Test(http_socket, is_given_to_its_group)
{
	struct err err = ERR_INIT;
	struct stat status;
	gid_t group = getegid() + 1;
	int fd = http_socket_unix(path, 0660, group, &err);
	if (fd < 0) {
		cr_expect(strstr(err.msg, "cannot give "), "%s", err.msg);
		return;
	}
	cr_assert_eq(stat(path, &status), 0);
	cr_expect_eq(status.st_gid, group);
	cr_expect_eq(status.st_mode & 07777, 0660);
	close(fd);
}

/* A second step by path could meet what another process has put into the socket's place. */
Test(http_socket, has_its_mode_from_the_first_under_any_umask)
{
	static const unsigned modes[] = { 0600, 0660, 0666, 0622 };
	mode_t mask = umask(077);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		struct err err = ERR_INIT;
		struct stat status;
		failing_arm("chmod", 1, EPERM);
		int fd = http_socket_unix(path, modes[i], (unsigned)-1, &err);
		cr_expect_not(failing_disarm(), "the mode took a second step");
		cr_assert_geq(fd, 0, "%s", err.msg);
		cr_assert_eq(stat(path, &status), 0);
		cr_expect_eq(status.st_mode & 07777, modes[i]);
		close(fd);
		remove_socket();
	}
	cr_expect_eq(umask(mask), 077);
}

Test(http_socket, makes_the_folder_of_its_path)
{
	struct err err = ERR_INIT;
	char sub[sizeof(path)];
	char deep[sizeof(path) + 10];
	snprintf(sub, sizeof(sub), "%s/sub", folder);
	snprintf(deep, sizeof(deep), "%s/socket", sub);
	int fd = http_socket_unix(deep, 0600, (unsigned)-1, &err);
	cr_expect_geq(fd, 0, "%s", err.msg);
	close(fd);
	unlink(deep);
	rmdir(sub);
}

Test(http_socket, may_have_descriptor_0)
{
	struct err err = ERR_INIT;
	cr_assert_eq(listen_here(0600), 0); /* leaves a stale socket */
	close(STDIN_FILENO);
	cr_expect_eq(http_socket_unix(path, 0600, (unsigned)-1, &err), 0, "%s", err.msg);
	close(STDIN_FILENO);
	cr_expect_eq(http_socket_tcp("127.0.0.1:0", &err), 0);
	close(STDIN_FILENO);
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

/* The server is too busy to accept: a connection would wait for it. */
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

static void expect_address(const char *text, in_addr_t expected)
{
	struct err err = ERR_INIT;
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	int fd = http_socket_tcp(text, &err);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0, "%s", err.msg);
	cr_expect_eq(address.sin_addr.s_addr, expected, "%s", text);
	close(fd);
}

Test(http_socket, an_address_is_a_host_and_a_port)
{
	static const char *const good[] = { "127.0.0.1:0", "*:0", ":0", "[127.0.0.1]:0" };
	static const char *const bad[] = { "", "127.0.0.1", "127.0.0.1:", "[]:0", "127.0.0.1:port",
		"[127.0.0.1:0", "127.0.0.1]:0" };
	char text[400] = "127.0.0.1:";
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		cr_expect_eq(listen_on_tcp((void *)(uintptr_t)good[i]), 0, "%s", good[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = ERR_INIT;
		cr_expect_eq(http_socket_tcp(bad[i], &err), BERTH_FAILED, "%s", bad[i]);
		bool without_port = i < 3;
		cr_expect_eq(strstr(err.msg, ": must be host:port") != NULL, without_port, "%s",
			err.msg);
	}
	expect_address("127.0.0.1:0", htonl(INADDR_LOOPBACK));
	expect_address("[127.0.0.1]:0", htonl(INADDR_LOOPBACK));
	expect_address("[0]:0", htonl(INADDR_ANY));
	/* A port may have any number of zeros, but for the length of the whole. */
	memset(text + strlen(text), '0', 299 - strlen(text));
	cr_expect_eq(listen_on_tcp(text), 0);
	text[299] = '0';
	cr_expect_eq(listen_on_tcp(text), BERTH_FAILED);
}

static void expect_path_refused(size_t len)
{
	struct err err = ERR_INIT;
	char text[200];
	memset(text, 'x', len);
	text[len] = '\0';
	cr_expect_lt(http_socket_unix(text, 0600, (unsigned)-1, &err), 0);
	cr_expect(strstr(err.msg, ": must have 1 to 107 bytes"), "%s", err.msg);
}

Test(http_socket, a_path_has_its_bounds)
{
	char text[108] = "";
	snprintf(text, sizeof(text), "%s/", folder);
	memset(text + strlen(text), 'x', 107 - strlen(text));
	memcpy(path, text, sizeof(text));
	cr_expect_eq(listen_here(0600), 0);
	remove_socket();
	expect_path_refused(0);
	expect_path_refused(108);
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

/* ---- peers ---- */

static int user_groups; /* as the user database has them: 1000, 1001, ... */

int getgrouplist(const char *user, gid_t group, gid_t *groups, int *count)
{
	int room = *count;
	(void)user;
	(void)group;
	for (int i = 0; i < user_groups && i < room; i++) {
		groups[i] = 1000 + (gid_t)i;
	}
	*count = user_groups;
	return user_groups > room ? -1 : user_groups;
}

static int ends[2];

static void make_pair(void)
{
	static const gid_t some[] = { 7, 1000, 77 };
	make_folder();
	(void)!setgroups(3, some); /* where it may */
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void close_pair(void)
{
	close(ends[0]);
	close(ends[1]);
	remove_folder();
}

TestSuite(http_peer, .init = make_pair, .fini = close_pair);

Test(http_peer, is_known_by_its_user)
{
	struct http_peer peer;
	gid_t groups[MOST_GROUPS];
	user_groups = 5;
	http_socket_peer(ends[0], &peer);
	cr_assert(peer.known);
	cr_assert_eq(peer.uid, geteuid());
	cr_assert_eq(peer.gid, getegid());
	cr_assert_eq(peer.pid, getpid());
	cr_assert_eq(peer.group_count, (size_t)getgroups(MOST_GROUPS, groups));
	cr_assert_eq(memcmp(peer.groups, groups, peer.group_count * sizeof(groups[0])), 0);
}

Test(http_peer, has_the_groups_of_the_user_database_when_the_kernel_knows_none)
{
	struct {
		struct http_peer peer;
		unsigned char behind[8192];
	} place;
	bool known = getpwuid(geteuid()) != NULL;
	static const int counts[] = { 0, 3, MOST_GROUPS, MOST_GROUPS + 1, 2000 };
	memset(&place, 0x55, sizeof(place));
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		user_groups = counts[i];
		failing_arm("sockopt", 2, ENOPROTOOPT);
		http_socket_peer(ends[0], &place.peer);
		cr_expect(failing_disarm());
		cr_expect(place.peer.known);
		bool fits = counts[i] <= MOST_GROUPS;
		cr_expect_eq(place.peer.group_count, known && fits ? (size_t)counts[i] : 0);
		for (size_t at = 0; at < place.peer.group_count; at++) {
			cr_expect_eq(place.peer.groups[at], 1000 + at);
		}
	}
	for (size_t i = 0; i < sizeof(place.behind); i++) {
		cr_assert_eq(place.behind[i], 0x55, "%zu", i);
	}
}

Test(http_peer, is_unknown_when_the_kernel_does_not_know_the_user)
{
	struct http_peer peer;
	failing_arm("sockopt", 1, ENOPROTOOPT);
	http_socket_peer(ends[0], &peer);
	cr_assert(failing_disarm());
	cr_assert_not(peer.known);
}
