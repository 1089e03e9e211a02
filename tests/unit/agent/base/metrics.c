#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "agent/base/metrics.h"
#include "lib/base/array.h"

static void assert_written(const struct metrics *metrics, const char *line, bool there)
{
	struct buffer out;
	buffer_init(&out, 1024 * 1024);
	metrics_write(metrics, METRICS_PROMETHEUS, &out);
	cr_assert_eq(strstr(buffer_text(&out), line) != NULL, there, "%s in:\n%s", line,
		buffer_text(&out));
	buffer_finish(&out);
}

Test(metrics, writes_counters_and_gauges_with_their_labels)
{
	struct metrics *metrics = metrics_create();
	metrics_add(metrics, METRIC_TRANSITIONS, "web", "registered", 1);
	metrics_add(metrics, METRIC_TRANSITIONS, "web", "registered", 2);
	metrics_set(metrics, METRIC_REGISTERED, "a\"b\\c\n", 1);
	metrics_set(metrics, METRIC_CACHE_BYTES, "", 4096);
	metrics_set(metrics, METRIC_BUILD_INFO, "1.0", 1);
	metrics_add(metrics, METRIC_OUTPUT_FAILURES, "file", "", 5);
	assert_written(metrics, "\n# TYPE berth_transitions_total counter\n", true);
	assert_written(metrics,
		"\nberth_transitions_total{component=\"web\",to=\"registered\"} 3\n", true);
	assert_written(metrics, "\nberth_registered{component=\"a\\\"b\\\\c\\n\"} 1\n", true);
	assert_written(metrics, "\nberth_cache_bytes 4096\n", true);
	assert_written(metrics, "\nberth_build_info{version=\"1.0\"} 1\n", true);
	assert_written(metrics, "\nberth_output_failures_total{output=\"file\"} 5\n", true);
	metrics_destroy(metrics);
}

Test(metrics, a_histogram_counts_each_value_in_every_bucket_above_it)
{
	struct metrics *metrics = metrics_create();
	metrics_observe(metrics, METRIC_CHECK_DURATION, "http", 0.005);
	metrics_observe(metrics, METRIC_CHECK_DURATION, "http", 0.02);
	metrics_observe(metrics, METRIC_CHECK_DURATION, "http", 100);
	assert_written(metrics,
		"\nberth_check_duration_seconds_bucket{check=\"http\",le=\"0.005\"} 1\n", true);
	assert_written(metrics,
		"\nberth_check_duration_seconds_bucket{check=\"http\",le=\"0.025\"} 2\n", true);
	assert_written(metrics,
		"\nberth_check_duration_seconds_bucket{check=\"http\",le=\"30\"} 2\n", true);
	assert_written(metrics,
		"\nberth_check_duration_seconds_bucket{check=\"http\",le=\"+Inf\"} 3\n", true);
	assert_written(metrics, "\nberth_check_duration_seconds_count{check=\"http\"} 3\n", true);
	metrics_destroy(metrics);
}

static bool is_two(void *context, const char *first)
{
	(void)context;
	return strcmp(first, "two") == 0;
}

Test(metrics, a_forgotten_series_is_gone_and_others_stay)
{
	struct metrics *metrics = metrics_create();
	metrics_set(metrics, METRIC_CHECK_UP, "one", 1);
	metrics_set(metrics, METRIC_CHECK_UP, "two", 1);
	metrics_retain(metrics, METRIC_CHECK_UP, is_two, NULL);
	assert_written(metrics, "check=\"one\"", false);
	assert_written(metrics, "check=\"two\"", true);
	metrics_set(metrics, METRIC_CHECK_UP, "one", 0);
	assert_written(metrics, "\nberth_check_up{check=\"one\"} 0\n", true);
	metrics_destroy(metrics);
}

enum { THOUSANDS = 3000 };

Test(metrics, openmetrics_has_a_grammar_of_its_own)
{
	static const char *const lines[] = {
		"# TYPE berth_transitions counter\n",
		"\nberth_transitions_total{component=\"web\",to=\"x\"} 1\n",
		"\nberth_check_duration_seconds_bucket{check=\"c\",le=\"0.5\"} 0\n",
		"\nberth_check_duration_seconds_bucket{check=\"c\",le=\"1.0\"} 1\n",
		"\nberth_check_duration_seconds_bucket{check=\"c\",le=\"+Inf\"} 1\n",
		"\nberth_check_duration_seconds_sum{check=\"c\"} 0.75\n",
		"\nberth_lookup_duration_seconds_bucket{le=\"1e-06\"} 0\n",
		"\nberth_lookup_duration_seconds_bucket{le=\"10.0\"} 0\n",
		"\nberth_lookup_duration_seconds_count 0\n",
		"# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total ",
	};
	static const char end[] = "\n# EOF\n";
	struct metrics *metrics = metrics_create();
	struct buffer out;
	metrics_add(metrics, METRIC_TRANSITIONS, "web", "x", 1);
	metrics_observe(metrics, METRIC_CHECK_DURATION, "c", 0.75);
	(void)metrics_series(metrics, METRIC_LOOKUP_DURATION, "", "");
	buffer_init(&out, 1024 * 1024);
	metrics_write(metrics, METRICS_OPENMETRICS, &out);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		cr_expect_not_null(strstr(buffer_text(&out), lines[i]), "%s", lines[i]);
	}
	cr_expect_str_eq(buffer_text(&out) + out.len - strlen(end), end);
	buffer_finish(&out);
	assert_written(metrics, "# EOF", false);
	assert_written(metrics, "le=\"1\"} 1\n", true);
	metrics_destroy(metrics);
	metrics_destroy(NULL);
}

/* Queries and dashboards name bounds, so each is as it was. */
Test(metrics, each_histogram_has_its_bounds)
{
	static const struct {
		enum metric metric;
		const char *bounds;
	} histograms[] = {
		{ METRIC_REGISTRY_REQUESTS,
			"0.0001 0.0005 0.001 0.0025 0.005 0.01 0.025 0.1 0.25 1 2.5 10 +Inf " },
		{ METRIC_CHECK_DURATION, "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 +Inf " },
		{ METRIC_LOOKUP_DURATION,
			"1e-06 2.5e-06 5e-06 1e-05 2.5e-05 0.0001 0.00025 0.001 "
			"0.005 0.025 0.1 1 10 +Inf " },
		{ METRIC_PROPAGATION,
			"0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.1 0.5 "
			"1 5 +Inf " },
	};
	for (size_t i = 0; i < ARRAY_LEN(histograms); i++) {
		struct metrics *metrics = metrics_create();
		struct buffer out;
		char bounds[200] = "";
		buffer_init(&out, 1024 * 1024);
		(void)metrics_series(metrics, histograms[i].metric, "", "");
		metrics_write(metrics, METRICS_PROMETHEUS, &out);
		for (const char *at = buffer_text(&out); (at = strstr(at, "le=\"")); at++) {
			char bound[20] = "";
			cr_assert_eq(sscanf(at, "le=\"%19[^\"]\"} 0\n", bound), 1, "%.40s", at);
			strcat(strcat(bounds, bound), " ");
		}
		cr_expect_str_eq(bounds, histograms[i].bounds);
		buffer_finish(&out);
		metrics_destroy(metrics);
	}
}
