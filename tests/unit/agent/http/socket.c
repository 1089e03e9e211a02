/* Listening sockets: where they may be, what becomes of them when the kernel refuses a step. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/http/socket.h"
#include "lib/base/array.h"
#include "tests/support/scratch.h"

enum { MOST_GROUPS = 64 };

static char folder[SCRATCH_PATH];
static char path[SCRATCH_PATH + 100];

static void make_folder(void)
{
	scratch_folder(folder);
	snprintf(path, sizeof(path), "%s/socket", folder);
}

static void remove_socket(void)
{
	unlink(path);
}

static void remove_folder(void)
{
	remove_socket();
	cr_assert_eq(rmdir(folder), 0, "something is left behind");
}

TestSuite(http_socket, .init = make_folder, .fini = remove_folder);

static int listen_on_tcp(const char *address)
{
	struct err err = ERR_INIT;
	int fd = http_socket_tcp(address, &err);
	if (fd >= 0) {
		close(fd);
	}
	return err.code;
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
		int fd = http_socket_unix(path, modes[i], (unsigned)-1, &err);
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
		cr_expect_eq(listen_on_tcp(good[i]), 0, "%s", good[i]);
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
