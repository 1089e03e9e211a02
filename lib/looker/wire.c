#include "lib/looker/wire.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES = 5, OUT_MAX_BYTES = 64 * 1024 * 1024, FDS_AT_ONCE = 8 };

void wire_init(struct wire *wire, int fd_take)
{
	*wire = (struct wire){ .fd = fd_take };
	buffer_init(&wire->in, WIRE_FRAME_MAX_BYTES + HEAD_BYTES + WIRE_READ_BYTES);
	buffer_init(&wire->out, OUT_MAX_BYTES);
}

void wire_finish(struct wire *wire)
{
	while (wire->fd_count > 0) {
		close(wire->fds[--wire->fd_count]);
	}
	if (wire->fd >= 0) {
		close(wire->fd);
	}
	wire->fd = -1;
	buffer_finish(&wire->in);
	buffer_finish(&wire->out);
}

/* ---- writing ---- */

void wire_begin(struct wire *wire, uint8_t type)
{
	const uint32_t later = 0;
	wire->begin = wire->out.len;
	buffer_append(&wire->out, &later, sizeof(later));
	buffer_append(&wire->out, &type, sizeof(type));
}

void wire_number(struct wire *wire, uint64_t number)
{
	buffer_append(&wire->out, &number, sizeof(number));
}

void wire_bytes(struct wire *wire, const void *bytes, size_t len)
{
	const uint32_t head = (uint32_t)len;
	buffer_append(&wire->out, &head, sizeof(head));
	buffer_append(&wire->out, bytes, len);
	buffer_append(&wire->out, "", 1);
}

void wire_text(struct wire *wire, const char *text)
{
	wire_bytes(wire, text, strlen(text));
}

void wire_end(struct wire *wire)
{
	if (!wire->out.failed) {
		const uint32_t len = (uint32_t)(wire->out.len - wire->begin - sizeof(len));
		memcpy(wire->out.data + wire->begin, &len, sizeof(len));
	}
}

size_t wire_written(const struct wire *wire)
{
	return wire->out.len - wire->begin;
}

void wire_take_back(struct wire *wire)
{
	wire->out.len = wire->begin;
}

bool wire_is_gone(const struct wire *wire)
{
	return wire->gone || wire->out.failed;
}

static ssize_t send_part(const struct wire *wire, size_t from, int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec bytes = { wire->out.data + from, wire->out.len - from };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	return sendmsg(wire->fd, &message, MSG_NOSIGNAL);
}

void wire_flush(struct wire *wire)
{
	size_t sent = 0;
	while (!wire_is_gone(wire) && wire->fd >= 0 && sent < wire->out.len) {
		ssize_t n = send_part(wire, sent, -1);
		if (n >= 0) {
			sent += (size_t)n;
		} else if (errno == EAGAIN) {
			break;
		} else {
			wire->gone = errno != EINTR;
		}
	}
	buffer_consume(&wire->out, sent);
}

bool wire_waits(const struct wire *wire)
{
	return wire->out.len > 0;
}

static void keep_fd(struct wire *wire, int fd)
{
	if (wire->fd_count < WIRE_FDS_MAX) {
		wire->fds[wire->fd_count++] = fd;
	} else {
		close(fd);
	}
}

void wire_end_with(struct wire *wire, int fd)
{
	ssize_t n = -1;
	wire_end(wire);
	if (wire->fd < 0) {
		keep_fd(wire, fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
		return;
	}
	assert(wire_is_gone(wire) || wire->begin == 0);
	while (!wire_is_gone(wire) && (n = send_part(wire, 0, fd)) < 0) {
		wire->gone = errno != EINTR;
	}
	buffer_consume(&wire->out, n > 0 ? (size_t)n : 0);
	wire_flush(wire);
}

/* ---- reading ---- */

static void take_fds(struct wire *wire, struct msghdr *message)
{
	for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head;
		head = CMSG_NXTHDR(message, head)) {
		size_t count = head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS
			? (head->cmsg_len - CMSG_LEN(0)) / sizeof(int)
			: 0;
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(head) + i * sizeof(fd), sizeof(fd));
			keep_fd(wire, fd);
		}
	}
}

int wire_receive(struct wire *wire)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(FDS_AT_ONCE * sizeof(int))];
	} control;
	struct iovec bytes = { buffer_reserve(&wire->in, WIRE_READ_BYTES), WIRE_READ_BYTES };
	struct msghdr message = { .msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes) };
	ssize_t n = bytes.iov_base ? recvmsg(wire->fd, &message, MSG_CMSG_CLOEXEC) : -1;
	if (n > 0) {
		buffer_added(&wire->in, (size_t)n);
		take_fds(wire, &message);
		return 1;
	}
	return n < 0 && bytes.iov_base && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

int wire_next(const struct wire *wire, size_t *used, struct wire_frame *ret_frame)
{
	const char *at = wire->in.data + *used;
	size_t left = wire->in.len - *used;
	uint32_t len;
	if (left < HEAD_BYTES) {
		return 0;
	}
	memcpy(&len, at, sizeof(len));
	if (len < 1 || len > WIRE_FRAME_MAX_BYTES) {
		return -1;
	}
	if (left < sizeof(len) + len) {
		return 0;
	}
	at += sizeof(len);
	*ret_frame = (struct wire_frame){ .type = (uint8_t)at[0], .at = at + 1, .end = at + len };
	*used += sizeof(len) + len;
	return 1;
}

void wire_consume(struct wire *wire, size_t used)
{
	buffer_consume(&wire->in, used);
}

uint64_t wire_get_number(struct wire_frame *frame)
{
	uint64_t number = 0;
	if ((size_t)(frame->end - frame->at) < sizeof(number)) {
		frame->bad = true;
		return 0;
	}
	memcpy(&number, frame->at, sizeof(number));
	frame->at += sizeof(number);
	return number;
}

const char *wire_get_bytes(struct wire_frame *frame, size_t *ret_len)
{
	uint32_t len = 0;
	size_t left = (size_t)(frame->end - frame->at);
	bool has_len = left > sizeof(len);
	if (has_len) {
		memcpy(&len, frame->at, sizeof(len));
		left -= sizeof(len);
	}
	*ret_len = 0;
	if (!has_len || left < (size_t)len + 1 || frame->at[sizeof(len) + len] != '\0') {
		frame->bad = true;
		return "";
	}
	const char *bytes = frame->at + sizeof(len);
	frame->at = bytes + len + 1;
	*ret_len = len;
	return bytes;
}

const char *wire_get_text(struct wire_frame *frame)
{
	size_t len;
	return wire_get_bytes(frame, &len);
}

int wire_take_fd(struct wire *wire)
{
	if (wire->fd_count == 0) {
		return -1;
	}
	int fd = wire->fds[0];
	memmove(wire->fds, wire->fds + 1, --wire->fd_count * sizeof(int));
	return fd;
}
