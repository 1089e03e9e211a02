/*
 * An http check: one plain request, and the status line of what comes back. Nothing beyond that line matters:
 * redirects are a status like any other, the body is not read.
 */
#ifndef AGENT_CHECK_HTTP_H
#define AGENT_CHECK_HTTP_H

#include "lib/base/buffer.h"
#include "agent/check/socket.h"

#define CHECK_HTTP_REQUEST_BYTES (16 * 1024)
#define CHECK_HTTP_STATUS_LINE_BYTES 1024

/* What to send (built in `request`, which the caller initialised with CHECK_HTTP_REQUEST_BYTES and finishes after the start), and how to
 * judge: see socket.h. False when the request does not fit. */
bool check_http_exchange(const struct config_check *config, struct buffer *request,
	struct check_socket_exchange *exchange);

#endif
