#include "agent/api/follow.h"
#include "agent/api/resume.h"
#include "agent/api/published.h"
#include "agent/http/host.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/limits.h"

/* ---- routes ---- */

static api_handler index_page;

#define READ ((1u << HTTP_GET) | (1u << HTTP_HEAD))

static const struct route {
	const char *prefix;
	const char *suffix; /* NULL: nothing may follow the prefix */
	unsigned methods;
	api_handler *handler;
	const char *help;
} routes[] = {
	{ "/", NULL, READ, index_page, "this list; for browsers a page that shows the agent" },
	{ "/v1/resolve/", "", READ, api_resolve, "the record at a path" },
	{ "/v1/list/", "", READ, api_list, "the paths of the children" },
	{ "/v1/records/", "", READ, api_records,
		"the children that hold a record, with it; ?attribute.X=" },
	{ "/v1/endpoints/", "", READ, api_endpoints,
		"addresses of the record and of its children; ?api= &protocol= &scope= "
		"&attribute.X=" },
	{ "/v1/targets/", "", READ, api_targets,
		"the same addresses for Prometheus (http_sd); ?api= &protocol= &scope= "
		"&attribute.X=" },
	{ "/v1/stat/", "", READ, api_stat, "time, size and number of children" },
	{ "/v1/find", NULL, READ, api_find,
		"records by ?under= &api= &protocol= &id= &persistence= &type= &attribute.X=" },
	{ "/v1/names/", "", READ, api_names,
		"what DNS says of a name; ?type= &attribute.X= &near=" },
	{ "/v1/set/", "", READ, api_set,
		"who serves a path or a name, or a stream of that; ?as= &api= &protocol= "
		"&scope= &attribute.X= &near= &min= &failover= &hold=" },
	{ "/v1/shared", NULL, 1u << HTTP_GET, api_shared,
		"a memory file with the answers to look-ups, as a descriptor" },
	{ "/v1/watch/", "", READ, api_watch, "stream of changes; ?recursive=yes &attribute.X=" },
	{ "/v1/agent", NULL, READ, api_agent_status, "state of the agent and its components" },
	{ "/v1/agent/checks", NULL, READ, api_agent_checks, "state of every check" },
	{ "/v1/agent/history", NULL, READ, api_agent_history,
		"the last transitions, and why; ?since= &n=" },
	{ "/v1/agent/watch", NULL, READ, api_agent_watch, "stream of all three" },
	{ "/v1/agent/drain", NULL, 1u << HTTP_POST | 1u << HTTP_DELETE, api_order_drain,
		"maintenance on or off" },
	{ "/v1/agent/reload", NULL, 1u << HTTP_POST, api_order_reload,
		"read the configuration again; ?dry_run=yes" },
	{ "/v1/agent/checks/", "/run", 1u << HTTP_POST, api_order_run, "run a check now" },
	{ "/v1/agent/checks/", "", 1u << HTTP_PUT, api_order_report, "report a ttl check" },
	{ "/v1/agent/components/", "/drain", 1u << HTTP_POST | 1u << HTTP_DELETE,
		api_order_component_drain, "maintenance of one component on or off" },
	{ "/v1/agent/components/", "/undamp", 1u << HTTP_POST, api_order_undamp,
		"end the flap damping of a component" },
	{ "/v1/agent/endpoints/", "", 1u << HTTP_PUT | 1u << HTTP_DELETE, api_order_endpoint,
		"supply or withdraw the addresses of a dynamic endpoint" },
	{ "/v1/bridge", NULL, 1u << HTTP_GET, api_bridge,
		"the containers of this host, and their records" },
	{ "/v1/bridge/", "/drain", 1u << HTTP_POST | 1u << HTTP_DELETE, api_order_container_drain,
		"maintenance of one container on or off, by SOURCE/NAME" },
	{ "/v1/follow", NULL, 1u << HTTP_GET, api_follow,
		"stream of the answers to many questions" },
	{ "/v1/follow/", "", 1u << HTTP_POST, api_follow_ask, "questions for that stream: sets" },
	{ "/live", NULL, READ, api_live, "200 while the agent works" },
	{ "/ready", NULL, READ, api_ready, "200 when every component is registered; ?away=ok" },
	{ "/metrics", NULL, READ, api_metrics, "Prometheus text, or OpenMetrics" },
};

static const char *const method_names[] = { "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS" };

static void write_methods(struct buffer *out, unsigned methods)
{
	const char *separator = "";
	for (size_t i = 0; i < ARRAY_LEN(method_names); i++) {
		if (methods & 1u << i) {
			buffer_printf(out, "%s%s", separator, method_names[i]);
			separator = ", ";
		}
	}
}

