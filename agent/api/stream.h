/*
 * Event streams: the framing, the queue of unread events, heartbeats, and a snapshot for a reader
 * that fell behind. The source (watch.c: the registry, views.c: the agent) makes the events.
 *
 *   LOADING --begin--> BEHIND --all was read, and there is room: SUBSCRIBED, RESYNC--> FOLLOWING
 *                        ^--------------------- too much is unread ---------------------'
 *   LOADING --it takes long--> LOADING, with an answer: heartbeats say how far it is
 *   any --> ENDING (no further event; the connection is closed)
 *   FOLLOWING --the client has gone--> PARKED --it comes again--> FOLLOWING
 *   PARKED --its source is refused--> ENDING
 *
 * A parked stream (resume.c) keeps its source, and the events that the client has not seen.
 */
#ifndef AGENT_API_STREAM_H
#define AGENT_API_STREAM_H

#include "agent/api/internal.h"
#include "agent/api/recent.h"

enum api_framing { API_RECORDIO, API_NDJSON, API_EVENT_STREAM };

enum api_stream_state {
	API_STREAM_LOADING,
	API_STREAM_BEHIND,
	API_STREAM_FOLLOWING,
	API_STREAM_PARKED,
	API_STREAM_ENDING
};

struct api_stream;

struct api_stream_source {
	const char *(*name)(const struct api_stream *stream); /* for the log */
	/* Whether the snapshot can be written now, else in a later turn. NULL: always. */
	bool (*is_ready)(const struct api_stream *stream);
	/* Appends the snapshot as a JSON value. */
	void (*write_snapshot)(struct api_stream *stream, struct buffer *out);
	/* The snapshot is not confirmed: STALE follows it. NULL: it always is. */
	bool (*is_stale)(const struct api_stream *stream);
	/* The client has gone; frees the stream. */
	void (*on_closed)(struct api_stream *stream);
};

struct api_stream {
	const struct api_stream_source *source;
	struct api *api;
	struct cache *cache;          /* whose registry it tells of */
	struct http_request *request; /* NULL while it is parked */
	/* on api->streams, by the next heartbeat; from the beginning of the answer on */
	struct list beat;
	struct list reader;  /* on api->readers while there is something in the queue */
	struct list waiting; /* on api->waiting while its snapshot waits for room */
	struct buffer queue;
	size_t read; /* bytes of the queue that were written */
	size_t queue_limit;
	double unread_since;
	uint64_t id;
	uint64_t sequence;
	struct recent recent;
	struct list parked; /* on api->parked */
	double parked_at;
	bool resumes;  /* its client has a picture: the first snapshot is a RESYNC */
	bool answered; /* it has a head, and perhaps heartbeats */
	bool begun;    /* it has had a snapshot */
	double due;
	enum api_framing framing;
	enum api_stream_state state;
	bool local;
};

/*
 * The checks of every request for a stream: Accept, HEAD, the number of watchers. False: the
 * request is answered. True: the stream counts as one more watcher, and the caller has to call
 * api_stream_finish().
 */
bool api_stream_admit(struct api *api, struct http_request *request, enum api_framing *ret_framing);
void api_stream_init(struct api_stream *stream, const struct api_stream_source *source,
	struct api *api, struct http_request *request, enum api_framing framing);
/* Begins the answer, unless it has begun: the snapshot, then events. */
void api_stream_begin(struct api_stream *stream);
/*
 * It loads for long: begins the answer, unless it has begun, and says how much has been read for
 * it.
 */
void api_stream_load(struct api_stream *stream, size_t read);
/*
 * Sends {"type","sequence","time", MEMBERS}; `members` is NULL or JSON text. A reader that is
 * behind gets a snapshot later.
 */
void api_stream_send(struct api_stream *stream, const char *type, const char *members);
/*
 * For the members of an event: "heard_ms", how long ago the registry was heard. NULL: never.
 */
#define API_STREAM_HEARD_BYTES 48
const char *api_stream_heard(const struct cache *cache, char out[API_STREAM_HEARD_BYTES]);
/* Replaces all events that the client has not read by a snapshot. Only for one that follows. */
void api_stream_resync(struct api_stream *stream);
/* Ends it without another event. */
void api_stream_break(struct api_stream *stream);
/* Its client has gone: it goes on without one, and is no watcher. Only for one that follows. */
void api_stream_park(struct api_stream *stream);
/* A client goes on where the event with this number was, which recent_reaches(). */
void api_stream_resume(struct api_stream *stream, struct http_request *request,
	enum api_framing framing, uint64_t sequence);
/* Frees all that the stream holds, but not the stream. */
void api_stream_finish(struct api_stream *stream);

#endif
