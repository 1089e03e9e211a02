/*
 * The socket API: the requests of docs/PROTOCOL.md over agent/http/http.h, from the cache.
 *
 * Times in every answer are seconds since 1970 as JSON numbers (but stat's `time`, milliseconds).
 * Unknown query parameters are ignored. Registry paths in requests are taken as they are: an escape
 * in one makes the path invalid, it is not another spelling.
 *
 *   http --> api.c (routes) --> lookup.c   resolve, list, records, endpoints, ... --> cache
 *                           --> watch.c    watch                                --> cache
 *                           --> views.c    /v1/agent, checks, history           --> components, act
 *                           --> order.c    requests that change something       --> components, act
 *                           --> names.c    /v1/names                            --> names
 *                           --> shared.c   /v1/shared, what goes into the map   --> shared
 *                           --> bridge.c   /v1/bridge                            --> act
 *                           --> follow.c   /v1/follow                        --> cache, act
 *                           --> health.c   /live, /ready, /metrics              --> components
 *                           --> page.c     GET / for browsers
 *                           --> published.c what a further listener shows
 *
 * answer.c makes the answers and problems of all of them, stream.c the event streams, poll.c the
 * long polls of lookup.c and views.c.
 */
#ifndef AGENT_API_API_H
#define AGENT_API_API_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/history.h"
#include "agent/base/metrics.h"
#include "agent/cache/cache.h"
#include "agent/component/component.h"
#include "agent/http/http.h"
#include "agent/names/lookup.h"
#include "agent/shared/shared.h"
#include "lib/base/err.h"
#include "lib/registry/registry.h"

struct api;
struct sets;

/* The API's requests to the agent as a whole. */
enum api_act_kind {
	API_STATUS,         /* sets `result`: the object of GET /v1/agent */
	API_READY,          /* fails with the reason while the agent is not ready */
	API_BRIDGE,         /* sets `result`: the object of GET /v1/bridge */
	API_UPDATE_METRICS, /* brings metrics up to date that the agent sets on request only */
	API_DRAIN,
	API_UNDRAIN,
	API_DRAIN_CONTAINER,
	API_UNDRAIN_CONTAINER,
	API_UNDAMP,
	/* may set `result`: the problems [{"file","line","message"}] if nothing changed */
	API_RELOAD
};

struct api_act {
	enum api_act_kind kind;
	const char *component; /* DRAIN, UNDRAIN: its label, or NULL for the whole agent; UNDAMP */
	const char *reason;    /* DRAIN, DRAIN_CONTAINER */
	/* BRIDGE: its part alone, or NULL for everything; DRAIN_CONTAINER, UNDRAIN_CONTAINER */
	const char *container;
	int64_t for_ms;      /* DRAIN, DRAIN_CONTAINER; 0: without end */
	bool away_ok;        /* READY: an outage of the registry alone is not a reason */
	bool dry_run;        /* RELOAD: changes nothing, and sets `changes` without a problem */
	json_t *result;      /* a new reference, or NULL */
	json_t *changes;     /* likewise: what a reload would change */
	bool is_being_saved; /* set by orders to drain: api_drain_saved() follows */
};

/* The agent behind the API. Endpoints are reached through their components. */
struct api_hooks {
	/* The component with this index; NULL behind the last one. */
	struct component *(*find)(void *context, size_t index);
	/* Likewise a check. */
	struct check *(*find_check)(void *context, size_t index);
	/* 0 or an error code with err filled; BERTH_PATH_NOT_FOUND: no component has this label. */
	int (*act)(void *context, struct api_act *act, struct err *err) ERR_REQUIRED(3);
	void *context;
};

/*
 * The part of the registry that the further listener of this name shows. The texts are borrowed
 * until the next options.
 */
struct api_published {
	const char *name;
	char *const *under; /* trees: each ends in slash and two asterisks */
	size_t under_count;
	bool external; /* records without internal endpoints */
};

struct api_options {
	const char *version;           /* static */
	int max_watchers;              /* event streams and long polls */
	int64_t heartbeat_interval_ms; /* of event streams */
	int64_t lookup_timeout_ms;     /* 0: 5 s */
	uint32_t names_ttl_s;          /* of live answers to names */
	uint32_t names_stale_ttl_s;    /* while the registry is away */
	/* the group that may change something too; (unsigned)-1: none */
	unsigned admin_group_id;
	/* names by which clients may come over TCP, two lists; borrowed until the next options */
	struct {
		char *const *names;
		size_t count;
	} hosts[2];
	const char *zone;      /* of near=self; borrowed as the hosts are, and so is what follows */
	char *const *failover; /* see [agent] failover */
	size_t failover_count;
	int64_t failover_hold_ms;
	const struct api_published *published; /* copied */
	size_t published_count;
};

/*
 * All are borrowed and must outlive the api. Then pass api_on_request() and api_on_pinned_closed()
 * to http_open(), with it as context.
 */
struct api *api_create(struct ev_loop *loop, struct cache *cache, struct names_lookups *names,
	struct registry *registry, struct history *history, struct metrics *metrics,
	const struct api_hooks *hooks, const struct api_options *options);
/* After http_close(), before cache_destroy(). Accepts NULL. */
void api_destroy(struct api *api);
void api_set_options(struct api *api, const struct api_options *options);
/* Answers the orders to drain that were carried out, and had to be saved. */
void api_drain_saved(struct api *api);
/* Answers every long poll, as if its time were over. */
void api_end_polls(struct api *api);
/* For GET /v1/shared; optional. Borrowed. */
void api_set_shared(struct api *api, struct shared *shared);
/* For GET /v1/set. Borrowed. */
void api_set_sets(struct api *api, struct sets *sets);
/* For GET /metrics; optional. */
void api_set_http(struct api *api, const struct http *http);

/*
 * After any change of what GET /v1/agent, its checks or its history show. Cheap; may be called from
 * anywhere.
 */
void api_agent_changed(struct api *api);

/*
 * After a change of the registry's state, or of what became of containers' records: their agents
 * hear of it. Cheap; may be called from anywhere.
 */
void api_follows_changed(struct api *api);

void api_on_request(void *api, struct http_request *request);
bool api_wants_body(void *api, const struct http_request *request);
void api_on_pinned_closed(void *api, uint64_t connection);
/* For cache_options. */
void api_release_rendering(void *rendering);
size_t api_watchers(const struct api *api);

#endif
