#include <criterion/criterion.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/metrics.h"
#include "lib/base/array.h"

/* ---- a kernel that says what the test wants ---- */

static const struct rusage *used;
static bool no_limits;
static const char *hidden; /* a file that is not there */

int getrusage(__rusage_who_t who, struct rusage *usage)
{
	if (!used) {
		return (int)syscall(SYS_getrusage, who, usage);
	}
	*usage = *used;
	return 0;
}

/* A sanitizer calls it before it is ready. */
__attribute__((no_sanitize("address", "undefined"))) int getrlimit(
	__rlimit_resource_t resource, struct rlimit *limit)
{
	return no_limits ? -1 : (int)syscall(SYS_prlimit64, 0, resource, NULL, limit);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	return hidden && strcmp(path, hidden) == 0 ? NULL : real(path, mode);
}

/* ---- series ---- */

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

static bool is_even(void *context, const char *first)
{
	++*(int *)context;
	return (first[strlen(first) - 1] - '0') % 2 == 0;
}

static void count_shown(const struct metrics *metrics, int expected)
{
	struct buffer out;
	const char *up = NULL;
	int sum = 0;
	int count = 0;
	buffer_init(&out, 1024 * 1024);
	metrics_write(metrics, METRICS_PROMETHEUS, &out);
	for (up = buffer_text(&out); (up = strstr(up, "\nberth_check_")); up++) {
		char family[10];
		int check;
		int value;
		if (sscanf(up, "\nberth_check_%9[a-z]{check=\"%d\"} %d\n", family, &check,
			    &value) == 3) {
			cr_assert_eq(value, strcmp(family, "up") == 0 ? check + 1 : -check);
			sum += value;
			count++;
		}
	}
	cr_expect_eq(count, 2 * expected);
	cr_expect_eq(sum, expected);
	buffer_finish(&out);
}

Test(metrics, thousands_of_series_keep_their_values)
{
	struct metrics *metrics = metrics_create();
	int asked = 0;
	char check[16];
	for (int i = 0; i < THOUSANDS; i++) {
		snprintf(check, sizeof(check), "%d", i);
		metrics_set(metrics, METRIC_CHECK_UP, check, i + 1);
		metrics_set(metrics, METRIC_CHECK_WARNING, check, -i);
	}
	metrics_set(metrics, METRIC_BUILD_INFO, "1", 1);
	metrics_set(metrics, METRIC_OUTPUT_FAILURES, "web", 1);
	count_shown(metrics, THOUSANDS);
	metrics_retain(metrics, METRIC_CHECK_UP, is_even, &asked);
	metrics_retain(metrics, METRIC_CHECK_WARNING, is_even, &asked);
	cr_expect_eq(asked, 2 * THOUSANDS);
	count_shown(metrics, THOUSANDS / 2);
	for (int i = 1; i < THOUSANDS; i += 2) {
		snprintf(check, sizeof(check), "%d", i);
		metrics_set(metrics, METRIC_CHECK_UP, check, i + 1);
		metrics_set(metrics, METRIC_CHECK_WARNING, check, -i);
	}
	count_shown(metrics, THOUSANDS);
	metrics_destroy(metrics);
}

Test(metrics, labels_may_be_the_same_in_another_order)
{
	struct metrics *metrics = metrics_create();
	metrics_add(metrics, METRIC_TRANSITIONS, "a", "b", 1);
	metrics_add(metrics, METRIC_TRANSITIONS, "b", "a", 2);
	metrics_add(metrics, METRIC_TRANSITIONS, "a", "a", 4);
	metrics_add(metrics, METRIC_TRANSITIONS, "a", "", 8);
	metrics_add(metrics, METRIC_TRANSITIONS, "", "a", 16);
	assert_written(metrics,
		"\nberth_transitions_total{component=\"a\",to=\"b\"} 1\n"
		"berth_transitions_total{component=\"b\",to=\"a\"} 2\n"
		"berth_transitions_total{component=\"a\",to=\"a\"} 4\n"
		"berth_transitions_total{component=\"a\"} 8\n"
		"berth_transitions_total{to=\"a\"} 16\n",
		true);
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

/* Files that hold values cannot be opened. */
Test(metrics, without_descriptors_the_process_is_measured_in_part)
{
	static const struct {
		const char *name;
		bool there;
	} samples[] = { { "process_cpu_seconds_total", true },
		{ "process_resident_memory_bytes", false },
		{ "process_virtual_memory_bytes", false }, { "process_start_time_seconds", false },
		{ "process_open_fds", false }, { "process_max_fds", true } };
	struct rlimit before;
	getrlimit(RLIMIT_NOFILE, &before);
	cr_assert_gt(sample("process_open_fds"), 2);
	struct rlimit none = { .rlim_cur = 0, .rlim_max = before.rlim_max };
	struct metrics *metrics = metrics_create();
	struct buffer out;
	buffer_init(&out, 1024 * 1024);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	metrics_write(metrics, METRICS_PROMETHEUS, &out);
	setrlimit(RLIMIT_NOFILE, &before);
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		cr_expect_eq(strstr(buffer_text(&out), samples[i].name) != NULL, samples[i].there,
			"%s", samples[i].name);
	}
	cr_expect_not_null(strstr(buffer_text(&out), "\nprocess_max_fds 0\n"));
	buffer_finish(&out);
	metrics_destroy(metrics);
}

Test(metrics, the_time_of_the_processor_is_that_of_user_and_system)
{
	const struct rusage usage = {
		.ru_utime = { 3, 250000 },
		.ru_stime = { 5, 500000 },
	};
	used = &usage;
	cr_expect_eq(sample("process_cpu_seconds_total"), 8.75);
	used = NULL;
}

Test(metrics, a_value_that_the_kernel_does_not_give_is_missing)
{
	struct metrics *metrics = metrics_create();
	no_limits = true;
	assert_written(metrics, "process_max_fds", false);
	assert_written(metrics, "\nprocess_open_fds ", true);
	no_limits = false;
	hidden = "/proc/self/stat";
	assert_written(metrics, "process_resident_memory_bytes", false);
	assert_written(metrics, "process_start_time_seconds", false);
	assert_written(metrics, "\nprocess_max_fds ", true);
	double since_1970 = 0;
	hidden = NULL;
	since_1970 = sample("process_start_time_seconds");
	hidden = "/proc/stat";
	double since_boot = sample("process_start_time_seconds");
	cr_expect(since_boot >= 0 && since_boot < since_1970, "%f", since_boot);
	metrics_destroy(metrics);
}
