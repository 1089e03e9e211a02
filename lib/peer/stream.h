/*
 * One event stream from an agent, made again for as long as it is wanted.
 *
 *   WAITING --(due)--> CONNECTED --(SUBSCRIBED)--> FLOWING
 *      ^                   |                          |
 *      +---- backoff ------+---- broken, or silent ---+
 *
 * Never blocks. The owner polls the epoll descriptor that it passed in, waits no longer than
 * client_stream_due_ms(), and calls client_stream_dispatch(). Events are JSON objects as the agent
 * sent them, but without heartbeats, with RESYNC for every SUBSCRIBED after the first, and {"type":
 * "LOST"} when the stream broke. STALE comes with a snapshot that is not confirmed, in the same
 * call.
 */
#ifndef LIB_PEER_STREAM_H
#define LIB_PEER_STREAM_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/err.h"

#define CLIENT_BACKOFF_MAX_MS 15000

struct client_stream;

/* Takes the reference `event`. */
typedef void client_emit_take(void *context, json_t *event);

/*
 * `target` is the request's path and query, and is copied; the path and the descriptor stay the
 * caller's, for as long as the stream.
 */
int client_stream_create(struct client_stream **ret_stream, const char *socket_path,
	const char *target, int epoll_fd, client_emit_take *emit, void *context, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(7);
/* Accepts NULL. */
void client_stream_free(struct client_stream *stream);

/* When it asked for the stream that flows: what the first event says was true then or later. */
int64_t client_stream_asked_ms(const struct client_stream *stream);
int64_t client_stream_due_ms(const struct client_stream *stream);
void client_stream_dispatch(struct client_stream *stream, int64_t now_ms);

/* Its owner found it broken: as if the connection had failed. The event LOST comes from here. */
void client_stream_break(struct client_stream *stream, const struct err *err, int64_t now_ms);

/* Why nothing is flowing; code 0 while it is. Borrowed. */
const struct err *client_stream_trouble(const struct client_stream *stream);

/*
 * The pause after that many failures in a row, from 1 on: doubles up to CLIENT_BACKOFF_MAX_MS, of
 * which `unit` (0 to 1) chooses between one half and all.
 */
int64_t client_backoff_ms(unsigned failures, double unit);

#endif
