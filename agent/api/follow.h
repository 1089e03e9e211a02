/*
 * GET /v1/follow, POST /v1/follow/ID: many questions whose answers come by one stream.
 *
 *   follow.c        the stream, and its questions
 *   follow_event.c  what it tells
 *   follow_reads.c  nodes and lists, for an agent in a container
 *   follow_sets.c   sets, for anybody on a Unix socket
 *
 * The stream belongs to the container, or to the user, over whose socket it came. Its client asks
 * by POST; the answers come by the stream, in the order in which they become known, so that an
 * answer, a change and a confirmation that come one after another are true in this order:
 *
 *   SUBSCRIBED                            who this is, and what became of the container's records
 *   SET id, set, stale | error, why       a set, and each that takes its place
 *   STALE id, FRESH id                    the set's
 *   READ id, node | error, why            the answer to a question
 *   CHANGED path, list                    once, after a READ that was to be watched
 *   CONFIRMED id, heard_ms                all that changed before this time has been sent
 *   STALE why, FRESH                      the host's agent has lost its registry, and has it again
 *   CONTAINER container                   another state of the container's own records
 *   HEARTBEAT
 *
 * A reader that does not keep up gets answers as fast as it takes them, and of a set the last one.
 */
#ifndef AGENT_API_FOLLOW_H
#define AGENT_API_FOLLOW_H

#include "agent/api/internal.h"

enum {
	API_FOLLOW_STREAMS = 2,  /* of a container: the older ones end */
	API_FOLLOW_READS = 4096, /* of a stream: under way and watched */
	API_FOLLOW_SETS = 16384  /* of all streams; each has its share */
};

struct follow {
	struct api *api;
	struct http_request *request;
	char container[HTTP_CONTAINER_BYTES]; /* "": none */
	unsigned uid;                         /* of the user, without a container */
	struct list link;                     /* api->follows, the oldest first */
	uint64_t id;
	uint64_t sequence;
	struct buffer queue;
	size_t read; /* bytes of the queue that were written */
	bool connected;
	struct timer heartbeat;
	bool ending;
	struct list reads;    /* that wait for their answer, or for a change */
	struct list put_off;  /* that are asked again when there is room */
	struct list confirms; /* that wait for the server */
	size_t read_count;
	size_t bytes;         /* of its reads */
	void *watched;        /* tsearch() tree of the reads with `watch` */
	char *told;           /* the container's state as the client knows it; NULL: none */
	struct list due_sets; /* with something to say when there is room */
	size_t set_count;
	void *sets; /* tsearch() tree, by id */
};

/* ---- follow_event.c ---- */

/* An event, to be ended by follow_end(). */
struct buffer follow_begin(struct follow *follow, const char *type);
void follow_end(struct follow *follow, struct buffer *json);
void follow_append_member(struct buffer *json, const char *name, const char *text);
/* ,"id":…,"error":…,"why":… */
void follow_append_error(struct buffer *json, uint64_t id, const struct err *err);
void follow_append_heard(struct follow *follow, struct buffer *json);
bool follow_has_room(const struct follow *follow);
/* The client is given up. */
void follow_stop(struct follow *follow, const char *why);

/* ---- follow_reads.c ---- */

void follow_take_read(struct follow *follow, const json_t *item);
void follow_drop_read(struct follow *follow, const json_t *item);
void follow_take_confirm(struct follow *follow, const json_t *item);
/* There is room again. */
void follow_reads_go_on(struct follow *follow);
void follow_reads_finish(struct follow *follow);

/* ---- follow_sets.c ---- */

void follow_take_set(struct follow *follow, const json_t *item);
void follow_drop_set(struct follow *follow, const json_t *item);
void follow_sets_go_on(struct follow *follow);
void follow_sets_finish(struct follow *follow);

void api_follows_init(struct api *api);
void api_follows_finish(struct api *api);

#endif
