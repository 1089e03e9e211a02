#include "lib/peer/post.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/peer/client.h"

enum { TIMEOUT_MS = 10000, READ_BYTES = 4096, ANSWER_BYTES = 64 * 1024 };

void client_post_init(struct client_post *post, const char *socket_path, int epoll_fd)
{
	*post = (struct client_post){ .socket_path = socket_path, .epoll_fd = epoll_fd, .fd = -1 };
	buffer_init(&post->out, 2 * CLIENT_POST_BYTES);
	buffer_init(&post->body, ANSWER_BYTES);
	http_reader_init(&post->reader, HTTP_ANSWER);
}

void client_post_close(struct client_post *post)
{
	if (post->fd >= 0) {
		close(post->fd);
		post->fd = -1;
	}
	buffer_finish(&post->out);
	buffer_finish(&post->body);
	http_reader_restart(&post->reader);
	post->busy = false;
	post->sent = 0;
}

void client_post_finish(struct client_post *post)
{
	client_post_close(post);
	http_reader_finish(&post->reader);
}

/* ---- sending ---- */

static int watch(struct client_post *post, int operation, uint32_t events, struct err *err)
{
	struct epoll_event event = { .events = events };
	return epoll_ctl(post->epoll_fd, operation, post->fd, &event) == 0
		? 0
		: err_set_errno(err, BERTH_FAILED, errno, "cannot watch its socket");
}

static int write_some(struct client_post *post, struct err *err)
{
	while (post->sent < post->out.len) {
		ssize_t put = send(post->fd, post->out.data + post->sent,
			post->out.len - post->sent, MSG_NOSIGNAL);
		if (put >= 0) {
			post->sent += (size_t)put;
		} else if (errno == EAGAIN) {
			return watch(post, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT, err);
		} else if (errno != EINTR) {
			return err_set_errno(err, BERTH_AGENT_UNAVAILABLE, errno,
				"the agent broke the connection");
		}
	}
	return watch(post, EPOLL_CTL_MOD, EPOLLIN, err);
}

int client_post_send(struct client_post *post, const char *target, const char *body, int64_t now_ms,
	struct err *err)
{
	if (post->fd < 0) {
		post->fd = client_connect(post->socket_path, now_ms, err);
		if (post->fd < 0 || watch(post, EPOLL_CTL_ADD, EPOLLIN, err)) {
			return err->code;
		}
	}
	buffer_clear(&post->out);
	buffer_printf(&post->out,
		"POST %s HTTP/1.1\r\nHost: berth\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		target, strlen(body), body);
	if (post->out.failed) {
		return err_set(err, BERTH_FAILED, "no memory for a question to the agent");
	}
	post->sent = 0;
	post->busy = true;
	post->deadline_ms = now_ms + TIMEOUT_MS;
	return write_some(post, err);
}

/* ---- the answer ---- */

static int take(struct client_post *post, const char *bytes, size_t len, struct err *err)
{
	size_t used;
	if (!post->busy) {
		return err_set(err, BERTH_FAILED, "the agent answers what nobody asked");
	}
	if (http_reader_feed(&post->reader, bytes, len, &post->body, &used, err)) {
		return err->code;
	}
	if (post->reader.state != HTTP_READER_DONE) {
		return 0;
	}
	int status = post->reader.status;
	if (used < len) {
		return err_set(err, BERTH_FAILED, "the agent answers what nobody asked");
	}
	if (status / 100 != 2) {
		return client_problem(status, &post->body, err);
	}
	bool keeps = post->reader.keep_alive;
	post->busy = false;
	http_reader_restart(&post->reader);
	buffer_finish(&post->body);
	buffer_finish(&post->out);
	if (!keeps) {
		client_post_close(post);
	}
	return 0;
}

static int read_some(struct client_post *post, struct err *err)
{
	char bytes[READ_BYTES];
	while (post->fd >= 0) {
		ssize_t got = recv(post->fd, bytes, sizeof(bytes), 0);
		if (got > 0) {
			if (take(post, bytes, (size_t)got, err)) {
				return err->code;
			}
		} else if (got == 0 && !post->busy) {
			client_post_close(post); /* it was idle for long */
		} else if (got == 0) {
			return err_set(
				err, BERTH_AGENT_UNAVAILABLE, "the agent closed the connection");
		} else if (errno == EAGAIN) {
			return 0;
		} else if (errno != EINTR) {
			return err_set_errno(err, BERTH_AGENT_UNAVAILABLE, errno,
				"the agent broke the connection");
		}
	}
	return 0;
}

int client_post_dispatch(struct client_post *post, int64_t now_ms, struct err *err)
{
	if (post->busy && post->sent < post->out.len && write_some(post, err)) {
		return err->code;
	}
	if (read_some(post, err)) {
		return err->code;
	}
	return post->busy && now_ms >= post->deadline_ms
		? err_set(err, BERTH_AGENT_UNAVAILABLE, "the agent does not answer")
		: 0;
}
