/* Probes of life and readiness, and the metrics. */
#include "agent/api/internal.h"

#include <string.h>

#include "lib/http/field.h"

/* Probes and monitoring: GET /live, /ready, /metrics. */

enum { METRICS_BYTES = 16 * 1024 * 1024 };

/* An agent that answers is alive: its one loop does everything else too. */
void api_live(struct api *api, struct http_request *request, const char *rest)
{
	(void)api;
	(void)rest;
	api_answer_text(request, 200, "text/plain", "live\n", 5);
}

void api_ready(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	char away[8] = "";
	struct err err = ERR_INIT;
	if (http_parameter(request, "away", away, sizeof(away), &err) < 0 ||
		(*away && strcmp(away, "ok") != 0)) {
		api_bad_request(request, "query parameter away: must be ok");
		return;
	}
	struct api_act act = { .kind = API_READY, .away_ok = *away != '\0' };
	if (api->hooks.act(api->hooks.context, &act, &err)) {
		api_refuse(request, 503, "Service Unavailable", err.msg, NULL);
	} else {
		api_answer_text(request, 200, "text/plain", "ready\n", 6);
	}
}

static void update_shared_metrics(const struct api *api)
{
	struct shared_stats stats = { .bytes = 0 };
	if (api->shared) {
		shared_get_stats(api->shared, &stats);
	}
	metrics_set(api->metrics, METRIC_SHARED_BYTES, "", (double)stats.bytes);
	metrics_set(api->metrics, METRIC_SHARED_ENTRIES, "", (double)stats.entries);
	metrics_set(api->metrics, METRIC_SHARED_MAPS, "", (double)stats.maps);
}

static void update_metrics(struct api *api)
{
	struct err err = ERR_INIT;
	struct cache_stats stats;
	cache_get_stats(api->cache, &stats);
	metrics_set(api->metrics, METRIC_BUILD_INFO, api->options.version, 1);
	metrics_set(api->metrics, METRIC_REGISTRY_CONNECTED, "",
		registry_state(api->registry) == REGISTRY_CONNECTED);
	metrics_set(api->metrics, METRIC_CACHE_ENTRIES, "", (double)stats.entries);
	metrics_set(api->metrics, METRIC_CACHE_BYTES, "", (double)stats.bytes);
	metrics_set(api->metrics, METRIC_CACHE_STALE_SECONDS, "", stats.stale_seconds);
	metrics_set(api->metrics, METRIC_CACHE_EVICTIONS, "", (double)stats.evictions);
	metrics_set(api->metrics, METRIC_CACHE_REFUSALS, "", (double)stats.refusals);
	update_shared_metrics(api);
	metrics_set(api->metrics, METRIC_WATCHERS, "", (double)api->watchers);
	metrics_set(api->metrics, METRIC_CLIENTS, "",
		api->http ? (double)http_connections(api->http) : 0);
	metrics_add(api->metrics, METRIC_SESSION_EXPIRATIONS, "", "", 0);
	(void)api->hooks.act(
		api->hooks.context, &(struct api_act){ .kind = API_UPDATE_METRICS }, &err);
}

void api_metrics(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	update_metrics(api);
	bool open = http_accepts(request->accept, "application/openmetrics-text", false);
	struct buffer out;
	buffer_init(&out, METRICS_BYTES);
	metrics_write(api->metrics, open ? METRICS_OPENMETRICS : METRICS_PROMETHEUS, &out);
	api_answer_text(request, 200,
		open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		     : "text/plain; version=0.0.4",
		buffer_text(&out), out.len);
	buffer_finish(&out);
}
