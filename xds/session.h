/*
 * One client's connection as a protocol sees it, HTTP/2 or HTTP/1.1: bytes in, bytes out. server.c
 * has the socket.
 */
#ifndef XDS_SESSION_H
#define XDS_SESSION_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "xds/follow.h"

/* Differences are the time that something took. */
static inline int64_t session_now_us(void)
{
	return clock_read_ns(CLOCK_MONOTONIC) / 1000;
}

/* The server, as a protocol needs it. */
struct session_host {
	struct ev_loop *loop;
	struct world *world;
	struct follow_quota *quota; /* of the client */
	/* There may be output. Called from anywhere; it does nothing at once. */
	void (*on_output)(void *context);
	/* It has worked for the client, other than in receive() and output(). */
	void (*on_work)(void *context, int64_t us);
	void *context;
};

struct session_ops {
	/* Takes bytes of the client; false: the connection cannot go on. */
	bool (*receive)(void *session, const uint8_t *data, size_t len);
	/*
	 * The next bytes for the client, valid until anything else is called; 0: none. They count
	 * as sent.
	 */
	size_t (*output)(void *session, const uint8_t **ret_data);
	/* Whether the connection ends once all output has been sent. */
	bool (*is_over)(const void *session);
	/* The memory that it takes, roughly. */
	size_t (*bytes)(const void *session);
	/* Whether no request is under way. */
	bool (*is_idle)(const void *session);
	/* The program ends: says so to the client, which goes elsewhere. */
	void (*leave)(void *session);
	void (*destroy)(void *session);
};

extern const struct session_ops session_http1;
extern const struct session_ops session_http2;

void *session_http1_create(const struct session_host *host);
void *session_http2_create(const struct session_host *host);

#endif
