/*
 * Clients that wait: watchers, of which there may be `max_watchers`, and long polls.
 *
 * A watcher is an event stream or a long poll. A long poll is a request that has the current answer
 * (If-None-Match) and waits for the next (Prefer: wait). Its owner answers it when there is another
 * answer, and when its time is over.
 */
#ifndef AGENT_API_POLL_H
#define AGENT_API_POLL_H

#include "agent/api/internal.h"

/*
 * 0 and one more is counted, or BERTH_LIMIT_EXCEEDED. Remote ones may be but a share of all, and
 * one client has its share of them.
 */
int api_watcher_begin(struct api *api, struct http_request *request, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
void api_watcher_end(struct api *api, bool local);

/* In the memory of its owner; zeroed: not under way. */
struct api_poll {
	struct api *api;  /* NULL: not under way */
	struct list link; /* of api->polls */
	struct timer timer;
	bool local;
	/* The time is over: has to answer the request and to end the poll. */
	void (*on_over)(struct api_poll *poll);
};

/* Has the client this answer, so that it waits for the next? */
bool api_poll_wanted(const struct http_request *request, const char *etag);
/* Begins to wait for as long as the client wants. 0, or the error of api_watcher_begin(). */
int api_poll_begin(struct api_poll *poll, struct api *api, struct http_request *request,
	void (*on_over)(struct api_poll *poll), struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(5);
/* Does nothing unless it is under way. */
void api_poll_end(struct api_poll *poll);
/* The field by which an answer says that it ends a long poll. */
void api_poll_applied(const struct http_request *request, struct http_response *response);

#endif
