/* Frames to the agent, from any thread. */
#include "lib/registry/zookeeper/worker/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 512 };

static int agent_fd;
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
static atomic_int silence_ms = -1;

void zk_worker_send_to(int fd)
{
	agent_fd = fd;
}

void zk_worker_bear_silence_ms(int ms)
{
	atomic_store(&silence_ms, ms);
}

int zk_worker_silence_ms(void)
{
	return atomic_load(&silence_ms);
}

void zk_worker_leave(void)
{
	_exit(0);
}

static void wait_for_room(void)
{
	struct pollfd pollfd = { .fd = agent_fd, .events = POLLOUT };
	if (poll(&pollfd, 1, zk_worker_silence_ms()) == 0) {
		zk_worker_leave();
	}
}

void zk_worker_send(struct buffer *frame)
{
	pthread_mutex_lock(&sending);
	for (size_t sent = 0; sent < frame->len;) {
		ssize_t n = send(agent_fd, frame->data + sent, frame->len - sent,
			MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			wait_for_room();
		} else if (n < 0 && errno != EINTR) {
			_exit(0);
		}
		sent += n > 0 ? (size_t)n : 0;
	}
	pthread_mutex_unlock(&sending);
	buffer_clear(frame);
}

void zk_worker_log(enum zk_log_kind kind, const char *message)
{
	struct buffer frame;
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	if (zk_log_encode(&frame, &(struct zk_log){ .kind = kind, .message = message }) == 0) {
		zk_worker_send(&frame);
	}
	buffer_finish(&frame);
}

void zk_worker_say(const char *format, ...)
{
	char message[MESSAGE_BYTES];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	zk_worker_log(ZK_LOG_OWN, message);
}
