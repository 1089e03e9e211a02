/*
 * The socket API: requests of section 3 of the contract, over agent/http/http.h, from the cache.
 *
 * What only the agent knows comes through `struct api_hooks`. Times in every answer are seconds since 1970 as JSON
 * numbers (but stat's `time`, milliseconds). Unknown query parameters are ignored. Registry paths in requests are taken as they
 * are: an escape in one is an invalid path, not an other spelling.
 *
 *   http --> api.c (routes) --> lookup.c   resolve list records endpoints stat     --> cache
 *                           --> find.c     find                                    --> registry
 *                           --> watch.c    watch                                   --> cache observers
 *                           --> agent.c    /v1/agent...                            --> hooks
 */
#ifndef AGENT_API_API_H
#define AGENT_API_API_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/cache/cache.h"
#include "lib/base/err.h"
#include "agent/base/history.h"
#include "agent/http/http.h"
#include "agent/base/metrics.h"
#include "lib/registry/registry.h"

struct api;

/*
 * What the agent supplies; every function gets `context`. json_t results are new references. Functions that return int
 * give 0 or an error code with err filled. BERTH_PATH_NOT_FOUND: no check or endpoint of that name.
 */
struct api_hooks {
	json_t *(*agent_status)(void *context); /* GET /v1/agent */
	json_t *(*checks)(void *context);       /* GET /v1/agent/checks */
	bool (*live)(void *context);
	bool (*ready)(void *context, struct err *err) ERR_REQUIRED(2); /* err: why not */
	int (*drain)(void *context, const char *reason, int64_t for_ms, struct err *err)
		ERR_REQUIRED(4); /* for_ms 0: no end */
	int (*undrain)(void *context, struct err *err) ERR_REQUIRED(2);
	/* NULL: done; else the mistakes as [{"file","line","message"}], and nothing has changed. */
	json_t *(*reload)(void *context);
	/* `done` takes the reference `result`, NULL when the check is removed meanwhile; it may be called at once. */
	int (*check_run)(void *context, const char *name,
		void (*done)(void *done_context, json_t *result), void *done_context,
		struct err *err) ERR_REQUIRED(5);
	/* The one who waits has gone: `done` is not to be called. */
	void (*check_run_forget)(void *context, const char *name, void *done_context);
	/* status: "passing", "warning" or "failing". */
	int (*check_report)(void *context, const char *name, const char *status, const char *output,
		const struct http_peer *peer, struct err *err) ERR_REQUIRED(6);
	/* Sets *ret_hold when the endpoint is to be withdrawn with this connection. */
	int (*endpoint_set)(void *context, const char *name, const json_t *addresses,
		const struct http_peer *peer, uint64_t connection, bool *ret_hold, struct err *err)
		ERR_REQUIRED(7);
	int (*endpoint_clear)(void *context, const char *name, const struct http_peer *peer,
		struct err *err) ERR_REQUIRED(4);
	/* A connection that held an endpoint has ended. */
	void (*connection_closed)(void *context, uint64_t connection);
	bool (*may_administer)(void *context, const struct http_peer *peer);
	void *context;
	/* Optional: before GET /metrics. */
	void (*update_metrics)(void *context);
};

struct api_options {
	const char *version;           /* static */
	int max_watchers;              /* event streams and long polls */
	int64_t heartbeat_interval_ms; /* of event streams */
	int64_t lookup_timeout_ms;     /* 0: 5 s */
};

/* All are borrowed and must outlive the api. Then pass api_on_request() and api_on_pinned_closed() to http_open(), with it as context. */
struct api *api_create(struct ev_loop *loop, struct cache *cache, struct registry *registry,
	struct history *history, struct metrics *metrics, const struct api_hooks *hooks,
	const struct api_options *options);
/* After http_close(), before cache_destroy(). Accepts NULL. */
void api_destroy(struct api *api);
void api_set_options(struct api *api, const struct api_options *options);
/* Answers every long poll, as if its time were over. */
void api_end_polls(struct api *api);
/* For GET /metrics; optional. */
void api_set_http(struct api *api, const struct http *http);

void api_on_request(void *api, struct http_request *request);
void api_on_pinned_closed(void *api, uint64_t connection);
/* For cache_options. */
void api_release_front(void *front);
size_t api_watchers(const struct api *api);

#endif
