/*
 * An agent's event stream as libberth and `berth watch` read it. No bytes crash the reader; only
 * events come out, in their order: SUBSCRIBED first, no heartbeat, LOST when the stream broke.
 * The first byte's lowest bit: the rest are frames, sent in chunks behind a good head.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/buffer.h"
#include "lib/peer/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct sockaddr_un address;
static int listener = -1;

struct subscriber {
	struct client_stream *stream;
	bool subscribed;
	const char *last; /* "LOST", or "" for another event */
};

static void remove_socket(void)
{
	unlink(address.sun_path);
}

static void start_listening(void)
{
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/fuzz-stream-%d", (int)getpid());
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(bind(listener, (const struct sockaddr *)&address, sizeof(address)) == 0);
	assert(listen(listener, 8) == 0);
	atexit(remove_socket);
}

static void on_event(void *context, json_t *event)
{
	struct subscriber *subscriber = context;
	const char *type = json_string_value(json_object_get(event, "type"));
	assert(type && strcmp(type, "HEARTBEAT") != 0);
	bool lost = strcmp(type, "LOST") == 0;
	assert(subscriber->subscribed || lost || strcmp(type, "SUBSCRIBED") == 0);
	subscriber->subscribed = subscriber->subscribed || strcmp(type, "SUBSCRIBED") == 0;
	subscriber->last = lost ? "LOST" : "";
	json_decref(event);
}

static void send_all(int fd, const void *data, size_t len)
{
	assert(send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len);
}

/* Chunks of a length that the data choose; in one piece, because a socket holds few small ones. */
static void send_frames(int fd, const uint8_t *data, size_t len)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	buffer_append_text(&out, head);
	while (len > 0) {
		size_t part = 1 + data[0] % 64;
		part = part < len ? part : len;
		buffer_printf(&out, "%zx\r\n", part);
		buffer_append(&out, data, part);
		buffer_append_text(&out, "\r\n");
		data += part;
		len -= part;
	}
	send_all(fd, out.data, out.len);
	buffer_finish(&out);
}

static void check_trouble(const struct subscriber *subscriber)
{
	if (client_stream_trouble(subscriber->stream)->code) {
		assert(client_stream_trouble(subscriber->stream)->msg[0]);
	} else {
		assert(subscriber->subscribed);
	}
}

static bool is_open(int fd)
{
	char byte;
	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* One connection: all that the agent sends, then its end when `ends`, else silence. */
static void feed(struct subscriber *subscriber, const uint8_t *data, size_t len, bool ends)
{
	char request[512];
	client_stream_dispatch(subscriber->stream, client_stream_due_ms(subscriber->stream));
	int fd = accept(listener, NULL, NULL);
	assert(fd >= 0 && recv(fd, request, sizeof(request), 0) > 0);
	if (data[0] & 1) {
		send_frames(fd, data + 1, len - 1);
	} else {
		send_all(fd, data + 1, len - 1);
	}
	if (ends) {
		shutdown(fd, SHUT_WR);
	}
	client_stream_dispatch(subscriber->stream, 0);
	check_trouble(subscriber);
	if (is_open(fd)) {
		client_stream_dispatch(subscriber->stream, INT64_MAX / 2); /* it fell silent */
		assert(!is_open(fd));
	}
	assert(client_stream_trouble(subscriber->stream)->code);
	assert(strcmp(subscriber->last, "LOST") == 0);
	check_trouble(subscriber);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err err = ERR_INIT;
	struct subscriber subscriber = { .last = "" };
	if (len == 0 || len > 16 * 1024) {
		return 0; /* what a socket holds at once */
	}
	if (listener < 0) {
		start_listening();
	}
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert(client_stream_create(&subscriber.stream, address.sun_path, "/v1/watch/a", epoll_fd,
		       on_event, &subscriber, &err) == 0);
	feed(&subscriber, data, len, data[0] & 2);
	feed(&subscriber, data, len, true); /* the same again: a RESYNC now, if it was good */
	client_stream_free(subscriber.stream);
	close(epoll_fd);
	return 0;
}
