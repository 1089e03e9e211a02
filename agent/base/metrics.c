#include "agent/base/metrics.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/base/allocate.h"
#include "agent/base/metrics_process.h"
#include "lib/base/hash.h"

enum kind { COUNTER, GAUGE, HISTOGRAM };

static const char *const kind_names[] = { "counter", "gauge", "histogram" };

#define MAX_BOUNDS 14

struct family {
	const char *name;
	const char *help;
	enum kind kind;
	const char *labels[2];
	double bounds[MAX_BOUNDS]; /* histograms; ends with 0 */
};

static const struct family families[METRIC_COUNT] = {
	[METRIC_BUILD_INFO] = { "berth_build_info", "Always 1; the version is a label.", GAUGE,
		{ "version" }, { 0 } },
	[METRIC_REGISTRY_CONNECTED] = { "berth_registry_connected", "1 while the registry answers.",
		GAUGE, { "registry" }, { 0 } },
	[METRIC_SESSION_EXPIRATIONS] = { "berth_registry_session_expirations_total",
		"Registry sessions that were lost.", COUNTER, { "registry" }, { 0 } },
	[METRIC_REGISTRY_REQUESTS] = { "berth_registry_request_duration_seconds",
		"From a request to the registry to its answer.", HISTOGRAM,
		{ "registry", "result" },
		{ 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, .1, .25, 1, 2.5, 10 } },
	[METRIC_REGISTERED] = { "berth_registered",
		"1 while the component's record is in the registry.", GAUGE, { "component" },
		{ 0 } },
	[METRIC_TRANSITIONS] = { "berth_transitions_total", "Changes of a component's state.",
		COUNTER, { "component", "to" }, { 0 } },
	[METRIC_HOOK_RUNS] = { "berth_hook_runs_total",
		"Runs of the component's on_change: ok or failed.", COUNTER,
		{ "component", "result" }, { 0 } },
	[METRIC_DAMPED] = { "berth_damped", "1 while flap damping holds the component out.", GAUGE,
		{ "component" }, { 0 } },
	[METRIC_PENALTY] = { "berth_penalty",
		"Flap damping's penalty of the component, as it has decayed.", GAUGE,
		{ "component" }, { 0 } },
	[METRIC_DRAINING] = { "berth_draining",
		"1 while the component is drained, by itself or with the agent.", GAUGE,
		{ "component" }, { 0 } },
	[METRIC_DIALECT_REGISTERED] = { "berth_dialect_registered",
		"1 while all nodes of the dialect are in the registry.", GAUGE, { "dialect" },
		{ 0 } },
	[METRIC_BRIDGE_CONTAINERS] = { "berth_bridge_containers",
		"Containers of this host that the agent serves.", GAUGE, { NULL }, { 0 } },
	[METRIC_BRIDGE_RECORDS] = { "berth_bridge_records",
		"Records of this host's containers by their state.", GAUGE, { "state" }, { 0 } },
	[METRIC_BRIDGE_REGISTERED] = { "berth_bridge_registered",
		"Records of the container that are in the registry.", GAUGE, { "container" },
		{ 0 } },
	[METRIC_BRIDGE_TRANSITIONS] = { "berth_bridge_transitions_total",
		"Changes of the state of a container's records.", COUNTER, { "container", "to" },
		{ 0 } },
	[METRIC_RELOAD_OK] = { "berth_config_last_reload_successful",
		"1 unless the last reload refused the configuration.", GAUGE, { NULL }, { 0 } },
	[METRIC_RELOAD_TIME] = { "berth_config_last_reload_success_timestamp_seconds",
		"When the configuration in force was read.", GAUGE, { NULL }, { 0 } },
	[METRIC_MAIN_RESTARTS] = { "berth_main_process_restarts_total",
		"How often the main process was started again.", COUNTER, { NULL }, { 0 } },
	[METRIC_LOG_LOST] = { "berth_log_lines_lost_total",
		"Lines of the log that stderr did not take.", COUNTER, { NULL }, { 0 } },
	[METRIC_STATE_SAVED] = { "berth_state_saved",
		"1 while all that a restart needs is in state_dir.", GAUGE, { NULL }, { 0 } },
	[METRIC_CHECK_UP] = { "berth_check_up", "1 while the check is up.", GAUGE, { "check" },
		{ 0 } },
	[METRIC_CHECK_WARNING] = { "berth_check_warning", "1 while the check is up with a warning.",
		GAUGE, { "check" }, { 0 } },
	[METRIC_CHECK_OVERDUE] = { "berth_check_overdue",
		"1 while a run of the check is due and could not begin for an interval.", GAUGE,
		{ "check" }, { 0 } },
	[METRIC_CHECK_DURATION] = { "berth_check_duration_seconds",
		"How long runs of the check took.", HISTOGRAM, { "check" },
		{ .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30 } },
	[METRIC_CHECK_RUNS] = { "berth_check_runs_total", "Runs of the check by result.", COUNTER,
		{ "check", "result" }, { 0 } },
	[METRIC_LOOKUPS] = { "berth_lookups_total", "Lookups by how they were answered.", COUNTER,
		{ "result" }, { 0 } },
	[METRIC_LOOKUP_DURATION] = { "berth_lookup_duration_seconds",
		"From a lookup's request to its answer.", HISTOGRAM, { NULL },
		{ 1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 1e-4, 2.5e-4, 1e-3, 5e-3, 2.5e-2, .1, 1, 10 } },
	[METRIC_CACHE_ENTRIES] = { "berth_cache_entries",
		"Nodes and lists of children in the cache.", GAUGE, { "registry" }, { 0 } },
	[METRIC_CACHE_BYTES] = { "berth_cache_bytes", "Memory that the cache holds.", GAUGE,
		{ "registry" }, { 0 } },
	[METRIC_CACHE_STALE_SECONDS] = { "berth_cache_stale_seconds",
		"For how long the cache could not be confirmed; 0 while it is live.", GAUGE,
		{ "registry" }, { 0 } },
	[METRIC_CACHE_EVICTIONS] = { "berth_cache_evictions_total",
		"Paths that gave way to others because of max_size.", COUNTER, { "registry" },
		{ 0 } },
	[METRIC_CACHE_REFUSALS] = { "berth_cache_refusals_total",
		"Event streams and warm paths ended because their paths exceed max_size.", COUNTER,
		{ "registry" }, { 0 } },
	[METRIC_SHARED_BYTES] = { "berth_shared_bytes",
		"Memory of the map with answers that clients read; also in berth_cache_bytes.",
		GAUGE, { NULL }, { 0 } },
	[METRIC_SHARED_ENTRIES] = { "berth_shared_entries", "Answers in the map that hold.", GAUGE,
		{ NULL }, { 0 } },
	[METRIC_SHARED_MAPS] = { "berth_shared_maps_total", "Maps that were made.", COUNTER,
		{ NULL }, { 0 } },
	[METRIC_WATCHERS] = { "berth_watchers", "Event streams and long polls.", GAUGE, { NULL },
		{ 0 } },
	[METRIC_CLIENTS] = { "berth_clients", "Open connections.", GAUGE, { NULL }, { 0 } },
	[METRIC_PROPAGATION] = { "berth_propagation_seconds",
		"From the registry's notice of a change to the local readers.", HISTOGRAM, { NULL },
		{ 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, .1, .5, 1, 5 } },
	[METRIC_DNS_QUERIES] = { "berth_dns_queries_total", "DNS queries.", COUNTER,
		{ "transport" }, { 0 } },
	[METRIC_DNS_REPLIES] = { "berth_dns_replies_total", "DNS replies by their code.", COUNTER,
		{ "code" }, { 0 } },
	[METRIC_DNS_SERVERS] = { "berth_dns_servers",
		"Servers that names outside the domain are forwarded to: asked, own (the agent "
		"itself), or loop (what is sent there comes back).",
		GAUGE, { "state" }, { 0 } },
	[METRIC_DNS_STALE] = { "berth_dns_stale_total",
		"DNS replies that were not live: the registry was away.", COUNTER, { NULL },
		{ 0 } },
	[METRIC_DNS_FORWARDED] = { "berth_dns_forwarded_total",
		"DNS queries that were sent on to other servers.", COUNTER, { NULL }, { 0 } },
	[METRIC_DNS_TRUNCATED] = { "berth_dns_truncated_total",
		"DNS replies that held a part of the answer.", COUNTER, { NULL }, { 0 } },
	[METRIC_DNS_LIMITED] = { "berth_dns_limited_total",
		"DNS replies over UDP that were cut because their address got too much.", COUNTER,
		{ NULL }, { 0 } },
	[METRIC_DNS_DROPPED] = { "berth_dns_dropped_total", "Packets that were not a DNS query.",
		COUNTER, { NULL }, { 0 } },
	[METRIC_XDS_RUNNING] = { "berth_xds_running", "1 while berth-xds runs.", GAUGE, { NULL },
		{ 0 } },
	[METRIC_XDS_CONNECTIONS] = { "berth_xds_connections", "Connections of its clients.", GAUGE,
		{ NULL }, { 0 } },
	[METRIC_XDS_NAMES] = { "berth_xds_names", "Names that it follows for them.", GAUGE,
		{ NULL }, { 0 } },
	[METRIC_XDS_REFUSALS] = { "berth_xds_refusals",
		"Answers that clients have refused (NACK) since it was started.", GAUGE, { NULL },
		{ 0 } },
	[METRIC_XDS_RESTARTS] = { "berth_xds_restarts_total",
		"How often berth-xds was started again because it had ended.", COUNTER, { NULL },
		{ 0 } },
	[METRIC_OUTPUT_CURRENT] = { "berth_output_current",
		"1 while the output is what the registry says.", GAUGE, { "output" }, { 0 } },
	[METRIC_OUTPUT_INSTANCES] = { "berth_output_instances",
		"Components with an endpoint for the output, when they were last counted.", GAUGE,
		{ "output" }, { 0 } },
	[METRIC_OUTPUT_WRITES] = { "berth_output_writes_total",
		"Files put in place, or changes of HAProxy.", COUNTER, { "output" }, { 0 } },
	[METRIC_OUTPUT_RUNS] = { "berth_output_runs_total", "Runs of on_change.", COUNTER,
		{ "output" }, { 0 } },
	[METRIC_OUTPUT_FAILURES] = { "berth_output_failures_total",
		"Attempts that failed, at whatever step.", COUNTER, { "output" }, { 0 } },
};

