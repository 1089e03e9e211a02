/* The records that an output follows, read from its observer and decoded. */
#ifndef AGENT_OUTPUT_PICTURE_H
#define AGENT_OUTPUT_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/cache/cache.h"
#include "lib/render/render.h"

struct output_picture {
	struct render_picture picture;
	/* Own their paths and records. By path; those of a further observer behind the others. */
	struct render_member *members;
	size_t count;
	unsigned rank; /* of the members that are being added */
	bool tiers;    /* a command hears of which tier an endpoint is */
};

/* An empty one; finish it in any case. `from` is borrowed. */
void output_picture_init(struct output_picture *picture, const char *from);
/* Adds what a ready observer sees. Returns whether that is confirmed. */
bool output_picture_add(struct output_picture *picture, unsigned rank,
	const struct cache_observer *observer, int64_t now_ms);
/* Takes off the members of this rank and of those behind it. */
void output_picture_cut(struct output_picture *picture, unsigned rank);
void output_picture_finish(struct output_picture *picture);

/*
 * Appends the picture for a render command: {"name", "from", "records": {path: record},
 * "endpoints": [{"path", "scope", "api", "protocol", "addressType", "address", "host", "port",
 * "tier"}]}.
 * An endpoint has "host" and "port" when its address names a host that can be used, and a port. One
 * with a control character is left out, and in records U+FFFD takes its place: the command may
 * print a value into a line. 0 or BERTH_LIMIT_EXCEEDED.
 */
int output_picture_write(const struct output_picture *picture, const char *name,
	const struct render_filter *filter, struct buffer *out, struct render_result *ret_result,
	struct err *err) ERR_REQUIRED(6);

#endif
