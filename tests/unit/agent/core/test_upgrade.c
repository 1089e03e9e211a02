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

static void assert_fresh(const struct upgrade *upgrade)
{
	cr_assert(zero(ptr, upgrade->document));
	cr_assert(eq(int, upgrade->socket_fd, -1));
	cr_assert(eq(int, upgrade->listen_fd, -1));
	cr_assert(eq(int, upgrade->lock_fd, -1));
	cr_assert(eq(sz, upgrade->connection_count, 0));
}

Test(upgrade, without_one_the_start_is_fresh)
{
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	assert_fresh(&upgrade);
	cr_assert(eq(str, (char *)upgrade_text(&upgrade, "socket"), ""));
	upgrade_finish(&upgrade);
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

Test(upgrade, an_agent_that_has_nothing_passes_nothing_on)
{
	struct upgrade sent = { .document = json_object(),
		.socket_fd = -1,
		.listen_fd = -1,
		.lock_fd = -1,
		.xds_fd = -1 };
	json_t *document = passed_on(&sent);
	cr_expect(eq(int, (int)json_integer_value(json_object_get(document, "version")), 1));
	cr_expect(zero(ptr, json_object_get(document, "socket_fd")));
	cr_expect(zero(ptr, json_object_get(document, "listen_fd")));
	cr_expect(zero(ptr, json_object_get(document, "lock_fd")));
	cr_expect(zero(ptr, json_object_get(document, "xds_fd")));
	cr_expect_eq(json_is_false(json_object_get(document, "keep_socket")), true);
	json_decref(document);
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

/* upgrade_exec() while the process may have no more than this; a part of its message. */
static void fail_exec(int resource, rlim_t most, const char *message)
{
	char *argv[] = { "none", NULL };
	struct rlimit before;
	struct upgrade sent = { .document = json_object(),
		.socket_fd = -1,
		.listen_fd = -1,
		.lock_fd = -1,
		.xds_fd = -1 };
	struct err err = ERR_INIT;
	int descriptors = descriptors_count();
	cr_assert_eq(getrlimit(resource, &before), 0);
	const struct rlimit limit = { .rlim_cur = most, .rlim_max = before.rlim_max };
	cr_assert_eq(setrlimit(resource, &limit), 0);
	int code = upgrade_exec(&sent, "/none/berthd", argv, &err);
	cr_assert_eq(setrlimit(resource, &before), 0);
	cr_expect_eq(code, BERTH_FAILED);
	cr_expect_eq(err.code, BERTH_FAILED);
	cr_expect_not_null(strstr(err.msg, message), "%s", err.msg);
	cr_expect_null(getenv("BERTH_UPGRADE"));
	cr_expect_eq(descriptors_count(), descriptors);
	json_decref(sent.document);
}

Test(upgrade, a_document_that_cannot_be_written_is_an_error_and_leaves_nothing_open)
{
	signal(SIGXFSZ, SIG_IGN);
	fail_exec(RLIMIT_NOFILE, 256, "cannot execute /none/berthd");
	fail_exec(RLIMIT_FSIZE, 0, "cannot write the file for the successor");
	fail_exec(RLIMIT_NOFILE, 0, "cannot make the file for the successor");
}

/* In a process of its own: a successor would take its place. */
static int exec_without_room_for_the_document(void)
{
	char *argv[] = { "sh", "-c", "exit 9", NULL };
	struct upgrade sent = { .document = json_object(),
		.socket_fd = -1,
		.listen_fd = -1,
		.lock_fd = -1,
		.xds_fd = -1 };
	struct err err = ERR_INIT;
	(void)upgrade_exec(&sent, "/none/sh", argv, &err); /* with room */
	err_clear(&err);
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, RLIM_INFINITY });
	int code = upgrade_exec(&sent, "/bin/sh", argv, &err);
	json_decref(sent.document);
	return code == BERTH_FAILED ? 0 : 1;
}

Test(upgrade, a_successor_never_starts_without_its_document)
{
	pid_t child = fork();
	if (child == 0) {
		_exit(exec_without_room_for_the_document());
	}
	int status = -1;
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_expect(eq(int, status, 0));
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

Test(upgrade, a_socket_is_found_by_all_that_names_it)
{
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	cr_expect_not(upgrade_has_dns_socket(&upgrade, "a:1", true));
	cr_expect(eq(int, upgrade_listen_fd(&upgrade, "n", "a:1"), -1));
	upgrade_add_dns_socket(&upgrade, "a:1", true, 10);
	upgrade_add_dns_socket(&upgrade, "a:2", false, 11);
	cr_expect_eq(upgrade_has_dns_socket(&upgrade, "a:1", true), true);
	cr_expect_eq(upgrade_has_dns_socket(&upgrade, "a:2", false), true);
	cr_expect_not(upgrade_has_dns_socket(&upgrade, "a:1", false));
	cr_expect_not(upgrade_has_dns_socket(&upgrade, "a:2", true));
	cr_expect_not(upgrade_has_dns_socket(&upgrade, "a:3", true));
	upgrade_add_listen(&upgrade, "n", "a:1", 12);
	upgrade_add_listen(&upgrade, "m", "a:2", 13);
	cr_expect(eq(int, upgrade_listen_fd(&upgrade, "n", "a:1"), 12));
	cr_expect(eq(int, upgrade_listen_fd(&upgrade, "m", "a:2"), 13));
	cr_expect(eq(int, upgrade_listen_fd(&upgrade, "n", "a:2"), -1));
	cr_expect(eq(int, upgrade_listen_fd(&upgrade, "m", "a:1"), -1));
	upgrade_finish(&upgrade);
}

Test(upgrade, the_document_is_read_and_let_go)
{
	char line[512];
	leave("{\"version\":1}");
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	cr_assert(not(zero(ptr, upgrade.document)));
	FILE *maps = fopen("/proc/self/maps", "r");
	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		cr_expect_null(strstr(line, "memfd:document"), "%s", line);
	}
	fclose(maps);
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

/* The same for a document that is good, but may only be written. */
static int starts_afresh_without_rights(void)
{
	char path[32];
	char number[16];
	leave("{\"version\":1}");
	snprintf(path, sizeof(path), "/proc/self/fd/%s", getenv("BERTH_UPGRADE"));
	snprintf(number, sizeof(number), "%d", open(path, O_WRONLY));
	return starts_afresh(number, NULL);
}

Test(upgrade, a_document_without_the_right_to_read_it_is_a_fresh_start)
{
	pid_t child = fork();
	if (child == 0) {
		exit(starts_afresh_without_rights());
	}
	int status = -1;
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_expect(eq(int, status, 0));
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

/* In a process of its own, whose standard input it is. */
static int takes_the_one_at_0(void)
{
	leave("{\"version\":1}");
	dup2(atoi(getenv("BERTH_UPGRADE")), STDIN_FILENO);
	setenv("BERTH_UPGRADE", "0", 1);
	struct upgrade upgrade;
	upgrade_receive(&upgrade);
	bool taken = upgrade.document != NULL;
	upgrade_finish(&upgrade);
	return taken ? 0 : 1;
}

Test(upgrade, a_document_may_have_any_descriptor)
{
	pid_t child = fork();
	if (child == 0) {
		exit(takes_the_one_at_0());
	}
	int status = -1;
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_expect(eq(int, status, 0));
}
