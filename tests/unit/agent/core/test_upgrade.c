#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/upgrade.h"

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

/* In a process of its own: the descriptors that are closed would be the test's. */
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
		_exit(receive_another_version());
	}
	int status = -1;
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_assert(eq(int, status, 0));
}