struct metrics_series {
	struct metrics_series *next;       /* of its family */
	struct metrics_series *next_found; /* with the same hash */
	const struct family *family;
	const char *labels[2];
	double value; /* of a histogram: the sum of its values */
	unsigned long long count;
	unsigned long long buckets[]; /* of a histogram; behind them are the labels' texts */
};

enum { BUCKETS = 1024 };

struct metrics {
	struct metrics_series *series[METRIC_COUNT];
	/*
	 * An agent may have hundreds of checks, each with several series, that are looked up with
	 * every run.
	 */
	struct metrics_series *found[BUCKETS];
};

struct metrics *metrics_create(void)
{
	return allocate_zeroed(1, sizeof(struct metrics));
}

void metrics_destroy(struct metrics *metrics)
{
	for (int metric = 0; metrics && metric < METRIC_COUNT; metric++) {
		while (metrics->series[metric]) {
			struct metrics_series *series = metrics->series[metric];
			metrics->series[metric] = series->next;
			free(series);
		}
	}
	free(metrics);
}

/* Where the pointer to the series with these labels is, or belongs. */
static struct metrics_series **find(
	struct metrics *metrics, const struct family *family, const char *first, const char *second)
{
	uint64_t hash = HASH_INIT + (uint64_t)(family - families);
	hash = hash_text(hash_text(hash, first), second);
	struct metrics_series **at = &metrics->found[hash % BUCKETS];
	while (*at &&
		((*at)->family != family || strcmp((*at)->labels[0], first) != 0 ||
			strcmp((*at)->labels[1], second) != 0)) {
		at = &(*at)->next_found;
	}
	return at;
}

