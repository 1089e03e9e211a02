/*
 * grpc.health.v1.Health/Check: its request and its answer, a few bytes of protobuf each, in the
 * frame of gRPC (a flag for compression, and the length in four bytes). Without I/O.
 */
#ifndef PROBE_HEALTH_H
#define PROBE_HEALTH_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/buffer.h"

#define HEALTH_PATH "/grpc.health.v1.Health/Check"

enum {
	HEALTH_FRAME_BYTES = 5,
	HEALTH_MESSAGE_BYTES = 4096, /* of an answer; one of today has 2 */
	HEALTH_WORDS_BYTES = 256
};

/* An answer as far as it has come; zeroed at first. */
struct health {
	unsigned char bytes[HEALTH_FRAME_BYTES + HEALTH_MESSAGE_BYTES];
	size_t len;
	const char *wrong; /* static: it is none, and the rest does not matter */
	bool has_status;
	int status;        /* gRPC's, from the trailers */
	char message[128]; /* gRPC's, likewise */
};

/* Appends the request. */
void health_write(struct buffer *out, const char *service);

/* The next bytes of the answer's body. False: it is wrong, or too long. */
bool health_take(struct health *health, const char *bytes, size_t len);
/* A header field or a trailer. */
void health_take_field(struct health *health, const char *line, size_t len);

/* The verdict on an answer that is complete: whether it serves, and in words why not. */
bool health_judge(const struct health *health, const char *service, char out[HEALTH_WORDS_BYTES]);

#endif
