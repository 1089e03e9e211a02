/* The records that an output follows, read from its observer and decoded. */
#ifndef AGENT_OUTPUT_PICTURE_H
#define AGENT_OUTPUT_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/cache/cache.h"
#include "lib/render/render.h"

struct output_picture {
	struct render_picture picture;
	struct render_member *members;
	char **paths;
	size_t count;
	bool confirmed;
};

/* Reads the picture of a ready observer. Finish it in any case. */
void output_picture_read(struct output_picture *ret_picture, const char *from,
	const struct cache_observer *observer, int64_t now_ms);
void output_picture_finish(struct output_picture *picture);

/*
 * Appends the picture for a render command: {"name", "from", "records": {path: record},
 * "endpoints": [{"path", "scope", "api", "protocol", "addressType", "address", "host", "port"}]}.
 * An endpoint has "host" and "port" when its address names a host that can be used, and a port. One
 * with a control character is left out, and in records U+FFFD takes its place: the command may
 * print a value into a line. 0 or BERTH_LIMIT_EXCEEDED.
 */
int output_picture_write(const struct output_picture *picture, const char *name,
	const struct render_filter *filter, struct buffer *out, struct render_result *ret_result,
	struct err *err) ERR_REQUIRED(6);

#endif
