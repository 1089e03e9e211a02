/* The input of a render command. */
#ifndef AGENT_OUTPUT_PICTURE_H
#define AGENT_OUTPUT_PICTURE_H

#include <stdbool.h>

#include "lib/render/render.h"

/*
 * Appends {"name", "from", "records": {path: record}, "endpoints": [{"path", "scope", "api",
 * "protocol", "addressType", "address", "host", "port", "tier"}]}.
 * An endpoint has "host" and "port" when its address names a host that can be used, and a port. One
 * with a control character is left out, and in records U+FFFD takes its place: the command may
 * print a value into a line. 0 or BERTH_LIMIT_EXCEEDED.
 */
int output_picture_write(const struct render_picture *picture, const char *name,
	const struct render_filter *filter, bool tiers, struct buffer *out,
	struct render_result *ret_result, struct err *err) ERR_REQUIRED(7);

#endif
