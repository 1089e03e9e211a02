/*
 * An http check: one plain request, and the status line of its answer. Redirects are a status like
 * any other. Header and body are read only when they have to match a pattern.
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

/* The header fields of a request that berth-probe sends; each line but the last has its end. */
void check_http_append_fields(const struct config_check *config, struct buffer *fields);

/*
 * The parts of an answer, one behind the other; each sets the verdict and its reason. False: it
 * fails, and the rest does not matter.
 */
bool check_http_judge_status(
	const struct config_check *config, int status, struct check_result *result);
/* `head`: the lines behind the status line. */
bool check_http_judge_head(const struct config_check *config, int status, const char *head,
	size_t len, struct check_result *result);
/* For a check with a pattern. */
void check_http_judge_body(const struct config_check *config, int status, const char *body,
	size_t len, struct check_result *result);

#endif
