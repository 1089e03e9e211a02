/*
 * The handle behind berth.h. Its behaviour depends on where it was opened, on an agent or on a
 * registry: two tables of functions, on_agent.c and on_registry.c. berth.c chooses and drives it;
 * lookup.c, watch.c, write.c and control.c are the public functions; handle.c serves them all.
 *
 * A registry's requests are asynchronous; `struct outcome` makes calls that wait of them.
 */
#ifndef LIB_CLIENT_HANDLE_H
#define LIB_CLIENT_HANDLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/berth.h"
#include "lib/peer/client.h"
#include "lib/client/memory.h"
#include "lib/peer/stream.h"
#include "lib/base/err.h"
#include "lib/base/list.h"
#include "lib/registry/registry.h"

struct berth_watch;

/* The two kinds of handle. Every function blocks for as long as the handle's timeout allows. */
struct handle_ops {
	/* resolve, records: "resolve" and "records" of the API, or of a registry */
	int (*resolve)(
		struct berth *berth, const char *path, struct berth_answer *ret, struct err *err);
	int (*records)(
		struct berth *berth, const char *path, struct berth_answer *ret, struct err *err);
	int (*list)(
		struct berth *berth, const char *path, struct berth_paths *ret, struct err *err);
	int (*stat)(struct berth *berth, const char *path, struct berth_stat *ret, struct err *err);
	/* `filter` may be NULL; `no_cache`: past every cache */
	int (*endpoints)(struct berth *berth, const char *path,
		const struct berth_endpoint_filter *filter, bool no_cache,
		struct berth_endpoints *ret, struct err *err);
	int (*find)(struct berth *berth, const struct berth_criteria *criteria,
		berth_on_progress *on_progress, void *context, struct berth_answer *ret,
		struct err *err);

	/*
	 * Where a watch's events come from; `emit` is called with `watch`. *ret_source is for the
	 * functions below.
	 */
	int (*watch)(struct berth *berth, const char *path, bool recursive,
		const char *const *attributes, client_emit_take *emit, struct berth_watch *watch,
		void **ret_source, struct err *err);
	void (*source_free)(void *source); /* accepts NULL */
	int64_t (*source_due_ms)(const void *source);
	void (*source_dispatch)(void *source, int64_t now_ms);
	/* 0 while events flow, else why they do not */
	int (*source_trouble)(const struct berth *berth, const void *source, struct err *err);

	int64_t (*due_ms)(struct berth *berth);
	void (*dispatch)(struct berth *berth, int64_t now_ms);
	void (*close)(struct berth *berth);
};

extern const struct handle_ops handle_agent_ops;
extern const struct handle_ops handle_registry_ops;

struct berth {
	const struct handle_ops *ops;
	struct client *client;     /* of handle_agent_ops */
	struct memory memory;      /* the agent's, too */
	struct registry *registry; /* of handle_registry_ops */
	int timeout_ms;
	int epoll_fd; /* what berth_fd() gives: the registry or the streams, and the timer */
	int timer_fd;
	bool delivering;     /* a callback runs: watches are freed later */
	struct list watches; /* struct berth_watch */
};

/* A handle of neither kind yet; berth_close(). */
int handle_create(struct berth **ret_berth, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);
/* Fill client or registry, and ops. */
int handle_open_agent(struct berth *berth, const char *where, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
int handle_open_registry(struct berth *berth, const char *url, const struct berth_options *options,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);

/* Passes an error on to the caller, in the public form; returns its code. */
int handle_fail(struct berth_failure *failure, const struct err *err);

/* 0, or BERTH_FAILED with a message that `what` needs the other kind of handle. */
int handle_need_agent(const struct berth *berth, const char *what, struct err *err) ERR_REQUIRED(3);
int handle_need_registry(const struct berth *berth, const char *what, struct err *err)
	ERR_REQUIRED(3);

/* ---- watches (watch.c) ---- */

/* Sets the timer of berth_fd() to what is due next. After everything that may have changed it. */
void handle_arm(struct berth *berth);
/* Reads the streams, and calls the callbacks. */
void handle_watches_dispatch(struct berth *berth, int64_t now_ms);
/* Calls `visit` with the source of each watch. */
void handle_watches_each_source(
	struct berth *berth, void (*visit)(void *source, void *context), void *context);
void handle_watches_free(struct berth *berth);

/* ---- asking an agent (on_agent.c) ---- */

/* A look-up by the target of its request: from the agent's memory, else by the socket. */
int handle_look_up(struct berth *berth, const char *target, struct berth_answer *ret,
	struct err *err) ERR_REQUIRED(4);
/* Sends a request that has an answer. */
int handle_request(struct berth *berth, const struct client_request *request,
	struct berth_answer *ret, struct err *err) ERR_REQUIRED(4);
/* `attributes` may be NULL. */
int handle_find(struct berth *berth, const struct berth_criteria *criteria,
	const char *const *attributes, struct berth_answer *ret, struct err *err) ERR_REQUIRED(5);
/* The endpoints of a path, and the tier of each. */
int handle_endpoints_near(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, const char *zone, struct berth_endpoints *ret,
	unsigned **ret_tiers, struct err *err) ERR_REQUIRED(7);
/*
 * Appends name=value, percent-encoded, with ? or & before it, to a query; nothing when value is
 * NULL.
 */
void handle_add_query(struct buffer *query, const char *name, const char *value);
/* The same for NAME=VALUE each, NULL behind them; NULL for none. BERTH_FAILED: other text. */
int handle_add_attributes(struct buffer *query, const char *const *attributes, struct err *err)
	ERR_REQUIRED(3);

/* ---- asking a registry ---- */

/* A copy of what a request completed with; outcome_finish(). */
struct outcome {
	struct berth *berth;
	bool done;
	struct err err;
	struct registry_stat stat;
	char *data;
	size_t data_len;
	struct berth_paths paths; /* children, or what a purge deleted */
	size_t count;             /* of struct registry_result */
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
