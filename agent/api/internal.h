/*
 * Shared by the files of the socket API.
 */
#ifndef AGENT_API_INTERNAL_H
#define AGENT_API_INTERNAL_H

#include "agent/api/api.h"
#include "agent/base/timer.h"
#include "lib/http/field.h"
#include "lib/base/limits.h"
#include "lib/base/list.h"
#include "lib/record/select.h"

struct api {
	struct ev_loop *loop;
	struct cache *cache;
	struct names_lookups *names;
	struct registry *registry;
	struct history *history;
	struct metrics *metrics;
	const struct http *http;
	struct shared *shared; /* NULL: none */
	struct sets *sets;
	struct api_hooks hooks;
	struct api_options options;
	struct api_published *published; /* of the options */
	size_t watchers;                 /* of all peers */
	size_t remote_watchers;
	struct list polls; /* of poll.c: long polls under way */
	size_t remote_finds;
	size_t further_finds;      /* remote ones of further registries */
	struct list view_polls;    /* of views.c */
	struct list agent_streams; /* of views.c */
	struct list drains;        /* of order.c: carried out, but not saved yet */
	ev_prepare changed;        /* makes the agent's views again, while clients wait for them */
	struct list streams;       /* by their next heartbeat */
	struct timer heartbeat;
	struct list readers; /* streams with something unread, longest first */
	struct list waiting; /* streams whose snapshot waits for room, or for the next iteration */
	struct timer room;
	struct timer more;     /* of no length: snapshots wait for the next iteration */
	unsigned turn;         /* of the loop */
	size_t snapshot_bytes; /* written in this iteration */
	uint64_t next_stream;
	uint64_t epoch;            /* of this process: the names of its streams begin with it */
	size_t recent_bytes;       /* of events that streams keep for clients that come again */
	struct list parked;        /* streams without a client, by resume.c; the oldest first */
	struct timer parked_timer; /* until the oldest one ends */
	struct list follows;       /* of follow.c */
	struct timer follow_news;  /* of no length: something changed for them */
	size_t follow_bytes;       /* of the cache: the nodes that they watch */
	size_t follow_sets;        /* of them */
	struct metrics_series *hits;
	struct metrics_series *misses;
	struct metrics_series *stale;
	struct metrics_series *errors;
	struct metrics_series *durations;
};

/*
 * A route's handler; `rest` is the path behind the route's prefix. A registry path begins with the
 * slash that ends the prefix.
 */
typedef void api_handler(struct api *api, struct http_request *request, const char *rest);

/* ---- answer.c ---- */

/* Answers with a problem document; `status` 0: that of err->code. */
void api_problem(struct http_request *request, int status, const struct err *err);
/* The same with further members; takes the reference. */
void api_problem_with(
	struct http_request *request, int status, const struct err *err, json_t *members_take);
/* The same for an answer with more headers, or to keep. */
struct http_response *api_problem_response(
	const struct http_request *request, int status, const struct err *err);
/* A problem that HTTP itself names. `allow`: the Allow header, or NULL. */
void api_refuse(struct http_request *request, int status, const char *title, const char *detail,
	const char *allow);
void api_not_acceptable(struct http_request *request, const char *offered);
void api_bad_request(struct http_request *request, const char *detail);
void api_answer_json(struct http_request *request, int status, json_t *json_take);
/* The text, safe for terminals; free(). */
char *api_json_text(json_t *json_take);
void api_answer_text(
	struct http_request *request, int status, const char *type, const char *text, size_t len);

/* Endpoints or targets near a zone, with those of further paths: a form of a set (sets.c). */
void api_ask_further(
	struct api *api, struct http_request *request, const struct cache_query *query);

/* attribute.NAME=VALUE, with & between several. */
void api_write_filter(struct buffer *out, const char *attributes);
/* The stream of the records with these attributes at a path, or also below it: sets.c. */
void api_watch_records(struct api *api, struct http_request *request, const char *path,
	bool recursive, const char *attributes);

/* The answer says by which attributes it is filtered, so that a client sees that they count. */
void api_say_filter(struct http_response *response, const char *attributes);

/*
 * The value of an optional parameter, in `out`; NULL when it is absent or empty, or err is filled.
 */
const char *api_parameter(const struct http_request *request, const char *name, char *out,
	size_t size, struct err *err) ERR_REQUIRED(5);
/* The parameters attribute.NAME=VALUE as a selection in `out`, or NULL. */
const char *api_attributes(const struct http_request *request, char out[SELECT_BYTES],
	struct err *err) ERR_REQUIRED(3);

/* The texts of a filter of endpoints. */
struct api_filter_room {
	char api[LIMIT_API_BYTES + 1];
	char protocol[LIMIT_PROTOCOL_BYTES + 1];
	char scope[16];
	char near[256];
	char attributes[SELECT_BYTES];
};

/* The parameters of a filter of endpoints; false with `err` filled when one is bad. */
bool api_read_filter(const struct api *api, const struct http_request *request,
	struct cache_filter *ret_filter, struct api_filter_room *room, struct err *err)
	ERR_REQUIRED(5);

/* Answers with the status page. */
void api_page(struct http_request *request);

/* ---- shared.c ---- */

/* Does a reader of the shared map ask, so that the answer should be there for its next look-up? */
bool api_shares(const struct api *api, const struct http_request *request);
/* The answer to the request, as JSON or text, is a hit: it goes into the map. */
void api_share(const struct api *api, const struct http_request *request, bool text,
	const struct shared_item *item);
/* The same for an answer of the cache, if the next look-up gets the same one. */
void api_share_lookup(struct api *api, struct cache *cache, const struct http_request *request,
	const struct cache_query *query, const struct cache_answer *answer);

/* ---- routes ---- */

api_handler api_resolve;
api_handler api_list;
api_handler api_records;
api_handler api_endpoints;
api_handler api_targets;
api_handler api_stat;
api_handler api_find;
api_handler api_names;
api_handler api_set;
api_handler api_shared;
api_handler api_watch;
api_handler api_agent_status;
api_handler api_agent_checks;
api_handler api_agent_history;
api_handler api_agent_watch;
api_handler api_order_drain;
api_handler api_order_reload;
api_handler api_order_run;
api_handler api_order_report;
api_handler api_order_component_drain;
api_handler api_order_container_drain;
api_handler api_order_undamp;
api_handler api_order_endpoint;
api_handler api_bridge;
api_handler api_follow;
api_handler api_follow_ask;
api_handler api_live;
api_handler api_ready;
api_handler api_metrics;

/* May the client send the request of this handler, so that its body is worth reading? */
bool api_order_permits(const struct api *api, const struct http_request *request, const char *rest,
	api_handler *handler);
/* May the client change something? Always false on TCP. */
bool api_may_administer(const struct api *api, const struct http_request *request);
/* May the client report this check? */
bool api_may_write_check(
	const struct api *api, const struct http_request *request, const struct check *check);

void api_streams_init(struct api *api);
void api_streams_finish(struct api *api);
void api_views_init(struct api *api);
void api_views_finish(struct api *api);

#endif
