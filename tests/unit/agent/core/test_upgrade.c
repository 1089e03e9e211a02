#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/upgrade.h"
#include "lib/base/array.h"
#include "tests/support/descriptors.h"

/* Puts a document where a predecessor would leave it. */
static void leave(const char *text)
{
	int fd = memfd_create("document", 0);
	cr_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	char number[16];
	snprintf(number, sizeof(number), "%d", fd);
	setenv("BERTH_UPGRADE", number, 1);
}

Test(upgrade, takes_what_it_knows_and_leaves_the_rest)
{
	int pair[2];
	char text[512];
	cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	snprintf(text, sizeof(text),
		"{\"version\":1,\"socket_fd\":%d,\"listen_fd\":null,\"main_pid\":4711,\"later\":{},"
		"\"later\":[],"
		"\"connections\":[{\"fd\":%d,\"id\":7,\"local\":true,\"pinned\":true},"
		"{\"fd\":99999},{\"fd\":99999,\"id\":8,\"local\":true,\"pinned\":false}]}",
		pair[0], pair[1]);
	leave(text);
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	cr_assert(zero(ptr, getenv("BERTH_UPGRADE")));
	cr_assert(eq(int, upgrade.socket_fd, pair[0]));
	cr_assert(eq(int, upgrade.listen_fd, -1));
	cr_assert(eq(int, (int)upgrade.main_pid, 4711));
	cr_assert(eq(sz, upgrade.connection_count, 1), "only open descriptors are believed");
	cr_assert(eq(int, upgrade.connections[0].fd, pair[1]));
	cr_assert(eq(u64, upgrade.connections[0].id, 7));
	cr_assert(upgrade.connections[0].pinned);
	cr_assert(fcntl(pair[1], F_GETFD) & FD_CLOEXEC, "children must not inherit it");
	upgrade_finish(&upgrade);
}

Test(upgrade, a_pinned_connection_that_ended_is_reported)
{
	leave("{\"version\":1,\"connections\":[{\"fd\":-1,\"id\":7,"
	      "\"local\":true,\"pinned\":true}]}");
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	cr_assert(eq(sz, upgrade.connection_count, 1));
	cr_assert(eq(int, upgrade.connections[0].fd, -1));
	upgrade_finish(&upgrade);
}

/*
 * In a process of its own: the descriptors that are closed would be the test's. Its exit() finds
 * leaks.
 */
static int receive_another_version(void)
{
	int stray = open("/dev/null", O_RDONLY);
	leave("{\"version\":2}");
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	bool fresh = !upgrade.document && upgrade.socket_fd == -1 && upgrade.connection_count == 0;
	upgrade_finish(&upgrade);
	return fresh && fcntl(stray, F_GETFD) < 0 ? 0 : 1;
}

Test(upgrade, another_version_is_a_fresh_start_without_its_descriptors)
{
	pid_t child = fork();
	if (child == 0) {
		exit(receive_another_version());
	}
	int status = -1;
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_assert(eq(int, status, 0));
}

/* The document that the successor gets: a shell, which prints it. */
static json_t *passed_on(const struct upgrade *upgrade)
{
	static char text[16 * 1024];
	char *argv[] = { "sh", "-c", "exec cat /proc/self/fd/$BERTH_UPGRADE", NULL };
	int out[2];
	cr_assert_eq(pipe(out), 0);
	pid_t child = fork();
	if (child == 0) {
		struct err err = ERR_INIT;
		dup2(out[1], STDOUT_FILENO);
		setenv("BERTH_UPGRADE", "99", 1); /* of another time */
		(void)upgrade_exec(upgrade, "/bin/sh", argv, &err);
		_exit(1);
	}
	close(out[1]);
	size_t len = 0;
	ssize_t got;
	while ((got = read(out[0], text + len, sizeof(text) - 1 - len)) > 0) {
		len += (size_t)got;
	}
	text[len] = '\0';
	close(out[0]);
	int status = -1;
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_assert(eq(int, status, 0));
	json_t *document = json_loads(text, 0, NULL);
	cr_assert(not(zero(ptr, document)), "%s", text);
	return document;
}

