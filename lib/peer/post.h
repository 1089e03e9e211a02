/*
 * Questions to the agent: one POST after another, on a connection of their own. Never
 * blocks; the answers come by the stream.
 */
#ifndef LIB_PEER_POST_H
#define LIB_PEER_POST_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "lib/http/reader.h"

/* An agent takes bodies of 64 KiB. */
#define CLIENT_POST_BYTES (60 * 1024)

struct client_post {
	const char *socket_path;
	int epoll_fd;
	int fd; /* -1: not connected */
	struct buffer out;
	size_t sent;
	struct http_reader reader;
	struct buffer body; /* of the answer */
	bool busy;          /* one is under way */
	int64_t deadline_ms;
};

/* Both texts are borrowed; the descriptor stays the caller's, who calls client_post_dispatch(). */
void client_post_init(struct client_post *post, const char *socket_path, int epoll_fd);
/* The post can be used again. */
void client_post_close(struct client_post *post);
void client_post_finish(struct client_post *post);

/* Begins one; none may be under way. 0 or AGENT_UNAVAILABLE, and NO_PATH_PERMISSIONS: close it. */
int client_post_send(struct client_post *post, const char *target, const char *body, int64_t now_ms,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(5);
/* Goes on. 0, also when nothing is under way; or why it failed. */
int client_post_dispatch(struct client_post *post, int64_t now_ms, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

#endif
