/*
 * Requests to an agent over its Unix socket, one after another on one kept connection. Blocking,
 * with a deadline.
 *
 * The connection is made by the first request, and made again when it broke. A request that finds
 * its idle connection closed by the agent is sent once more on a new one, if that cannot do a thing
 * twice.
 */
#ifndef LIB_PEER_CLIENT_H
#define LIB_PEER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "lib/berth.h"
#include "lib/http/reader.h"

#define CLIENT_BODY_BYTES (256 * 1024 * 1024)

struct client;

struct client_request {
	const char *method;
	const char *target; /* path and query, encoded */
	const char *accept; /* NULL: JSON */
	const char *body;   /* NULL: none; JSON */
	bool no_cache;      /* read again from the registry */
	bool shared;        /* the answer should be in the shared map for the next look-up */
	const char *tag;    /* wait for a content of another tag; NULL: do not wait */
	unsigned wait_s;    /* so long */
};

struct client_response {
	struct buffer body;
	char tag[BERTH_TAG_BYTES]; /* the ETag; "" without one */
};

/* The path of an agent's socket: `where`, with or without unix:, BERTH_SOCKET, or the usual one. */
const char *client_socket(const char *where);
/* Copies the path; connects later. */
int client_create(struct client **ret_client, const char *socket_path, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* Accepts NULL. */
void client_free(struct client *client);
const char *client_socket_path(const struct client *client);

/*
 * Sends a request and waits for the answer, `timeout_ms` at most. 0 for status 200 to 299: `ret`
 * holds the answer, for client_response_finish(). Otherwise the agent's own error by name,
 * AGENT_UNAVAILABLE when no agent answers, NO_PATH_PERMISSIONS when the socket may not be
 * opened, TIMEOUT (also when the content of `tag` stayed the same for `wait_s`, which comes on top
 * of `timeout_ms`). `ret_problem`, when not NULL, receives the body of an error (the caller's,
 * initialised, empty without one).
 */
int client_call(struct client *client, const struct client_request *request, int timeout_ms,
	struct client_response *ret, struct buffer *ret_problem, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(6);
void client_response_finish(struct client_response *response);
/* Of the last call's answer, that of an error too; zero when there was none. */
struct berth_freshness client_freshness(const struct client *client);
/* The ETag of that answer; "" without one. */
const char *client_tag(const struct client *client);
/* An answer came that no call was needed for: it is fresh. */
void client_set_fresh(struct client *client);

/* BERTH_FAILED for an answer to a target with attributes which overlooks them. */
int client_check_filter(const char *target, const struct http_reader *reader, struct err *err)
	ERR_REQUIRED(3);
/* The error of an answer with another status than 2xx, from its problem+json body. */
int client_problem(int status, const struct buffer *body, struct err *err) ERR_REQUIRED(3);

/*
 * A connected, non-blocking, close-on-exec socket, or a negative code. Waits until the deadline for
 * a place in the queue.
 */
int client_connect(const char *socket_path, int64_t deadline_ms, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

#endif
