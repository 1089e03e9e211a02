/*
 * The requests that `berth web` passes on: who may ask for what, and how the agent is asked. Pure.
 *
 * Every local user can connect to a TCP port on 127.0.0.1, and TCP does not tell who it was. So the
 * page has a secret name: each target begins with "/TOKEN/", and only the user who started `berth
 * web` has read it. The Host field must name this machine and the port: a page of another site,
 * whose name an attacker lets DNS point to 127.0.0.1, sends that name.
 */
#ifndef CLI_WEB_REQUEST_H
#define CLI_WEB_REQUEST_H

#include <stdbool.h>

#include "lib/base/buffer.h"
#include "lib/http/reader.h"

enum {
	WEB_TOKEN_BYTES = 33, /* 32 hexadecimal digits and a NUL */
	WEB_REQUEST_BYTES = HTTP_TARGET_BYTES + HTTP_REQUEST_FIELD_BYTES + 512
};

struct web_site {
	const char *socket_path; /* of the agent */
	char token[WEB_TOKEN_BYTES];
	unsigned port;
};

/* 0 for a request that may pass, else the status that refuses it; *ret_why is static. */
int web_request_judge(
	const struct web_site *site, const struct http_reader *request, const char **ret_why);

/* Appends the request as the agent gets it: without the token, on a connection of its own. */
void web_request_write(struct buffer *out, const struct http_reader *request);

#endif
