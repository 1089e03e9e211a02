/* Asking for a map: good answers and bad ones. */
#include "lib/shared/fetch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/shared/map.h"
#include "lib/base/clock.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"

enum { SIZE = 64 * 1024, PATIENCE_MS = 10000 };

#define HEAD(status) "HTTP/1.1 " status "\r\nContent-Length: 3\r\n\r\n"

static bool closes_stdin;    /* just before the map is asked for */
static bool has_credentials; /* the kernel adds those of the sender */

/*
 * The answer is there before the question, in two pieces; `fd` (or -1) comes with the first, and
 * `more` (or -1) behind it.
 */
static enum shared_fetched fetch_of_two(const char *answer, int fd, int more, int64_t patience_ms)
{
	int ends[2];
	struct shared_map map = { .words = NULL };
	union {
		struct cmsghdr aligned;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = { .bytes = "" };
	const int fds[] = { fd, more };
	const size_t fds_bytes = more >= 0 ? sizeof(fds) : sizeof(fd);
	size_t len = strlen(answer);
	struct iovec part = { (void *)(uintptr_t)answer, len / 2 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	if (has_credentials) {
		cr_assert_eq(
			setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)), 0);
	}
	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fds_bytes);
		struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(fds_bytes);
		memcpy(CMSG_DATA(rights), fds, fds_bytes);
	}
	if (len > 0) {
		cr_assert_eq(sendmsg(ends[1], &message, 0), (ssize_t)(len / 2));
		cr_assert_eq(send(ends[1], answer + len / 2, len - len / 2, 0),
			(ssize_t)(len - len / 2));
	}
	if (patience_ms == PATIENCE_MS) {
		shutdown(ends[1], SHUT_WR);
	}
	if (closes_stdin) {
		close(STDIN_FILENO);
	}
	enum shared_fetched fetched = shared_map_fetch(
		ends[0], clock_monotonic_ms() + patience_ms, &map);
	cr_expect_eq(fetched == SHARED_FETCHED, map.words != NULL);
	shared_map_close(&map);
	close(ends[0]);
	close(ends[1]);
	return fetched;
}

static enum shared_fetched fetch(const char *answer, int fd, int64_t patience_ms)
{
	return fetch_of_two(answer, fd, -1, patience_ms);
}

Test(shared_fetch, the_descriptor_of_a_good_answer_is_opened_and_closed)
{
	struct map *map;
	struct err err = ERR_INIT;
	cr_assert_eq(map_create(&map, SIZE, &err), 0);
	int before = dup(0);
	close(before);
	cr_expect_eq(fetch(HEAD("200 OK") "{}\n", map_fd(map), PATIENCE_MS), SHARED_FETCHED);
	int after = dup(0);
	cr_expect_eq(after, before, "a descriptor is left open");
	map_destroy(map);
}

Test(shared_fetch, an_agent_without_a_map_is_not_asked_again)
{
	cr_expect_eq(fetch(HEAD("404 Not Found") "{}\n", -1, PATIENCE_MS), SHARED_NEVER);
	cr_expect_eq(fetch(HEAD("200 OK") "{}\n", -1, PATIENCE_MS), SHARED_NEVER);
	cr_expect_eq(fetch(HEAD("200 OK") "{}\n", 0, PATIENCE_MS), SHARED_NEVER);
}

Test(shared_fetch, an_agent_that_cannot_now_is_asked_later)
{
	cr_expect_eq(
		fetch(HEAD("503 Service Unavailable") "{}\n", -1, PATIENCE_MS), SHARED_NOT_NOW);
	cr_expect_eq(fetch("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{", -1, PATIENCE_MS),
		SHARED_NOT_NOW);
	cr_expect_eq(fetch("what?\r\n\r\n", -1, PATIENCE_MS), SHARED_NOT_NOW);
	cr_expect_eq(fetch("HTTP/1.1 200 OK\r\nX: a\001b\r\nContent-Length: 3\r\n\r\n{}\n", 0,
			     PATIENCE_MS),
		SHARED_NOT_NOW, "no agent answers like that");
	cr_expect_eq(fetch("", -1, PATIENCE_MS), SHARED_NOT_NOW);
	cr_expect_eq(fetch("", -1, 10), SHARED_NOT_NOW); /* and who says nothing, too */
}

Test(shared_fetch, descriptors_of_a_bad_answer_are_closed)
{
	int before = dup(0);
	close(before);
	fetch(HEAD("503 Service Unavailable") "{}\n", 0, PATIENCE_MS);
	fetch("what?\r\n\r\n", 0, PATIENCE_MS);
	int after = dup(0);
	cr_expect_eq(after, before, "a descriptor is left open");
}

#define GOOD HEAD("200 OK") "{}\n"

/* Of several the first one counts, whatever its number here. */
Test(shared_fetch, further_descriptors_are_closed)
{
	struct map *map;
	struct err err = ERR_INIT;
	cr_assert_eq(map_create(&map, SIZE, &err), 0);
	int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int before = descriptors_count();
	cr_expect_eq(fetch_of_two(GOOD, map_fd(map), other, PATIENCE_MS), SHARED_FETCHED);
	cr_expect_eq(fetch_of_two(GOOD, other, map_fd(map), PATIENCE_MS), SHARED_NEVER);
	cr_expect_eq(descriptors_count(), before);
	has_credentials = true;
	cr_expect_eq(fetch_of_two(GOOD, -1, -1, PATIENCE_MS), SHARED_NEVER);
	cr_expect_eq(descriptors_count(), before, "what is no descriptor closes none");
	has_credentials = false;
	closes_stdin = true;
	cr_expect_eq(fetch_of_two(GOOD, map_fd(map), other, PATIENCE_MS), SHARED_FETCHED);
	cr_expect_eq(fcntl(STDIN_FILENO, F_GETFD), -1, "it is left open");
	close(other);
	map_destroy(map);
}

Test(shared_fetch, an_agent_that_hangs_up_after_a_pause_is_not_waited_for)
{
	failing_arm("receive", 1, EAGAIN);
	cr_expect_eq(fetch("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{", -1, PATIENCE_MS),
		SHARED_NOT_NOW);
	cr_expect(failing_disarm());
}
