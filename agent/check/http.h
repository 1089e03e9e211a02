/*
 * An http check: one plain request, and the status line of its answer. Redirects are a status like
 * any other. The body is read only when it has to match a pattern.
 */
#ifndef AGENT_CHECK_HTTP_H
#define AGENT_CHECK_HTTP_H

#include "lib/base/buffer.h"
#include "agent/check/socket.h"

#define CHECK_HTTP_REQUEST_BYTES (16 * 1024)
#define CHECK_HTTP_STATUS_LINE_BYTES 1024
#define CHECK_HTTP_BODY_BYTES (64 * 1024) /* a pattern sees so much of a body */

/*
 * The request, and how to judge its answer: see socket.h. It is built in `request`, which the
 * caller initialised with CHECK_HTTP_REQUEST_BYTES and finishes after the start. False when it does
 * not fit.
 */
bool check_http_exchange(const struct config_check *config, struct buffer *request,
	struct check_socket_exchange *exchange);

#endif