static int open_null(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool closes_on_exec(int fd)
{
	return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

Test(upgrade, a_successor_takes_everything_that_was_passed_on)
{
	struct http_kept kept[] = {
		{ .fd = open_null(), .id = 7, .local = true, .container = "box", .listener = "" },
		{ .fd = open_null(), .id = 8, .pinned = true, .listener = "further" },
		{ .fd = -1, .id = 9, .pinned = true },
	};
	struct dns_socket dns[] = { { .address = "127.0.0.1:53", .tcp = true, .fd = open_null() },
		{ .address = "[::1]:54", .fd = open_null() } };
	struct http_listen listens[] = { { .name = "a", .address = "h:1", .fd = open_null() },
		{ .name = "b", .address = "h:2", .fd = open_null() } };
	struct bridge_socket bridge[] = {
		{ .container = "one", .fd = open_null(), .place = { .device = 3, .inode = 4 } },
		{ .container = "two", .fd = open_null(), .place = { .device = 5, .inode = 6 } },
	};
	struct upgrade sent = { .document = json_pack("{s:s}", "session", "s1"),
		.socket_fd = open_null(),
		.socket_place = { .device = 1, .inode = 2 },
		.listen_fd = open_null(),
		.lock_fd = open_null(),
		.xds_fd = open_null(),
		.keep_socket = true,
		.main_pid = 4711,
		.connections = kept,
		.connection_count = 3,
		.dns = dns,
		.dns_count = 2,
		.listens = listens,
		.listen_count = 2,
		.bridge = bridge,
		.bridge_count = 2 };
	json_t *document = passed_on(&sent);
	char *text = json_dumps(document, 0);
	leave(text);
	free(text);
	json_decref(document);

	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	cr_expect(eq(str, (char *)upgrade_text(&upgrade, "session"), "s1"));
	cr_expect(eq(str, (char *)upgrade_text(&upgrade, "none"), ""));
	cr_expect(zero(ptr, (void *)(uintptr_t)upgrade_get(&upgrade, "none")));
	cr_expect(eq(int, upgrade.socket_fd, sent.socket_fd));
	cr_expect(eq(int, upgrade.listen_fd, sent.listen_fd));
	cr_expect(eq(int, upgrade.lock_fd, sent.lock_fd));
	cr_expect(eq(int, upgrade.xds_fd, sent.xds_fd));
	cr_expect(eq(u64, upgrade.socket_place.device, 1));
	cr_expect(eq(u64, upgrade.socket_place.inode, 2));
	cr_expect_eq(upgrade.keep_socket, true);
	cr_expect(eq(int, (int)upgrade.main_pid, 4711));
	cr_assert(eq(sz, upgrade.connection_count, 3));
	for (size_t i = 0; i < 3; i++) {
		cr_expect(eq(int, upgrade.connections[i].fd, kept[i].fd));
		cr_expect(eq(u64, upgrade.connections[i].id, kept[i].id));
		cr_expect(eq(int, upgrade.connections[i].local, kept[i].local));
		cr_expect(eq(int, upgrade.connections[i].pinned, kept[i].pinned));
		cr_expect(eq(str, upgrade.connections[i].container, kept[i].container));
		cr_expect(eq(str, upgrade.connections[i].listener, kept[i].listener));
	}
	cr_assert(eq(sz, upgrade.dns_count, 2));
	cr_assert(eq(sz, upgrade.bridge_count, 2));
	cr_assert(eq(sz, upgrade.listen_count, 2));
	for (size_t i = 0; i < 2; i++) {
		cr_expect(eq(int, upgrade.dns[i].fd, dns[i].fd));
		cr_expect(eq(int, upgrade.dns[i].tcp, dns[i].tcp));
		cr_expect(eq(str, upgrade.dns[i].address, dns[i].address));
		cr_expect(eq(int, upgrade.bridge[i].fd, bridge[i].fd));
		cr_expect(eq(str, upgrade.bridge[i].container, bridge[i].container));
		cr_expect(eq(u64, upgrade.bridge[i].place.device, bridge[i].place.device));
		cr_expect(eq(u64, upgrade.bridge[i].place.inode, bridge[i].place.inode));
		cr_expect(eq(int, upgrade.listens[i].fd, listens[i].fd));
		cr_expect(eq(str, (char *)upgrade.listens[i].name, (char *)listens[i].name));
		cr_expect(eq(str, (char *)upgrade.listens[i].address, (char *)listens[i].address));
	}
	upgrade_finish(&upgrade);
	cr_expect(zero(ptr, upgrade.document));
	cr_expect(eq(sz, upgrade.connection_count, 0));
	cr_expect(eq(sz, upgrade.dns_count, 0));
	cr_expect(eq(sz, upgrade.bridge_count, 0));
	cr_expect(eq(sz, upgrade.listen_count, 0));
	upgrade_finish(&upgrade);
	json_decref(sent.document);
}

Test(upgrade, descriptors_for_the_successor_stay_open_across_the_exec)
{
	char *argv[] = { "none", NULL };
	int fds[8];
	for (size_t i = 0; i < 8; i++) {
		fds[i] = open_null();
		cr_assert_eq(closes_on_exec(fds[i]), true);
	}
	struct http_kept kept = { .fd = fds[0] };
	struct dns_socket dns = { .fd = fds[1] };
	struct http_listen listen = { .name = "a", .address = "b", .fd = fds[2] };
	struct bridge_socket bridge = { .fd = fds[3] };
	struct upgrade sent = { .document = json_object(),
		.socket_fd = fds[4],
		.listen_fd = fds[5],
		.lock_fd = fds[6],
		.xds_fd = fds[7],
		.connections = &kept,
		.connection_count = 1,
		.dns = &dns,
		.dns_count = 1,
		.listens = &listen,
		.listen_count = 1,
		.bridge = &bridge,
		.bridge_count = 1 };
	int before = descriptors_count();
	struct err err = ERR_INIT;
	cr_expect(eq(int, upgrade_exec(&sent, "/none/berthd", argv, &err), BERTH_FAILED));
	cr_expect(not(zero(ptr, strstr(err.msg, "/none/berthd"))), "%s", err.msg);
	cr_expect(zero(ptr, getenv("BERTH_UPGRADE")), "no child may take it for its own");
	cr_expect(eq(int, descriptors_count(), before));
	for (size_t i = 0; i < 8; i++) {
		cr_expect_not(closes_on_exec(fds[i]), "%zu", i);
	}
	json_decref(sent.document);
}

Test(upgrade, a_descriptor_that_is_not_open_is_not_taken)
{
	char text[1024];
	int fd = open("/dev/null", O_RDONLY);
	snprintf(text, sizeof(text),
		"{\"version\":1,\"socket_fd\":99999,\"listen_fd\":\"%d\",\"lock_fd\":-1,"
		"\"xds_fd\":%d,\"keep_socket\":1,"
		"\"dns\":[{\"address\":\"a\",\"tcp\":true,\"fd\":99999},"
		"{\"address\":\"b\",\"tcp\":false,\"fd\":%d},{\"address\":\"a\",\"fd\":%d}],"
		"\"listens\":[{\"name\":\"a\",\"address\":\"b\",\"fd\":99999},"
		"{\"name\":\"c\",\"address\":\"d\",\"fd\":%d},{\"name\":\"a\",\"fd\":%d}],"
		"\"bridge\":[{\"container\":\"a\",\"fd\":99999,\"device\":1,\"inode\":1},"
		"{\"container\":\"b\",\"fd\":%d,\"device\":1,\"inode\":2},"
		"{\"container\":\"a\",\"fd\":%d}],"
		"\"connections\":[{\"fd\":%d,\"id\":7,\"local\":true,\"pinned\":true},"
		"{\"fd\":%d}]}",
		fd, fd, fd, fd, fd, fd, fd, fd, fd, fd);
	leave(text);
	int documents = descriptors_count();
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	cr_expect(eq(int, descriptors_count(), documents - 1), "the document is closed");
	cr_expect(eq(int, upgrade.socket_fd, -1));
	cr_expect(eq(int, upgrade.listen_fd, -1));
	cr_expect(eq(int, upgrade.lock_fd, -1));
	cr_expect(eq(int, upgrade.xds_fd, fd));
	cr_expect_eq(closes_on_exec(fd), true);
	cr_expect_not(upgrade.keep_socket);
	cr_expect(eq(int, (int)upgrade.main_pid, 0));
	cr_assert(eq(sz, upgrade.dns_count, 1));
	cr_expect(eq(str, upgrade.dns[0].address, "b"));
	cr_assert(eq(sz, upgrade.listen_count, 1));
	cr_expect(eq(int, upgrade_listen_fd(&upgrade, "c", "d"), fd));
	cr_assert(eq(sz, upgrade.bridge_count, 1));
	cr_expect(eq(str, upgrade.bridge[0].container, "b"));
	cr_expect(eq(sz, upgrade.connection_count, 1));
	upgrade_finish(&upgrade);
}

/* The size that a file seems to have; 0: its own. */
static off_t pretended_size;

off_t lseek(int fd, off_t offset, int whence)
{
	struct stat stat_of;
	(void)whence;
	if (fstat(fd, &stat_of) != 0 || !S_ISREG(stat_of.st_mode)) {
		return -1;
	}
	return pretended_size ? pretended_size : stat_of.st_size + offset;
}

/* In a process of its own, as above. */
static int starts_afresh(const char *variable, const char *text)
{
	leave("{\"version\":1}");
	dup2(atoi(getenv("BERTH_UPGRADE")), STDIN_FILENO); /* nobody names this one */
	if (text) {
		leave(text);
	}
	if (variable) {
		setenv("BERTH_UPGRADE", variable, 1);
	}
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	bool fresh = !upgrade.document && upgrade.socket_fd == -1 && upgrade.listen_fd == -1 &&
		upgrade.lock_fd == -1 && upgrade.xds_fd == -1 && !getenv("BERTH_UPGRADE") &&
		fcntl(STDOUT_FILENO, F_GETFD) >= 0 && fcntl(STDERR_FILENO, F_GETFD) >= 0 &&
		fcntl(STDERR_FILENO + 1, F_GETFD) < 0;
	upgrade_finish(&upgrade);
	return fresh ? 0 : 1;
}

Test(upgrade, a_document_that_cannot_be_read_is_a_fresh_start)
{
	static const struct {
		const char *variable;
		const char *text;
	} odd[] = { { NULL, "" }, { NULL, "{" }, { NULL, "{}" }, { NULL, "{\"version\":\"1\"}" },
		{ "", NULL }, { "-1", NULL }, { "x", NULL }, { "1", NULL }, { "99999", NULL },
		{ "1000001", NULL }, { "3x", "{\"version\":1}" },
		{ "99999999999999999999", NULL } };
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		pid_t child = fork();
		if (child == 0) {
			exit(starts_afresh(odd[i].variable, odd[i].text));
		}
		int status = -1;
		cr_assert(eq(int, waitpid(child, &status, 0), child));
		cr_expect(eq(int, status, 0), "%zu", i);
	}
}

/* Its number is that of a document, if one looks at 32 bits only. */
static int starts_afresh_by_a_large_number(void)
{
	char number[32];
	leave("{\"version\":1}");
	snprintf(number, sizeof(number), "%lld", 4294967296LL + atoi(getenv("BERTH_UPGRADE")));
	return starts_afresh(number, NULL);
}

static int starts_afresh_from_a_huge_document(void)
{
	pretended_size = 64 * 1024 * 1024 + 1;
	return starts_afresh(NULL, "{\"version\":1}");
}

Test(upgrade, a_number_or_a_document_beyond_its_bounds_is_a_fresh_start)
{
	int (*const odd[])(
		void) = { starts_afresh_by_a_large_number, starts_afresh_from_a_huge_document };
	for (size_t i = 0; i < 2; i++) {
		pid_t child = fork();
		if (child == 0) {
			exit(odd[i]());
		}
		int status = -1;
		cr_assert(eq(int, waitpid(child, &status, 0), child));
		cr_expect(eq(int, status, 0), "%zu", i);
	}
}
