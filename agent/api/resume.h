/*
 * Streams whose clients have gone and may come again: they are kept for a while, and followed by
 * nobody. A client names the last event that it has as EPOCH-STREAM-SEQUENCE.
 */
#ifndef AGENT_API_RESUME_H
#define AGENT_API_RESUME_H

#include "agent/api/stream.h"

/* True: the stream is kept, and its source's on_closed() is called once more at the end. */
bool api_resume_park(struct api_stream *stream);

/* The event that a client wants to go on from. */
struct api_resume_point {
	uint64_t stream;
	uint64_t sequence;
};

/*
 * Reads `after=` of the query, or else Last-Event-ID. 1 with the point (of stream 0 if it is not of
 * this process), 0 without either, BERTH_FAILED with err.
 */
int api_resume_read(struct api *api, const struct http_request *request,
	struct api_resume_point *ret_point, struct err *err) ERR_REQUIRED(4);
/* The parked stream that can go on from there, for api_stream_resume(); or NULL. */
struct api_stream *api_resume_find(struct api *api, const struct api_resume_point *point);

/* Ends the stream that was parked first; false when there is none. */
bool api_resume_drop_one(struct api *api);
void api_resume_init(struct api *api);
/* When no client is left. */
void api_resume_finish(struct api *api);

#endif
