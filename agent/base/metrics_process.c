#include "agent/base/metrics_process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void metrics_write_head(enum metrics_format format, const char *name, const char *kind,
	const char *help, struct buffer *out)
{
	static const char total[] = "_total";
	size_t len = strlen(name);
	if (format == METRICS_OPENMETRICS && len > strlen(total) &&
		strcmp(name + len - strlen(total), total) == 0) {
		len -= strlen(total);
	}
	buffer_printf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)len, name, help, (int)len, name,
		kind);
}

struct writer {
	struct buffer *out;
	enum metrics_format format;
};

static void write_sample(
	struct writer *writer, const char *name, const char *kind, const char *help, double value)
{
	metrics_write_head(writer->format, name, kind, help, writer->out);
	buffer_printf(writer->out, "%s %.15g\n", name, value);
}

/*
 * Field `index` (from 1) of /proc/self/stat, counted behind the command's name, which may hold
 * anything.
 */
static int read_stat(unsigned long long *start_ticks, unsigned long long *virtual_bytes,
	long long *resident_pages)
{
	char text[2048] = { 0 };
	FILE *file = fopen("/proc/self/stat", "re");
	if (!file) {
		return -1;
	}
	(void)!fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	const char *rest = strrchr(text, ')');
	/* Behind it: state, 18 numbers, starttime, vsize, rss. */
	return rest &&
			sscanf(rest + 1,
				" %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
				"%*s %*s %*s %llu %llu %lld",
				start_ticks, virtual_bytes, resident_pages) == 3
		? 0
		: -1;
}

static double boot_time(void)
{
	double boot = 0;
	char line[512];
	FILE *file = fopen("/proc/stat", "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "btime %lf", &boot) == 1) {
			break;
		}
	}
	if (file) {
		fclose(file);
	}
	return boot;
}

static int open_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	if (!directory) {
		return -1;
	}
	int count = -3; /* itself, "." and ".." */
	while (readdir(directory)) {
		count++;
	}
	closedir(directory);
	return count;
}

void metrics_write_process(enum metrics_format format, struct buffer *out)
{
	struct writer writer = { out, format };
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	write_sample(&writer, "process_cpu_seconds_total", "counter", "User and system CPU time.",
		(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
	unsigned long long start_ticks;
	unsigned long long virtual_bytes;
	long long resident_pages;
	if (read_stat(&start_ticks, &virtual_bytes, &resident_pages) == 0) {
		write_sample(&writer, "process_resident_memory_bytes", "gauge", "Resident memory.",
			(double)resident_pages * (double)sysconf(_SC_PAGESIZE));
		write_sample(&writer, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
			(double)virtual_bytes);
		write_sample(&writer, "process_start_time_seconds", "gauge",
			"Start of the process, since 1970.",
			boot_time() + (double)start_ticks / (double)sysconf(_SC_CLK_TCK));
	}
	int descriptors = open_descriptors();
	if (descriptors >= 0) {
		write_sample(&writer, "process_open_fds", "gauge", "Open file descriptors.",
			descriptors);
	}
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		write_sample(&writer, "process_max_fds", "gauge", "Limit of open file descriptors.",
			(double)limit.rlim_cur);
	}
}
