/*
 * A socket that is full after some bytes: the send() of a program of one file takes the place of
 * libc's.
 */
#ifndef TESTS_UNIT_AGENT_HTTP_WINDOW_H
#define TESTS_UNIT_AGENT_HTTP_WINDOW_H

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How much the kernel takes of the server's bytes before it says that there is no room. */
static size_t window = SIZE_MAX;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	size_t left = window;
	struct iovec parts[3];
	struct msghdr cut = { .msg_iov = parts, .msg_iovlen = message->msg_iovlen };
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		parts[i] = message->msg_iov[i];
		parts[i].iov_len = parts[i].iov_len < left ? parts[i].iov_len : left;
		left -= parts[i].iov_len;
	}
	if (window == 0) {
		errno = EAGAIN;
		return -1;
	}
	ssize_t sent = syscall(SYS_sendmsg, fd, &cut, flags);
	window -= window == SIZE_MAX || sent < 0 ? 0 : (size_t)sent;
	return sent;
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	struct iovec part = { (void *)(uintptr_t)bytes, len };
	return sendmsg(fd, &(struct msghdr){ .msg_iov = &part, .msg_iovlen = 1 }, flags);
}

#endif
