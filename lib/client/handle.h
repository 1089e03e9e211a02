/*
 * What berth.h's functions share: the handle, and how a registry's asynchronous requests become calls that wait.
 */
#ifndef LIB_CLIENT_HANDLE_H
#define LIB_CLIENT_HANDLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/berth.h"
#include "lib/client/client.h"
#include "lib/base/err.h"
#include "lib/registry/registry.h"

struct berth {
	struct client *client;     /* on an agent; else NULL */
	struct registry *registry; /* on a registry; else NULL */
	int timeout_ms;
	int epoll_fd; /* what berth_fd() gives: the registry or the streams, and the timer */
	int timer_fd;
	bool delivering; /* a callback is running: watches are freed later */
	struct berth_watch *watches;
};

/* Passes an error on to the caller, in the public form; returns its code. */
int handle_fail(struct berth_failure *failure, const struct err *err);

/* 0, or BERTH_FAILED with a message that `what` needs the other kind of handle. */
int handle_need_agent(const struct berth *berth, const char *what, struct err *err) ERR_REQUIRED(3);
int handle_need_registry(const struct berth *berth, const char *what, struct err *err)
	ERR_REQUIRED(3);

/* Sets the timer of berth_fd() to what is due next. After everything that may have changed it. */
void handle_arm(struct berth *berth);

/* ---- watches (berth_watch.c) ----------------------------------------------------------------- */

/* When a watch needs berth_dispatch(); INT64_MAX: never. */
int64_t handle_watches_deadline_ms(const struct berth *berth);
/* Reads the streams. */
void handle_watches_dispatch(struct berth *berth, int64_t now_ms);
/* Calls the callbacks. */
void handle_watches_deliver(struct berth *berth);
/* The registry came or went. */
void handle_watches_registry_state(struct berth *berth, enum registry_state state);
void handle_watches_free(struct berth *berth);

/* ---- asking an agent -------------------------------------------------------------------------- */

/* Sends a request that has an answer. */
int handle_request(struct berth *berth, const struct client_request *request,
	struct berth_answer *ret, struct err *err) ERR_REQUIRED(4);
/* GET `target`, as an answer. */
int handle_get(struct berth *berth, const char *target, struct berth_answer *ret, struct err *err)
	ERR_REQUIRED(4);
/* "/v1/" + verb + path, and the query in `query` (may be ""). BERTH_INVALID_PATHNAME. */
int handle_target(char *out, size_t size, const char *verb, const char *path, const char *query,
	struct err *err) ERR_REQUIRED(6);
/* Appends name=value, percent-encoded, with ? or & before it; nothing when value is NULL. */
void handle_query(struct buffer *query, const char *name, const char *value);

/* ---- asking a registry ------------------------------------------------------------------------ */

/* A copy of what a request completed with; outcome_finish(). */
struct outcome {
	struct berth *berth;
	bool done;
	struct err err;
	struct registry_stat stat;
	char *data;
	size_t data_len;
	char **paths; /* children, or what was purged */
	size_t paths_count;
	json_t *records;
	int64_t heard_ms; /* when it last showed progress */
	berth_on_progress *on_progress;
	void *progress_context;
};

void outcome_init(struct outcome *outcome, struct berth *berth);
void outcome_finish(struct outcome *outcome);
/* The paths become the caller's. */
void outcome_take_paths(struct outcome *outcome, struct berth_paths *ret);
/* The callbacks to make the request with; the context is the outcome. */
registry_done outcome_done;
registry_progress outcome_progress;
/* Waits for the request; returns the code of its result. `request` NULL: no memory. */
int outcome_wait(struct outcome *outcome, struct registry_request *request, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* Makes JSON text of `json` for an answer. */
int answer_from_json(struct berth_answer *ret, const json_t *json, struct err *err) ERR_REQUIRED(3);

#endif