struct metrics_series *metrics_series(
	struct metrics *metrics, enum metric metric, const char *first, const char *second)
{
	struct metrics_series **at = find(metrics, &families[metric], first, second);
	if (!*at) {
		size_t buckets = families[metric].kind == HISTOGRAM ? MAX_BOUNDS : 0;
		struct metrics_series *series = allocate_zeroed(1,
			sizeof(*series) + buckets * sizeof(*series->buckets) + strlen(first) + 1 +
				strlen(second) + 1);
		series->family = &families[metric];
		char *text = (char *)(series->buckets + buckets);
		series->labels[0] = text;
		series->labels[1] = stpcpy(text, first) + 1;
		strcpy(text + strlen(first) + 1, second);
		*at = series;
		struct metrics_series **end = &metrics->series[metric];
		while (*end) {
			end = &(*end)->next;
		}
		*end = series;
	}
	return *at;
}

void metrics_series_add(struct metrics_series *series, double value)
{
	series->value += value;
}

void metrics_series_observe(struct metrics_series *series, double value)
{
	series->value += value;
	series->count++;
	size_t bucket = 0;
	while (series->family->bounds[bucket] > 0 && value > series->family->bounds[bucket]) {
		bucket++;
	}
	series->buckets[bucket]++; /* the bucket behind the last bound counts all larger values */
}

