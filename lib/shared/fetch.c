#include "lib/shared/fetch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/http/reader.h"

enum { BODY_BYTES = 64 * 1024, MAX_DESCRIPTORS = 8 };

static bool wait_for(int fd, short events, int64_t deadline_ms)
{
	int64_t left_ms = deadline_ms - clock_monotonic_ms();
	struct pollfd poller = { .fd = fd, .events = events };
	return left_ms > 0 && poll(&poller, 1, (int)left_ms) > 0;
}

static bool send_request(int fd, int64_t deadline_ms)
{
	static const char request[] = "GET /v1/shared HTTP/1.1\r\nHost: berth\r\n"
				      "Accept: application/json\r\n\r\n";
	for (size_t sent = 0; sent < sizeof(request) - 1;) {
		ssize_t part = send(fd, request + sent, sizeof(request) - 1 - sent, MSG_NOSIGNAL);
		if (part >= 0) {
			sent += (size_t)part;
		} else if (errno != EINTR &&
			(errno != EAGAIN || !wait_for(fd, POLLOUT, deadline_ms))) {
			return false;
		}
	}
	return true;
}

/* Keeps the first descriptor of all that have come; nobody else may leave one open here. */
static void take_descriptors(struct msghdr *message, int *descriptor)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
		part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
			if (*descriptor < 0) {
				*descriptor = fd;
			} else {
				close(fd);
			}
		}
	}
}

static ssize_t receive(int socket_fd, char *bytes, size_t size, int *descriptor)
{
	union {
		struct cmsghdr aligned;
		char bytes[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec part = { bytes, size };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (got >= 0) {
		take_descriptors(&message, descriptor);
	}
	return got;
}

/* The status of the answer; 0 without one. */
static int read_answer(int socket_fd, int64_t deadline_ms, int *descriptor)
{
	struct http_reader reader;
	struct buffer body;
	struct err err = ERR_INIT;
	char bytes[2048];
	bool reads = true;
	http_reader_init(&reader, HTTP_ANSWER);
	buffer_init(&body, BODY_BYTES);
	while (reads && reader.state != HTTP_READER_DONE) {
		size_t used;
		ssize_t got = receive(socket_fd, bytes, sizeof(bytes), descriptor);
		if (got > 0) {
			reads = http_reader_feed(&reader, bytes, (size_t)got, &body, &used, &err) ==
				0;
		} else {
			reads = got < 0 &&
				(errno == EINTR ||
					(errno == EAGAIN &&
						wait_for(socket_fd, POLLIN, deadline_ms)));
		}
	}
	int status = reads ? reader.status : 0;
	buffer_finish(&body);
	http_reader_finish(&reader);
	return status;
}

enum shared_fetched shared_map_fetch(int socket_fd, int64_t deadline_ms, struct shared_map *ret_map)
{
	int descriptor = -1;
	int status = send_request(socket_fd, deadline_ms)
		? read_answer(socket_fd, deadline_ms, &descriptor)
		: 0;
	bool opened = status == 200 && descriptor >= 0 && shared_map_open(ret_map, descriptor);
	if (descriptor >= 0) {
		close(descriptor);
	}
	return opened                          ? SHARED_FETCHED
		: status == 0 || status == 503 ? SHARED_NOT_NOW
					       : SHARED_NEVER;
}
