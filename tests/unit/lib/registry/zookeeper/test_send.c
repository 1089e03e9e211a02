/* Frames to the agent: whole, from any thread, and not for ever. */
#include <criterion/criterion.h>
#include <errno.h>
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