void metrics_add(struct metrics *metrics, enum metric metric, const char *first, const char *second,
	double value)
{
	metrics_series_add(metrics_series(metrics, metric, first, second), value);
}

void metrics_set(struct metrics *metrics, enum metric metric, const char *first, double value)
{
	metrics_series(metrics, metric, first, "")->value = value;
}

void metrics_observe(struct metrics *metrics, enum metric metric, const char *first, double value)
{
	metrics_series_observe(metrics_series(metrics, metric, first, ""), value);
}

void metrics_retain(struct metrics *metrics, enum metric metric,
	bool (*is_known)(void *context, const char *first), void *context)
{
	for (struct metrics_series **at = &metrics->series[metric]; *at;) {
		struct metrics_series *series = *at;
		if (is_known(context, series->labels[0])) {
			at = &series->next;
			continue;
		}
		struct metrics_series **found = find(
			metrics, series->family, series->labels[0], series->labels[1]);
		*found = series->next_found;
		*at = series->next;
		free(series);
	}
}

static void write_escaped(struct buffer *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n') {
			buffer_append_text(out, "\\n");
		} else {
			buffer_printf(
				out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
		}
	}
}

/* name_suffix{labels,le="bound"}, without the value. */
static void write_name(struct buffer *out, const struct metrics_series *series, const char *suffix,
	const char *bound)
{
	const struct family *family = series->family;
	buffer_printf(out, "%s%s", family->name, suffix);
	const char *separator = "{";
	for (int i = 0; i < 2 && family->labels[i]; i++) {
		if (!*series->labels[i]) {
			continue; /* of the agent's own registry, or of all */
		}
		buffer_printf(out, "%s%s=\"", separator, family->labels[i]);
		write_escaped(out, series->labels[i]);
		buffer_append_text(out, "\"");
		separator = ",";
	}
	if (bound) {
		buffer_printf(out, "%sle=\"%s\"", separator, bound);
		separator = ",";
	}
	buffer_append_text(out, *separator == ',' ? "} " : " ");
}

static void write_histogram(
	enum metrics_format format, const struct metrics_series *series, struct buffer *out)
{
	unsigned long long below = 0;
	for (size_t i = 0; series->family->bounds[i] > 0; i++) {
		char bound[32];
		snprintf(bound, sizeof(bound), "%g", series->family->bounds[i]);
		if (format == METRICS_OPENMETRICS && !strpbrk(bound, ".e")) {
			strcat(bound, ".0"); /* a float has a point there */
		}
		below += series->buckets[i];
		write_name(out, series, "_bucket", bound);
		buffer_printf(out, "%llu\n", below);
	}
	write_name(out, series, "_bucket", "+Inf");
	buffer_printf(out, "%llu\n", series->count);
	write_name(out, series, "_sum", NULL);
	buffer_printf(out, "%.9g\n", series->value);
	write_name(out, series, "_count", NULL);
	buffer_printf(out, "%llu\n", series->count);
}

void metrics_write(const struct metrics *metrics, enum metrics_format format, struct buffer *out)
{
	for (int metric = 0; metric < METRIC_COUNT; metric++) {
		const struct family *family = &families[metric];
		metrics_write_head(
			format, family->name, kind_names[family->kind], family->help, out);
		for (const struct metrics_series *series = metrics->series[metric]; series;
			series = series->next) {
			if (family->kind == HISTOGRAM) {
				write_histogram(format, series, out);
			} else {
				write_name(out, series, "", NULL);
				buffer_printf(out, "%.15g\n", series->value);
			}
		}
	}
	metrics_write_process(format, out);
	if (format == METRICS_OPENMETRICS) {
		buffer_append_text(out, "# EOF\n");
	}
}
