#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		cr_expect_not_null(strstr(buffer_text(&out), lines[i]), "%s", lines[i]);
	}
	cr_expect_str_eq(buffer_text(&out) + out.len - strlen(end), end);
	buffer_finish(&out);
	assert_written(metrics, "# EOF", false);
	assert_written(metrics, "le=\"1\"} 1\n", true);
	metrics_destroy(metrics);
	metrics_destroy(NULL);
}

Test(metrics, the_bounds_of_each_histogram_ascend)
{
	static const enum metric histograms[] = { METRIC_REGISTRY_REQUESTS, METRIC_CHECK_DURATION,
		METRIC_LOOKUP_DURATION, METRIC_PROPAGATION };
	struct metrics *metrics = metrics_create();
	struct buffer out;
	size_t bounds = 0;
	buffer_init(&out, 1024 * 1024);
	for (size_t i = 0; i < sizeof(histograms) / sizeof(histograms[0]); i++) {
		(void)metrics_series(metrics, histograms[i], "", "");
	}
	metrics_write(metrics, METRICS_PROMETHEUS, &out);
	double last = 0;
	for (const char *at = buffer_text(&out); (at = strstr(at, "le=\"")); at++) {
		double bound = strtod(at + strlen("le=\""), NULL);
		cr_expect_gt(bound, last, "%.40s", at);
		last = bound == HUGE_VAL ? 0 : bound;
		bounds++;
	}
	cr_expect_eq(bounds, 12 + 12 + 13 + 12 + 4);
	buffer_finish(&out);
	metrics_destroy(metrics);
}

/* ---- the process ---- */

static double sample(const char *name)
{
	char line[100];
	double value;
	struct metrics *metrics = metrics_create();
	struct buffer out;
	buffer_init(&out, 1024 * 1024);
	metrics_write(metrics, METRICS_PROMETHEUS, &out);
	snprintf(line, sizeof(line), "\n%s ", name);
	const char *at = strstr(buffer_text(&out), line);
	cr_assert(at && sscanf(at + strlen(line), "%lf", &value) == 1, "%s", name);
	buffer_finish(&out);
	metrics_destroy(metrics);
	return value;
}

Test(metrics, the_process_is_measured_too)
{
	unsigned long long pages;
	unsigned long long resident;
	struct rlimit limit;
	struct rusage usage;
	FILE *file = fopen("/proc/self/statm", "re");
	cr_assert_eq(fscanf(file, "%llu %llu", &pages, &resident), 2);
	fclose(file);
	double page = (double)sysconf(_SC_PAGESIZE);
	cr_expect_gt(sample("process_virtual_memory_bytes"), (double)pages * page / 2);
	cr_expect_lt(sample("process_virtual_memory_bytes"), (double)pages * page * 2);
	cr_expect_gt(sample("process_resident_memory_bytes"), (double)resident * page / 2);
	cr_expect_lt(sample("process_resident_memory_bytes"), (double)resident * page * 2);
	double before = sample("process_open_fds");
	int extra = dup(STDERR_FILENO);
	cr_expect_eq(sample("process_open_fds"), before + 1);
	cr_expect_geq(before, 3);
	close(extra);
	getrlimit(RLIMIT_NOFILE, &limit);
	cr_expect_eq(sample("process_max_fds"), (double)limit.rlim_cur);
	double now = (double)time(NULL);
	double began = sample("process_start_time_seconds");
	cr_expect(began > now - 3600 && began < now + 2, "%f, now %f", began, now);
	getrusage(RUSAGE_SELF, &usage);
	double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	double shown = sample("process_cpu_seconds_total");
	cr_expect(shown >= seconds && shown < seconds + 60, "%f, at least %f", shown, seconds);
}
