#include <criterion/criterion.h>

#include <string.h>

#include "agent/base/metrics.h"

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
	assert_written(metrics, "\n# TYPE berth_transitions_total counter\n", true);
	assert_written(metrics,
		"\nberth_transitions_total{component=\"web\",to=\"registered\"} 3\n", true);
	assert_written(metrics, "\nberth_registered{component=\"a\\\"b\\\\c\\n\"} 1\n", true);
	assert_written(metrics, "\nberth_cache_bytes 4096\n", true);
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

Test(metrics, the_process_is_measured_too)
{
	struct metrics *metrics = metrics_create();
	assert_written(metrics, "\nprocess_resident_memory_bytes ", true);
	assert_written(metrics, "\nprocess_open_fds ", true);
	assert_written(metrics, "\nprocess_start_time_seconds ", true);
	metrics_destroy(metrics);
}
