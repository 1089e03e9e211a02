/*
 * The agent's metrics, as Prometheus text.
 *
 * The families are the rows of one table in metrics.c; a series is a family with its label values.
 * The owner of a value sets it; the caller of metrics_write() sets values that are cheap to read
 * just before.
 */
#ifndef AGENT_BASE_METRICS_H
#define AGENT_BASE_METRICS_H

#include <stdbool.h>

#include "lib/base/buffer.h"

enum metric {
	METRIC_BUILD_INFO, /* version */
	/* registry: NAME of [registry NAME]; without one: [registry] */
	METRIC_REGISTRY_CONNECTED,
	METRIC_SESSION_EXPIRATIONS, /* registry */
	METRIC_REGISTRY_REQUESTS,  /* registry, result: ok refused timeout unavailable; histogram */
	METRIC_REGISTERED,         /* component */
	METRIC_TRANSITIONS,        /* component, to */
	METRIC_HOOK_RUNS,          /* component, result */
	METRIC_DAMPED,             /* component */
	METRIC_PENALTY,            /* component */
	METRIC_DRAINING,           /* component */
	METRIC_DIALECT_REGISTERED, /* dialect */
	METRIC_BRIDGE_CONTAINERS,
	METRIC_BRIDGE_RECORDS,     /* state */
	METRIC_BRIDGE_REGISTERED,  /* container */
	METRIC_BRIDGE_TRANSITIONS, /* container, to */
	METRIC_RELOAD_OK,          /* the last one */
	METRIC_RELOAD_TIME,        /* of the last good one */
	METRIC_MAIN_RESTARTS,
	METRIC_LOG_LOST,
	METRIC_STATE_SAVED,
	METRIC_CHECK_UP,            /* check */
	METRIC_CHECK_WARNING,       /* check */
	METRIC_CHECK_OVERDUE,       /* check */
	METRIC_CHECK_DURATION,      /* check; histogram */
	METRIC_CHECK_RUNS,          /* check, result */
	METRIC_LOOKUPS,             /* result: hit miss stale error */
	METRIC_LOOKUP_DURATION,     /* histogram */
	METRIC_CACHE_ENTRIES,       /* registry */
	METRIC_CACHE_BYTES,         /* registry */
	METRIC_CACHE_STALE_SECONDS, /* registry */
	METRIC_CACHE_EVICTIONS,     /* registry */
	METRIC_CACHE_REFUSALS,      /* registry */
	METRIC_SHARED_BYTES,
	METRIC_SHARED_ENTRIES,
	METRIC_SHARED_MAPS,
	METRIC_WATCHERS,
	METRIC_CLIENTS,
	METRIC_PROPAGATION, /* histogram: from the registry's notice to the local readers */
	METRIC_DNS_QUERIES, /* transport */
	METRIC_DNS_REPLIES, /* code */
	METRIC_DNS_SERVERS, /* state */
	METRIC_DNS_STALE,
	METRIC_DNS_FORWARDED,
	METRIC_DNS_TRUNCATED,
	METRIC_DNS_LIMITED,
	METRIC_DNS_DROPPED,
	METRIC_XDS_RUNNING,
	METRIC_XDS_CONNECTIONS,
	METRIC_XDS_NAMES,
	METRIC_XDS_REFUSALS,
	METRIC_XDS_RESTARTS,
	METRIC_OUTPUT_CURRENT,   /* output */
	METRIC_OUTPUT_INSTANCES, /* output */
	METRIC_OUTPUT_WRITES,    /* output */
	METRIC_OUTPUT_RUNS,      /* output */
	METRIC_OUTPUT_FAILURES,  /* output */
	METRIC_COUNT
};

struct metrics;
struct metrics_series;

struct metrics *metrics_create(void);
/* Accepts NULL. */
void metrics_destroy(struct metrics *metrics);

/*
 * The series with these label values ("" where the family has fewer labels, or
 * the series has no such label), made when it is new.
 * Valid until metrics_retain() drops it; for hot paths that keep it.
 */
struct metrics_series *metrics_series(
	struct metrics *metrics, enum metric metric, const char *first, const char *second);
void metrics_series_add(struct metrics_series *series, double value);
void metrics_series_observe(struct metrics_series *series, double value);

/* Counters. */
void metrics_add(struct metrics *metrics, enum metric metric, const char *first, const char *second,
	double value);
/* Sets gauges, and counters that another module counts. */
void metrics_set(struct metrics *metrics, enum metric metric, const char *first, double value);
/* Histograms. */
void metrics_observe(struct metrics *metrics, enum metric metric, const char *first, double value);
/*
 * Drops those series of the family for whose first label is_known() is false: its component or
 * check is no more.
 */
void metrics_retain(struct metrics *metrics, enum metric metric,
	bool (*is_known)(void *context, const char *first), void *context);

/* Everything, process_* included, in Prometheus' text format 0.0.4 or in OpenMetrics 1.0. */
enum metrics_format { METRICS_PROMETHEUS, METRICS_OPENMETRICS };
void metrics_write(const struct metrics *metrics, enum metrics_format format, struct buffer *out);

#endif