/* The rest of a path behind the route's prefix; NULL when the path lacks prefix or suffix. */
static const char *match(const struct route *route, const char *path)
{
	const char *rest = path;
	for (const char *at = route->prefix; *at; at++, rest++) {
		if (*rest != *at) {
			return NULL;
		}
	}
	if (!route->suffix) {
		return *rest ? NULL : rest;
	}
	size_t len = strlen(rest);
	size_t suffix = strlen(route->suffix);
	return len >= suffix && strcmp(rest + len - suffix, route->suffix) == 0 ? rest : NULL;
}

/* Answers OPTIONS, and methods that the resource does not support, by its Allow header. */
static void answer_methods(struct http_request *request, unsigned allowed)
{
	struct buffer allow;
	buffer_init(&allow, 256);
	write_methods(&allow, allowed | 1u << HTTP_OPTIONS);
	if (request->method == HTTP_OPTIONS) {
		struct http_response *response = http_response_create(NULL, "", 0);
		http_response_header(response, "Allow", buffer_text(&allow));
		http_answer(request, 204, response);
		http_response_free(response);
	} else {
		api_refuse(request, 405, "Method Not Allowed",
			"the Allow header names the methods that are", buffer_text(&allow));
	}
	buffer_finish(&allow);
}

/* Over any Unix socket, that of a container too. */
static bool is_for_followers(const struct route *route)
{
	return route->handler == api_follow || route->handler == api_follow_ask;
}

/* A container looks things up, and sees what became of its own records; there is nothing else. */
static bool is_for_containers(const struct route *route)
{
	static api_handler *const handlers[] = { api_resolve, api_list, api_records, api_endpoints,
		api_targets, api_stat, api_find, api_names, api_set, api_shared, api_watch,
		api_bridge };
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
		if (route->handler == handlers[i]) {
			return true;
		}
	}
	return false;
}

/*
 * The resources of a further listener. A search for an internal api would say that a record has
 * one; so would a stream of records.
 */
static bool is_published(
	const struct api *api, const struct http_request *request, const struct route *route)
{
	static api_handler *const handlers[] = { api_resolve, api_list, api_records, api_endpoints,
		api_targets, api_stat };
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
		if (route->handler == handlers[i]) {
			return true;
		}
	}
	return (route->handler == api_find || route->handler == api_watch) &&
		!api_published_externally(api, request);
}

/* Does the further listener show what the request asks for? */
static bool shows_path(const struct api *api, const struct http_request *request,
	const struct route *route, const char *rest)
{
	char under[LIMIT_PATH_BYTES + 1] = "/";
	struct err err = ERR_INIT;
	if (route->handler != api_find) {
		return api_published_shows(api, request, rest - 1);
	}
	return http_parameter(request, "under", under, sizeof(under), &err) >= 0 &&
		api_published_shows(api, request, under);
}

/*
 * Requests that change something do not exist on TCP; nor does a request that has GET alone: its
 * answer is a descriptor.
 */
static unsigned methods_of(
	const struct api *api, const struct route *route, const struct http_request *request)
{
	if (request->listener) {
		return is_published(api, request, route) ? route->methods : 0;
	}
	if (is_for_followers(route)) {
		return request->local ? route->methods : 0;
	}
	if (request->container) {
		return is_for_containers(route) ? route->methods & READ : 0;
	}
	return request->local || route->methods == READ ? route->methods : 0;
}

/*
 * Finds the route of the request and the text behind its prefix; NULL when there is none. Adds to
 * *allowed the methods that this resource has.
 */
static const struct route *find_route(const struct api *api, const struct http_request *request,
	const char **ret_rest, unsigned *allowed)
{
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		unsigned methods = methods_of(api, &routes[i], request);
		const char *rest = methods ? match(&routes[i], request->path) : NULL;
		if (rest && methods & 1u << request->method) {
			*ret_rest = rest;
			return &routes[i];
		}
		*allowed |= rest || *request->path == '*' ? methods : 0;
	}
	return NULL;
}

/* Over TCP, browsers may be led here by any name; the Unix socket is out of their reach. */
static bool came_by_own_name(const struct api *api, const struct http_request *request)
{
	bool is_own = request->local;
	for (size_t i = 0; i < 2 && !is_own; i++) {
		is_own = http_host_is_own(request->host, request->host_len,
			api->options.hosts[i].names, api->options.hosts[i].count);
	}
	return is_own;
}

/* Where attributes filter nothing, a parameter that asks for it is refused, not overlooked. */
static bool overlooks_attributes(const struct route *route, const struct http_request *request)
{
	static api_handler *const filtered[] = { api_records, api_endpoints, api_targets, api_find,
		api_names, api_set, api_watch };
	bool overlooks = strncmp(request->query, "attribute.", 10) == 0 ||
		strstr(request->query, "&attribute.");
	for (size_t i = 0; i < ARRAY_LEN(filtered); i++) {
		overlooks = overlooks && route->handler != filtered[i];
	}
	return overlooks;
}

