/* Frames to the agent: whole, from any thread, and not for ever. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/registry/zookeeper/worker/worker.h"

enum { CAME_BACK = 10, LARGE_BYTES = 4 * 1024 * 1024, FRAMES = 200 };

static int ends[2];

/* ---- in place of libc's ---- */

static int interruptions;
static int most_bytes = LARGE_BYTES;

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	if (interruptions > 0) {
		interruptions--;
		errno = EINTR;
		return -1;
	}
	cr_assert(flags & MSG_NOSIGNAL);
	cr_assert(flags & MSG_DONTWAIT);
	return sendto(
		fd, bytes, len < (size_t)most_bytes ? len : (size_t)most_bytes, flags, NULL, 0);
}

/* ---- the tests ---- */

static void begin(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	zk_worker_send_to(ends[0]);
}

static void send_bytes(char byte, size_t len)
{
	struct buffer frame;
	buffer_init(&frame, LARGE_BYTES);
	memset(buffer_reserve(&frame, len), byte, len);
	buffer_added(&frame, len);
	zk_worker_send(&frame);
	cr_assert_eq(frame.len, 0);
	buffer_finish(&frame);
}

static void read_bytes(char *out, size_t len)
{
	for (size_t n = 0; n < len;) {
		ssize_t more = read(ends[1], out + n, len - n);
		cr_assert_gt(more, 0);
		n += (size_t)more;
	}
}

static int end_of(pid_t child)
{
	int status;
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Larger than what the socket holds: the rest waits for the agent. */
Test(send, a_large_frame_comes_whole)
{
	char *bytes = malloc(LARGE_BYTES);
	begin();
	pid_t child = fork();
	if (child == 0) {
		close(ends[1]);
		send_bytes('f', LARGE_BYTES);
		_exit(CAME_BACK);
	}
	close(ends[0]);
	read_bytes(bytes, LARGE_BYTES);
	cr_expect_eq(read(ends[1], bytes + 1, 1), 0, "and nothing behind it");
	for (size_t i = 2; i < LARGE_BYTES; i++) {
		cr_assert_eq(bytes[i], 'f');
	}
	cr_expect_eq(end_of(child), CAME_BACK);
	free(bytes);
}

Test(send, a_frame_goes_on_after_a_signal_and_after_a_part_of_it)
{
	char bytes[10];
	begin();
	interruptions = 2;
	most_bytes = 3;
	send_bytes('f', sizeof(bytes));
	read_bytes(bytes, sizeof(bytes));
	cr_expect_eq(memcmp(bytes, "ffffffffff", sizeof(bytes)), 0);
	cr_expect_eq(recv(ends[1], bytes, 1, MSG_DONTWAIT), -1);
}

static void *send_often(void *byte)
{
	for (int i = 0; i < FRAMES; i++) {
		send_bytes(*(char *)byte, 100);
	}
	return NULL;
}

Test(send, frames_of_two_threads_do_not_mix)
{
	char letters[] = { 'a', 'b' };
	char bytes[100];
	pthread_t threads[2];
	begin();
	most_bytes = 7;
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(pthread_create(&threads[i], NULL, send_often, &letters[i]), 0);
	}
	for (int i = 0; i < 2 * FRAMES; i++) {
		read_bytes(bytes, sizeof(bytes));
		for (size_t at = 1; at < sizeof(bytes); at++) {
			cr_assert_eq(bytes[at], bytes[0]);
		}
	}
	for (size_t i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
	}
}

Test(send, without_its_agent_a_worker_ends)
{
	begin();
	pid_t child = fork();
	if (child == 0) {
		close(ends[1]);
		char byte;
		(void)!read(ends[0], &byte, 1); /* until the test has closed it */
		send_bytes('f', 1);
		_exit(CAME_BACK);
	}
	close(ends[1]);
	cr_expect_eq(end_of(child), 0);
}

Test(send, an_agent_that_reads_nothing_is_left_after_its_silence)
{
	begin();
	cr_expect_eq(zk_worker_silence_ms(), -1, "for ever, unless somebody says how long");
	zk_worker_bear_silence_ms(20);
	cr_expect_eq(zk_worker_silence_ms(), 20);
	pid_t child = fork();
	if (child == 0) {
		send_bytes('f', LARGE_BYTES);
		_exit(CAME_BACK);
	}
	cr_expect_eq(end_of(child), 0);
}

/* ---- lines of log ---- */

static char frame_bytes[4096];

static struct zk_log read_log(void)
{
	struct zk_frame frame;
	struct zk_log log;
	ssize_t len = recv(ends[1], frame_bytes, sizeof(frame_bytes), MSG_DONTWAIT);
	cr_assert_gt(len, 0);
	cr_assert_eq(zk_frame_next(&frame, frame_bytes, (size_t)len), len);
	cr_assert_eq(zk_log_decode(&log, &frame), 0);
	return log;
}

Test(send, a_line_of_log_has_its_kind)
{
	begin();
	zk_worker_log(ZK_LOG_CAGE, "cage: none");
	struct zk_log log = read_log();
	cr_expect_eq(log.kind, ZK_LOG_CAGE);
	cr_expect_str_eq(log.message, "cage: none");
	zk_worker_say("%s %d", "two", 2);
	log = read_log();
	cr_expect_eq(log.kind, ZK_LOG_OWN);
	cr_expect_str_eq(log.message, "two 2");
}

Test(send, a_long_line_of_its_own_is_cut)
{
	begin();
	zk_worker_say("%600d", 1);
	const struct zk_log log = read_log();
	cr_expect_eq(strlen(log.message), 511);
}

Test(send, a_line_that_no_frame_holds_is_left_out)
{
	char *line = malloc(ZK_FRAME_MAX_BYTES + 1);
	char byte;
	begin();
	memset(line, 'l', ZK_FRAME_MAX_BYTES);
	line[ZK_FRAME_MAX_BYTES] = '\0';
	zk_worker_log(ZK_LOG_OWN, line);
	cr_expect_eq(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
	free(line);
}