void api_on_request(void *context, struct http_request *request)
{
	const char *rest;
	if (!came_by_own_name(context, request)) {
		api_refuse(request, 421, "Misdirected Request",
			"the Host is not a name of this agent; option listen_hosts adds names",
			NULL);
		return;
	}
	unsigned allowed = 0;
	const struct route *route = find_route(context, request, &rest, &allowed);
	if (route && request->listener && !shows_path(context, request, route, rest)) {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_PATH_NOT_FOUND, "this listener shows no such path");
		api_problem(request, 0, &err);
	} else if (route && overlooks_attributes(route, request)) {
		api_bad_request(
			request, "query parameter attribute.…: only sets of records are filtered");
	} else if (route) {
		route->handler(context, request, rest);
	} else if (allowed) {
		answer_methods(request, allowed);
	} else {
		api_refuse(request, 404, "Not Found",
			request->listener ? "this listener has no such resource"
					  : "no such resource; GET / lists what there is",
			NULL);
	}
}

bool api_wants_body(void *context, const struct http_request *request)
{
	const char *rest;
	unsigned allowed = 0;
	const struct route *route = find_route(context, request, &rest, &allowed);
	return route && !(READ & 1u << request->method) &&
		api_order_permits(context, request, rest, route->handler);
}

static void index_page(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	if (http_accepts(request->accept, "text/html", false)) {
		api_page(request);
		return;
	}
	json_t *list = json_array();
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		unsigned methods = methods_of(api, &routes[i], request);
		if (!methods) {
			continue;
		}
		struct buffer text;
		buffer_init(&text, 256);
		write_methods(&text, methods);
		bool open_end = routes[i].suffix != NULL;
		const char *placeholder = "{path}";
		bool named = strncmp(routes[i].prefix, "/v1/agent/", 10) == 0 ||
			routes[i].handler == api_names;
		if (named || routes[i].handler == api_follow_ask) {
			placeholder = named ? "{name}" : "{id}";
		}
		json_array_append_new(list,
			json_pack("{s:s, s:s++, s:s}", "methods", buffer_text(&text), "path",
				routes[i].prefix, open_end ? placeholder : "",
				open_end ? routes[i].suffix : "", "help", routes[i].help));
		buffer_finish(&text);
	}
	api_answer_json(request, 200,
		json_pack("{s:s, s:s, s:o}", "name", "berthd", "version", api->options.version,
			"resources", list));
}

/* ---- making and ending ---- */

void api_set_options(struct api *api, const struct api_options *options)
{
	struct api_published *published = allocate_zeroed(
		options->published_count, sizeof(*published));
	for (size_t i = 0; i < options->published_count; i++) {
		published[i] = options->published[i];
	}
	free(api->published);
	api->options = *options;
	api->options.published = api->published = published;
	if (api->options.lookup_timeout_ms <= 0) {
		api->options.lookup_timeout_ms = 5000;
	}
}

void api_set_http(struct api *api, const struct http *http)
{
	api->http = http;
}

size_t api_watchers(const struct api *api)
{
	return api->watchers;
}

struct api *api_create(struct ev_loop *loop, struct cache *cache, struct names_lookups *names,
	struct registry *registry, struct history *history, struct metrics *metrics,
	const struct api_hooks *hooks, const struct api_options *options)
{
	struct api *api = allocate_zeroed(1, sizeof(*api));
	api->loop = loop;
	api->cache = cache;
	api->names = names;
	api->registry = registry;
	api->history = history;
	api->metrics = metrics;
	api->hooks = *hooks;
	api_set_options(api, options);
	api->hits = metrics_series(metrics, METRIC_LOOKUPS, "hit", "");
	api->misses = metrics_series(metrics, METRIC_LOOKUPS, "miss", "");
	api->stale = metrics_series(metrics, METRIC_LOOKUPS, "stale", "");
	api->errors = metrics_series(metrics, METRIC_LOOKUPS, "error", "");
	api->durations = metrics_series(metrics, METRIC_LOOKUP_DURATION, "", "");
	metrics_series(metrics, METRIC_PROPAGATION, "", "");
	list_init(&api->polls);
	list_init(&api->drains);
	api_streams_init(api);
	api_resume_init(api);
	api_follows_init(api);
	api_views_init(api);
	return api;
}

void api_destroy(struct api *api)
{
	if (!api) {
		return;
	}
	api_resume_finish(api);
	api_follows_finish(api);
	api_streams_finish(api);
	api_views_finish(api);
	free(api->published);
	free(api);
}
